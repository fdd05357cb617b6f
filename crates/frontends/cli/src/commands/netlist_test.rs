//! `tenon netlist test`

use super::input_files::once;
use super::load;
use super::netlist_run::arch;
use crate::netlist_flags::NetlistTest;
use crate::output::{self, say};
use crate::progress;
use serde_json::{Value, json};
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};
use tenon::activity::Activity;
use tenon::netlist::{QueueAgreement, SelfTest, read_source};
use tenon::{Control, Result};

/// Tests every file, also after one that cannot run.
pub fn run(flags: &NetlistTest) -> Result<ExitCode> {
    let test = SelfTest::new()
        .programs(flags.program.clone())
        .params(once("--param", &flags.params)?)
        .seed(flags.seed)
        .loops(flags.loops)
        .arch(arch(flags.arch.as_deref())?);
    let activity = Activity::published();
    let mut results = Vec::new();
    let mut all_pass = true;
    let bar = progress::counting(flags.files.len() as u64);
    for file in &flags.files {
        let shown = file.display().to_string();
        bar.set_message(tenon::files::escape_controls(&shown).into_owned());
        let begun = Instant::now();
        let control = match flags.timeout {
            Some(limit) => Control::with_deadline(Instant::now() + Duration::from_secs_f64(limit)),
            None => Control::new(),
        };
        let test = test.clone().control(control);
        let tested = read_source(file)
            .and_then(|source| load::active_program(&activity, file).execute(|| test.run(&source)));
        all_pass &= tested
            .as_ref()
            .is_ok_and(|queues| queues.iter().all(QueueAgreement::passed));
        let took = begun.elapsed().as_secs_f64();
        bar.inc(1);
        match (tested, flags.json) {
            (Ok(queues), true) => results.push(as_json(file, &queues, took)),
            (Ok(queues), false) => bar.suspend(|| print(file, &queues))?,
            (Err(error), true) => {
                results.push(json!({"file": file, "passed": false, "error": error.to_string()}))
            }
            (Err(error), false) => bar.suspend(|| output::complain(format_args!("error: {error}"))),
        }
    }
    bar.finish_and_clear();
    if flags.json {
        output::json(Value::from(results))?;
    }
    Ok(output::status(all_pass))
}

fn print(file: &Path, queues: &[QueueAgreement]) -> Result<()> {
    let count = |passed| queues.iter().filter(|it| it.passed() == passed).count();
    let file = file.display();
    say!(
        "{file}: {} passed, {} failed",
        output::count(count(true), "queue"),
        count(false)
    )?;
    for queue in queues.iter().filter(|queue| !queue.passed()) {
        let name = &queue.name;
        match (&queue.agreement, queue.first) {
            (None, _) => say!(
                "  {name}: another number of entries than {}",
                queue.shape[0]
            )?,
            (Some(found), Some(([entry, t, row, column], expected, value))) => say!(
                "  {name}: {:.4} of a group close, correlation {:.6}; first at entry {entry}, t {t}, \
                 row {row}, column {column}: expected {expected}, found {value}",
                found.close,
                found.correlation
            )?,
            (Some(found), None) => say!("  {name}: correlation {:.6}", found.correlation)?,
        }
    }
    Ok(())
}

fn as_json(file: &Path, queues: &[QueueAgreement], seconds: f64) -> Value {
    let queue = |queue: &QueueAgreement| {
        let agreement = queue.agreement.as_ref();
        json!({
            "name": queue.name, "shape": queue.shape, "passed": queue.passed(),
            "close": agreement.map(|it| it.close),
            "correlation": agreement.map(|it| it.correlation),
            "largest": agreement.map(|it| it.largest),
            "first": queue.first.map(|(place, expected, found)| {
                json!({"place": place, "expected": expected, "found": found})
            }),
        })
    };
    let passed = queues.iter().all(QueueAgreement::passed);
    let queues: Vec<Value> = queues.iter().map(queue).collect();
    json!({"file": file, "passed": passed, "seconds": seconds, "queues": queues})
}
