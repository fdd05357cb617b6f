//! The time of checking netlists and the rates of running them.

use super::{made, tables};
use crate::Result;

/// The section of the page: the checker compared with YAML parsers, execution with the CPU's ceiling.
pub fn section() -> Result<String> {
    let checking = tables("tenon-netlist", "checking")?;
    let running = tables("tenon", "netlist_run")?;
    Ok(format!(
        "{}. Figures are those of the best \
         run; the samples are in the folder of `TENON_EXTRA_DATA`.\n\n\
         Checking, on one core. The other parsers only parse, and are not timed on files that they reject.\n\n\
         {checking}\n{running}",
        made("--netlist --write")?
    ))
}
