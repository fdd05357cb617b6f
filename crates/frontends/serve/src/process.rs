//! What the system says about this process: proc_pid_stat(5), proc_pid_limits(5).

use std::fs;
use std::time::{SystemTime, UNIX_EPOCH};

/// The use of resources at one time.
#[derive(Debug, Clone, PartialEq)]
pub struct Process {
    /// Memory in use.
    pub resident_bytes: u64,
    /// Address space in use.
    pub virtual_bytes: u64,
    /// Time of the CPU, in user code and in the system.
    pub cpu_seconds: f64,
    /// The start in seconds since 1970.
    pub start_seconds: f64,
    /// Open files.
    pub open_files: u64,
    /// The most open files; infinite without a limit.
    pub max_files: f64,
    /// Threads.
    pub threads: u64,
}

/// Ticks of times in /proc, which is 100 on all architectures of Linux that Tenon has.
const TICKS: f64 = 100.0;

impl Process {
    /// The use now; `None` where /proc is not mounted.
    pub fn now() -> Option<Self> {
        let status = fs::read_to_string("/proc/self/status").ok()?;
        let kilobytes = |name: &str| Some(field(&status, name)?.parse::<u64>().ok()? << 10);
        let stat = fs::read_to_string("/proc/self/stat").ok()?;
        // The name of the program may have spaces and parentheses.
        let (_, stat) = stat.rsplit_once(')')?;
        let stat: Vec<&str> = stat.split_ascii_whitespace().collect();
        // Field 3 of the page is the first one after the name.
        let ticks = |number: usize| stat.get(number - 3)?.parse::<f64>().ok();
        let up = fs::read_to_string("/proc/uptime").ok()?;
        let up: f64 = up.split(' ').next()?.parse().ok()?;
        let now = SystemTime::now().duration_since(UNIX_EPOCH).ok()?;
        let limits = fs::read_to_string("/proc/self/limits").ok()?;
        let files = limits
            .lines()
            .find(|line| line.starts_with("Max open files"))?;
        let files = files.split_ascii_whitespace().nth(3)?;
        Some(Self {
            resident_bytes: kilobytes("VmRSS:")?,
            virtual_bytes: kilobytes("VmSize:")?,
            cpu_seconds: (ticks(14)? + ticks(15)?) / TICKS,
            start_seconds: now.as_secs_f64() - up + ticks(22)? / TICKS,
            open_files: fs::read_dir("/proc/self/fd").ok()?.count() as u64,
            max_files: files.parse().unwrap_or(f64::INFINITY),
            threads: field(&status, "Threads:")?.parse().ok()?,
        })
    }
}

/// The first word after a name at the start of a line.
fn field<'a>(status: &'a str, name: &str) -> Option<&'a str> {
    let mut lines = status.lines();
    lines
        .find_map(|line| line.strip_prefix(name))?
        .split_ascii_whitespace()
        .next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resources_of_this_process() {
        let some = vec![1_u8; 32 << 20];
        let process = Process::now().unwrap();
        assert!(process.resident_bytes >= some.len() as u64, "{process:?}");
        assert!(process.virtual_bytes >= process.resident_bytes);
        assert!(process.open_files >= 3 && process.max_files >= process.open_files as f64);
        assert!(process.threads >= 1);
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        let age = now.as_secs_f64() - process.start_seconds;
        assert!((0.0..3600.0).contains(&age), "{process:?}");
    }
}
