//! Preparation of features.

use super::{Composition, checked, invalid, wrong_length};
use tenon_base::Result;
use tenon_graph::{Attribute, Attributes, ValueId};
use tenon_tensor::{DataType, Tensor};

/// 1 where an element is greater than a threshold, otherwise 0.
pub(super) fn binarizer(composition: &mut Composition<'_>) -> Result<Vec<ValueId>> {
    let x = composition.input(0)?;
    let dtype = composition.dtype(x).unwrap_or(DataType::F32);
    let threshold = composition.attributes().float("threshold", 0.0)?;
    let threshold = composition.scalar("threshold", threshold)?;
    let wide = composition.as_f32(x);
    let greater = composition.op("Greater", &[wide, threshold]);
    Ok(vec![composition.cast(greater, dtype)])
}

/// (X - offset) scale.
pub(super) fn scaler(composition: &mut Composition<'_>) -> Result<Vec<ValueId>> {
    let attributes = composition.attributes();
    let offset = attributes.floats("offset")?.unwrap_or_default();
    let scale = attributes.floats("scale")?.unwrap_or_default();
    let mut problems = Vec::new();
    for (name, list) in [("offset", offset), ("scale", scale)] {
        if list.is_empty() {
            problems.push(invalid(format!("attribute '{name}' is missing or empty")));
        }
    }
    if problems.is_empty() && offset.len() != scale.len() {
        problems.push(wrong_length("scale", offset.len(), scale.len()));
    }
    checked(problems)?;
    let x = composition.input(0)?;
    let x = composition.as_f32(x);
    let offset = composition.row("offset", offset)?;
    let scale = composition.row("scale", scale)?;
    let centred = composition.op("Sub", &[x, offset]);
    Ok(vec![composition.op("Mul", &[centred, scale])])
}

/// Rows divided by their greatest element, the sum of their magnitudes, or their length; where that is 0, they are
/// unchanged.
pub(super) fn normalizer(composition: &mut Composition<'_>) -> Result<Vec<ValueId>> {
    let x = composition.input(0)?;
    let x = composition.as_f32(x);
    let axes = composition.ints("axes", &[-1])?;
    let norm = match composition.attributes().string("norm", "MAX")? {
        "MAX" => {
            // NaN is not the greatest.
            let is_nan = composition.op("IsNaN", &[x]);
            let least = composition.scalar("least", f32::MIN)?;
            let known = composition.op("Where", &[is_nan, least, x]);
            composition.op("ReduceMax", &[known, axes])
        }
        "L1" => composition.op("ReduceL1", &[x, axes]),
        "L2" => composition.op("ReduceL2", &[x, axes]),
        found => {
            return Err(invalid("attribute 'norm' has an unknown value")
                .expected("MAX, L1 or L2")
                .found(format_args!("'{found}'")));
        }
    };
    let (zero, one) = (
        composition.scalar("zero", 0.0)?,
        composition.scalar("one", 1.0)?,
    );
    let is_zero = composition.op("Equal", &[norm, zero]);
    let norm = composition.op("Where", &[is_zero, one, norm]);
    Ok(vec![composition.op("Div", &[x, norm])])
}

/// The elements other than a value, or NaN; in its place a value, or one of each column.
pub(super) fn imputer(composition: &mut Composition<'_>) -> Result<Vec<ValueId>> {
    let attributes = composition.attributes();
    let x = composition.input(0)?;
    let floats = attributes
        .floats("imputed_value_floats")?
        .unwrap_or_default();
    let ints = attributes.ints("imputed_value_int64s")?.unwrap_or_default();
    let is_integer = composition.dtype(x).is_some_and(DataType::is_integer);
    let (name, count) = match is_integer {
        true => ("imputed_value_int64s", ints.len()),
        false => ("imputed_value_floats", floats.len()),
    };
    if count == 0 {
        return Err(invalid(format!("attribute '{name}' is missing or empty")));
    }
    let (is_missing, values) = if is_integer {
        let replaced = attributes.int("replaced_value_int64", 0)?;
        let replaced = composition.constant("replaced", Tensor::scalar(replaced)?);
        let values = composition.ints("values", ints)?;
        let wide = composition.cast(x, DataType::I64);
        (composition.op("Equal", &[wide, replaced]), values)
    } else {
        let replaced = attributes.float("replaced_value_float", 0.0)?;
        let values = composition.row("values", floats)?;
        if replaced.is_nan() {
            (composition.op("IsNaN", &[x]), values)
        } else {
            let replaced = composition.scalar("replaced", replaced)?;
            let replaced = composition.op("CastLike", &[replaced, x]);
            (composition.op("Equal", &[x, replaced]), values)
        }
    };
    let values = composition.op("CastLike", &[values, x]);
    Ok(vec![composition.op("Where", &[is_missing, values, x])])
}

/// Columns of X.
pub(super) fn extractor(composition: &mut Composition<'_>) -> Result<Vec<ValueId>> {
    let (x, positions) = (composition.input(0)?, composition.input(1)?);
    let x = composition.as_rows(x)?;
    if let Some(known) = composition.draft.constant(Some(positions)) {
        let found = known.to_i64s().unwrap_or_default();
        if let Some(at) = found.iter().position(|&position| position < 0) {
            return Err(invalid(format!("element {at} of input 'Y' is negative")).found(found[at]));
        }
    }
    let all = composition.ints("all", &[-1])?;
    let positions = composition.op("Reshape", &[positions, all]);
    let axis = Attributes::new().with("axis", Attribute::Int(-1));
    Ok(vec![composition.op_with("Gather", axis, &[x, positions])])
}

/// The columns of all inputs in f32; each input is cut or filled with zeros to its number of columns.
pub(super) fn vectorizer(composition: &mut Composition<'_>) -> Result<Vec<ValueId>> {
    let widths = composition
        .attributes()
        .ints("inputdimensions")?
        .unwrap_or_default();
    let count = composition.node.inputs.len();
    let mut problems = Vec::new();
    if widths.len() != count {
        problems.push(wrong_length("inputdimensions", count, widths.len()));
    }
    for (at, &width) in widths.iter().enumerate().filter(|(_, width)| **width < 1) {
        let text = format!("element {at} of attribute 'inputdimensions' is not positive");
        problems.push(invalid(text).found(width));
    }
    checked(problems)?;
    let mut parts = Vec::new();
    for (index, &width) in widths.iter().enumerate() {
        let x = composition.input(index)?;
        let x = composition.as_rows(x)?;
        let x = composition.as_f32(x);
        let axis = Attributes::new().with("axis", Attribute::Int(1));
        let flat = composition.op_with("Flatten", axis, &[x]);
        let pads = composition.ints("pads", &[0, 0, 0, width])?;
        let filled = composition.op("Pad", &[flat, pads]);
        let start = composition.ints("start", &[0])?;
        let end = composition.ints("end", &[width])?;
        let axes = composition.ints("axes", &[1])?;
        parts.push(composition.op("Slice", &[filled, start, end, axes]));
    }
    Ok(vec![composition.concat(&parts)])
}

impl Composition<'_> {
    fn row(&mut self, what: &str, values: &[f32]) -> Result<ValueId> {
        Ok(self.constant(what, Tensor::from_slice([values.len()], values)?))
    }
}
