use super::*;
use crate::test_certificates::{Authority, pem};
use std::fs;
use std::sync::atomic::{AtomicUsize, Ordering};

struct Folder {
    folder: tempfile::TempDir,
    authority: Authority,
}

impl Folder {
    /// A folder with a certificate of the server, its key, and the authority.
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let authority = Authority::new("tests");
        let some = Self { folder, authority };
        some.issue();
        some.write("authority", some.authority.certificate());
        some
    }

    fn issue(&self) {
        let (certificate, key) = self.authority.issue();
        self.write("certificate", certificate);
        self.write("key", key);
    }

    fn write(&self, name: &str, text: impl AsRef<[u8]>) {
        fs::write(self.folder.path().join(name), text).unwrap();
    }

    fn files(&self, certificate: &str, key: &str, authority: Option<&str>) -> TlsFiles {
        let at = |name: &str| self.folder.path().join(name);
        TlsFiles {
            certificate: at(certificate),
            key: at(key),
            client_authority: authority.map(at),
        }
    }
}

#[test]
fn files_that_cannot_be_used_are_named_with_the_problem() {
    let some = Folder::new();
    some.write("empty", "");
    some.write("cut", "-----BEGIN CERTIFICATE-----\nAAAA\n");
    some.write("garbage", pem("CERTIFICATE", b"no certificate"));
    some.write("no-key", pem("PRIVATE KEY", b"no key"));
    some.write("locked", pem("ENCRYPTED PRIVATE KEY", b"some"));
    some.write("other-key", some.authority.issue().1);
    let refused = |certificate: &str, key: &str, authority: Option<&str>, parts: &[&str]| {
        let files = some.files(certificate, key, authority);
        let error = Tls::new(files, |_| {}).expect_err(parts[0]);
        let texts: Vec<String> = error
            .all()
            .map(|error| error.single().to_string())
            .collect();
        assert_eq!(texts.len(), parts.len(), "{texts:?}");
        for (text, part) in texts.iter().zip(parts) {
            assert!(text.contains(part), "{text:?} has no {part:?}");
        }
    };
    refused("none", "key", None, &["none: cannot read"]);
    refused(
        "empty",
        "key",
        None,
        &["empty: the file has no certificate"],
    );
    refused("cut", "key", None, &["cut: the PEM text is malformed"]);
    refused(
        "garbage",
        "key",
        None,
        &["garbage: the certificate is malformed"],
    );
    refused(
        "certificate",
        "certificate",
        None,
        &["certificate: the file has no private key"],
    );
    refused(
        "certificate",
        "locked",
        None,
        &["locked: the key is encrypted"],
    );
    refused(
        "certificate",
        "no-key",
        None,
        &["no-key: the key cannot be used"],
    );
    refused(
        "certificate",
        "other-key",
        None,
        &["other-key: the key does not belong"],
    );
    refused(
        "certificate",
        "key",
        Some("garbage"),
        &["garbage: certificate 1 cannot be"],
    );
    // All problems at once.
    refused(
        "empty",
        "none",
        Some("key"),
        &["key: the file has no", "empty: the", "none: cannot"],
    );
    assert!(Tls::new(some.files("certificate", "key", Some("authority")), |_| {}).is_ok());
}

#[test]
fn broken_files_leave_the_certificates_before_them() {
    let some = Folder::new();
    static FAILED: AtomicUsize = AtomicUsize::new(0);
    static RELOADED: AtomicUsize = AtomicUsize::new(0);
    let count = |event: &TlsEvent| match event {
        TlsEvent::Reloaded => RELOADED.fetch_add(1, Ordering::Relaxed),
        TlsEvent::Failed { .. } => FAILED.fetch_add(1, Ordering::Relaxed),
    };
    let log = move |event: &TlsEvent| {
        count(event);
    };
    let tls = Tls::new(some.files("certificate", "key", None), log).unwrap();
    let counts = || {
        (
            RELOADED.load(Ordering::Relaxed),
            FAILED.load(Ordering::Relaxed),
        )
    };
    let first = tls.config();
    tls.reload_if_changed();
    assert_eq!(counts(), (0, 0));
    some.write("key", "no longer a key");
    tls.reload_if_changed();
    // Reported once, not at each look.
    tls.reload_if_changed();
    assert_eq!(counts(), (0, 1));
    assert!(Arc::ptr_eq(&tls.config(), &first));
    some.issue();
    tls.reload_if_changed();
    assert_eq!(counts(), (1, 1));
    assert!(!Arc::ptr_eq(&tls.config(), &first));
    tls.reload();
    assert_eq!(counts(), (2, 1));
}
