//! The stored form of a DMA descriptor (neff 2.14), and its conversion to and from the executable
//! form of `tenon-dma`.

use crate::error::invalid;
use crate::object::object;
use crate::{Name, neff_dtype, neff_dtype_name};
use serde_json::Number;
use tenon_base::{Error, ErrorKind, Location, Result};
use tenon_dma::{Access, Constant, Descriptor, Extents, Operation, Steps, VariableId};
use tenon_tensor::DataType;

object! {
    /// The JSON of a descriptor; variables by name.
    #[derive(Default)]
    pub struct JsonDescriptor {
        /// `copy` when absent.
        pub op: Option<Name> = "op",
        /// The source, when there is a single one.
        pub from: Option<Name> = "from",
        /// Its first byte.
        pub from_off: Option<u64> = "from_off",
        /// Its sizes, innermost first.
        pub from_sizes: Option<Extents> = "from_sizes",
        /// Its steps, innermost first.
        pub from_steps: Option<Steps> = "from_steps",
        /// Its data type, `uint8` when absent.
        pub from_dtype: Option<Name> = "from_dtype",
        /// The factor of fma, 1 when absent.
        pub scale: Option<Number> = "scale",
        /// The sources of add, min, max and fma.
        pub from_arr: Option<Vec<JsonSource>> = "from_arr",
        /// The target variable.
        pub to: Name = "to",
        /// Its first byte; 0 when absent.
        pub to_off: Option<u64> = "to_off",
        /// Its sizes, innermost first.
        pub to_sizes: Extents = "to_sizes",
        /// Its steps, innermost first.
        pub to_steps: Steps = "to_steps",
        /// Its data type, `uint8` when absent.
        pub to_dtype: Option<Name> = "to_dtype",
        /// Dimensions of one tile.
        pub num_tiling_dimensions: Option<u64> = "num_tiling_dimensions",
        /// The type of `scale`; only `float32`.
        pub scale_dtype: Option<Name> = "scale_dtype",
        /// The type of `constant`: `float32`, `int32` or `uint32`.
        pub constant_dtype: Option<Name> = "constant_dtype",
        /// The initial value of min and max; ignored without its type.
        pub constant: Option<Number> = "constant",
        /// The shape of a transpose; four extents.
        pub transpose_shape: Option<Extents> = "transpose_shape",
        /// Its element size in bytes.
        pub transpose_element_size: Option<u64> = "transpose_element_size",
    }
}

object! {
    /// A source in `from_arr`.
    #[derive(Default)]
    pub struct JsonSource {
        /// The variable.
        pub from: Option<Name> = "from",
        /// The first byte.
        pub from_off: Option<u64> = "from_off",
        /// Sizes, innermost first.
        pub from_sizes: Option<Extents> = "from_sizes",
        /// Steps, innermost first.
        pub from_steps: Option<Steps> = "from_steps",
        /// Data type, `uint8` when absent.
        pub from_dtype: Option<Name> = "from_dtype",
        /// Its factor in fma, 1 when absent.
        pub scale: Option<Number> = "scale",
    }
}

/// One end of a stored descriptor: a source in `from` or `from_arr`, or the target.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct JsonAccess<'a> {
    /// The variable; `None` where the key is missing.
    pub variable: Option<&'a Name>,
    /// The first byte, if given.
    pub offset: Option<u64>,
    /// Sizes, innermost first.
    pub sizes: &'a [u64],
    /// Steps, innermost first.
    pub steps: &'a [i64],
    /// Data type, if given.
    pub dtype: Option<&'a Name>,
    /// A source's scale.
    pub scale: Option<&'a Number>,
}

impl JsonSource {
    /// This source as an end of a descriptor.
    pub fn access(&self) -> JsonAccess<'_> {
        JsonAccess {
            variable: self.from.as_ref(),
            offset: self.from_off,
            sizes: self.from_sizes.as_deref().unwrap_or_default(),
            steps: self.from_steps.as_deref().unwrap_or_default(),
            dtype: self.from_dtype.as_ref(),
            scale: self.scale.as_ref(),
        }
    }
}

impl JsonAccess<'_> {
    /// The executable form. Problems are located at keys of `side`.
    fn parse(
        &self,
        side: &str,
        variable: &impl Fn(&str) -> Option<VariableId>,
        problems: &mut Vec<Error>,
    ) -> Access {
        let name = self.variable.map_or("", |name| name.as_str());
        let id = variable(name);
        if id.is_none() {
            let error = Error::new(ErrorKind::NotFound, "no such variable");
            let error = error.found(format_args!("'{name}'"));
            problems.push(error.at(Location::field(side)));
        }
        let dtype = self.dtype.map_or("uint8", |name| name.as_str());
        let parsed = neff_dtype(dtype);
        if parsed.is_none() {
            let field = Location::field(format!("{side}_dtype"));
            problems.push(invalid("unknown data type").found(dtype).at(field));
        }
        Access {
            variable: id.unwrap_or(VariableId(0)),
            offset: self.offset.unwrap_or(0),
            sizes: Extents::from_slice(self.sizes),
            steps: Steps::from_slice(self.steps),
            dtype: parsed.unwrap_or(DataType::U8),
        }
    }
}

impl JsonDescriptor {
    /// The executable form; `variable` finds a variable by name. All problems are reported
    /// together.
    pub fn parse(&self, variable: impl Fn(&str) -> Option<VariableId>) -> Result<Descriptor> {
        let mut problems = Vec::new();
        let mut from = Vec::with_capacity(self.from_arr.as_ref().map_or(1, Vec::len));
        for source in self.sources() {
            from.push(source.parse("from", &variable, &mut problems));
        }
        let to = self.target().parse("to", &variable, &mut problems);
        let operation = self.operation().map_err(|error| problems.push(error));
        match (operation, Error::from_all(problems)) {
            (Ok(operation), None) => Ok(Descriptor {
                operation,
                from,
                to,
            }),
            (_, Some(error)) => Err(error),
            (Err(()), None) => Err(invalid("an operation that cannot be read")),
        }
    }

    /// The sources: those of `from_arr`, else `from`.
    pub fn sources(&self) -> impl Iterator<Item = JsonAccess<'_>> {
        let many = self.from_arr.as_deref().unwrap_or_default();
        let one = (many.is_empty() && self.from.is_some()).then(|| JsonAccess {
            variable: self.from.as_ref(),
            offset: self.from_off,
            sizes: self.from_sizes.as_deref().unwrap_or_default(),
            steps: self.from_steps.as_deref().unwrap_or_default(),
            dtype: self.from_dtype.as_ref(),
            scale: self.scale.as_ref(),
        });
        many.iter().map(JsonSource::access).chain(one)
    }

    /// The target.
    pub fn target(&self) -> JsonAccess<'_> {
        JsonAccess {
            variable: Some(&self.to),
            offset: self.to_off,
            sizes: &self.to_sizes,
            steps: &self.to_steps,
            dtype: self.to_dtype.as_ref(),
            scale: None,
        }
    }

    fn operation(&self) -> Result<Operation> {
        let field = |field: &str, error: Error| error.at(Location::field(field));
        Ok(match self.op.as_deref().unwrap_or("copy") {
            "copy" => Operation::Copy,
            "cast" => Operation::Cast,
            "add" => Operation::Add,
            "min" => Operation::Min {
                constant: self.initial_value()?,
            },
            "max" => Operation::Max {
                constant: self.initial_value()?,
            },
            "fma" => {
                if let Some(dtype) = self
                    .scale_dtype
                    .as_deref()
                    .filter(|&name| name != "float32")
                {
                    let error = invalid("a scale of another type");
                    return Err(field("scale_dtype", error.expected("float32").found(dtype)));
                }
                // The scale of the descriptor applies to every source without a scale.
                let number = |scale: &Number| scale.as_f64().unwrap_or(1.0);
                let default = self.scale.as_ref().map_or(1.0, number);
                let scales = self
                    .sources()
                    .map(|source| source.scale.map_or(default, number))
                    .collect();
                Operation::Fma { scales }
            }
            "transpose" => {
                let missing = |key: &str| field(key, invalid("missing"));
                let shape = self.transpose_shape.as_deref();
                let shape = shape.ok_or_else(|| missing("transpose_shape"))?;
                let shape = shape.try_into().map_err(|_| {
                    let error = invalid("a wrong number of dimensions");
                    field("transpose_shape", error.expected(4).found(shape.len()))
                })?;
                let element_size = self.transpose_element_size;
                let element_size = element_size.ok_or_else(|| missing("transpose_element_size"))?;
                Operation::Transpose {
                    shape,
                    element_size,
                }
            }
            other => {
                let error = invalid("unknown operation").found(format_args!("'{other}'"));
                return Err(field("op", error));
            }
        })
    }

    /// The initial value of min and max. Without its type it is ignored (neff 2.14).
    fn initial_value(&self) -> Result<Option<Constant>> {
        let Some(dtype) = self.constant_dtype.as_deref() else {
            return Ok(None);
        };
        let place = || Location::field("constant");
        let number = self.constant.as_ref();
        let number = number.ok_or_else(|| invalid("missing").at(place()))?;
        let constant = match dtype {
            "float32" => number.as_f64().map(|value| Constant::F32(value as f32)),
            "int32" => number
                .as_i64()
                .and_then(|v| v.try_into().ok())
                .map(Constant::I32),
            "uint32" => number
                .as_u64()
                .and_then(|v| v.try_into().ok())
                .map(Constant::U32),
            other => {
                let error = invalid("a constant of another type");
                let error = error.expected("float32, int32 or uint32").found(other);
                return Err(error.at(Location::field("constant_dtype")));
            }
        };
        let mismatch = || {
            invalid("the constant is not of its type")
                .expected(dtype)
                .found(number)
        };
        constant.map(Some).ok_or_else(|| mismatch().at(place()))
    }

    /// The stored form of a descriptor; `name` returns the name of a variable.
    pub fn new<'a>(descriptor: &Descriptor, name: impl Fn(VariableId) -> &'a str) -> Self {
        let dtype =
            |dtype: DataType| (dtype != DataType::U8).then(|| neff_dtype_name(dtype).into());
        let scales = match &descriptor.operation {
            Operation::Fma { scales } => scales.as_slice(),
            _ => &[],
        };
        let source = |(index, from): (usize, &Access)| JsonSource {
            from: Some(name(from.variable).into()),
            from_off: Some(from.offset),
            from_sizes: Some(from.sizes.clone()),
            from_steps: Some(from.steps.clone()),
            from_dtype: dtype(from.dtype),
            // JSON has no infinities and NaN, nor does a descriptor that was read.
            scale: scales.get(index).and_then(|&scale| Number::from_f64(scale)),
            other: Default::default(),
        };
        let to = &descriptor.to;
        let mut stored = Self {
            to: name(to.variable).into(),
            to_off: Some(to.offset),
            to_sizes: to.sizes.clone(),
            to_steps: to.steps.clone(),
            to_dtype: dtype(to.dtype),
            ..Self::default()
        };
        let mut sources = descriptor.from.iter().enumerate().map(source);
        match &descriptor.operation {
            Operation::Copy => {}
            other => stored.op = Some(other.name().into()),
        }
        match &descriptor.operation {
            Operation::Copy | Operation::Cast => {
                stored.set_source(sources.next().unwrap_or_default());
            }
            Operation::Transpose {
                shape,
                element_size,
            } => {
                stored.set_source(sources.next().unwrap_or_default());
                stored.transpose_shape = Some(Extents::from_slice(shape));
                stored.transpose_element_size = Some(*element_size);
            }
            Operation::Min { constant } | Operation::Max { constant } => {
                if let Some(constant) = constant {
                    stored.set_initial_value(*constant);
                }
                stored.from_arr = Some(sources.collect());
            }
            _ => stored.from_arr = Some(sources.collect()),
        }
        if matches!(descriptor.operation, Operation::Fma { .. }) {
            stored.scale_dtype = Some("float32".into());
        }
        stored
    }

    fn set_source(&mut self, source: JsonSource) {
        self.from = source.from;
        self.from_off = source.from_off;
        self.from_sizes = source.from_sizes;
        self.from_steps = source.from_steps;
        self.from_dtype = source.from_dtype;
    }

    fn set_initial_value(&mut self, constant: Constant) {
        let (dtype, number) = match constant {
            // JSON has no infinities; they are the default initial values of min and max.
            Constant::F32(value) => ("float32", Number::from_f64(value.into())),
            Constant::I32(value) => ("int32", Some(value.into())),
            Constant::U32(value) => ("uint32", Some(value.into())),
        };
        if let Some(number) = number {
            self.constant_dtype = Some(dtype.into());
            self.constant = Some(number);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    fn variable(name: &str) -> Option<VariableId> {
        ["a", "b"]
            .iter()
            .position(|&known| known == name)
            .map(|id| VariableId(id as u32))
    }

    fn round_trip(descriptor: &Descriptor) -> Value {
        let stored = JsonDescriptor::new(descriptor, |id| ["a", "b"][id.index()]);
        let text = serde_json::to_string(&stored).unwrap();
        let read: JsonDescriptor = serde_json::from_str(&text).unwrap();
        assert_eq!(read.parse(variable).unwrap(), *descriptor, "{text}");
        serde_json::from_str(&text).unwrap()
    }

    fn ends() -> (Access, Access) {
        (
            Access::bytes(VariableId(0), 4, 8),
            Access::bytes(VariableId(1), 0, 8),
        )
    }

    #[test]
    fn every_operation_round_trips() {
        let (from, to) = ends();
        let copy = round_trip(&Descriptor::copy(from.clone(), to.clone()));
        let expected = r#"{"from":"a","from_off":4,"from_sizes":[8],"from_steps":[1],
            "to":"b","to_off":0,"to_sizes":[8],"to_steps":[1]}"#;
        assert_eq!(copy, serde_json::from_str::<Value>(expected).unwrap());
        let float = |access: &Access| Access {
            dtype: DataType::F32,
            ..access.clone()
        };
        let many = vec![float(&from), float(&from)];
        let operations = [
            Operation::Add,
            Operation::Min { constant: None },
            Operation::Min {
                constant: Some(Constant::F32(0.1)),
            },
            Operation::Max {
                constant: Some(Constant::I32(-5)),
            },
            Operation::Max {
                constant: Some(Constant::U32(u32::MAX)),
            },
            Operation::Fma {
                scales: vec![0.5, -2.0],
            },
        ];
        for operation in operations {
            round_trip(&Descriptor {
                operation,
                from: many.clone(),
                to: float(&to),
            });
        }
        let half = Access {
            dtype: DataType::BF16,
            ..Access::bytes(VariableId(1), 2, 4)
        };
        let cast = Descriptor {
            operation: Operation::Cast,
            from: vec![float(&from)],
            to: half,
        };
        assert_eq!(round_trip(&cast)["to_dtype"], "bfloat16");
        let operation = Operation::Transpose {
            shape: [1, 2, 3, 4],
            element_size: 2,
        };
        round_trip(&Descriptor {
            operation,
            from: vec![from],
            to,
        });
    }

    #[test]
    fn all_problems_are_reported() {
        let text = r#"{"op":"warp","from":"x","from_dtype":"float7","to":"y",
            "to_sizes":[1],"to_steps":[1]}"#;
        let stored: JsonDescriptor = serde_json::from_str(text).unwrap();
        let error = stored.parse(variable).unwrap_err();
        let text = error.to_string();
        assert_eq!(error.all().count(), 4, "{text}");
        assert!(
            text.contains("op: unknown operation: found 'warp'"),
            "{text}"
        );
        assert!(
            text.contains("from_dtype: unknown data type: found float7"),
            "{text}"
        );
    }
}
