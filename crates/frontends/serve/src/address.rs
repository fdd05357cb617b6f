//! Addresses that a server listens on, as text.

use std::net::{IpAddr, Ipv4Addr};
use tenon::{Error, ErrorKind, Result};

pub use std::net::SocketAddr;

/// The address of a text: `HOST:PORT` with a numeric host or `localhost`; `:PORT` and `PORT` are on 127.0.0.1.
///
/// # Errors
/// Another text.
pub fn parse_address(text: &str) -> Result<SocketAddr> {
    let mut local = text.strip_prefix("localhost:").or(text.strip_prefix(':'));
    let port = local.get_or_insert(text).parse::<u16>();
    if let Ok(port) = port {
        return Ok((IpAddr::V4(Ipv4Addr::LOCALHOST), port).into());
    }
    text.parse().map_err(|_| {
        Error::new(ErrorKind::Usage, format!("'{text}' is no address and port"))
            .expected("one such as 127.0.0.1:8000, [::1]:8000 or :8000")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_local_unless_they_name_a_host() {
        let of = |text| parse_address(text).map(|address| address.to_string());
        for text in [":8000", "8000", "localhost:8000", "127.0.0.1:8000"] {
            assert_eq!(of(text).unwrap(), "127.0.0.1:8000", "{text}");
        }
        assert_eq!(of("[::1]:0").unwrap(), "[::1]:0");
        assert_eq!(of("0.0.0.0:80").unwrap(), "0.0.0.0:80");
        for text in ["", ":", "host:80", ":99999", "1.2.3.4", "localhost:"] {
            assert!(of(text).is_err(), "{text}");
        }
    }
}
