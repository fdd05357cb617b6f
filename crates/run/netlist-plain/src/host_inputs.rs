//! The arrays that the host writes to queues and rams, and reads from them.

use crate::error::of_queue;
use crate::tensor::MAX_ELEMENTS;
use std::collections::BTreeMap;
use tenon_base::{Error, ErrorKind, Result, bounded};
use tenon_netlist::testing::{TestConfig, generate_entry};
use tenon_netlist::{Netlist, Queue, QueueKind};

/// Entries of one queue: `[n, t, rows, columns]` elements; small tiles are contiguous.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Array {
    /// Number of entries, slices, rows and columns.
    pub shape: [usize; 4],
    /// The elements; raw formats are bit patterns of floats.
    pub values: Vec<f32>,
}

/// Arrays by the name of their queue or ram.
pub type HostInputs = BTreeMap<String, Array>;

/// Target number of generated elements per queue; a larger queue has fewer entries, which the host
/// pushes cyclically.
const TARGET_ELEMENTS: usize = 1 << 24;

/// Generates entries for every queue and ram that the host writes, from the stimulus of the netlist.
///
/// Queues whose entries exceed the maximum size of a tensor are left out: a run reports them.
///
/// # Errors
/// `OutOfMemory` when the system has no memory for the entries of a queue.
pub fn generate_inputs(netlist: &Netlist, config: &TestConfig, seed: u64) -> Result<HostInputs> {
    let mut inputs = HostInputs::new();
    for queue in netlist.queues.iter().filter(|queue| queue.is_host_fed()) {
        let name = &queue.name.value;
        if let Some(shape) = entries_shape(queue) {
            let array = generate_array(netlist, queue, shape, config, seed);
            inputs.insert(name.clone(), array.map_err(|error| of_queue(name, error))?);
        }
    }
    Ok(inputs)
}

/// The shape of the generated entries of a queue; `None` if an entry exceeds the size of a tensor.
fn entries_shape(queue: &Queue) -> Option<[usize; 4]> {
    let [height, width] = queue.blocking.tile().map(u64::from);
    let t = queue.blocking.t.value as usize;
    let rows = usize::try_from(queue.blocking.rows().checked_mul(height)?).ok()?;
    let columns = usize::try_from(queue.blocking.columns().checked_mul(width)?).ok()?;
    let size = t
        .checked_mul(rows)?
        .checked_mul(columns)
        .filter(|&size| size <= MAX_ELEMENTS)?;
    let entries = (TARGET_ELEMENTS / size.max(1)).max(1);
    // A ram is addressed by slot: it has at least four entries.
    let entries = if queue.kind.value == QueueKind::Ram {
        entries.max(4)
    } else {
        entries
    };
    let n = (queue.entries.value as usize).min(entries);
    Some([n, t, rows, columns])
}

fn generate_array(
    netlist: &Netlist,
    queue: &Queue,
    shape: [usize; 4],
    config: &TestConfig,
    seed: u64,
) -> Result<Array> {
    let count = shape
        .iter()
        .fold(1, |all: usize, &size| all.saturating_mul(size));
    let what = format_args!("array {shape:?}");
    let mut values = bounded::with_capacity_within(what, count, usize::MAX)?;
    let stimulus = config.stimulus(&queue.name.value);
    for number in 0..shape[0] as u64 {
        let entry = generate_entry(netlist, queue, stimulus, seed, number);
        values.extend(entry.ok_or_else(|| {
            let bytes = count / shape[0] * size_of::<f32>();
            let text = format!("entry of {:?}: cannot allocate {bytes} bytes", &shape[1..]);
            Error::new(ErrorKind::OutOfMemory, text)
        })?);
    }
    Ok(Array { shape, values })
}
