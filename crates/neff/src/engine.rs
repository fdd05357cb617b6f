//! `sgNN/ENGINE.json`: the DMA descriptors that an engine triggers (seed, "{ENGINE}.json").

use crate::{neff_dtype, neff_dtype_name};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Number, Value};
use tenon_base::{Error, ErrorKind, Location, Result};
use tenon_dma::{Access, Constant, Descriptor, Operation, VariableId};
use tenon_tensor::DataType;

/// The whole member. Unknown keys are kept, here and in all parts.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Engine {
    /// The member's own name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The engine's program.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instr: Option<String>,
    /// What it moves.
    pub dma: Vec<Trigger>,
    /// Activation function sets, of the activation engine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub activation_function_sets: Option<Vec<String>>,
    /// Keys unknown here.
    #[serde(flatten)]
    pub other: Map<String, Value>,
}

/// Descriptors that start together.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Trigger {
    /// What the program calls it.
    pub id: u32,
    /// The queue set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<String>,
    /// The instance of a queue set; goes before `queue`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instance_name: Option<String>,
    /// The function that triggers this and what follows on its queue set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub function_start: Option<String>,
    /// Whether it goes to the first queue of the set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub section_start_desc: Option<bool>,
    /// The event set when it ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub event: Option<u64>,
    /// The semaphore incremented when it ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub semaphore: Option<u64>,
    /// Semaphores of other cores.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remote_semaphores: Option<Vec<u64>>,
    /// The descriptors: one object (seed) or a list of them (facts, neuron.md 2.6).
    #[serde(deserialize_with = "one_or_many")]
    pub desc: Vec<StoredDescriptor>,
    /// Keys unknown here.
    #[serde(flatten)]
    pub other: Map<String, Value>,
}

/// A descriptor as it is stored, variables by name.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct StoredDescriptor {
    /// `copy` when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub op: Option<String>,
    /// The source, when there is one.
    #[serde(flatten)]
    pub from: StoredSource,
    /// The sources of add, min, max and fma.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from_arr: Option<Vec<StoredSource>>,
    /// The target variable.
    pub to: String,
    /// Its first byte.
    #[serde(default)]
    pub to_off: u64,
    /// Its sizes, innermost first.
    pub to_sizes: Vec<u64>,
    /// Its steps, innermost first.
    pub to_steps: Vec<i64>,
    /// Its data type, `uint8` when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to_dtype: Option<String>,
    /// The type of `scale`; only `float32`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scale_dtype: Option<String>,
    /// The type of `constant`: `float32`, `int32` or `uint32`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub constant_dtype: Option<String>,
    /// What min and max start with; counts only with its type.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub constant: Option<Number>,
    /// The shape of a transpose.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transpose_shape: Option<[u64; 4]>,
    /// Its element size in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transpose_element_size: Option<u64>,
}

/// A source as it is stored. As part of a descriptor it also takes the keys unknown there.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct StoredSource {
    /// The variable.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// The first byte.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from_off: Option<u64>,
    /// Sizes, innermost first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from_sizes: Option<Vec<u64>>,
    /// Steps, innermost first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from_steps: Option<Vec<i64>>,
    /// Data type, `uint8` when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from_dtype: Option<String>,
    /// What fma multiplies it with, 1 when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scale: Option<f64>,
    /// Keys unknown here.
    #[serde(flatten)]
    pub other: Map<String, Value>,
}

fn one_or_many<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<StoredDescriptor>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum OneOrMany {
        One(Box<StoredDescriptor>),
        Many(Vec<StoredDescriptor>),
    }
    Ok(match OneOrMany::deserialize(from)? {
        OneOrMany::One(one) => vec![*one],
        OneOrMany::Many(many) => many,
    })
}

impl StoredDescriptor {
    /// As the engine of movements takes it; `variable` finds a variable by name. All problems are
    /// reported together.
    pub fn parse(&self, variable: impl Fn(&str) -> Option<VariableId>) -> Result<Descriptor> {
        let mut problems = Vec::new();
        let mut access = |side: &str,
                          name: Option<&str>,
                          off: u64,
                          sizes: &[u64],
                          steps: &[i64],
                          dtype: Option<&str>| {
            let name = name.unwrap_or_default();
            let id = variable(name);
            if id.is_none() {
                let error = Error::new(ErrorKind::NotFound, "no such variable");
                let error = error.found(format_args!("'{name}'"));
                problems.push(error.at(Location::field(side)));
            }
            let dtype = dtype.unwrap_or("uint8");
            let parsed = neff_dtype(dtype);
            if parsed.is_none() {
                let field = Location::field(format!("{side}_dtype"));
                problems.push(invalid("unknown data type").found(dtype).at(field));
            }
            Access {
                variable: id.unwrap_or(VariableId(0)),
                offset: off,
                sizes: sizes.to_vec(),
                steps: steps.to_vec(),
                dtype: parsed.unwrap_or(DataType::U8),
            }
        };
        let mut source = |from: &StoredSource| {
            access(
                "from",
                from.from.as_deref(),
                from.from_off.unwrap_or(0),
                from.from_sizes.as_deref().unwrap_or_default(),
                from.from_steps.as_deref().unwrap_or_default(),
                from.from_dtype.as_deref(),
            )
        };
        let from: Vec<Access> = self.sources().map(&mut source).collect();
        let (sizes, steps) = (&self.to_sizes, &self.to_steps);
        let to = access(
            "to",
            Some(&self.to),
            self.to_off,
            sizes,
            steps,
            self.to_dtype.as_deref(),
        );
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

    /// The sources: those of `from_arr`, else the one beside it.
    pub fn sources(&self) -> impl Iterator<Item = &StoredSource> {
        let many = self.from_arr.as_deref().unwrap_or_default();
        let one = self
            .from
            .from
            .is_some()
            .then_some(&self.from)
            .filter(|_| many.is_empty());
        many.iter().chain(one)
    }

    fn operation(&self) -> Result<Operation> {
        let field = |field: &str, error: Error| error.at(Location::field(field));
        Ok(match self.op.as_deref().unwrap_or("copy") {
            "copy" => Operation::Copy,
            "cast" => Operation::Cast,
            "add" => Operation::Add,
            "min" => Operation::Min {
                constant: self.start()?,
            },
            "max" => Operation::Max {
                constant: self.start()?,
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
                // A scale beside `from_arr` is that of every source without one of its own.
                let whole = self.from.scale.unwrap_or(1.0);
                let scales = self
                    .sources()
                    .map(|source| source.scale.unwrap_or(whole))
                    .collect();
                Operation::Fma { scales }
            }
            "transpose" => match (self.transpose_shape, self.transpose_element_size) {
                (Some(shape), Some(element_size)) => Operation::Transpose {
                    shape,
                    element_size,
                },
                (None, _) => return Err(field("transpose_shape", invalid("missing"))),
                (_, None) => return Err(field("transpose_element_size", invalid("missing"))),
            },
            other => {
                let error = invalid("unknown operation").found(format_args!("'{other}'"));
                return Err(field("op", error));
            }
        })
    }

    /// The constant of min and max. Without its type it does not count (seed, `constant`).
    fn start(&self) -> Result<Option<Constant>> {
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
        let wrong = || {
            invalid("the constant is not of its type")
                .expected(dtype)
                .found(number)
        };
        constant.map(Some).ok_or_else(|| wrong().at(place()))
    }

    /// The stored form of a descriptor; `name` tells the name of a variable.
    pub fn new<'a>(descriptor: &Descriptor, name: impl Fn(VariableId) -> &'a str) -> Self {
        let dtype =
            |dtype: DataType| (dtype != DataType::U8).then(|| neff_dtype_name(dtype).to_owned());
        let scales = match &descriptor.operation {
            Operation::Fma { scales } => scales.as_slice(),
            _ => &[],
        };
        let source = |(index, from): (usize, &Access)| StoredSource {
            from: Some(name(from.variable).to_owned()),
            from_off: Some(from.offset),
            from_sizes: Some(from.sizes.clone()),
            from_steps: Some(from.steps.clone()),
            from_dtype: dtype(from.dtype),
            scale: scales.get(index).copied(),
            other: Map::new(),
        };
        let to = &descriptor.to;
        let mut stored = Self {
            to: name(to.variable).to_owned(),
            to_off: to.offset,
            to_sizes: to.sizes.clone(),
            to_steps: to.steps.clone(),
            to_dtype: dtype(to.dtype),
            ..Self::default()
        };
        let mut sources = descriptor.from.iter().enumerate().map(source);
        match &descriptor.operation {
            Operation::Copy => {}
            other => stored.op = Some(other.name().to_owned()),
        }
        match &descriptor.operation {
            Operation::Copy | Operation::Cast => stored.from = sources.next().unwrap_or_default(),
            Operation::Transpose {
                shape,
                element_size,
            } => {
                stored.from = sources.next().unwrap_or_default();
                stored.transpose_shape = Some(*shape);
                stored.transpose_element_size = Some(*element_size);
            }
            Operation::Min { constant } | Operation::Max { constant } => {
                if let Some(constant) = constant {
                    stored.set_start(*constant);
                }
                stored.from_arr = Some(sources.collect());
            }
            _ => stored.from_arr = Some(sources.collect()),
        }
        if matches!(descriptor.operation, Operation::Fma { .. }) {
            stored.scale_dtype = Some("float32".to_owned());
        }
        stored
    }

    fn set_start(&mut self, constant: Constant) {
        let (dtype, number) = match constant {
            // JSON has no infinities; they are what min and max start with anyway.
            Constant::F32(value) => ("float32", Number::from_f64(value.into())),
            Constant::I32(value) => ("int32", Some(value.into())),
            Constant::U32(value) => ("uint32", Some(value.into())),
        };
        if let Some(number) = number {
            self.constant_dtype = Some(dtype.to_owned());
            self.constant = Some(number);
        }
    }
}

fn invalid(message: &str) -> Error {
    Error::new(ErrorKind::InvalidPackage, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn variable(name: &str) -> Option<VariableId> {
        ["a", "b"]
            .iter()
            .position(|&known| known == name)
            .map(|id| VariableId(id as u32))
    }

    fn round_trip(descriptor: &Descriptor) -> Value {
        let stored = StoredDescriptor::new(descriptor, |id| ["a", "b"][id.index()]);
        let text = serde_json::to_string(&stored).unwrap();
        let read: StoredDescriptor = serde_json::from_str(&text).unwrap();
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
    fn one_descriptor_or_a_list() {
        let desc = r#"{"to":"b","to_sizes":[1],"to_steps":[1],"from":"a","odd":1}"#;
        for text in [desc.to_owned(), format!("[{desc}]")] {
            let text = format!(r#"{{"id":3,"queue":"q","desc":{text}}}"#);
            let trigger: Trigger = serde_json::from_str(&text).unwrap();
            assert_eq!(trigger.desc.len(), 1);
            assert_eq!(trigger.desc[0].from.other["odd"], 1);
        }
    }

    #[test]
    fn all_problems_are_told() {
        let text = r#"{"op":"warp","from":"x","from_dtype":"float7","to":"y",
            "to_sizes":[1],"to_steps":[1]}"#;
        let stored: StoredDescriptor = serde_json::from_str(text).unwrap();
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
