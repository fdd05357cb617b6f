//! Certificates of tests, in PEM form.

#![allow(dead_code, reason = "each test file is a separate program")]

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa,
    KeyPair, KeyUsagePurpose,
};

/// A certificate authority.
pub struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    pub fn new(name: &str) -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        params.distinguished_name.push(DnType::CommonName, name);
        let key = KeyPair::generate().expect("a key");
        Self(CertifiedIssuer::self_signed(params, key).expect("an authority"))
    }

    /// The certificate of the authority.
    pub fn certificate(&self) -> String {
        pem("CERTIFICATE", self.0.der())
    }

    /// A certificate for localhost, as a server and as a client, and its key.
    pub fn issue(&self) -> (String, String) {
        let names = ["localhost", "127.0.0.1"].map(str::to_owned);
        let mut params = CertificateParams::new(names).expect("names");
        params.extended_key_usages = vec![
            ExtendedKeyUsagePurpose::ServerAuth,
            ExtendedKeyUsagePurpose::ClientAuth,
        ];
        let key = KeyPair::generate().expect("a key");
        let certificate = params.signed_by(&key, &self.0).expect("a certificate");
        let key = pem("PRIVATE KEY", &key.serialize_der());
        (pem("CERTIFICATE", certificate.der()), key)
    }
}

/// PEM text (RFC 7468).
pub fn pem(label: &str, bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = format!("-----BEGIN {label}-----\n");
    for line in bytes.chunks(48) {
        for three in line.chunks(3) {
            let byte = |at: usize| u32::from(three.get(at).copied().unwrap_or(0));
            let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
            for digit in 0..4 {
                let value = (bits >> (18 - 6 * digit)) & 63;
                let is_padding = digit > three.len();
                text.push(if is_padding {
                    '='
                } else {
                    char::from(DIGITS[value as usize])
                });
            }
        }
        text.push('\n');
    }
    text + &format!("-----END {label}-----\n")
}
