//! Settings of one model in TOML, `NAME.toml` beside its file or `NAME/model.toml` in its folder, or in Triton's
//! `NAME/config.pbtxt` (docs/serving.md, "Settings").

use crate::port::Port;
use crate::reshape::PortSettings;
use crate::triton_config;
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::Duration;
use tenon::{Error, ErrorKind, Location, Result};

/// What a file of settings has. What it lacks is as the options of the server say.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// The most rows of a joined execution.
    pub max_batch: Option<usize>,
    /// Triton's `max_batch_size`, which configurations have whether requests are joined or not.
    #[serde(skip)]
    pub max_batch_size: Option<usize>,
    /// What Triton's form says about inputs.
    #[serde(skip)]
    pub inputs: BTreeMap<String, PortSettings>,
    /// What it says about outputs.
    #[serde(skip)]
    pub outputs: BTreeMap<String, PortSettings>,
    /// Rows with which an execution starts at once, in ascending order.
    #[serde(default)]
    pub preferred_batch: BTreeSet<usize>,
    /// How long a request waits for others.
    #[serde(default, deserialize_with = "seconds")]
    pub batch_delay: Option<Duration>,
    /// The most requests that wait.
    pub max_waiting: Option<usize>,
    /// The time of a request that has no timeout itself.
    #[serde(default, deserialize_with = "seconds")]
    pub timeout: Option<Duration>,
    /// Concurrent executions.
    pub instances: Option<usize>,
    /// The most threads of one execution.
    pub threads: Option<usize>,
    /// Whether the model is executed once before it is served.
    pub warm_up: Option<bool>,
    /// The most requests in a second.
    pub max_rate: Option<f64>,
    /// Requests that may come at once before the rate is applied.
    pub burst: Option<u32>,
    /// The bytes of answers that are kept for equal requests.
    pub cache_bytes: Option<u64>,
    /// For outputs that score classes, files with their names, a line for each. Relative to the folder of the settings.
    #[serde(default)]
    pub labels: BTreeMap<String, PathBuf>,
    /// How requests of one caller share a state.
    pub sequence: Option<SequenceSettings>,
    /// The steps of an ensemble, which has no model file.
    pub ensemble: Option<EnsembleSettings>,
}

/// How the requests of a sequence share a state.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SequenceSettings {
    /// The time after which a sequence without requests is forgotten.
    #[serde(default, deserialize_with = "seconds")]
    pub idle: Option<Duration>,
    /// The most sequences.
    pub max: Option<usize>,
    /// The most bytes of all states.
    pub max_bytes: Option<usize>,
    /// The outputs that are inputs of the next request.
    #[serde(default, rename = "state")]
    pub states: Vec<StateSettings>,
    /// The input that is 1 in the first request of a sequence.
    pub start_input: Option<String>,
    /// The input that is 1 in the last one.
    pub end_input: Option<String>,
    /// The input that is 1 in every request.
    pub ready_input: Option<String>,
    /// The input that receives the id of the sequence.
    pub id_input: Option<String>,
}

/// A state: zeros in the first request, then the output of the one before.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StateSettings {
    /// The input of the model.
    pub input: String,
    /// Its next value.
    pub output: String,
}

/// An ensemble: models that pass tensors to each other.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EnsembleSettings {
    /// The tensors that the ensemble answers with.
    pub outputs: Vec<String>,
    /// The models in any order.
    #[serde(rename = "step")]
    pub steps: Vec<StepSettings>,
}

/// One model of an ensemble.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StepSettings {
    /// Its name.
    pub model: String,
    /// Its version; the highest one that is served when absent.
    pub version: Option<u64>,
    /// The tensor of the ensemble for each input.
    pub inputs: BTreeMap<String, String>,
    /// The tensor of the ensemble that an output becomes.
    pub outputs: BTreeMap<String, String>,
}

/// The most bytes of a file of settings.
const MAX_BYTES: u64 = 1 << 20;

/// The longest time in seconds.
const MAX_SECONDS: f64 = 1e6;

impl Settings {
    /// Reads a file of the model `name`.
    ///
    /// # Errors
    /// A file that cannot be read, malformed text, unknown names, values out of their ranges.
    pub fn read(path: &Path, name: &str) -> Result<Self> {
        let failed = |error| Error::io(path, "read", error);
        let bytes = std::fs::metadata(path).map_err(failed)?.len();
        if bytes > MAX_BYTES {
            return Err(
                Error::new(ErrorKind::BadInput, "the settings are too large")
                    .expected(format_args!("at most {MAX_BYTES} bytes"))
                    .found(bytes)
                    .at(Location::file(path)),
            );
        }
        let text = std::fs::read_to_string(path).map_err(failed)?;
        let settings = match path.extension().is_some_and(|it| it == "pbtxt") {
            true => triton_config::parse(&text, name).and_then(Self::checked),
            false => Self::parse(&text),
        };
        settings.map_err(|error| error.at(Location::file(path)))
    }

    /// Reads the text of a file.
    ///
    /// # Errors
    /// As [`Self::read`].
    pub fn parse(text: &str) -> Result<Self> {
        let settings: Self = toml::from_str(text).map_err(|error| syntax_error(text, &error))?;
        settings.checked()
    }

    fn checked(self) -> Result<Self> {
        Error::from_all(self.problems()).map_or(Ok(self), Err)
    }

    fn problems(&self) -> Vec<Error> {
        let mut problems = Vec::new();
        let counts = [
            ("max_batch", self.max_batch),
            ("max_waiting", self.max_waiting),
            ("instances", self.instances),
            ("threads", self.threads),
            ("burst", self.burst.map(|burst| burst as usize)),
            ("sequence.max", self.sequence.as_ref().and_then(|it| it.max)),
        ];
        for (field, count) in counts {
            if count == Some(0) {
                problems.push(problem(field, "at least 1", 0));
            }
        }
        if self.preferred_batch.contains(&0) {
            problems.push(problem("preferred_batch", "at least 1", 0));
        }
        if let (Some(&greatest), Some(most)) = (self.preferred_batch.last(), self.max_batch)
            && greatest > most
        {
            let expected = format!("at most max_batch, {most}");
            problems.push(problem("preferred_batch", &expected, greatest));
        }
        if let Some(rate) = self.max_rate
            && !(1e-3..=1e9).contains(&rate)
        {
            problems.push(problem("max_rate", "requests a second, 0.001 to 1e9", rate));
        }
        if self.burst.is_some() && self.max_rate.is_none() {
            problems.push(problem("burst", "max_rate with it", "none"));
        }
        if self.sequence.is_some() && self.cache_bytes.is_some() {
            let text = "answers of a model with sequences depend on its states";
            problems.push(problem("cache_bytes", "no [sequence]", text));
        }
        if self.ensemble.is_some() {
            problems.extend(self.problems_of_ensemble());
        }
        problems
    }

    /// With another greatest batch. Requests that are not joined are not joined then either.
    #[must_use]
    pub fn with_max_batch_size(mut self, rows: usize) -> Self {
        self.max_batch_size = Some(rows);
        if self.ensemble.is_none() {
            let is_joining = self.max_batch != Some(1);
            self.max_batch = Some(if is_joining { rows.max(1) } else { 1 });
            self.preferred_batch.retain(|&preferred| preferred <= rows);
        }
        self
    }

    /// Inputs and outputs that have no batch, where the greatest batch of the configuration is above 0.
    pub fn batch_problems<'a>(&self, ports: impl Iterator<Item = &'a Port>) -> Vec<Error> {
        let rows = self.max_batch_size.unwrap_or(0);
        let without = ports.filter(|port| rows > 0 && port.shape.first() != Some(&-1));
        let problems = without.map(|port| {
            let text = format!(
                "'{}' has no batch, its shape is {:?}",
                port.name, port.shape
            );
            let error =
                Error::new(ErrorKind::BadInput, text).found(format_args!("max_batch_size {rows}"));
            error.expected("max_batch_size 0, or a first extent that requests choose")
        });
        problems.collect()
    }

    /// An ensemble executes by its models, whose settings have batches and sequences.
    fn problems_of_ensemble(&self) -> impl Iterator<Item = Error> {
        let found = [
            ("max_batch", self.max_batch.is_some()),
            ("preferred_batch", !self.preferred_batch.is_empty()),
            ("batch_delay", self.batch_delay.is_some()),
            ("max_waiting", self.max_waiting.is_some()),
            ("instances", self.instances.is_some()),
            ("threads", self.threads.is_some()),
            ("warm_up", self.warm_up.is_some()),
            ("sequence", self.sequence.is_some()),
        ];
        let found = found.into_iter().filter(|(_, is_found)| *is_found);
        found.map(|(field, _)| {
            let text = "an ensemble has this in the settings of its models";
            Error::new(ErrorKind::BadInput, text).at(Location::field(field))
        })
    }
}

fn problem(field: &str, expected: &str, found: impl std::fmt::Display) -> Error {
    Error::new(ErrorKind::BadInput, "a setting is out of its range")
        .expected(expected)
        .found(found)
        .at(Location::field(field))
}

/// The place and the text of an error of the TOML reader.
fn syntax_error(text: &str, error: &toml::de::Error) -> Error {
    let place = error.span().and_then(|span| text.get(..span.start));
    let place = place.map_or_else(Location::default, |before| {
        let line = before.matches('\n').count() + 1;
        let column = before.rsplit('\n').next().unwrap_or_default().chars();
        let number = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
        Location::default().line_column(number(line), number(column.count() + 1))
    });
    Error::new(ErrorKind::BadInput, error.message().trim()).at(place)
}

fn seconds<'de, D: serde::Deserializer<'de>>(
    deserializer: D,
) -> std::result::Result<Option<Duration>, D::Error> {
    let seconds = f64::deserialize(deserializer)?;
    match (0.0..=MAX_SECONDS).contains(&seconds) {
        true => Ok(Some(Duration::from_secs_f64(seconds))),
        false => Err(serde::de::Error::custom(format_args!(
            "expected seconds from 0 to {MAX_SECONDS}, found {seconds}"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_settings_are_read() {
        let text = "
            max_batch = 16
            preferred_batch = [8, 4]
            batch_delay = 0.002
            instances = 2
            max_rate = 50
            [sequence]
            idle = 5
            start_input = 'START'
            [[sequence.state]]
            input = 'h'
            output = 'h_next'";
        let settings = Settings::parse(text).unwrap();
        assert_eq!(settings.max_batch, Some(16));
        assert_eq!(settings.preferred_batch, BTreeSet::from([4, 8]));
        assert_eq!(settings.batch_delay, Some(Duration::from_millis(2)));
        let sequence = settings.sequence.unwrap();
        assert_eq!(sequence.idle, Some(Duration::from_secs(5)));
        assert_eq!(sequence.states[0].output, "h_next");
        assert_eq!(Settings::parse("").unwrap(), Settings::default());
        let text = "
            [ensemble]
            outputs = ['y']
            [[ensemble.step]]
            model = 'a'
            inputs = { x = 'x' }
            outputs = { out = 'y' }";
        let ensemble = Settings::parse(text).unwrap().ensemble.unwrap();
        assert_eq!(ensemble.steps[0].inputs["x"], "x");
    }

    #[test]
    fn problems_have_their_places() {
        let error = Settings::parse("max_batch = 4\nmax_bach = 1").unwrap_err();
        let text = error.to_string();
        assert!(
            text.contains("line 2, column 1") && text.contains("max_bach"),
            "{text}"
        );
        let error = Settings::parse("max_batch = 0\npreferred_batch = [0, 9]\nburst = 3");
        assert_eq!(error.unwrap_err().all().count(), 4);
        for bad in [
            "batch_delay = -1",
            "batch_delay = nan",
            "max_rate = nan",
            "max_rate = 0",
            "instances = -1",
            "[ensemble]",
            "x",
        ] {
            assert!(Settings::parse(bad).is_err(), "{bad}");
        }
    }
}
