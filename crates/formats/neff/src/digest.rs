//! `digests.json`: the BLAKE3 digest of every member (docs/package.md). All members are checked on
//! all cores, or a single constant at its first use.
//!
//! BLAKE3 is a hash tree (O'Connor et al., "BLAKE3: one function, fast everywhere", 2020): threads
//! hash subtrees of one member, and the result does not depend on their number.

use crate::error::{collect, invalid};
use crate::object::object;
use crate::{Name, Package, Table, parallel};
use blake3::hazmat::{self, ChainingValue, HasherExt, Mode};
use std::collections::HashMap;
use std::fmt;
use std::sync::OnceLock;
use tenon_base::{Control, Location, Result};
use tenon_tensor::Buffer;

/// The name of the member.
pub const DIGESTS_JSON: &str = "digests.json";

/// The newest `format` that is read, and the one that is written.
const FORMAT: u32 = 1;

/// Bytes that one thread hashes at a time: a complete subtree of BLAKE3's tree.
const SUBTREE: usize = 1 << 20;

/// A BLAKE3 digest. Display is 64 hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Digest(pub [u8; 32]);

impl Digest {
    /// The digest of `bytes`, computed on all cores.
    pub fn of(bytes: &[u8]) -> Self {
        all(&[bytes], &Control::new())
            .map_or_else(|_| Self::single_threaded(bytes), |digests| digests[0])
    }

    fn single_threaded(bytes: &[u8]) -> Self {
        Self(*blake3::hash(bytes).as_bytes())
    }

    /// Reads 64 hexadecimal digits.
    pub fn parse(text: &str) -> Option<Self> {
        blake3::Hash::from_hex(text)
            .ok()
            .map(|hash| Self(*hash.as_bytes()))
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(blake3::Hash::from_bytes(self.0).to_hex().as_str())
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The digests of all `members`, computed on all cores: members above [`SUBTREE`] in parts.
pub(crate) fn all(members: &[&[u8]], control: &Control) -> Result<Vec<Digest>> {
    let parts_of = |len: usize| len.div_ceil(SUBTREE).max(1);
    let parts = members
        .iter()
        .flat_map(|bytes| (0..parts_of(bytes.len())).map(move |part| (*bytes, part)));
    let hashes = parallel::map(parts, |(bytes, part)| {
        (!control.is_cancelled()).then(|| subtree_hash(bytes, part))
    });
    control.check()?;
    let mut next = hashes.into_iter().map(Option::unwrap_or_default);
    let join = |bytes: &&[u8]| {
        let hashes: Vec<ChainingValue> = next.by_ref().take(parts_of(bytes.len())).collect();
        match &hashes[..] {
            [one] => Digest(*one),
            many => Digest(root(many, bytes.len())),
        }
    };
    Ok(members.iter().map(join).collect())
}

/// The digest of a member that is one subtree, or the chaining value of subtree `part` of several.
fn subtree_hash(bytes: &[u8], part: usize) -> ChainingValue {
    if bytes.len() <= SUBTREE {
        return Digest::single_threaded(bytes).0;
    }
    let start = part * SUBTREE;
    let end = bytes.len().min(start + SUBTREE);
    let mut hasher = blake3::Hasher::new();
    hasher.set_input_offset(start as u64);
    hasher.update(&bytes[start..end]);
    hasher.finalize_non_root()
}

/// The root of the subtrees of `len` bytes; there are at least two.
fn root(subtrees: &[ChainingValue], len: usize) -> [u8; 32] {
    let (left, right) = halves(subtrees, len);
    *hazmat::merge_subtrees_root(&left, &right, Mode::Hash).as_bytes()
}

fn halves(subtrees: &[ChainingValue], len: usize) -> (ChainingValue, ChainingValue) {
    let left = hazmat::left_subtree_len(len as u64) as usize;
    let (first, second) = subtrees.split_at(left / SUBTREE);
    (inner(first, left), inner(second, len - left))
}

fn inner(subtrees: &[ChainingValue], len: usize) -> ChainingValue {
    match subtrees {
        [one] => *one,
        many => {
            let (left, right) = halves(many, len);
            hazmat::merge_subtrees_non_root(&left, &right, Mode::Hash)
        }
    }
}

object! {
    /// `digests.json` as it is stored.
    #[derive(Default)]
    pub struct JsonDigests {
        /// The version of this member's format.
        pub format: u32 = "format",
        /// The hash; `blake3`.
        pub hash: Name = "hash",
        /// The digest of the list: of each member its name, a zero byte, its size as 8 bytes
        /// (little-endian) and its digest.
        pub list: Name = "list",
        /// All members except `digests.json`.
        pub members: Table<JsonDigest> = "members",
    }
}

object! {
    /// The digest of one member as it is stored.
    #[derive(Default)]
    pub struct JsonDigest {
        /// Its bytes.
        pub size: u64 = "size",
        /// Its digest, 64 hexadecimal digits.
        pub digest: Name = "digest",
    }
}

/// The digests of a package's members.
#[derive(Debug, Clone, Default)]
pub struct Digests {
    members: Vec<(String, u64, Digest)>,
    by_name: HashMap<String, usize>,
}

impl Digests {
    /// Adds a member; false when the name is already present.
    pub fn add(&mut self, name: &str, size: u64, digest: Digest) -> bool {
        let fresh = self
            .by_name
            .insert(name.to_owned(), self.members.len())
            .is_none();
        self.members.push((name.to_owned(), size, digest));
        fresh
    }

    /// The members: name, size, digest.
    pub fn iter(&self) -> impl Iterator<Item = (&str, u64, Digest)> {
        self.members
            .iter()
            .map(|(name, size, digest)| (name.as_str(), *size, *digest))
    }

    /// The size and digest of a member.
    pub fn find(&self, name: &str) -> Option<(u64, Digest)> {
        let (_, size, digest) = self.members.get(*self.by_name.get(name)?)?;
        Some((*size, *digest))
    }

    /// The digest of the list.
    fn list(&self) -> Digest {
        let mut hasher = blake3::Hasher::new();
        for (name, size, digest) in &self.members {
            hasher.update(name.as_bytes());
            hasher.update(&[0]);
            hasher.update(&size.to_le_bytes());
            hasher.update(&digest.0);
        }
        Digest(*hasher.finalize().as_bytes())
    }

    /// The stored form.
    pub fn to_stored(&self) -> JsonDigests {
        let member = |(name, size, digest): &(String, u64, Digest)| {
            let digest = digest.to_string().into();
            (
                name.clone(),
                JsonDigest {
                    size: *size,
                    digest,
                    other: Default::default(),
                },
            )
        };
        JsonDigests {
            format: FORMAT,
            hash: "blake3".into(),
            list: self.list().to_string().into(),
            members: Table(self.members.iter().map(member).collect()),
            other: Default::default(),
        }
    }

    /// Reads the stored form and checks the digest of the list.
    pub fn from_stored(stored: &JsonDigests) -> Result<Self> {
        let field = |name: &str| Location::field(name.to_owned());
        if stored.format > FORMAT {
            let error = invalid("digests.json has a newer format")
                .expected(FORMAT)
                .found(stored.format);
            return Err(error.at(field("format")));
        }
        if *stored.hash != *"blake3" {
            let error = invalid("unknown hash function")
                .expected("blake3")
                .found(&stored.hash);
            return Err(error.at(field("hash")));
        }
        let mut digests = Self::default();
        for (name, member) in stored.members.iter() {
            let digest = Digest::parse(&member.digest).ok_or_else(|| {
                let error = invalid("malformed digest").expected("64 hexadecimal digits");
                error
                    .found(&member.digest)
                    .at(field(&format!("members['{name}']")))
            })?;
            digests.add(name, member.size, digest);
        }
        let list = digests.list();
        if Digest::parse(&stored.list) != Some(list) {
            let error = invalid("the list of digests was changed");
            return Err(error.expected(&stored.list).found(list).at(field("list")));
        }
        Ok(digests)
    }

    /// The digests of a package; `None` when it has none.
    pub fn read(package: &Package) -> Result<Option<Self>> {
        if package.member(DIGESTS_JSON).is_none() {
            return Ok(None);
        }
        let stored: JsonDigests = package.json(DIGESTS_JSON)?;
        let read = Self::from_stored(&stored);
        read.map(Some)
            .map_err(|error| package.locate(error.at(Location::member(DIGESTS_JSON))))
    }

    /// Checks the bytes of a member.
    pub fn check(&self, name: &str, bytes: &[u8]) -> Result<()> {
        let place = || Location::member(name);
        let (size, digest) = self
            .find(name)
            .ok_or_else(|| invalid("the member is not in digests.json").at(place()))?;
        if size != bytes.len() as u64 {
            let error = invalid("the member's size differs from digests.json");
            return Err(error.expected(size).found(bytes.len()).at(place()));
        }
        let found = Digest::of(bytes);
        if found != digest {
            let error = invalid("the member was changed: its digest differs from digests.json");
            return Err(error.expected(digest).found(found).at(place()));
        }
        Ok(())
    }
}

/// A package whose members are checked at their first use.
#[derive(Debug)]
pub struct VerifiedPackage {
    package: Package,
    digests: Option<Digests>,
    checked: Vec<OnceLock<bool>>,
}

impl VerifiedPackage {
    /// Reads the digests and no member. Members of a package without digests are not checked.
    pub fn new(package: Package) -> Result<Self> {
        let digests = Digests::read(&package)?;
        let count = digests.as_ref().map_or(0, |digests| digests.members.len());
        Ok(Self {
            package,
            digests,
            checked: (0..count).map(|_| OnceLock::new()).collect(),
        })
    }

    /// The package.
    pub fn package(&self) -> &Package {
        &self.package
    }

    /// The bytes of a member. The first call hashes them; several threads may call.
    pub fn member(&self, name: &str) -> Result<Buffer> {
        let bytes = self.package.require(name)?;
        let Some(digests) = self.digests.as_ref().filter(|_| name != DIGESTS_JSON) else {
            return Ok(bytes);
        };
        let at = digests.by_name.get(name).copied();
        let slot = at.and_then(|at| self.checked.get(at));
        if slot.is_some_and(|slot| *slot.get_or_init(|| digests.check(name, &bytes).is_ok())) {
            return Ok(bytes);
        }
        digests
            .check(name, &bytes)
            .map_err(|error| self.package.locate(error))?;
        Ok(bytes)
    }

    /// Checks members that were not used yet, on all threads; reports every member that differs.
    pub fn check(&self, names: &[String]) -> Result<()> {
        collect(parallel::map(names, |name| self.member(name).map(drop))).map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Header, Limits, PackageWriter};
    use tenon_tensor::BufferMut;

    #[test]
    fn subtrees_combine_to_the_digest_of_the_member() {
        // The digest of zero bytes as published by the authors of BLAKE3.
        let empty = "af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262";
        assert_eq!(Digest::of(b"").to_string(), empty);
        let lens = [
            1,
            1024,
            SUBTREE - 1,
            SUBTREE,
            SUBTREE + 1,
            2 * SUBTREE,
            5 * SUBTREE + 77,
        ];
        for len in lens {
            let bytes: Vec<u8> = (0..len).map(|i| (i * 7 % 251) as u8).collect();
            assert_eq!(Digest::of(&bytes), Digest::single_threaded(&bytes), "{len}");
        }
        let members: Vec<Vec<u8>> = (0..5).map(|i| vec![i as u8; i * 700_000]).collect();
        let slices: Vec<&[u8]> = members.iter().map(|member| &member[..]).collect();
        let expected: Vec<Digest> = slices
            .iter()
            .map(|bytes| Digest::single_threaded(bytes))
            .collect();
        assert_eq!(all(&slices, &Control::new()).unwrap(), expected);
    }

    fn package(change: impl FnOnce(&mut Vec<u8>)) -> Package {
        let mut writer = PackageWriter::in_memory(Header::tenon("x", 1))
            .unwrap()
            .with_digests();
        writer.add("a.bin", b"first").unwrap();
        writer.add("b.bin", b"second").unwrap();
        let mut bytes = writer.finish().unwrap().0.to_vec();
        change(&mut bytes);
        let buffer = BufferMut::copy_of(&bytes).unwrap().freeze();
        Package::from_buffer(buffer, &Limits::default(), &Control::new()).unwrap()
    }

    #[test]
    fn members_are_checked_at_their_first_use() {
        let good = VerifiedPackage::new(package(|_| {})).unwrap();
        assert_eq!(&good.member("a.bin").unwrap()[..], b"first");
        let bad = package(|bytes| {
            let at = bytes
                .windows(6)
                .position(|window| window == b"second")
                .unwrap();
            bytes[at] = b'S';
        });
        let bad = VerifiedPackage::new(bad).unwrap();
        assert!(bad.member("a.bin").is_ok());
        for _ in 0..2 {
            let error = bad.member("b.bin").unwrap_err();
            assert!(
                error
                    .to_string()
                    .starts_with("b.bin: the member was changed"),
                "{error}"
            );
        }
        assert!(bad.member("c.bin").is_err());
        assert!(bad.member(DIGESTS_JSON).is_ok());
    }

    #[test]
    fn a_changed_list_is_an_error() {
        let mut stored = Digests::read(&package(|_| {}))
            .unwrap()
            .unwrap()
            .to_stored();
        assert!(Digests::from_stored(&stored).is_ok());
        stored.members.0[0].1.size += 1;
        let error = Digests::from_stored(&stored).unwrap_err();
        assert!(
            error
                .to_string()
                .starts_with("list: the list of digests was changed"),
            "{error}"
        );
        stored.format = 2;
        assert!(
            Digests::from_stored(&stored)
                .unwrap_err()
                .to_string()
                .starts_with("format")
        );
    }
}
