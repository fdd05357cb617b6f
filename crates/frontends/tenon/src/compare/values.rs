//! The values between workloads, kept until their last use.

use super::OperandTensors;
use std::collections::HashMap;
use tenon_backend::InputSpec;
use tenon_base::{Error, ErrorKind, Result};
use tenon_dma::VariableId;
use tenon_kernels::WorkloadCall;
use tenon_neff::Contents;
use tenon_tensor::{Buffer, BufferMut, Tensor, TensorType};

/// The bytes of the variables that calls read and write. A view shares the bytes of its base variable.
pub(super) struct Values {
    names: Vec<String>,
    ids: HashMap<String, VariableId>,
    /// The base variable of each view.
    base: HashMap<VariableId, VariableId>,
    /// The last call that uses a variable.
    last: HashMap<VariableId, usize>,
    bytes: HashMap<VariableId, Buffer>,
}

impl Values {
    /// No values yet.
    pub fn new(contents: &Contents, calls: &[WorkloadCall]) -> Self {
        let variables = &contents.variables;
        let names: Vec<String> = variables.iter().map(|v| v.name.clone()).collect();
        let ids = (0u32..).map(VariableId);
        let views = contents.tenon.variables.iter();
        let mut values = Self {
            ids: names.iter().cloned().zip(ids).collect(),
            names,
            base: views
                .filter_map(|info| Some((info.var_id, info.view_of?)))
                .collect(),
            last: HashMap::new(),
            bytes: HashMap::new(),
        };
        for (index, call) in calls.iter().enumerate() {
            for &id in call.inputs.iter().chain(&call.outputs).flatten() {
                values.last.insert(values.base_of(id), index);
            }
        }
        values
    }

    fn base_of(&self, id: VariableId) -> VariableId {
        self.base.get(&id).copied().unwrap_or(id)
    }

    /// Keeps an input or output, if a call uses it.
    pub fn keep(&mut self, name: &str, bytes: &[u8]) -> Result<()> {
        let Some(&id) = self.ids.get(name) else {
            return Ok(());
        };
        let id = self.base_of(id);
        if self.last.contains_key(&id) {
            self.bytes.insert(id, BufferMut::copy_of(bytes)?.freeze());
        }
        Ok(())
    }

    /// Drops the values that no call after `index` uses.
    pub fn forget(&mut self, index: usize) {
        let last = &self.last;
        self.bytes
            .retain(|id, _| last.get(id).is_some_and(|&last| last > index));
    }

    /// The inputs of a call; its constants are in plain form.
    pub fn inputs(&self, call: &WorkloadCall) -> Result<Vec<Option<Tensor>>> {
        let input = |(id, spec): (&Option<VariableId>, &Option<InputSpec>)| match (id, spec) {
            (Some(id), Some(spec)) => match &spec.constant {
                Some(constant) => Ok(Some(constant.clone())),
                None => self.tensor(*id, &spec.ty).map(Some),
            },
            _ => Ok(None),
        };
        call.inputs
            .iter()
            .zip(&call.spec.inputs)
            .map(input)
            .collect()
    }

    /// The outputs of a call that has just run.
    pub fn outputs(&self, call: &WorkloadCall) -> Result<OperandTensors> {
        let output = |(id, ty): (&Option<VariableId>, &Option<TensorType>)| {
            let (Some(id), Some(ty)) = (id, ty) else {
                return Ok(None);
            };
            Ok(Some((self.name(*id), self.tensor(*id, ty)?)))
        };
        let pairs = call.outputs.iter().zip(&call.spec.outputs);
        pairs.map(output).collect()
    }

    /// Tensors with the names of a call's inputs.
    pub fn named(&self, call: &WorkloadCall, inputs: Vec<Option<Tensor>>) -> OperandTensors {
        let pairs = call.inputs.iter().zip(inputs);
        pairs
            .map(|(id, tensor)| Some((self.name((*id)?), tensor?)))
            .collect()
    }

    fn name(&self, id: VariableId) -> String {
        self.names.get(id.index()).cloned().unwrap_or_default()
    }

    fn tensor(&self, id: VariableId, ty: &TensorType) -> Result<Tensor> {
        let bytes = self.bytes.get(&self.base_of(id)).ok_or_else(|| {
            let text = format!("variable '{}' is used before it is computed", self.name(id));
            Error::new(ErrorKind::Internal, text)
        })?;
        Tensor::new(ty.clone(), bytes.clone())
    }
}
