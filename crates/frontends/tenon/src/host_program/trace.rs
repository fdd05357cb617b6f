//! Scopes and events of a run as text.

use std::time::Instant;
use tenon_base::trace::Recording;

/// The output of the original's debug tracing: `Scope:NAME` where a scope begins, `End Scope` where it
/// ends, `Event:NAME`, one thread after the other (bef 5.5).
pub(super) fn text(recording: &Recording) -> String {
    let mut text = String::new();
    for scopes in recording.threads() {
        let mut open: Vec<Instant> = Vec::new();
        for scope in scopes {
            // Scopes of one thread are nested or disjoint.
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;
    use std::time::Duration;
    use tenon_base::trace::TraceSink;

    fn recording() -> Recording {
        let recording = Recording::new();
        let start = Instant::now();
        let at = |micros| start + Duration::from_micros(micros);
        recording.scope("kernel", "a \"quoted\" one", at(1), at(2), 0);
        recording.scope("kernel", "second", at(2), at(4), 8);
        recording.scope("function", "Function: main", at(1), at(5), 0);
        recording.scope("run", "Bef Executor", at(0), at(5), 0);
        recording.scope("run", "after", at(6), at(6), 0);
        recording.event("error", "no luck", at(3));
        recording
    }

    #[test]
    fn scopes_nest() {
        assert_eq!(
            text(&recording()),
            "Scope:Bef Executor\nScope:Function: main\nScope:a \"quoted\" one\nEnd Scope\n\
             Scope:second\nEvent:no luck\nEnd Scope\nEnd Scope\nEnd Scope\nScope:after\n\
             End Scope\n"
        );
    }

    /// Checks the rules of Perfetto for complete events: phase, process, thread, name, times of at least
    /// 0; events of one thread are nested or disjoint. Instant events have no duration.
    fn check(json: &serde_json::Value) -> usize {
        let mut scopes: Vec<(u64, u64, u64)> = Vec::new();
        for event in json["traceEvents"].as_array().unwrap() {
            assert!(event["pid"].is_u64() && event["name"].is_string());
            // Nanoseconds, since f64 has no exact decimal fractions.
            let nanos = |key: &str| {
                let micros = event[key].as_f64().unwrap();
                assert!(micros >= 0.0, "{event}");
                (micros * 1e3).round() as u64
            };
            match event["ph"].as_str().unwrap() {
                "M" => {}
                "i" => {
                    assert!(event["s"] == "t" && event["dur"].is_null(), "{event}");
                    nanos("ts");
                }
                "X" => {
                    let (start, end) = (nanos("ts"), nanos("ts") + nanos("dur"));
                    scopes.push((event["tid"].as_u64().unwrap(), start, end));
                }
                _ => panic!("{event}"),
            }
        }
        scopes.sort_by_key(|&(thread, start, end)| (thread, start, std::cmp::Reverse(end)));
        let mut open: HashMap<u64, Vec<u64>> = HashMap::new();
        for &(thread, start, end) in &scopes {
            let open = open.entry(thread).or_default();
            while open.pop_if(|outer| *outer <= start).is_some() {}
            let outer = open.last();
            assert!(
                outer.is_none_or(|outer| end <= *outer),
                "{start} to {end} overlaps"
            );
            open.push(end);
        }
        scopes.len()
    }

    #[test]
    fn scopes_of_a_thread_are_nested_in_the_file() {
        let json = |recording: &Recording| serde_json::from_str(&recording.json("me")).unwrap();
        assert_eq!(check(&json(&recording())), 5);
        let recording = Recording::new();
        std::thread::scope(|threads| {
            for _ in 0..4 {
                threads.spawn(|| {
                    for _ in 0..100 {
                        let outer = Instant::now();
                        for name in ["one", "two"] {
                            let inner = Instant::now();
                            recording.scope("kernel", name, inner, Instant::now(), 1);
                        }
                        recording.scope("function", "main", outer, Instant::now(), 0);
                    }
                });
            }
        });
        assert_eq!(check(&json(&recording)), 1200);
    }
}
