//! The hardware: one device, its cores, its memory.

use std::path::PathBuf;
use tenon_base::Result;
use tenon_runtime::{core_owner, logical_core_size, total_cores, watched_folders};

/// This machine in the model of the accelerator's tools: one device with virtual cores.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Machine {
    /// The processor's name.
    pub processor: String,
    /// Its host name.
    pub host: String,
    /// The number of virtual cores.
    pub cores: u32,
    /// Machine cores of each virtual core.
    pub logical_size: u32,
    /// Bytes of memory.
    pub memory: u64,
    /// Ids of the CPUs as ranges.
    pub cpus: String,
    /// The folders of locks and reports.
    pub folders: Vec<PathBuf>,
}

impl Machine {
    /// This machine.
    pub fn this() -> Result<Self> {
        let info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let text = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
        Ok(Self {
            processor: processor(&info),
            host: text("/proc/sys/kernel/hostname").trim().to_owned(),
            cores: total_cores()?,
            logical_size: logical_core_size()?,
            memory: crate::system::Memory::now().total,
            cpus: text("/sys/devices/system/cpu/online").trim().to_owned(),
            folders: watched_folders(),
        })
    }

    /// The process that owns a virtual core, or a machine core of it.
    pub fn owner(&self, core: u32) -> Option<u32> {
        let mut parts = core * self.logical_size..(core + 1) * self.logical_size;
        let owner = |part| {
            self.folders
                .iter()
                .find_map(|folder| core_owner(folder, part))
        };
        parts.find_map(owner)
    }
}

/// The name of the first processor; if the system reports none, the architecture.
fn processor(info: &str) -> String {
    let name = info.lines().find_map(|line| {
        let (key, value) = line.split_once(':')?;
        (key.trim() == "model name").then(|| value.trim().to_owned())
    });
    name.unwrap_or_else(|| std::env::consts::ARCH.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_processor_has_a_name() {
        assert_eq!(
            processor("processor\t: 0\nmodel name\t: Some CPU @ 2 GHz\n"),
            "Some CPU @ 2 GHz"
        );
        assert_eq!(processor(""), std::env::consts::ARCH);
    }

    #[test]
    fn this_machine_has_memory() {
        assert!(Machine::this().unwrap().memory > 1 << 20);
    }
}
