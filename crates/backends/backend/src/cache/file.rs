//! A file of the cache.
//!
//! | offset | bytes | contents |
//! |---|---|---|
//! | 0 | 8 | `TENONC01` |
//! | 8 | 32 | BLAKE3 of all bytes after it |
//! | 40 | 12 | the lengths of backend, version and key, 32 bits each, little-endian |
//! | 52 | 8 | the length of the entry's bytes, little-endian |
//! | 60 | | backend, version and key in UTF-8, then the entry's bytes |

const MAGIC: &[u8; 8] = b"TENONC01";

/// The offset of what the digest covers, and of the texts.
const COVERED: usize = 40;
const TEXTS: usize = 60;

/// Maximum length of a key, and of the other texts, in bytes.
pub const MAX_KEY: usize = 4096;
const MAX_NAME: usize = 256;

/// Maximum size of a file without the entry's bytes.
pub(super) const MAX_HEAD: usize = TEXTS + 2 * MAX_NAME + MAX_KEY;

/// What a file contains.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CacheFile<'a> {
    /// Id of the backend.
    pub backend: &'a str,
    /// The version of the interface for which it was made.
    pub version: &'a str,
    /// The backend's key.
    pub key: &'a str,
    /// The bytes of the entry.
    pub bytes: &'a [u8],
}

impl<'a> CacheFile<'a> {
    /// Reads a file; `None` if it is damaged.
    pub fn parse(file: &'a [u8]) -> Option<Self> {
        let (found, rest) = Self::split(file)?;
        let digest = file.get(8..COVERED)?;
        let is_whole = found.bytes.len() == rest && digest == digest_of(&[file.get(COVERED..)?]);
        is_whole.then_some(found)
    }

    /// Reads the texts of a file from its beginning. The bytes are those that are there, and not compared with the digest.
    pub(super) fn head(beginning: &'a [u8]) -> Option<Self> {
        Self::split(beginning).map(|(found, _)| found)
    }

    /// The texts and what follows them, and the length that the file states for that.
    fn split(file: &'a [u8]) -> Option<(Self, usize)> {
        let length = |at: usize| Some(u32::from_le_bytes(file.get(at..at + 4)?.try_into().ok()?));
        if file.get(..8)? != MAGIC {
            return None;
        }
        let stated = u64::from_le_bytes(file.get(52..TEXTS)?.try_into().ok()?);
        let mut rest = &file[TEXTS..];
        let mut text = |at, most| {
            let length = usize::try_from(length(at)?).ok()?;
            let (text, after) = rest.split_at_checked(length)?;
            rest = after;
            std::str::from_utf8(text).ok().filter(|_| length <= most)
        };
        let found = Self {
            backend: text(40, MAX_NAME)?,
            version: text(44, MAX_NAME)?,
            key: text(48, MAX_KEY)?,
            bytes: &[],
        };
        let found = Self {
            bytes: rest,
            ..found
        };
        Some((found, usize::try_from(stated).ok()?))
    }

    /// The bytes of the file before those of the entry.
    pub fn to_head(&self) -> Vec<u8> {
        let texts = [self.backend, self.version, self.key];
        let mut covered = Vec::with_capacity(MAX_HEAD);
        for text in texts {
            covered.extend((text.len() as u32).to_le_bytes());
        }
        covered.extend((self.bytes.len() as u64).to_le_bytes());
        texts.iter().for_each(|text| covered.extend(text.bytes()));
        let digest = digest_of(&[&covered, self.bytes]);
        [&MAGIC[..], &digest, &covered].concat()
    }

    /// The size of the file.
    pub(super) fn size(&self) -> u64 {
        let texts = self.backend.len() + self.version.len() + self.key.len();
        (TEXTS + texts) as u64 + self.bytes.len() as u64
    }

    /// Whether the texts are short enough for a file.
    pub fn is_valid(&self) -> bool {
        let names = self.backend.len().max(self.version.len());
        names <= MAX_NAME && self.key.len() <= MAX_KEY
    }

    /// Whether both have the same texts.
    pub(super) fn is_named_as(&self, other: &CacheFile<'_>) -> bool {
        (self.backend, self.version, self.key) == (other.backend, other.version, other.key)
    }

    /// The name of the file: a digest of the texts.
    pub fn name(&self) -> String {
        let length = |text: &str| (text.len() as u64).to_le_bytes();
        let [backend, version] = [self.backend, self.version].map(length);
        let parts = [
            &backend[..],
            self.backend.as_bytes(),
            &version,
            self.version.as_bytes(),
            self.key.as_bytes(),
        ];
        blake3::Hash::from(digest_of(&parts)).to_hex().to_string()
    }
}

/// Whether it is the name of a file of the cache.
pub(super) fn is_name(name: &str) -> bool {
    name.len() == 64 && name.bytes().all(|digit| digit.is_ascii_hexdigit())
}

fn digest_of(parts: &[&[u8]]) -> [u8; 32] {
    let mut hasher = blake3::Hasher::new();
    for part in parts {
        hasher.update(part);
    }
    *hasher.finalize().as_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn bytes(file: &CacheFile<'_>) -> Vec<u8> {
        [&file.to_head()[..], file.bytes].concat()
    }

    fn example() -> CacheFile<'static> {
        CacheFile {
            backend: "Npu",
            version: "1.3",
            key: "driver 7, é",
            bytes: &[1, 2, 3],
        }
    }

    #[test]
    fn truncated_and_damaged_files_are_absent() {
        let whole = bytes(&example());
        assert_eq!(CacheFile::parse(&whole), Some(example()));
        assert_eq!(whole.len() as u64, example().size());
        for length in 0..whole.len() {
            assert_eq!(CacheFile::parse(&whole[..length]), None, "{length}");
        }
        for at in 0..whole.len() {
            for bit in 0..8 {
                let mut damaged = whole.clone();
                damaged[at] ^= 1 << bit;
                assert_eq!(CacheFile::parse(&damaged), None, "bit {bit} of byte {at}");
            }
        }
        assert_eq!(CacheFile::parse(&[&whole[..], &[0]].concat()), None);
    }

    #[test]
    fn names_depend_on_every_text() {
        let file = |backend, version, key| CacheFile {
            backend,
            version,
            key,
            bytes: &[],
        };
        let names = [
            file("a", "b", "c"),
            file("ab", "", "c"),
            file("a", "bc", ""),
            file("", "ab", "c"),
            file("a", "b", "cc"),
        ]
        .map(|file| file.name());
        assert!(names.iter().all(|name| is_name(name)));
        for (at, name) in names.iter().enumerate() {
            assert!(!names[at + 1..].contains(name), "{name}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_read(file: Vec<u8>) {
            prop_assert_eq!(CacheFile::parse(&file), None);
            CacheFile::head(&file);
        }

        #[test]
        fn any_lengths_are_read(lengths: [u8; 20], rest: Vec<u8>) {
            let file = [&MAGIC[..], &[0; 32], &lengths, &rest].concat();
            prop_assert_eq!(CacheFile::parse(&file), None);
            CacheFile::head(&file);
        }

        #[test]
        fn what_is_written_is_read(backend: String, version: String, key: String, entry: Vec<u8>) {
            let file = CacheFile { backend: &backend, version: &version, key: &key, bytes: &entry };
            let read = bytes(&file);
            prop_assert_eq!(CacheFile::parse(&read), file.is_valid().then_some(file));
        }
    }
}
