//! The values of states before the first execution.

use super::{Model, Nodes};
use crate::Dimension;
use crate::symbolic::{SymbolicPort, known_sizes};
use tenon_base::{Error, ErrorKind, Result};
use tenon_tensor::{Tensor, TensorType};

impl Model {
    /// Zeros for the inputs at these positions, with the sizes that `given` decides. A dimension that no input
    /// decides is empty.
    ///
    /// # Errors
    /// A dimension that no input decides and that cannot be empty.
    pub(super) fn initial_values(
        &self,
        positions: &[usize],
        given: &[(&str, &Tensor)],
    ) -> Result<Vec<Tensor>> {
        let types: Vec<(&str, &TensorType)> = given
            .iter()
            .map(|(name, tensor)| (*name, tensor.ty()))
            .collect();
        let ports: Vec<&SymbolicPort> = match &self.0.nodes {
            Nodes::Symbolic(core) => core.input_ports().iter().collect(),
            Nodes::Host(host, false) => host.input_ports(),
            _ => Vec::new(),
        };
        let sizes = self.first_sizes(&ports, &types);
        let mut errors = Vec::new();
        let mut values = Vec::new();
        for &position in positions {
            match self.initial_type(position, &ports, &sizes) {
                Ok(ty) => values.push(Tensor::zeroed(ty)?),
                Err(error) => errors.push(error),
            }
        }
        Error::from_all(errors).map_or(Ok(values), Err)
    }

    /// The sizes of the symbols at the first execution.
    fn first_sizes(&self, ports: &[&SymbolicPort], types: &[(&str, &TensorType)]) -> Vec<i64> {
        let known = known_sizes(ports, self.symbols(), types);
        let size = |name: &str| known.iter().find(|(known, _)| known == name);
        let symbols = self.symbols().iter();
        symbols
            .map(|(_, symbol)| size(&symbol.name).map_or(0, |(_, size)| *size as i64))
            .collect()
    }

    fn initial_type(
        &self,
        position: usize,
        ports: &[&SymbolicPort],
        sizes: &[i64],
    ) -> Result<TensorType> {
        let signature = &self.inputs()[position];
        let fixed = match ports.iter().find(|port| port.name() == signature.name) {
            Some(port) => port.fixed(sizes)?.ty,
            None => signature.ty.clone(),
        };
        for (dimension, &extent) in signature.shape.iter().zip(fixed.shape().iter()) {
            if let Dimension::Symbolic {
                expression,
                min,
                max,
            } = dimension
                && !(*min..=*max).contains(&(extent as u64))
            {
                let text = format!(
                    "state '{}' has no first value: no input decides '{expression}', which cannot be empty",
                    signature.name
                );
                return Err(Error::new(ErrorKind::InvalidArgument, text)
                    .expected(format_args!("a size from {min} to {max}"))
                    .help("give a tensor for it at the first execution, or compile with a range from 0: --dim NAME=0..MAX"));
            }
        }
        Ok(fixed)
    }
}
