//! `tenon dma`

use super::package;
use crate::output::{self, say};
use crate::package_flags::Dma;
use crate::progress;
use crate::table::Table;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use tenon::files::write_through;
use tenon::inspect::{Access, DescriptorRow, PackageTransfers, TransferOutcome};
use tenon::tensor::npy;
use tenon::{Error, Location, Result, Tensor};

pub fn run(flags: &Dma) -> Result<()> {
    let control = progress::control();
    let package = package::open(&flags.file, &flags.limits, &control)?;
    let here = |error: Error| error.at(Location::file(&flags.file));
    let transfers = PackageTransfers::read(&package).map_err(here)?;
    if !flags.run {
        return table(flags, &transfers.rows().map_err(here)?);
    }
    let given = flags
        .variables
        .as_ref()
        .map(given)
        .transpose()?
        .unwrap_or_default();
    let engines: Vec<&str> = flags.engine.iter().map(String::as_str).collect();
    let outcome = transfers.run(&given, &engines, &control).map_err(here)?;
    let names: Vec<String> = transfers
        .cores()
        .iter()
        .map(|core| core.name.to_owned())
        .collect();
    if let Some(path) = &flags.output {
        output::reserve(path, flags.json)?;
        write(path, &names, &outcome)?;
    }
    print_outcome(flags, &names, &outcome)
}

fn given(path: &std::path::PathBuf) -> Result<BTreeMap<String, Vec<u8>>> {
    let arrays = npy::read_npz(path)?;
    Ok(arrays
        .into_iter()
        .map(|(name, array)| (name, array.bytes().to_vec()))
        .collect())
}

fn write(path: &std::path::Path, names: &[String], outcome: &TransferOutcome) -> Result<()> {
    let mut arrays = Vec::new();
    for (core, variables) in names.iter().zip(&outcome.variables) {
        for (name, bytes) in variables {
            arrays.push((
                format!("{core}/{name}"),
                Tensor::from_slice([bytes.len()], bytes)?,
            ));
        }
    }
    let named: Vec<(&str, &Tensor)> = arrays
        .iter()
        .map(|(name, it)| (name.as_str(), it))
        .collect();
    write_through(path, |path| npy::write_npz(path, &named))
}

fn table(flags: &Dma, rows: &[DescriptorRow]) -> Result<()> {
    let is_selected =
        |row: &&DescriptorRow| flags.engine.is_empty() || flags.engine.contains(&row.engine);
    let rows: Vec<&DescriptorRow> = rows.iter().filter(is_selected).collect();
    if flags.json {
        return output::json(Value::from_iter(rows.iter().map(|row| row_json(row))));
    }
    let mut table = Table::new(&["core", "engine", "id", "queue", "movement", "then"]);
    for row in &rows {
        table.row([
            row.core.clone(),
            row.engine.clone(),
            row.id.to_string(),
            row.queue.clone(),
            movement(row),
            completion(row),
        ]);
    }
    say!("{table}")?;
    say!("{}", output::count(rows.len(), "descriptor"))
}

fn row_json(row: &DescriptorRow) -> Value {
    json!({
        "core": row.core, "engine": row.engine, "transfer": row.transfer, "position": row.position,
        "id": row.id, "queue": row.queue, "function_start": row.function_start,
        "event": row.event, "semaphore": row.semaphore, "remote_semaphores": row.remote_semaphores,
        "operation": row.descriptor.operation.name(), "from": row.from, "to": row.to,
        "bytes": row.descriptor.bytes_written(), "movement": movement(row),
    })
}

/// `copy x[0..64] -> y[64..128]`; patterns as `x+16 (4 by 1, 8 by 32)`, sizes and steps from the
/// innermost.
fn movement(row: &DescriptorRow) -> String {
    let descriptor = &row.descriptor;
    let is_typed = descriptor.operation.is_typed();
    let access = |name: &String, access: &Access| {
        let sizes = access.sizes.iter().zip(&access.steps);
        let pattern = match (access.sizes.as_slice(), access.steps.as_slice()) {
            ([size], [1]) => format!(
                "[{}..{}]",
                access.offset,
                access.offset.saturating_add(*size)
            ),
            _ => {
                let loops: Vec<String> = sizes
                    .map(|(size, step)| format!("{size} by {step}"))
                    .collect();
                format!("+{} ({})", access.offset, loops.join(", "))
            }
        };
        let ty = if is_typed {
            format!(" {}", access.dtype)
        } else {
            String::new()
        };
        format!("{name}{pattern}{ty}")
    };
    let from: Vec<String> = row
        .from
        .iter()
        .zip(&descriptor.from)
        .map(|(name, it)| access(name, it))
        .collect();
    let to = access(&row.to, &descriptor.to);
    format!(
        "{} {} -> {to}",
        descriptor.operation.name(),
        from.join(" + ")
    )
}

/// The completion signals of a transfer: event, semaphore, semaphores of the other core.
fn completion(row: &DescriptorRow) -> String {
    let event = row.event.map(|event| format!("event {event}"));
    let semaphore = row
        .semaphore
        .map(|semaphore| format!("semaphore {semaphore}"));
    let remote = row
        .remote_semaphores
        .iter()
        .map(|it| format!("remote semaphore {it}"));
    let all: Vec<String> = event.into_iter().chain(semaphore).chain(remote).collect();
    all.join(", ")
}

fn print_outcome(flags: &Dma, names: &[String], outcome: &TransferOutcome) -> Result<()> {
    if flags.json {
        let core = |(index, name): (usize, &String)| {
            let sizes: BTreeMap<&String, usize> = outcome.variables[index]
                .iter()
                .map(|(name, bytes)| (name, bytes.len()))
                .collect();
            json!({"core": name, "variables": sizes, "semaphores": outcome.semaphores[index],
                   "events": outcome.events[index]})
        };
        let races: Vec<String> = outcome
            .races
            .iter()
            .map(|race| format!("{} and {}", race.first, race.second))
            .collect();
        let cores = Value::from_iter(names.iter().enumerate().map(core));
        return output::json(json!({"cores": cores, "races": races}));
    }
    for (index, name) in names.iter().enumerate() {
        let list = |items: Vec<String>| {
            if items.is_empty() {
                "none".to_owned()
            } else {
                items.join(", ")
            }
        };
        let semaphores = outcome.semaphores[index].iter();
        let semaphores = semaphores
            .map(|(number, value)| format!("{number} = {value}"))
            .collect();
        let events = outcome.events[index]
            .iter()
            .map(|event| event.to_string())
            .collect();
        let variables = outcome.variables[index].len();
        say!(
            "{name}: {variables} variables; semaphores {}; events {}",
            list(semaphores),
            list(events)
        )?;
    }
    outcome
        .races
        .iter()
        .try_for_each(|race| say!("race: nothing orders {} and {}", race.first, race.second))
}
