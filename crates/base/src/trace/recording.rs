//! A sink that keeps what it hears.

use super::TraceSink;
use std::collections::HashMap;
use std::fmt::Write;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::ThreadId;
use std::time::Instant;

/// Keeps scopes and counters, and writes them as a file that Perfetto opens: one track a thread,
/// by its name, and one a counter.
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
    /// Number of each thread, in the order they are first heard of.
    threads: HashMap<ThreadId, usize>,
    names: Vec<String>,
    scopes: Vec<Scope>,
    counters: Vec<Counter>,
}

#[derive(Debug)]
struct Scope {
    thread: usize,
    category: &'static str,
    name: String,
    start: Instant,
    end: Instant,
    bytes: u64,
}

#[derive(Debug)]
struct Counter {
    name: String,
    at: Instant,
    value: u64,
}

impl TraceSink for Recording {
    fn scope(&self, category: &'static str, name: &str, start: Instant, end: Instant, bytes: u64) {
        let mut state = self.lock();
        let thread = state.thread();
        state.scopes.push(Scope {
            thread,
            category,
            name: name.to_owned(),
            start,
            end,
            bytes,
        });
    }

    fn counter(&self, name: &str, at: Instant, value: u64) {
        self.lock().counters.push(Counter {
            name: name.to_owned(),
            at,
            value,
        });
    }
}

impl Recording {
    /// One that has heard nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// The trace event format: times are microseconds from the first event, the process is called
    /// `process`.
    pub fn json(&self, process: &str) -> String {
        let state = self.lock();
        let starts = state.scopes.iter().map(|scope| scope.start);
        let first = starts
            .chain(state.counters.iter().map(|counter| counter.at))
            .min();
        let since = |at: Instant| {
            let time = first.map_or(0.0, |first| (at - first).as_secs_f64());
            time * 1e6
        };
        let mut events = vec![named("process_name", 0, process)];
        let threads = state.names.iter().enumerate();
        events.extend(threads.map(|(thread, name)| named("thread_name", thread, name)));
        events.extend(state.scopes.iter().map(|scope| {
            format!(
                "{{\"ph\":\"X\",\"pid\":1,\"tid\":{},\"cat\":{},\"name\":{},\"ts\":{:.3},\
                 \"dur\":{:.3},\"args\":{{\"bytes\":{}}}}}",
                scope.thread,
                quoted(scope.category),
                quoted(&scope.name),
                since(scope.start),
                (scope.end - scope.start).as_secs_f64() * 1e6,
                scope.bytes,
            )
        }));
        events.extend(state.counters.iter().map(|counter| {
            format!(
                "{{\"ph\":\"C\",\"pid\":1,\"name\":{},\"ts\":{:.3},\"args\":{{\"value\":{}}}}}",
                quoted(&counter.name),
                since(counter.at),
                counter.value,
            )
        }));
        format!(
            "{{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n{}\n]}}\n",
            events.join(",\n")
        )
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // A holder that panicked left whole events.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// The number of the thread that asks.
    fn thread(&mut self) -> usize {
        let thread = std::thread::current();
        let number = *self.threads.entry(thread.id()).or_insert(self.names.len());
        if number == self.names.len() {
            let name = thread.name().map(str::to_owned);
            self.names
                .push(name.unwrap_or_else(|| format!("thread {number}")));
        }
        number
    }
}

fn named(what: &str, thread: usize, name: &str) -> String {
    let name = quoted(name);
    format!(
        "{{\"ph\":\"M\",\"pid\":1,\"tid\":{thread},\"name\":\"{what}\",\"args\":{{\"name\":{name}}}}}"
    )
}

/// Text as JSON has it (RFC 8259, 7).
fn quoted(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for char in text.chars() {
        match char {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            // Writing to a String cannot fail.
            char if (char as u32) < 0x20 => drop(write!(quoted, "\\u{:04x}", char as u32)),
            char => quoted.push(char),
        }
    }
    quoted.push('"');
    quoted
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn threads_are_tracks_and_counters_have_times() {
        let recording = Recording::new();
        let start = Instant::now();
        let at = |micros| start + Duration::from_micros(micros);
        recording.scope("kernel", "a \"quoted\"\n one\\", at(3), at(5), 7);
        std::thread::scope(|scope| {
            let named = std::thread::Builder::new().name("other".into());
            let other = named.spawn_scoped(scope, || recording.scope("dma", "b", at(1), at(2), 0));
            other.unwrap().join().unwrap();
        });
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
            r#"{"ph":"X","pid":1,"tid":0,"cat":"kernel","name":"a \"quoted\"\u000a one\\","ts":2.000,"dur":2.000,"args":{"bytes":7}},"#
        );
        assert!(lines[5].contains(r#""tid":1,"cat":"dma","name":"b","ts":0.000,"dur":1.000"#));
        assert_eq!(
            lines[6],
            r#"{"ph":"C","pid":1,"name":"memory","ts":3.000,"args":{"value":12}}"#
        );
        assert_eq!(lines.len(), 8, "{text}");
    }

    #[test]
    fn nothing_heard_is_a_file_too() {
        let text = Recording::new().json("me");
        assert!(
            text.starts_with("{\"displayTimeUnit\"") && text.ends_with("]}\n"),
            "{text}"
        );
    }
}
