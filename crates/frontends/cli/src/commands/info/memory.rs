//! `tenon info --memory`

use super::load;
use crate::flags::Info;
use crate::output::say;
use crate::table::{Table, bytes};
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;
use tenon::backends::{self, DeviceMemory, Runtime};
use tenon::inspect::{Contents, MemoryReport};
use tenon::neff::Package;
use tenon::{BackendId, LoadOptions, Model, Result, files};

/// What a package needs of the memory of backends that have their own.
#[derive(Default)]
pub struct Devices {
    found: Vec<DeviceMemory>,
    /// The backends of which it is not known, and why.
    unknown: Vec<(String, String)>,
}

/// The memory of backends that a package of these subgraphs needs, with `--memory`. Libraries are loaded
/// only for nodes on backends that are not built in.
pub fn devices<'a>(
    flags: &Info,
    package: &Package,
    subgraphs: impl IntoIterator<Item = &'a Contents>,
) -> Result<Devices> {
    let used = subgraphs
        .into_iter()
        .flat_map(|contents| contents.tenon.placement.used());
    let used: BTreeSet<BackendId> = used.map(BackendId::from).collect();
    let built_in = backends::built_in();
    let others: Vec<&BackendId> = used
        .iter()
        .filter(|id| built_in.find(id).is_none())
        .collect();
    if !flags.memory || others.is_empty() {
        return Ok(Devices::default());
    }
    let runtime = runtime(flags)?;
    let mut devices = Devices::default();
    for &id in &others {
        if runtime.backends().find(id).is_none() {
            let reason = runtime.backends().unavailable(id);
            let reason = reason.unwrap_or("it is unavailable here").to_owned();
            devices.unknown.push((id.to_string(), reason));
        }
    }
    if devices.unknown.len() < others.len() {
        match model(flags, package, runtime) {
            Ok(model) => devices.found = model.device_memory(),
            Err(error) => {
                let id = others.iter().map(|id| id.as_str()).collect::<Vec<_>>();
                devices.unknown = vec![(id.join(", "), error.to_string())];
            }
        }
    }
    Ok(devices)
}

fn runtime(flags: &Info) -> Result<Runtime> {
    let registry = load::backends(&flags.loading)?;
    Ok(load::runtime(registry, &flags.loading))
}

/// The model for the sizes of the flags, without memory for executions.
fn model(flags: &Info, package: &Package, runtime: Runtime) -> Result<Model> {
    let options = LoadOptions::new().runtime(runtime).in_flight(0);
    let model = Model::from_package(package, &options)?;
    model
        .at(&load::fixed_sizes(&flags.dims)?)
        .map_err(|error| error.help("give sizes with --dim NAME=N"))
}

impl Devices {
    /// A line for each backend.
    pub fn print(&self) -> Result<()> {
        for memory in &self.found {
            say!(
                "{}: {} of its memory for the values of an execution, {} for workloads",
                memory.backend,
                bytes(memory.value_bytes),
                bytes(memory.workload_bytes)
            )?;
        }
        let mut unknown = self.unknown.iter();
        unknown.try_for_each(|(id, why)| say!("the memory of {id} is not known: {why}"))
    }

    /// The same as fields; none if no backend has separate memory.
    pub fn json(&self) -> Map<String, Value> {
        let found = self.found.iter().map(|memory| {
            json!({"backend": memory.backend.as_str(), "value_bytes": memory.value_bytes,
                   "workload_bytes": memory.workload_bytes})
        });
        let unknown = self.unknown.iter();
        let unknown = unknown.map(|(id, why)| json!({"backend": id, "reason": why}));
        let mut all: Vec<Value> = found.collect();
        all.extend(unknown);
        match all.is_empty() {
            true => Map::new(),
            false => Map::from_iter([("devices".to_owned(), all.into())]),
        }
    }
}

/// The memory plan, for the sizes of the flags; its picture is written where the flags say.
pub fn report(flags: &Info, package: &Package, contents: &Contents) -> Result<MemoryReport> {
    let sizes = load::fixed_sizes(&flags.dims)?;
    let report = if sizes.is_empty() && !contents.tenon.is_symbolic() {
        MemoryReport::new(contents)?
    } else {
        let model = model(flags, package, runtime(flags)?)?;
        MemoryReport::of(contents, model.memory_plan())?
    };
    if let Some(file) = &flags.svg {
        let picture = report.picture(&title(&report, &contents.name));
        files::write(file, picture.to_string().as_bytes())?;
    }
    Ok(report)
}

/// Prints the memory plan.
pub fn print(report: &MemoryReport, name: &str) -> Result<()> {
    let mut table = Table::new(&["variable", "offset", "bytes", "kernels", "from", "to"]);
    for row in &report.rows {
        let range = &row.range;
        table.row([
            row.name.clone(),
            range.offset.to_string(),
            range.size.to_string(),
            format!("{}..{}", range.first, range.last),
            report.node(range.first).to_owned(),
            report.node(range.last).to_owned(),
        ]);
    }
    say!("{table}\n")?;
    say!("{}", title(report, name))
}

fn title(report: &MemoryReport, name: &str) -> String {
    let strategy = match report.strategy.as_str() {
        "" => "unknown strategy",
        strategy => strategy,
    };
    format!(
        "{name}: arena {} ({strategy}), {} alive at once (kernel {}), {:.1} % more than that",
        bytes(report.arena_bytes),
        bytes(report.live_bytes),
        report.live_kernel,
        report.excess() * 100.0
    )
}
