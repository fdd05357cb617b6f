//! Constants: initialisers and Constant nodes.

use super::{Import, invalid, is_stop};
use crate::draft::ValueInfo;
use crate::proto::{GraphProto, NodeProto, TensorProto};
use crate::scope::Scope;
use crate::signature::initialiser;
use crate::{attribute, tensor};
use tenon_base::{Error, ErrorKind, Location, Result};
use tenon_graph::Attribute;
use tenon_tensor::Tensor;

impl<'m> Import<'m> {
    /// Adds the constant tensors of a graph; those that are given replace those of the model.
    pub(super) fn initialisers<'g>(
        &mut self,
        graph: &'m GraphProto,
        given: impl Fn(&str) -> Option<&'g Tensor>,
        scope: &mut Scope<'m, '_>,
    ) -> Result<()> {
        for tensor in &graph.initializer {
            let place = || Location::field(initialiser(&tensor.name));
            let read = match given(&tensor.name) {
                Some(constant) => Ok(constant.clone()),
                None => self.tensor(tensor, scope),
            };
            let value = match read {
                Ok(tensor_read) => {
                    let name = self.name(&tensor.name, scope);
                    self.draft.add_constant(name, tensor_read)
                }
                Err(error) if is_stop(&error) => return Err(error),
                Err(error) => {
                    self.report(error.at(place()));
                    let name = self.name(&tensor.name, scope);
                    self.draft.add_value(name, ValueInfo::default())
                }
            };
            if tensor.name.is_empty() || scope.values.insert(&tensor.name, Some(value)).is_some() {
                self.report(invalid("an initialiser whose name is empty or taken").at(place()));
            }
        }
        if !graph.sparse_initializer.is_empty() {
            let count = graph.sparse_initializer.len();
            let message = format!("sparse initialisers ({count}) are not supported");
            self.report(Error::new(ErrorKind::Unsupported, message));
        }
        Ok(())
    }

    /// Adds the value of a Constant node as a constant of the graph.
    pub(super) fn constant(
        &mut self,
        node: &'m NodeProto,
        scope: &mut Scope<'m, '_>,
    ) -> Result<()> {
        let attributes = self.attributes(node, scope)?;
        let mut given = attributes.iter();
        let (Some((name, value)), None) = (given.next(), given.next()) else {
            return Err(invalid("a Constant with more than one value, or none"));
        };
        let tensor = match (name, value) {
            ("value", Attribute::Tensor(tensor)) => tensor.clone(),
            ("value_float", Attribute::Float(value)) => Tensor::scalar(*value)?,
            ("value_int", Attribute::Int(value)) => Tensor::scalar(*value)?,
            ("value_floats", Attribute::Floats(list)) => Tensor::from_slice([list.len()], list)?,
            ("value_ints", Attribute::Ints(list)) => Tensor::from_slice([list.len()], list)?,
            ("value_string", Attribute::String(text)) => Tensor::from_strings([], &[text])?,
            ("value_strings", Attribute::Strings(texts)) => {
                Tensor::from_strings([texts.len()], texts)?
            }
            _ => return Err(invalid("an unknown form of Constant").at(attribute::place(name))),
        };
        let [output] = node.output.as_slice() else {
            return Err(invalid("a Constant must have one output").found(node.output.len()));
        };
        let name = self.name(output, scope);
        let value = self.draft.add_constant(name, tensor);
        scope.values.insert(output, Some(value));
        Ok(())
    }

    /// A constant tensor; one of a function is read once for all calls.
    pub(super) fn tensor(&mut self, proto: &TensorProto, scope: &Scope<'m, '_>) -> Result<Tensor> {
        let key = std::ptr::from_ref(proto);
        if let Some(tensor) = self.shared.get(&key) {
            return Ok(tensor.clone());
        }
        self.control.progress("read weights", self.read, 0)?;
        let tensor = tensor::read(proto, self.files)?;
        self.read += tensor.bytes().len() as u64;
        if !scope.prefix.is_empty() {
            self.shared.insert(key, tensor.clone());
        }
        Ok(tensor)
    }
}
