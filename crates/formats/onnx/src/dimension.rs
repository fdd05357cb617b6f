//! Symbolic dimensions: the shape of each input from the declaration of the model and the options of
//! the caller.

mod symbolic;

use crate::ImportOptions;
use crate::signature::{Dimension, ValueSignature};
use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use symbolic::SymbolicDimensions;
use tenon_base::{Error, ErrorKind, Location, Result};
use tenon_tensor::size::{SizeExpr, Symbols};
use tenon_tensor::{Tensor, TensorType};

/// The types of a model's inputs.
#[derive(Debug, Default)]
pub(crate) struct InputTypes {
    /// In the order of the inputs; symbolic dimensions have their example size.
    pub types: Vec<TensorType>,
    /// The dimensions that stay symbolic.
    pub symbols: Symbols,
    /// The example size of each symbol.
    pub example_sizes: Vec<i64>,
    /// The extents of the inputs that have a symbolic one, by name.
    pub extents: BTreeMap<String, Vec<SizeExpr>>,
    /// The dimensions with a name that have a fixed extent.
    pub fixed: BTreeMap<String, usize>,
}

/// The types of those `inputs` that are tensors, in order; inputs with a constant have its type. All missing, unknown or
/// contradictory dimensions are reported together.
pub(crate) fn input_types(
    inputs: &[ValueSignature],
    options: &ImportOptions,
) -> Result<InputTypes> {
    let tensors = inputs.iter().filter(|input| input.kind.is_tensor());
    let inputs: &[ValueSignature] = &tensors.cloned().collect::<Vec<_>>();
    let mut names = Extents::new(inputs, options);
    let mut errors = names.unknown();
    for input in inputs {
        if let Some(constant) = options.constants.get(&input.name) {
            errors.extend(names.bind_constant(input, constant));
        } else if let Some(array) = options.given.get(&input.name) {
            errors.extend(names.bind_array(input, array));
        }
    }
    let fixed = names.known.clone();
    let mut symbolic = SymbolicDimensions::default();
    if let Some(examples) = options.symbolic {
        let free = names.without_extent();
        match SymbolicDimensions::new(&free, &names.known, &options.ranges, examples) {
            Ok(dimensions) => symbolic = dimensions,
            Err(error) => errors.push(error),
        }
        names.known.extend(symbolic.examples());
    }
    let mut types = Vec::with_capacity(inputs.len());
    for input in inputs {
        match options.constants.get(&input.name) {
            Some(constant) => types.push(constant.ty().clone()),
            None => match names.declared_type(input) {
                Ok(ty) => types.extend(ty),
                Err(error) => errors.push(error.at(Location::field(place(&input.name)))),
            },
        }
    }
    errors.extend(names.missing());
    match Error::from_all(errors) {
        Some(error) => Err(error),
        None => {
            let free = |input: &&ValueSignature| !options.constants.contains_key(&input.name);
            let free = inputs.iter().zip(&types).filter(|(input, _)| free(input));
            let extents = free.filter_map(|(input, ty)| {
                let dimensions = input.shape.iter().flatten().enumerate();
                let names = dimensions.map(|(axis, dimension)| name(input, axis, dimension));
                Some((input.name.clone(), symbolic.extents(names, ty)?))
            });
            Ok(InputTypes {
                extents: extents.collect(),
                fixed,
                types,
                symbols: symbolic.symbols,
                example_sizes: symbolic.example_sizes,
            })
        }
    }
}

fn does_not_fit(message: &str, input: &ValueSignature, found: &TensorType) -> Error {
    Error::new(ErrorKind::InvalidArgument, message)
        .expected(input)
        .found(found)
        .at(Location::field(place(&input.name)))
}

/// The location of an input in errors.
pub(crate) fn place(input: &str) -> String {
    format!("input '{input}'")
}

/// The name of an input's dimension in options: that of the model, or `INPUT[AXIS]`.
fn name(input: &ValueSignature, axis: usize, dimension: &Dimension) -> Option<String> {
    match dimension {
        Dimension::Fixed(_) => None,
        Dimension::Named(name) => Some(name.clone()),
        Dimension::Unnamed => Some(format!("{}[{axis}]", input.name)),
    }
}

/// Named dimensions with the inputs that use them, and the known extents.
struct Extents<'a> {
    uses: BTreeMap<String, Vec<&'a str>>,
    known: BTreeMap<String, usize>,
    ranges: &'a BTreeMap<String, RangeInclusive<u64>>,
    /// Whether an input without a constant uses it.
    needed: BTreeMap<String, bool>,
}

impl<'a> Extents<'a> {
    fn new(inputs: &'a [ValueSignature], options: &'a ImportOptions) -> Self {
        let mut extents = Self {
            uses: BTreeMap::new(),
            known: options.dims.clone(),
            ranges: &options.ranges,
            needed: BTreeMap::new(),
        };
        for input in inputs {
            let constant = options.constants.contains_key(&input.name);
            for (axis, dimension) in input.shape.iter().flatten().enumerate() {
                let Some(name) = name(input, axis, dimension) else {
                    continue;
                };
                *extents.needed.entry(name.clone()).or_default() |= !constant;
                let uses = extents.uses.entry(name).or_default();
                if uses.last() != Some(&input.name.as_str()) {
                    uses.push(&input.name);
                }
            }
        }
        extents
    }

    /// An error for each dimension in the options that does not exist.
    fn unknown(&mut self) -> Vec<Error> {
        let existing = self.uses.keys().cloned().collect::<Vec<_>>().join(", ");
        let unknown: Vec<_> = self
            .known
            .keys()
            .chain(self.ranges.keys())
            .filter(|name| !self.uses.contains_key(*name))
            .cloned()
            .collect();
        let error = |name: String| {
            self.known.remove(&name);
            let error = Error::new(
                ErrorKind::InvalidArgument,
                format!("the model has no dimension '{name}' to be given"),
            );
            if existing.is_empty() {
                error.help("its inputs have fixed shapes")
            } else {
                error.help(format!("it has {existing}"))
            }
        };
        unknown.into_iter().map(error).collect()
    }

    /// Binds the extents of the constant for `input`; contradictions are errors.
    fn bind_constant(&mut self, input: &ValueSignature, constant: &Tensor) -> Vec<Error> {
        let is_other = input.dtype.is_some_and(|dtype| dtype != constant.dtype());
        let rank = input.shape.as_ref().map(Vec::len);
        if is_other || rank.is_some_and(|rank| rank != constant.shape().len()) {
            let message = "the constant does not fit the input";
            return vec![does_not_fit(message, input, constant.ty())];
        }
        let Some(shape) = &input.shape else {
            return Vec::new();
        };
        self.bind(input, shape, constant.shape(), "constant")
    }

    /// Binds the extents of the array for `input`; contradictions are errors. Leading extents of 1 may
    /// be missing or added.
    fn bind_array(&mut self, input: &ValueSignature, array: &TensorType) -> Vec<Error> {
        let is_fixed = |dimension: &Dimension| matches!(dimension, Dimension::Fixed(_));
        let shape = input.shape.as_ref();
        // A fixed shape is checked when the array is passed.
        let Some(shape) = shape.filter(|shape| !shape.iter().all(is_fixed)) else {
            return Vec::new();
        };
        let extra = array.shape().len().saturating_sub(shape.len());
        let missing = shape.len().saturating_sub(array.shape().len());
        let (leading, rest) = array.shape().split_at(extra);
        let extents: Vec<usize> = std::iter::repeat_n(1, missing)
            .chain(rest.iter().copied())
            .collect();
        let mut pairs = shape.iter().zip(&extents);
        let fits = |(dimension, &extent): (&Dimension, &usize)| {
            !is_fixed(dimension) || *dimension == Dimension::Fixed(extent)
        };
        if leading.iter().any(|&extent| extent != 1) || !pairs.all(fits) {
            let message = "an array that does not fit the input";
            return vec![does_not_fit(message, input, array)];
        }
        self.bind(input, shape, &extents, "array given")
    }

    /// Binds the extents of a tensor of the same rank as the input.
    fn bind(
        &mut self,
        input: &ValueSignature,
        shape: &[Dimension],
        extents: &[usize],
        given: &str,
    ) -> Vec<Error> {
        let mut errors = Vec::new();
        for (axis, (dimension, &extent)) in shape.iter().zip(extents).enumerate() {
            let expected = match name(input, axis, dimension) {
                Some(name) => *self.known.entry(name).or_insert(extent),
                None => match dimension {
                    Dimension::Fixed(expected) => *expected,
                    _ => extent,
                },
            };
            if expected != extent {
                let message = format!("dimension {axis} ({dimension}) of the {given}");
                let error = Error::new(ErrorKind::InvalidArgument, message).expected(expected);
                errors.push(error.found(extent).at(Location::field(place(&input.name))));
            }
        }
        errors
    }

    /// The type of an input without a constant; `None` when a dimension is missing.
    fn declared_type(&self, input: &ValueSignature) -> Result<Option<TensorType>> {
        if let Some(other) = &input.other {
            return Err(Error::new(
                ErrorKind::Unsupported,
                format!("an input that is {other}"),
            ));
        }
        let missing = |what: &str| {
            Error::new(
                ErrorKind::InvalidModel,
                format!("the model does not say {what}"),
            )
            .help(format!(
                "give it as a constant with --const {}=FILE",
                input.name
            ))
        };
        let dtype = input
            .dtype
            .ok_or_else(|| missing("the type of its elements"))?;
        let shape = input
            .shape
            .as_ref()
            .ok_or_else(|| missing("how many dimensions it has"))?;
        let extent = |(axis, dimension): (usize, &Dimension)| match dimension {
            Dimension::Fixed(extent) => Some(*extent),
            _ => self.known.get(&name(input, axis, dimension)?).copied(),
        };
        let shape: Option<Vec<usize>> = shape.iter().enumerate().map(extent).collect();
        shape.map(|shape| TensorType::new(dtype, shape)).transpose()
    }

    /// The names of dimensions without extent that an input uses, in order.
    fn without_extent(&self) -> Vec<String> {
        let names = self.needed.iter().filter(|(_, needed)| **needed);
        let names = names.map(|(name, _)| name);
        names
            .filter(|name| !self.known.contains_key(*name))
            .cloned()
            .collect()
    }

    /// An error for each dimension without extent that an input uses.
    fn missing(&self) -> Vec<Error> {
        let missing = self.uses.iter().filter(|(name, _)| {
            self.needed.get(*name) == Some(&true) && !self.known.contains_key(*name)
        });
        let error = |(name, uses): (&String, &Vec<&str>)| {
            let inputs = uses
                .iter()
                .map(|input| format!("'{input}'"))
                .collect::<Vec<_>>()
                .join(", ");
            let (noun, verb) = if uses.len() == 1 {
                ("input", "uses")
            } else {
                ("inputs", "use")
            };
            Error::new(
                ErrorKind::Usage,
                format!("dimension '{name}' is not given; {noun} {inputs} {verb} it"),
            )
            .help(format!("give it with --dim {name}=N"))
        };
        missing.map(error).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tenon_tensor::DataType;

    fn input(name: &str, shape: &[Dimension]) -> ValueSignature {
        let (dtype, shape) = (Some(DataType::F32), Some(shape.to_vec()));
        ValueSignature {
            kind: tenon_tensor::ValueKind::Tensor,
            name: name.into(),
            dtype,
            shape,
            keys: None,
            other: None,
        }
    }

    fn named(name: &str) -> Dimension {
        Dimension::Named(name.into())
    }

    fn options(dims: &[(&str, usize)]) -> ImportOptions {
        let dims = dims
            .iter()
            .map(|&(name, extent)| (name.to_owned(), extent))
            .collect();
        ImportOptions {
            dims,
            ..Default::default()
        }
    }

    fn two() -> [ValueSignature; 2] {
        [
            input("x", &[named("batch"), Dimension::Fixed(3), named("length")]),
            input("y", &[named("batch"), Dimension::Unnamed]),
        ]
    }

    #[test]
    fn symbolic_dimensions_are_substituted() {
        let types = input_types(
            &two(),
            &options(&[("batch", 2), ("length", 7), ("y[1]", 5)]),
        )
        .unwrap()
        .types;
        assert_eq!(types[0].to_string(), "f32[2, 3, 7]");
        assert_eq!(types[1].to_string(), "f32[2, 5]");
    }

    #[test]
    fn missing_and_unknown_dimensions_are_reported_together() {
        let error = input_types(&two(), &options(&[("length", 7), ("bacth", 1)])).unwrap_err();
        assert_eq!(
            error.to_string(),
            "the model has no dimension 'bacth' to be given; it has batch, length, y[1]\n\
             dimension 'batch' is not given; inputs 'x', 'y' use it; give it with --dim batch=N\n\
             dimension 'y[1]' is not given; input 'y' uses it; give it with --dim y[1]=N"
        );
    }

    #[test]
    fn a_constant_determines_dimensions() {
        let mut options = options(&[("length", 7)]);
        let constant = Tensor::from_slice([4, 1], &[0.0f32; 4]).unwrap();
        options.constants.insert("y".into(), constant);
        let types = input_types(&two(), &options).unwrap().types;
        assert_eq!(types[0].to_string(), "f32[4, 3, 7]");
        options.dims.insert("batch".into(), 3);
        let error = input_types(&two(), &options).unwrap_err();
        assert_eq!(
            error.to_string(),
            "input 'y': dimension 0 (batch) of the constant: expected 3, found 4"
        );
        options
            .constants
            .insert("y".into(), Tensor::scalar(1i32).unwrap());
        let error = input_types(&two(), &options).unwrap_err();
        assert!(
            error
                .to_string()
                .contains("expected f32[batch, ?], found i32[]"),
            "{error}"
        );
    }

    #[test]
    fn arrays_determine_dimensions() {
        let ty = |shape: &[usize]| TensorType::new(DataType::F32, shape).unwrap();
        let given = |x: &[usize], y: &[usize], dims: &[(&str, usize)]| {
            let mut options = options(dims);
            options.given.insert("x".into(), ty(x));
            options.given.insert("y".into(), ty(y));
            let types = input_types(&two(), &options).map_err(|error| error.to_string())?;
            Ok(types
                .types
                .iter()
                .map(TensorType::to_string)
                .collect::<Vec<_>>()
                .join(" "))
        };
        let fits: Result<String, String> = Ok("f32[4, 3, 7] f32[4, 9]".into());
        assert_eq!(given(&[4, 3, 7], &[4, 9], &[("batch", 4)]), fits);
        // Leading extents of 1 may be missing or added.
        let fits: Result<String, String> = Ok("f32[1, 3, 7] f32[1, 9]".into());
        assert_eq!(given(&[3, 7], &[1, 1, 9], &[]), fits);
        let refused = given(&[4, 3, 7], &[5, 9], &[]).unwrap_err();
        let contradiction = "dimension 0 (batch) of the array given: expected 4, found 5";
        assert_eq!(refused, format!("input 'y': {contradiction}"));
        let refused = given(&[4, 3, 7], &[4, 9], &[("batch", 5)]).unwrap_err();
        let contradiction = "dimension 0 (batch) of the array given: expected 5, found 4";
        assert_eq!(refused.matches(contradiction).count(), 2, "{refused}");
        let refused = given(&[2, 4, 3, 7], &[4, 9], &[("length", 7)]).unwrap_err();
        assert!(refused.contains("does not fit the input: expected f32[batch, 3, length]"));
        let refused = given(&[4, 5, 7], &[4, 9], &[("length", 7)]).unwrap_err();
        assert!(refused.contains("expected f32[batch, 3, length], found f32[4, 5, 7]"));
    }

    #[test]
    fn inputs_without_rank_are_errors() {
        let shapeless = ValueSignature {
            shape: None,
            ..input("x", &[])
        };
        let sequence = ValueSignature {
            keys: None,
            other: Some("a sequence".into()),
            ..input("s", &[])
        };
        let error = input_types(&[shapeless, sequence], &options(&[])).unwrap_err();
        assert_eq!(
            error.to_string(),
            "input 'x': the model does not say how many dimensions it has; give it as a constant \
             with --const x=FILE\ninput 's': an input that is a sequence"
        );
        let huge = input("h", &[Dimension::Fixed(usize::MAX), Dimension::Fixed(2)]);
        assert!(input_types(&[huge], &options(&[])).is_err());
    }
}
