//! A netlist as a package that runs its programs once.

use super::job::{NetlistJob, NetlistOutcome, netlist_params, run_netlist};
use std::path::Path;
use tenon_base::{Control, Error, ErrorKind, Result};
use tenon_compiler::{NetlistOutput, NetlistPackage};
use tenon_neff::{Contents, Limits, Package, WriteOptions};
use tenon_netlist::{Queue, QueueKind, Source};
use tenon_tensor::{BufferMut, DataType, Tensor, TensorType};

/// A compiled netlist, not yet written.
#[derive(Debug, Clone)]
pub struct CompiledNetlist(Contents);

impl CompiledNetlist {
    /// Writes the package: aside, then renamed.
    pub fn write(&self, path: impl AsRef<Path>) -> Result<()> {
        self.0
            .write(path, WriteOptions::default(), &Control::new())
            .map(drop)
    }

    /// The package in memory, without a file.
    pub fn into_package(self) -> Result<Package> {
        let bytes = self.0.to_bytes(WriteOptions::default(), &Control::new())?;
        let buffer = BufferMut::copy_of(&bytes)?.freeze();
        Package::from_buffer(buffer, &Limits::default(), &Control::new())
    }

    /// What will be in the package.
    pub fn contents(&self) -> &Contents {
        &self.0
    }
}

/// Compiles a netlist: parameters are fixed, host queues become inputs, rams constants. The
/// programs are run once to learn how many entries they take and push.
pub fn compile_netlist(
    source: &Source,
    job: &NetlistJob,
    control: &Control,
) -> Result<CompiledNetlist> {
    let outcome = run_netlist(source, job, control)?;
    let NetlistOutcome {
        session,
        outputs,
        taken,
        drained,
        ..
    } = &outcome;
    let mut params = netlist_params(session.netlist());
    params.extend(job.params.clone());
    let mut package = NetlistPackage {
        name: stem(source.path()),
        programs: match job.programs.is_empty() {
            true => session
                .programs()
                .iter()
                .map(|program| program.name.clone())
                .collect(),
            false => job.programs.clone(),
        },
        params,
        ..NetlistPackage::default()
    };
    for queue in &session.netlist().queues {
        let name = &queue.name.value;
        let count = taken.get(name).copied().unwrap_or(0);
        let is_ram = queue.kind.value == QueueKind::Ram;
        if is_ram && count > 0 {
            package
                .constants
                .push((name.clone(), slots(&outcome, queue, job)?));
        } else if queue.is_host_fed() && count > 0 {
            let count = usize::try_from(count).unwrap_or(usize::MAX);
            package.inputs.push((name.clone(), count));
        }
        if let Some(array) = outputs.get(name) {
            package.outputs.push(NetlistOutput {
                queue: name.clone(),
                entries: array.shape()[0],
                drained: drained.contains(name),
                ram: is_ram,
            });
        }
    }
    package.outputs.retain(|output| output.entries > 0);
    if package.outputs.is_empty() {
        let text = "the programs push nothing that nobody reads";
        return Err(Error::new(ErrorKind::InvalidModel, text));
    }
    session.lowered().package(&package).map(CompiledNetlist)
}

/// What all slots of a ram hold at first.
fn slots(outcome: &NetlistOutcome, ram: &Queue, job: &NetlistJob) -> Result<Tensor> {
    let name = &ram.name.value;
    let entry = outcome.session.entry_type(name)?;
    let entries = match job.inputs.get(name) {
        Some(array) => super::job::entries(&outcome.session, name, array)?,
        None => (0..u64::from(ram.entries.value))
            .map(|slot| outcome.first(name, slot))
            .collect::<Result<_>>()?,
    };
    let mut shape = vec![entries.len()];
    shape.extend_from_slice(entry.shape());
    let ty = TensorType::new(DataType::F32, shape)?;
    let mut all = BufferMut::zeroed(ty.bytes())?;
    for (to, entry) in all.chunks_exact_mut(entry.bytes().max(1)).zip(&entries) {
        to.copy_from_slice(outcome.session.stored(name, entry)?.bytes());
    }
    Tensor::new(ty, all.freeze())
}

fn stem(path: &Path) -> String {
    let stem = path
        .file_stem()
        .map(|stem| stem.to_string_lossy().into_owned());
    stem.unwrap_or_else(|| "netlist".to_owned())
}
