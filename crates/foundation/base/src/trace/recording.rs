//! A trace sink that stores its records in memory.

use super::{TraceFile, TraceSink};
use std::cmp::Reverse;
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::ThreadId;
use std::time::{Duration, Instant};

/// Stores scopes, events and counters, and writes them as a file that Perfetto opens: one track per
/// thread, with its name, and one per counter.
///
/// ```
/// use std::time::{Duration, Instant};
/// use tenon_base::trace::{Recording, TraceSink};
/// let recording = Recording::new();
/// let start = Instant::now();
/// recording.scope("kernel", "MatMul_0", start, start + Duration::from_micros(5), 64);
/// recording.counter("memory", start, 4096);
/// assert!(recording.json("tenon").contains(r#""name":"MatMul_0","ts":0.000,"dur":5.000"#));
/// ```
#[derive(Debug, Default)]
pub struct Recording(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// Index of each thread, in the order of their first records.
    indices: HashMap<ThreadId, usize>,
    names: Vec<String>,
    scopes: Vec<(usize, TraceRecord)>,
    counters: Vec<Counter>,
}

/// A finished scope, or an event.
#[derive(Debug, Clone)]
pub struct TraceRecord {
    /// Its category.
    pub category: &'static str,
    /// Its name.
    pub name: String,
    /// Start of the scope, or time of the event.
    pub start: Instant,
    /// End of the scope; `None` for an event.
    pub end: Option<Instant>,
    /// Bytes moved.
    pub bytes: u64,
    /// Text arguments, by name.
    pub texts: Vec<(&'static str, String)>,
}

#[derive(Debug)]
struct Counter {
    name: String,
    at: Instant,
    value: u64,
}

impl TraceSink for Recording {
    fn scope(&self, category: &'static str, name: &str, start: Instant, end: Instant, bytes: u64) {
        self.scope_with(category, name, start, end, bytes, &[]);
    }

    fn scope_with(
        &self,
        category: &'static str,
        name: &str,
        start: Instant,
        end: Instant,
        bytes: u64,
        texts: &[(&'static str, &str)],
    ) {
        let texts = texts.iter().filter(|(_, text)| !text.is_empty());
        let texts = texts.map(|(name, text)| (*name, (*text).to_owned()));
        self.lock().push(TraceRecord {
            category,
            name: name.to_owned(),
            start,
            end: Some(end),
            bytes,
            texts: texts.collect(),
        });
    }

    fn event(&self, category: &'static str, name: &str, moment: Instant) {
        self.lock().push(TraceRecord {
            category,
            name: name.to_owned(),
            start: moment,
            end: None,
            bytes: 0,
            texts: Vec::new(),
        });
    }

    fn counter(&self, name: &str, at: Instant, value: u64) {
        let name = name.to_owned();
        self.lock().counters.push(Counter { name, at, value });
    }
}

impl Recording {
    /// An empty recording.
    pub fn new() -> Self {
        Self::default()
    }

    /// The scopes and events of each thread, sorted by start, outer scopes first; threads are
    /// sorted by their first start.
    pub fn threads(&self) -> Vec<Vec<TraceRecord>> {
        let mut scopes = self.lock().scopes.clone();
        // Of two scopes with the same start and end, the outer one was recorded last.
        scopes.reverse();
        scopes.sort_by_key(|(_, scope)| (scope.start, Reverse(scope.end)));
        let mut indices = HashMap::new();
        let mut threads: Vec<Vec<TraceRecord>> = Vec::new();
        for (thread, scope) in scopes {
            let index = *indices.entry(thread).or_insert(threads.len());
            match threads.get_mut(index) {
                Some(thread) => thread.push(scope),
                None => threads.push(vec![scope]),
            }
        }
        threads
    }

    /// The records in the Trace Event Format: times are relative to the first record, the process
    /// is called `process`.
    pub fn json(&self, process: &str) -> String {
        let state = self.lock();
        let starts = state.scopes.iter().map(|(_, scope)| scope.start);
        let first = starts
            .chain(state.counters.iter().map(|counter| counter.at))
            .min();
        let since = |at: Instant| first.map_or(Duration::ZERO, |first| at - first);
        let mut file = TraceFile::new(1);
        file.process_name(process);
        for (thread, name) in (0..).zip(&state.names) {
            file.thread_name(thread, name);
        }
        for (thread, scope) in &state.scopes {
            let (thread, start) = (*thread as u64, since(scope.start));
            let (category, name) = (scope.category, scope.name.as_str());
            match scope.end {
                Some(end) => {
                    let integers = [("bytes", scope.bytes)];
                    let length = end - scope.start;
                    file.scope_with(
                        thread,
                        category,
                        name,
                        start,
                        length,
                        &integers,
                        &scope.texts,
                    );
                }
                None => file.event(thread, category, name, start),
            }
        }
        for counter in &state.counters {
            file.counter(&counter.name, since(counter.at), counter.value);
        }
        file.finish()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Records are pushed whole: the state is consistent even if a holder panicked.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn push(&mut self, scope: TraceRecord) {
        let thread = self.thread();
        self.scopes.push((thread, scope));
    }

    /// The index of the calling thread.
    fn thread(&mut self) -> usize {
        let thread = std::thread::current();
        let index = *self.indices.entry(thread.id()).or_insert(self.names.len());
        if index == self.names.len() {
            let name = thread.name().map(str::to_owned);
            self.names
                .push(name.unwrap_or_else(|| format!("thread {index}")));
        }
        index
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_are_tracks_and_counters_have_times() {
        let recording = Recording::new();
        let start = Instant::now();
        let at = |micros| start + Duration::from_micros(micros);
        let texts = [
            ("operator", "Conv"),
            ("backend", ""),
            ("shapes", "f32[1] -> \"f32\""),
        ];
        recording.scope_with("kernel", "a \"quoted\"\n one\\", at(3), at(5), 7, &texts);
        std::thread::scope(|scope| {
            let named = std::thread::Builder::new().name("other".into());
            let other = named.spawn_scoped(scope, || recording.scope("dma", "b", at(1), at(2), 0));
            other.unwrap().join().unwrap();
        });
        recording.event("error", "no luck", at(4));
        recording.counter("memory", at(4), 12);
        let text = recording.json("me");
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(
            lines[1],
            r#"{"ph":"M","pid":1,"tid":0,"name":"process_name","args":{"name":"me"}},"#
        );
        assert!(lines[3].ends_with(r#""tid":1,"name":"thread_name","args":{"name":"other"}},"#));
        assert_eq!(
            lines[4],
            r#"{"ph":"X","pid":1,"tid":0,"cat":"kernel","name":"a \"quoted\"\u000a one\\","ts":2.000,"dur":2.000,"args":{"bytes":7,"operator":"Conv","shapes":"f32[1] -> \"f32\""}},"#
        );
        assert!(lines[5].contains(r#""tid":1,"cat":"dma","name":"b","ts":0.000,"dur":1.000"#));
        assert_eq!(
            lines[6],
            r#"{"ph":"i","pid":1,"tid":0,"cat":"error","name":"no luck","ts":3.000,"s":"t"},"#
        );
        assert_eq!(
            lines[7],
            r#"{"ph":"C","pid":1,"name":"memory","ts":3.000,"args":{"value":12}}"#
        );
        assert_eq!(lines.len(), 9, "{text}");
    }

    #[test]
    fn scopes_of_a_thread_are_sorted_by_start_outer_ones_first() {
        let recording = Recording::new();
        let start = Instant::now();
        let at = |micros| start + Duration::from_micros(micros);
        std::thread::scope(|scope| {
            scope.spawn(|| recording.scope("loop", "late", at(9), at(9), 0));
        });
        recording.scope("kernel", "inner", at(1), at(2), 0);
        recording.scope("kernel", "same", at(2), at(4), 0);
        recording.event("error", "event", at(3));
        recording.scope("function", "outer", at(1), at(5), 0);
        recording.scope("function", "same", at(2), at(4), 0);
        let threads: Vec<Vec<String>> = recording
            .threads()
            .iter()
            .map(|scopes| {
                scopes
                    .iter()
                    .map(|it| format!("{} {}", it.category, it.name))
                    .collect()
            })
            .collect();
        assert_eq!(
            threads,
            [
                &[
                    "function outer",
                    "kernel inner",
                    "function same",
                    "kernel same",
                    "error event"
                ][..],
                &["loop late"],
            ]
        );
    }

    #[test]
    fn an_empty_recording_is_a_valid_file() {
        let text = Recording::new().json("me");
        assert!(
            text.starts_with("{\"displayTimeUnit\"") && text.ends_with("]}\n"),
            "{text}"
        );
        assert_eq!(TraceFile::new(1).finish().lines().count(), 2);
    }
}
