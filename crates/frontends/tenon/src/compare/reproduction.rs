//! The operator that differs, as a package with its inputs.

use super::Divergence;
use crate::files::file_name;
use std::path::{Path, PathBuf};
use tenon_backend::Registry;
use tenon_base::{Control, Error, Result};
use tenon_compiler::{Options, SingleNode, compile_single};
use tenon_neff::WriteOptions;
use tenon_tensor::{Tensor, npy};

/// Files that reproduce a divergence without the model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reproduction {
    /// The package: the operator on the first backend.
    pub package: PathBuf,
    /// The exact inputs (`in.NAME`), and the second backend's outputs for them (`out.NAME`).
    pub arrays: PathBuf,
}

impl Divergence {
    /// Writes `NODE.neff` and `NODE.npz` into `folder`, which is created if it does not exist.
    pub fn write(&self, folder: &Path, registry: &Registry) -> Result<Reproduction> {
        let names = |operands: &[Option<(String, Tensor)>]| -> Vec<Option<String>> {
            operands
                .iter()
                .map(|operand| operand.as_ref().map(|(name, _)| name.clone()))
                .collect()
        };
        let mut options = Options::new(registry);
        options.backends = vec![self.backends[0].clone()];
        let node = SingleNode {
            name: &self.node,
            spec: &self.call.spec,
            inputs: &names(&self.inputs),
            outputs: &names(&self.expected),
        };
        let compiled = compile_single(&node, &options)?;
        std::fs::create_dir_all(folder).map_err(|error| Error::io(folder, "create", error))?;
        let stem = file_name(&self.node);
        let written = Reproduction {
            package: folder.join(format!("{stem}.neff")),
            arrays: folder.join(format!("{stem}.npz")),
        };
        let control = Control::new();
        let contents = &compiled.contents;
        contents.write(&written.package, WriteOptions::default(), &control)?;
        let arrays = self.arrays();
        let arrays: Vec<(&str, &Tensor)> = arrays
            .iter()
            .map(|(name, tensor)| (name.as_str(), *tensor))
            .collect();
        npy::write_npz(&written.arrays, &arrays)?;
        Ok(written)
    }

    /// The arrays, inputs that are constants of the package left out.
    fn arrays(&self) -> Vec<(String, &Tensor)> {
        let mut arrays: Vec<(String, &Tensor)> = Vec::new();
        let inputs = self.inputs.iter().zip(&self.call.spec.inputs);
        for (input, spec) in inputs {
            let is_constant = spec.as_ref().is_some_and(|spec| spec.constant.is_some());
            if let (Some((name, tensor)), false) = (input, is_constant) {
                let name = format!("in.{name}");
                if arrays.iter().all(|(known, _)| *known != name) {
                    arrays.push((name, tensor));
                }
            }
        }
        let outputs = self.expected.iter().flatten();
        arrays.extend(outputs.map(|(name, tensor)| (format!("out.{name}"), tensor)));
        arrays
    }
}
