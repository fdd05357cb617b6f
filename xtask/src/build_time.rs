//! `cargo xtask build-time`: the processor time of the README's first build, by crate.
//!
//! Absolute times depend on the machine, so the committed figure is a ratio: the time of Tenon's crates
//! divided by that of the external crates, whose versions are locked.

use crate::{Result, cargo, root, run, target};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, ExitCode};
use std::time::Instant;

/// The log file, set in the environment of the processes that cargo starts in place of the compiler.
const LOG_VARIABLE: &str = "TENON_BUILD_LOG";

/// The committed figure.
const FIGURE: &str = "xtask/build-time.txt";

/// The growth above which a commit needs a new figure and a reason.
const GROWTH: f64 = 1.05;

/// The number of crates in the table.
const LISTED: usize = 15;

/// Options of `cargo xtask build-time`.
#[derive(clap::Args)]
pub struct Options {
    /// Write the figure for the comparison of later runs; the commit has the reason of its growth.
    #[arg(long, conflicts_with = "report")]
    write: bool,
    /// Print the times without the comparison, for a machine with other work.
    #[arg(long)]
    report: bool,
}

/// Processor seconds by crate.
struct Times {
    own: BTreeMap<String, f64>,
    external: BTreeMap<String, f64>,
}

impl Times {
    /// Parses lines of the form `SECONDS NAME`.
    fn parse(log: &str) -> Self {
        let mut times = Self {
            own: BTreeMap::new(),
            external: BTreeMap::new(),
        };
        for line in log.lines() {
            let Some((seconds, name)) = line.split_once(' ') else {
                continue;
            };
            // Cargo first compiles nothing, under this name, to query the compiler.
            if name == "___" {
                continue;
            }
            let is_own = name.starts_with("tenon");
            let side = if is_own {
                &mut times.own
            } else {
                &mut times.external
            };
            *side.entry(name.to_owned()).or_default() += seconds.parse().unwrap_or(0.0);
        }
        times
    }

    /// The time of Tenon's crates divided by that of the external crates.
    fn ratio(&self) -> f64 {
        let sum = |side: &BTreeMap<String, f64>| side.values().sum::<f64>();
        sum(&self.own) / sum(&self.external).max(f64::MIN_POSITIVE)
    }

    /// The slowest crates, and the sums.
    fn table(&self) -> String {
        let mut all: Vec<_> = self.own.iter().chain(&self.external).collect();
        all.sort_by(|one, other| other.1.total_cmp(one.1));
        let mut text = String::new();
        for (name, seconds) in all.iter().take(LISTED) {
            text += &format!("{seconds:8.1} s  {name}\n");
        }
        let (own, external) = (self.own.values(), self.external.values());
        text + &format!(
            "{:8.1} s  {} crates of Tenon\n{:8.1} s  {} external crates\n",
            own.clone().sum::<f64>(),
            own.len(),
            external.clone().sum::<f64>(),
            external.len(),
        )
    }
}

/// Builds `tenon` in release mode from an empty target folder and compares the ratio with the figure.
pub fn build_time(options: &Options) -> Result<()> {
    let log = target().join("build-time.log");
    let _ = std::fs::remove_file(&log);
    let itself = std::env::current_exe().map_err(|error| error.to_string())?;
    let mut clean = cargo();
    run(clean.args(["clean", "--quiet", "--release"]))?;
    let start = Instant::now();
    let mut build = cargo();
    build.args(["build", "--release", "--quiet"]);
    run(build.env("RUSTC_WRAPPER", itself).env(LOG_VARIABLE, &log))?;
    let text = std::fs::read_to_string(&log)
        .map_err(|error| format!("cannot read {}: {error}", log.display()))?;
    let times = Times::parse(&text);
    let ratio = times.ratio();
    print!("{}", times.table());
    println!(
        "ratio: {ratio:.2}, wall time {:.0} s",
        start.elapsed().as_secs_f64()
    );
    let figure = root().join(FIGURE);
    if options.write {
        return std::fs::write(&figure, format!("{ratio:.2}\n"))
            .map_err(|error| format!("cannot write {FIGURE}: {error}"));
    }
    if options.report {
        return Ok(());
    }
    let committed = std::fs::read_to_string(&figure).map_err(|e| format!("{FIGURE}: {e}"))?;
    let committed: f64 = committed
        .trim()
        .parse()
        .map_err(|e| format!("{FIGURE}: {e}"))?;
    if ratio > committed * GROWTH {
        return Err(format!(
            "the build time of Tenon's crates grew by more than 5 %: ratio {ratio:.2}, committed \
             {committed:.2}; find the cause, or run `cargo xtask build-time --write` and commit \
             {FIGURE} with the reason"
        ));
    }
    Ok(())
}

/// Runs the compiler and logs its time, if cargo started this process as `RUSTC_WRAPPER`.
pub fn as_compiler() -> Option<ExitCode> {
    let log = std::env::var_os(LOG_VARIABLE)?;
    let mut arguments = std::env::args_os().skip(1);
    let compiler = arguments.next()?;
    let arguments: Vec<OsString> = arguments.collect();
    let status = Command::new(compiler).args(&arguments).status();
    let name = arguments
        .iter()
        .skip_while(|argument| *argument != "--crate-name")
        .nth(1);
    if let Some(name) = name {
        let line = format!("{:.2} {}\n", children_seconds(), name.to_string_lossy());
        let file = OpenOptions::new().create(true).append(true).open(log);
        let _ = file.and_then(|mut file| file.write_all(line.as_bytes()));
    }
    let code = status.ok().and_then(|status| status.code());
    Some(ExitCode::from(code.unwrap_or(1) as u8))
}

/// Processor seconds of the terminated child processes; 0 if `/proc` is unavailable.
fn children_seconds() -> f64 {
    /// Clock ticks per second in `/proc`, the same on every Linux.
    const TICKS: f64 = 100.0;
    let text = std::fs::read_to_string(Path::new("/proc/self/stat")).unwrap_or_default();
    // The second field, the program's name, may contain spaces; it ends with the last parenthesis.
    let fields = text.rsplit(')').next().unwrap_or_default();
    let ticks = fields.split_whitespace().skip(13).take(2);
    ticks
        .filter_map(|ticks| ticks.parse::<f64>().ok())
        .sum::<f64>()
        / TICKS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_summed_by_crate_and_side() {
        let times = Times::parse("1.50 tenon_base\n0.50 tenon_base\n4.00 serde\nnoise\n");
        assert_eq!(times.own["tenon_base"], 2.0);
        assert_eq!(times.ratio(), 0.5);
        assert!(times.table().starts_with("     4.0 s  serde\n"));
    }

    #[test]
    fn the_time_of_children_grows() {
        let before = children_seconds();
        let mut work = Command::new("sh");
        work.args(["-c", "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done"]);
        assert!(work.status().unwrap().success());
        assert!(children_seconds() > before);
    }
}
