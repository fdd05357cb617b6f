//! What the host puts into queues and rams, and takes out of them, as arrays.

use std::collections::BTreeMap;
use tenon_netlist::testing::{TestConfig, generate_entry};
use tenon_netlist::{Netlist, QueueKind};

/// Entries of one queue: `[n, t, rows, columns]` in elements, small tiles without gaps.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Array {
    /// Entries, slices, rows and columns.
    pub shape: [usize; 4],
    /// The elements; raw formats as the bits of a float.
    pub values: Vec<f32>,
}

/// Arrays by the name of their queue or ram.
pub type HostInputs = BTreeMap<String, Array>;

/// Elements of one queue that are made; a queue of more is fed with fewer entries, over and over.
const MOST: usize = 1 << 24;

/// Entries for every queue and ram that the host feeds, as the netlist's own stimulus says: as
/// many as it has, or fewer where that would be very much.
///
/// Queues whose entry is larger than memory can be have none.
pub fn generate_inputs(netlist: &Netlist, config: &TestConfig, seed: u64) -> HostInputs {
    let fed = netlist.queues.iter().filter(|queue| queue.is_host_fed());
    let made = fed.filter_map(|queue| {
        let name = &queue.name.value;
        let [height, width] = queue.blocking.tile().map(u64::from);
        let t = queue.blocking.t.value as usize;
        let rows = usize::try_from(queue.blocking.rows().checked_mul(height)?).ok()?;
        let columns = usize::try_from(queue.blocking.columns().checked_mul(width)?).ok()?;
        let size = t
            .checked_mul(rows)?
            .checked_mul(columns)
            .filter(|&size| size <= crate::tm::LARGEST)?;
        let most = (MOST / size.max(1)).max(1);
        // A ram is read by slot: it is filled whole where that is possible at all.
        let most = if queue.kind.value == QueueKind::Ram {
            most.max(4)
        } else {
            most
        };
        let n = (queue.entries.value as usize).min(most);
        let mut values = Vec::new();
        values.try_reserve_exact(n.checked_mul(size)?).ok()?;
        for number in 0..n as u64 {
            values.extend(generate_entry(
                netlist,
                queue,
                config.stimulus(name),
                seed,
                number,
            )?);
        }
        Some((
            name.clone(),
            Array {
                shape: [n, t, rows, columns],
                values,
            },
        ))
    });
    made.collect()
}
