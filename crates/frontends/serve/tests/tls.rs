//! TLS: encrypted connections of HTTP/1.1 and HTTP/2, certificates of clients, certificates that are replaced.

mod common;

use bytes::Bytes;
use common::certificates::Authority;
use common::{Served, request, serve, wait_until};
use http_body_util::{BodyExt, Full};
use hyper::Request;
use hyper_util::rt::{TokioExecutor, TokioIo};
use std::io::{Read, Write};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tempfile::TempDir;
use tenon_serve::{Server, ServerOptions, Tls, TlsEvent, TlsFiles};
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio_rustls::rustls::{
    ClientConfig, ClientConnection, RootCertStore, StreamOwned, SupportedProtocolVersion, version,
};

/// The files of a server.
struct Files {
    folder: TempDir,
    authority: Authority,
}

impl Files {
    fn new() -> Self {
        let authority = Authority::new("authority of the server");
        let folder = tempfile::tempdir().unwrap();
        let files = Self { folder, authority };
        files.issue(&files.authority);
        files
    }

    /// Replaces certificate and key of the server.
    fn issue(&self, authority: &Authority) {
        let (certificate, key) = authority.issue();
        self.write("certificate", &certificate);
        self.write("key", &key);
    }

    fn write(&self, name: &str, text: &str) {
        std::fs::write(self.folder.path().join(name), text).unwrap();
    }

    fn tls(&self, clients: Option<&Authority>) -> Arc<Tls> {
        self.tls_with_events(clients, |_| {})
    }

    fn tls_with_events(
        &self,
        clients: Option<&Authority>,
        events: impl Fn(&TlsEvent) + Send + Sync + 'static,
    ) -> Arc<Tls> {
        let at = |name: &str| self.folder.path().join(name);
        let files = TlsFiles {
            certificate: at("certificate"),
            key: at("key"),
            client_authority: clients.map(|authority| {
                self.write("clients", &authority.certificate());
                at("clients")
            }),
        };
        Arc::new(Tls::new(files, events).unwrap())
    }
}

fn served(tls: &Arc<Tls>) -> Served {
    serve(
        |options: &mut ServerOptions| options.tls = Some(tls.clone()),
        |_| {},
    )
}

/// A client that trusts an authority, with a certificate of another.
fn client(trusted: &Authority, own: Option<&Authority>) -> ClientConfig {
    client_of(&[&version::TLS13, &version::TLS12], trusted, own)
}

fn client_of(
    versions: &[&'static SupportedProtocolVersion],
    trusted: &Authority,
    own: Option<&Authority>,
) -> ClientConfig {
    let certificate = |text: &str| CertificateDer::from_pem_slice(text.as_bytes()).unwrap();
    let mut roots = RootCertStore::empty();
    roots.add(certificate(&trusted.certificate())).unwrap();
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let builder = builder.with_protocol_versions(versions).unwrap();
    let builder = builder.with_root_certificates(roots);
    match own {
        None => builder.with_no_client_auth(),
        Some(own) => {
            let (own, key) = own.issue();
            let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap();
            builder
                .with_client_auth_cert(vec![certificate(&own)], key)
                .unwrap()
        }
    }
}

/// The answer to a request for a page.
fn get(served: &Served, config: ClientConfig) -> std::io::Result<String> {
    let name = ServerName::try_from("localhost").unwrap();
    let client = ClientConnection::new(Arc::new(config), name).unwrap();
    let mut stream = StreamOwned::new(client, served.connect());
    let close = [("Connection", "close")];
    stream.write_all(&request("GET", "/v2/health/ready", &close, b""))?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}

fn is_answered(served: &Served, config: ClientConfig) -> bool {
    get(served, config).is_ok_and(|answer| answer.starts_with("HTTP/1.1 200"))
}

#[test]
fn requests_are_encrypted() {
    let files = Files::new();
    let served = served(&files.tls(None));
    for versions in [&version::TLS13, &version::TLS12] {
        let config = client_of(&[versions], &files.authority, None);
        assert!(get(&served, config).unwrap().starts_with("HTTP/1.1 200"));
    }
    // A client that does not trust the authority of the server.
    let error = get(&served, client(&Authority::new("another"), None)).unwrap_err();
    assert!(error.to_string().contains("certificate"), "{error}");
    // A client whose only protocol is one that the server lacks.
    let mut config = client(&files.authority, None);
    config.alpn_protocols = vec![b"h3".to_vec()];
    assert!(get(&served, config).is_err());
}

#[test]
fn clients_need_a_certificate_of_their_authority() {
    let files = Files::new();
    let clients = Authority::new("authority of clients");
    let served = served(&files.tls(Some(&clients)));
    let trusted = &files.authority;
    assert!(is_answered(&served, client(trusted, Some(&clients))));
    assert!(get(&served, client(trusted, None)).is_err());
    // The authority of the server is not that of clients.
    assert!(get(&served, client(trusted, Some(trusted))).is_err());
    assert!(get(&served, client(trusted, Some(&Authority::new("another")))).is_err());
}

#[test]
fn other_addresses_need_certificates_of_clients() {
    let files = Files::new();
    let start = |tls: Arc<Tls>| {
        let mut options = ServerOptions::new("0.0.0.0:0".parse().unwrap());
        options.tls = Some(tls);
        let models = tenon_serve::RepositoryOptions::default();
        let models = tenon_serve::Repository::new(files.folder.path(), models, |_| {});
        Server::start(options, Arc::new(models.unwrap())).map(drop)
    };
    let error = start(files.tls(None)).unwrap_err();
    assert!(error.to_string().contains("other machines"), "{error}");
    assert!(start(files.tls(Some(&files.authority))).is_ok());
}

#[test]
fn replaced_certificates_are_used_and_broken_ones_are_not() {
    let files = Files::new();
    let events: Arc<Mutex<Vec<String>>> = Arc::default();
    let log = events.clone();
    let tls = files.tls_with_events(None, move |event| {
        log.lock().unwrap().push(format!("{event:?}"));
    });
    let served = served(&tls);
    files.write("certificate", "half of a cert");
    wait_until("the broken file is read", || {
        !events.lock().unwrap().is_empty()
    });
    assert!(events.lock().unwrap()[0].contains("no certificate"));
    assert!(is_answered(&served, client(&files.authority, None)));
    let next = Authority::new("the next authority");
    files.issue(&next);
    wait_until("the new certificate is used", || {
        is_answered(&served, client(&next, None))
    });
    assert!(get(&served, client(&files.authority, None)).is_err());
    assert_eq!(events.lock().unwrap().last().unwrap(), "Reloaded");
}

#[test]
fn requests_that_are_not_encrypted_are_refused_in_words() {
    let files = Files::new();
    let served = served(&files.tls(None));
    let answer = served.get("/v2/health/ready");
    assert_eq!(
        (answer.status, answer.error().contains("https://")),
        (400, true)
    );
    let mut stream = served.connect();
    stream.write_all(b"\x00\x01 neither of both").unwrap();
    let mut rest = Vec::new();
    let _ = stream.read_to_end(&mut rest);
    // A TLS alert at most.
    assert!(rest.len() < 10, "{rest:?}");
}

#[test]
fn slow_handshakes_are_ended() {
    let files = Files::new();
    let tls = files.tls(None);
    let served = serve(
        |options| {
            options.tls = Some(tls);
            options.handshake_timeout = Duration::from_millis(100);
        },
        |_| {},
    );
    let begin = Instant::now();
    for start in [&b""[..], b"\x16", b"\x16\x03\x01\x02\x00\x01\x00"] {
        let mut stream = served.connect();
        stream.write_all(start).unwrap();
        let mut rest = Vec::new();
        let _ = stream.read_to_end(&mut rest);
        assert!(rest.is_empty(), "{rest:?}");
    }
    assert!(begin.elapsed() < Duration::from_secs(20));
    assert!(is_answered(&served, client(&files.authority, None)));
}

#[test]
fn calls_of_grpc_are_encrypted() {
    let files = Files::new();
    let served = served(&files.tls(None));
    let mut config = client(&files.authority, None);
    config.alpn_protocols = vec![b"h2".to_vec()];
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build();
    let (status, bytes) = runtime.unwrap().block_on(async {
        let stream = tokio::net::TcpStream::connect(served.address)
            .await
            .unwrap();
        let name = ServerName::try_from("localhost").unwrap();
        let stream = TlsConnector::from(Arc::new(config))
            .connect(name, stream)
            .await
            .unwrap();
        assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"h2"[..]));
        let handshake =
            hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream));
        let (mut sender, connection) = handshake.await.unwrap();
        tokio::spawn(connection);
        let request = Request::post("https://localhost/inference.GRPCInferenceService/ServerLive")
            .header("content-type", "application/grpc")
            .body(Full::new(Bytes::from_static(&[0; 5])));
        let answer = sender.send_request(request.unwrap()).await.unwrap();
        let body = answer.into_body().collect().await.unwrap();
        let status = body.trailers().unwrap()["grpc-status"].clone();
        (status, body.to_bytes())
    });
    // Field 1 is true.
    assert_eq!(
        (status.as_bytes(), &bytes[..]),
        (&b"0"[..], &[0, 0, 0, 0, 2, 8, 1][..])
    );
}
