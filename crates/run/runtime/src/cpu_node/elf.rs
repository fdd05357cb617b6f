//! Checks that an ELF file is not truncated: the loader maps segments as the tables state, and an
//! access beyond the end of the file would raise SIGBUS.

use tenon_base::{Error, ErrorKind, Result};

/// The tables of a 64-bit little-endian ELF file (System V ABI, chapters 4 and 5): the header
/// offsets of table offset, entry size and entry count.
const SEGMENTS: [usize; 3] = [0x20, 0x36, 0x38];
const SECTIONS: [usize; 3] = [0x28, 0x3a, 0x3c];

/// Checks that the tables of segments and sections, and all segments, are inside the file. Other
/// kinds of files are left to the loader, which reads only their header.
pub(super) fn check_whole(file: &[u8]) -> Result<()> {
    const CLASS_64_LITTLE_ENDIAN: &[u8] = b"\x7fELF\x02\x01";
    if !file.starts_with(CLASS_64_LITTLE_ENDIAN) {
        return Ok(());
    }
    let whole = || {
        let segments = table(file, SEGMENTS)?;
        table(file, SECTIONS)?;
        for at in segments {
            let (start, size) = (number::<8>(file, at + 0x08)?, number::<8>(file, at + 0x20)?);
            (start.checked_add(size)? <= file.len() as u64).then_some(())?;
        }
        Some(())
    };
    whole().ok_or_else(|| {
        Error::new(ErrorKind::InvalidPackage, "the library is truncated")
            .found(format_args!("{} bytes", file.len()))
    })
}

/// The offset of each entry of a table; `None` if the table is not inside the file.
fn table(file: &[u8], [place, size, count]: [usize; 3]) -> Option<Vec<usize>> {
    let start = number::<8>(file, place)?;
    let (size, count) = (number::<2>(file, size)?, number::<2>(file, count)?);
    let end = start.checked_add(size.checked_mul(count)?)?;
    (end <= file.len() as u64).then_some(())?;
    Some(
        (0..count)
            .map(|index| (start + index * size) as usize)
            .collect(),
    )
}

/// An integer of `N` bytes, little-endian.
fn number<const N: usize>(file: &[u8], at: usize) -> Option<u64> {
    let bytes = file.get(at..at.checked_add(N)?)?;
    let number = bytes
        .iter()
        .rev()
        .fold(0, |number, &byte| number << 8 | u64::from(byte));
    Some(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_system_library_is_accepted_and_truncations_are_rejected() {
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        let path = maps
            .lines()
            .filter(|line| line.contains("libc.so"))
            .find_map(|line| line.find('/').map(|at| &line[at..]));
        let file = std::fs::read(path.unwrap()).unwrap();
        check_whole(&file).unwrap();
        for length in [16, 64, 999, file.len() / 2, file.len() - 1] {
            let error = check_whole(&file[..length]).unwrap_err();
            assert!(
                error.to_string().starts_with("the library is truncated"),
                "{error}"
            );
        }
        check_whole(b"no library").unwrap();
    }
}
