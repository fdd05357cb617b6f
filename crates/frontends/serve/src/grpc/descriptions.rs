//! The methods of gRPC about the server, its models and the folder.

use super::SERVICE;
use super::messages::*;
use crate::app::{App, NAME};
use crate::datatype;
use crate::port::Port;
use crate::served_model::ServedModel;
use crate::statistics::Total;
use crate::status::{Refusal, Status};
use crate::upload::Upload;
use std::sync::Arc;

/// `grpc.health.v1.Health/Check`.
pub fn health(app: &App, request: &HealthCheckRequest) -> Result<HealthCheckResponse, Refusal> {
    let is_known = ["", SERVICE.trim_matches('/')].contains(&request.service.as_str());
    if !is_known {
        let text = format!("there is no service {:?}", request.service);
        return Err(Refusal::new(Status::NotFound, text));
    }
    let status = match app.is_ready() {
        true => ServingStatus::Serving,
        false => ServingStatus::NotServing,
    };
    Ok(HealthCheckResponse {
        status: status.into(),
    })
}

/// The model of a request.
pub fn find(app: &App, name: &str, version: &str) -> Result<Arc<ServedModel>, Refusal> {
    app.repository.find(name, Some(version))
}

/// `ModelReady`.
pub fn model_ready(app: &App, request: &ModelRequest) -> Result<ReadyResponse, Refusal> {
    match find(app, &request.name, &request.version) {
        Err(refusal) if refusal.status == Status::Unavailable => Ok(ReadyResponse { ready: false }),
        found => found.map(|_| ReadyResponse {
            ready: app.is_ready(),
        }),
    }
}

/// `ModelMetadata`.
pub fn model_metadata(app: &App, request: &ModelRequest) -> Result<ModelMetadataResponse, Refusal> {
    let model = find(app, &request.name, &request.version)?;
    let versions = app.repository.versions(model.name());
    let tensors = |ports: &[Port]| {
        let tensors = ports.iter().map(|port| TensorMetadata {
            name: port.name.clone(),
            datatype: port.datatype.to_owned(),
            shape: port.shape.clone(),
        });
        tensors.collect()
    };
    Ok(ModelMetadataResponse {
        name: model.name().to_owned(),
        versions: versions.iter().map(u64::to_string).collect(),
        platform: model.platform().to_owned(),
        inputs: tensors(model.inputs()),
        outputs: tensors(model.outputs()),
    })
}

/// `ModelConfig`.
pub fn configuration(app: &App, request: &ModelRequest) -> Result<ModelConfigResponse, Refusal> {
    let model = find(app, &request.name, &request.version)?;
    let input = model.inputs().iter().map(|port| ModelInput {
        data_type: datatype::configuration_index(port.dtype),
        format: port.format as i32,
        dims: model.dims(port).to_vec(),
        name: port.name.clone(),
    });
    let output = model.outputs().iter().map(|port| ModelOutput {
        data_type: datatype::configuration_index(port.dtype),
        dims: model.dims(port).to_vec(),
        name: port.name.clone(),
    });
    Ok(ModelConfigResponse {
        config: Some(ModelConfig {
            name: model.name().to_owned(),
            platform: model.platform().to_owned(),
            max_batch_size: i32::try_from(model.max_rows()).unwrap_or(i32::MAX),
            input: input.collect(),
            output: output.collect(),
            backend: NAME.to_owned(),
        }),
    })
}

/// `ModelStatistics`.
pub fn statistics(app: &App, request: &ModelRequest) -> Result<ModelStatisticsResponse, Refusal> {
    let models = match request.name.is_empty() {
        true => app.repository.served(),
        false => vec![find(app, &request.name, &request.version)?],
    };
    let model_stats = models.iter().map(|model| model_statistics(model));
    Ok(ModelStatisticsResponse {
        model_stats: model_stats.collect(),
    })
}

/// `RepositoryIndex`.
pub fn index(app: &App, request: &RepositoryIndexRequest) -> RepositoryIndexResponse {
    let rows = app.repository.index().into_iter();
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

/// `RepositoryModelLoad`.
pub fn load(app: &App, request: &RepositoryModelRequest) -> Result<Empty, Refusal> {
    tokio::task::block_in_place(|| app.load(request.model(), || upload(request)))?;
    Ok(Empty {})
}

/// The files and the configuration that a request to load brings.
fn upload(request: &RepositoryModelRequest) -> Result<Upload, Refusal> {
    let mut upload = Upload::default();
    for (name, parameter) in &request.parameters {
        match &parameter.choice {
            Some(RepositoryChoice::Bytes(bytes)) => upload.add(name, bytes)?,
            Some(RepositoryChoice::Text(text)) => upload.add(name, text.as_bytes())?,
            Some(RepositoryChoice::Bool(_) | RepositoryChoice::Integer(_)) | None => {
                let text = format!("parameter {name:?}: expected a string or bytes");
                return Err(Refusal::invalid(text));
            }
        }
    }
    Ok(upload)
}

/// `RepositoryModelUnload`.
pub fn unload(app: &App, request: &RepositoryModelRequest) -> Result<Empty, Refusal> {
    tokio::task::block_in_place(|| app.repository.unload(request.model()))?;
    Ok(Empty {})
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
