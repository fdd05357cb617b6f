//! The tokens of strings: the Tokenizer of com.microsoft.

use super::super::{HostOperator, invalid};
use super::{checked, pattern, text};
use regex_lite::Regex;
use tenon_base::{Error, ErrorKind, Result, bounded};
use tenon_graph::Attributes;
use tenon_tensor::{DataType, Tensor, TensorType};

/// The tokens before and after those of a string, if `mark` is 1: the control characters STX and ETX.
const START: &str = "\u{2}";
const END: &str = "\u{3}";

/// `tokenexp`, or the separators; none for characters.
pub(super) fn patterns(attributes: &Attributes) -> Result<Vec<Regex>> {
    if least_characters(attributes)? == 0 {
        let error = Error::new(
            ErrorKind::InvalidModel,
            "attribute 'mincharnum' is too small",
        );
        return Err(error.expected("at least 1"));
    }
    let as_given = |pattern: &str| pattern.to_owned();
    let separators = attributes.strings("separators")?.unwrap_or_default();
    match (separators, text(attributes, "tokenexp")) {
        ([], None) => Err(Error::new(
            ErrorKind::InvalidModel,
            "neither attribute 'separators' nor 'tokenexp' is given",
        )),
        ([], Some(tokens)) => Ok(vec![pattern("tokenexp", tokens, as_given)?]),
        ([only], _) if only.is_empty() => Ok(Vec::new()),
        (separators, _) => separators.iter().map(|given| separator(given)).collect(),
    }
}

fn separator(given: &str) -> Result<Regex> {
    let found = pattern("separators", given, str::to_owned)?;
    if found.is_match("") {
        let error = Error::new(
            ErrorKind::InvalidModel,
            "attribute 'separators': an expression matches the empty string",
        );
        return Err(error
            .found(format_args!("'{given}'"))
            .help("\"\" alone makes a token of each character"));
    }
    Ok(found)
}

/// The least number of characters of a token.
fn least_characters(attributes: &Attributes) -> Result<usize> {
    Ok(usize::try_from(attributes.int("mincharnum", 1)?).unwrap_or(0))
}

impl HostOperator {
    pub(super) fn tokens(&self, input: &Tensor) -> Result<Tensor> {
        let separates = self
            .attributes
            .strings("separators")?
            .is_some_and(|separators| !separators.is_empty());
        let least = least_characters(&self.attributes)?;
        let strings = input.strings().into_iter().flatten();
        let lists = checked(strings, |text| {
            let mut tokens = match (&self.patterns[..], separates) {
                ([], _) => characters(text),
                (separators, true) => between(text, separators),
                (patterns, false) => patterns
                    .iter()
                    .flat_map(|pattern| pattern.find_iter(text))
                    .map(|found| found.as_str())
                    .collect(),
            };
            tokens.retain(|token| !token.is_empty() && token.chars().nth(least - 1).is_some());
            tokens
        });
        let most = lists.iter().map(Vec::len).max().unwrap_or(0);
        let marks = self.attributes.flag("mark", false)? && most > 0;
        let mut shape = input.shape().to_vec();
        if !matches!(shape.len(), 1 | 2) {
            return Err(invalid("the shape of input 'X'")
                .expected("one or two dimensions")
                .found(format_args!("{} dimensions", shape.len())));
        }
        shape.push(if marks { most + 2 } else { most });
        // Bounds the filled tensor before it is made.
        let ty = TensorType::new(DataType::String, shape)?;
        let mut cells: Vec<&str> = bounded::with_capacity("tokens", ty.elements())?;
        let filler = text(&self.attributes, "pad_value").unwrap_or_default();
        for tokens in &lists {
            if marks {
                cells.push(START);
            }
            cells.extend(tokens);
            if marks {
                cells.push(END);
            }
            cells.resize(cells.len() + most - tokens.len(), filler);
        }
        Tensor::from_strings(ty.shape().clone(), &cells)
    }
}

fn characters(text: &str) -> Vec<&str> {
    let ends = text.char_indices().map(|(start, c)| (start, c.len_utf8()));
    ends.filter_map(|(start, len)| text.get(start..start + len))
        .collect()
}

/// The text between the matches of the first separator, split by the second separator, and so on.
fn between<'a>(text: &'a str, separators: &[Regex]) -> Vec<&'a str> {
    separators.iter().fold(vec![text], |parts, separator| {
        let parts = parts.into_iter();
        parts.flat_map(|part| separator.split(part)).collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn between_all<'a>(text: &'a str, separators: &[&str]) -> Vec<&'a str> {
        let separators: Vec<Regex> = separators.iter().map(|s| separator(s).unwrap()).collect();
        between(text, &separators)
    }

    #[test]
    fn separators_apply_one_after_the_other() {
        assert_eq!(between_all("abc de", &["c d", "d"]), ["ab", "e"]);
        assert_eq!(between_all("abc de", &["d", "c d"]), ["abc ", "e"]);
        assert_eq!(between_all("aXbYcX", &["[XY]"]), ["a", "b", "c", ""]);
        assert_eq!(characters("aé "), ["a", "é", " "]);
    }

    #[test]
    fn attributes_that_make_no_tokens_are_refused() {
        let of = |name: &str, value: tenon_graph::Attribute| Attributes::new().with(name, value);
        let strings = |list: &[&str]| {
            tenon_graph::Attribute::Strings(list.iter().map(|&s| s.into()).collect())
        };
        assert!(patterns(&Attributes::new()).is_err());
        assert!(patterns(&of("separators", strings(&["a", ""]))).is_err());
        assert!(patterns(&of("separators", strings(&["x*"]))).is_err());
        assert!(patterns(&of("tokenexp", tenon_graph::Attribute::String("[a".into()))).is_err());
        let few =
            of("separators", strings(&[""])).with("mincharnum", tenon_graph::Attribute::Int(0));
        assert!(patterns(&few).is_err());
    }
}
