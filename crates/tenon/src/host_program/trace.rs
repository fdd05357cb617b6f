//! Scopes and events of a run: printed, or as a file that Perfetto opens.

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

/// One scope that ended, or an event.
#[derive(Clone)]
struct Scope {
    category: &'static str,
    name: String,
    start: Instant,
    /// An event has none.
    end: Option<Instant>,
    bytes: u64,
    thread: ThreadId,
}

impl TraceSink for Scopes {
    fn scope(&self, category: &'static str, name: &str, start: Instant, end: Instant, bytes: u64) {
        self.keep(category, name, start, Some(end), bytes);
    }

    fn event(&self, category: &'static str, name: &str, moment: Instant) {
        self.keep(category, name, moment, None, 0);
    }
}

impl Scopes {
    fn keep(
        &self,
        category: &'static str,
        name: &str,
        start: Instant,
        end: Option<Instant>,
        bytes: u64,
    ) {
        let scope = Scope {
            category,
            name: name.to_owned(),
            start,
            end,
            bytes,
            thread: std::thread::current().id(),
        };
        let mut scopes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        scopes.push(scope);
    }

    /// What the original's debug tracing prints: `Scope:NAME` where a scope begins, `End Scope`
    /// where it ends, `Event:NAME`, one thread after the other (facts 5.5).
    pub(super) fn text(&self) -> String {
        let mut text = String::new();
        for scopes in self.threads() {
            let mut open: Vec<Instant> = Vec::new();
            for scope in scopes {
                // Scopes of one thread lie inside each other or apart.
                while open.pop_if(|end| *end <= scope.start).is_some() {
                    text += "End Scope\n";
                }
                match scope.end {
                    Some(end) => {
                        text += &format!("Scope:{}\n", scope.name);
                        open.push(end);
                    }
                    None => text += &format!("Event:{}\n", scope.name),
                }
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
                let since = first.map_or(String::new(), |first| micros(first, scope.start));
                let (category, name) = (quoted(scope.category), quoted(&scope.name));
                let rest = match scope.end {
                    Some(end) => {
                        let duration = micros(scope.start, end);
                        let bytes = scope.bytes;
                        format!("\"ph\":\"X\",\"dur\":{duration},\"args\":{{\"bytes\":{bytes}}}")
                    }
                    // It belongs to its thread.
                    None => "\"ph\":\"i\",\"s\":\"t\"".into(),
                };
                // Writing to a String cannot fail.
                let _ = write!(
                    text,
                    "{separator}{{\"pid\":1,\"tid\":{thread},\"cat\":{category},\"name\":{name},\
                     \"ts\":{since},{rest}}}",
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

/// Exact, so that what lies inside of another scope does so in the file.
fn micros(from: Instant, to: Instant) -> String {
    let nanos = to.duration_since(from).as_nanos();
    format!("{}.{:03}", nanos / 1000, nanos % 1000)
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
        scopes.event("error", "no luck", at(3));
        scopes
    }

    #[test]
    fn scopes_nest() {
        assert_eq!(
            scopes().text(),
            "Scope:Bef Executor\nScope:Function: main\nScope:a \"quoted\" one\nEnd Scope\n\
             Scope:second\nEvent:no luck\nEnd Scope\nEnd Scope\nEnd Scope\nScope:after\n\
             End Scope\n"
        );
    }

    /// What Perfetto asks of complete events: phase, process, thread, name, times that are no less
    /// than 0; and those of one thread lie inside each other or apart. Instant ones have no duration.
    fn check(json: &serde_json::Value) {
        let mut open: HashMap<u64, Vec<u64>> = HashMap::new();
        for event in json["traceEvents"].as_array().unwrap() {
            assert!(event["pid"].is_u64() && event["name"].is_string() && event["cat"].is_string());
            // Nanoseconds: JSON's numbers have no decimal fractions.
            let nanos = |key: &str| {
                let micros = event[key].as_f64().unwrap();
                assert!(micros >= 0.0, "{event}");
                (micros * 1e3).round() as u64
            };
            if event["ph"] == "i" {
                assert!(event["s"] == "t" && event["dur"].is_null(), "{event}");
                nanos("ts");
                continue;
            }
            assert_eq!(event["ph"], "X");
            let (start, end) = (nanos("ts"), nanos("ts") + nanos("dur"));
            let open = open.entry(event["tid"].as_u64().unwrap()).or_default();
            while open.pop_if(|outer| *outer <= start).is_some() {}
            assert!(
                open.last().is_none_or(|outer| end <= *outer),
                "{event} overlaps"
            );
            open.push(end);
        }
    }

    #[test]
    fn scopes_of_threads_lie_inside_each_other_in_the_file() {
        check(&serde_json::from_str(&scopes().json()).unwrap());
        let scopes = Scopes::default();
        std::thread::scope(|threads| {
            for _ in 0..4 {
                threads.spawn(|| {
                    for _ in 0..100 {
                        let outer = Instant::now();
                        for name in ["one", "two"] {
                            let inner = Instant::now();
                            scopes.scope("kernel", name, inner, Instant::now(), 1);
                        }
                        scopes.scope("function", "main", outer, Instant::now(), 0);
                    }
                });
            }
        });
        let json: serde_json::Value = serde_json::from_str(&scopes.json()).unwrap();
        assert_eq!(json["traceEvents"].as_array().unwrap().len(), 1200);
        check(&json);
    }

    #[test]
    fn the_file_is_json_with_times_from_the_first_scope() {
        let json: serde_json::Value = serde_json::from_str(&scopes().json()).unwrap();
        let events = json["traceEvents"].as_array().unwrap();
        assert_eq!(events.len(), 6);
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
