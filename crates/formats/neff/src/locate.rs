//! Byte offsets of values inside a JSON text: one pass over the bytes for any number of paths.
//!
//! Typed values do not carry their offsets, since only error reports need them.

use crate::KeyPath;
use crate::key_path::Step;
use std::collections::{HashMap, HashSet};

/// The nesting limit of the search; no reader accepts deeper values.
const DEPTH: usize = 128;

/// The offsets of the values at `paths` in `text`, in the order of `paths`. A path without a value
/// gets the offset of its innermost existing value.
pub(crate) fn offsets<'a>(
    text: &[u8],
    paths: impl IntoIterator<Item = &'a KeyPath>,
) -> Vec<Option<u64>> {
    let mut tree = PathTree::default();
    let mut count = 0;
    for path in paths {
        tree.add(path.steps(), count);
        count += 1;
    }
    let mut walk = Walk::new(text);
    walk.found = vec![None; count];
    walk.value(Some(&tree), 0);
    walk.found
}

/// The start of the value of `key` in the top-level object of `text`.
pub(crate) fn member(text: &[u8], key: &str) -> Option<usize> {
    let mut walk = Walk::new(text);
    let mut found = None;
    walk.space();
    if walk.peek() == Some(b'{') {
        walk.members(|walk, name, _| {
            walk.space();
            if decoded(name) == key {
                found = Some(walk.position);
                return false;
            }
            walk.skip();
            true
        });
    }
    found
}

/// Keys that occur twice in an object of `text`, with their offsets.
pub(crate) fn duplicate_keys(text: &[u8]) -> Vec<(KeyPath, u64)> {
    let mut found = Vec::new();
    Walk::new(text).duplicates(&mut KeyPath::default(), &mut found, 0);
    found
}

/// The path of the value that contains the byte `offset`.
pub(crate) fn path_at(text: &[u8], offset: usize) -> KeyPath {
    let mut place = KeyPath::default();
    Walk::new(text).until(offset, &mut place, 0);
    place
}

/// A trie of the requested paths below a value.
#[derive(Default)]
struct PathTree {
    here: Vec<usize>,
    keys: HashMap<String, PathTree>,
    indices: HashMap<usize, PathTree>,
}

impl PathTree {
    fn add(&mut self, steps: &[Step], path: usize) {
        match steps.split_first() {
            None => self.here.push(path),
            Some((Step::Key(key), rest)) => {
                self.keys.entry(key.clone()).or_default().add(rest, path);
            }
            Some((Step::Index(index), rest)) => {
                self.indices.entry(*index).or_default().add(rest, path);
            }
        }
    }

    fn each(&self, mark: &mut impl FnMut(usize)) {
        self.here.iter().for_each(|&path| mark(path));
        self.keys
            .values()
            .chain(self.indices.values())
            .for_each(|below| below.each(mark));
    }
}

struct Walk<'a> {
    text: &'a [u8],
    position: usize,
    found: Vec<Option<u64>>,
}

impl<'a> Walk<'a> {
    fn new(text: &'a [u8]) -> Self {
        Self {
            text,
            position: 0,
            found: Vec::new(),
        }
    }

    fn peek(&self) -> Option<u8> {
        self.text.get(self.position).copied()
    }

    fn space(&mut self) {
        while matches!(
            self.peek(),
            Some(b' ' | b'\n' | b'\r' | b'\t' | b',' | b':')
        ) {
            self.position += 1;
        }
    }

    /// The next value; records its start for all paths through it.
    fn value(&mut self, tree: Option<&PathTree>, depth: usize) {
        self.space();
        if let Some(tree) = tree {
            let start = self.position as u64;
            tree.each(&mut |path| self.found[path] = Some(start));
        }
        match self.peek() {
            Some(b'{') if depth < DEPTH => self.members(|walk, key, _| {
                let below = tree.filter(|tree| !tree.keys.is_empty());
                let below = below.and_then(|tree| tree.keys.get(&*decoded(key)));
                walk.value(below, depth + 1);
                true
            }),
            Some(b'[') if depth < DEPTH => self.items(|walk, index| {
                walk.value(tree.and_then(|tree| tree.indices.get(&index)), depth + 1);
                true
            }),
            _ => self.skip(),
        }
    }

    /// Calls `each` at every value of the current object, with its key and the key's offset, until
    /// it returns false.
    fn members(&mut self, mut each: impl FnMut(&mut Self, &'a [u8], usize) -> bool) {
        self.position += 1;
        loop {
            self.space();
            match self.peek() {
                Some(b'"') => {}
                Some(b'}') => {
                    self.position += 1;
                    return;
                }
                _ => return,
            }
            let start = self.position;
            self.string();
            let key = self.text.get(start..self.position).unwrap_or_default();
            if !each(self, key, start) {
                return;
            }
        }
    }

    /// Calls `each` at every value of the current list, until it returns false.
    fn items(&mut self, mut each: impl FnMut(&mut Self, usize) -> bool) {
        self.position += 1;
        for index in 0.. {
            self.space();
            match self.peek() {
                None | Some(b'}') => return,
                Some(b']') => {
                    self.position += 1;
                    return;
                }
                Some(_) if !each(self, index) => return,
                Some(_) => {}
            }
        }
    }

    /// Skips a string.
    fn string(&mut self) {
        self.position += 1;
        while let Some(byte) = self.peek() {
            self.position += match byte {
                b'"' => {
                    self.position += 1;
                    return;
                }
                b'\\' => 2,
                _ => 1,
            };
        }
    }

    /// Skips a value.
    fn skip(&mut self) {
        let mut open = 0usize;
        loop {
            self.space();
            match self.peek() {
                None => return,
                Some(b'"') => self.string(),
                Some(b'{' | b'[') => {
                    open += 1;
                    self.position += 1;
                }
                Some(b'}' | b']') => {
                    open = open.saturating_sub(1);
                    self.position += 1;
                }
                Some(_) => self.plain(),
            }
            if open == 0 {
                return;
            }
        }
    }

    /// Skips a number or literal, or an invalid token.
    fn plain(&mut self) {
        self.position += 1;
        while self
            .peek()
            .is_some_and(|byte| !b" \n\r\t,:\"[]{}".contains(&byte))
        {
            self.position += 1;
        }
    }

    /// Descends into the values that contain `offset`.
    fn until(&mut self, offset: usize, place: &mut KeyPath, depth: usize) {
        self.space();
        if offset <= self.position {
            return;
        }
        // Skips the value with a copy of the cursor, to enter only the value around the offset.
        let holds = |walk: &Self| {
            let mut after = Walk::new(walk.text);
            after.position = walk.position;
            after.skip();
            offset < after.position || after.position >= walk.text.len()
        };
        match self.peek() {
            Some(b'{') if depth < DEPTH => self.members(|walk, key, _| {
                walk.space();
                if !holds(walk) {
                    walk.skip();
                    return true;
                }
                place.enter(Step::Key(decoded(key).into_owned()));
                walk.until(offset, place, depth + 1);
                false
            }),
            Some(b'[') if depth < DEPTH => self.items(|walk, index| {
                if !holds(walk) {
                    walk.skip();
                    return true;
                }
                place.enter(Step::Index(index));
                walk.until(offset, place, depth + 1);
                false
            }),
            _ => {}
        }
    }

    /// The next value; adds the keys that occur twice in an object to `found`, with their offsets.
    fn duplicates(&mut self, place: &mut KeyPath, found: &mut Vec<(KeyPath, u64)>, depth: usize) {
        self.space();
        match self.peek() {
            Some(b'{') if depth < DEPTH => {
                let mut keys = HashSet::new();
                self.members(|walk, key, start| {
                    let key = decoded(key).into_owned();
                    place.enter(Step::Key(key.clone()));
                    if !keys.insert(key) {
                        found.push((place.clone(), start as u64));
                    }
                    walk.duplicates(place, found, depth + 1);
                    place.leave();
                    true
                });
            }
            Some(b'[') if depth < DEPTH => self.items(|walk, index| {
                place.enter(Step::Index(index));
                walk.duplicates(place, found, depth + 1);
                place.leave();
                true
            }),
            _ => self.skip(),
        }
    }
}

/// A key without its quotes and escapes.
fn decoded(key: &[u8]) -> std::borrow::Cow<'_, str> {
    let inside = key.get(1..key.len().saturating_sub(1)).unwrap_or_default();
    match std::str::from_utf8(inside) {
        Ok(text) if !text.contains('\\') => text.into(),
        _ => serde_json::from_slice::<String>(key)
            .unwrap_or_default()
            .into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const TEXT: &[u8] = br#"{"first": [1, {"b": "x]"}, 3], "c\n": {"d": -2.5}, "a": 1, "a": 2}"#;

    #[test]
    fn offsets_of_values_are_found() {
        let root = KeyPath::default();
        let paths = [
            root.clone(),
            root.key("first").index(1).key("b"),
            root.key("c\n").key("d"),
            root.key("c\n").key("missing"),
        ];
        let found = offsets(TEXT, &paths);
        let at = |text: &str| {
            Some(
                TEXT.windows(text.len())
                    .position(|w| w == text.as_bytes())
                    .unwrap() as u64,
            )
        };
        assert_eq!(found, [Some(0), at("\"x]"), at("-2.5"), at("{\"d\"")]);
    }

    #[test]
    fn duplicate_keys_are_reported() {
        let found = duplicate_keys(TEXT);
        let offset = TEXT.len() as u64 - 8 + 1;
        assert_eq!(found, [(KeyPath::default().key("a"), offset)]);
    }

    #[test]
    fn the_path_at_an_offset_is_found() {
        for (offset, path) in [
            (0, ""),
            (4, "first"),
            (21, "first[1].b"),
            (45, "['c\\n'].d"),
        ] {
            assert_eq!(path_at(TEXT, offset).to_string(), path);
        }
    }

    proptest! {
        #[test]
        fn any_bytes_terminate(text in proptest::collection::vec(
            proptest::sample::select(b"{}[]\",:\\ 1a\n".to_vec()), 0..200,
        )) {
            let path = KeyPath::default().key("a").index(1);
            prop_assert_eq!(offsets(&text, [&path]).len(), 1);
            duplicate_keys(&text);
            path_at(&text, text.len() / 2);
        }

        #[test]
        fn offsets_of_list_items_point_at_their_text(integers in proptest::collection::vec(0u32..999, 1..20)) {
            let text = serde_json::to_vec(&serde_json::json!({ "k": integers, "z": [[]] })).unwrap();
            let root = KeyPath::default().key("k");
            let paths: Vec<_> = (0..integers.len()).map(|index| root.index(index)).collect();
            for (offset, integer) in offsets(&text, &paths).into_iter().zip(integers) {
                let rest = &text[offset.unwrap() as usize..];
                prop_assert!(rest.starts_with(integer.to_string().as_bytes()));
            }
        }
    }
}
