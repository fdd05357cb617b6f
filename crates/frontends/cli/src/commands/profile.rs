//! `tenon profile`

use super::load::{self, ModelSource};
use super::run::part_name;
use super::runner::Runner;
use crate::flags::Profile;
use crate::model_flags::InputFlags;
use crate::output::{self, say};
use crate::progress;
use crate::table::{Table, duration};
use tenon::machine::Ceiling;
use tenon::profile::{ProfileRow, Recording};
use tenon::{Location, Result, RunOptions, files};

/// Warm-up executions.
const WARM_UP: usize = 3;

pub fn run(flags: &Profile) -> Result<()> {
    profile(flags).map_err(|error| error.at(Location::file(&flags.file)))
}

fn profile(flags: &Profile) -> Result<()> {
    let control = progress::control();
    if let Some(path) = &flags.trace {
        output::reserve(path, flags.json)?;
    }
    let model = ModelSource {
        file: &flags.file,
        inputs: &flags.inputs,
        flags: &flags.model,
        any_size: false,
    };
    let (loaded, mut given) = load::load(&model, flags.threading.threads, &control)?;
    let model = &loaded.model;
    let inputs = InputFlags {
        random: flags.inputs.random.or(Some(0)),
        inputs: Vec::new(),
        ..flags.inputs.clone()
    };
    let image = load::image_options(model.metadata(), &inputs.pictures)?;
    let tensors = given.tensors(&load::signature(model), &inputs, &image)?;
    let mut runner = Runner::new(model, &tensors)?;
    for _ in 0..WARM_UP {
        runner.run(RunOptions::default())?;
    }
    let mut profile = model.profile();
    for _ in 0..flags.runs {
        runner.run(RunOptions::new().profile(&mut profile))?;
    }
    if let Some(path) = &flags.trace {
        let recording = Recording::new();
        runner.run(RunOptions::new().trace(&recording))?;
        let text = recording.json(model.name());
        files::write(path, text.as_bytes())?;
    }
    let ceiling = Ceiling::measure(flags.threading.threads.unwrap_or(tenon::machine::threads()));
    if flags.json {
        return output::json(tenon::profile::json(&profile, Some(&ceiling)));
    }
    print(tenon::profile::rows(&profile, &ceiling), flags.top)?;
    let each = profile.elapsed / u32::try_from(profile.executions.max(1)).unwrap_or(u32::MAX);
    say!(
        "\n{} an execution, mean of {}; ceiling measured: {:.1} GFLOP/s, {:.1} GB/s",
        duration(each),
        profile.executions,
        ceiling.gflops,
        ceiling.gigabytes
    )?;
    print_counters(&profile)
}

/// Prints the counters of backends.
fn print_counters(profile: &tenon::profile::Profile) -> Result<()> {
    if !profile.counters.is_empty() {
        let mut table = Table::new(&["counted", "now", "unit", "backend", "counter"]);
        for counter in &profile.counters {
            table.row([
                counter.change.to_string(),
                counter.value.to_string(),
                counter.unit.clone(),
                counter.backend.clone(),
                format!("{}: {}", counter.name, counter.doc),
            ]);
        }
        say!("\n{table}")?;
    }
    let mut silent = profile.unreadable_counters.iter();
    silent.try_for_each(|(backend, why)| say!("no counters of {backend}: {why}"))
}

fn print(mut rows: Vec<ProfileRow>, top: usize) -> Result<()> {
    rows.sort_by_key(|row| std::cmp::Reverse(row.time));
    let mut headings = vec![
        "time",
        "share",
        "GFLOP/s",
        "GB/s",
        "of ceiling",
        "backend",
        "operator",
        "node",
    ];
    let has_runs = rows.iter().any(|row| row.runs != 1.0);
    if has_runs {
        headings.insert(2, "runs");
    }
    let mut table = Table::new(&headings);
    for row in rows.iter().take(top) {
        let rate = |rate: f64| match row.is_counted() {
            true => format!("{rate:.1}"),
            false => String::new(),
        };
        let ceiling = row
            .of_ceiling
            .map(|share| format!("{:.0} %", share * 100.0));
        let mut cells = vec![
            duration(row.time),
            format!("{:.1} %", row.share * 100.0),
            rate(row.gflops),
            rate(row.gigabytes),
            ceiling.unwrap_or_default(),
            row.backend.clone(),
            row.operator.clone(),
            row.node.clone(),
        ];
        if has_runs {
            cells.insert(2, format!("{:.1}", row.runs));
        }
        let columns = cells.len();
        table.row(cells);
        for part in &row.parts {
            let mut cells = vec![String::new(); columns];
            cells[0] = duration(part.time);
            cells[1] = format!("{:.1} %", part.share * 100.0);
            cells[columns - 1] = format!("  {}", part_name(&part.name, &part.nodes));
            table.row(cells);
        }
    }
    say!("{table}")?;
    match rows.len().saturating_sub(top) {
        0 => Ok(()),
        rest => {
            let time = rows[top..].iter().map(|row| row.time).sum();
            say!("and {rest} more, {} together (--top)", duration(time))
        }
    }
}
