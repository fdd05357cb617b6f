//! `sgNN/ENGINE.json`: the description of an engine (neff 2.7).

use crate::object::{Field, object};
use crate::prune::{Problem, Prune, report_mismatch};
use crate::{JsonDescriptor, KeyPath, Name};
use serde::de::value::{MapAccessDeserializer, SeqAccessDeserializer};
use serde::de::{MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;
use std::fmt;
use std::ops::Deref;

object! {
    /// The whole member. Unknown keys are kept, here and in all parts.
    #[derive(Default)]
    pub struct Engine {
        /// The member's name.
        pub name: Option<Name> = "name",
        /// The engine's program.
        pub instr: Option<Name> = "instr",
        /// Its triggers.
        pub dma: Vec<Trigger> = "dma",
        /// Activation function sets, of the activation engine.
        pub activation_function_sets: Option<Vec<Name>> = "activation_function_sets",
        /// The member with the table of all activation function sets.
        pub act_info: Option<Name> = "act_info",
        /// The semaphore of loading an activation table.
        pub act_semaphore: Option<u64> = "act_semaphore",
        /// Tables of the vector engine.
        pub dve_tables: Option<Vec<DveTable>> = "dve_tables",
    }
}

object! {
    /// Tables of the vector engine, by member. The control table is one member, or a fast and a slow
    /// one (neff 2.7).
    #[derive(Default)]
    #[allow(missing_docs, reason = "the keys of the file")]
    pub struct DveTable {
        pub control_table: Option<Name> = "control_table",
        pub control_fast_table: Option<Name> = "control_fast_table",
        pub control_slow_table: Option<Name> = "control_slow_table",
        pub datapath_table: Option<Name> = "datapath_table",
        pub opcode_table: Option<Name> = "opcode_table",
    }
}

impl DveTable {
    /// The members it names, by key.
    pub fn files(&self) -> impl Iterator<Item = (&'static str, &Name)> {
        let files = [
            ("control_table", &self.control_table),
            ("control_fast_table", &self.control_fast_table),
            ("control_slow_table", &self.control_slow_table),
            ("datapath_table", &self.datapath_table),
            ("opcode_table", &self.opcode_table),
        ];
        files
            .into_iter()
            .filter_map(|(key, file)| Some((key, file.as_ref()?)))
    }
}

object! {
    /// Descriptors that start together.
    #[derive(Default)]
    pub struct Trigger {
        /// Its id in the program.
        pub id: u32 = "id",
        /// The queue set.
        pub queue: Option<Name> = "queue",
        /// The instance of a queue set; takes precedence over `queue`.
        pub instance_name: Option<Name> = "instance_name",
        /// The function that triggers this and what follows on its queue set.
        pub function_start: Option<Name> = "function_start",
        /// Whether it is enqueued on the first queue of the set.
        pub section_start_desc: Option<bool> = "section_start_desc",
        /// The event set at its end.
        pub event: Option<u64> = "event",
        /// The semaphore incremented at its end.
        pub semaphore: Option<u64> = "semaphore",
        /// Semaphores of other cores.
        pub remote_semaphores: Option<Vec<u64>> = "remote_semaphores",
        /// The descriptors.
        pub desc: JsonDescriptors = "desc",
    }
}

impl Trigger {
    /// The queue set or instance it runs on.
    pub fn ring(&self) -> Option<&Name> {
        let named = |name: &&Name| !name.is_empty();
        self.instance_name
            .as_ref()
            .filter(named)
            .or(self.queue.as_ref().filter(named))
    }
}

/// The descriptors of a trigger: one object or a list of them (neff 2.7).
#[derive(Debug, Clone, PartialEq, Default)]
pub struct JsonDescriptors {
    list: Vec<JsonDescriptor>,
    is_object: bool,
}

impl JsonDescriptors {
    /// Whether it is stored as one object.
    pub fn is_object(&self) -> bool {
        self.is_object
    }

    /// The one descriptor, stored as an object.
    pub fn one(descriptor: JsonDescriptor) -> Self {
        Self {
            list: vec![descriptor],
            is_object: true,
        }
    }
}

impl From<Vec<JsonDescriptor>> for JsonDescriptors {
    fn from(list: Vec<JsonDescriptor>) -> Self {
        Self {
            list,
            is_object: false,
        }
    }
}

impl FromIterator<JsonDescriptor> for JsonDescriptors {
    fn from_iter<I: IntoIterator<Item = JsonDescriptor>>(list: I) -> Self {
        list.into_iter().collect::<Vec<_>>().into()
    }
}

impl Deref for JsonDescriptors {
    type Target = [JsonDescriptor];

    fn deref(&self) -> &[JsonDescriptor] {
        &self.list
    }
}

impl Serialize for JsonDescriptors {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match &self.list[..] {
            [one] if self.is_object => one.serialize(to),
            list => list.serialize(to),
        }
    }
}

impl<'de> Deserialize<'de> for JsonDescriptors {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct OneOrMany;

        impl<'de> Visitor<'de> for OneOrMany {
            type Value = JsonDescriptors;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a descriptor or a list of them")
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
                let one = JsonDescriptor::deserialize(MapAccessDeserializer::new(map))?;
                Ok(JsonDescriptors::one(one))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<Self::Value, A::Error> {
                Ok(Vec::deserialize(SeqAccessDeserializer::new(list))?.into())
            }
        }

        from.deserialize_any(OneOrMany)
    }
}

impl Field for JsonDescriptors {}

impl Prune for JsonDescriptors {
    fn prune(value: &mut Value, place: &mut KeyPath, problems: &mut Vec<Problem>) -> bool {
        match value {
            Value::Array(_) => Vec::<JsonDescriptor>::prune(value, place, problems),
            Value::Object(_) => JsonDescriptor::prune(value, place, problems),
            _ => report_mismatch(value, place, problems, "a descriptor or a list of them"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_descriptor_or_a_list() {
        let desc = r#"{"to":"b","to_sizes":[1],"to_steps":[1],"from":"a","odd":1}"#;
        for text in [desc.to_owned(), format!("[{desc}]"), "[]".to_owned()] {
            let text = format!(r#"{{"id":3,"queue":"q","desc":{text}}}"#);
            let trigger: Trigger = serde_json::from_str(&text).unwrap();
            if let Some(first) = trigger.desc.first() {
                assert_eq!(first.other.get("odd"), Some(&1.into()));
            }
            assert_eq!(serde_json::to_string(&trigger).unwrap(), text);
        }
    }

    #[test]
    fn an_instance_takes_precedence_over_its_queue() {
        let ring = |text: &str| {
            let text = format!(r#"{{"id":0,{text}"desc":[]}}"#);
            let trigger: Trigger = serde_json::from_str(&text).unwrap();
            trigger.ring().map(|name| name.to_string())
        };
        assert_eq!(
            ring(r#""queue":"q","instance_name":"i","#).as_deref(),
            Some("i")
        );
        assert_eq!(
            ring(r#""queue":"q","instance_name":"","#).as_deref(),
            Some("q")
        );
        assert_eq!(ring(""), None);
    }
}
