//! How fast netlists are checked and run.

use super::{cpu, date};
use crate::{Result, cargo, output};

/// The section of the page: checking beside other parsers, running beside the ceiling.
pub fn section() -> Result<String> {
    let bench = |package: &str, name: &str| {
        let mut command = cargo();
        command.args(["bench", "--quiet", "--package", package, "--bench", name]);
        output(&mut command)
    };
    let checking = bench("tenon-netlist", "checking")?;
    let running = bench("tenon", "netlist_run")?;
    Ok(format!(
        "Made by `cargo xtask bench --netlist --write`. Date {}, CPU {}. Of each figure the best run; the \
         samples are those of the folder that `TENON_EXTRA_DATA` names.\n\n\
         Checking, on one core; the others only parse, and are not timed with what they refuse.\n\n\
         {checking}\n{running}",
        date()?,
        cpu()
    ))
}
