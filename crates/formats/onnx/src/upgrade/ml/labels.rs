//! Tables of labels and categories.

use super::{Composition, checked, invalid, wide, wrong_length};
use std::collections::HashMap;
use std::hash::Hash;
use tenon_base::{Error, Result};
use tenon_graph::ValueId;
use tenon_tensor::{DataType, Tensor};

/// The value of elements that no key equals.
const UNUSED: &str = "_Unused";

/// The first version of LabelEncoder in which NaN is a key.
const WITH_NAN: i64 = 4;

/// The most problems of one table that are listed.
const PROBLEMS: usize = 16;

pub(super) fn label_encoder(composition: &mut Composition<'_>) -> Result<Vec<ValueId>> {
    if composition.node.version < 2 {
        return class_encoder(composition);
    }
    let (name, keys) = composition.list("keys")?;
    let (_, values) = composition.list("values")?;
    let default = match composition.attributes().tensor("default_tensor")? {
        Some(tensor) => tensor.reshaped([])?,
        None => composition.default(values.dtype())?,
    };
    let (keys, values) = match composition.node.version {
        WITH_NAN.. => (keys, values),
        _ => without_nan(keys, values)?,
    };
    composition.looked_up(&name, keys, values, default)
}

/// Version 1: the positions of strings in a list, or the strings at positions.
fn class_encoder(composition: &mut Composition<'_>) -> Result<Vec<ValueId>> {
    let classes = composition
        .attributes()
        .strings("classes_strings")?
        .unwrap_or_default();
    let positions: Vec<i64> = (0..classes.len() as i64).collect();
    composition.strings_or_ints("classes_strings", classes, &positions)
}

pub(super) fn category_mapper(composition: &mut Composition<'_>) -> Result<Vec<ValueId>> {
    let attributes = composition.attributes();
    let strings = attributes.strings("cats_strings")?.unwrap_or_default();
    let ints = attributes.ints("cats_int64s")?.unwrap_or_default();
    composition.strings_or_ints("cats_strings", strings, ints)
}

/// A column for each category: 1 in the column of the element, otherwise 0.
pub(super) fn one_hot_encoder(composition: &mut Composition<'_>) -> Result<Vec<ValueId>> {
    let attributes = composition.attributes();
    let ints = attributes.ints("cats_int64s")?.unwrap_or_default();
    let strings = attributes.strings("cats_strings")?.unwrap_or_default();
    let (name, keys) = match (ints, strings) {
        (ints, []) if !ints.is_empty() => ("cats_int64s", Tensor::from_slice([ints.len()], ints)?),
        ([], strings) if !strings.is_empty() => (
            "cats_strings",
            Tensor::from_strings([strings.len()], strings)?,
        ),
        _ => {
            let text = "not one of attributes 'cats_int64s' and 'cats_strings' has elements";
            return Err(invalid(text));
        }
    };
    let count = keys.shape()[0] as i64;
    let positions: Vec<i64> = (0..count).collect();
    let positions = Tensor::from_slice([positions.len()], &positions)?;
    let mut x = composition.input(0)?;
    if keys.dtype() == DataType::I64 && composition.dtype(x) != Some(DataType::I64) {
        x = composition.cast(x, DataType::I64);
    }
    let range = composition.constant("range", positions.clone());
    let mut found = composition.look_up(x, name, keys, positions, Tensor::scalar(count)?)?;
    if !composition.attributes().flag("zeros", true)? {
        // An unknown category is an error: its position is out of bounds.
        found = composition.op("Gather", &[range, found]);
    }
    let last = composition.ints("last", &[-1])?;
    let found = composition.op("Unsqueeze", &[found, last]);
    let is_category = composition.op("Equal", &[found, range]);
    Ok(vec![composition.cast(is_category, DataType::F32)])
}

impl Composition<'_> {
    /// Strings become integers, or integers strings, by the type of the input.
    fn strings_or_ints(
        &mut self,
        name: &str,
        strings: &[String],
        ints: &[i64],
    ) -> Result<Vec<ValueId>> {
        if strings.len() != ints.len() {
            return Err(wrong_length("cats_int64s", strings.len(), ints.len()));
        }
        let x = self.input(0)?;
        let (strings, ints) = (
            Tensor::from_strings([strings.len()], strings)?,
            Tensor::from_slice([ints.len()], ints)?,
        );
        if self.dtype(x) == Some(DataType::I64) {
            let default = self.default(DataType::String)?;
            return self.looked_up("cats_int64s", ints, strings, default);
        }
        let default = self.default(DataType::I64)?;
        self.looked_up(name, strings, ints, default)
    }

    /// The attribute `stem_int64s`, `stem_floats`, `stem_strings` or `stem_tensor` that is given, and its name.
    fn list(&self, stem: &str) -> Result<(String, Tensor)> {
        let attributes = self.attributes();
        let mut found = Vec::new();
        let name = |kind: &str| format!("{stem}_{kind}");
        if let Some(list) = attributes
            .ints(&name("int64s"))?
            .filter(|list| !list.is_empty())
        {
            found.push((name("int64s"), Tensor::from_slice([list.len()], list)?));
        }
        if let Some(list) = attributes
            .floats(&name("floats"))?
            .filter(|list| !list.is_empty())
        {
            found.push((name("floats"), Tensor::from_slice([list.len()], list)?));
        }
        if let Some(list) = attributes
            .strings(&name("strings"))?
            .filter(|list| !list.is_empty())
        {
            found.push((name("strings"), Tensor::from_strings([list.len()], list)?));
        }
        if let Some(tensor) = attributes.tensor(&name("tensor"))? {
            found.push((name("tensor"), tensor.clone()));
        }
        match found.len() {
            1 => Ok(found.remove(0)),
            count => Err(invalid(format!("not one list of {stem} is given"))
                .expected(format_args!(
                    "one of attributes '{stem}_int64s', '{stem}_floats', '{stem}_strings' and '{stem}_tensor'"
                ))
                .found(count)),
        }
    }

    /// The default value of a type.
    fn default(&self, dtype: DataType) -> Result<Tensor> {
        let attributes = self.attributes();
        match dtype {
            DataType::String => {
                Tensor::from_strings([], &[attributes.string("default_string", UNUSED)?])
            }
            DataType::I64 => Tensor::scalar(attributes.int("default_int64", -1)?),
            DataType::F32 => Tensor::scalar(attributes.float("default_float", -0.0)?),
            dtype => tenon_tensor::convert(&Tensor::scalar(0.0f32)?, dtype),
        }
    }

    fn looked_up(
        &mut self,
        name: &str,
        keys: Tensor,
        values: Tensor,
        default: Tensor,
    ) -> Result<Vec<ValueId>> {
        let x = self.input(0)?;
        Ok(vec![self.look_up(x, name, keys, values, default)?])
    }

    fn look_up(
        &mut self,
        x: ValueId,
        name: &str,
        keys: Tensor,
        values: Tensor,
        default: Tensor,
    ) -> Result<ValueId> {
        let mut problems = duplicates(name, &keys)?;
        if keys.shape() != values.shape() {
            let text = format!("attribute '{name}' does not have a key for each value");
            problems.push(invalid(text).expected(values.shape()).found(keys.shape()));
        }
        if default.dtype() != values.dtype() {
            let text = "attribute 'default_tensor' does not have the type of the values";
            problems.push(
                invalid(text)
                    .expected(values.dtype())
                    .found(default.dtype()),
            );
        }
        checked(problems)?;
        let inputs = [
            x,
            self.constant("keys", keys),
            self.constant("values", values),
            self.constant("default", default),
        ];
        Ok(self.op("tenon.LookUp", &inputs))
    }
}

/// The keys that are given twice.
fn duplicates(name: &str, keys: &Tensor) -> Result<Vec<Error>> {
    fn repeated<T: Hash + Eq>(keys: impl Iterator<Item = T>) -> Vec<[usize; 2]> {
        let mut first = HashMap::new();
        let pairs = keys.enumerate().filter_map(|(at, key)| {
            let before = *first.entry(key).or_insert(at);
            (before != at).then_some([before, at])
        });
        pairs.take(PROBLEMS).collect()
    }
    let pairs = if let Some(strings) = keys.strings() {
        repeated(strings)
    } else if let Some(ints) = keys.to_i64s() {
        repeated(ints.into_iter())
    } else {
        let floats = wide(keys)?;
        let bits = |key: f64| if key.is_nan() { f64::NAN } else { key + 0.0 }.to_bits();
        repeated(floats.into_iter().map(bits))
    };
    let error = |[before, at]: [usize; 2]| {
        invalid(format!(
            "elements {before} and {at} of attribute '{name}' are the same key"
        ))
    };
    Ok(pairs.into_iter().map(error).collect())
}

/// The keys other than NaN, and their values.
fn without_nan(keys: Tensor, values: Tensor) -> Result<(Tensor, Tensor)> {
    let Some(floats) = keys.as_slice::<f32>() else {
        return Ok((keys, values));
    };
    if !floats.iter().any(|key| key.is_nan()) || keys.shape() != values.shape() {
        return Ok((keys, values));
    }
    let kept: Vec<usize> = (0..floats.len())
        .filter(|&at| !floats[at].is_nan())
        .collect();
    let left: Vec<f32> = kept.iter().map(|&at| floats[at]).collect();
    let values = if let Some(strings) = values.strings() {
        let strings: Vec<&str> = strings.collect();
        let strings: Vec<&str> = kept.iter().map(|&at| strings[at]).collect();
        Tensor::from_strings([kept.len()], &strings)?
    } else if let Some(ints) = values.to_i64s() {
        let ints: Vec<i64> = kept.iter().map(|&at| ints[at]).collect();
        Tensor::from_slice([kept.len()], &ints)?
    } else {
        let floats = values.as_slice::<f32>().unwrap_or_default();
        let floats: Vec<f32> = kept.iter().map(|&at| floats[at]).collect();
        Tensor::from_slice([kept.len()], &floats)?
    };
    Ok((Tensor::from_slice([left.len()], &left)?, values))
}
