//! How fast netlists are checked and run.

use super::{cpu, date, tables};
use crate::Result;

/// The section of the page: checking beside other parsers, running beside the ceiling.
pub fn section() -> Result<String> {
    let checking = tables("tenon-netlist", "checking")?;
    let running = tables("tenon", "netlist_run")?;
    Ok(format!(
        "Made by `cargo xtask bench --netlist --write`. Date {}, CPU {}. Of each figure the best run; the \
         samples are those of the folder that `TENON_EXTRA_DATA` names.\n\n\
         Checking, on one core; the others only parse, and are not timed with what they refuse.\n\n\
         {checking}\n{running}",
        date()?,
        cpu()
    ))
}
