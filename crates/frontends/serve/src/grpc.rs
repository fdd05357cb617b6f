//! The gRPC protocol: `inference.GRPCInferenceService`, `grpc.health.v1.Health` and `grpc.reflection`.

mod descriptions;
mod frames;
mod messages;
mod reflection;
mod shared_memory;
mod stream;
mod tensors;

use crate::access::Action;
use crate::app::{App, Arrival};
use crate::body::{self, ReadBody};
use crate::shared_memory::{RequestRegions, cuda_unsupported};
use crate::status::{Refusal, Status};
use bytes::Bytes;
use frames::{AnswerPacking, MessageReader};
use http_body_util::{BodyExt, Full};
use hyper::body::Body;
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::{HeaderMap, Request, Response};
use messages::*;
use prost::Message;
use std::future::ready;
use std::sync::Arc;
use std::time::{Duration, Instant};

type Answer = Response<tonic::body::Body>;

/// The paths of methods.
const SERVICE: &str = "/inference.GRPCInferenceService/";
const HEALTH: &str = "/grpc.health.v1.Health/Check";
const REFLECTION: &str = "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo";
const REFLECTION_ALPHA: &str = "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo";

/// The most requests of a stream that are served at a time; further ones are read later.
const MAX_STREAM_REQUESTS: usize = 64;

/// Answers a call.
pub async fn respond<B>(app: Arc<App>, request: Request<B>, arrival: Arrival) -> Answer
where
    B: Body<Data = Bytes> + Unpin + Send + 'static,
{
    let (head, body) = request.into_parts();
    let head = Request::from_parts(head, ());
    let path = head.uri().path();
    let method = path.strip_prefix(SERVICE).unwrap_or(path);
    let action = match method {
        "ServerLive" | "ServerReady" | HEALTH => Action::Probe,
        "RepositoryModelLoad" | "RepositoryModelUnload" => Action::Administer,
        _ => Action::Use,
    };
    if let Err(refusal) = app.check(&head, &arrival, action) {
        return refuse(refusal);
    }
    let headers = head.headers();
    let reader = MessageReader::new(headers, body, app.body_limits, &app.body_memory);
    let reader = match reader {
        Err(refusal) => {
            app.count_refused(refusal.status);
            return refuse(refusal);
        }
        Ok(reader) => reader,
    };
    let call = Call {
        timeout: timeout(headers),
        app,
        arrival,
    };
    match method {
        "ModelStreamInfer" => {
            let work = {
                let call = call.clone();
                move |request, size| call.clone().infer_of_stream(request, size)
            };
            stream::respond(call, headers, reader, MAX_STREAM_REQUESTS, work)
        }
        REFLECTION | REFLECTION_ALPHA => {
            let work = |request, _| ready(reflection::answer(request));
            stream::respond(call, headers, reader, 1, work)
        }
        _ => match call.read(reader).await {
            Err(refusal) => refuse(refusal),
            Ok(read) => {
                let packing = AnswerPacking::of(headers);
                let answer = call.dispatch(method, read, packing).await;
                answer.unwrap_or_else(refuse)
            }
        },
    }
}

/// The answer to a refused call.
pub fn refuse(refusal: Refusal) -> Answer {
    let is_packing = refusal.status == Status::Encoding;
    let mut answer = tonic::Status::from(refusal).into_http();
    if is_packing {
        AnswerPacking::default().write_headers(answer.headers_mut());
    }
    answer
}

/// The headers of an answer before its messages.
fn headed(body: tonic::body::Body, packing: AnswerPacking) -> Answer {
    const KIND: HeaderValue = HeaderValue::from_static("application/grpc");
    let mut answer = Response::new(body);
    answer.headers_mut().insert(CONTENT_TYPE, KIND);
    packing.write_headers(answer.headers_mut());
    answer
}

/// The headers of an answer after its messages.
fn trailers(refusal: Option<Refusal>) -> HeaderMap {
    let status = match refusal {
        None => tonic::Status::ok(""),
        Some(refusal) => refusal.into(),
    };
    let mut trailers = HeaderMap::new();
    // The status has no metadata that could be malformed.
    let _ = status.add_header(&mut trailers);
    trailers
}

/// Decodes a message.
fn decoded<M: Message + Default>(bytes: Bytes) -> Result<M, Refusal> {
    body::heavy(bytes.len(), || M::decode(bytes))
        .map_err(|error| Refusal::invalid(format!("the message is malformed: {error}")))
}

fn late() -> Refusal {
    let text = "the deadline passed before the message was read";
    Refusal::new(Status::DeadlineExceeded, text)
}

/// The time limit of a call: at most eight digits and a unit.
fn timeout(headers: &HeaderMap) -> Option<Duration> {
    let text = headers.get("grpc-timeout")?.to_str().ok()?;
    let (digits, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    let is_number = digits.len() <= 8 && digits.bytes().all(|byte| byte.is_ascii_digit());
    let value: u64 = digits.parse().ok().filter(|_| is_number)?;
    Some(match unit {
        "H" => Duration::from_secs(value * 3600),
        "M" => Duration::from_secs(value * 60),
        "S" => Duration::from_secs(value),
        "m" => Duration::from_millis(value),
        "u" => Duration::from_micros(value),
        "n" => Duration::from_nanos(value),
        _ => return None,
    })
}

/// One call.
#[derive(Clone)]
struct Call {
    app: Arc<App>,
    arrival: Arrival,
    timeout: Option<Duration>,
}

impl Call {
    /// The only message of the call.
    async fn read<B>(&self, reader: MessageReader<B>) -> Result<ReadBody, Refusal>
    where
        B: Body<Data = Bytes> + Unpin,
    {
        let read = match self.timeout {
            None => reader.only().await,
            Some(timeout) => tokio::time::timeout(timeout, reader.only())
                .await
                .unwrap_or_else(|_| Err(late())),
        };
        read.inspect_err(|refusal| self.app.count_refused(refusal.status))
    }

    async fn dispatch(
        &self,
        method: &str,
        read: ReadBody,
        packing: AnswerPacking,
    ) -> Result<Answer, Refusal> {
        // The memory of the request is returned when it is answered.
        let ReadBody {
            bytes,
            reservation: _reservation,
        } = read;
        let app = &*self.app;
        let frame = match method {
            "ModelInfer" => {
                let size = bytes.len();
                packing.frame(&self.infer(&decoded(bytes)?, size).await?)
            }
            "ServerLive" => packing.frame(&ReadyResponse { ready: true }),
            "ServerReady" => packing.frame(&ReadyResponse {
                ready: app.is_ready(),
            }),
            "ServerMetadata" => packing.frame(&ServerMetadataResponse {
                name: app.name.clone(),
                version: env!("CARGO_PKG_VERSION").to_owned(),
                extensions: app.extensions().into_iter().map(str::to_owned).collect(),
            }),
            HEALTH => packing.frame(&descriptions::health(app, &decoded(bytes)?)?),
            "ModelReady" => packing.frame(&descriptions::model_ready(app, &decoded(bytes)?)?),
            "ModelMetadata" => packing.frame(&descriptions::model_metadata(app, &decoded(bytes)?)?),
            "ModelConfig" => packing.frame(&descriptions::configuration(app, &decoded(bytes)?)?),
            "ModelStatistics" => packing.frame(&descriptions::statistics(app, &decoded(bytes)?)?),
            "RepositoryIndex" => packing.frame(&descriptions::index(app, &decoded(bytes)?)),
            "RepositoryModelLoad" => packing.frame(&descriptions::load(app, &decoded(bytes)?)?),
            "RepositoryModelUnload" => packing.frame(&descriptions::unload(app, &decoded(bytes)?)?),
            "SystemSharedMemoryStatus" => {
                packing.frame(&shared_memory::status(app, &decoded(bytes)?)?)
            }
            "SystemSharedMemoryRegister" => {
                packing.frame(&shared_memory::register(app, decoded(bytes)?)?)
            }
            "SystemSharedMemoryUnregister" => {
                packing.frame(&shared_memory::unregister(app, &decoded(bytes)?))
            }
            "CudaSharedMemoryStatus" => {
                packing.frame(&shared_memory::cuda_status(&decoded(bytes)?)?)
            }
            "CudaSharedMemoryRegister" => return Err(cuda_unsupported()),
            "CudaSharedMemoryUnregister" => packing.frame(&Empty {}),
            other => {
                let name = other.rsplit('/').next().unwrap_or_default();
                let text = format!("the method {name:?} is not supported");
                return Err(Refusal::new(Status::Unsupported, text));
            }
        };
        let body = Full::new(frame).with_trailers(ready(Some(Ok(trailers(None)))));
        Ok(headed(tonic::body::Body::new(body), packing))
    }

    async fn infer(
        &self,
        request: &ModelInferRequest,
        size: usize,
    ) -> Result<ModelInferResponse, Refusal> {
        let model = descriptions::find(&self.app, &request.model_name, &request.model_version);
        let model = model.inspect_err(|refusal| self.app.count_refused(refusal.status))?;
        let decode = || tensors::read(request, RequestRegions::new(&self.app.shared_memory));
        let (arrival, timeout) = (&self.arrival, self.timeout);
        self.app
            .infer(&model, arrival, timeout, size, decode, tensors::write)
            .await
    }

    /// Answers one request of a stream. It arrives now, and has the rest of the stream's time.
    async fn infer_of_stream(
        mut self,
        request: ModelInferRequest,
        size: usize,
    ) -> ModelStreamInferResponse {
        let passed = self.arrival.time.elapsed();
        self.arrival.time = Instant::now();
        self.timeout = self.timeout.map(|timeout| timeout.saturating_sub(passed));
        let answer = self.infer(&request, size).await;
        let (error_message, mut response) = match answer {
            Ok(response) => (String::new(), response),
            // The id says which request of the stream has failed.
            Err(refusal) => (
                refusal.text,
                ModelInferResponse {
                    model_name: request.model_name,
                    model_version: request.model_version,
                    id: request.id,
                    ..ModelInferResponse::default()
                },
            ),
        };
        // For clients of models that have several answers to a request.
        let is_final = InferParameter {
            choice: Some(ParameterChoice::Bool(true)),
        };
        let parameters = &mut response.parameters;
        parameters.insert("triton_final_response".to_owned(), is_final);
        ModelStreamInferResponse {
            error_message,
            infer_response: Some(response),
        }
    }
}

#[cfg(test)]
mod tests;
