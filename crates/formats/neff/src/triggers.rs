//! Reads an engine whose list of triggers is long: pieces of the list on all threads.
//!
//! Where a piece ends is guessed from how triggers begin. A wrong guess cannot be taken for a right
//! one: pieces that are read whole, with one comma between them, are the list that reading from
//! the front gives. What does not come out so is left to the ordinary reader, and to its errors.

use crate::{Engine, Trigger, locate};
use serde_json::Deserializer;
use std::sync::Mutex;
use tenon_base::pool;

/// Texts below this length are not worth a second thread.
const LONG: usize = 1 << 20;

/// Pieces for each thread, so that threads of unequal speed end together.
const PIECES: usize = 4;

/// How much of a trigger's beginning is compared.
const BEGINNING: usize = 16;

impl Engine {
    /// Reads the text of a member.
    pub(crate) fn from_slice(text: &[u8]) -> serde_json::Result<Self> {
        let in_pieces = (text.len() >= LONG).then(|| in_pieces(text, pool::threads() * PIECES));
        match in_pieces.flatten() {
            Some(engine) => Ok(engine),
            None => serde_json::from_slice(text),
        }
    }
}

fn in_pieces(text: &[u8], count: usize) -> Option<Engine> {
    let list = locate::member(text, "dma")?;
    let first = behind_space(text, list + 1);
    if text.get(list) != Some(&b'[') || text.get(first) != Some(&b'{') {
        return None;
    }
    let starts = starts(text, first, count);
    let pieces: Vec<Mutex<Option<Piece>>> = starts.iter().map(|_| Mutex::default()).collect();
    pool::for_each(starts.len(), |index| {
        let next = starts.get(index + 1).copied();
        let piece = piece(text, starts[index], next);
        if let Ok(mut slot) = pieces[index].lock() {
            *slot = piece;
        }
    });
    let mut triggers = Vec::new();
    let mut end = None;
    for slot in pieces {
        let piece = slot.into_inner().ok()??;
        // The list moves into the first piece's memory.
        match triggers.is_empty() {
            true => triggers = piece.triggers,
            false => triggers.extend(piece.triggers),
        }
        end = Some(piece.end);
    }
    let around = [&text[..=list], &text[end?..]].concat();
    let mut engine: Engine = serde_json::from_slice(&around).ok()?;
    engine.dma = triggers;
    Some(engine)
}

/// Where pieces of the list start: its first trigger, and places that look like it.
fn starts(text: &[u8], first: usize, count: usize) -> Vec<usize> {
    let beginning = &text[first..text.len().min(first + BEGINNING)];
    // Up to the end of the first key.
    let quotes = beginning
        .iter()
        .enumerate()
        .filter(|&(_, &byte)| byte == b'"');
    let length = quotes.map(|(at, _)| at + 1).nth(1).unwrap_or(BEGINNING);
    let beginning = &beginning[..length.min(beginning.len())];
    let mut starts = vec![first];
    for index in 1..count {
        let guess = first + (text.len() - first) / count * index;
        let found = text[guess..]
            .windows(beginning.len())
            .position(|at| at == beginning);
        starts.extend(found.map(|at| guess + at));
    }
    starts.dedup();
    starts
}

/// Triggers that follow each other, and where the last one ends: at the list's end, if no other
/// piece follows.
struct Piece {
    triggers: Vec<Trigger>,
    end: usize,
}

fn piece(text: &[u8], start: usize, next: Option<usize>) -> Option<Piece> {
    let mut triggers = Vec::new();
    let mut at = start;
    loop {
        let mut values = Deserializer::from_slice(&text[at..]).into_iter();
        triggers.push(values.next()?.ok()?);
        let end = behind_space(text, at + values.byte_offset());
        match (text.get(end), next) {
            (Some(b','), _) => at = behind_space(text, end + 1),
            (Some(b']'), None) => return Some(Piece { triggers, end }),
            _ => return None,
        }
        match next {
            Some(next) if at == next => return Some(Piece { triggers, end }),
            Some(next) if at > next => return None,
            _ => {}
        }
    }
}

fn behind_space(text: &[u8], from: usize) -> usize {
    let rest = text.get(from..).unwrap_or_default();
    let space = |byte: &u8| matches!(byte, b' ' | b'\n' | b'\r' | b'\t');
    from + rest.iter().take_while(|byte| space(byte)).count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// An engine of `count` triggers with traps: `{"id"` inside of triggers and behind the list.
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
    fn pieces_are_the_whole_list() {
        for (triggers, space) in [(1, ""), (2, " "), (40, "\n "), (1000, "")] {
            let text = text(triggers, space);
            let whole: Engine = serde_json::from_str(&text).unwrap();
            for count in 1..12 {
                // A guess inside a trigger leaves it to the ordinary reader.
                if let Some(engine) = in_pieces(text.as_bytes(), count) {
                    assert_eq!(engine, whole);
                    let written = serde_json::to_string(&engine).unwrap();
                    assert_eq!(written, serde_json::to_string(&whole).unwrap());
                }
            }
        }
    }

    #[test]
    fn plain_triggers_are_read_in_pieces() {
        let trigger = |id: usize| format!(r#"{{"id":{id},"queue":"q","desc":[]}}"#);
        let list: Vec<String> = (0..100).map(trigger).collect();
        let text = format!(r#"{{"name":"e","dma":[{}]}}"#, list.join(","));
        for count in 1..12 {
            let engine = in_pieces(text.as_bytes(), count).unwrap();
            assert!(engine.dma.iter().map(|it| it.id).eq(0..100));
        }
    }

    proptest! {
        #[test]
        fn what_the_ordinary_reader_refuses_is_refused(at in 0usize..4000, byte in any::<u8>()) {
            let mut text = text(30, " ").into_bytes();
            let at = at % text.len();
            text[at] = byte;
            let whole = serde_json::from_slice::<Engine>(&text);
            for count in 1..8 {
                if let Some(engine) = in_pieces(&text, count) {
                    prop_assert_eq!(&engine, whole.as_ref().unwrap());
                }
            }
        }
    }
}
