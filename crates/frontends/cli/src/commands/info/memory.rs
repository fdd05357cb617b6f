//! `tenon info --memory`

use super::load;
use crate::flags::Info;
use crate::output::say;
use crate::table::{Table, bytes};
use tenon::inspect::{Contents, MemoryReport};
use tenon::{LoadOptions, Model, Package, Result, files};

/// The memory plan, for the sizes of the flags; its picture is written where the flags say.
pub fn report(flags: &Info, package: &Package, contents: &Contents) -> Result<MemoryReport> {
    let sizes = load::fixed_sizes(&flags.dims)?;
    let report = if sizes.is_empty() && !contents.tenon.is_symbolic() {
        MemoryReport::new(contents)?
    } else {
        let model = Model::from_package(package, &LoadOptions::default())?;
        let model = model
            .at(&sizes)
            .map_err(|error| error.help("give sizes with --dim NAME=N"))?;
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
