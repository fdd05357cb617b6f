//! One loaded version of a model: its tensors in the words of the protocol, its queue and its statistics.

use crate::classification::classes;
use crate::datatype;
use crate::infer::{AnsweredOutput, InferAnswer, InferRequest, RequestedOutput};
use crate::queue::{BatchOptions, BatchQueue, Execution};
use crate::statistics::Statistics;
use crate::status::{Refusal, Status};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tenon::{Control, Dimension, Error, ErrorKind, Model, Result, Signature, Tensor};

/// The platform of a model, in the form `project_format`.
pub const PLATFORM: &str = "tenon_neff";

/// A model that answers requests.
pub struct ServedModel {
    name: String,
    version: u64,
    model: Model,
    queue: BatchQueue,
    statistics: Arc<Statistics>,
    max_rows: usize,
    /// The size of its package.
    bytes: u64,
}

/// An input or output in the words of the protocol.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Port {
    /// The name.
    pub name: String,
    /// The data type.
    pub datatype: &'static str,
    /// The extents; -1 for those that requests choose.
    pub shape: Vec<i64>,
}

impl ServedModel {
    /// A model with its queue.
    ///
    /// # Errors
    /// Inputs or outputs that the protocol lacks; a thread that cannot be started.
    pub fn new(
        name: &str,
        version: u64,
        model: Model,
        bytes: u64,
        options: &BatchOptions,
        statistics: Arc<Statistics>,
    ) -> Result<Self> {
        let ports = model.inputs().iter().chain(model.outputs());
        Error::from_all(ports.filter_map(unsupported)).map_or(Ok(()), Err)?;
        let queue = BatchQueue::new(model.clone(), options.clone(), statistics.clone());
        let queue = queue.map_err(|error| Error::io("a thread", "start", error))?;
        Ok(Self {
            name: name.to_owned(),
            version,
            max_rows: if queue.is_joining() {
                options.max_rows
            } else {
                0
            },
            model,
            queue,
            statistics,
            bytes,
        })
    }

    /// The name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The version.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// The size of the package in bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Its counts.
    pub fn statistics(&self) -> &Arc<Statistics> {
        &self.statistics
    }

    /// Its queue.
    pub fn queue(&self) -> &BatchQueue {
        &self.queue
    }

    /// The most rows that are joined; 0 without dynamic batching.
    pub fn max_rows(&self) -> usize {
        self.max_rows
    }

    /// The inputs.
    pub fn inputs(&self) -> Vec<Port> {
        self.model.inputs().iter().map(Port::of).collect()
    }

    /// The outputs.
    pub fn outputs(&self) -> Vec<Port> {
        self.model.outputs().iter().map(Port::of).collect()
    }

    /// The configuration that the extension "model_configuration" describes.
    pub fn configuration(&self) -> Value {
        let port = |signature: &Signature| {
            let dims = self.dims(&Port::of(signature)).to_vec();
            let data_type = datatype::configuration_name(signature.ty.dtype());
            json!({"name": signature.name, "data_type": data_type, "dims": dims})
        };
        let inputs: Vec<Value> = self.model.inputs().iter().map(port).collect();
        let outputs: Vec<Value> = self.model.outputs().iter().map(port).collect();
        json!({
            "name": self.name,
            "platform": PLATFORM,
            "backend": "tenon",
            "max_batch_size": self.max_rows,
            "input": inputs,
            "output": outputs,
        })
    }

    /// The extents of a port without the batch.
    pub fn dims<'a>(&self, port: &'a Port) -> &'a [i64] {
        let skipped = usize::from(self.max_rows > 0 && port.shape.first() == Some(&-1));
        &port.shape[skipped..]
    }

    /// Executes once on zeros, so that the first request finds the memory allocated. A model that fails on zeros
    /// may serve other inputs.
    pub fn warm_up(&self, control: &Control) {
        let smallest = |signature: &Signature| {
            let extents = signature.shape.iter().map(|dimension| match dimension {
                Dimension::Fixed(size) => *size,
                Dimension::Symbolic { min, .. } => usize::try_from((*min).max(1)).unwrap_or(1),
            });
            let ty = tenon::TensorType::new(signature.ty.dtype(), extents.collect::<Vec<_>>())?;
            Tensor::zeroed(ty)
        };
        let inputs: Result<Vec<Tensor>> = self.model.inputs().iter().map(smallest).collect();
        let Ok(inputs) = inputs else { return };
        let names = self.model.inputs().iter().map(|input| &*input.name);
        let named: Vec<(&str, &Tensor)> = names.zip(&inputs).collect();
        let options = tenon::RunOptions::new().control(control.clone());
        let _ = self.model.run_with(&named, options);
    }

    /// Executes a request. Dropping the future cancels it.
    ///
    /// # Errors
    /// Inputs or outputs that the model lacks or that have other types; a full queue; a passed deadline; what the
    /// execution fails with.
    pub async fn infer(
        &self,
        request: InferRequest,
        deadline: Option<Instant>,
    ) -> std::result::Result<(InferAnswer, Duration, Duration), Refusal> {
        let outputs = self.requested(&request)?;
        let inputs = self.in_order(request.inputs)?;
        let control = match deadline {
            Some(deadline) => Control::with_deadline(deadline),
            None => Control::new(),
        };
        let queued = self.queue.push(inputs, request.priority, control)?;
        let finished = queued.finished();
        let execution = match deadline {
            None => finished.await?,
            Some(deadline) => {
                let timeout = tokio::time::timeout_at(deadline.into(), finished);
                timeout.await.unwrap_or_else(|_| Err(late()))?
            }
        };
        let Execution {
            outputs: tensors,
            queue,
            compute,
        } = execution;
        let answered = outputs.into_iter().map(|(index, output)| {
            let tensor = &tensors[index];
            let tensor = match output.classes {
                None => tensor.clone(),
                Some(count) => classes(&self.model, tensor, count)
                    .map_err(|error| error.at(format_args!("output '{}'", output.name)))?,
            };
            Ok(AnsweredOutput {
                name: output.name,
                tensor,
                is_binary: output.is_binary,
            })
        });
        let answer = InferAnswer {
            model: self.name.clone(),
            version: self.version,
            id: request.id,
            outputs: answered.collect::<std::result::Result<_, Refusal>>()?,
        };
        Ok((answer, queue, compute))
    }

    /// The requested outputs with their positions among the model's.
    fn requested(
        &self,
        request: &InferRequest,
    ) -> std::result::Result<Vec<(usize, RequestedOutput)>, Refusal> {
        let known = self.model.outputs();
        if request.outputs.is_empty() {
            let all = known.iter().enumerate().map(|(index, output)| {
                let requested = RequestedOutput {
                    name: output.name.clone(),
                    is_binary: request.binary_outputs,
                    classes: None,
                };
                (index, requested)
            });
            return Ok(all.collect());
        }
        // Before the search for repeated names, which is quadratic.
        if request.outputs.len() > known.len() {
            let text = format!(
                "{} outputs, the model has {}",
                request.outputs.len(),
                known.len()
            );
            return Err(Refusal::invalid(text));
        }
        let found = request.outputs.iter().enumerate().map(|(at, output)| {
            let is_repeated = request.outputs[..at].iter().any(|o| o.name == output.name);
            if is_repeated {
                let text = format!("output '{}' is requested twice", output.name);
                return Err(Refusal::invalid(text));
            }
            let index = known.iter().position(|known| known.name == output.name);
            let index = index.ok_or_else(|| {
                let names: Vec<&str> = known.iter().map(|known| &*known.name).collect();
                let names = names.join(", ");
                let text = format!("the model has no output '{}': it has {names}", output.name);
                Refusal::invalid(text)
            })?;
            Ok((index, output.clone()))
        });
        found.collect()
    }

    /// The inputs in the order of the model, each of its data type and rank and fixed extents.
    fn in_order(&self, given: Vec<(String, Tensor)>) -> std::result::Result<Vec<Tensor>, Refusal> {
        let known = self.model.inputs();
        let mut ordered: Vec<Option<Tensor>> = vec![None; known.len()];
        let mut problems = Vec::new();
        for (name, tensor) in given {
            match known.iter().position(|input| input.name == name) {
                None => problems.push(format!("the model has no input '{name}'")),
                Some(index) if ordered[index].is_some() => {
                    problems.push(format!("input '{name}' is given twice"));
                }
                Some(index) => {
                    problems.extend(misfit(&known[index], &tensor));
                    ordered[index] = Some(tensor);
                }
            }
            // A caller needs no thousand sentences.
            if problems.len() > known.len() {
                break;
            }
        }
        for (input, tensor) in known.iter().zip(&ordered) {
            if tensor.is_none() {
                problems.push(format!("input '{}' is missing", input.name));
            }
        }
        match problems.is_empty() {
            true => Ok(ordered.into_iter().flatten().collect()),
            false => Err(Refusal::invalid(problems.join("; "))),
        }
    }
}

impl Port {
    fn of(signature: &Signature) -> Self {
        let extents = signature.shape.iter().map(|dimension| match dimension {
            Dimension::Fixed(size) => i64::try_from(*size).unwrap_or(i64::MAX),
            Dimension::Symbolic { .. } => -1,
        });
        Self {
            name: signature.name.clone(),
            datatype: datatype::name(signature.ty.dtype()).unwrap_or_default(),
            shape: extents.collect(),
        }
    }

    /// The port in the metadata of a model.
    pub fn json(&self) -> Value {
        json!({"name": self.name, "datatype": self.datatype, "shape": self.shape})
    }
}

/// Why the protocol lacks an input or output.
fn unsupported(signature: &Signature) -> Option<Error> {
    let is_supported = signature.kind.is_tensor() && datatype::name(signature.ty.dtype()).is_some();
    if is_supported {
        return None;
    }
    let text = format!(
        "'{}' is {signature}, which the protocol lacks",
        signature.name
    );
    Some(Error::new(ErrorKind::Unsupported, text))
}

fn misfit(input: &Signature, tensor: &Tensor) -> Option<String> {
    let (expected, found) = (Port::of(input), tensor.ty());
    let name = &input.name;
    let datatype = datatype::name(found.dtype()).unwrap_or_default();
    if datatype != expected.datatype {
        let expected = expected.datatype;
        return Some(format!(
            "input '{name}': expected {expected}, found {datatype}"
        ));
    }
    let shape = &found.shape()[..];
    let mut pairs = expected.shape.iter().zip(shape);
    let fits = expected.shape.len() == shape.len()
        && pairs.all(|(&expected, &found)| expected == -1 || expected as u64 == found as u64);
    let expected = &expected.shape;
    (!fits).then(|| format!("input '{name}': expected the shape {expected:?}, found {shape:?}"))
}

fn late() -> Refusal {
    let text = "the deadline passed before the answer was ready";
    Refusal::new(Status::DeadlineExceeded, text)
}
