//! The index of a tar archive in memory: POSIX ustar with pax headers, and GNU long names. Reads
//! only entry headers, not the data of members.

use crate::error::invalid;
use std::collections::HashMap;
use std::ops::Range;
use tenon_base::{Location, Result};

const BLOCK: usize = 512;

/// The longest extended header that is read: a path and some integers.
const EXTENDED_LIMIT: usize = 1 << 20;

/// The byte range of each member in the archive.
#[derive(Debug, Clone, Default)]
pub(crate) struct Index {
    members: Vec<(String, Range<usize>)>,
    by_name: HashMap<String, usize>,
}

impl Index {
    pub(crate) fn find(&self, name: &str) -> Option<Range<usize>> {
        self.by_name
            .get(name)
            .and_then(|&index| self.members.get(index))
            .map(|(_, r)| r.clone())
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, Range<usize>)> {
        self.members
            .iter()
            .map(|(name, range)| (name.as_str(), range.clone()))
    }

    /// Reads the entry headers of `archive` up to the first block of zeros, or its end.
    pub(crate) fn read(archive: &dyn Blocks) -> Result<Self> {
        let mut reader = Reader {
            archive,
            position: 0,
            index: Self::default(),
        };
        while reader
            .entry()
            .map_err(|error| error.at(Location::offset(reader.position as u64)))?
        {}
        Ok(reader.index)
    }
}

/// Random access to the bytes of an archive.
pub(crate) trait Blocks {
    /// Their number.
    fn len(&self) -> usize;

    /// Fills `to` with the bytes from `position` on, which must be inside the archive.
    fn copy(&self, position: usize, to: &mut [u8]) -> Result<()>;
}

impl Blocks for &[u8] {
    fn len(&self) -> usize {
        <[u8]>::len(self)
    }

    fn copy(&self, position: usize, to: &mut [u8]) -> Result<()> {
        let from = self.get(position..).and_then(|rest| rest.get(..to.len()));
        to.copy_from_slice(from.ok_or_else(|| invalid("the archive is cut short"))?);
        Ok(())
    }
}

/// Values of extended headers for the next entry.
#[derive(Default)]
struct Extended {
    path: Option<String>,
    size: Option<u64>,
}

struct Reader<'a> {
    archive: &'a dyn Blocks,
    position: usize,
    index: Index,
}

impl Reader<'_> {
    /// Reads one member with the extended headers before it; false at the end of the archive.
    fn entry(&mut self) -> Result<bool> {
        let mut extended = Extended::default();
        loop {
            let Some(block) = self.block()? else {
                return Ok(false);
            };
            let size = match block[156] {
                b'L' | b'x' | b'g' | b'K' => number(&block[124..136])?,
                _ => extended.size.map_or_else(|| number(&block[124..136]), Ok)?,
            };
            let range = self.data(size)?;
            match block[156] {
                b'L' => extended.path = Some(utf8(until_zero(&self.bytes(range)?))?),
                b'x' => read_pax(&self.bytes(range)?, &mut extended)?,
                // Global headers are ignored; so are long link names, since links are refused.
                b'g' | b'K' => {}
                b'0' | 0 | b'7' => {
                    let name = extended
                        .path
                        .take()
                        .map_or_else(|| ustar_name(&block), Ok)?;
                    self.add(&name, range)?;
                    return Ok(true);
                }
                // The names of files imply their folders.
                b'5' => return Ok(true),
                b'1' | b'2' => return Err(invalid("a link in the archive")),
                other => {
                    let error = invalid("an archive entry that is not a file");
                    return Err(error.found(format_args!("type '{}'", other.escape_ascii())));
                }
            }
        }
    }

    /// The data of an extended header.
    fn bytes(&self, range: Range<usize>) -> Result<Vec<u8>> {
        if range.len() > EXTENDED_LIMIT {
            let error = invalid("an extended header that is too long");
            return Err(error.expected(EXTENDED_LIMIT).found(range.len()));
        }
        let mut bytes = vec![0; range.len()];
        self.archive.copy(range.start, &mut bytes)?;
        Ok(bytes)
    }

    /// The next header block, checked; `None` at the end.
    fn block(&mut self) -> Result<Option<[u8; BLOCK]>> {
        let rest = self.archive.len().saturating_sub(self.position);
        if rest == 0 {
            return Ok(None);
        }
        if rest < BLOCK {
            return Err(invalid("the archive ends inside a header"));
        }
        let mut block = [0; BLOCK];
        self.archive.copy(self.position, &mut block)?;
        if block.iter().all(|&byte| byte == 0) {
            return Ok(None);
        }
        let stored = number(&block[148..156])?;
        let expected = checksum(&block);
        if stored != expected && i64::try_from(stored) != Ok(signed_checksum(&block)) {
            return Err(invalid("an archive header with a wrong checksum")
                .expected(expected)
                .found(stored));
        }
        self.position += BLOCK;
        Ok(Some(block))
    }

    /// The range of the entry's data; advances past it.
    fn data(&mut self, size: u64) -> Result<Range<usize>> {
        let start = self.position;
        let end = usize::try_from(size)
            .ok()
            .and_then(|size| start.checked_add(size))
            .filter(|&end| end <= self.archive.len())
            .ok_or_else(|| {
                invalid("a member reaches past the end of the archive")
                    .expected(format_args!("at most {} bytes", self.archive.len() - start))
                    .found(size)
            })?;
        // The last member's padding may be cut off.
        self.position = end.next_multiple_of(BLOCK).min(self.archive.len());
        Ok(start..end)
    }

    fn add(&mut self, name: &str, range: Range<usize>) -> Result<()> {
        let name = name.strip_prefix("./").unwrap_or(name);
        let inside = |part: &str| !part.is_empty() && part != "." && part != "..";
        if !name.split('/').all(inside) || name.contains(['\0', '\\']) {
            let error = invalid("a member name that leads outside of the package");
            return Err(error.found(format_args!("{name:?}")));
        }
        if self
            .index
            .by_name
            .insert(name.to_owned(), self.index.members.len())
            .is_some()
        {
            return Err(invalid("two members of the same name").at(Location::member(name)));
        }
        self.index.members.push((name.to_owned(), range));
        Ok(())
    }
}

/// The sum of all bytes, the checksum field taken as spaces. Opening a package spends most of its
/// time here.
fn checksum(block: &[u8; BLOCK]) -> u64 {
    let sum = |bytes: &[u8]| bytes.iter().map(|&byte| u32::from(byte)).sum::<u32>();
    u64::from(sum(block) - sum(&block[148..156]) + 8 * u32::from(b' '))
}

/// The checksum of some historic writers: a sum of signed bytes.
fn signed_checksum(block: &[u8; BLOCK]) -> i64 {
    let sum = |bytes: &[u8]| bytes.iter().map(|&byte| i64::from(byte as i8)).sum::<i64>();
    sum(block) - sum(&block[148..156]) + 8 * i64::from(b' ')
}

/// The name in a header block; POSIX archives have the folders in a separate field, `prefix`.
fn ustar_name(block: &[u8; BLOCK]) -> Result<String> {
    let name = until_zero(&block[..100]);
    let prefix = until_zero(&block[345..500]);
    if &block[257..263] == b"ustar\0" && !prefix.is_empty() {
        return utf8(&[prefix, b"/", name].concat());
    }
    utf8(name)
}

/// Reads the records of a pax header: `LENGTH KEY=VALUE\n`; the length includes its own digits.
fn read_pax(mut records: &[u8], extended: &mut Extended) -> Result<()> {
    let broken = || invalid("a broken pax header");
    while !records.is_empty() && records[0] != 0 {
        let space = records
            .iter()
            .take(20)
            .position(|&byte| byte == b' ')
            .ok_or_else(broken)?;
        let length = decimal(&records[..space]).ok_or_else(broken)?;
        let length = usize::try_from(length).map_err(|_| broken())?;
        let record = records.get(space + 1..length).ok_or_else(broken)?;
        let record = record.strip_suffix(b"\n").ok_or_else(broken)?;
        let equals = record
            .iter()
            .position(|&byte| byte == b'=')
            .ok_or_else(broken)?;
        let (key, value) = (&record[..equals], &record[equals + 1..]);
        match key {
            b"path" => extended.path = Some(utf8(value)?),
            b"size" => extended.size = Some(decimal(value).ok_or_else(broken)?),
            _ => {}
        }
        records = records.get(length..).unwrap_or_default();
    }
    Ok(())
}

fn decimal(digits: &[u8]) -> Option<u64> {
    // `parse` would accept a sign.
    let all_digits = !digits.is_empty() && digits.iter().all(u8::is_ascii_digit);
    all_digits
        .then(|| std::str::from_utf8(digits).ok()?.parse().ok())
        .flatten()
}

/// A number of a header: octal digits, or (GNU) a big-endian number with the top bit set.
fn number(field: &[u8]) -> Result<u64> {
    let broken = || invalid("a broken number in an archive header");
    if let Some((&first, rest)) = field.split_first()
        && first & 0x80 != 0
    {
        let mut value = u64::from(first & 0x7f);
        for &byte in rest {
            let shifted = value.checked_mul(256).ok_or_else(broken)?;
            value = shifted | u64::from(byte);
        }
        return Ok(value);
    }
    let digits = until_zero(field).trim_ascii();
    digits.iter().try_fold(0u64, |value, &digit| {
        let digit = char::from(digit).to_digit(8).ok_or_else(broken)?;
        Ok(value.checked_mul(8).ok_or_else(broken)? + u64::from(digit))
    })
}

fn until_zero(field: &[u8]) -> &[u8] {
    let end = field
        .iter()
        .position(|&byte| byte == 0)
        .unwrap_or(field.len());
    &field[..end]
}

fn utf8(bytes: &[u8]) -> Result<String> {
    String::from_utf8(bytes.to_owned()).map_err(|_| invalid("a member name that is not UTF-8"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use tar::{Builder, EntryType, Header};

    fn archive(new: fn() -> Header, names: &[&str]) -> Vec<u8> {
        let mut builder = Builder::new(Vec::new());
        for (index, name) in names.iter().enumerate() {
            let data = vec![index as u8 + 1; index * 300];
            let mut header = new();
            header.set_size(data.len() as u64);
            builder.append_data(&mut header, name, &data[..]).unwrap();
        }
        builder.into_inner().unwrap()
    }

    #[test]
    fn ustar_and_gnu_archives_with_long_names_are_read() {
        let long = format!("{}/{}", "folder".repeat(12), "file".repeat(12));
        let longer = "very/".repeat(70) + "long";
        let names = ["a.json", long.as_str(), longer.as_str(), "sg00/b.bin"];
        for new in [Header::new_ustar, Header::new_gnu] {
            let bytes = archive(new, &names);
            let index = Index::read(&&bytes[..]).unwrap();
            for (position, name) in names.iter().enumerate() {
                let range = index.find(name).unwrap();
                assert_eq!(bytes[range], vec![position as u8 + 1; position * 300]);
            }
            assert_eq!(index.iter().count(), 4);
        }
    }

    #[test]
    fn names_and_sizes_of_pax_headers_are_read() {
        let mut builder = Builder::new(Vec::new());
        let long = "p/".repeat(150) + "x";
        builder
            .append_pax_extensions([("path", long.as_bytes()), ("size", b"5")])
            .unwrap();
        let mut header = Header::new_ustar();
        header.set_path("short").unwrap();
        header.set_size(5);
        header.set_cksum();
        builder.append(&header, &b"hello"[..]).unwrap();
        let bytes = builder.into_inner().unwrap();
        assert_eq!(
            bytes[Index::read(&&bytes[..]).unwrap().find(&long).unwrap()],
            *b"hello"
        );
    }

    /// A sparse archive: the data of members reads as zeros.
    struct SparseArchive(Vec<u8>, usize);

    impl Blocks for SparseArchive {
        fn len(&self) -> usize {
            self.1
        }

        fn copy(&self, position: usize, to: &mut [u8]) -> Result<()> {
            let there = self.0.get(position..).unwrap_or_default();
            to.fill(0);
            let len = to.len().min(there.len());
            to[..len].copy_from_slice(&there[..len]);
            Ok(())
        }
    }

    #[test]
    #[cfg(target_pointer_width = "64")]
    fn members_above_eight_gib_are_indexed() {
        const SIZE: usize = (9 << 30) + 5;
        let head = crate::tar_entry::entry("large", SIZE as u64).unwrap();
        let start = head.len();
        let index = Index::read(&SparseArchive(head, start + SIZE + 2048)).unwrap();
        assert_eq!(index.find("large").unwrap(), start..start + SIZE);
        // As GNU tar writes it: a base-256 size without a pax header.
        let mut header = Header::new_gnu();
        header.set_path("large").unwrap();
        header.set_size(SIZE as u64);
        header.set_cksum();
        let archive = SparseArchive(header.as_bytes().to_vec(), 512 + SIZE);
        assert_eq!(
            Index::read(&archive).unwrap().find("large").unwrap(),
            512..512 + SIZE
        );
        let error = Index::read(&SparseArchive(archive.0, 4096)).unwrap_err();
        assert!(error.to_string().contains("past the end"), "{error}");
    }

    fn raw(name: &[u8], kind: EntryType) -> Vec<u8> {
        let mut header = Header::new_ustar();
        header.as_mut_bytes()[..name.len()].copy_from_slice(name);
        header.set_entry_type(kind);
        header.set_size(0);
        header.set_cksum();
        header.as_bytes().to_vec()
    }

    #[test]
    fn hostile_entries_are_refused() {
        let message = |bytes: &[u8]| Index::read(&bytes).unwrap_err().to_string();
        for name in [&b"/etc/passwd"[..], b"a/../b", b"..", b"", b"a//b", b"a\\b"] {
            assert!(
                message(&raw(name, EntryType::Regular)).contains("outside"),
                "{name:?}"
            );
        }
        assert!(message(&raw(b"a", EntryType::Symlink)).contains("a link"));
        assert!(message(&raw(b"a", EntryType::Fifo)).contains("not a file"));
        let twice = [
            raw(b"a", EntryType::Regular),
            raw(b"./a", EntryType::Regular),
        ]
        .concat();
        assert!(message(&twice).contains("two members"));
        let mut wrong = raw(b"a", EntryType::Regular);
        wrong[0] = b'b';
        assert!(message(&wrong).contains("checksum"));
    }

    proptest! {
        #[test]
        fn cut_and_changed_archives_never_panic(
            cut in 0usize..6000,
            position in 0usize..6000,
            byte in any::<u8>(),
        ) {
            let mut bytes = archive(Header::new_gnu, &["a", "b/c", "d", &"e".repeat(200)]);
            bytes.truncate(cut);
            if let Some(changed) = bytes.get_mut(position) {
                *changed = byte;
            }
            if let Ok(index) = Index::read(&&bytes[..]) {
                for (_, range) in index.iter() {
                    prop_assert!(range.end <= bytes.len());
                }
            }
        }

        #[test]
        fn any_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..2000)) {
            let _ = Index::read(&&bytes[..]);
        }

        #[test]
        fn any_pax_header_never_panics(bytes in "[0-9 =\npathsize]{0,60}") {
            let _ = read_pax(bytes.as_bytes(), &mut Extended::default());
        }
    }
}
