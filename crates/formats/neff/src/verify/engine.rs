//! The rules of engine descriptions: files, tables and triggers.

use super::{Check, Part, descriptor};
use crate::structure::EngineParts;
use crate::{Architecture, Engine, EngineName, KeyPath, Name, QueueSet, Trigger, parallel, rule};
use foldhash::HashMap;
use tenon_base::Result;

/// Bytes of an instruction slot (neff 2.8).
const SLOT: usize = 64;

/// Triggers that one thread checks at a time.
pub(super) const STEP: usize = 1 << 14;

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
            check.report(
                &rule::ENGINE_FILES,
                definition,
                KeyPath::default().key(key),
                detail,
            );
        }
        (None, Some(_)) => {
            let place = KeyPath::default().key(&instr);
            check.report(
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
        && let Some(declared) = &engine.instr
        && part.subgraph.file(declared) != *program
    {
        let place = KeyPath::default().key("instr");
        let detail = format!("expected '{program}', found '{declared}'");
        check.report(&rule::ENGINE_FILES, member, place, detail);
    }
    let Some(program) = &parts.program else {
        return;
    };
    match check.package.member(program) {
        None => {
            let place = KeyPath::default().key(&instr);
            check.report(
                &rule::MEMBER_MISSING,
                definition,
                place,
                format!("'{program}'"),
            );
        }
        // A host program of Tenon does not consist of slots.
        Some(bytes) if !check.package.header().is_tenon() && bytes.len() % SLOT != 0 => {
            let detail = format!("found {} bytes", bytes.len());
            check.report(&rule::ENGINE_PROGRAM, program, KeyPath::default(), detail);
        }
        Some(_) => {}
    }
}

fn named(check: &mut Check<'_>, part: &Part<'_>, member: &str, place: KeyPath, file: &Name) {
    let file = part.subgraph.file(file);
    if check.package.member(&file).is_none() {
        check.report(&rule::MEMBER_MISSING, member, place, format!("'{file}'"));
    }
}

fn activation(check: &mut Check<'_>, part: &Part<'_>, engine: &Engine, member: &str) {
    let Some(info) = &part.subgraph.act_info else {
        return;
    };
    let info_member = part
        .subgraph
        .file(engine.act_info.as_deref().unwrap_or_default());
    let sets: HashMap<&str, usize> = info
        .act_func_sets
        .iter()
        .enumerate()
        .map(|(at, set)| (set.name.as_str(), at))
        .collect();
    for (index, name) in engine.activation_function_sets.iter().flatten().enumerate() {
        let Some(&position) = sets.get(name.as_str()) else {
            let place = KeyPath::default()
                .key("activation_function_sets")
                .index(index);
            check.report(
                &rule::ENGINE_ACTIVATION,
                member,
                place,
                format!("found '{name}'"),
            );
            continue;
        };
        let place = KeyPath::default().key("act_func_sets").index(position);
        for (key, file) in info.act_func_sets[position].files() {
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
            check.report(&rule::ENGINE_DVE_TABLES, member, place.clone(), detail);
        }
        for (key, file) in table.files() {
            named(check, part, member, place.key(key), file);
        }
    }
}

/// A queue set, and its position among those of the subgraph.
type IndexedQueueSet<'a> = (u32, &'a QueueSet);

/// The queue set of each ring, by the name of the set or of an instance.
type RingTable<'a> = HashMap<&'a str, IndexedQueueSet<'a>>;

fn rings<'a>(part: &Part<'a>) -> RingTable<'a> {
    let sets = part.subgraph.definition.dma_queue.iter().enumerate();
    let all = sets.flat_map(|(at, (name, set))| {
        let instances = set
            .queue_instances
            .iter()
            .flatten()
            .map(|instance| instance.as_str());
        instances
            .chain([name])
            .map(move |ring| (ring, (at as u32, set)))
    });
    all.collect()
}

fn triggers(
    check: &mut Check<'_>,
    part: &Part<'_>,
    name: EngineName,
    engine: &Engine,
    member: &str,
) -> Result<()> {
    let rings = rings(part);
    let steps = engine.dma.len().div_ceil(STEP);
    let whole: &Check<'_> = check;
    let checked = parallel::map(0..steps, |step| -> Result<_> {
        let (first, total) = (step * STEP, engine.dma.len() as u64);
        let control = whole.control;
        control.progress("check the descriptors", first as u64, total)?;
        let mut check = whole.part();
        for (index, trigger) in engine.dma.iter().enumerate().skip(first).take(STEP) {
            self::trigger(&mut check, part, (name, &rings), trigger, (member, index));
        }
        Ok(check.findings)
    });
    for found in checked {
        check.findings.append(found?);
    }
    uneven(check, part, &rings, engine, member);
    Ok(())
}

/// The rules of one trigger.
fn trigger(
    check: &mut Check<'_>,
    part: &Part<'_>,
    (name, rings): (EngineName, &RingTable<'_>),
    trigger: &Trigger,
    (member, index): (&str, usize),
) {
    keys(check, part, trigger, member, index);
    match trigger.ring().map(|ring| (ring, rings.get(ring.as_str()))) {
        Some((_, Some((_, set)))) => queue(check, name, set, trigger, member, index),
        Some((ring, None)) => {
            let instance = trigger.instance_name.as_ref() == Some(ring);
            let key = if instance { "instance_name" } else { "queue" };
            let detail = format!("found '{ring}'");
            check.report(&rule::DMA_QUEUE_NAME, member, place(index).key(key), detail);
        }
        None => check.report(&rule::DMA_QUEUE, member, place(index), ""),
    }
    for (position, desc) in trigger.desc.iter().enumerate() {
        let path = || {
            let list = place(index).key("desc");
            if trigger.desc.is_object() {
                list
            } else {
                list.index(position)
            }
        };
        descriptor::descriptor(check, part, desc, member, &path);
    }
}

/// Reports ids with different descriptor counts on their queue sets.
fn uneven(
    check: &mut Check<'_>,
    part: &Part<'_>,
    rings: &RingTable<'_>,
    engine: &Engine,
    member: &str,
) {
    // With one queue set there is nothing to compare.
    if part.subgraph.definition.dma_queue.iter().count() <= 1 {
        return;
    }
    let mut counts = DescriptorCounts::default();
    for (index, trigger) in engine.dma.iter().enumerate() {
        if let Some(&(at, _)) = trigger.ring().and_then(|ring| rings.get(ring.as_str())) {
            counts.add(at, trigger, index);
        }
    }
    let names: Vec<&str> = part
        .subgraph
        .definition
        .dma_queue
        .iter()
        .map(|(name, _)| name)
        .collect();
    for (first, id, sets) in counts.uneven() {
        let name = |set: u32| names.get(set as usize).copied().unwrap_or_default();
        let counts: Vec<_> = sets
            .iter()
            .map(|&(set, count)| format!("{count} on {}", name(set)))
            .collect();
        let detail = format!("id {id}: {}", counts.join(", "));
        check.report(&rule::DMA_AMOUNT, member, place(first).key("id"), detail);
    }
}

/// The number of descriptors by function, id and queue set.
#[derive(Default)]
struct DescriptorCounts {
    /// The current function of each queue set, and all functions by name.
    current: HashMap<u32, u32>,
    functions: HashMap<Name, u32>,
    /// Function, id, queue set, position and descriptors of each trigger.
    list: Vec<(u32, u32, u32, usize, u64)>,
}

/// The first trigger of an id, the id, and the descriptors it has on each queue set.
type UnevenId = (usize, u32, Vec<(u32, u64)>);

impl DescriptorCounts {
    fn add(&mut self, set: u32, trigger: &Trigger, index: usize) {
        if let Some(name) = trigger
            .function_start
            .as_ref()
            .filter(|name| !name.is_empty())
        {
            let next = self.functions.len() as u32 + 1;
            let function = *self.functions.entry(name.clone()).or_insert(next);
            self.current.insert(set, function);
        }
        let function = self.current.get(&set).copied().unwrap_or(0);
        self.list
            .push((function, trigger.id, set, index, trigger.desc.len() as u64));
    }

    /// Ids whose queue sets differ, in the order of the file.
    fn uneven(mut self) -> Vec<UnevenId> {
        self.list.sort_unstable();
        let mut uneven = Vec::new();
        for group in self.list.chunk_by(|a, b| (a.0, a.1) == (b.0, b.1)) {
            let mut sets: Vec<(u32, u64)> = Vec::new();
            for &(_, _, set, _, count) in group {
                match sets.last_mut().filter(|(last, _)| *last == set) {
                    Some((_, sum)) => *sum += count,
                    None => sets.push((set, count)),
                }
            }
            let first = group.iter().map(|trigger| trigger.3).min().unwrap_or(0);
            if sets.iter().any(|(_, count)| *count != sets[0].1) {
                uneven.push((first, group[0].1, sets));
            }
        }
        uneven.sort_unstable();
        uneven
    }
}

fn place(index: usize) -> KeyPath {
    KeyPath::default().key("dma").index(index)
}

/// The keys of a trigger that depend on the architecture.
fn keys(check: &mut Check<'_>, part: &Part<'_>, trigger: &Trigger, member: &str, index: usize) {
    let mut report = |rule, key: &str, detail: &str| {
        check.report(rule, member, place(index).key(key), detail);
    };
    if part.is_inf1() {
        if trigger.instance_name.is_some() {
            report(&rule::DMA_INSTANCE, "instance_name", "");
        }
        if trigger
            .function_start
            .as_ref()
            .is_some_and(|name| !name.is_empty())
        {
            report(&rule::DMA_FUNCTION_START, "function_start", "");
        }
        if trigger.section_start_desc == Some(true) {
            report(&rule::DMA_SECTION_START, "section_start_desc", "");
        }
    }
    if trigger
        .remote_semaphores
        .as_ref()
        .is_some_and(|list| !list.is_empty())
    {
        if part.architecture.is_some_and(|it| it < Architecture::Trn2) {
            report(&rule::DMA_REMOTE, "remote_semaphores", "");
        }
        if check.package.header().lnc_size != 2 {
            let detail = format!("found {}", check.package.header().lnc_size);
            check.report(
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
        check.report(&rule::DMA_OWNER, member, place(index).key(key), detail);
    }
    if set.is_dynamic() {
        let detail = format!("found type {}", set.kind);
        check.report(&rule::DMA_DYNAMIC, member, place(index).key(key), detail);
    }
}
