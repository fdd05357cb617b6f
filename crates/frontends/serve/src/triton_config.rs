//! Settings in Triton's `config.pbtxt`, a
//! [`ModelConfig`](https://docs.nvidia.com/deeplearning/triton-inference-server/user-guide/docs/user_guide/model_configuration.html)
//! in the text format of Protocol Buffers (docs/serving.md, "Triton's configurations").

use crate::port::Format;
use crate::reshape::PortSettings;
use crate::settings::{EnsembleSettings, SequenceSettings, Settings, StateSettings, StepSettings};
use crate::text_format::{Field, Message, Position, Value};
use std::collections::BTreeMap;
use std::time::Duration;
use tenon::{Error, ErrorKind, Result};

/// The bytes of kept answers where `response_cache` is enabled: Triton has the size in an option of the server.
const CACHE_BYTES: u64 = 64 << 20;

/// Fields without an effect: what the model says itself, what is for other backends, and how CPUs and GPUs are used.
const IGNORED: [&str; 11] = [
    "backend",
    "cc_model_filenames",
    "default_model_filename",
    "metric_tags",
    "model_metrics",
    "model_warmup",
    "optimization",
    "parameters",
    "platform",
    "runtime",
    "version_policy",
];

/// Reads the configuration of the model `name`.
///
/// # Errors
/// A malformed text; otherwise all fields that are unknown, unsupported, or of values out of their ranges.
pub fn parse(text: &str, name: &str) -> Result<Settings> {
    let message = Message::parse(text)?;
    let mut translation = Translation::default();
    translation.configuration(&message, name);
    let settings = translation.settings;
    Error::from_all(translation.problems).map_or(Ok(settings), Err)
}

/// The settings that were found, and what is wrong.
#[derive(Default)]
struct Translation {
    settings: Settings,
    problems: Vec<Error>,
}

impl Translation {
    fn configuration(&mut self, message: &Message, name: &str) {
        let mut max_batch = 0;
        let mut joins = false;
        let mut outputs = Vec::new();
        for field in &message.fields {
            match &*field.name {
                "name" => {
                    let found = self.text(field);
                    if !found.is_empty() && found != name {
                        self.problem(field.place, "the name of another model", name, found);
                    }
                }
                "max_batch_size" => max_batch = self.count(field),
                "input" => {
                    if let Some((name, port)) = self.tensor(field) {
                        self.settings.inputs.insert(name, port);
                    }
                }
                "output" => {
                    if let Some((name, port)) = self.tensor(field) {
                        outputs.push(name.clone());
                        self.settings.outputs.insert(name, port);
                    }
                }
                "dynamic_batching" => {
                    joins = true;
                    self.batching(field);
                }
                "sequence_batching" => {
                    joins = true;
                    self.sequences(field);
                }
                "ensemble_scheduling" => self.ensemble(field),
                "instance_group" => self.instances(field),
                "response_cache" => {
                    let has_cache = |this: &mut Self, field: &Field| match &*field.name {
                        "enable" => {
                            let enabled = this.boolean(field);
                            this.settings.cache_bytes = enabled.then_some(CACHE_BYTES);
                        }
                        _ => this.unknown(field),
                    };
                    self.each(field, has_cache);
                }
                "model_transaction_policy" => self.each(field, |this, field| match &*field.name {
                    "decoupled" if !this.boolean(field) => {}
                    _ => this.unknown(field),
                }),
                field_name if IGNORED.contains(&field_name) => {}
                _ => self.unknown(field),
            }
        }
        self.settings.max_batch_size = Some(max_batch);
        self.settings.inputs.retain(|_, port| !port.is_empty());
        self.settings.outputs.retain(|_, port| !port.is_empty());
        match &mut self.settings.ensemble {
            Some(ensemble) => ensemble.outputs = outputs,
            // Without a batch, and without a scheduler that joins requests, each is executed alone.
            None => {
                self.settings.max_batch = Some(if joins { max_batch.max(1) } else { 1 });
                self.check_preferred(message, max_batch);
            }
        }
    }

    fn check_preferred(&mut self, message: &Message, max_batch: usize) {
        let Some(&greatest) = self.settings.preferred_batch.last() else {
            return;
        };
        let batching = |field: &&Field| field.name.ends_with("_batching");
        if greatest > max_batch
            && let Some(field) = message.fields.iter().find(batching)
        {
            let expected = format!("at most max_batch_size, {max_batch}");
            let text = "preferred_batch_size is out of its range";
            self.problem(field.place, text, &expected, greatest);
        }
    }

    /// The name of an input or output, and what it has beside the type and shape of the model.
    fn tensor(&mut self, field: &Field) -> Option<(String, PortSettings)> {
        let mut name = None;
        let mut labels = None;
        let mut port = PortSettings::default();
        let mut dims = Vec::new();
        let mut reshape = None;
        self.each(field, |this, field| match &*field.name {
            "name" => name = Some(this.text(field)),
            "label_filename" => labels = Some(this.text(field)),
            "format" => port.format = this.format(field),
            "dims" => dims.extend(this.extent(field)),
            "reshape" => {
                let mut shape = Vec::new();
                this.each(field, |this, field| match &*field.name {
                    "shape" => shape.extend(this.extent(field)),
                    _ => this.unknown(field),
                });
                reshape = Some((shape, field.place));
            }
            "data_type" | "optional" => {}
            _ => this.unknown(field),
        });
        if let Some((shape, place)) = reshape {
            let counts = [&dims, &shape].map(|extents| count_of(extents));
            if counts[0].is_none() || counts[0] != counts[1] {
                let expected = format!("as many elements, and extents of -1, as dims, {dims:?}");
                let text = "the shape of reshape does not fit";
                self.problem(place, text, &expected, format!("{shape:?}"));
            }
            port.reshape = Some((dims, shape));
        }
        if name.is_none() {
            self.problem(field.place, "a tensor without a name", "name", "none");
        }
        if let (Some(name), Some(labels)) = (&name, labels) {
            self.settings.labels.insert(name.clone(), labels.into());
        }
        Some((name?, port))
    }

    fn format(&mut self, field: &Field) -> Format {
        let found = self.word(field);
        let mut known = Format::ALL.iter().enumerate();
        let known = known.find(|(at, (_, name))| *name == found || at.to_string() == found);
        let Some((_, (format, _))) = known else {
            let expected = "FORMAT_NONE, FORMAT_NHWC or FORMAT_NCHW";
            self.mistyped(field, expected, &field.value);
            return Format::None;
        };
        *format
    }

    /// An extent: -1 is one that requests choose.
    fn extent(&mut self, field: &Field) -> Option<i64> {
        let extent = match &field.value {
            Value::Word(word) if word == "-1" => Some(-1),
            value => integer(value).and_then(|extent| i64::try_from(extent).ok()),
        };
        if extent.is_none() {
            self.mistyped(field, "-1 or an integer of at least 0", &field.value);
        }
        extent
    }

    fn batching(&mut self, field: &Field) {
        self.each(field, |this, field| match &*field.name {
            "preferred_batch_size" => {
                let count = this.positive(field);
                this.settings.preferred_batch.extend(count);
            }
            "max_queue_delay_microseconds" => this.settings.batch_delay = this.duration(field),
            "default_queue_policy" => this.queue_policy(field),
            "preserve_ordering" | "priority_levels" | "default_priority_level" => {}
            _ => this.unknown(field),
        });
    }

    fn queue_policy(&mut self, field: &Field) {
        self.each(field, |this, field| match &*field.name {
            "max_queue_size" => {
                let count = this.count(field);
                this.settings.max_waiting = (count > 0).then_some(count);
            }
            "default_timeout_microseconds" => {
                let timeout = this.duration(field);
                this.settings.timeout = timeout.filter(|timeout| !timeout.is_zero());
            }
            "timeout_action" => match this.word(field).as_str() {
                "REJECT" | "0" => {}
                found => {
                    let text = "an action at a timeout that is not supported";
                    this.problem(field.place, text, "REJECT", found);
                }
            },
            "allow_timeout_override" => {}
            _ => this.unknown(field),
        });
    }

    fn instances(&mut self, field: &Field) {
        let mut count = 1;
        self.each(field, |this, field| match &*field.name {
            "count" => count = this.positive(field).unwrap_or(1),
            "name" | "kind" | "gpus" | "profile" | "passive" | "host_policy" | "rate_limiter"
            | "secondary_devices" => {}
            _ => this.unknown(field),
        });
        let before = self.settings.instances.unwrap_or(0);
        self.settings.instances = Some(before.saturating_add(count));
    }

    fn sequences(&mut self, field: &Field) {
        let mut sequence = SequenceSettings::default();
        self.each(field, |this, field| match &*field.name {
            "max_sequence_idle_microseconds" => sequence.idle = this.duration(field),
            "control_input" => this.control(field, &mut sequence),
            "state" => sequence.states.extend(this.state(field)),
            "direct" | "oldest" => this.each(field, |this, field| match &*field.name {
                "preferred_batch_size" => {
                    let count = this.positive(field);
                    this.settings.preferred_batch.extend(count);
                }
                "max_queue_delay_microseconds" => this.settings.batch_delay = this.duration(field),
                "max_candidate_sequences" | "minimum_slot_utilization" | "preserve_ordering" => {}
                _ => this.unknown(field),
            }),
            _ => this.unknown(field),
        });
        self.settings.sequence = Some(sequence);
    }

    /// An input that has the start, the end or the id of a sequence, or that is 1 for each row.
    fn control(&mut self, field: &Field, sequence: &mut SequenceSettings) {
        let mut name = None;
        let mut kinds = Vec::new();
        self.each(field, |this, field| match &*field.name {
            "name" => name = Some(this.text(field)),
            "control" => {
                let mut values = Vec::new();
                this.each(field, |this, field| match &*field.name {
                    "kind" => kinds.push((this.word(field), field.place)),
                    "int32_false_true" | "fp32_false_true" | "bool_false_true" => {
                        let value = this.word(field);
                        let is_true = matches!(value.as_str(), "true" | "True" | "t");
                        let is_false = matches!(value.as_str(), "false" | "False" | "f");
                        let number = value.trim_end_matches(['f', 'F']).parse().ok();
                        let truth = (is_true || is_false).then_some(f64::from(u8::from(is_true)));
                        values.push(truth.or(number));
                    }
                    "data_type" => {}
                    _ => this.unknown(field),
                });
                if !matches!(&values[..], [] | [Some(0.0), Some(1.0)]) {
                    let text = "values of a control that are not supported";
                    this.problem(field.place, text, "[0, 1]", "others");
                }
            }
            _ => this.unknown(field),
        });
        let Some(name) = name else {
            return self.problem(field.place, "a control without a name", "name", "none");
        };
        for (kind, place) in kinds {
            let input = match kind.as_str() {
                "CONTROL_SEQUENCE_START" | "0" => &mut sequence.start_input,
                "CONTROL_SEQUENCE_READY" | "1" => &mut sequence.ready_input,
                "CONTROL_SEQUENCE_END" | "2" => &mut sequence.end_input,
                "CONTROL_SEQUENCE_CORRID" | "3" => &mut sequence.id_input,
                found => {
                    let expected = "CONTROL_SEQUENCE_START, _READY, _END or _CORRID";
                    self.problem(place, "a control that is not supported", expected, found);
                    continue;
                }
            };
            *input = Some(name.clone());
        }
    }

    fn state(&mut self, field: &Field) -> Option<StateSettings> {
        let (mut input, mut output) = (None, None);
        self.each(field, |this, field| match &*field.name {
            "input_name" => input = Some(this.text(field)),
            "output_name" => output = Some(this.text(field)),
            "initial_state" => this.each(field, |this, field| match &*field.name {
                "name" | "data_type" | "dims" => {}
                "zero_data" if this.boolean(field) => {}
                _ => this.unknown(field),
            }),
            "data_type" | "dims" | "use_same_buffer_for_input_output" | "use_growable_memory" => {}
            _ => this.unknown(field),
        });
        let state = input.zip(output);
        if state.is_none() {
            let expected = "input_name and output_name";
            self.problem(field.place, "a state without its names", expected, "less");
        }
        state.map(|(input, output)| StateSettings { input, output })
    }

    fn ensemble(&mut self, field: &Field) {
        let mut steps = Vec::new();
        self.each(field, |this, field| match &*field.name {
            "step" => steps.extend(this.step(field)),
            _ => this.unknown(field),
        });
        let outputs = Vec::new();
        self.settings.ensemble = Some(EnsembleSettings { outputs, steps });
    }

    fn step(&mut self, field: &Field) -> Option<StepSettings> {
        let mut model = None;
        let mut version = None;
        let (mut inputs, mut outputs) = (BTreeMap::new(), BTreeMap::new());
        self.each(field, |this, field| match &*field.name {
            "model_name" => model = Some(this.text(field)),
            "model_version" => match this.word(field).as_str() {
                "-1" => {}
                _ => version = this.positive(field).map(|version| version as u64),
            },
            "input_map" => inputs.extend(this.entry(field)),
            "output_map" => outputs.extend(this.entry(field)),
            "model_namespace" => {}
            _ => this.unknown(field),
        });
        if model.is_none() {
            self.problem(field.place, "a step without a model", "model_name", "none");
        }
        Some(StepSettings {
            model: model?,
            version,
            inputs,
            outputs,
        })
    }

    /// An entry of a map from texts to texts.
    fn entry(&mut self, field: &Field) -> Option<(String, String)> {
        let (mut key, mut value) = (None, None);
        self.each(field, |this, field| match &*field.name {
            "key" => key = Some(this.text(field)),
            "value" => value = Some(this.text(field)),
            _ => this.unknown(field),
        });
        let entry = key.zip(value);
        if entry.is_none() {
            self.problem(field.place, "an entry of a map", "key and value", "less");
        }
        entry
    }

    /// Calls `read` with each field of a message.
    fn each(&mut self, field: &Field, mut read: impl FnMut(&mut Self, &Field)) {
        match &field.value {
            Value::Message(message) => {
                for field in &message.fields {
                    read(self, field);
                }
            }
            value => self.mistyped(field, "a message in { }", value),
        }
    }

    fn text(&mut self, field: &Field) -> String {
        match &field.value {
            Value::Text(text) => text.clone(),
            value => {
                self.mistyped(field, "a text in quotes", value);
                String::new()
            }
        }
    }

    fn word(&mut self, field: &Field) -> String {
        match &field.value {
            Value::Word(word) => word.clone(),
            value => {
                self.mistyped(field, "a number or the name of a value", value);
                String::new()
            }
        }
    }

    fn boolean(&mut self, field: &Field) -> bool {
        match &field.value {
            Value::Word(word) if matches!(word.as_str(), "true" | "True" | "t" | "1") => true,
            Value::Word(word) if matches!(word.as_str(), "false" | "False" | "f" | "0") => false,
            value => {
                self.mistyped(field, "true or false", value);
                false
            }
        }
    }

    fn count(&mut self, field: &Field) -> usize {
        self.integer(field, 0).unwrap_or(0)
    }

    fn positive(&mut self, field: &Field) -> Option<usize> {
        self.integer(field, 1)
    }

    /// An integer from `least` to the greatest `int32`.
    fn integer(&mut self, field: &Field, least: u64) -> Option<usize> {
        let found = integer(&field.value).filter(|&found| found >= least);
        let found = found.and_then(|found| i32::try_from(found).ok());
        if found.is_none() {
            let expected = format!("an integer from {least} to {}", i32::MAX);
            self.mistyped(field, &expected, &field.value);
        }
        found.and_then(|found| usize::try_from(found).ok())
    }

    /// Microseconds, at most a million seconds as in other settings.
    fn duration(&mut self, field: &Field) -> Option<Duration> {
        let micros = integer(&field.value).filter(|&micros| micros <= 1_000_000_000_000);
        if micros.is_none() {
            let expected = "microseconds from 0 to 1000000000000";
            self.mistyped(field, expected, &field.value);
        }
        micros.map(Duration::from_micros)
    }

    fn mistyped(&mut self, field: &Field, expected: &str, found: &Value) {
        let text = format!("the value of {}", field.name);
        match found {
            Value::Word(word) => self.problem(field.place, &text, expected, word),
            Value::Text(found) => self.problem(field.place, &text, expected, format!("{found:?}")),
            Value::Message(_) => self.problem(field.place, &text, expected, "a message"),
        }
    }

    fn unknown(&mut self, field: &Field) {
        let text = format!("{} is not supported, or not with this value", field.name);
        let error = Error::new(ErrorKind::Unsupported, text).at(field.place.location());
        let help = "docs/serving.md, \"Triton's configurations\", lists the fields";
        self.problems.push(error.help(help));
    }

    fn problem(
        &mut self,
        place: Position,
        text: &str,
        expected: &str,
        found: impl std::fmt::Display,
    ) {
        let error = Error::new(ErrorKind::BadInput, text);
        let error = error.expected(expected).found(found);
        self.problems.push(error.at(place.location()));
    }
}

/// The product of extents without those of -1, and the count of these; `None` for one beyond 64 bits.
fn count_of(extents: &[i64]) -> Option<(i64, usize)> {
    let mut fixed = extents.iter().filter(|extent| **extent != -1);
    let product = fixed.try_fold(1i64, |product, &extent| product.checked_mul(extent));
    let free = extents.iter().filter(|extent| **extent == -1).count();
    Some((product?, free))
}

/// Decimal, or hexadecimal after `0x`.
fn integer(value: &Value) -> Option<u64> {
    let Value::Word(word) = value else {
        return None;
    };
    match word.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => word.parse().ok(),
    }
}

#[cfg(test)]
mod tests;
