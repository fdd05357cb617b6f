//! Counters of the system: processors, memory, processes (proc(5)).

use std::collections::BTreeMap;

/// Ticks of one processor, or of all, by state.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CpuTicks {
    /// User mode.
    pub user: u64,
    /// User mode with low priority.
    pub nice: u64,
    /// System mode.
    pub system: u64,
    /// Idle.
    pub idle: u64,
    /// Waiting for a disk.
    pub io_wait: u64,
    /// Interrupts.
    pub irq: u64,
    /// Deferred work of interrupts.
    pub soft_irq: u64,
}

impl CpuTicks {
    fn parse<'a>(mut fields: impl Iterator<Item = &'a str>) -> Self {
        let mut next = || {
            fields
                .next()
                .and_then(|field| field.parse().ok())
                .unwrap_or(0)
        };
        Self {
            user: next(),
            nice: next(),
            system: next(),
            idle: next(),
            io_wait: next(),
            irq: next(),
            soft_irq: next(),
        }
    }

    /// Every count by its name.
    pub fn named(self) -> [(&'static str, u64); 7] {
        [
            ("user", self.user),
            ("nice", self.nice),
            ("system", self.system),
            ("idle", self.idle),
            ("io_wait", self.io_wait),
            ("irq", self.irq),
            ("soft_irq", self.soft_irq),
        ]
    }

    /// Percent of the time since `earlier`, by name.
    pub fn percent_since(self, earlier: Self) -> BTreeMap<&'static str, f64> {
        let pairs = self.named().into_iter().zip(earlier.named());
        let spent = pairs.map(|((name, now), (_, before))| (name, now.saturating_sub(before)));
        let spent: Vec<(&str, u64)> = spent.collect();
        let all: u64 = spent.iter().map(|(_, ticks)| ticks).sum();
        let percent = |ticks: u64| ticks as f64 / all.max(1) as f64 * 100.0;
        spent
            .into_iter()
            .map(|(name, ticks)| (name, percent(ticks)))
            .collect()
    }

    /// All ticks.
    pub fn sum(self) -> u64 {
        self.named().iter().map(|(_, ticks)| ticks).sum()
    }
}

/// `/proc/stat`
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Processors {
    /// The sum of all.
    pub all: CpuTicks,
    /// Each processor.
    pub each: Vec<CpuTicks>,
    /// Context switches.
    pub switches: u64,
}

impl Processors {
    /// The current counters.
    pub fn now() -> Self {
        Self::parse(&read("/proc/stat"))
    }

    fn parse(text: &str) -> Self {
        let mut processors = Self::default();
        for line in text.lines() {
            let mut fields = line.split_whitespace();
            match fields.next() {
                Some("cpu") => processors.all = CpuTicks::parse(fields),
                Some("ctxt") => {
                    let count = fields.next().and_then(|count| count.parse().ok());
                    processors.switches = count.unwrap_or(0);
                }
                Some(name) if name.starts_with("cpu") => {
                    processors.each.push(CpuTicks::parse(fields));
                }
                _ => {}
            }
        }
        processors
    }
}

/// `/proc/meminfo`, in bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Memory {
    /// Total memory.
    pub total: u64,
    /// Memory that is not available.
    pub used: u64,
    /// Total swap space.
    pub swap_total: u64,
    /// Swap space in use.
    pub swap_used: u64,
}

impl Memory {
    /// The current values.
    pub fn now() -> Self {
        Self::parse(&read("/proc/meminfo"))
    }

    fn parse(text: &str) -> Self {
        let bytes = |name: &str| -> u64 {
            let line = text.lines().find_map(|line| line.strip_prefix(name));
            let kilobytes = line.and_then(|rest| rest.split_whitespace().next()?.parse().ok());
            kilobytes.unwrap_or(0u64).saturating_mul(1024)
        };
        let (total, swap_total) = (bytes("MemTotal:"), bytes("SwapTotal:"));
        Self {
            total,
            used: total.saturating_sub(bytes("MemAvailable:")),
            swap_total,
            swap_used: swap_total.saturating_sub(bytes("SwapFree:")),
        }
    }
}

/// `/proc/PID`
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Process {
    /// Its command line.
    pub command: String,
    /// Ticks in user mode.
    pub user: u64,
    /// Ticks in system mode.
    pub system: u64,
    /// Resident memory in bytes.
    pub resident: u64,
}

impl Process {
    /// The current values; all zero if it has exited.
    pub fn now(pid: u32) -> Self {
        let file = |name: &str| read(&format!("/proc/{pid}/{name}"));
        let resident = Memory::parse(&file("status").replace("VmRSS:", "MemTotal:")).total;
        Self {
            resident,
            ..Self::parse(&file("stat"), &file("cmdline"))
        }
    }

    fn parse(stat: &str, command: &str) -> Self {
        // The name in parentheses may hold anything: the third field is the first behind it.
        let fields = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
        let field = |number: usize| {
            let field = fields.split_whitespace().nth(number - 3);
            field.and_then(|field| field.parse().ok()).unwrap_or(0)
        };
        Self {
            command: command.trim_end_matches('\0').replace('\0', " "),
            user: field(14),
            system: field(15),
            resident: 0,
        }
    }
}

fn read(path: &str) -> String {
    std::fs::read(path).map_or_else(
        |_| String::new(),
        |bytes| String::from_utf8_lossy(&bytes).into_owned(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn proc_stat_is_parsed() {
        let text = "cpu  10 1 5 80 2 1 1 0 0 0\ncpu0 4 1 2 40 1 1 1 0\ncpu1 6 0 3 40 1 0 0 0\n\
                    intr 1 2\nctxt 99\n";
        let earlier = Processors::parse(text);
        assert_eq!(earlier.each.len(), 2);
        assert_eq!(
            (earlier.each[1].user, earlier.all.idle, earlier.switches),
            (6, 80, 99)
        );
        let later = Processors::parse("cpu 40 1 15 140 2 1 1\n");
        let percent = later.all.percent_since(earlier.all);
        assert_eq!(
            (percent["user"], percent["system"], percent["idle"]),
            (30.0, 10.0, 60.0)
        );
        assert_eq!(earlier.all.percent_since(earlier.all)["user"], 0.0);
    }

    #[test]
    fn proc_meminfo_is_parsed_in_bytes() {
        let text = "MemTotal:  1000 kB\nMemFree: 1 kB\nMemAvailable: 400 kB\nSwapTotal: 8 kB\nSwapFree: 2 kB\n";
        let expected = Memory {
            total: 1_024_000,
            used: 614_400,
            swap_total: 8192,
            swap_used: 6144,
        };
        assert_eq!(Memory::parse(text), expected);
        assert_eq!(Memory::parse(""), Memory::default());
    }

    #[test]
    fn process_names_may_contain_any_characters() {
        let stat = "12 (a) b) (c) S 1 2 3 4 5 6 7 8 9 10 70 30 0 0 20 0";
        let process = Process::parse(stat, "prog\0--flag\0x y\0");
        assert_eq!((process.user, process.system), (70, 30));
        assert_eq!(process.command, "prog --flag x y");
        assert_eq!(Process::parse("", ""), Process::default());
        assert!(Process::now(std::process::id()).resident > 0);
    }
}
