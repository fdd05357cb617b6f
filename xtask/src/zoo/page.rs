//! docs/coverage.md: which models of the list compile and agree with onnxruntime.

use super::{Comparison, Listed, Options};
use crate::bench::{self, time};
use crate::markdown;
use std::collections::BTreeSet;
use std::fmt::Write;

/// The least share of the models that onnxruntime runs.
const TARGET: f64 = 0.98;

type Results = [(Listed, Comparison)];

/// A row for each source of models, then one for all.
pub fn summary(results: &Results) -> String {
    let mut sources: Vec<&str> = Vec::new();
    for (model, _) in results {
        if sources.last() != Some(&model.source.as_str()) {
            sources.push(&model.source);
        }
    }
    let rows = sources.into_iter().map(|source| {
        let of_source = |(model, _): &&(Listed, Comparison)| model.source == source;
        row(source, results.iter().filter(of_source))
    });
    markdown::table(
        "source | models | exported | onnxruntime runs | compile | agree | share | time ÷ onnxruntime",
        rows.chain([row("all", results.iter())]),
    )
}

fn row<'a>(title: &str, results: impl Iterator<Item = &'a (Listed, Comparison)> + Clone) -> String {
    let count = |is: fn(&Comparison) -> bool| results.clone().filter(|(_, one)| is(one)).count();
    let comparable = count(Comparison::is_comparable);
    let agree = count(Comparison::agrees);
    let logs = results
        .clone()
        .filter_map(|(_, one)| one.ratio())
        .map(f64::ln);
    let measured = logs.clone().count();
    let mean = (logs.sum::<f64>() / measured as f64).exp();
    let ratio = if measured > 0 {
        format!("{mean:.2}")
    } else {
        "–".into()
    };
    let share = if comparable > 0 {
        format!("{:.1} %", 100.0 * agree as f64 / comparable as f64)
    } else {
        "–".into()
    };
    format!(
        "{title} | {} | {} | {comparable} | {} | {agree} | {share} | {ratio}",
        results.clone().count(),
        count(|one| one.export.is_none()),
        count(Comparison::compiles),
    )
}

/// The whole page.
pub fn page(results: &Results, options: &Options) -> String {
    let comparable = results
        .iter()
        .filter(|(_, one)| one.is_comparable())
        .count();
    let agree = results.iter().filter(|(_, one)| one.agrees()).count();
    let share = agree as f64 / comparable.max(1) as f64;
    let mut text = format!(
        "# Coverage\n\n\
         Which models compile and agree with onnxruntime. Made by `cargo xtask zoo --write` from the list in \
         [models/zoo.txt](../models/zoo.txt), which was made before the work; no model leaves it. A run of some models leaves the rows of the others \
         ([coverage.jsonl](coverage.jsonl) has all results with their dates). Date {}, CPU {}, {} thread{}.\n\n\
         `models/zoo/export.py` exports the models with random weights. A model agrees if every number of f32 differs from \
         {}'s without optimisations by at most 0.001 of the greatest magnitude of its output (0.005 with weights of half precision), by twice what \
         onnxruntime's results with and without its optimisations differ, or by a quarter of what those of a quantised model \
         differ from those of the model that it was made of, and all other values are equal. Times are medians \
         of calls from Python with NumPy arrays; the last column is a geometric mean of the ratios.\n\n{}\n\
         Target: {:.0} % of the models that onnxruntime runs compile and agree. Met: {}.\n",
        distinct(results, |one| &one.date),
        distinct(results, |one| &one.cpu),
        options.threads,
        if options.threads == 1 { "" } else { "s" },
        bench::ONNXRUNTIME.name,
        summary(results),
        TARGET * 100.0,
        if share >= TARGET { "yes" } else { "**no**" },
    );
    list(&mut text, "Failures", results, |one| {
        one.tenon
            .as_ref()
            .or(one.differs.as_ref())
            .map(String::as_str)
    });
    list(
        &mut text,
        "Models that onnxruntime does not run",
        results,
        |one| one.onnxruntime.as_deref(),
    );
    list(&mut text, "Models that are not exported", results, |one| {
        one.export.as_deref()
    });
    let rows = results.iter().filter_map(|(model, one)| {
        let ratio = one.ratio()?;
        let others: Vec<String> = one
            .others
            .iter()
            .map(|(operator, count)| format!("{count} {operator}"))
            .collect();
        let others = if others.is_empty() {
            "–".into()
        } else {
            others.join(", ")
        };
        Some(format!(
            "{} {} | {} | {:.1e} | {} | {} | {ratio:.2} | {others}",
            model.source,
            model.name,
            one.nodes,
            one.difference,
            time(one.tenon_us),
            time(one.onnxruntime_us),
        ))
    });
    let table = markdown::table(
        "model | nodes | largest difference | Tenon | onnxruntime | ratio | nodes not on CpuAcc",
        rows,
    );
    format!("{text}\n## Models that run\n\n{table}")
}

/// The texts that results have, in order.
fn distinct(results: &Results, text: fn(&Comparison) -> &str) -> String {
    let texts: BTreeSet<&str> = results.iter().map(|(_, one)| text(one)).collect();
    let texts: Vec<&str> = texts.into_iter().filter(|text| !text.is_empty()).collect();
    texts.join(" and ")
}

/// A section with the models that have a reason.
fn list(
    text: &mut String,
    title: &str,
    results: &Results,
    reason: fn(&Comparison) -> Option<&str>,
) {
    let _ = writeln!(text, "\n## {title}\n");
    let before = text.len();
    for (model, one) in results {
        if let Some(reason) = reason(one) {
            let reason = reason.replace('|', "\\|");
            let _ = writeln!(text, "* {} {}: {reason}", model.source, model.name);
        }
    }
    if text.len() == before {
        *text += "None.\n";
    }
}
