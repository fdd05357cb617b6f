//! The rules of queue sets, variables and the tensor map.

use super::{Check, Part};
use crate::finding::Finding;
use crate::{
    Definition, EngineName, FeatureBits, KeyPath, Name, QueueSet, Variable, VariableKind,
    neff_dtype, rule,
};
use std::collections::{HashMap, HashSet};

const QUEUE_TYPES: [&str; 5] = ["in", "out", "data", "embedding_update", "dynamic"];

/// The largest `num_queues` (neff 2.5).
const MAX_QUEUES: u64 = 16;

/// The rules of a definition.
pub(super) fn definition(check: &mut Check<'_>, part: &Part<'_>) {
    let definition = &part.subgraph.definition;
    features(check, part, definition);
    let sets = definition.dma_queue.iter();
    let mut rings: HashSet<&str> = sets.map(|(name, _)| name).collect();
    for (name, queue) in definition.dma_queue.iter() {
        let place = KeyPath::default().key("dma_queue").key(name);
        queue_set(check, part, queue, &place);
        for (index, instance) in queue.queue_instances.iter().flatten().enumerate() {
            // A set of one instance may have the set's name.
            if *instance != *name && !rings.insert(instance) {
                let place = place.key("queue_instances").index(index);
                let (rule, detail) = (&rule::QUEUE_INSTANCE_NAMES, format!("found '{instance}'"));
                check.report(rule, &part.subgraph.member, place, detail);
            }
        }
    }
    let ids = ids(check, part, definition);
    for (name, stored) in definition.var.iter() {
        variable(check, part, name, stored, &ids);
    }
}

/// Compares feature names of the definition with feature bits of the header.
fn features(check: &mut Check<'_>, part: &Part<'_>, definition: &Definition) {
    let bits = check.package.header().feature_bits;
    let Some(names) = &definition.neff_features else {
        return;
    };
    let mut report = |place, detail: String| {
        check.report(
            &rule::HEADER_FEATURE_NAMES,
            &part.subgraph.member,
            place,
            detail,
        );
    };
    for (index, name) in names.iter().enumerate() {
        let bit = FeatureBits::named(name);
        if bit.is_none_or(|bit| !bits.contains(bit)) {
            let place = KeyPath::default().key("neff_features").index(index);
            let what = if bit.is_some() {
                "its bit is not set"
            } else {
                "no bit of this name"
            };
            report(place, format!("'{name}': {what}"));
        }
    }
    let vnc = FeatureBits::named("neff_feature_vnc").unwrap_or_default();
    if bits.contains(vnc) && !names.iter().any(|name| *name == *"neff_feature_vnc") {
        let place = KeyPath::default().key("neff_features");
        report(place, "'neff_feature_vnc' is only a bit".to_owned());
    }
}

fn queue_set(check: &mut Check<'_>, part: &Part<'_>, queue: &QueueSet, place: &KeyPath) {
    let member = &*part.subgraph.member;
    let mut report = |rule, key: &str, detail: String| {
        check.report(rule, member, place.key(key), detail);
    };
    if !QUEUE_TYPES.contains(&queue.kind.as_str()) {
        report(&rule::QUEUE_TYPE, "type", format!("found '{}'", queue.kind));
    }
    let most = if part.is_inf1() { 1 } else { MAX_QUEUES };
    if let Some(count) = queue.num_queues.filter(|count| !(1..=most).contains(count)) {
        let detail = format!("expected 1 to {most}, found {count}");
        report(&rule::QUEUE_NUM_QUEUES, "num_queues", detail);
    }
    if let Some(owner) = &queue.owner {
        let engine = EngineName::ALL
            .into_iter()
            .find(|engine| *owner == engine.key());
        if engine
            .and_then(|engine| part.subgraph.definition.engine(engine))
            .is_none()
        {
            report(&rule::QUEUE_OWNER, "owner", format!("found '{owner}'"));
        }
    }
    if queue.pinned == Some(true) && part.architecture.is_some() && !part.is_inf1() {
        report(&rule::QUEUE_PINNED, "pinned", String::new());
    }
    if queue.queue_instances.is_some() && part.is_inf1() {
        report(&rule::QUEUE_INSTANCES, "queue_instances", String::new());
    }
    if let Some(set) = &queue.semaphore_set {
        let distinct: HashSet<_> = set.iter().collect();
        if distinct.len() != set.len() || set.len() as u64 != queue.queues() {
            let (expected, found) = (queue.queues(), distinct.len());
            let detail = format!("expected {expected} of them, found {found}");
            report(&rule::QUEUE_SEMAPHORE_SET, "semaphore_set", detail);
        }
    }
    if queue.semaphore.is_some() && queue.queues() > 1 {
        let detail = format!("found {} queues", queue.queues());
        report(&rule::QUEUE_SEMAPHORE, "semaphore", detail);
    }
    if let Some(detail) = wrong_fabric_path(queue.fabric_path.as_ref()) {
        report(&rule::QUEUE_FABRIC_PATH, "fabric_path", detail);
    }
}

/// The detail of a finding if the path is neither `main` nor `alt`.
fn wrong_fabric_path(found: Option<&Name>) -> Option<String> {
    let wrong = found.filter(|found| !matches!(found.as_str(), "main" | "alt"))?;
    Some(format!("found '{wrong}'"))
}

fn place_of(name: &str) -> KeyPath {
    KeyPath::default().key("var").key(name)
}

/// The types of all variables by id.
fn ids(
    check: &mut Check<'_>,
    part: &Part<'_>,
    definition: &Definition,
) -> HashMap<u32, VariableKind> {
    let mut ids = HashMap::new();
    for (name, stored) in definition.var.iter() {
        if ids.insert(stored.var_id, stored.kind).is_some() {
            let detail = format!("found {} twice", stored.var_id);
            let place = place_of(name).key("var_id");
            check.report(&rule::VAR_ID, &part.subgraph.member, place, detail);
        }
    }
    ids
}

fn variable(
    check: &mut Check<'_>,
    part: &Part<'_>,
    name: &str,
    stored: &Variable,
    ids: &HashMap<u32, VariableKind>,
) {
    let member = &*part.subgraph.member;
    let mut report = |rule, key: &str, detail: String| {
        let place = if key.is_empty() {
            place_of(name)
        } else {
            place_of(name).key(key)
        };
        check
            .findings
            .add(Finding::new(rule, detail).member(member).path(place));
    };
    let kind = stored.kind;
    let only = |is_present: bool, of: VariableKind| is_present && kind != of;
    let found = || format!("found type {}", kind.name());
    let sizeless = matches!(kind, VariableKind::StateBuffer | VariableKind::DgeTable);
    if stored.size.is_none() && !sizeless {
        report(&rule::VAR_SIZE, "", "no 'size'".to_owned());
    }
    if let Some(bytes) = stored
        .alignment
        .filter(|bytes| *bytes != 0 && !bytes.is_power_of_two())
    {
        report(&rule::VAR_ALIGNMENT, "alignment", format!("found {bytes}"));
    }
    if only(stored.file_name.is_some(), VariableKind::File) {
        report(&rule::VAR_FILE_NAME, "file_name", found());
    }
    // Tenon omits the plain bytes of a constant that has a prepared form.
    let own = check.package.header().is_tenon();
    if kind == VariableKind::File && stored.file_name.is_none() && !own {
        report(&rule::VAR_FILE, "", "no 'file_name'".to_owned());
    }
    if only(stored.backing_variable_off.is_some(), VariableKind::Virtual) {
        report(&rule::VAR_BACKING, "backing_variable_off", found());
    }
    if let (Some(offset), Some(size)) = (stored.backing_variable_off, stored.size)
        && offset.checked_add(size).is_none()
    {
        let detail = format!("found {offset} and {size}");
        report(&rule::VAR_BACKING_RANGE, "backing_variable_off", detail);
    }
    if only(stored.referenced_var_id.is_some(), VariableKind::Pointer) {
        report(&rule::VAR_REFERENCE, "referenced_var_id", found());
    }
    if let Some(id) = stored.referenced_var_id
        && (id == stored.var_id || !ids.contains_key(&id))
    {
        report(
            &rule::VAR_REFERENCE_ID,
            "referenced_var_id",
            format!("found {id}"),
        );
    }
    if only(stored.list.is_some(), VariableKind::DgeTable) {
        report(&rule::VAR_LIST, "list", found());
    }
    for id in stored
        .list
        .iter()
        .flatten()
        .filter(|id| !ids.contains_key(id))
    {
        report(&rule::VAR_LIST_ID, "list", format!("found {id}"));
    }
    if let Some(detail) = wrong_fabric_path(stored.fabric_path.as_ref()) {
        report(&rule::VAR_FABRIC_PATH, "fabric_path", detail);
    }
}

/// The rules of `tensor_map.json`.
pub(super) fn tensor_map(check: &mut Check<'_>, part: &Part<'_>) {
    let Some(map) = &part.subgraph.tensor_map else {
        return;
    };
    let member = part.subgraph.file("tensor_map.json");
    let kinds: HashMap<&str, VariableKind> = part
        .subgraph
        .definition
        .var
        .iter()
        .map(|(name, stored)| (name, stored.kind))
        .collect();
    // The variables of Tenon are not named after ports; its ports are in tenon.json.
    let own = check.package.header().is_tenon();
    for (name, tensor) in map.iter() {
        let place = KeyPath::default().key(name);
        if neff_dtype(&tensor.dtype).is_none() {
            let detail = format!("found '{}'", tensor.dtype);
            check.report(&rule::TENSOR_MAP_DTYPE, &member, place.key("dtype"), detail);
        }
        let expected = match tensor.kind.as_deref() {
            Some("input") => VariableKind::Input,
            Some("output") => VariableKind::Output,
            _ => continue,
        };
        if !own && kinds.get(name) != Some(&expected) {
            let detail = format!("'{name}' is no variable of type {}", expected.name());
            check.report(&rule::TENSOR_MAP_PORT, &member, place.key("kind"), detail);
        }
    }
}
