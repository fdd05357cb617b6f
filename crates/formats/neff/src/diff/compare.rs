//! The comparison of two packages.

use super::{Change, Diff, constants};
use crate::key_path::Step;
use crate::{
    Contents, Definition, Engine, HeaderBlock, KeyPath, Package, Structure, Subgraph, Trigger,
};
use serde::Serialize;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use tenon_base::{Control, Result};

/// Compares two packages. JSON members are compared by value: white space and the order of keys are
/// ignored.
pub fn diff(a: &Package, b: &Package, control: &Control) -> Result<Diff> {
    let mut diff = Diff::default();
    let (structure_a, _) = Structure::read_lenient(a);
    let (structure_b, _) = Structure::read_lenient(b);
    diff.header = header(a, b);
    let mut reported = HashSet::new();
    for (of_a, of_b) in pairs(&structure_a, &structure_b) {
        control.check()?;
        reported.insert(of_b.member.clone());
        definition(&of_b.member, &of_a.definition, &of_b.definition, &mut diff);
        for of_b_engine in &of_b.engines {
            let of_a_engine = of_a.engines.iter().find(|it| it.name == of_b_engine.name);
            if let (Some(of_a), Some(in_a), Some(in_b), Some(member)) = (
                of_a_engine,
                of_a_engine.and_then(|it| it.engine.as_ref()),
                &of_b_engine.engine,
                &of_b_engine.member,
            ) {
                reported.extend([member.clone()]);
                reported.extend(of_a.member.clone());
                engine(member, in_a, in_b, &mut diff);
            }
        }
    }
    control.check()?;
    let (changes, members) = constants::compare((a, &structure_a), (b, &structure_b));
    diff.constants = changes;
    reported.extend(members);
    placement(a, b, &mut diff);
    other_members(a, b, &reported, &mut diff);
    Ok(diff)
}

/// The differing fields of the header, without those that derive from the archive: its size and
/// hash, and in packages of Tenon the uuid.
fn header(a: &Package, b: &Package) -> Vec<Change> {
    let fields = |package: &Package| match json(&HeaderBlock::from(package.header())) {
        Value::Object(map) => map,
        _ => Default::default(),
    };
    let both_tenon = a.header().is_tenon() && b.header().is_tenon();
    let (a, b) = (fields(a), fields(b));
    let is_derived = |name: &str| match name {
        "data_size" | "hash" => true,
        "uuid" => both_tenon,
        _ => false,
    };
    let differing = a
        .iter()
        .filter(|(name, value)| b.get(*name) != Some(value) && !is_derived(name));
    let change = |(name, value): (&String, &Value)| {
        let other = b.get(name).map(Value::to_string);
        Change::new(None, name, Some(value.to_string()), other)
    };
    differing.map(change).collect()
}

/// Subgraphs of the same name.
fn pairs<'a>(a: &'a Structure, b: &'a Structure) -> Vec<(&'a Subgraph, &'a Subgraph)> {
    let in_a = |name: &str| a.subgraphs.iter().find(|of_a| of_a.name == name);
    b.subgraphs
        .iter()
        .filter_map(|of_b| Some((in_a(&of_b.name)?, of_b)))
        .collect()
}

fn definition(member: &str, a: &Definition, b: &Definition, diff: &mut Diff) {
    let by_name = |definition: &Definition| -> BTreeMap<String, Value> {
        definition
            .var
            .iter()
            .map(|(name, it)| (name.to_owned(), json(it)))
            .collect()
    };
    let (vars_a, vars_b) = (by_name(a), by_name(b));
    let names: BTreeSet<&String> = vars_a.keys().chain(vars_b.keys()).collect();
    for name in names {
        let mut path = KeyPath::default().key("var").key(name);
        let (a, b) = (vars_a.get(name), vars_b.get(name));
        values(member, &mut path, a, b, &mut diff.variables);
    }
    let without = |definition: &Definition| {
        json(&Definition {
            var: Default::default(),
            ..definition.clone()
        })
    };
    let (a, b) = (without(a), without(b));
    values(
        member,
        &mut KeyPath::default(),
        Some(&a),
        Some(&b),
        &mut diff.structure,
    );
}

fn engine(member: &str, a: &Engine, b: &Engine, diff: &mut Diff) {
    // Triggers are paired in order, by id and ring.
    let key = |trigger: &Trigger| (trigger.id, trigger.ring().cloned());
    let mut of_a: BTreeMap<_, Vec<(usize, &Trigger)>> = BTreeMap::new();
    for (index, trigger) in a.dma.iter().enumerate().rev() {
        of_a.entry(key(trigger)).or_default().push((index, trigger));
    }
    for (index, trigger) in b.dma.iter().enumerate() {
        let in_a = of_a.get_mut(&key(trigger)).and_then(Vec::pop);
        if in_a.is_some_and(|(_, in_a)| in_a == trigger) {
            continue;
        }
        let in_a = in_a.map(|(_, in_a)| json(in_a));
        let mut path = KeyPath::default().key("dma").index(index);
        values(
            member,
            &mut path,
            in_a.as_ref(),
            Some(&json(trigger)),
            &mut diff.descriptors,
        );
    }
    let mut removed: Vec<_> = of_a.into_values().flatten().collect();
    removed.sort_unstable_by_key(|&(index, _)| index);
    for (index, trigger) in removed {
        let mut path = KeyPath::default().key("dma").index(index);
        values(
            member,
            &mut path,
            Some(&json(trigger)),
            None,
            &mut diff.descriptors,
        );
    }
    let without = |engine: &Engine| {
        let rest = Engine {
            dma: Vec::new(),
            name: engine.name.clone(),
            instr: engine.instr.clone(),
            activation_function_sets: engine.activation_function_sets.clone(),
            act_info: engine.act_info.clone(),
            act_semaphore: engine.act_semaphore,
            dve_tables: engine.dve_tables.clone(),
            other: engine.other.clone(),
        };
        json(&rest)
    };
    let (a, b) = (without(a), without(b));
    values(
        member,
        &mut KeyPath::default(),
        Some(&a),
        Some(&b),
        &mut diff.structure,
    );
}

fn placement(a: &Package, b: &Package, diff: &mut Diff) {
    if !a.header().is_tenon() || !b.header().is_tenon() {
        return;
    }
    let (Ok(a), Ok(b)) = (Contents::read(a), Contents::read(b)) else {
        return;
    };
    let nodes = |contents: &Contents| -> BTreeMap<String, String> {
        let nodes = contents.tenon.placement.nodes.iter();
        nodes
            .map(|node| (node.node.clone(), node.backend.clone()))
            .collect()
    };
    let (a, b) = (nodes(&a), nodes(&b));
    let names: BTreeSet<&String> = a.keys().chain(b.keys()).collect();
    for name in names
        .into_iter()
        .filter(|name| a.get(*name) != b.get(*name))
    {
        let change = Change::new(None, name, a.get(name).cloned(), b.get(name).cloned());
        diff.placement.push(change);
    }
}

/// The changes of members that no other list reports.
fn other_members(a: &Package, b: &Package, reported: &HashSet<String>, diff: &mut Diff) {
    let bytes = |len: usize| Some(format!("{len} bytes"));
    for (name, len) in a.members() {
        if b.member(name).is_none() {
            diff.members
                .push(Change::new(Some(name), "", bytes(len), None));
        }
    }
    for (name, len) in b.members() {
        let (Some(in_a), Some(in_b)) = (a.member(name), b.member(name)) else {
            diff.members
                .push(Change::new(Some(name), "", None, bytes(len)));
            continue;
        };
        // Digests differ where members do.
        if reported.contains(name) || name == crate::DIGESTS_JSON || in_a[..] == in_b[..] {
            continue;
        }
        let parsed = |bytes: &[u8]| serde_json::from_slice::<Value>(bytes).ok();
        let is_json = name.ends_with(".json");
        match (parsed(&in_a).filter(|_| is_json), parsed(&in_b)) {
            (Some(a), Some(b)) => {
                let (a, b) = (Some(&a), Some(&b));
                values(name, &mut KeyPath::default(), a, b, &mut diff.structure);
            }
            _ => {
                let at = in_a.iter().zip(&in_b[..]).position(|(a, b)| a != b);
                let place = format!("byte {}", at.unwrap_or(in_a.len().min(in_b.len())));
                let change = Change::new(Some(name), place, bytes(in_a.len()), bytes(len));
                diff.members.push(change);
            }
        }
    }
}

/// The innermost values that differ.
fn values(
    member: &str,
    path: &mut KeyPath,
    a: Option<&Value>,
    b: Option<&Value>,
    changes: &mut Vec<Change>,
) {
    let enter = |path: &mut KeyPath, step, a, b, changes: &mut Vec<Change>| {
        path.enter(step);
        values(member, path, a, b, changes);
        path.leave();
    };
    match (a, b) {
        (Some(a), Some(b)) if a == b => {}
        (Some(Value::Object(a)), Some(Value::Object(b))) => {
            for (key, value) in a {
                enter(
                    path,
                    Step::Key(key.clone()),
                    Some(value),
                    b.get(key),
                    changes,
                );
            }
            for (key, value) in b.iter().filter(|(key, _)| !a.contains_key(*key)) {
                enter(path, Step::Key(key.clone()), None, Some(value), changes);
            }
        }
        (Some(Value::Array(a)), Some(Value::Array(b))) if a.len() == b.len() => {
            for (index, (a, b)) in a.iter().zip(b).enumerate() {
                enter(path, Step::Index(index), Some(a), Some(b), changes);
            }
        }
        (a, b) => {
            let text = |value: Option<&Value>| value.map(Value::to_string);
            changes.push(Change::at(member, path, text(a), text(b)));
        }
    }
}

fn json<T: Serialize>(value: &T) -> Value {
    serde_json::to_value(value).unwrap_or_default()
}
