//! Descriptions of devices for the strict rules (netlist 7.3).

use crate::yaml::{Node, NodeKind, parse};
use crate::yaml_scalar::parse_integer;
use crate::{Finding, Rule, Source};
use tenon_tile::{Arch, Word};

/// The properties of a device that netlists depend on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Device {
    /// Its name.
    pub name: String,
    /// Its architecture.
    pub arch: Arch,
    /// Number of rows of worker cores.
    pub rows: u32,
    /// Number of columns of worker cores.
    pub columns: u32,
    /// Number of DRAM channels.
    pub channels: u32,
    /// Bytes per DRAM channel.
    pub channel_bytes: u64,
    /// Bytes of the L1 memory of a worker core.
    pub l1_bytes: u64,
    /// Number of Ethernet channels.
    pub ethernet: u32,
}

const GIB: u64 = 1 << 30;
/// Bytes of L1 memory on grayskull and on later architectures.
const L1: [u64; 2] = [1_048_576, 1_499_136];

/// Name, architecture, rows, columns, DRAM channels, GiB per channel.
const BUILT_IN: &[(&str, Arch, u32, u32, u32, u64)] = &[
    ("grayskull", Arch::Grayskull, 10, 12, 8, 1),
    ("wormhole", Arch::Wormhole, 10, 8, 6, 2),
    ("wormhole_b0", Arch::WormholeB0, 10, 8, 6, 2),
    ("wormhole_b0_harvested", Arch::WormholeB0, 9, 8, 6, 2),
    ("wormhole_b0_n300", Arch::WormholeB0, 8, 8, 6, 2),
    ("wormhole_b0_4x6", Arch::WormholeB0, 6, 4, 6, 2),
    ("wormhole_b0_1x1", Arch::WormholeB0, 1, 1, 6, 2),
    ("blackhole", Arch::Blackhole, 10, 8, 6, 2),
    ("blackhole_80", Arch::Blackhole, 10, 8, 6, 2),
    ("blackhole_8x10", Arch::Blackhole, 10, 8, 6, 2),
    ("blackhole_10x14", Arch::Blackhole, 10, 14, 8, 4),
];

impl Device {
    /// The built-in devices.
    pub fn built_in() -> Vec<Device> {
        let all = BUILT_IN.iter();
        all.map(|&(name, arch, rows, columns, channels, gib)| Device {
            name: name.to_owned(),
            arch,
            rows,
            columns,
            channels,
            channel_bytes: gib * GIB,
            l1_bytes: L1[usize::from(arch != Arch::Grayskull)],
            ethernet: match (arch, columns) {
                (Arch::Grayskull, _) => 0,
                (Arch::Blackhole, 14) => 14,
                _ => 16,
            },
        })
        .collect()
    }

    /// The built-in device of a name; the name of an architecture selects its standard device.
    pub fn find(name: &str) -> Option<Device> {
        let arch = Arch::from_word(name);
        let name = arch.map_or(name, |arch| arch.name());
        Self::built_in()
            .into_iter()
            .find(|device| device.name.eq_ignore_ascii_case(name))
    }

    /// Reads a device description: `arch_name`, `functional_workers` as `x-y`, `dram` with a list per
    /// channel, `dram_bank_size`, `worker_l1_size`, `eth` with a location per channel; other keys are
    /// ignored.
    pub fn read(source: &Source) -> Result<Device, Finding> {
        let root = parse(source)?.root;
        let missing = |key: &str, what: &str| {
            let message = format!("the device description has no {key}");
            Finding::new(Rule::MissingField, root.span.first(), message).expected(what)
        };
        let arch = field(&root, "arch_name")
            .and_then(Node::text)
            .and_then(Arch::from_word);
        let arch =
            arch.ok_or_else(|| missing("arch_name", &format!("one of {}", Arch::choices())))?;
        let workers = field(&root, "functional_workers")
            .and_then(list)
            .unwrap_or_default();
        let coordinates = workers.iter().filter_map(|node| {
            let (x, y) = node.text()?.split_once('-')?;
            Some((x.parse::<u32>().ok()?, y.parse::<u32>().ok()?))
        });
        let (mut columns, mut rows): (Vec<u32>, Vec<u32>) = coordinates.unzip();
        for coordinates in [&mut columns, &mut rows] {
            coordinates.sort_unstable();
            coordinates.dedup();
        }
        if rows.is_empty() {
            return Err(missing("functional_workers", "a list of cores, 'x-y'"));
        }
        let integer = |key: &str| {
            let value = parse_integer(field(&root, key).and_then(Node::text)?)?;
            u64::try_from(value).ok()
        };
        let channels = field(&root, "dram").and_then(list).unwrap_or_default();
        let size = "a number of bytes";
        Ok(Device {
            name: source.path().display().to_string(),
            arch,
            rows: rows.len() as u32,
            columns: columns.len() as u32,
            channels: channels.len() as u32,
            channel_bytes: integer("dram_bank_size")
                .ok_or_else(|| missing("dram_bank_size", size))?,
            l1_bytes: integer("worker_l1_size").ok_or_else(|| missing("worker_l1_size", size))?,
            ethernet: field(&root, "eth").and_then(list).unwrap_or_default().len() as u32,
        })
    }
}

fn field<'n>(node: &'n Node, key: &str) -> Option<&'n Node> {
    match &node.kind {
        NodeKind::Map(entries) => entries
            .iter()
            .rev()
            .find(|(name, _)| name.text() == Some(key))
            .map(|(_, value)| value),
        _ => None,
    }
}

fn list(node: &Node) -> Option<&[Node]> {
    match &node.kind {
        NodeKind::Sequence(nodes) => Some(nodes),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_description_is_read() {
        let text = "arch_name: wormhole_b0\nfunctional_workers: [1-1, 2-1, 1-2, 2-2, 1-3, 2-3]\n\
                    dram: [[0-0, 0-1], [5-0]]\ndram_bank_size: 2147483648\nworker_l1_size: 1499136\neth: [1-0, 2-0]\n";
        let device = Device::read(&Source::new("d.yaml", text)).unwrap();
        assert_eq!((device.rows, device.columns, device.channels), (3, 2, 2));
        assert_eq!((device.arch, device.ethernet), (Arch::WormholeB0, 2));
        let finding = Device::read(&Source::new("d.yaml", "arch_name: wormhole_b0\n")).unwrap_err();
        assert!(finding.sentence().contains("functional_workers"));
    }

    #[test]
    fn built_in_devices_have_their_sizes() {
        let device = Device::find("Grayskull").unwrap();
        assert_eq!(
            (device.rows, device.columns, device.l1_bytes),
            (10, 12, 1_048_576)
        );
        assert_eq!(
            Device::find("blackhole_10x14").unwrap().channel_bytes,
            4 << 30
        );
        let ethernet = |name| Device::find(name).unwrap().ethernet;
        assert_eq!(
            ["blackhole_80", "blackhole_10x14", "wormhole_b0"].map(ethernet),
            [16, 14, 16]
        );
        assert_eq!(Device::find("wormhole_b"), Device::find("wormhole_b0"));
        assert_eq!(Device::find("none"), None);
    }
}
