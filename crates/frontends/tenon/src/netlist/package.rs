//! A netlist as a package that runs its programs once.

use super::Job;
use super::job::{JobOutcome, default_params};
use crate::{LoadOptions, Model};
use std::path::Path;
use tenon_base::{Control, Error, ErrorKind, Result};
use tenon_compiler::{NetlistOutput, NetlistPackage};
use tenon_neff::{Contents, Limits, Package, WriteOptions};
use tenon_netlist::{Queue, QueueKind, Source};
use tenon_tensor::{BufferMut, DataType, Tensor, TensorType};

/// The package that was compiled from a netlist, in memory.
#[derive(Clone)]
pub struct CompiledNetlist {
    contents: Contents,
    control: Control,
}

impl CompiledNetlist {
    /// Writes the package under a temporary name and renames it.
    pub fn write(&self, path: impl AsRef<Path>) -> Result<()> {
        let written = self
            .contents
            .write(path, WriteOptions::default(), &self.control);
        written.map(drop)
    }

    /// The package as if it was read from a file.
    pub fn to_neff(&self) -> Result<Package> {
        let bytes = self
            .contents
            .to_bytes(WriteOptions::default(), &self.control)?;
        Package::from_buffer(bytes, &Limits::default(), &self.control)
    }

    /// Loads the package without a file.
    pub fn load(&self, options: &LoadOptions) -> Result<Model> {
        Model::from_package(&self.to_neff()?, options)
    }

    /// The contents of the package.
    pub fn contents(&self) -> &Contents {
        &self.contents
    }
}

impl Job {
    /// Compiles a netlist: parameters become fixed, host queues inputs, rams constants. The programs
    /// run once to count the entries that they take and push.
    ///
    /// # Errors
    /// As [`Job::run`]; programs without an output.
    pub fn compile(&self, source: &Source) -> Result<CompiledNetlist> {
        let outcome = self.run(source)?;
        let JobOutcome {
            session,
            outputs,
            taken,
            drained,
            ..
        } = &outcome;
        let mut params = default_params(session.netlist());
        params.extend(self.params.clone());
        let mut package = NetlistPackage {
            name: stem(source.path()),
            programs: self.programs_of(session),
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
                    .push((name.clone(), slots(&outcome, queue, self)?));
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
            let text = "the programs write no output: every queue they push to is read by an op";
            return Err(Error::new(ErrorKind::InvalidModel, text));
        }
        let contents = session.lowered().package(&package)?;
        Ok(CompiledNetlist {
            contents,
            control: self.control.clone(),
        })
    }
}

/// The initial contents of all slots of a ram.
fn slots(outcome: &JobOutcome, ram: &Queue, job: &Job) -> Result<Tensor> {
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
