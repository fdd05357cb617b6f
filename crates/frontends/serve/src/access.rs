//! Which requests are allowed: tokens, and the names by which a loopback address may be called.

use crate::status::{Refusal, Status};
use blake3::Hash;
use hyper::header::{AUTHORIZATION, HOST, ORIGIN};
use hyper::{HeaderMap, Request};
use std::net::SocketAddr;
use std::path::Path;
use tenon::{Error, ErrorKind, Location, Result};

/// What a request does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// It reads whether the server works, which the supervisor of a cluster does without a token.
    Probe,
    /// It reads about models or executes them.
    Use,
    /// It changes which models are served.
    Administer,
}

/// The tokens of a server.
#[derive(Debug, Clone, Default)]
pub struct Access {
    token: Option<Token>,
    admin_token: Option<Token>,
    has_model_control: bool,
    has_shared_memory: bool,
}

/// A secret, kept as its hash: hashes are compared in constant time, and of one length.
#[derive(Clone, PartialEq, Eq)]
struct Token(Hash);

/// The least length of a token in bytes.
const MIN_TOKEN: usize = 16;

impl Access {
    /// Requires a token of all requests but probes.
    ///
    /// # Errors
    /// A file that cannot be read or has no token of 16 visible characters or more.
    pub fn token_file(mut self, path: &Path) -> Result<Self> {
        self.token = Some(read(path)?);
        Ok(self)
    }

    /// Allows changes of the models with this token.
    ///
    /// # Errors
    /// As [`Self::token_file`].
    pub fn admin_token_file(mut self, path: &Path) -> Result<Self> {
        self.admin_token = Some(read(path)?);
        Ok(self)
    }

    /// Allows programs of this machine to change the models without the admin token.
    #[must_use]
    pub fn model_control(mut self, is_allowed: bool) -> Self {
        self.has_model_control = is_allowed;
        self
    }

    /// Allows programs of this machine to use its shared memory in requests.
    #[must_use]
    pub fn shared_memory(mut self, is_allowed: bool) -> Self {
        self.has_shared_memory = is_allowed;
        self
    }

    /// Whether requests may use shared memory.
    pub fn has_shared_memory(&self) -> bool {
        self.has_shared_memory
    }

    /// Whether requests need a token.
    pub fn has_token(&self) -> bool {
        self.token.is_some()
    }

    /// Refuses to listen where any machine could use the models without a token. `is_allowed` is true for a server
    /// whose clients need certificates, or that allows everyone.
    ///
    /// # Errors
    /// An address that is not of the loopback interface, without a token and not allowed, or with what only programs of this
    /// machine may do.
    pub fn check_address(&self, address: SocketAddr, is_allowed: bool) -> Result<()> {
        let local = [
            (
                self.has_model_control,
                "--allow-model-control",
                "use --admin-token-file FILE instead",
            ),
            (
                self.has_shared_memory,
                "--allow-shared-memory",
                "leave it out",
            ),
        ];
        let flag = local.iter().find(|(is_allowed, ..)| *is_allowed);
        if let (false, Some((_, flag, other))) = (address.ip().is_loopback(), flag) {
            let text = format!(
                "{address} is reachable from other machines, and {flag} is for programs of this one"
            );
            let help = format!("listen on 127.0.0.1, or {other}");
            return Err(Error::new(ErrorKind::Usage, text).help(help));
        }
        if address.ip().is_loopback() || self.has_token() || is_allowed {
            return Ok(());
        }
        let text = format!("{address} is reachable from other machines, and no token is required");
        Err(Error::new(ErrorKind::Usage, text).help(
            "give --token-file FILE or --tls-client-ca FILE, listen on 127.0.0.1, or allow everyone with --insecure",
        ))
    }

    /// Checks a request to `address`.
    ///
    /// # Errors
    /// `Status::Unauthenticated`, `Status::Forbidden`, `Status::Misdirected`.
    pub fn check<B>(
        &self,
        request: &Request<B>,
        address: SocketAddr,
        action: Action,
    ) -> std::result::Result<(), Refusal> {
        if !self.has_token() && address.ip().is_loopback() && !names_loopback(request) {
            // DNS rebinding: a page of a site whose name resolves to 127.0.0.1 must not use the models.
            let text =
                "the host must be localhost, 127.0.0.1 or [::1]; with a token any host is allowed";
            return Err(Refusal::new(Status::Misdirected, text));
        }
        if (self.has_model_control || self.has_shared_memory)
            && !self.has_token()
            && action != Action::Probe
            && request.headers().contains_key(ORIGIN)
        {
            // Any page may send requests to localhost, which would change models or memory here.
            let text = "requests of pages in browsers (Origin) are refused where model control or shared memory is allowed";
            return Err(Refusal::new(Status::Forbidden, text));
        }
        let given = bearer(request.headers());
        let action = match action {
            Action::Administer if self.has_model_control => Action::Use,
            action => action,
        };
        let is = |known: &Option<Token>| known.is_some() && given.as_ref() == known.as_ref();
        match action {
            Action::Probe => Ok(()),
            Action::Administer if self.admin_token.is_none() => Err(Refusal::new(
                Status::Forbidden,
                "models are loaded and unloaded by requests only with --admin-token-file, or --allow-model-control",
            )),
            Action::Administer if is(&self.admin_token) => Ok(()),
            Action::Use if !self.has_token() || is(&self.token) || is(&self.admin_token) => Ok(()),
            Action::Use | Action::Administer => {
                let which = match action {
                    Action::Administer => "the admin token",
                    _ => "a token",
                };
                let text = format!("the request needs {which} (Authorization: Bearer TOKEN)");
                Err(Refusal::new(Status::Unauthenticated, text))
            }
        }
    }
}

impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Token")
    }
}

/// The token in the first line of a file.
fn read(path: &Path) -> Result<Token> {
    let text = std::fs::read_to_string(path).map_err(|error| Error::io(path, "read", error))?;
    let token = text.lines().next().unwrap_or_default().trim();
    if token.len() < MIN_TOKEN || !token.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(
            Error::new(ErrorKind::Usage, "the file has no token in its first line")
                .expected("at least 16 visible ASCII characters without spaces")
                .help("openssl rand -hex 32 > FILE makes one")
                .at(Location::file(path)),
        );
    }
    Ok(Token(blake3::hash(token.as_bytes())))
}

fn bearer(headers: &HeaderMap) -> Option<Token> {
    let value = headers.get(AUTHORIZATION)?.as_bytes();
    let (scheme, token) = value.split_at_checked("Bearer ".len())?;
    let is_bearer = scheme.eq_ignore_ascii_case(b"Bearer ");
    is_bearer.then(|| Token(blake3::hash(token.trim_ascii())))
}

/// Whether the host of a request is a name of the loopback interface.
fn names_loopback<B>(request: &Request<B>) -> bool {
    let is_loopback = |text: &str| {
        let name = match text.strip_prefix('[') {
            Some(rest) => rest.split(']').next().unwrap_or_default(),
            None => text.split(':').next().unwrap_or_default(),
        };
        let address = name.parse::<std::net::IpAddr>();
        name.eq_ignore_ascii_case("localhost") || address.is_ok_and(|ip| ip.is_loopback())
    };
    let mut hosts = request.headers().get_all(HOST).iter();
    let host = hosts.next();
    let authority = request.uri().authority();
    // HTTP/2 has the authority instead of the header.
    (host.is_some() || authority.is_some())
        && hosts.next().is_none()
        && host.is_none_or(|host| host.to_str().is_ok_and(is_loopback))
        && authority.is_none_or(|authority| is_loopback(authority.as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOCAL: &str = "127.0.0.1:8000";

    fn access(token: Option<&str>, admin: Option<&str>) -> Access {
        let hashed = |text: &str| Token(blake3::hash(text.as_bytes()));
        Access {
            token: token.map(hashed),
            admin_token: admin.map(hashed),
            ..Access::default()
        }
    }

    fn request(host: &str, authorization: Option<&str>) -> Request<()> {
        let mut request = Request::get("/v2").header(HOST, host);
        if let Some(value) = authorization {
            request = request.header(AUTHORIZATION, value);
        }
        request.body(()).unwrap()
    }

    fn status(access: &Access, request: &Request<()>, action: Action) -> Option<Status> {
        let checked = access.check(request, LOCAL.parse().unwrap(), action);
        checked.err().map(|refusal| refusal.status)
    }

    #[test]
    fn tokens_are_checked() {
        let access = access(Some("user-token"), Some("admin-token"));
        let of = |authorization, action| status(&access, &request("any", authorization), action);
        assert_eq!(of(None, Action::Probe), None);
        assert_eq!(of(None, Action::Use), Some(Status::Unauthenticated));
        assert_eq!(of(Some("Bearer user-token"), Action::Use), None);
        assert_eq!(of(Some("bearer user-token"), Action::Use), None);
        assert_eq!(of(Some("Bearer admin-token"), Action::Use), None);
        assert_eq!(
            of(Some("Bearer user-tokem"), Action::Use),
            Some(Status::Unauthenticated)
        );
        assert_eq!(
            of(Some("Basic user-token"), Action::Use),
            Some(Status::Unauthenticated)
        );
        assert_eq!(
            of(Some("Bearer user-token"), Action::Administer),
            Some(Status::Unauthenticated)
        );
        assert_eq!(of(Some("Bearer admin-token"), Action::Administer), None);
    }

    #[test]
    fn changes_need_an_admin_token_at_all() {
        let open = access(None, None);
        let of = |action| status(&open, &request("localhost:8000", None), action);
        assert_eq!(of(Action::Use), None);
        assert_eq!(of(Action::Administer), Some(Status::Forbidden));
    }

    #[test]
    fn programs_of_this_machine_control_models_if_that_is_allowed() {
        let control = |access: Access| access.model_control(true);
        let local = control(access(None, None));
        let page = |access: &Access, action| {
            let mut request = request("localhost", None);
            let origin = "http://localhost:3000".parse().unwrap();
            request.headers_mut().insert(ORIGIN, origin);
            status(access, &request, action)
        };
        assert_eq!(
            status(&local, &request("localhost", None), Action::Administer),
            None
        );
        assert_eq!(page(&local, Action::Administer), Some(Status::Forbidden));
        assert_eq!(page(&local, Action::Probe), None);
        assert_eq!(page(&access(None, None), Action::Use), None);
        // With a token its holders do.
        let with_token = control(access(Some("t"), None));
        let of = |authorization| {
            status(
                &with_token,
                &request("any", authorization),
                Action::Administer,
            )
        };
        assert_eq!(of(None), Some(Status::Unauthenticated));
        assert_eq!(of(Some("Bearer t")), None);
        // Addresses that other machines reach are refused, whatever else is given.
        for access in [with_token, access(Some("t"), None).shared_memory(true)] {
            assert!(
                access
                    .check_address("0.0.0.0:8000".parse().unwrap(), true)
                    .is_err()
            );
            assert!(access.check_address(LOCAL.parse().unwrap(), false).is_ok());
        }
    }

    #[test]
    fn other_hosts_are_misdirected_without_a_token() {
        let open = access(None, None);
        let of = |host| status(&open, &request(host, None), Action::Use);
        for host in [
            "localhost",
            "LOCALHOST:1",
            "127.0.0.1:8000",
            "[::1]:8000",
            "127.1.2.3",
        ] {
            assert_eq!(of(host), None, "{host}");
        }
        for host in [
            "example.com",
            "localhost.example.com",
            "",
            "127.0.0.1.example.com:80",
        ] {
            assert_eq!(of(host), Some(Status::Misdirected), "{host}");
        }
        let public = "10.0.0.1:8000".parse().unwrap();
        assert!(
            open.check(&request("example.com", None), public, Action::Use)
                .is_ok()
        );
    }

    #[test]
    fn other_addresses_need_a_token() {
        let refused = |access: &Access, address: &str, insecure| {
            access
                .check_address(address.parse().unwrap(), insecure)
                .is_err()
        };
        let open = access(None, None);
        assert!(!refused(&open, LOCAL, false) && !refused(&open, "[::1]:0", false));
        assert!(refused(&open, "0.0.0.0:8000", false) && refused(&open, "[::]:0", false));
        assert!(!refused(&open, "0.0.0.0:8000", true));
        assert!(!refused(&access(Some("t"), None), "0.0.0.0:8000", false));
        // An admin token alone leaves the models open.
        assert!(refused(&access(None, Some("t")), "0.0.0.0:8000", false));
    }

    #[test]
    fn token_files_are_read() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let of = |text: &str| {
            std::fs::write(file.path(), text).unwrap();
            Access::default().token_file(file.path())
        };
        let access = of("0123456789abcdef\nrest").unwrap();
        let given = Some("Bearer 0123456789abcdef");
        assert_eq!(status(&access, &request("any", given), Action::Use), None);
        assert!(of("short").is_err() && of("").is_err() && of("0123456789 abcdef").is_err());
    }
}
