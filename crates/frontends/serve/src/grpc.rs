//! The gRPC protocol: `inference.GRPCInferenceService` and `grpc.health.v1.Health`.

mod messages;
mod tensors;

use crate::access::Action;
use crate::app::{App, Arrival, EXTENSIONS, NAME};
use crate::body::ReadBody;
use crate::datatype;
use crate::served_model::{PLATFORM, Port, ServedModel};
use crate::statistics::Total;
use crate::status::{Refusal, Status};
use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Body;
use hyper::{HeaderMap, Request, Response};
use messages::*;
use prost::Message;
use std::sync::Arc;
use std::time::Duration;
use tenon::Control;
use tonic::server::{Grpc, UnaryService};
use tonic_prost::ProstCodec;

type Answer = Response<tonic::body::Body>;

/// The path of a method.
const SERVICE: &str = "/inference.GRPCInferenceService/";
const HEALTH: &str = "/grpc.health.v1.Health/Check";

/// Answers a call.
pub async fn respond<B>(app: Arc<App>, request: Request<B>, arrival: Arrival) -> Answer
where
    B: Body<Data = Bytes> + Unpin,
{
    let (head, body) = request.into_parts();
    let head = Request::from_parts(head, ());
    let path = head.uri().path();
    let method = path.strip_prefix(SERVICE).unwrap_or(path).to_owned();
    let action = match method.as_str() {
        "ServerLive" | "ServerReady" | HEALTH => Action::Probe,
        "RepositoryModelLoad" | "RepositoryModelUnload" => Action::Administer,
        _ => Action::Use,
    };
    if let Err(refusal) = app.check(&head, &arrival, action) {
        return refuse(refusal);
    }
    let timeout = timeout(head.headers());
    let read = app.read(head.headers(), body);
    let read = match timeout {
        None => read.await,
        Some(timeout) => tokio::time::timeout(timeout, read)
            .await
            .unwrap_or_else(|_| Err(late())),
    };
    match read {
        Err(refusal) => refuse(refusal),
        Ok(read) => {
            let call = Call {
                app: &app,
                arrival,
                timeout,
            };
            call.dispatch(&method, head, read).await
        }
    }
}

/// The answer to a refused call.
pub fn refuse(refusal: Refusal) -> Answer {
    tonic::Status::from(refusal).into_http()
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
#[derive(Clone, Copy)]
struct Call<'a> {
    app: &'a App,
    arrival: Arrival,
    timeout: Option<Duration>,
}

/// A method whose work is a function.
struct Method<F>(F);

impl<F, M, R, W> UnaryService<M> for Method<F>
where
    F: Fn(M) -> W,
    W: Future<Output = Result<tonic::Response<R>, tonic::Status>>,
{
    type Response = R;
    type Future = W;

    fn call(&mut self, request: tonic::Request<M>) -> W {
        (self.0)(request.into_inner())
    }
}

impl Call<'_> {
    async fn dispatch(&self, method: &str, head: Request<()>, read: ReadBody) -> Answer {
        match method {
            "ServerLive" => {
                self.unary(head, read, |_: Empty| Ok(ReadyResponse { ready: true }))
                    .await
            }
            "ServerReady" => {
                let ready = self.app.is_ready();
                self.unary(head, read, |_: Empty| Ok(ReadyResponse { ready }))
                    .await
            }
            HEALTH => {
                self.unary(head, read, |request| self.health(&request))
                    .await
            }
            "ServerMetadata" => {
                self.unary(head, read, |_: Empty| {
                    Ok(ServerMetadataResponse {
                        name: NAME.to_owned(),
                        version: env!("CARGO_PKG_VERSION").to_owned(),
                        extensions: EXTENSIONS.map(str::to_owned).into(),
                    })
                })
                .await
            }
            "ModelReady" => {
                self.unary(head, read, |request| self.model_ready(&request))
                    .await
            }
            "ModelMetadata" => {
                self.unary(head, read, |request| self.model_metadata(&request))
                    .await
            }
            "ModelConfig" => {
                self.unary(head, read, |request| self.configuration(&request))
                    .await
            }
            "ModelStatistics" => {
                self.unary(head, read, |request| self.statistics(&request))
                    .await
            }
            "RepositoryIndex" => {
                self.unary(head, read, |request| Ok(self.index(&request)))
                    .await
            }
            "RepositoryModelLoad" => self.unary(head, read, |request| self.load(&request)).await,
            "RepositoryModelUnload" => {
                self.unary(head, read, |request| self.unload(&request))
                    .await
            }
            "ModelInfer" => {
                let size = read.bytes.len();
                self.serve(head, read, |request| self.infer(request, size))
                    .await
            }
            other => {
                let name = other.rsplit('/').next().unwrap_or_default();
                let text = format!("the method {name:?} is not supported");
                refuse(Refusal::new(Status::Unsupported, text))
            }
        }
    }

    /// Answers a method that does not wait.
    async fn unary<M, R>(
        &self,
        head: Request<()>,
        read: ReadBody,
        work: impl Fn(M) -> Result<R, Refusal>,
    ) -> Answer
    where
        M: Message + Default + Send + 'static,
        R: Message + Send + 'static,
    {
        self.serve(head, read, |request| {
            let done = work(request);
            async { done }
        })
        .await
    }

    async fn serve<M, R, W>(
        &self,
        head: Request<()>,
        read: ReadBody,
        work: impl Fn(M) -> W,
    ) -> Answer
    where
        M: Message + Default + Send + 'static,
        R: Message + Send + 'static,
        W: Future<Output = Result<R, Refusal>>,
    {
        let ReadBody {
            bytes,
            reservation: _reservation,
        } = read;
        // The size of a message is limited by that of its body.
        let mut grpc = Grpc::new(ProstCodec::<R, M>::default())
            .max_decoding_message_size(bytes.len())
            .max_encoding_message_size(usize::MAX);
        let request = head.map(|()| Full::new(bytes));
        let method = Method(|request| {
            let work = work(request);
            async { Ok(tonic::Response::new(work.await?)) }
        });
        grpc.unary(method, request).await
    }

    fn health(&self, request: &HealthCheckRequest) -> Result<HealthCheckResponse, Refusal> {
        let is_known = ["", SERVICE.trim_matches('/')].contains(&request.service.as_str());
        if !is_known {
            let text = format!("there is no service {:?}", request.service);
            return Err(Refusal::new(Status::NotFound, text));
        }
        let status = match self.app.is_ready() {
            true => ServingStatus::Serving,
            false => ServingStatus::NotServing,
        };
        Ok(HealthCheckResponse {
            status: status.into(),
        })
    }

    fn find(&self, name: &str, version: &str) -> Result<Arc<ServedModel>, Refusal> {
        self.app.repository.find(name, Some(version))
    }

    fn model_ready(&self, request: &ModelRequest) -> Result<ReadyResponse, Refusal> {
        match self.find(&request.name, &request.version) {
            Err(refusal) if refusal.status == Status::Unavailable => {
                Ok(ReadyResponse { ready: false })
            }
            found => found.map(|_| ReadyResponse {
                ready: self.app.is_ready(),
            }),
        }
    }

    fn model_metadata(&self, request: &ModelRequest) -> Result<ModelMetadataResponse, Refusal> {
        let model = self.find(&request.name, &request.version)?;
        let versions = self.app.repository.versions(model.name());
        let tensors = |ports: Vec<Port>| {
            let tensors = ports.into_iter().map(|port| TensorMetadata {
                name: port.name,
                datatype: port.datatype.to_owned(),
                shape: port.shape,
            });
            tensors.collect()
        };
        Ok(ModelMetadataResponse {
            name: model.name().to_owned(),
            versions: versions.iter().map(u64::to_string).collect(),
            platform: PLATFORM.to_owned(),
            inputs: tensors(model.inputs()),
            outputs: tensors(model.outputs()),
        })
    }

    fn configuration(&self, request: &ModelRequest) -> Result<ModelConfigResponse, Refusal> {
        let model = self.find(&request.name, &request.version)?;
        let data_type = |port: &Port| {
            datatype::from_name(port.datatype).map_or(0, datatype::configuration_index)
        };
        let input = model.inputs().into_iter().map(|port| ModelInput {
            data_type: data_type(&port),
            dims: model.dims(&port).to_vec(),
            name: port.name,
        });
        let output = model.outputs().into_iter().map(|port| ModelOutput {
            data_type: data_type(&port),
            dims: model.dims(&port).to_vec(),
            name: port.name,
        });
        Ok(ModelConfigResponse {
            config: Some(ModelConfig {
                name: model.name().to_owned(),
                platform: PLATFORM.to_owned(),
                max_batch_size: i32::try_from(model.max_rows()).unwrap_or(i32::MAX),
                input: input.collect(),
                output: output.collect(),
                backend: NAME.to_owned(),
            }),
        })
    }

    fn statistics(&self, request: &ModelRequest) -> Result<ModelStatisticsResponse, Refusal> {
        let models = match request.name.is_empty() {
            true => self.app.repository.served(),
            false => vec![self.find(&request.name, &request.version)?],
        };
        let model_stats = models.iter().map(|model| model_statistics(model));
        Ok(ModelStatisticsResponse {
            model_stats: model_stats.collect(),
        })
    }

    fn index(&self, request: &RepositoryIndexRequest) -> RepositoryIndexResponse {
        let rows = self.app.repository.index().into_iter();
        let rows = rows.filter(|row| !request.ready || row.state == "READY");
        let models = rows.map(|row| ModelIndex {
            name: row.name,
            version: row.version.to_string(),
            state: row.state.to_owned(),
            reason: row.reason,
        });
        RepositoryIndexResponse {
            models: models.collect(),
        }
    }

    fn load(&self, request: &RepositoryModelRequest) -> Result<Empty, Refusal> {
        if let Some(name) = request.parameters.keys().next() {
            let text =
                format!("parameter {name:?}: models are loaded from the folder of the server only");
            return Err(Refusal::new(Status::Unsupported, text));
        }
        let name = request.model();
        tokio::task::block_in_place(|| self.app.repository.load(name, &Control::new()))?;
        Ok(Empty {})
    }

    fn unload(&self, request: &RepositoryModelRequest) -> Result<Empty, Refusal> {
        tokio::task::block_in_place(|| self.app.repository.unload(request.model()))?;
        Ok(Empty {})
    }

    async fn infer(
        &self,
        request: ModelInferRequest,
        size: usize,
    ) -> Result<ModelInferResponse, Refusal> {
        let model = self.find(&request.model_name, &request.model_version);
        let model = model.inspect_err(|refusal| self.app.count_refused(refusal.status))?;
        let decode = || tensors::read(&request);
        let (arrival, timeout) = (&self.arrival, self.timeout);
        self.app
            .infer(&model, arrival, timeout, size, decode, tensors::write)
            .await
    }
}

impl RepositoryModelRequest {
    /// The name of the model.
    fn model(&self) -> &str {
        match self.model_name.is_empty() {
            true => &self.repository_name,
            false => &self.model_name,
        }
    }
}

fn model_statistics(model: &ServedModel) -> ModelStatistics {
    let counts = model.statistics().counts();
    let total = |total: &Total| {
        Some(StatisticDuration {
            count: total.count,
            ns: total.nanos,
        })
    };
    let batches = counts
        .batches
        .iter()
        .map(|(&rows, times)| InferBatchStatistics {
            batch_size: rows as u64,
            compute_infer: total(times),
        });
    ModelStatistics {
        name: model.name().to_owned(),
        version: model.version().to_string(),
        last_inference: counts.last_inference_millis,
        inference_count: counts.inferences,
        execution_count: counts.executions,
        inference_stats: Some(InferStatistics {
            success: total(&counts.success),
            fail: total(&counts.fail),
            queue: total(&counts.queue),
            compute_input: total(&counts.input),
            compute_infer: total(&counts.compute),
            compute_output: total(&counts.output),
        }),
        batch_stats: batches.collect(),
    }
}

#[cfg(test)]
mod tests;
