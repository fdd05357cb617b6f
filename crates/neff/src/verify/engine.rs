//! Engine descriptions: their files, tables and triggers.

use super::{Check, Part, descriptor};
use crate::structure::EngineParts;
use crate::{Architecture, Engine, EngineName, KeyPath, Name, QueueSet, Trigger, rule};
use std::collections::{BTreeMap, HashMap};
use tenon_base::Result;

/// Bytes of an instruction slot (facts, neuron.md 2.7).
const SLOT: usize = 64;

/// Triggers between two checks of the control handle.
const STEP: usize = 1 << 16;

/// The rules of an engine.
pub(super) fn engine(check: &mut Check<'_>, part: &Part<'_>, parts: &EngineParts) -> Result<()> {
    files(check, part, parts);
    let (Some(engine), Some(member)) = (&parts.engine, &parts.member) else {
        return Ok(());
    };
    if parts.name == EngineName::Act {
        activation(check, part, engine, member);
    }
    dve_tables(check, part, engine, member);
    triggers(check, part, parts.name, engine, member)
}

fn files(check: &mut Check<'_>, part: &Part<'_>, parts: &EngineParts) {
    let definition = &*part.subgraph.member;
    let key = parts.name.key();
    let instr = format!("{key}_instr");
    match (&parts.member, &parts.program) {
        (Some(_), None) => {
            let detail = format!("no '{instr}'");
            check.broken(
                &rule::ENGINE_FILES,
                definition,
                KeyPath::default().key(key),
                detail,
            );
        }
        (None, Some(_)) => {
            let place = KeyPath::default().key(&instr);
            check.broken(
                &rule::ENGINE_FILES,
                definition,
                place,
                format!("no '{key}'"),
            );
        }
        _ => {}
    }
    if let (Some(engine), Some(member), Some(program)) =
        (&parts.engine, &parts.member, &parts.program)
        && let Some(told) = &engine.instr
        && part.subgraph.file(told) != *program
    {
        let place = KeyPath::default().key("instr");
        let detail = format!("expected '{program}', found '{told}'");
        check.broken(&rule::ENGINE_FILES, member, place, detail);
    }
    let Some(program) = &parts.program else {
        return;
    };
    match check.package.member(program) {
        None => {
            let place = KeyPath::default().key(&instr);
            check.broken(
                &rule::MEMBER_MISSING,
                definition,
                place,
                format!("'{program}'"),
            );
        }
        // A host program of Tenon is no sequence of slots.
        Some(bytes) if !check.package.header().is_tenon() && bytes.len() % SLOT != 0 => {
            let detail = format!("found {} bytes", bytes.len());
            check.broken(&rule::ENGINE_PROGRAM, program, KeyPath::default(), detail);
        }
        Some(_) => {}
    }
}

fn named(check: &mut Check<'_>, part: &Part<'_>, member: &str, place: KeyPath, file: &Name) {
    let file = part.subgraph.file(file);
    if check.package.member(&file).is_none() {
        check.broken(&rule::MEMBER_MISSING, member, place, format!("'{file}'"));
    }
}

fn activation(check: &mut Check<'_>, part: &Part<'_>, engine: &Engine, member: &str) {
    let Some(info) = &part.subgraph.act_info else {
        return;
    };
    let info_member = part
        .subgraph
        .file(engine.act_info.as_deref().unwrap_or_default());
    for (index, name) in engine.activation_function_sets.iter().flatten().enumerate() {
        let Some(set) = info.set(name) else {
            let place = KeyPath::default()
                .key("activation_function_sets")
                .index(index);
            check.broken(
                &rule::ENGINE_ACTIVATION,
                member,
                place,
                format!("found '{name}'"),
            );
            continue;
        };
        let position = info.act_func_sets.iter().position(|known| known == set);
        let place = KeyPath::default()
            .key("act_func_sets")
            .index(position.unwrap_or(0));
        for (key, file) in set.files() {
            named(check, part, &info_member, place.key(key), file);
        }
    }
}

fn dve_tables(check: &mut Check<'_>, part: &Part<'_>, engine: &Engine, member: &str) {
    for (index, table) in engine.dve_tables.iter().flatten().enumerate() {
        let place = KeyPath::default().key("dve_tables").index(index);
        let fast = (
            table.control_fast_table.is_some(),
            table.control_slow_table.is_some(),
        );
        let control = matches!(
            (table.control_table.is_some(), fast),
            (true, (false, false)) | (false, (true, true))
        );
        if !control || table.datapath_table.is_none() || table.opcode_table.is_none() {
            let keys: Vec<&str> = table.files().map(|(key, _)| key).collect();
            let detail = format!("found {}", keys.join(", "));
            check.broken(&rule::ENGINE_DVE_TABLES, member, place.clone(), detail);
        }
        for (key, file) in table.files() {
            named(check, part, member, place.key(key), file);
        }
    }
}

/// The queue set of each ring, by the name of the set or of an instance.
fn rings<'a>(part: &Part<'a>) -> HashMap<&'a str, (&'a str, &'a QueueSet)> {
    let sets = part.subgraph.definition.dma_queue.iter();
    let all = sets.flat_map(|(name, set)| {
        let instances = set
            .queue_instances
            .iter()
            .flatten()
            .map(|instance| instance.as_str());
        instances.chain([name]).map(move |ring| (ring, (name, set)))
    });
    all.collect()
}

/// How many descriptors each queue set has under one id of one function.
type Amounts<'a> = HashMap<(Name, u32), BTreeMap<&'a str, (u64, usize)>>;

fn triggers(
    check: &mut Check<'_>,
    part: &Part<'_>,
    name: EngineName,
    engine: &Engine,
    member: &str,
) -> Result<()> {
    let rings = rings(part);
    let mut functions: HashMap<&str, Name> = HashMap::new();
    let mut amounts: Amounts<'_> = HashMap::new();
    // Ids mostly stand on one queue set: only the others need a table.
    let several = part.subgraph.definition.dma_queue.iter().count() > 1;
    for (index, trigger) in engine.dma.iter().enumerate() {
        if index % STEP == 0 {
            let (done, total) = (index as u64, engine.dma.len() as u64);
            check
                .control
                .progress("check the descriptors", done, total)?;
        }
        keys(check, part, trigger, member, index);
        let ring = trigger.ring().and_then(|ring| rings.get(ring.as_str()));
        match (ring, trigger.ring()) {
            (Some((_, set)), _) => queue(check, name, set, trigger, member, index),
            (None, Some(ring)) => {
                let instance = trigger.instance_name.as_ref() == Some(ring);
                let key = if instance { "instance_name" } else { "queue" };
                let detail = format!("found '{ring}'");
                check.broken(&rule::DMA_QUEUE_NAME, member, place(index).key(key), detail);
            }
            (None, None) => check.broken(&rule::DMA_QUEUE, member, place(index), ""),
        }
        if let Some(&(set, _)) = ring.filter(|_| several) {
            let started = trigger
                .function_start
                .as_ref()
                .filter(|name| !name.is_empty());
            if let Some(started) = started {
                functions.insert(set, started.clone());
            }
            let function = functions.get(set).cloned().unwrap_or_default();
            let sets = amounts.entry((function, trigger.id)).or_default();
            sets.entry(set).or_insert((0, index)).0 += trigger.desc.len() as u64;
        }
        for (position, desc) in trigger.desc.iter().enumerate() {
            let path = || match trigger.desc.is_object() {
                true => place(index).key("desc"),
                false => place(index).key("desc").index(position),
            };
            descriptor::descriptor(check, part, desc, member, &path);
        }
    }
    let mut uneven: Vec<_> = amounts
        .into_iter()
        .filter(|(_, sets)| is_uneven(sets))
        .collect();
    uneven.sort_by_key(|((_, id), sets)| (sets.values().map(|&(_, at)| at).min(), *id));
    for ((_, id), sets) in uneven {
        let told: Vec<_> = sets
            .iter()
            .map(|(set, (count, _))| format!("{count} on {set}"))
            .collect();
        let first = sets.values().map(|&(_, at)| at).min().unwrap_or(0);
        let detail = format!("id {id}: {}", told.join(", "));
        check.broken(&rule::DMA_AMOUNT, member, place(first).key("id"), detail);
    }
    Ok(())
}

fn is_uneven(sets: &BTreeMap<&str, (u64, usize)>) -> bool {
    let mut counts = sets.values().map(|&(count, _)| count);
    let first = counts.next();
    counts.any(|count| Some(count) != first)
}

fn place(index: usize) -> KeyPath {
    KeyPath::default().key("dma").index(index)
}

/// The keys of a trigger that depend on the architecture.
fn keys(check: &mut Check<'_>, part: &Part<'_>, trigger: &Trigger, member: &str, index: usize) {
    let mut broken = |rule, key: &str, detail: &str| {
        check.broken(rule, member, place(index).key(key), detail);
    };
    if part.is_inf1() {
        if trigger.instance_name.is_some() {
            broken(&rule::DMA_INSTANCE, "instance_name", "");
        }
        if trigger
            .function_start
            .as_ref()
            .is_some_and(|name| !name.is_empty())
        {
            broken(&rule::DMA_FUNCTION_START, "function_start", "");
        }
        if trigger.section_start_desc == Some(true) {
            broken(&rule::DMA_SECTION_START, "section_start_desc", "");
        }
    }
    if trigger
        .remote_semaphores
        .as_ref()
        .is_some_and(|list| !list.is_empty())
    {
        if part.architecture.is_some_and(|it| it < Architecture::Trn2) {
            broken(&rule::DMA_REMOTE, "remote_semaphores", "");
        }
        if check.package.header().lnc_size != 2 {
            let detail = format!("found {}", check.package.header().lnc_size);
            check.broken(
                &rule::DMA_REMOTE_LNC,
                member,
                place(index).key("remote_semaphores"),
                detail,
            );
        }
    }
}

fn queue(
    check: &mut Check<'_>,
    engine: EngineName,
    set: &QueueSet,
    trigger: &Trigger,
    member: &str,
    index: usize,
) {
    let key = if trigger.queue.is_some() {
        "queue"
    } else {
        "instance_name"
    };
    if let Some(owner) = set.owner.as_ref().filter(|owner| ***owner != *engine.key()) {
        let detail = format!("owned by '{owner}'");
        check.broken(&rule::DMA_OWNER, member, place(index).key(key), detail);
    }
    if set.is_dynamic() {
        let detail = format!("found type {}", set.kind);
        check.broken(&rule::DMA_DYNAMIC, member, place(index).key(key), detail);
    }
}
