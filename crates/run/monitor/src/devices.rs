//! The devices of this machine, as `neuron-ls` lists them (nrt 2.1).

use crate::Machine;
use crate::system::Process;
use serde_json::{Value, json};
use tenon_base::{Count, escape_controls, format_bytes as bytes};
use tenon_runtime::ProcessReport;

/// The one device, and the processes that own cores of it.
#[derive(Debug, Clone)]
pub struct Devices {
    machine: Machine,
    /// The owner of each core.
    owners: Vec<Option<u32>>,
    /// Processes that own cores or publish a report.
    processes: Vec<ListedProcess>,
}

#[derive(Debug, Clone)]
struct ListedProcess {
    pid: u32,
    command: String,
    version: String,
    /// Whether it owns a core or has a loaded model.
    in_use: bool,
}

impl Devices {
    /// The current state.
    pub fn now(machine: Machine) -> Self {
        let owners: Vec<Option<u32>> = (0..machine.cores).map(|core| machine.owner(core)).collect();
        let reports = ProcessReport::read_all(&machine.folders);
        let mut pids: Vec<u32> = owners.iter().flatten().copied().collect();
        pids.extend(reports.iter().map(|report| report.pid));
        pids.sort_unstable();
        pids.dedup();
        let process = |pid: u32| {
            let report = reports.iter().find(|report| report.pid == pid);
            let version = report.map(|report| report.tenon_version.clone());
            let has_model = report.is_some_and(|report| !report.models.is_empty());
            ListedProcess {
                pid,
                command: Process::now(pid).command,
                version: version.unwrap_or_default(),
                in_use: has_model || owners.contains(&Some(pid)),
            }
        };
        let processes = pids.into_iter().map(process).collect();
        Self {
            processes,
            machine,
            owners,
        }
    }

    /// The header lines and the tables; `wide` does not truncate commands, `all` includes processes
    /// that neither own a core nor have a model.
    pub fn text(&self, wide: bool, all: bool) -> String {
        let mut text = format!(
            "instance-type: {}\ninstance-id: {}\nlogical-neuroncore-config: {}\n",
            escape_controls(&self.machine.processor),
            escape_controls(&self.machine.host),
            self.machine.logical_size
        );
        let device = [
            "0".to_owned(),
            self.machine.cores.to_string(),
            self.core_ids(),
            bytes(self.machine.memory),
            String::new(),
            "cpu".to_owned(),
            self.machine.cpus.clone(),
            "-1".to_owned(),
        ];
        let head = [
            ["NEURON", "DEVICE"],
            ["NEURON", "CORES"],
            ["NEURON", "CORE IDS"],
            ["NEURON", "MEMORY"],
            ["CONNECTED", "DEVICES"],
            ["PCI", "BDF"],
            ["CPU", "AFFINITY"],
            ["NUMA", "NODE"],
        ];
        framed(&mut text, &head, &[device]);
        const SHOWN: usize = 60;
        let shown = self.processes.iter();
        let shown = shown.filter(|process| all || process.in_use);
        let rows = shown.map(|process| {
            let command = escape_controls(&process.command);
            let command = if wide || command.chars().count() <= SHOWN {
                command.into_owned()
            } else {
                let start = command.chars().take(SHOWN - 3);
                start.chain("...".chars()).collect()
            };
            [
                self.cores_of(process.pid),
                process.pid.to_string(),
                command,
                escape_controls(&process.version).into_owned(),
            ]
        });
        let head = [
            ["NEURON", "CORES"],
            ["", "PID"],
            ["", "COMMAND"],
            ["TENON", "VERSION"],
        ];
        let rows: Vec<_> = rows.collect();
        if !rows.is_empty() {
            framed(&mut text, &head, &rows);
        }
        text
    }

    /// The topology: one device without neighbours.
    pub fn topology(&self) -> String {
        format!(
            "Neuron Device Topology\n    [ 0 ]  {}\n",
            Count(self.machine.cores, "core")
        )
    }

    /// The list that `neuron-ls --json-output` prints.
    pub fn json(&self) -> Value {
        let processes: Vec<Value> = self
            .processes
            .iter()
            .map(|process| {
                let ListedProcess {
                    pid,
                    command,
                    version,
                    ..
                } = process;
                json!({"pid": pid, "command": command, "neuron_runtime_version": version})
            })
            .collect();
        json!([{
            "neuron_device": 0,
            "bdf": "cpu",
            "cpu_affinity": self.machine.cpus,
            "numa_node": "-1",
            "connected_to": [],
            "nc_count": self.machine.cores,
            "logical_neuroncore_config": self.machine.logical_size,
            "memory_size": self.machine.memory,
            "neuroncore_ids": (0..self.machine.cores).collect::<Vec<_>>(),
            "neuron_processes": processes,
        }])
    }

    fn core_ids(&self) -> String {
        match self.machine.cores {
            1 => "0".to_owned(),
            cores => format!("0-{}", cores - 1),
        }
    }

    fn cores_of(&self, pid: u32) -> String {
        let cores = (0..).zip(&self.owners);
        let cores: Vec<String> = cores
            .filter(|(_, owner)| **owner == Some(pid))
            .map(|(core, _): (u32, _)| core.to_string())
            .collect();
        cores.join(",")
    }
}

/// A framed table in the format of the accelerator's tool: centred heads of two lines.
fn framed<const N: usize>(text: &mut String, head: &[[&str; 2]; N], rows: &[[String; N]]) {
    let width = |column: usize| {
        let cells = rows.iter().map(|row| row[column].chars().count());
        let heads = head[column].iter().map(|line| line.chars().count());
        cells.chain(heads).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..N).map(width).collect();
    let rule: Vec<String> = widths.iter().map(|width| "-".repeat(width + 2)).collect();
    let rule = format!("+{}+\n", rule.join("+"));
    let line = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
    let heads = (0..2).map(|row| {
        let cells = head.iter().zip(&widths);
        line(
            cells
                .map(|(cell, &width)| format!("{:^width$}", cell[row]))
                .collect(),
        )
    });
    let rows = rows.iter().map(|row| {
        let cells = row.iter().zip(&widths);
        line(
            cells
                .map(|(cell, &width)| format!("{cell:<width$}"))
                .collect(),
        )
    });
    text.push_str(&rule);
    text.extend(heads);
    text.push_str(&rule);
    text.extend(rows);
    text.push_str(&rule);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listed(pid: u32, command: &str, in_use: bool) -> ListedProcess {
        ListedProcess {
            pid,
            command: command.into(),
            version: "0.1.0".into(),
            in_use,
        }
    }

    fn devices() -> Devices {
        Devices {
            machine: Machine {
                processor: "Some CPU".into(),
                host: "here".into(),
                cores: 4,
                logical_size: 1,
                memory: 8_000_000_000,
                cpus: "0-3".into(),
                folders: Vec::new(),
            },
            owners: vec![Some(71), None, Some(71), None],
            processes: vec![
                listed(71, &"client ".repeat(12), true),
                listed(72, "idle", false),
                listed(73, "tenon bench", true),
            ],
        }
    }

    #[test]
    fn the_table_has_the_format_of_neuron_ls() {
        let text = devices().text(false, false);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "instance-type: Some CPU");
        assert_eq!(lines[2], "logical-neuroncore-config: 1");
        assert_eq!(
            &lines[3..8],
            [
                "+--------+--------+----------+--------+-----------+-----+----------+------+",
                "| NEURON | NEURON |  NEURON  | NEURON | CONNECTED | PCI |   CPU    | NUMA |",
                "| DEVICE | CORES  | CORE IDS | MEMORY |  DEVICES  | BDF | AFFINITY | NODE |",
                "+--------+--------+----------+--------+-----------+-----+----------+------+",
                "| 0      | 4      | 0-3      | 8.0 GB |           | cpu | 0-3      | -1   |",
            ]
        );
        assert!(
            lines[13].starts_with("| 0,2    | 71  | client client"),
            "{text}"
        );
        assert!(lines[13].contains("... |"), "{text}");
        // A process without cores that has a model.
        assert!(
            lines[14].starts_with("|        | 73  | tenon bench"),
            "{text}"
        );
        assert!(!devices().text(true, false).contains("..."));
        assert!(!text.contains("idle") && devices().text(false, true).contains("idle"));
    }

    #[test]
    fn control_characters_in_commands_are_escaped() {
        let mut devices = devices();
        devices.processes[0].command = "a\x1b[2J\nb".into();
        devices.processes[0].version = "0\u{9b}".into();
        let text = devices.text(false, false);
        assert!(text.contains("| a\\u{1b}[2J\\u{a}b |"), "{text}");
        assert!(text.contains("| 0\\u{9b} |"), "{text}");
        assert_eq!(
            devices.json()[0]["neuron_processes"][0]["command"],
            "a\x1b[2J\nb"
        );
    }

    #[test]
    fn the_json_has_the_keys_of_the_original() {
        let json = devices().json();
        let device = json[0].as_object().unwrap();
        let keys: Vec<&str> = device.keys().map(String::as_str).collect();
        // nrt 2.1
        assert_eq!(
            keys,
            [
                "neuron_device",
                "bdf",
                "cpu_affinity",
                "numa_node",
                "connected_to",
                "nc_count",
                "logical_neuroncore_config",
                "memory_size",
                "neuroncore_ids",
                "neuron_processes"
            ]
        );
        assert_eq!(device["neuroncore_ids"], json!([0, 1, 2, 3]));
        assert_eq!(device["neuron_processes"][0]["pid"], 71);
        assert!(devices().topology().contains("[ 0 ]  4 cores"));
    }

    #[test]
    fn one_core_is_singular() {
        let mut devices = devices();
        devices.machine.cores = 1;
        assert!(devices.topology().ends_with("[ 0 ]  1 core\n"));
    }
}
