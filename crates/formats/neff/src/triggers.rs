//! Parallel parsing of an engine with a long list of triggers: the list is split into chunks.
//!
//! Split points are speculative: positions whose bytes look like the start of a trigger. A wrong
//! split cannot go unnoticed: if every chunk parses completely and single commas separate them,
//! their concatenation is the list that a sequential parser reads. In all other cases the
//! sequential parser reads the member and reports its errors.

use crate::{Engine, Trigger, locate, parallel};
use serde_json::Deserializer;
use tenon_base::pool;

/// Texts below this length are parsed by one thread.
const PARALLEL_FROM: usize = 1 << 20;

/// Chunks for each thread, to balance threads of unequal speed.
const CHUNKS_PER_THREAD: usize = 4;

/// Bytes of the start of a trigger that a split point must match.
const PREFIX: usize = 16;

impl Engine {
    /// Reads the text of a member.
    pub(crate) fn from_slice(text: &[u8]) -> serde_json::Result<Self> {
        let count = pool::threads() * CHUNKS_PER_THREAD;
        let engine = (text.len() >= PARALLEL_FROM).then(|| read_in_parallel(text, count));
        match engine.flatten() {
            Some(engine) => Ok(engine),
            None => serde_json::from_slice(text),
        }
    }
}

fn read_in_parallel(text: &[u8], count: usize) -> Option<Engine> {
    let list = locate::member(text, "dma")?;
    let first = skip_space(text, list + 1);
    if text.get(list) != Some(&b'[') || text.get(first) != Some(&b'{') {
        return None;
    }
    let starts = starts(text, first, count);
    let nexts = starts.iter().skip(1).copied().map(Some).chain([None]);
    let ranges = starts.iter().copied().zip(nexts);
    let chunks = parallel::map(ranges, |(start, next)| chunk(text, start, next));
    let mut triggers = Vec::new();
    let mut end = None;
    for chunk in chunks {
        let chunk = chunk?;
        // The other chunks are appended to the list of the first.
        if triggers.is_empty() {
            triggers = chunk.triggers;
        } else {
            triggers.extend(chunk.triggers);
        }
        end = Some(chunk.end);
    }
    let around = [&text[..=list], &text[end?..]].concat();
    let mut engine: Engine = serde_json::from_slice(&around).ok()?;
    engine.dma = triggers;
    Some(engine)
}

/// The starts of the chunks: the first trigger, and `count - 1` positions that match its prefix.
fn starts(text: &[u8], first: usize, count: usize) -> Vec<usize> {
    let prefix = &text[first..text.len().min(first + PREFIX)];
    // Up to the end of the first key.
    let quotes = prefix.iter().enumerate().filter(|&(_, &byte)| byte == b'"');
    let length = quotes.map(|(at, _)| at + 1).nth(1).unwrap_or(PREFIX);
    let prefix = &prefix[..length.min(prefix.len())];
    let mut starts = vec![first];
    for index in 1..count {
        let guess = first + (text.len() - first) / count * index;
        let found = text[guess..]
            .windows(prefix.len())
            .position(|at| at == prefix);
        starts.extend(found.map(|at| guess + at));
    }
    starts.dedup();
    starts
}

/// Consecutive triggers, and the end of the last one: the comma before the next chunk, or the
/// closing bracket of the list.
struct Chunk {
    triggers: Vec<Trigger>,
    end: usize,
}

fn chunk(text: &[u8], start: usize, next: Option<usize>) -> Option<Chunk> {
    let mut triggers = Vec::new();
    let mut at = start;
    loop {
        let mut values = Deserializer::from_slice(&text[at..]).into_iter();
        triggers.push(values.next()?.ok()?);
        let end = skip_space(text, at + values.byte_offset());
        match (text.get(end), next) {
            (Some(b','), _) => at = skip_space(text, end + 1),
            (Some(b']'), None) => return Some(Chunk { triggers, end }),
            _ => return None,
        }
        match next {
            Some(next) if at == next => return Some(Chunk { triggers, end }),
            Some(next) if at > next => return None,
            _ => {}
        }
    }
}

fn skip_space(text: &[u8], from: usize) -> usize {
    let rest = text.get(from..).unwrap_or_default();
    let space = |byte: &u8| matches!(byte, b' ' | b'\n' | b'\r' | b'\t');
    from + rest.iter().take_while(|byte| space(byte)).count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// An engine of `count` triggers with misleading prefixes: `{"id"` inside of triggers and after
    /// the list.
    fn text(count: usize, space: &str) -> String {
        let trigger = |id: usize| {
            let odd = r#""odd":[{"id":[1,{"id":2}]},"{\"id\":",{"id":3}]"#;
            let desc = r#"{"to":"b","to_sizes":[1],"to_steps":[1],"from":"a"}"#;
            format!(
                r#"{{"id":{id},"queue":"q{}",{odd},"desc":[{desc}]}}"#,
                id % 3
            )
        };
        let triggers: Vec<String> = (0..count).map(trigger).collect();
        let list = triggers.join(&format!("{space},{space}"));
        format!(r#"{{"x":{{"dma":[{{"id":7}}]}},"dma":[{space}{list}{space}],"y":[{{"id":8}}]}}"#)
    }

    #[test]
    fn parallel_and_sequential_parsing_agree() {
        for (triggers, space) in [(1, ""), (2, " "), (40, "\n "), (1000, "")] {
            let text = text(triggers, space);
            let whole: Engine = serde_json::from_str(&text).unwrap();
            for count in 1..12 {
                // A split inside a trigger falls back to the sequential parser.
                if let Some(engine) = read_in_parallel(text.as_bytes(), count) {
                    assert_eq!(engine, whole);
                    let written = serde_json::to_string(&engine).unwrap();
                    assert_eq!(written, serde_json::to_string(&whole).unwrap());
                }
            }
        }
    }

    #[test]
    fn plain_triggers_are_read_in_parallel() {
        let trigger = |id: usize| format!(r#"{{"id":{id},"queue":"q","desc":[]}}"#);
        let list: Vec<String> = (0..100).map(trigger).collect();
        let text = format!(r#"{{"name":"e","dma":[{}]}}"#, list.join(","));
        for count in 1..12 {
            let engine = read_in_parallel(text.as_bytes(), count).unwrap();
            assert!(engine.dma.iter().map(|it| it.id).eq(0..100));
        }
    }

    proptest! {
        #[test]
        fn parallel_parsing_accepts_nothing_that_sequential_parsing_rejects(at in 0usize..4000, byte in any::<u8>()) {
            let mut text = text(30, " ").into_bytes();
            let at = at % text.len();
            text[at] = byte;
            let whole = serde_json::from_slice::<Engine>(&text);
            for count in 1..8 {
                if let Some(engine) = read_in_parallel(&text, count) {
                    prop_assert_eq!(&engine, whole.as_ref().unwrap());
                }
            }
        }
    }
}
