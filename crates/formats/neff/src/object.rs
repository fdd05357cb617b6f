//! JSON objects as structs that round-trip: unknown keys are kept, and all keys are written in the
//! order in which they were read.
//!
//! `object!` generates the struct, its serde implementations and its [`Prune`] implementation from
//! one list of fields. Unlike serde's `flatten` it keeps the order of keys, needs no second pass,
//! and adds eight bytes to a struct whose object has the known keys in declaration order.

use serde::Deserialize;
use serde::de::Error;
use serde::ser::SerializeMap;
use serde_json::{Map, Value};
use smallvec::SmallVec;
use std::borrow::Cow;
use std::cell::RefCell;
use std::fmt;
use std::sync::Arc;

/// The unknown keys of a JSON object with their values, and the order of all its keys where it
/// differs from the order of the struct's fields.
#[derive(Clone, Default)]
pub struct UnknownKeys(Option<Arc<KeyRecord>>);

#[derive(Clone, Default, PartialEq)]
struct KeyRecord {
    /// One byte for each key: the field's position, with [`NULL`] set if its value was `null`, or
    /// [`UNKNOWN`]. `None` for the default order: all fields, then the unknown keys.
    order: Option<SmallVec<[u8; 24]>>,
    unknown: Map<String, Value>,
}

const UNKNOWN: u8 = 0xff;
const NULL: u8 = 0x80;

impl UnknownKeys {
    /// The value of an unknown key.
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.0.as_ref()?.unknown.get(key)
    }

    /// The unknown keys in their order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Value)> {
        let parts = self.0.iter();
        parts.flat_map(|parts| {
            parts
                .unknown
                .iter()
                .map(|(key, value)| (key.as_str(), value))
        })
    }

    /// Whether there are no unknown keys.
    pub fn is_empty(&self) -> bool {
        self.0.as_ref().is_none_or(|parts| parts.unknown.is_empty())
    }

    /// Sets an unknown key; a new one becomes the last.
    pub fn insert(&mut self, key: impl Into<String>, value: Value) {
        let parts = Arc::make_mut(self.0.get_or_insert_default());
        let old = parts.unknown.insert(key.into(), value);
        if old.is_none()
            && let Some(order) = &mut parts.order
        {
            order.push(UNKNOWN);
        }
    }
}

/// Compares the unknown keys and their values; their order is ignored.
impl PartialEq for UnknownKeys {
    fn eq(&self, other: &Self) -> bool {
        match (&self.0, &other.0) {
            (Some(a), Some(b)) => Arc::ptr_eq(a, b) || a.unknown == b.unknown,
            _ => self.is_empty() && other.is_empty(),
        }
    }
}

impl fmt::Debug for UnknownKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

/// Collects the keys of an object while it is read.
#[derive(Default)]
pub(crate) struct KeyReader {
    order: SmallVec<[u8; 24]>,
    unknown: Map<String, Value>,
}

impl KeyReader {
    /// Records a known key; `absent`: its value was `null`, which is an absent field.
    pub(crate) fn known(&mut self, field: usize, absent: bool) {
        let null = if absent { NULL } else { 0 };
        self.order.push(field as u8 | null);
    }

    /// Records an unknown key.
    pub(crate) fn unknown<E: Error>(&mut self, key: &str, value: Value) -> Result<(), E> {
        if self.unknown.insert(key.to_owned(), value).is_some() {
            return Err(twice(key));
        }
        self.order.push(UNKNOWN);
        Ok(())
    }

    /// Ends the object. `usual` returns whether the field is written in the default order.
    pub(crate) fn end(self, fields: usize, usual: impl Fn(usize) -> bool) -> UnknownKeys {
        let written = (0..fields)
            .filter(|&field| usual(field))
            .map(|field| field as u8);
        if self.unknown.is_empty() && self.order.iter().copied().eq(written) {
            return UnknownKeys(None);
        }
        let shareable = self.unknown.is_empty();
        let parts = KeyRecord {
            order: Some(self.order),
            unknown: self.unknown,
        };
        UnknownKeys(Some(if shareable {
            shared(parts)
        } else {
            Arc::new(parts)
        }))
    }
}

/// The shared record of an order of keys: the objects of a member have few distinct orders.
fn shared(parts: KeyRecord) -> Arc<KeyRecord> {
    const KEPT: usize = 16;
    thread_local! {
        static RECENT: RefCell<Vec<Arc<KeyRecord>>> = const { RefCell::new(Vec::new()) };
    }
    RECENT.with_borrow_mut(|recent| {
        if let Some(position) = recent.iter().position(|known| known.order == parts.order) {
            recent.swap(0, position);
            return recent[0].clone();
        }
        let parts = Arc::new(parts);
        recent.truncate(KEPT - 1);
        recent.insert(0, parts.clone());
        parts
    })
}

/// How a field behaves when its key is missing.
pub(crate) trait Field: Sized {
    /// The value of a missing key; `None` when the key is required.
    fn missing() -> Option<Self> {
        None
    }

    /// Whether the field is not written.
    fn is_absent(&self) -> bool {
        false
    }

    /// Whether the field is not written if its key was not read.
    fn is_omitted(&self) -> bool {
        self.is_absent()
    }
}

impl<T> Field for Option<T> {
    fn missing() -> Option<Self> {
        Some(None)
    }

    fn is_absent(&self) -> bool {
        self.is_none()
    }
}

impl<T> Field for Vec<T> {
    fn missing() -> Option<Self> {
        Some(Vec::new())
    }

    fn is_omitted(&self) -> bool {
        self.is_empty()
    }
}

impl<T> Field for crate::Table<T> {
    fn missing() -> Option<Self> {
        Some(Self::default())
    }

    fn is_omitted(&self) -> bool {
        self.is_empty()
    }
}

macro_rules! required_fields {
    ($($type:ty),*) => { $(impl Field for $type {})* };
}
required_fields!(
    crate::Name,
    String,
    bool,
    u32,
    u64,
    i64,
    f64,
    serde_json::Number,
    Value
);
required_fields!(crate::Extents, crate::Steps);

/// Writes the keys of an object in the order of `unknown_keys`: fields and unknown keys.
pub(crate) fn write<M: SerializeMap>(
    unknown_keys: &UnknownKeys,
    fields: usize,
    map: &mut M,
    is_absent: impl Fn(usize) -> bool,
    is_omitted: impl Fn(usize) -> bool,
    write: impl Fn(usize, &mut M) -> Result<(), M::Error>,
    key: impl Fn(usize) -> &'static str,
) -> Result<(), M::Error> {
    let parts = unknown_keys.0.as_deref();
    let mut unknown = unknown_keys.iter();
    let order = parts.and_then(|parts| parts.order.as_deref());
    let mut written = 0u64;
    for &key_byte in order.unwrap_or_default() {
        if key_byte == UNKNOWN {
            if let Some((key, value)) = unknown.next() {
                map.serialize_entry(key, value)?;
            }
            continue;
        }
        let field = usize::from(key_byte & !NULL);
        written |= 1 << field;
        if !is_absent(field) {
            write(field, map)?;
        } else if key_byte & NULL != 0 {
            map.serialize_entry(key(field), &())?;
        }
    }
    for field in (0..fields).filter(|field| written >> field & 1 == 0) {
        let omitted = if order.is_none() {
            is_absent(field)
        } else {
            is_omitted(field)
        };
        if !omitted {
            write(field, map)?;
        }
    }
    for (key, value) in unknown {
        map.serialize_entry(key, value)?;
    }
    Ok(())
}

/// The error of a key that occurs twice.
pub(crate) fn twice<E: Error>(key: &str) -> E {
    E::custom(format_args!("'{key}' occurs twice"))
}

/// A key, borrowed from the input where possible.
#[derive(Deserialize)]
#[serde(transparent)]
pub(crate) struct Key<'a>(#[serde(borrow)] pub(crate) Cow<'a, str>);

/// Declares a JSON object: the struct, and its fields with their keys. Fields of type `Option`,
/// `Vec` and `Table` are optional; at most 64 fields.
macro_rules! object {
    (
        $(#[$meta:meta])*
        pub struct $name:ident {
            $($(#[$doc:meta])* pub $field:ident: $type:ty = $key:literal,)*
        }
    ) => {
        $(#[$meta])*
        #[derive(Debug, Clone, PartialEq)]
        pub struct $name {
            $($(#[$doc])* pub $field: $type,)*
            /// Unknown keys, and the order of all keys.
            pub other: $crate::UnknownKeys,
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
                use serde::ser::SerializeMap;
                use $crate::object::Field;
                #[allow(non_camel_case_types, clippy::upper_case_acronyms)]
                enum FieldIndex { $($field,)* }
                const KEYS: &[&str] = &[$($key,)*];
                let mut map = to.serialize_map(None)?;
                $crate::object::write(
                    &self.other,
                    KEYS.len(),
                    &mut map,
                    |field| match field {
                        $(field if field == FieldIndex::$field as usize => self.$field.is_absent(),)*
                        _ => true,
                    },
                    |field| match field {
                        $(field if field == FieldIndex::$field as usize => Field::is_omitted(&self.$field),)*
                        _ => true,
                    },
                    |field, map: &mut S::SerializeMap| match field {
                        $(field if field == FieldIndex::$field as usize => {
                            map.serialize_entry($key, &self.$field)
                        })*
                        _ => Ok(()),
                    },
                    |field| KEYS.get(field).copied().unwrap_or_default(),
                )?;
                map.end()
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                use $crate::object::Field;
                #[allow(non_camel_case_types, clippy::upper_case_acronyms)]
                enum FieldIndex { $($field,)* }
                struct Fields;

                impl<'de> serde::de::Visitor<'de> for Fields {
                    type Value = $name;

                    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                        f.write_str("an object")
                    }

                    fn visit_map<A: serde::de::MapAccess<'de>>(
                        self,
                        mut map: A,
                    ) -> Result<$name, A::Error> {
                        $(let mut $field: Option<$type> = None;)*
                        let mut keys = $crate::object::KeyReader::default();
                        while let Some($crate::object::Key(key)) = map.next_key()? {
                            match &*key {
                                $($key => {
                                    if $field.is_some() {
                                        return Err($crate::object::twice($key));
                                    }
                                    let value: $type = map.next_value()?;
                                    keys.known(FieldIndex::$field as usize, value.is_absent());
                                    $field = Some(value);
                                })*
                                other => keys.unknown(other, map.next_value()?)?,
                            }
                        }
                        let mut object = $name {
                            $($field: match $field {
                                Some(value) => value,
                                None => <$type as Field>::missing()
                                    .ok_or_else(|| serde::de::Error::missing_field($key))?,
                            },)*
                            other: $crate::UnknownKeys::default(),
                        };
                        let fields = [$(!object.$field.is_absent(),)*];
                        object.other = keys.end(fields.len(), |field| fields[field]);
                        Ok(object)
                    }
                }

                from.deserialize_map(Fields)
            }
        }

        impl $crate::prune::Prune for $name {
            fn prune(
                value: &mut serde_json::Value,
                place: &mut $crate::KeyPath,
                problems: &mut Vec<$crate::prune::Problem>,
            ) -> bool {
                $crate::prune::prune_object(value, place, problems, &[
                    $((
                        $key,
                        <$type as $crate::object::Field>::missing().is_none(),
                        <$type as $crate::prune::Prune>::prune,
                    ),)*
                ])
            }
        }
    };
}
pub(crate) use object;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Name;

    object! {
        /// Every kind of field.
        pub struct Sample {
            /// Required.
            pub id: u32 = "id",
            /// Optional.
            pub kind: Option<Name> = "type",
            /// Empty when missing.
            pub list: Vec<u64> = "list",
        }
    }

    fn rewritten(text: &str) -> String {
        serde_json::to_string(&serde_json::from_str::<Sample>(text).unwrap()).unwrap()
    }

    #[test]
    fn keys_are_written_in_the_order_in_which_they_were_read() {
        for text in [
            r#"{"id":1,"type":"a","list":[1]}"#,
            r#"{"id":1}"#,
            r#"{"list":[],"id":1}"#,
            r#"{"id":1,"type":null}"#,
            r#"{"z":null,"type":null,"a":{"y":1,"b":2.50},"id":1,"last":[]}"#,
        ] {
            let kept = text.replace("2.50", "2.5");
            assert_eq!(rewritten(text), kept);
        }
    }

    #[test]
    fn objects_in_default_order_allocate_nothing() {
        let sample: Sample = serde_json::from_str(r#"{"id":1,"list":[]}"#).unwrap();
        assert!(sample.other.0.is_none());
        let read = || serde_json::from_str::<Sample>(r#"{"type":"a","id":1}"#).unwrap();
        let (a, b) = (read().other.0.unwrap(), read().other.0.unwrap());
        assert!(Arc::ptr_eq(&a, &b));
        assert_eq!(size_of::<UnknownKeys>(), 8);
    }

    #[test]
    fn fields_set_after_reading_are_written_last() {
        let mut sample: Sample = serde_json::from_str(r#"{"odd":1,"id":1}"#).unwrap();
        assert_eq!(sample.other.get("odd"), Some(&1.into()));
        sample.kind = Some("a".into());
        sample.other.insert("new", true.into());
        let text = r#"{"odd":1,"id":1,"new":true,"type":"a"}"#;
        assert_eq!(serde_json::to_string(&sample).unwrap(), text);
    }

    #[test]
    fn duplicate_and_missing_keys_are_errors() {
        let error = |text| {
            serde_json::from_str::<Sample>(text)
                .unwrap_err()
                .to_string()
        };
        assert!(error(r#"{"id":1,"id":2}"#).starts_with("'id' occurs twice"));
        assert!(error(r#"{"id":1,"x":1,"x":2}"#).starts_with("'x' occurs twice"));
        assert!(error(r#"{"type":"a"}"#).starts_with("missing field `id`"));
    }
}
