//! Hardware and software counters of backends, sampled while executions are profiled or traced.

use crate::Profile;
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Instant;
use tenon_backend::{ProfilingContext, Registry};
use tenon_base::trace::TraceSink;
use tenon_base::{Error, Result};

/// The values of one counter of a backend in profiled executions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CounterProfile {
    /// The backend.
    pub backend: String,
    /// The counter's name.
    pub name: String,
    /// The documentation.
    pub doc: String,
    /// The unit; empty for a plain count.
    pub unit: String,
    /// The increase during the executions, including concurrent ones.
    pub change: u64,
    /// The value at the end of the last execution.
    pub value: u64,
}

/// The counters of one backend.
struct Counters {
    backend: String,
    context: Box<dyn ProfilingContext>,
    /// The names in traces: `MyAcc cycles`.
    labels: Vec<String>,
    /// The number of observed executions: the first enables counting, the last disables it.
    listeners: Mutex<usize>,
}

impl Counters {
    fn sample(&self) -> Result<Vec<u64>> {
        let mut values = vec![0; self.labels.len()];
        self.context.sample(&mut values)?;
        Ok(values)
    }

    fn start_counting(&self, on: bool) -> Result<()> {
        let mut listeners = self
            .listeners
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let before = *listeners;
        *listeners = if on {
            before + 1
        } else {
            before.saturating_sub(1)
        };
        match before.max(*listeners) {
            1 => self.context.enable(on),
            _ => Ok(()),
        }
    }
}

/// The counters of a runtime's backends, created on first use.
#[derive(Default)]
pub(crate) struct BackendCounters(OnceLock<Vec<(String, Result<Arc<Counters>>)>>);

impl BackendCounters {
    fn all(&self, backends: &Registry) -> &[(String, Result<Arc<Counters>>)] {
        self.0.get_or_init(|| {
            let made = backends.iter().filter_map(|backend| {
                let id = backend.id().to_string();
                let context = backend.profiling().transpose()?;
                let counters = context.map(|context| {
                    let counters = context.counters().iter();
                    Arc::new(Counters {
                        labels: counters
                            .map(|counter| format!("{id} {}", counter.name))
                            .collect(),
                        backend: id.clone(),
                        context,
                        listeners: Mutex::new(0),
                    })
                });
                Some((id, counters))
            });
            made.collect()
        })
    }
}

/// The counters of the backends that one model runs on.
#[derive(Clone)]
pub(crate) struct ModelCounters {
    pub backends: Arc<Registry>,
    pub counters: Arc<BackendCounters>,
    pub used: BTreeSet<String>,
}

impl ModelCounters {
    fn used(&self) -> impl Iterator<Item = &(String, Result<Arc<Counters>>)> {
        let all = self.counters.all(&self.backends).iter();
        all.filter(|(id, _)| self.used.contains(id))
    }

    /// The rows of a profile, and the errors of backends whose counters are unavailable.
    pub fn rows(&self) -> (Vec<CounterProfile>, Vec<(String, String)>) {
        let (mut rows, mut unreadable) = (Vec::new(), Vec::new());
        for (id, counters) in self.used() {
            match counters {
                Ok(counters) => {
                    rows.extend(
                        counters
                            .context
                            .counters()
                            .iter()
                            .map(|counter| CounterProfile {
                                backend: id.clone(),
                                name: counter.name.clone(),
                                doc: counter.doc.clone(),
                                unit: counter.unit.clone(),
                                change: 0,
                                value: 0,
                            }),
                    )
                }
                Err(error) => unreadable.push((id.clone(), error.to_string())),
            }
        }
        (rows, unreadable)
    }

    /// Enables the counters for one execution.
    pub fn start_counting(&self) -> CounterSession {
        let made = self.used().filter_map(|(_, counters)| {
            let counters = counters.as_ref().ok()?.clone();
            let baseline = counters
                .start_counting(true)
                .and_then(|()| counters.sample());
            Some(CounterBaseline { counters, baseline })
        });
        CounterSession(made.collect())
    }
}

/// The counters of the backends during one execution.
#[derive(Default)]
pub(crate) struct CounterSession(Vec<CounterBaseline>);

struct CounterBaseline {
    counters: Arc<Counters>,
    /// The values at the start of the execution.
    baseline: Result<Vec<u64>>,
}

impl CounterSession {
    /// Adds the counters of `backend` to a trace, after a kernel has ended.
    pub fn trace(&self, backend: &str, at: Instant, trace: &dyn TraceSink) {
        let own = self.0.iter().filter(|one| one.counters.backend == backend);
        for CounterBaseline { counters, .. } in own {
            if let Ok(values) = counters.sample() {
                for (label, value) in counters.labels.iter().zip(values) {
                    trace.counter(label, at, value);
                }
            }
        }
    }

    /// Adds the counts of the finished execution to a profile.
    pub fn finish(&self, profile: &mut Profile) {
        for CounterBaseline { counters, baseline } in &self.0 {
            let ended = counters.sample();
            let error = match (baseline, ended) {
                (Ok(baseline), Ok(ended)) => {
                    let rows = profile.counters.iter_mut();
                    let rows = rows.filter(|row| row.backend == counters.backend);
                    for ((row, baseline), ended) in rows.zip(baseline).zip(ended) {
                        row.change += ended.saturating_sub(*baseline);
                        row.value = ended;
                    }
                    continue;
                }
                (Err(error), _) => error.to_string(),
                (_, Err(error)) => error.to_string(),
            };
            let unreadable = (counters.backend.clone(), error);
            if !profile.unreadable_counters.contains(&unreadable) {
                profile.unreadable_counters.push(unreadable);
            }
        }
    }
}

impl Drop for CounterSession {
    fn drop(&mut self) {
        for CounterBaseline { counters, .. } in &self.0 {
            // An error to disable counters does not affect the execution.
            let _: Result<(), Error> = counters.start_counting(false);
        }
    }
}
