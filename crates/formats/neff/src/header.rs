//! The 1024-byte header (neff 1.1).

use crate::FeatureBits;
use crate::error::invalid;
use std::borrow::Cow;
use tenon_base::{Error, ErrorKind, Location, Result};

/// Bytes of the header.
pub const HEADER_BYTES: usize = 1024;

/// The highest `neff_version_major` that is read.
pub const MAX_VERSION_MAJOR: u64 = 2;

/// All fields of the header. Text fields keep their bytes, so that decoding and encoding round-trip.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Header {
    /// 1: plain tar and a 32-byte sha256; 2: gzip and a 16-byte md5.
    pub pkg_version: u64,
    /// Bytes before the payload.
    pub header_size: u64,
    /// Bytes of the payload, its padding included.
    pub data_size: u64,
    /// NEFF major version.
    pub version_major: u64,
    /// NEFF minor version.
    pub version_minor: u64,
    /// The tool that built it, up to the first zero byte.
    pub build_version: [u8; 128],
    /// Physical cores it needs.
    pub num_tpb: u32,
    /// Hash of the payload; md5 fills 16 bytes.
    pub hash: [u8; 32],
    /// A unique id.
    pub uuid: [u8; 16],
    /// Its name, up to the first zero byte.
    pub name: [u8; 256],
    /// Cores requested when compiling.
    pub requested_tpb_count: u32,
    /// Cores of each kelf node.
    pub tpb_per_node: [u8; 64],
    /// Features that a loader must support.
    pub feature_bits: FeatureBits,
    /// Physical cores of a logical core.
    pub lnc_size: u32,
    /// The rest, zero in all known files.
    pub pad: [u8; 468],
}

impl Header {
    /// The header of a package of one core that Tenon writes: sizes, hash and uuid are filled in
    /// by the writer.
    pub fn tenon(name: &str, pkg_version: u64) -> Self {
        let mut tpb_per_node = [0; 64];
        tpb_per_node[0] = 1;
        Self {
            pkg_version,
            header_size: HEADER_BYTES as u64,
            data_size: 0,
            version_major: 2,
            version_minor: 0,
            build_version: text_field(concat!("tenon ", env!("CARGO_PKG_VERSION"))),
            num_tpb: 1,
            hash: [0; 32],
            uuid: [0; 16],
            name: text_field(name),
            requested_tpb_count: 1,
            tpb_per_node,
            feature_bits: FeatureBits::TENON_HOST_PROGRAM,
            lnc_size: 1,
            pad: [0; 468],
        }
    }

    /// Decodes the header at the start of `bytes` and checks the fields that determine how the rest
    /// is read.
    pub fn decode(bytes: &[u8]) -> Result<Self> {
        let Some((head, _)) = bytes.split_first_chunk::<HEADER_BYTES>() else {
            return Err(invalid("the header is cut short")
                .expected("1024 bytes")
                .found(bytes.len()));
        };
        let mut fields = Fields(head);
        let header = Self {
            pkg_version: u64::from_le_bytes(fields.take()),
            header_size: u64::from_le_bytes(fields.take()),
            data_size: u64::from_le_bytes(fields.take()),
            version_major: u64::from_le_bytes(fields.take()),
            version_minor: u64::from_le_bytes(fields.take()),
            build_version: fields.take(),
            num_tpb: u32::from_le_bytes(fields.take()),
            hash: fields.take(),
            uuid: fields.take(),
            name: fields.take(),
            requested_tpb_count: u32::from_le_bytes(fields.take()),
            tpb_per_node: fields.take(),
            feature_bits: FeatureBits(u64::from_le_bytes(fields.take())),
            lnc_size: u32::from_le_bytes(fields.take()),
            pad: fields.take(),
        };
        header.check()?;
        Ok(header)
    }

    fn check(&self) -> Result<()> {
        if !matches!(self.pkg_version, 1 | 2) {
            return Err(
                unsupported("an unknown package version, or not a NEFF file")
                    .expected("1 or 2")
                    .found(self.pkg_version)
                    .at(Location::field("pkg_version")),
            );
        }
        if self.version_major > MAX_VERSION_MAJOR {
            return Err(unsupported("an unknown NEFF version")
                .expected("0.x to 2.x")
                .found(format_args!(
                    "{}.{}",
                    self.version_major, self.version_minor
                ))
                .at(Location::field("neff_version_major")));
        }
        if self.header_size < HEADER_BYTES as u64 {
            return Err(invalid("a header size smaller than the header")
                .expected("at least 1024")
                .found(self.header_size)
                .at(Location::field("header_size")));
        }
        Ok(())
    }

    /// The 1024 bytes.
    pub fn encode(&self) -> [u8; HEADER_BYTES] {
        let parts: [&[u8]; 15] = [
            &self.pkg_version.to_le_bytes(),
            &self.header_size.to_le_bytes(),
            &self.data_size.to_le_bytes(),
            &self.version_major.to_le_bytes(),
            &self.version_minor.to_le_bytes(),
            &self.build_version,
            &self.num_tpb.to_le_bytes(),
            &self.hash,
            &self.uuid,
            &self.name,
            &self.requested_tpb_count.to_le_bytes(),
            &self.tpb_per_node,
            &self.feature_bits.0.to_le_bytes(),
            &self.lnc_size.to_le_bytes(),
            &self.pad,
        ];
        let mut bytes = [0; HEADER_BYTES];
        let mut rest = &mut bytes[..];
        for part in parts {
            let (field, after) = rest.split_at_mut(part.len());
            field.copy_from_slice(part);
            rest = after;
        }
        bytes
    }

    /// The name as text.
    pub fn name_text(&self) -> Cow<'_, str> {
        text(&self.name)
    }

    /// Sets the name, truncated at a character boundary to the size of the field.
    pub fn set_name(&mut self, name: &str) {
        self.name = text_field(name);
    }

    /// Sets the tool that built it, truncated in the same way.
    pub fn set_build_version(&mut self, version: &str) {
        self.build_version = text_field(version);
    }

    /// The tool that built it as text.
    pub fn build_version_text(&self) -> Cow<'_, str> {
        text(&self.build_version)
    }

    /// Whether Tenon wrote the package, so that it has a host program.
    pub fn is_tenon(&self) -> bool {
        self.feature_bits.contains(FeatureBits::TENON_HOST_PROGRAM)
            && self.build_version.starts_with(b"tenon ")
    }

    /// The uuid in its usual form.
    pub fn uuid_text(&self) -> String {
        let hex = hex(&self.uuid);
        [
            &hex[..8],
            &hex[8..12],
            &hex[12..16],
            &hex[16..20],
            &hex[20..],
        ]
        .join("-")
    }

    /// The hash in hexadecimal digits: 16 bytes for `pkg_version` 2, else 32.
    pub fn hash_text(&self) -> String {
        let len = if self.pkg_version == 2 { 16 } else { 32 };
        hex(&self.hash[..len])
    }
}

/// Reads the fields of a header in sequence.
struct Fields<'a>(&'a [u8]);

impl Fields<'_> {
    /// The next `N` bytes. The fields of a header add up to its 1024 bytes, which a test checks;
    /// bytes beyond would read as zeros.
    fn take<const N: usize>(&mut self) -> [u8; N] {
        match self.0.split_first_chunk() {
            Some((&field, rest)) => {
                self.0 = rest;
                field
            }
            None => [0; N],
        }
    }
}

/// `text`, truncated at a character boundary so that the last byte is zero.
fn text_field<const N: usize>(text: &str) -> [u8; N] {
    let mut field = [0; N];
    let mut len = text.len().min(N - 1);
    while !text.is_char_boundary(len) {
        len -= 1;
    }
    field[..len].copy_from_slice(&text.as_bytes()[..len]);
    field
}

fn text(field: &[u8]) -> Cow<'_, str> {
    let end = field
        .iter()
        .position(|&byte| byte == 0)
        .unwrap_or(field.len());
    String::from_utf8_lossy(&field[..end])
}

/// Bytes as hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unsupported(message: &str) -> Error {
    Error::new(ErrorKind::UnsupportedVersion, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_have_the_documented_offsets() {
        let mut header = Header::tenon("a model", 1);
        header.data_size = 0x1122;
        header.hash[0] = 0xab;
        header.uuid[15] = 0xcd;
        header.lnc_size = 7;
        let bytes = header.encode();
        assert_eq!(bytes[0], 1);
        assert_eq!(bytes[16..18], [0x22, 0x11]);
        assert_eq!(&bytes[40..46], b"tenon ");
        assert_eq!(bytes[168], 1);
        assert_eq!(bytes[172], 0xab);
        assert_eq!(bytes[219], 0xcd);
        assert_eq!(&bytes[220..227], b"a model");
        assert_eq!(bytes[476], 1);
        assert_eq!(bytes[480], 1);
        assert_eq!(bytes[544..552], (1u64 << 62).to_le_bytes());
        assert_eq!(bytes[552], 7);
        assert_eq!(Header::decode(&bytes).unwrap(), header);
        assert!(header.is_tenon());
    }

    #[test]
    fn every_byte_round_trips() {
        let mut bytes: Vec<u8> = (0..HEADER_BYTES).map(|i| (i * 7 + 1) as u8).collect();
        bytes[..8].copy_from_slice(&2u64.to_le_bytes());
        bytes[8..16].copy_from_slice(&1024u64.to_le_bytes());
        bytes[24..32].copy_from_slice(&2u64.to_le_bytes());
        assert_eq!(Header::decode(&bytes).unwrap().encode()[..], bytes);
    }

    #[test]
    fn long_names_are_truncated_at_character_boundaries() {
        let header = Header::tenon(&"é".repeat(200), 1);
        assert_eq!(header.name_text(), "é".repeat(127));
    }

    #[test]
    fn errors_of_headers_name_the_field() {
        let fails = |bytes: &[u8]| Header::decode(bytes).unwrap_err();
        assert_eq!(fails(&[]).kind(), ErrorKind::InvalidPackage);
        let mut bytes = Header::tenon("x", 3).encode();
        assert_eq!(fails(&bytes).kind(), ErrorKind::UnsupportedVersion);
        bytes[0] = 1;
        bytes[24] = 3;
        assert_eq!(
            fails(&bytes).to_string(),
            "neff_version_major: an unknown NEFF version: expected 0.x to 2.x, found 3.0"
        );
        bytes[24] = 2;
        bytes[9] = 0;
        assert_eq!(fails(&bytes).kind(), ErrorKind::InvalidPackage);
    }
}
