//! JSON objects as structs that lose nothing: keys unknown here are kept, and all keys are written
//! back in the order in which they were read.
//!
//! `object!` makes the struct, its serde forms and its [`Stored`] form from one list of fields.
//! Against serde's own `flatten` it keeps the order, needs no second pass, and is some eight bytes
//! wide where an object has just the known keys in their usual order.

use serde::de::{Error, Visitor};
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};
use smallvec::SmallVec;
use std::cell::RefCell;
use std::fmt;
use std::sync::Arc;

/// What a JSON object holds besides the fields of its struct: keys unknown here, and the order of
/// all keys where it is not that of the struct.
#[derive(Clone, Default)]
pub struct Others(Option<Arc<Parts>>);

#[derive(Clone, Default, PartialEq)]
struct Parts {
    /// One byte a key: the field's position, [`UNKNOWN`], or with [`NULL`] a field that is there
    /// as `null`. `None` for the usual order: all fields, then the unknown keys.
    order: Option<SmallVec<[u8; 24]>>,
    unknown: Map<String, Value>,
}

const UNKNOWN: u8 = 0xff;
const NULL: u8 = 0x80;

impl Others {
    /// The value of a key unknown here.
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.0.as_ref()?.unknown.get(key)
    }

    /// The keys unknown here, in their order.
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

    /// Sets a key unknown here; a new one goes last.
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

/// Equal when the unknown keys are; order does not count.
impl PartialEq for Others {
    fn eq(&self, other: &Self) -> bool {
        match (&self.0, &other.0) {
            (Some(a), Some(b)) => Arc::ptr_eq(a, b) || a.unknown == b.unknown,
            _ => self.is_empty() && other.is_empty(),
        }
    }
}

impl fmt::Debug for Others {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

/// The keys of an object while it is read.
#[derive(Default)]
pub(crate) struct Reading {
    order: SmallVec<[u8; 24]>,
    unknown: Map<String, Value>,
}

impl Reading {
    /// A known key has been read; `absent` says that its value was `null` for nothing.
    pub(crate) fn known(&mut self, field: usize, absent: bool) {
        let null = if absent { NULL } else { 0 };
        self.order.push(field as u8 | null);
    }

    /// An unknown key has been read.
    pub(crate) fn unknown<E: Error>(&mut self, key: &str, value: Value) -> Result<(), E> {
        if self.unknown.insert(key.to_owned(), value).is_some() {
            return Err(twice(key));
        }
        self.order.push(UNKNOWN);
        Ok(())
    }

    /// Ends the object. `usual` answers whether a field would be written where no order is known.
    pub(crate) fn end(self, fields: usize, usual: impl Fn(usize) -> bool) -> Others {
        let written = (0..fields)
            .filter(|&field| usual(field))
            .map(|field| field as u8);
        if self.unknown.is_empty() && self.order.iter().copied().eq(written) {
            return Others(None);
        }
        let shareable = self.unknown.is_empty();
        let parts = Parts {
            order: Some(self.order),
            unknown: self.unknown,
        };
        Others(Some(if shareable {
            shared(parts)
        } else {
            Arc::new(parts)
        }))
    }
}

/// Most objects of a member have their keys in one of a few orders.
fn shared(parts: Parts) -> Arc<Parts> {
    const KEPT: usize = 16;
    thread_local! {
        static RECENT: RefCell<Vec<Arc<Parts>>> = const { RefCell::new(Vec::new()) };
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
    /// The value of a missing key; `None` when the key must be there.
    fn missing() -> Option<Self> {
        None
    }

    /// Whether there is nothing to write.
    fn is_absent(&self) -> bool {
        false
    }

    /// Whether a key that was not read need not be written either.
    fn is_nothing(&self) -> bool {
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

    fn is_nothing(&self) -> bool {
        self.is_empty()
    }
}

impl<T> Field for crate::Table<T> {
    fn missing() -> Option<Self> {
        Some(Self::default())
    }

    fn is_nothing(&self) -> bool {
        self.is_empty()
    }
}

macro_rules! must_be_there {
    ($($type:ty),*) => { $(impl Field for $type {})* };
}
must_be_there!(
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
must_be_there!(crate::Extents, crate::Steps);

/// The keys of `others` in their order: what to write, by field or as an unknown key.
pub(crate) fn write<M: SerializeMap>(
    others: &Others,
    fields: usize,
    map: &mut M,
    is_absent: impl Fn(usize) -> bool,
    is_nothing: impl Fn(usize) -> bool,
    write: impl Fn(usize, &mut M) -> Result<(), M::Error>,
    key: impl Fn(usize) -> &'static str,
) -> Result<(), M::Error> {
    let parts = others.0.as_deref();
    let mut unknown = others.iter();
    let order = parts.and_then(|parts| parts.order.as_deref());
    let mut written = 0u64;
    for &place in order.unwrap_or_default() {
        if place == UNKNOWN {
            if let Some((key, value)) = unknown.next() {
                map.serialize_entry(key, value)?;
            }
            continue;
        }
        let field = usize::from(place & !NULL);
        written |= 1 << field;
        if !is_absent(field) {
            write(field, map)?;
        } else if place & NULL != 0 {
            map.serialize_entry(key(field), &())?;
        }
    }
    for field in (0..fields).filter(|field| written >> field & 1 == 0) {
        let nothing = if order.is_none() {
            is_absent(field)
        } else {
            is_nothing(field)
        };
        if !nothing {
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

/// A key, borrowed from the input where it can be.
pub(crate) struct Key<'de>(pub(crate) std::borrow::Cow<'de, str>);

impl<'de> Deserialize<'de> for Key<'de> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Text;

        impl<'de> Visitor<'de> for Text {
            type Value = Key<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a key")
            }

            fn visit_borrowed_str<E: Error>(self, text: &'de str) -> Result<Key<'de>, E> {
                Ok(Key(text.into()))
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Key<'de>, E> {
                Ok(Key(text.to_owned().into()))
            }
        }

        from.deserialize_str(Text)
    }
}

/// Declares a JSON object: the struct, and its fields with their keys. Fields that are `Option`,
/// `Vec` or `Table` may be missing; at most 64 fields.
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
            /// Keys unknown here, and the order of all.
            pub other: $crate::Others,
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
                use serde::ser::SerializeMap;
                use $crate::object::Field;
                #[allow(non_camel_case_types, clippy::upper_case_acronyms)]
                enum At { $($field,)* }
                const KEYS: &[&str] = &[$($key,)*];
                let mut map = to.serialize_map(None)?;
                $crate::object::write(
                    &self.other,
                    KEYS.len(),
                    &mut map,
                    |field| match field {
                        $(field if field == At::$field as usize => self.$field.is_absent(),)*
                        _ => true,
                    },
                    |field| match field {
                        $(field if field == At::$field as usize => Field::is_nothing(&self.$field),)*
                        _ => true,
                    },
                    |field, map: &mut S::SerializeMap| match field {
                        $(field if field == At::$field as usize => {
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
                enum At { $($field,)* }
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
                        let mut keys = $crate::object::Reading::default();
                        while let Some($crate::object::Key(key)) = map.next_key()? {
                            match &*key {
                                $($key => {
                                    if $field.is_some() {
                                        return Err($crate::object::twice($key));
                                    }
                                    let value: $type = map.next_value()?;
                                    keys.known(At::$field as usize, value.is_absent());
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
                            other: $crate::Others::default(),
                        };
                        let fields = [$(!object.$field.is_absent(),)*];
                        object.other = keys.end(fields.len(), |field| fields[field]);
                        Ok(object)
                    }
                }

                from.deserialize_map(Fields)
            }
        }

        impl $crate::mend::Stored for $name {
            fn mend(
                value: &mut serde_json::Value,
                place: &mut $crate::KeyPath,
                problems: &mut Vec<$crate::mend::Problem>,
            ) -> bool {
                $crate::mend::object(value, place, problems, &[
                    $((
                        $key,
                        <$type as $crate::object::Field>::missing().is_none(),
                        <$type as $crate::mend::Stored>::mend,
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
            /// Must be there.
            pub id: u32 = "id",
            /// May be missing.
            pub kind: Option<Name> = "type",
            /// Empty when missing.
            pub list: Vec<u64> = "list",
        }
    }

    fn again(text: &str) -> String {
        serde_json::to_string(&serde_json::from_str::<Sample>(text).unwrap()).unwrap()
    }

    #[test]
    fn what_is_read_is_written_in_its_order() {
        for text in [
            r#"{"id":1,"type":"a","list":[1]}"#,
            r#"{"id":1}"#,
            r#"{"list":[],"id":1}"#,
            r#"{"id":1,"type":null}"#,
            r#"{"z":null,"type":null,"a":{"y":1,"b":2.50},"id":1,"last":[]}"#,
        ] {
            let kept = text.replace("2.50", "2.5");
            assert_eq!(again(text), kept);
        }
    }

    #[test]
    fn usual_objects_take_no_memory_for_it() {
        let sample: Sample = serde_json::from_str(r#"{"id":1,"list":[]}"#).unwrap();
        assert!(sample.other.0.is_none());
        let read = || serde_json::from_str::<Sample>(r#"{"type":"a","id":1}"#).unwrap();
        let (a, b) = (read().other.0.unwrap(), read().other.0.unwrap());
        assert!(Arc::ptr_eq(&a, &b));
        assert_eq!(size_of::<Others>(), 8);
    }

    #[test]
    fn fields_set_later_go_last() {
        let mut sample: Sample = serde_json::from_str(r#"{"odd":1,"id":1}"#).unwrap();
        assert_eq!(sample.other.get("odd"), Some(&1.into()));
        sample.kind = Some("a".into());
        sample.other.insert("new", true.into());
        let text = r#"{"odd":1,"id":1,"new":true,"type":"a"}"#;
        assert_eq!(serde_json::to_string(&sample).unwrap(), text);
    }

    #[test]
    fn keys_that_occur_twice_or_not_at_all_are_errors() {
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
