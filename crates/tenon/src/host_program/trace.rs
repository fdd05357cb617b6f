//! Scopes of a run: printed, or as a file that Perfetto opens.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::fmt::Write;
use std::sync::{Mutex, PoisonError};
use std::thread::ThreadId;
use std::time::Instant;
use tenon_base::trace::TraceSink;

/// Keeps what it hears.
#[derive(Default)]
pub(super) struct Scopes(Mutex<Vec<Scope>>);

/// One scope that ended.
#[derive(Clone)]
struct Scope {
    category: &'static str,
    name: String,
    start: Instant,
    end: Instant,
    bytes: u64,
    thread: ThreadId,
}

impl TraceSink for Scopes {
    fn scope(&self, category: &'static str, name: &str, start: Instant, end: Instant, bytes: u64) {
        let scope = Scope {
            category,
            name: name.to_owned(),
            start,
            end,
            bytes,
            thread: std::thread::current().id(),
        };
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(scope);
    }
}

impl Scopes {
    /// What the original's debug tracing prints: `Scope:NAME` where a scope begins, `End Scope`
    /// where it ends, one thread after the other (facts 5.5).
    pub(super) fn text(&self) -> String {
        let mut text = String::new();
        for scopes in self.threads() {
            let mut open: Vec<Instant> = Vec::new();
            for scope in scopes {
                // Scopes of one thread lie inside each other or apart.
                while open.pop_if(|end| *end <= scope.start).is_some() {
                    text += "End Scope\n";
                }
                text += &format!("Scope:{}\n", scope.name);
                open.push(scope.end);
            }
            text += &"End Scope\n".repeat(open.len());
        }
        text
    }

    /// The trace event format of Chrome, which Perfetto opens: times are microseconds from the
    /// first scope.
    pub(super) fn json(&self) -> String {
        let threads = self.threads();
        let first = threads.iter().flatten().map(|scope| scope.start).min();
        let mut text = String::from("{\"displayTimeUnit\":\"ns\",\"traceEvents\":[");
        let mut separator = "\n";
        for (thread, scopes) in threads.iter().enumerate() {
            for scope in scopes {
                let since = first.map_or(0.0, |first| micros(first, scope.start));
                // Writing to a String cannot fail.
                let _ = write!(
                    text,
                    "{separator}{{\"ph\":\"X\",\"pid\":1,\"tid\":{thread},\"cat\":{},\"name\":{},\
                     \"ts\":{since:.3},\"dur\":{:.3},\"args\":{{\"bytes\":{}}}}}",
                    quoted(scope.category),
                    quoted(&scope.name),
                    micros(scope.start, scope.end),
                    scope.bytes,
                );
                separator = ",\n";
            }
        }
        text + "\n]}\n"
    }

    /// The scopes of each thread in the order they began, outer ones first; the thread that began
    /// first is first.
    fn threads(&self) -> Vec<Vec<Scope>> {
        let mut scopes = self
            .0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        // Of two that took the same time the outer one ended last.
        scopes.reverse();
        scopes.sort_by_key(|scope| (scope.start, Reverse(scope.end)));
        let mut numbers = HashMap::new();
        let mut threads: Vec<Vec<Scope>> = Vec::new();
        for scope in scopes {
            let number = *numbers.entry(scope.thread).or_insert(threads.len());
            match threads.get_mut(number) {
                Some(thread) => thread.push(scope),
                None => threads.push(vec![scope]),
            }
        }
        threads
    }
}

fn micros(from: Instant, to: Instant) -> f64 {
    to.duration_since(from).as_secs_f64() * 1e6
}

fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn scopes() -> Scopes {
        let scopes = Scopes::default();
        let start = Instant::now();
        let at = |micros| start + Duration::from_micros(micros);
        scopes.scope("kernel", "a \"quoted\" one", at(1), at(2), 0);
        scopes.scope("kernel", "second", at(2), at(4), 8);
        scopes.scope("function", "Function: main", at(1), at(5), 0);
        scopes.scope("run", "Bef Executor", at(0), at(5), 0);
        scopes.scope("run", "after", at(6), at(6), 0);
        scopes
    }

    #[test]
    fn scopes_nest() {
        assert_eq!(
            scopes().text(),
            "Scope:Bef Executor\nScope:Function: main\nScope:a \"quoted\" one\nEnd Scope\n\
             Scope:second\nEnd Scope\nEnd Scope\nEnd Scope\nScope:after\nEnd Scope\n"
        );
    }

    #[test]
    fn the_file_is_json_with_times_from_the_first_scope() {
        let json: serde_json::Value = serde_json::from_str(&scopes().json()).unwrap();
        let events = json["traceEvents"].as_array().unwrap();
        assert_eq!(events.len(), 5);
        assert_eq!(events[0]["name"], "Bef Executor");
        assert_eq!(
            (&events[0]["ts"], &events[0]["dur"]),
            (&0.0.into(), &5.0.into())
        );
        assert_eq!(events[3]["args"]["bytes"], 8);
        assert_eq!(
            (&events[3]["ts"], &events[3]["tid"]),
            (&2.0.into(), &0.into())
        );
    }
}
