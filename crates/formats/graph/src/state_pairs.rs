//! States of models: outputs that are inputs of the next execution, by their names and types.

use std::fmt;
use std::str::FromStr;
use tenon_base::{Error, ErrorKind, Result};
use tenon_tensor::{Dimension, Signature};

/// An output whose value is an input of the next execution. Its text is `OUTPUT=INPUT`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StatePair {
    /// The output's name.
    pub output: String,
    /// The input's name.
    pub input: String,
}

impl fmt::Display for StatePair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", self.output, self.input)
    }
}

impl FromStr for StatePair {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let pair = text.split_once('=');
        let pair = pair.filter(|(output, input)| !output.is_empty() && !input.is_empty());
        let (output, input) = pair.ok_or_else(|| {
            Error::new(ErrorKind::Usage, "not a state")
                .expected("OUTPUT=INPUT, such as present=past")
                .found(format_args!("'{text}'"))
        })?;
        Ok(Self {
            output: output.to_owned(),
            input: input.to_owned(),
        })
    }
}

/// Positions of outputs and inputs for these pairs. `*` in a pair matches the same text in both names.
///
/// # Errors
/// Names of no port, ports that are used twice, and pairs of different types; all together.
pub fn resolve_state_pairs(
    pairs: &[StatePair],
    inputs: &[Signature],
    outputs: &[Signature],
) -> Result<Vec<(usize, usize)>> {
    let mut errors = Vec::new();
    let mut found: Vec<(usize, usize)> = Vec::new();
    let names = |all: &[Signature]| {
        let names: Vec<String> = all.iter().map(|port| format!("'{}'", port.name)).collect();
        names.join(", ")
    };
    let unknown = |what: &str, name: &str, all: &[Signature]| {
        let text = format!("the model has no {what} '{name}'");
        Error::new(ErrorKind::InvalidArgument, text).expected(names(all))
    };
    for pair in pairs {
        let mut matches = 0;
        for (output, port) in outputs.iter().enumerate() {
            let Some(captured) = captures(&pair.output, &port.name) else {
                continue;
            };
            matches += 1;
            let name = substitute(&pair.input, &captured);
            let Some(input) = inputs.iter().position(|input| input.name == name) else {
                errors.push(unknown("input", &name, inputs));
                continue;
            };
            let twice = |(a, b): &(usize, usize)| *a == output || *b == input;
            if found.iter().any(twice) {
                let text = format!("'{}={name}' uses a port of another state", port.name);
                errors.push(Error::new(ErrorKind::InvalidArgument, text));
            } else if let Err(error) = compatible(&inputs[input], port) {
                errors.push(error);
            } else {
                found.push((output, input));
            }
        }
        if matches == 0 {
            errors.push(unknown("output", &pair.output, outputs));
        }
    }
    Error::from_all(errors).map_or(Ok(found), Err)
}

/// An error if no value of `output` can be a value of `input`.
fn compatible(input: &Signature, output: &Signature) -> Result<()> {
    let fits = |(a, b): (&Dimension, &Dimension)| match (a, b) {
        (Dimension::Fixed(a), Dimension::Fixed(b)) => a == b,
        _ => true,
    };
    if input.kind.is_tensor()
        && output.kind.is_tensor()
        && input.ty.dtype() == output.ty.dtype()
        && input.shape.len() == output.shape.len()
        && input.shape.iter().zip(&output.shape).all(fits)
    {
        return Ok(());
    }
    let text = format!(
        "output '{}' cannot be the next value of input '{}'",
        output.name, input.name
    );
    let error = Error::new(ErrorKind::InvalidArgument, text);
    let error = error.expected(input).found(output);
    let fixed = |port: &Signature| !port.is_symbolic();
    Err(match fixed(input) && fixed(output) {
        true => error
            .help("a state that grows needs a symbolic dimension: compile without --dim for it"),
        false => error,
    })
}

/// Probable states, in the order of the outputs: `present.X` and `past.X`, `new_X` and `X`, `hn` and `h0`.
pub fn find_state_pairs(inputs: &[Signature], outputs: &[Signature]) -> Vec<StatePair> {
    let mut taken = vec![false; inputs.len()];
    let mut pairs = Vec::new();
    for output in outputs {
        let name = state_name(&output.name, OUTPUT_WORDS);
        let is_pair = |input: &Signature| {
            let other = state_name(&input.name, INPUT_WORDS);
            is_same_state(&other, &name) && compatible(input, output).is_ok()
        };
        let mut candidates = (0..inputs.len()).filter(|&at| !taken[at] && is_pair(&inputs[at]));
        if let (Some(at), None) = (candidates.next(), candidates.next()) {
            taken[at] = true;
            pairs.push(StatePair {
                output: output.name.clone(),
                input: inputs[at].name.clone(),
            });
        }
    }
    pairs
}

const INPUT_WORDS: &[&str] = &[
    "past", "prev", "previous", "in", "input", "initial", "init", "old",
];
const OUTPUT_WORDS: &[&str] = &[
    "present", "next", "new", "out", "output", "final", "updated",
];

/// A name without the words that say whether it is an input or an output.
struct StateName {
    words: Vec<String>,
    /// Whether there were such words.
    has_role: bool,
}

impl StateName {
    /// The name if it is one word, without a last letter.
    fn stem(&self, last: char) -> Option<&str> {
        match &self.words[..] {
            [word] => word.strip_suffix(last).filter(|stem| !stem.is_empty()),
            _ => None,
        }
    }
}

fn state_name(name: &str, roles: &[&str]) -> StateName {
    let name = name.to_lowercase();
    let words = name.split(|c: char| !c.is_alphanumeric());
    let mut words: Vec<String> = words
        .filter(|word| !word.is_empty())
        .map(str::to_owned)
        .collect();
    let count = words.len();
    words.retain(|word| !roles.contains(&word.as_str()));
    let has_role = words.len() < count;
    // `past_key_values.0.key` is `present.0.key`.
    let mut pairs = words.windows(2);
    if let Some(at) = pairs.position(|pair| pair[0] == "key" && pair[1] == "values") {
        words.drain(at..at + 2);
    }
    StateName { words, has_role }
}

/// Whether the names of an input and an output are those of a state, and at least one of them says so.
fn is_same_state(input: &StateName, output: &StateName) -> bool {
    if input.words == output.words {
        return input.has_role || output.has_role;
    }
    // `h0` and `hn`, `state` and `stateN`.
    let (whole, stem) = (input.words.first(), output.stem('n'));
    stem.is_some()
        && (stem == input.stem('0') || input.words.len() == 1 && stem == whole.map(String::as_str))
}

/// The texts that the stars of `pattern` match, if it matches all of `name`; each as short as possible.
fn captures<'a>(pattern: &str, name: &'a str) -> Option<Vec<&'a str>> {
    let mut parts = pattern.split('*');
    let mut rest = name.strip_prefix(parts.next()?)?;
    let mut found = Vec::new();
    let parts: Vec<&str> = parts.collect();
    for (at, part) in parts.iter().enumerate() {
        let end = match at + 1 == parts.len() {
            true => rest.ends_with(part).then(|| rest.len() - part.len()),
            false => rest.find(part),
        }?;
        found.push(&rest[..end]);
        rest = &rest[end + part.len()..];
    }
    rest.is_empty().then_some(found)
}

/// `pattern` with its stars replaced in order; stars without a text stay.
fn substitute(pattern: &str, texts: &[&str]) -> String {
    let mut texts = texts.iter();
    let mut result = String::new();
    for c in pattern.chars() {
        match (c, c == '*') {
            (_, true) => result.push_str(texts.next().unwrap_or(&"*")),
            (c, false) => result.push(c),
        }
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;
    use tenon_tensor::{DataType, TensorType};

    fn port(name: &str, shape: &[usize]) -> Signature {
        Signature::fixed(name.into(), TensorType::new(DataType::F32, shape).unwrap())
    }

    fn texts(pairs: &[StatePair]) -> Vec<String> {
        pairs.iter().map(StatePair::to_string).collect()
    }

    #[test]
    fn pairs_are_found_by_the_names_of_common_exporters() {
        let cases = [
            ("past.0", "present.0"),
            ("past_key_values.0.key", "present.0.key"),
            (
                "past_key_values.3.decoder.value",
                "present_key_values.3.decoder.value",
            ),
            ("h0", "hn"),
            ("state", "stateN"),
            ("in_cache", "out_cache"),
            ("hidden", "new_hidden"),
            ("prev_state", "next_state"),
        ];
        for (input, output) in cases {
            let found = find_state_pairs(
                &[port("x", &[2]), port(input, &[2])],
                &[port("y", &[2]), port(output, &[2])],
            );
            assert_eq!(texts(&found), [format!("{output}={input}")]);
        }
    }

    #[test]
    fn ports_without_a_word_for_states_or_of_another_type_are_no_pairs() {
        assert!(find_state_pairs(&[port("x", &[2])], &[port("x.1", &[2])]).is_empty());
        assert!(find_state_pairs(&[port("past", &[2])], &[port("present", &[3])]).is_empty());
        // Two candidates.
        let inputs = [port("past_h", &[2]), port("h", &[2])];
        assert!(find_state_pairs(&inputs, &[port("present_h", &[2])]).is_empty());
    }

    #[test]
    fn stars_match_the_same_text() {
        let inputs = [
            port("past_key_values.0.key", &[2]),
            port("past_key_values.0.value", &[2]),
        ];
        let outputs = [port("present.0.value", &[2]), port("present.0.key", &[2])];
        let pair: StatePair = "present.*=past_key_values.*".parse().unwrap();
        assert_eq!(
            resolve_state_pairs(&[pair], &inputs, &outputs).unwrap(),
            [(0, 1), (1, 0)]
        );
        assert_eq!(captures("a*b*", "axbxb"), Some(vec!["x", "xb"]));
        assert_eq!(captures("a", "ab"), None);
        assert_eq!(captures("*", ""), Some(vec![""]));
        assert_eq!(captures("ab*b", "ab"), None);
    }

    #[test]
    fn all_problems_of_pairs_are_reported() {
        let inputs = [port("past", &[2]), port("other", &[3])];
        let outputs = [port("present", &[2])];
        let pairs = ["presnt=past", "present=pst", "present=other"];
        let pairs = pairs.map(|text| text.parse().unwrap());
        assert_eq!(
            resolve_state_pairs(&pairs, &inputs, &outputs)
                .unwrap_err()
                .to_string(),
            "the model has no output 'presnt': expected 'present'\n\
             the model has no input 'pst': expected 'past', 'other'\n\
             output 'present' cannot be the next value of input 'other': expected f32[3], found f32[2]; \
             a state that grows needs a symbolic dimension: compile without --dim for it"
        );
        assert!("present".parse::<StatePair>().is_err());
    }
}
