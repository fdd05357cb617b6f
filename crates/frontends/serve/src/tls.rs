//! TLS: certificates and keys from PEM files, which are read again when they change.

use crate::model_files::FileStamp;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tenon::{Error, ErrorKind, Location, Result};
use tokio_rustls::rustls::crypto::{CryptoProvider, ring};
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::server::{ServerConfig, WebPkiClientVerifier};
use tokio_rustls::rustls::sign::CertifiedKey;
use tokio_rustls::rustls::{self, RootCertStore};

/// The files of TLS, in PEM form.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsFiles {
    /// The certificate of the server, then those of its issuers up to the authority.
    pub certificate: PathBuf,
    /// The private key of the certificate.
    pub key: PathBuf,
    /// The authorities of clients; without them clients need no certificate.
    pub client_authority: Option<PathBuf>,
}

/// The certificates that new connections get.
pub struct Tls {
    files: TlsFiles,
    current: Mutex<Current>,
    events: Box<dyn Fn(&TlsEvent) + Send + Sync>,
}

struct Current {
    config: Arc<ServerConfig>,
    /// Of the files that were read last, whether they could be used or not.
    stamps: Stamps,
}

/// What changes when one of the files is replaced or written.
type Stamps = Vec<Option<FileStamp>>;

/// A change of the certificates, for the log.
#[derive(Debug)]
#[non_exhaustive]
pub enum TlsEvent {
    /// The files were read again.
    Reloaded,
    /// The files cannot be used; the certificates before them are kept.
    Failed {
        /// Why.
        error: Error,
    },
}

/// The protocols that a client may choose (RFC 7301).
const PROTOCOLS: [&[u8]; 2] = [HTTP2, b"http/1.1"];
/// HTTP/2 in that list.
pub const HTTP2: &[u8] = b"h2";

impl Tls {
    /// Reads the files. `events` receives every later change.
    ///
    /// # Errors
    /// A file that cannot be read or lacks what it should have; a key of another certificate.
    pub fn new(
        files: TlsFiles,
        events: impl Fn(&TlsEvent) + Send + Sync + 'static,
    ) -> Result<Self> {
        let current = Current {
            stamps: files.stamps(),
            config: files.read()?,
        };
        Ok(Self {
            files,
            current: Mutex::new(current),
            events: Box::new(events),
        })
    }

    /// Reads the files again. Open connections keep their keys; if the files cannot be used, so do new ones.
    pub fn reload(&self) {
        self.replace(self.files.stamps());
    }

    /// Reads the files again if one of them has changed.
    pub fn reload_if_changed(&self) {
        let stamps = self.files.stamps();
        if self.lock().stamps != stamps {
            self.replace(stamps);
        }
    }

    /// Whether clients need a certificate.
    pub fn has_client_authority(&self) -> bool {
        self.files.client_authority.is_some()
    }

    /// The configuration of a new connection.
    pub fn config(&self) -> Arc<ServerConfig> {
        self.lock().config.clone()
    }

    /// The stamps are those before the files are read: what is written meanwhile is read the next time.
    fn replace(&self, stamps: Stamps) {
        let read = self.files.read();
        let event = {
            let mut current = self.lock();
            current.stamps = stamps;
            match read {
                Ok(config) => {
                    current.config = config;
                    TlsEvent::Reloaded
                }
                Err(error) => TlsEvent::Failed { error },
            }
        };
        (self.events)(&event);
    }

    fn lock(&self) -> MutexGuard<'_, Current> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Tls").field(&self.files).finish()
    }
}

impl TlsFiles {
    fn stamps(&self) -> Stamps {
        let files = [&self.certificate, &self.key].into_iter();
        let files = files.chain(&self.client_authority);
        files.map(|path| FileStamp::at(path)).collect()
    }

    fn read(&self) -> Result<Arc<ServerConfig>> {
        let provider = Arc::new(ring::default_provider());
        let authority = self.client_authority.as_deref().map(authorities);
        let (authority, missing) = split(authority.transpose());
        let (key, unusable) = split(self.certified_key(&provider));
        let (Some(authority), Some(key)) = (authority, key) else {
            let problems = missing.into_iter().chain(unusable);
            return Err(Error::from_all(problems).unwrap_or_else(|| self.unusable("no key")));
        };
        let builder = ServerConfig::builder_with_provider(provider.clone());
        let builder = builder.with_safe_default_protocol_versions();
        let builder = builder.map_err(|error| self.unusable(error))?;
        let builder = match authority {
            None => builder.with_no_client_auth(),
            Some(roots) => {
                let verifier = WebPkiClientVerifier::builder_with_provider(roots, provider);
                let verifier = verifier.build().map_err(|error| self.unusable(error))?;
                builder.with_client_cert_verifier(verifier)
            }
        };
        let resolver = rustls::sign::SingleCertAndKey::from(key);
        let mut config = builder.with_cert_resolver(Arc::new(resolver));
        config.alpn_protocols = PROTOCOLS.map(<[u8]>::to_vec).into();
        Ok(Arc::new(config))
    }

    fn certified_key(&self, provider: &CryptoProvider) -> Result<CertifiedKey> {
        let (certificates, missing) = split(certificates(&self.certificate));
        let (key, unusable) = split(private_key(&self.key));
        let (Some(certificates), Some(key)) = (certificates, key) else {
            let problems = missing.into_iter().chain(unusable);
            return Err(Error::from_all(problems).unwrap_or_else(|| self.unusable("no key")));
        };
        CertifiedKey::from_der(certificates, key, provider).map_err(|error| match error {
            rustls::Error::InconsistentKeys(_) => {
                let certificate = self.certificate.display();
                let text =
                    format!("the key does not belong to the first certificate of {certificate}");
                problem(&self.key, text)
            }
            rustls::Error::InvalidCertificate(error) => problem(
                &self.certificate,
                format!("the certificate is malformed: {error:?}"),
            ),
            other => problem(&self.key, format!("the key cannot be used: {other}"))
                .expected("an RSA, ECDSA (P-256, P-384) or Ed25519 key"),
        })
    }

    fn unusable(&self, error: impl fmt::Display) -> Error {
        problem(
            &self.certificate,
            format!("TLS cannot use the files: {error}"),
        )
    }
}

/// A value or the reason why there is none, so that the problems of several files are reported together.
fn split<T>(read: Result<T>) -> (Option<T>, Option<Error>) {
    match read {
        Ok(value) => (Some(value), None),
        Err(error) => (None, Some(error)),
    }
}

fn problem(path: &Path, text: impl Into<String>) -> Error {
    Error::new(ErrorKind::Usage, text).at(Location::file(path))
}

/// The certificates of a file, at least one.
fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>> {
    let text = read(path)?;
    let certificates = CertificateDer::pem_slice_iter(&text).collect::<Result<Vec<_>, _>>();
    let certificates = certificates
        .map_err(|error| problem(path, format!("the PEM text is malformed: {error}")))?;
    if certificates.is_empty() {
        return Err(problem(path, "the file has no certificate")
            .expected("PEM text with -----BEGIN CERTIFICATE-----"));
    }
    Ok(certificates)
}

fn private_key(path: &Path) -> Result<PrivateKeyDer<'static>> {
    use rustls::pki_types::pem::Error as PemError;
    let text = read(path)?;
    PrivateKeyDer::from_pem_slice(&text).map_err(|error| match error {
        PemError::NoItemsFound if text.windows(9).any(|part| part == b"ENCRYPTED") => {
            problem(path, "the key is encrypted").help("openssl pkey -in KEY -out FILE decrypts it")
        }
        PemError::NoItemsFound => problem(path, "the file has no private key")
            .expected("PEM text with -----BEGIN PRIVATE KEY-----"),
        error => problem(path, format!("the PEM text is malformed: {error}")),
    })
}

/// The certificates of a file as authorities.
fn authorities(path: &Path) -> Result<Arc<RootCertStore>> {
    let mut roots = RootCertStore::empty();
    for (at, certificate) in certificates(path)?.into_iter().enumerate() {
        roots.add(certificate).map_err(|error| {
            let text = format!("certificate {} cannot be an authority: {error}", at + 1);
            problem(path, text)
        })?;
    }
    Ok(Arc::new(roots))
}

fn read(path: &Path) -> Result<Vec<u8>> {
    std::fs::read(path).map_err(|error| Error::io(path, "read", error))
}

#[cfg(test)]
mod tests;
