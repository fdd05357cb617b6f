//! Data types, variables and tables in JSON members.

use serde::de::{Error as _, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::collections::HashSet;
use std::fmt;
use std::marker::PhantomData;
use tenon_base::CpuLevel;
use tenon_dma::VariableId;
use tenon_tensor::{DataType, ValueKind};

/// Serializes a data type as Tenon's name of it.
pub(crate) mod dtype {
    use super::*;

    pub fn serialize<S: Serializer>(dtype: &DataType, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(dtype.name())
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<DataType, D::Error> {
        let name = std::borrow::Cow::<'de, str>::deserialize(from)?;
        name.parse()
            .map_err(|_| D::Error::custom(format_args!("unknown data type '{name}'")))
    }
}

/// Serializes a kind of value as its name.
pub(crate) mod kind {
    use super::*;

    pub fn serialize<S: Serializer>(kind: &ValueKind, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(kind)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<ValueKind, D::Error> {
        let name = std::borrow::Cow::<'de, str>::deserialize(from)?;
        let unknown = |_| D::Error::custom(format_args!("unknown kind of value '{name}'"));
        name.parse().map_err(unknown)
    }
}

/// Serializes a CPU level as its name.
pub(crate) mod cpu_level {
    use super::*;

    pub fn serialize<S: Serializer>(level: &CpuLevel, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(level.name())
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<CpuLevel, D::Error> {
        let name = std::borrow::Cow::<'de, str>::deserialize(from)?;
        let level = CpuLevel::ALL.into_iter().find(|level| level.name() == name);
        level.ok_or_else(|| D::Error::custom(format_args!("unknown CPU level '{name}'")))
    }
}

/// Serializes a variable as its id.
pub(crate) mod variable {
    use super::*;

    pub fn serialize<S: Serializer>(id: &VariableId, to: S) -> Result<S::Ok, S::Error> {
        id.0.serialize(to)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<VariableId, D::Error> {
        u32::deserialize(from).map(VariableId)
    }
}

/// Serializes an optional variable as its id.
pub(crate) mod optional_variable {
    use super::*;

    pub fn serialize<S: Serializer>(id: &Option<VariableId>, to: S) -> Result<S::Ok, S::Error> {
        id.map(|id| id.0).serialize(to)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<VariableId>, D::Error> {
        Ok(Option::<u32>::deserialize(from)?.map(VariableId))
    }
}

/// A JSON object whose values have one type, in the file's order. A name that occurs twice is an
/// error.
#[derive(Debug, Clone, PartialEq)]
pub struct Table<T>(pub Vec<(String, T)>);

impl<T> Default for Table<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T> Table<T> {
    /// The entry of a name, by linear search.
    pub fn find(&self, name: &str) -> Option<&T> {
        self.iter()
            .find(|(known, _)| *known == name)
            .map(|(_, value)| value)
    }

    /// All entries.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &T)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value))
    }

    /// Whether the table has no entries.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds an entry, whose name must be new.
    pub fn push(&mut self, name: impl Into<String>, value: T) {
        self.0.push((name.into(), value));
    }
}

impl<T: Serialize> Serialize for Table<T> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_map(self.iter())
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Table<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Entries<T>(PhantomData<T>);

        impl<'de, T: Deserialize<'de>> Visitor<'de> for Entries<T> {
            type Value = Table<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Table<T>, A::Error> {
                let mut entries = Vec::new();
                let mut names = HashSet::new();
                while let Some((name, value)) = map.next_entry::<String, T>()? {
                    if !names.insert(name.clone()) {
                        return Err(A::Error::custom(format_args!("'{name}' occurs twice")));
                    }
                    entries.push((name, value));
                }
                Ok(Table(entries))
            }
        }

        from.deserialize_map(Entries(PhantomData))
    }
}

/// NEFF's names of data types, and names in the same style for types that NEFF does not have.
const NEFF_NAMES: &[(DataType, &str)] = &[
    (DataType::F32, "float32"),
    (DataType::F64, "float64"),
    (DataType::F16, "float16"),
    (DataType::BF16, "bfloat16"),
    (DataType::F32r, "float32r"),
    (DataType::Tf32, "tfloat32"),
    (DataType::F8E3M4, "float8e3"),
    (DataType::F8E4M3, "float8e4"),
    (DataType::F8E5M2, "float8e5"),
    (DataType::F8E4M3Fn, "float8e4m3fn"),
    (DataType::F8E4M3FnUz, "float8e4m3fnuz"),
    (DataType::F8E5M2FnUz, "float8e5m2fnuz"),
    (DataType::I4, "int4"),
    (DataType::U4, "uint4"),
    (DataType::I8, "int8"),
    (DataType::I16, "int16"),
    (DataType::I32, "int32"),
    (DataType::I64, "int64"),
    (DataType::U8, "uint8"),
    (DataType::U16, "uint16"),
    (DataType::U32, "uint32"),
    (DataType::U64, "uint64"),
    (DataType::Bool, "bool"),
    (DataType::C64, "complex64"),
    (DataType::C128, "complex128"),
    (DataType::String, "string"),
    (DataType::F4E2M1Fn, "float4e2m1fn"),
    (DataType::F8E8M0Fnu, "float8e8m0fnu"),
    (DataType::I2, "int2"),
    (DataType::U2, "uint2"),
];

/// NEFF's name of a data type.
pub fn neff_dtype_name(dtype: DataType) -> &'static str {
    let named = NEFF_NAMES.iter().find(|&&(known, _)| known == dtype);
    named.map_or_else(|| dtype.name(), |&(_, name)| name)
}

/// The data type of that NEFF name.
pub fn neff_dtype(name: &str) -> Option<DataType> {
    NEFF_NAMES
        .iter()
        .find(|&&(_, known)| known == name)
        .map(|&(dtype, _)| dtype)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_data_type_has_a_neff_name() {
        for &dtype in DataType::ALL {
            assert_eq!(neff_dtype(neff_dtype_name(dtype)), Some(dtype));
        }
        assert_eq!(neff_dtype("float8e4"), Some(DataType::F8E4M3));
        assert_eq!(neff_dtype("f32"), None);
    }

    #[test]
    fn tables_keep_their_order_and_refuse_duplicates() {
        let table: Table<u8> = serde_json::from_str(r#"{"b":1,"a":2}"#).unwrap();
        assert_eq!(serde_json::to_string(&table).unwrap(), r#"{"b":1,"a":2}"#);
        let error = serde_json::from_str::<Table<u8>>(r#"{"b":1,"b":2}"#).unwrap_err();
        assert!(error.to_string().starts_with("'b' occurs twice"));
    }
}
