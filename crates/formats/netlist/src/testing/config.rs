//! The section `test-config` (netlist 6.8), and the default params of programs.

use super::comparison::Comparison;
use super::fields;
use super::stimulus::Stimulus;
use crate::netlist::Netlist;
use crate::yaml::Node;
use crate::{Finding, Findings, Rule};
use regex_lite::Regex;

/// The test configuration of a netlist.
#[derive(Debug, Clone, Default)]
pub struct TestConfig {
    /// Arguments by name.
    pub arguments: Vec<(String, String)>,
    /// The input queues.
    pub inputs: Vec<String>,
    /// The output queues.
    pub outputs: Vec<String>,
    stimulus: QueueConfig<Stimulus>,
    comparison: QueueConfig<Comparison>,
}

/// A default with overrides by queue.
#[derive(Debug, Clone, Default)]
struct QueueConfig<T> {
    default: T,
    overrides: Vec<(String, Option<Regex>, T)>,
}

impl<T> QueueConfig<T> {
    /// The override for the name, else for the name without the device suffix of a replica
    /// (netlist 6.5), else the default.
    fn of(&self, name: &str) -> &T {
        let found = self.overriding(name).or_else(|| {
            let (base, _) = name.rsplit_once('.')?;
            self.overriding(base)
        });
        found.unwrap_or(&self.default)
    }

    /// The override of the name, else the first whose pattern matches the whole name.
    fn overriding(&self, name: &str) -> Option<&T> {
        let exact = self.overrides.iter().find(|(key, ..)| key == name);
        let found = exact.or_else(|| {
            let matches = |pattern: &Regex| {
                let found = pattern.find(name);
                found.is_some_and(|found| found.range() == (0..name.len()))
            };
            self.overrides
                .iter()
                .find(|(_, pattern, _)| pattern.as_ref().is_some_and(matches))
        });
        found.map(|(_, _, value)| value)
    }

    /// Reads a block with optional `overrides`, whose missing keys have the default values.
    fn read(node: &Node, findings: &mut Findings, read: ReadBlock<T>) -> Self
    where
        T: Default,
    {
        let mut config = Self {
            default: read(node, findings),
            overrides: Vec::new(),
        };
        let maps = fields::entries(node).filter(|(key, _)| *key == "overrides");
        for (name, node) in maps.flat_map(|(_, node)| fields::entries(node)) {
            let value = read(node, findings);
            // A name that is not a valid pattern matches literally only.
            let pattern = Regex::new(name).ok();
            config.overrides.push((name.to_owned(), pattern, value));
        }
        config
    }
}

type ReadBlock<T> = fn(&Node, &mut Findings) -> T;

impl TestConfig {
    /// Reads the section. Unknown keys and invalid values are reported; defaults replace them.
    pub fn read(netlist: &Netlist) -> (Self, Findings) {
        let (mut config, mut findings) = (Self::default(), Findings::default());
        let Some(section) = fields::section(netlist, "test-config") else {
            return (config, findings);
        };
        for (key, node) in fields::entries(section) {
            match key {
                "test-args" => {
                    let text = |(key, node): (&str, &Node)| {
                        Some((key.to_owned(), node.text()?.to_owned()))
                    };
                    config.arguments = fields::entries(node).filter_map(text).collect();
                }
                "io-config" => {
                    for (key, node) in fields::entries(node) {
                        match key {
                            "inputs" => config.inputs = fields::texts(node),
                            "outputs" => config.outputs = fields::texts(node),
                            _ => fields::unknown(key, node, &mut findings),
                        }
                    }
                }
                "stimulus-config" => {
                    config.stimulus = QueueConfig::read(node, &mut findings, Stimulus::read);
                }
                "comparison-config" => {
                    config.comparison = QueueConfig::read(node, &mut findings, Comparison::read);
                }
                _ => fields::unknown(key, node, &mut findings),
            }
        }
        (config, findings)
    }

    /// The stimulus of a queue.
    pub fn stimulus(&self, queue: &str) -> &Stimulus {
        self.stimulus.of(queue)
    }

    /// The comparison of a queue.
    pub fn comparison(&self, queue: &str) -> &Comparison {
        self.comparison.of(queue)
    }

    /// Whether a queue, or the queue of which it is a replica, is an output.
    pub fn is_output(&self, queue: &str) -> bool {
        let base = queue.rsplit_once('.').map_or(queue, |(base, _)| base);
        self.outputs
            .iter()
            .any(|name| name == queue || name == base)
    }

    /// An argument as an integer.
    pub fn argument(&self, name: &str) -> Option<i64> {
        let (_, text) = self.arguments.iter().rev().find(|(key, _)| key == name)?;
        text.trim().parse().ok()
    }

    /// The default value of a param: `$p_microbatch_count` and `$p_loop_count` are the argument
    /// microbatch_count or 1, `$p_microbatch_size` is the argument or the largest input_count; others
    /// are the argument of their name, else 0 if the name contains incr, write or read, else 1.
    pub fn param(&self, netlist: &Netlist, name: &str) -> i64 {
        let short = name.trim_start_matches('$').trim_start_matches("p_");
        let argument = |name| self.argument(name);
        match short {
            "microbatch_count" | "loop_count" => argument("microbatch_count").unwrap_or(1),
            "microbatch_size" => argument(short).unwrap_or_else(|| {
                let counts = netlist.graphs.iter().map(|graph| graph.input_count.value);
                counts.max().map_or(1, i64::from)
            }),
            _ => argument(short).unwrap_or_else(|| {
                let moves = ["incr", "write", "read"];
                i64::from(!moves.iter().any(|part| name.contains(part)))
            }),
        }
    }
}

/// The findings of the section.
pub(crate) fn check(netlist: &Netlist) -> Findings {
    let (config, mut findings) = TestConfig::read(netlist);
    let known = |name: &String| {
        let base = name
            .rsplit_once('.')
            .map_or(name.as_str(), |(base, _)| base);
        let is = |queue: &crate::Queue| queue.name.value == *name || queue.name.value == base;
        netlist.queues.iter().any(is)
    };
    let unknown: Vec<_> = config
        .inputs
        .iter()
        .chain(&config.outputs)
        .filter(|name| !known(name))
        .collect();
    if let (Some(section), false) = (fields::section(netlist, "test-config"), unknown.is_empty()) {
        for name in unknown {
            let message = format!("io-config names '{name}', which is not a queue");
            findings.push(Finding::new(
                Rule::TestConfig,
                section.span.first(),
                message,
            ));
        }
    }
    findings
}
