//! Writes the header blocks of an archive entry.

use tenon_base::{Error, ErrorKind, Location, Result};

/// Archives are made of blocks of this many bytes.
pub(crate) const BLOCK: usize = 512;

/// Sizes from here on do not fit the octal digits of a ustar header.
const USTAR_LIMIT: u64 = 1 << 33;

/// The header of a regular file, preceded by blocks for values that exceed its fields: a GNU block
/// with a long name, a pax record with a size of 8 GiB or more.
pub(crate) fn entry(name: &str, size: u64) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    if size >= USTAR_LIMIT {
        let record = pax_record("size", &size.to_string());
        append(
            &mut bytes,
            "PaxHeaders/size",
            tar::EntryType::XHeader,
            record.as_bytes(),
        )?;
    }
    let mut header = header(size, tar::EntryType::Regular);
    if header.set_path(name).is_err() {
        let mut long = name.as_bytes().to_vec();
        long.push(0);
        append(
            &mut bytes,
            "././@LongLink",
            tar::EntryType::GNULongName,
            &long,
        )?;
        // For readers without support for long names: a part of the name that fits the field.
        let plain = name.chars().filter(|&c| c.is_ascii_alphanumeric());
        let short: String = "long-".chars().chain(plain).take(90).collect();
        header
            .set_path(short)
            .map_err(|error| bad_name(name, error))?;
    }
    header.set_cksum();
    bytes.extend_from_slice(header.as_bytes());
    Ok(bytes)
}

/// The zeros after a member of `len` bytes.
pub(crate) fn padding(len: usize) -> &'static [u8] {
    &[0; BLOCK][..len.next_multiple_of(BLOCK) - len]
}

fn header(size: u64, kind: tar::EntryType) -> tar::Header {
    let mut header = tar::Header::new_ustar();
    header.set_entry_type(kind);
    header.set_size(size);
    header.set_mode(0o644);
    header.set_uid(0);
    header.set_gid(0);
    header.set_mtime(0);
    header
}

fn append(to: &mut Vec<u8>, name: &str, kind: tar::EntryType, data: &[u8]) -> Result<()> {
    let mut header = header(data.len() as u64, kind);
    header
        .set_path(name)
        .map_err(|error| bad_name(name, error))?;
    header.set_cksum();
    to.extend_from_slice(header.as_bytes());
    to.extend_from_slice(data);
    to.extend_from_slice(padding(data.len()));
    Ok(())
}

/// `LENGTH KEY=VALUE\n`; the length includes its own digits.
fn pax_record(key: &str, value: &str) -> String {
    let rest = format!(" {key}={value}\n");
    let mut len = rest.len();
    while len != rest.len() + len.to_string().len() {
        len = rest.len() + len.to_string().len();
    }
    format!("{len}{rest}")
}

fn bad_name(name: &str, error: std::io::Error) -> Error {
    let text = format!("invalid member name: {error}");
    Error::new(ErrorKind::InvalidArgument, text).at(Location::member(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn record_lengths_include_their_digits() {
        assert_eq!(pax_record("size", "8589934592"), "19 size=8589934592\n");
        assert_eq!(pax_record("k", "v"), "6 k=v\n");
        assert_eq!(pax_record("k", "123456"), "12 k=123456\n");
    }

    #[test]
    fn sizes_above_the_ustar_limit_have_a_pax_record() {
        assert_eq!(entry("a", USTAR_LIMIT - 1).unwrap().len(), BLOCK);
        let bytes = entry("a", USTAR_LIMIT + 5).unwrap();
        assert_eq!(bytes.len(), 3 * BLOCK);
        assert!(bytes[BLOCK..].starts_with(b"19 size=8589934597\n"));
        let header = tar::Header::from_byte_slice(&bytes[2 * BLOCK..]);
        assert_eq!(header.entry_size().unwrap(), USTAR_LIMIT + 5);
    }
}
