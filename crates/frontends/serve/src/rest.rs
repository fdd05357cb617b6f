//! The REST protocol.

use crate::access::Action;
use crate::app::{App, Arrival};
use crate::body::ReadBody;
use crate::exposition;
use crate::json_answer::{JsonAnswer, error_body};
use crate::json_request;
use crate::overview;
use crate::path::segments;
use crate::port::Port;
use crate::served_model::ServedModel;
use crate::shared_memory::RequestRegions;
use crate::shared_memory_page::SharedMemoryPage;
use crate::statistics_json;
use crate::status::{Refusal, Status};
use crate::upload::Upload;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Body;
use hyper::header::{
    ALLOW, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderName, HeaderValue, RETRY_AFTER,
    WWW_AUTHENTICATE,
};
use hyper::{HeaderMap, Method, Request, Response, StatusCode};
use serde::Deserialize;
use serde_json::{Value, json};
use std::time::Duration;

/// The length of the JSON in a body with binary data.
const JSON_BYTES: HeaderName = HeaderName::from_static("inference-header-content-length");
/// The caller's time limit in milliseconds.
const TIMEOUT: HeaderName = HeaderName::from_static("x-request-timeout-ms");

const JSON: HeaderValue = HeaderValue::from_static("application/json");
const BINARY: HeaderValue = HeaderValue::from_static("application/octet-stream");
const HTML: HeaderValue = HeaderValue::from_static("text/html; charset=utf-8");
const METRICS: HeaderValue = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");

/// The description of all pages; the version is written into it.
const OPENAPI: &str = include_str!("openapi.json");

type Answer = Response<tonic::body::Body>;

/// A page, by its path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Page<'a> {
    Server,
    Live,
    Ready,
    Models,
    AllStatistics,
    Index,
    Load(&'a str),
    Unload(&'a str),
    Metrics,
    OpenApi,
    Overview,
    Model(&'a str, Option<&'a str>, ModelPage),
    SharedMemory(SharedMemoryPage<'a>),
}

/// A page of a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ModelPage {
    Metadata,
    Ready,
    Configuration,
    Statistics,
    Infer,
}

impl<'a> Page<'a> {
    fn of(segments: &'a [String]) -> Option<Self> {
        let mut parts: [&str; 8] = [""; 8];
        let parts = parts.get_mut(..segments.len())?;
        for (part, segment) in parts.iter_mut().zip(segments) {
            *part = segment;
        }
        Some(match *parts {
            [""] => Self::Overview,
            ["metrics"] => Self::Metrics,
            ["openapi.json"] => Self::OpenApi,
            ["v2"] => Self::Server,
            ["v2", "health", "live"] => Self::Live,
            ["v2", "health", "ready"] => Self::Ready,
            ["v2", "models"] => Self::Models,
            ["v2", "models", "stats"] => Self::AllStatistics,
            ["v2", "repository", "index"] => Self::Index,
            ["v2", "repository", "models", model, "load"] => Self::Load(model),
            ["v2", "repository", "models", model, "unload"] => Self::Unload(model),
            ["v2", "models", model, "versions", version, ref rest @ ..] => {
                Self::Model(model, Some(version), ModelPage::of(rest)?)
            }
            ["v2", "models", model, ref rest @ ..] => {
                Self::Model(model, None, ModelPage::of(rest)?)
            }
            ["v2", ref rest @ ..] => Self::SharedMemory(SharedMemoryPage::of(rest)?),
            _ => return None,
        })
    }

    fn method(self) -> Method {
        match self {
            Self::Index | Self::Load(_) | Self::Unload(_) | Self::Model(_, _, ModelPage::Infer) => {
                Method::POST
            }
            Self::SharedMemory(page) => page.method(),
            _ => Method::GET,
        }
    }

    fn action(self) -> Action {
        match self {
            Self::Live | Self::Ready => Action::Probe,
            Self::Load(_) | Self::Unload(_) => Action::Administer,
            _ => Action::Use,
        }
    }
}

impl ModelPage {
    fn of(rest: &[&str]) -> Option<Self> {
        Some(match rest {
            [] => Self::Metadata,
            ["ready"] => Self::Ready,
            ["config"] => Self::Configuration,
            ["stats"] => Self::Statistics,
            ["infer"] => Self::Infer,
            _ => return None,
        })
    }
}

/// Answers a request.
pub async fn respond<B>(app: &App, request: Request<B>, arrival: Arrival) -> Answer
where
    B: Body<Data = Bytes> + Unpin,
{
    let answer = answer(app, request, &arrival).await;
    answer.unwrap_or_else(|refusal| refuse(&refusal))
}

async fn answer<B>(app: &App, request: Request<B>, arrival: &Arrival) -> Result<Answer, Refusal>
where
    B: Body<Data = Bytes> + Unpin,
{
    let (head, body) = request.into_parts();
    let no_page = || {
        Refusal::new(
            Status::NotFound,
            "no such page: /openapi.json lists the pages",
        )
    };
    let segments = segments(head.uri.path()).ok_or_else(no_page)?;
    let head = Request::from_parts(head, ());
    let Some(page) = Page::of(&segments) else {
        app.check(&head, arrival, Action::Use)?;
        return Err(no_page());
    };
    app.check(&head, arrival, page.action())?;
    let method = page.method();
    if *head.method() != method {
        let text = format!("the method of this page is {method}");
        let mut response = refuse(&Refusal::new(Status::Method, text));
        if let Ok(value) = HeaderValue::from_str(method.as_str()) {
            response.headers_mut().insert(ALLOW, value);
        }
        return Ok(response);
    }
    let headers = head.headers();
    match page {
        Page::Server => {
            let version = env!("CARGO_PKG_VERSION");
            Ok(ok(
                &json!({"name": app.name, "version": version, "extensions": app.extensions()}),
            ))
        }
        Page::Live => Ok(ok(&json!({"live": true}))),
        Page::Ready => {
            let is_ready = app.is_ready();
            Ok(probe(is_ready, &json!({"ready": is_ready})))
        }
        Page::Models => {
            let models = app.repository.served();
            let mut names: Vec<&str> = models.iter().map(|model| model.name()).collect();
            names.dedup();
            Ok(ok(&json!({"models": names})))
        }
        Page::AllStatistics => Ok(ok(&statistics_json::of(&app.repository.served()))),
        Page::Index => {
            let read = app.read(headers, body).await?;
            index(app, &read)
        }
        Page::Load(model) => {
            let read = app.read(headers, body).await?;
            tokio::task::block_in_place(|| app.load(model, || upload(&read)))?;
            Ok(ok(&json!({})))
        }
        Page::Unload(model) => {
            app.read(headers, body).await?;
            tokio::task::block_in_place(|| app.repository.unload(model))?;
            Ok(ok(&json!({})))
        }
        Page::SharedMemory(page) => {
            let read = app.read(headers, body).await?;
            Ok(ok(&page.answer(app, &read.bytes)?))
        }
        Page::Metrics => {
            let page = exposition::page(app);
            Ok(response(StatusCode::OK, METRICS, page.into_bytes()))
        }
        Page::OpenApi => {
            let document = OPENAPI.replacen("VERSION", env!("CARGO_PKG_VERSION"), 1);
            Ok(response(StatusCode::OK, JSON, document.into_bytes()))
        }
        Page::Overview => {
            let page = overview::page(app).into_bytes();
            let mut response = response(StatusCode::OK, HTML, page);
            let policy = HeaderValue::from_static(overview::POLICY);
            response
                .headers_mut()
                .insert(CONTENT_SECURITY_POLICY, policy);
            Ok(response)
        }
        Page::Model(name, version, ModelPage::Infer) => {
            infer(app, name, version, headers, body, arrival).await
        }
        Page::Model(name, version, page) => {
            let model = match app.repository.find(name, version) {
                Err(refusal)
                    if page == ModelPage::Ready && refusal.status == Status::Unavailable =>
                {
                    return Ok(probe(false, &json!({"name": name, "ready": false})));
                }
                found => found?,
            };
            Ok(match page {
                ModelPage::Ready => {
                    let is_ready = app.is_ready();
                    probe(is_ready, &json!({"name": name, "ready": is_ready}))
                }
                ModelPage::Configuration => ok(&model.configuration()),
                ModelPage::Statistics => ok(&statistics_json::of(&[model])),
                ModelPage::Metadata | ModelPage::Infer => ok(&metadata(app, &model)),
            })
        }
    }
}

async fn infer<B>(
    app: &App,
    name: &str,
    version: Option<&str>,
    headers: &HeaderMap,
    body: B,
    arrival: &Arrival,
) -> Result<Answer, Refusal>
where
    B: Body<Data = Bytes> + Unpin,
{
    let model = app.repository.find(name, version);
    let model = model.inspect_err(|refusal| app.count_refused(refusal.status))?;
    let json_bytes: Option<usize> = number(headers, &JSON_BYTES)?;
    let timeout: Option<u64> = number(headers, &TIMEOUT)?;
    let timeout = timeout.map(Duration::from_millis);
    // A body that comes slowly counts as part of the request's time.
    let read = app.read(headers, body);
    let ReadBody {
        bytes,
        reservation: _reservation,
    } = match timeout {
        None => read.await?,
        Some(timeout) => tokio::time::timeout(timeout, read)
            .await
            .unwrap_or_else(|_| Err(late()))?,
    };
    let size = bytes.len();
    let regions = RequestRegions::new(&app.shared_memory);
    let decode = || json_request::read(&bytes, json_bytes, regions);
    let answer = app.infer(&model, arrival, timeout, size, decode, JsonAnswer::new);
    let answer = answer.await?;
    let kind = match answer.json_bytes {
        None => JSON,
        Some(_) => BINARY,
    };
    let mut response = response(StatusCode::OK, kind, answer.body);
    if let Some(length) = answer.json_bytes {
        response.headers_mut().insert(JSON_BYTES, length.into());
    }
    Ok(response)
}

fn late() -> Refusal {
    let text = "the deadline passed before the body was read";
    Refusal::new(Status::DeadlineExceeded, text)
}

/// A header that is a number.
fn number<T: std::str::FromStr>(
    headers: &HeaderMap,
    name: &HeaderName,
) -> Result<Option<T>, Refusal> {
    let Some(value) = headers.get(name) else {
        return Ok(None);
    };
    let number = value
        .to_str()
        .ok()
        .and_then(|text| text.trim().parse().ok());
    let malformed = || Refusal::invalid(format!("the header {name} is no whole number"));
    number.ok_or_else(malformed).map(Some)
}

fn index(app: &App, read: &ReadBody) -> Result<Answer, Refusal> {
    #[derive(Deserialize, Default)]
    struct Filter {
        #[serde(default)]
        ready: bool,
    }
    let filter: Filter = match &read.bytes[..] {
        [] => Filter::default(),
        bytes => serde_json::from_slice(bytes)
            .map_err(|error| Refusal::invalid(format!("the request is malformed: {error}")))?,
    };
    let rows = app.repository.index().into_iter();
    let rows = rows.filter(|row| !filter.ready || row.state == "READY");
    let rows = rows.map(|row| {
        json!({
            "name": row.name,
            "version": row.version.to_string(),
            "state": row.state,
            "reason": row.reason,
        })
    });
    Ok(ok(&rows.collect::<Vec<Value>>().into()))
}

/// The files that a request to load brings, in base64.
fn upload(read: &ReadBody) -> Result<Upload, Refusal> {
    #[derive(Deserialize)]
    struct Load {
        #[serde(default)]
        parameters: serde_json::Map<String, Value>,
    }
    let mut upload = Upload::default();
    if read.bytes.is_empty() {
        return Ok(upload);
    }
    let load: Load = serde_json::from_slice(&read.bytes)
        .map_err(|error| Refusal::invalid(format!("the request is malformed: {error}")))?;
    for (name, value) in &load.parameters {
        let text = value.as_str();
        let text = text.ok_or_else(|| misfit(name, "a string"))?;
        match name.starts_with(Upload::FILE) {
            true => {
                let bytes = STANDARD.decode(text);
                upload.add(name, &bytes.map_err(|_| misfit(name, "base64"))?)?;
            }
            false => upload.add(name, text.as_bytes())?,
        }
    }
    Ok(upload)
}

fn misfit(name: &str, expected: &str) -> Refusal {
    Refusal::invalid(format!("parameter {name:?}: expected {expected}"))
}

fn metadata(app: &App, model: &ServedModel) -> Value {
    let versions = app.repository.versions(model.name());
    let versions: Vec<String> = versions.iter().map(u64::to_string).collect();
    let ports = |ports: &[Port]| ports.iter().map(Port::json).collect::<Vec<_>>();
    json!({
        "name": model.name(),
        "versions": versions,
        "platform": model.platform(),
        "inputs": ports(model.inputs()),
        "outputs": ports(model.outputs()),
    })
}

fn ok(value: &Value) -> Answer {
    response(StatusCode::OK, JSON, value.to_string().into_bytes())
}

fn probe(is_ready: bool, value: &Value) -> Answer {
    let status = match is_ready {
        true => StatusCode::OK,
        false => StatusCode::SERVICE_UNAVAILABLE,
    };
    response(status, JSON, value.to_string().into_bytes())
}

/// The answer to a refused request.
pub fn refuse(refusal: &Refusal) -> Answer {
    let status = StatusCode::from_u16(refusal.status.http());
    let status = status.unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut response = response(status, JSON, error_body(&refusal.text));
    let headers = response.headers_mut();
    match refusal.status {
        Status::QueueFull | Status::RateLimited => {
            drop(headers.insert(RETRY_AFTER, HeaderValue::from_static("1")));
        }
        Status::Unauthenticated => {
            drop(headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer")));
        }
        _ => {}
    }
    response
}

fn response(status: StatusCode, kind: HeaderValue, body: Vec<u8>) -> Answer {
    let mut response = Response::new(tonic::body::Body::new(Full::new(Bytes::from(body))));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, kind);
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(path: &str) -> Option<String> {
        let segments = segments(path)?;
        Page::of(&segments).map(|page| format!("{page:?}"))
    }

    #[test]
    fn paths_are_pages() {
        for path in ["/v2", "/v2/"] {
            assert_eq!(page(path).unwrap(), "Server");
        }
        assert_eq!(page("/v2/models/stats").unwrap(), "AllStatistics");
        assert_eq!(
            page("/v2/models/a%20b").unwrap(),
            "Model(\"a b\", None, Metadata)"
        );
        let versioned = "Model(\"m\", Some(\"3\"), Infer)";
        assert_eq!(page("/v2/models/m/versions/3/infer").unwrap(), versioned);
        assert_eq!(page("/").unwrap(), "Overview");
        for path in [
            "",
            "///",
            "/v1",
            "/v2/models/m/none",
            "/v2/models/m/versions",
            "/v2/a/b/c/d/e/f/g/h/i/j",
            "/metrics/x",
            "v2",
        ] {
            assert_eq!(page(path), None, "{path}");
        }
    }
}
