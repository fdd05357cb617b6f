//! Operators on strings.

mod look_up;
mod tokens;

pub(super) use look_up::KeyTable;

use super::{HostOperator, invalid};
use regex_lite::Regex;
use std::collections::{BTreeSet, HashMap};
use tenon_base::{Error, ErrorKind, Result, bounded, stop};
use tenon_graph::operator::operator;
use tenon_graph::{Attribute, Attributes, OperatorDef};
use tenon_tensor::{DataType, Tensor, TensorType, convert};

/// Strings between two checks of the deadline.
const BETWEEN_CHECKS: usize = 1024;

/// The regular expressions of an operator.
pub(super) fn patterns(op: &OperatorDef, attributes: &Attributes) -> Result<Vec<Regex>> {
    match op.name {
        "RegexFullMatch" => {
            let given = text(attributes, "pattern").unwrap_or_default();
            let whole = |pattern: &str| format!(r"\A(?:{pattern})\z");
            Ok(vec![pattern("pattern", given, whole)?])
        }
        "tenon.Tokenizer" => tokens::patterns(attributes),
        _ => Ok(Vec::new()),
    }
}

/// The regular expression that an attribute gives, in another form.
fn pattern(attribute: &str, given: &str, form: impl Fn(&str) -> String) -> Result<Regex> {
    Regex::new(&form(given)).map_err(|error| {
        let text = format!("attribute '{attribute}' is no regular expression: {error}");
        Error::new(ErrorKind::InvalidModel, text).found(given)
    })
}

/// The results of an operator of the table that moves or compares strings: it is computed on their positions in
/// sorted order.
pub(super) fn by_position(
    op: &OperatorDef,
    inputs: &[Option<&Tensor>],
    requested: &[bool],
    compute: impl FnOnce(&[Option<&Tensor>]) -> Result<Vec<Tensor>>,
) -> Result<Vec<Tensor>> {
    if !op.takes_strings() {
        let text = format!("{} does not take strings", op.name);
        return Err(Error::new(ErrorKind::Unsupported, text));
    }
    let strings = inputs.iter().flatten().filter_map(|input| input.strings());
    let sorted: BTreeSet<&str> = strings.flatten().collect();
    let table: Vec<&str> = sorted.into_iter().collect();
    let positions: HashMap<&str, i64> = table.iter().copied().zip(0..).collect();
    let indexed = |input: &Option<&Tensor>| {
        let strings = input.and_then(|input| Some((input, input.strings()?)));
        let indexed = strings.map(|(input, strings)| {
            let found = strings.map(|text| positions.get(text).copied().unwrap_or_default());
            Tensor::from_slice(input.shape().clone(), &found.collect::<Vec<i64>>())
        });
        indexed.transpose()
    };
    let indexed = inputs.iter().map(indexed);
    let indexed = indexed.collect::<Result<Vec<Option<Tensor>>>>()?;
    let operands = indexed.iter().zip(inputs);
    let operands = operands.map(|(positions, input)| positions.as_ref().or(*input));
    let results = compute(&operands.collect::<Vec<_>>())?;
    // The results that have elements of strings; of Unique the first.
    let moved = match op.name {
        "Equal" | "Shape" | "Size" => 0,
        "Unique" => usize::from(requested.first() == Some(&true)),
        "tenon.LookUp" if indexed.get(2).is_none_or(Option::is_none) => 0,
        _ => results.len(),
    };
    let results = results.into_iter().enumerate();
    let restore = |(index, tensor): (usize, Tensor)| match tensor.as_slice::<i64>() {
        Some(positions) if index < moved => {
            let text = |&position: &i64| table.get(usize::try_from(position).ok()?).copied();
            let texts = positions
                .iter()
                .map(|position| text(position).unwrap_or_default());
            Tensor::from_strings(tensor.shape().clone(), &texts.collect::<Vec<_>>())
        }
        _ => Ok(tensor),
    };
    results.map(restore).collect()
}

/// The results of a TfIdfVectorizer on strings: it is computed on their positions in its pool.
pub(super) fn by_pool(
    attributes: &Attributes,
    inputs: &[Option<&Tensor>],
    compute: impl FnOnce(&Attributes, &[Option<&Tensor>]) -> Result<Vec<Tensor>>,
) -> Result<Vec<Tensor>> {
    let pool = attributes.strings("pool_strings")?;
    let pool = pool.ok_or_else(|| invalid("attribute 'pool_strings' is missing"))?;
    let mut positions: HashMap<&str, i64> = HashMap::with_capacity(pool.len());
    let items = pool.iter().zip(0..);
    let items = items.map(|(text, at)| *positions.entry(text).or_insert(at));
    let items: Vec<i64> = items.collect();
    let Some(Some(input)) = inputs.first() else {
        return Err(invalid("input 'X' is missing"));
    };
    let strings = input.strings().into_iter().flatten();
    let found = checked(strings, |text| positions.get(text).copied().unwrap_or(-1));
    let indexed = Tensor::from_slice(input.shape().clone(), &found)?;
    let mut attributes = attributes.clone();
    attributes.remove("pool_strings");
    attributes.set("pool_int64s", Attribute::Ints(items));
    compute(&attributes, &[Some(&indexed)])
}

/// A Cast from or to strings; `None` for one between other types.
pub(super) fn cast(attributes: &Attributes, inputs: &[Option<&Tensor>]) -> Result<Option<Tensor>> {
    let (Some(Some(input)), Some(to)) = (inputs.first(), text(attributes, "to")) else {
        return Ok(None);
    };
    let to: DataType = to.parse()?;
    let shape = input.shape().clone();
    match (input.strings(), to) {
        (Some(_), DataType::String) => Ok(Some((*input).clone())),
        (Some(strings), to) => parsed(strings, shape.to_vec(), to).map(Some),
        (None, DataType::String) => Tensor::from_strings(shape, &written(input)?).map(Some),
        (None, _) => Ok(None),
    }
}

/// The values that strings write.
fn parsed<'a>(
    strings: impl Iterator<Item = &'a str>,
    shape: Vec<usize>,
    to: DataType,
) -> Result<Tensor> {
    let wrong = |text: &str| {
        let error = Error::new(ErrorKind::InvalidArgument, "a string that is no number");
        error.expected(to).found(format_args!("'{text}'"))
    };
    if to.is_integer() || to == DataType::Bool {
        // Beyond i64 are values of u64.
        let parse = |text: &str| text.trim().parse::<i128>().map_err(|_| wrong(text));
        let values = strings.map(|text| parse(text).map(|value| (text, value)));
        let values = values.collect::<Result<Vec<(&str, i128)>>>()?;
        if to == DataType::U64 {
            let value =
                |&(text, value): &(&str, i128)| u64::try_from(value).map_err(|_| wrong(text));
            let values = values.iter().map(value).collect::<Result<Vec<u64>>>()?;
            return Tensor::from_slice(shape, &values);
        }
        let value = |&(text, value): &(&str, i128)| i64::try_from(value).map_err(|_| wrong(text));
        let values = values.iter().map(value).collect::<Result<Vec<i64>>>()?;
        return convert(&Tensor::from_slice(shape, &values)?, to);
    }
    let values = strings.map(|text| text.trim().parse::<f64>().map_err(|_| wrong(text)));
    let values = values.collect::<Result<Vec<f64>>>()?;
    convert(&Tensor::from_slice(shape, &values)?, to)
}

/// The elements as strings: integers in decimal, others with as many digits as values of their type have.
fn written(input: &Tensor) -> Result<Vec<String>> {
    if let Some(values) = input.as_slice::<u64>() {
        return Ok(values.iter().map(u64::to_string).collect());
    }
    if let Some(values) = input.to_i64s() {
        return Ok(values.iter().map(i64::to_string).collect());
    }
    let digits = match input.dtype() {
        DataType::F64 => 17,
        _ => 8,
    };
    let wide = convert(input, DataType::F64)?;
    let values = wide.as_slice::<f64>().unwrap_or_default();
    Ok(values.iter().map(|&value| general(value, digits)).collect())
}

/// A value with a number of significant digits, without trailing zeros: `%g` of C.
fn general(value: f64, digits: usize) -> String {
    if value.is_nan() {
        return "NaN".to_owned();
    }
    if value.is_infinite() {
        return if value > 0.0 { "INF" } else { "-INF" }.to_owned();
    }
    let trimmed = |text: &str| match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text.to_owned(),
    };
    let scientific = format!("{value:.*e}", digits - 1);
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or_default();
    if exponent < -4 || exponent >= digits as i32 {
        let sign = if exponent < 0 { '-' } else { '+' };
        return format!("{}e{sign}{:02}", trimmed(mantissa), exponent.abs());
    }
    let decimals = (digits as i32 - 1 - exponent).max(0) as usize;
    trimmed(&format!("{value:.decimals$}"))
}

impl HostOperator {
    /// The results of an operator on strings.
    pub(super) fn string_results(&self, inputs: &[Option<&Tensor>]) -> Result<Vec<Tensor>> {
        let input = inputs.first().copied().flatten();
        let input = input.and_then(|input| Some((input, input.strings()?)));
        let (input, strings) = input.ok_or_else(|| invalid("input 'X' is no tensor of strings"))?;
        match self.op.name {
            "StringConcat" => Ok(vec![self.joined(inputs)?]),
            "StringSplit" => self.parts(input),
            "RegexFullMatch" => {
                let pattern = self.patterns.first();
                let pattern = pattern.ok_or_else(|| invalid("a pattern is missing"))?;
                let matched = checked(strings, |text| pattern.is_match(text));
                Ok(vec![Tensor::from_bools(input.shape().clone(), &matched)?])
            }
            "tenon.Tokenizer" => Ok(vec![self.tokens(input)?]),
            _ => Ok(vec![self.normalised(input)?]),
        }
    }

    /// StringConcat.
    fn joined(&self, inputs: &[Option<&Tensor>]) -> Result<Tensor> {
        let [Some(a), Some(b)] = inputs else {
            return Err(invalid("StringConcat takes two inputs"));
        };
        let shape = a.shape().broadcast(b.shape()).ok_or_else(|| {
            let error = Error::new(ErrorKind::InvalidArgument, "inputs that do not broadcast");
            error.expected(a.ty()).found(b.ty())
        })?;
        let extents: Vec<i64> = shape.iter().map(|&extent| extent as i64).collect();
        let extents = Tensor::from_slice([extents.len()], &extents)?;
        let expand = operator("Expand").ok_or_else(|| invalid("no Expand"))?;
        let expanded = |tensor: &Tensor| -> Result<Tensor> {
            let inputs = [Some(tensor), Some(&extents)];
            let mut results = self.compute(expand, &Attributes::new(), &inputs, &[true])?;
            results.pop().ok_or_else(|| invalid("Expand has no result"))
        };
        let (a, b) = (expanded(a)?, expanded(b)?);
        let pairs = a.strings().into_iter().flatten();
        let pairs = pairs.zip(b.strings().into_iter().flatten());
        let joined = checked(pairs, |(a, b)| format!("{a}{b}"));
        Tensor::from_strings(shape, &joined)
    }

    /// StringSplit.
    fn parts(&self, input: &Tensor) -> Result<Vec<Tensor>> {
        let delimiter = text(&self.attributes, "delimiter").filter(|text| !text.is_empty());
        let limit = self.attributes.int("maxsplit", -1)?;
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        let strings = input.strings().into_iter().flatten();
        let lists = checked(strings, |text| split(text, delimiter, limit));
        let counts: Vec<i64> = lists.iter().map(|parts| parts.len() as i64).collect();
        let width = lists.iter().map(Vec::len).max().unwrap_or(0);
        let mut shape = input.shape().to_vec();
        let counts = Tensor::from_slice(shape.clone(), &counts)?;
        shape.push(width);
        // Bounds the filled tensor before it is made.
        let ty = TensorType::new(DataType::String, shape)?;
        let mut cells: Vec<&str> = bounded::with_capacity("parts of strings", ty.elements())?;
        for parts in &lists {
            cells.extend(parts);
            cells.resize(cells.len() + width - parts.len(), "");
        }
        let cells = Tensor::from_strings(ty.shape().clone(), &cells)?;
        let results = [cells, counts].into_iter().zip(&self.outputs);
        let results = results.filter(|(_, requested)| **requested);
        Ok(results.map(|(tensor, _)| tensor).collect())
    }

    /// StringNormalizer.
    fn normalised(&self, input: &Tensor) -> Result<Tensor> {
        let case = text(&self.attributes, "case_change_action").unwrap_or("NONE");
        let change: fn(&str) -> String = match case {
            "LOWER" => str::to_lowercase,
            "UPPER" => str::to_uppercase,
            "NONE" => str::to_owned,
            _ => {
                let text = "attribute 'case_change_action' has an unknown value";
                let error = Error::new(ErrorKind::InvalidModel, text);
                return Err(error.expected("LOWER, UPPER or NONE").found(case));
            }
        };
        let sensitive = self.attributes.flag("is_case_sensitive", false)?;
        let key = |text: &str| match sensitive {
            true => text.to_owned(),
            false => text.to_lowercase(),
        };
        let stopwords: BTreeSet<String> = match self.attributes.value("stopwords") {
            Some(Attribute::Strings(words)) => words.iter().map(|word| key(word)).collect(),
            _ => BTreeSet::new(),
        };
        let strings = input.strings().into_iter().flatten();
        let kept = checked(strings, |text| {
            (!stopwords.contains(&key(text))).then(|| change(text))
        });
        let mut kept: Vec<String> = kept.into_iter().flatten().collect();
        if kept.is_empty() {
            kept.push(String::new());
        }
        let mut shape = vec![1; input.shape().len().saturating_sub(1)];
        shape.push(kept.len());
        Tensor::from_strings(shape, &kept)
    }
}

/// At most `limit` + 1 parts of a string; without a delimiter between white space, which is left out.
fn split<'a>(string: &'a str, delimiter: Option<&str>, limit: usize) -> Vec<&'a str> {
    if let Some(delimiter) = delimiter {
        return string.splitn(limit.saturating_add(1), delimiter).collect();
    }
    let mut parts = Vec::new();
    let mut rest = string.trim_start();
    while !rest.is_empty() {
        let end = match parts.len() < limit {
            true => rest.find(char::is_whitespace).unwrap_or(rest.len()),
            false => rest.len(),
        };
        parts.push(&rest[..end]);
        rest = rest[end..].trim_start();
    }
    parts
}

/// Maps strings, and checks the deadline in between.
fn checked<T, R>(items: impl Iterator<Item = T>, map: impl Fn(T) -> R) -> Vec<R> {
    let mut made = Vec::new();
    for (index, item) in items.enumerate() {
        if index % BETWEEN_CHECKS == 0 {
            stop::checkpoint();
        }
        made.push(map(item));
    }
    made
}

fn text<'a>(attributes: &'a Attributes, name: &str) -> Option<&'a str> {
    match attributes.value(name) {
        Some(Attribute::String(text)) => Some(text),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_are_split_like_python() {
        // str.split and str.split(delimiter, maxsplit) of Python.
        let all = usize::MAX;
        assert_eq!(split("  a  b c ", None, all), ["a", "b", "c"]);
        assert_eq!(split("a b c ", None, 1), ["a", "b c "]);
        assert_eq!(split(" a ", None, 1), ["a"]);
        assert_eq!(split("  a b", None, 0), ["a b"]);
        assert!(split("  ", None, all).is_empty());
        assert_eq!(split("a--b", Some("-"), all), ["a", "", "b"]);
        assert_eq!(split("a-b-c", Some("-"), 1), ["a", "b-c"]);
        assert_eq!(split("", Some("-"), all), [""]);
    }

    #[test]
    fn values_are_written_like_printf() {
        // printf("%.8g") and printf("%.17g") of C.
        let short = |value: f64| general(value, 8);
        assert_eq!(short(0.0), "0");
        assert_eq!(short(100.0), "100");
        assert_eq!(short(0.1f32.into()), "0.1");
        assert_eq!(short(-1.5), "-1.5");
        assert_eq!(short(123456789.0), "1.2345679e+08");
        assert_eq!(short(0.0001), "0.0001");
        assert_eq!(short(0.00001), "1e-05");
        assert_eq!(short(f64::NAN), "NaN");
        assert_eq!(short(f64::NEG_INFINITY), "-INF");
        assert_eq!(general(0.1, 17), "0.10000000000000001");
    }
}
