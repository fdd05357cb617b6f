//! One served version of a model or ensemble: its requests, its configuration and its statistics.

use crate::answer_cache::AnswerCache;
use crate::class_labels::ClassLabels;
use crate::classification::classes;
use crate::datatype;
use crate::ensemble::Ensemble;
use crate::infer::{AnsweredOutput, InferAnswer, InferRequest, RequestedOutput};
use crate::loaded_model::{Call, LoadedModel};
use crate::model_loader::EnsemblePlan;
use crate::port::Port;
use crate::queue::Execution;
use crate::rate_limit::RateLimit;
use crate::settings::Settings;
use crate::statistics::Statistics;
use crate::status::{Refusal, Status};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tenon::{Error, Tensor};

/// A model that answers requests.
pub struct ServedModel {
    name: String,
    version: u64,
    kind: Kind,
    rate: Option<RateLimit>,
    cache: Option<AnswerCache>,
    labels: Arc<ClassLabels>,
    timeout: Option<Duration>,
    max_rows: usize,
    statistics: Arc<Statistics>,
    /// The size of its package.
    bytes: u64,
}

enum Kind {
    Model(LoadedModel),
    Ensemble(Ensemble),
}

type Result<T, E = Refusal> = std::result::Result<T, E>;

impl ServedModel {
    /// A model whose package has this many bytes.
    ///
    /// # Errors
    /// Labels of outputs that it lacks.
    pub fn of_model(
        name: &str,
        version: u64,
        model: LoadedModel,
        bytes: u64,
        settings: &Settings,
        mut labels: ClassLabels,
        statistics: Arc<Statistics>,
    ) -> tenon::Result<Self> {
        labels.add_package(&model.executor().interface().metadata);
        let kind = Kind::Model(model);
        let served = Self::new(name, version, kind, settings, labels.into(), statistics)?;
        Ok(Self { bytes, ..served })
    }

    /// An ensemble.
    ///
    /// # Errors
    /// As [`Self::of_model`].
    pub fn of_ensemble(
        name: &str,
        version: u64,
        ensemble: Ensemble,
        plan: &EnsemblePlan,
        statistics: Arc<Statistics>,
    ) -> tenon::Result<Self> {
        let kind = Kind::Ensemble(ensemble);
        let labels = plan.labels.clone();
        Self::new(name, version, kind, &plan.settings, labels, statistics)
    }

    fn new(
        name: &str,
        version: u64,
        kind: Kind,
        settings: &Settings,
        labels: Arc<ClassLabels>,
        statistics: Arc<Statistics>,
    ) -> tenon::Result<Self> {
        let rate = settings.max_rate;
        let max_rows = match &kind {
            Kind::Model(model) => model.max_rows(),
            Kind::Ensemble(_) => settings.max_batch_size.unwrap_or(0),
        };
        let served = Self {
            name: name.to_owned(),
            version,
            kind,
            rate: rate.map(|rate| RateLimit::new(rate, settings.burst.unwrap_or(1))),
            cache: settings.cache_bytes.map(AnswerCache::new),
            labels,
            timeout: settings.timeout,
            max_rows,
            statistics,
            bytes: 0,
        };
        served.labels.check(served.outputs())?;
        if served.is_ensemble() {
            let ports = served.inputs().iter().chain(served.outputs());
            Error::from_all(settings.batch_problems(ports)).map_or(Ok(()), Err)?;
        }
        Ok(served)
    }

    /// The name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The version.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// The platform, in the form `project_format`; that of ensembles is Triton's.
    pub fn platform(&self) -> &'static str {
        match self.kind {
            Kind::Model(_) => "tenon_neff",
            Kind::Ensemble(_) => "ensemble",
        }
    }

    /// The time of a request that has no timeout itself.
    pub fn timeout(&self) -> Option<Duration> {
        self.timeout
    }

    /// The size of the package in bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Its counts.
    pub fn statistics(&self) -> &Arc<Statistics> {
        &self.statistics
    }

    /// Requests that wait.
    pub fn waiting(&self) -> usize {
        self.model().map_or(0, |model| model.queue().waiting())
    }

    /// Requests that are part of an execution.
    pub fn running(&self) -> usize {
        self.model().map_or(0, |model| model.queue().running())
    }

    /// How often its worker process was started again.
    pub fn restarts(&self) -> u64 {
        self.model().map_or(0, |model| model.executor().restarts())
    }

    /// Sequences that have not ended.
    pub fn sequences(&self) -> usize {
        let sequences = self.model().and_then(LoadedModel::sequences);
        sequences.map_or(0, |sequences| sequences.count())
    }

    /// Forgets sequences without requests.
    pub fn expire_sequences(&self) {
        if let Some(sequences) = self.model().and_then(LoadedModel::sequences) {
            sequences.expire();
        }
    }

    /// The greatest batch of the configuration; 0 for none.
    pub fn max_rows(&self) -> usize {
        self.max_rows
    }

    /// Whether it is an ensemble.
    pub fn is_ensemble(&self) -> bool {
        matches!(self.kind, Kind::Ensemble(_))
    }

    /// The ensemble.
    pub fn ensemble(&self) -> Option<&Ensemble> {
        match &self.kind {
            Kind::Model(_) => None,
            Kind::Ensemble(ensemble) => Some(ensemble),
        }
    }

    /// The inputs of requests.
    pub fn inputs(&self) -> &[Port] {
        match &self.kind {
            Kind::Model(model) => model.inputs(),
            Kind::Ensemble(ensemble) => ensemble.inputs(),
        }
    }

    /// The outputs of answers.
    pub fn outputs(&self) -> &[Port] {
        match &self.kind {
            Kind::Model(model) => model.outputs(),
            Kind::Ensemble(ensemble) => ensemble.outputs(),
        }
    }

    /// The configuration that the extension "model_configuration" describes.
    pub fn configuration(&self) -> Value {
        let port = |port: &Port| {
            let data_type = datatype::configuration_name(port.dtype);
            json!({"name": port.name, "data_type": data_type, "dims": self.dims(port)})
        };
        let input = |input: &Port| {
            let mut input_json = port(input);
            input_json["format"] = input.format.name().into();
            input_json
        };
        json!({
            "name": self.name,
            "platform": self.platform(),
            "backend": "tenon",
            "max_batch_size": self.max_rows(),
            "input": self.inputs().iter().map(input).collect::<Vec<Value>>(),
            "output": self.outputs().iter().map(port).collect::<Vec<Value>>(),
        })
    }

    /// The extents of a port without the batch.
    pub fn dims<'a>(&self, port: &'a Port) -> &'a [i64] {
        let skipped = usize::from(self.max_rows() > 0 && port.shape.first() == Some(&-1));
        &port.shape[skipped..]
    }

    /// Answers a request. Dropping the future cancels it.
    ///
    /// # Errors
    /// More requests than the rate allows; inputs or outputs that the model lacks or that have other types; a full
    /// queue; a passed deadline; what the execution fails with.
    pub async fn infer(
        &self,
        request: InferRequest,
        deadline: Option<Instant>,
    ) -> Result<(InferAnswer, Duration, Duration)> {
        if let Some(rate) = &self.rate {
            rate.take(Instant::now())?;
        }
        let outputs = self.requested(&request)?;
        let inputs = self.in_order(request.inputs)?;
        let call = Call {
            priority: request.priority,
            deadline,
            sequence: request.sequence,
        };
        let execution = self.find_or_execute(inputs, &call);
        let execution = match deadline {
            None => execution.await?,
            Some(deadline) => tokio::time::timeout_at(deadline.into(), execution)
                .await
                .unwrap_or_else(|_| Err(late()))?,
        };
        let answered = outputs.into_iter().map(|(index, output)| {
            let tensor = &execution.outputs[index];
            let tensor = match output.classes {
                None => tensor.clone(),
                Some(count) => classes(self.labels(index, &output.name), tensor, count)
                    .map_err(|error| error.at(format_args!("output '{}'", output.name)))?,
            };
            Ok(AnsweredOutput {
                name: output.name,
                tensor,
                is_binary: output.is_binary,
                region: output.region,
            })
        });
        let answer = InferAnswer {
            model: self.name.clone(),
            version: self.version,
            id: request.id,
            outputs: answered.collect::<Result<_>>()?,
        };
        Ok((answer, execution.queue, execution.compute))
    }

    /// Executes the model as a step of an ensemble.
    ///
    /// # Errors
    /// As [`LoadedModel::execute`]; tensors that do not fit the model.
    pub async fn execute_step(&self, inputs: Vec<Tensor>, call: &Call) -> Result<Execution> {
        let misfits = self.inputs().iter().zip(&inputs);
        let misfits: Vec<String> = misfits.filter_map(|(port, it)| port.misfit(it)).collect();
        if !misfits.is_empty() {
            return Err(Refusal::invalid(misfits.join("; ")));
        }
        let Kind::Model(model) = &self.kind else {
            let text = "an ensemble is no step of an ensemble";
            return Err(Refusal::new(Status::Unsupported, text));
        };
        let sequence = call
            .sequence
            .as_ref()
            .filter(|_| model.sequences().is_some());
        let call = Call {
            sequence: sequence.cloned(),
            ..*call
        };
        model.execute(inputs, &call).await
    }

    async fn find_or_execute(&self, inputs: Vec<Tensor>, call: &Call) -> Result<Execution> {
        let Some(cache) = &self.cache else {
            return self.execute(inputs, call).await;
        };
        let start = Instant::now();
        let key = AnswerCache::key(&inputs);
        if let Some(outputs) = cache.find(&key) {
            self.statistics.found(start.elapsed());
            return Ok(Execution {
                outputs: outputs.to_vec(),
                queue: Duration::ZERO,
                compute: Duration::ZERO,
            });
        }
        let execution = self.execute(inputs, call).await?;
        let start = Instant::now();
        cache.keep(key, &execution.outputs)?;
        self.statistics.kept(start.elapsed());
        Ok(execution)
    }

    async fn execute(&self, inputs: Vec<Tensor>, call: &Call) -> Result<Execution> {
        let ensemble = match &self.kind {
            Kind::Model(model) => return model.execute(inputs, call).await,
            Kind::Ensemble(ensemble) => ensemble,
        };
        let execution = ensemble.execute(inputs, call).await?;
        self.statistics.executed(1, execution.compute);
        Ok(execution)
    }

    /// The names of the classes that an output scores: those of an ensemble, or those of the step that makes it.
    fn labels(&self, index: usize, output: &str) -> Option<&[String]> {
        let own = self.labels.find(output);
        own.or_else(|| {
            let (model, output) = self.ensemble()?.source(index)?;
            model.labels.find(output)
        })
    }

    fn model(&self) -> Option<&LoadedModel> {
        match &self.kind {
            Kind::Model(model) => Some(model),
            Kind::Ensemble(_) => None,
        }
    }

    /// The requested outputs with their positions among the model's.
    fn requested(&self, request: &InferRequest) -> Result<Vec<(usize, RequestedOutput)>> {
        let known = self.outputs();
        if request.outputs.is_empty() {
            let all = known.iter().enumerate().map(|(index, output)| {
                let requested = RequestedOutput {
                    name: output.name.clone(),
                    is_binary: request.binary_outputs,
                    classes: None,
                    region: None,
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
    fn in_order(&self, given: Vec<(String, Tensor)>) -> Result<Vec<Tensor>> {
        let known = self.inputs();
        let mut ordered: Vec<Option<Tensor>> = vec![None; known.len()];
        let mut problems = Vec::new();
        for (name, tensor) in given {
            match known.iter().position(|input| input.name == name) {
                None => problems.push(format!("the model has no input '{name}'")),
                Some(index) if ordered[index].is_some() => {
                    problems.push(format!("input '{name}' is given twice"));
                }
                Some(index) => {
                    problems.extend(known[index].misfit(&tensor));
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

fn late() -> Refusal {
    let text = "the deadline passed before the answer was ready";
    Refusal::new(Status::DeadlineExceeded, text)
}
