//! Ports whose values stay in memory of a backend between executions: inputs that stay bound, outputs that are read
//! on demand, and outputs that are inputs of the next execution.

use super::tensors::Newest;
use crate::tensor_placement::TensorPlacement;
use crate::variables::{Base, Span};
use std::sync::Arc;
use tenon_backend::{DeviceTensor, TensorHandle};
use tenon_base::Result;
use tenon_tensor::TensorType;

/// The tensors of such ports, outside of executions.
#[derive(Default)]
pub(super) struct ResidentTensors {
    /// The memory regions of the ports.
    ports: Vec<Base>,
    pub tensors: Vec<ResidentTensor>,
}

pub(super) struct ResidentTensor {
    /// Its position among the tensors of the program.
    pub position: usize,
    pub placement: Arc<TensorPlacement>,
    pub handle: Box<dyn TensorHandle>,
    pub newest: Newest,
}

impl ResidentTensors {
    /// Makes values of a port stay.
    pub fn add(&mut self, port: Base) {
        if !self.ports.contains(&port) {
            self.ports.push(port);
        }
    }

    /// Whether values of the span's region stay.
    pub fn has(&self, span: &Span) -> bool {
        self.ports.contains(&span.base)
    }

    /// A port was set in plain memory.
    pub fn invalidate(&mut self, port: Base) {
        for tensor in &mut self.tensors {
            if tensor.placement.span.base == port {
                tensor.newest = Newest::Plain;
            }
        }
    }

    /// Copies the value of a port to plain memory, if it is newest in memory of a backend.
    pub fn read(&mut self, port: Base, plain: &mut [u8]) -> Result<()> {
        let mut of_port = self.tensors.iter_mut();
        let newest = |tensor: &&mut ResidentTensor| {
            tensor.placement.span.base == port && tensor.newest == Newest::Backend
        };
        if let Some(tensor) = of_port.find(newest) {
            tensor.handle.copy_out(plain)?;
            tensor.newest = Newest::Both;
        }
        Ok(())
    }

    /// Takes the value of a port of type `ty` from the backend in whose memory it is.
    pub fn take(&mut self, port: Base, ty: &TensorType) -> Option<DeviceTensor> {
        let position = self.tensors.iter().position(|tensor| {
            let span = &tensor.placement.span;
            span.base == port && span.len == ty.bytes() && tensor.newest != Newest::Plain
        })?;
        let ResidentTensor {
            handle, placement, ..
        } = self.tensors.swap_remove(position);
        let factory = placement.factory.clone();
        Some(DeviceTensor::of(handle, ty, factory, &placement.backend))
    }

    /// Makes the value of an output that of an input, in memory of the backend. False if it is not there, or if the
    /// input has no tensor of the same kind.
    pub fn feed(&mut self, output: Base, input: Base) -> bool {
        let find = |port: Base, alike: &dyn Fn(&ResidentTensor) -> bool| {
            let of_port = |tensor: &ResidentTensor| tensor.placement.span.base == port;
            let mut all = self.tensors.iter();
            all.position(|tensor| of_port(tensor) && alike(tensor))
        };
        let Some(from) = find(output, &|tensor| tensor.newest == Newest::Backend) else {
            return false;
        };
        let source = &self.tensors[from].placement;
        let alike = |tensor: &ResidentTensor| {
            let target = &tensor.placement;
            target.factory.id == source.factory.id
                && Arc::ptr_eq(&target.backend, &source.backend)
                && target.ty == source.ty
        };
        let Some(to) = find(input, &alike) else {
            return false;
        };
        self.invalidate(input);
        let [from, to] = match self.tensors.get_disjoint_mut([from, to]) {
            Ok(pair) => pair,
            Err(_) => return false,
        };
        std::mem::swap(&mut from.handle, &mut to.handle);
        (from.newest, to.newest) = (Newest::Plain, Newest::Backend);
        true
    }
}
