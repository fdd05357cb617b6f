//! The outputs of one execution.

use std::ops::Deref;
use std::sync::Arc;
use tenon_base::{Error, ErrorKind, Result};
use tenon_tensor::Tensor;

/// The output tensors of one execution, in the order of [`Model::outputs`](crate::Model::outputs).
/// Dereferences to a slice of tensors.
///
/// ```
/// # use tenon::{Compiler, LoadOptions, Tensor};
/// # let onnx = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../models/digits/digits.onnx");
/// # let model = Compiler::new().compile_file(onnx)?.load(&LoadOptions::new())?;
/// # let image = Tensor::from_slice([1, 1, 8, 8], &[0.0f32; 64])?;
/// let outputs = model.run(&[("image", &image)])?;
/// let first = &outputs[0];
/// let same = outputs.tensor(&model.outputs()[0].name)?;
/// assert_eq!(first, same);
/// # Ok::<(), tenon::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Outputs {
    names: Arc<[String]>,
    tensors: Vec<Tensor>,
}

impl Outputs {
    pub(crate) fn new(names: Arc<[String]>, tensors: Vec<Tensor>) -> Self {
        Self { names, tensors }
    }

    /// The output of a name.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`] if the model has no output of this name.
    pub fn tensor(&self, name: &str) -> Result<&Tensor> {
        let mut named = self.named();
        named
            .find_map(|(known, tensor)| (known == name).then_some(tensor))
            .ok_or_else(|| {
                let text = format!("the model has no output '{name}'");
                Error::new(ErrorKind::NotFound, text)
                    .expected(format_args!("one of {}", self.names.join(", ")))
            })
    }

    /// The outputs with their names, in order.
    pub fn named(&self) -> impl Iterator<Item = (&str, &Tensor)> {
        self.names.iter().map(String::as_str).zip(&self.tensors)
    }

    /// The tensors without their names.
    pub fn into_tensors(self) -> Vec<Tensor> {
        self.tensors
    }
}

impl Deref for Outputs {
    type Target = [Tensor];

    fn deref(&self) -> &[Tensor] {
        &self.tensors
    }
}

impl IntoIterator for Outputs {
    type Item = Tensor;
    type IntoIter = std::vec::IntoIter<Tensor>;

    fn into_iter(self) -> Self::IntoIter {
        self.tensors.into_iter()
    }
}

impl<'a> IntoIterator for &'a Outputs {
    type Item = &'a Tensor;
    type IntoIter = std::slice::Iter<'a, Tensor>;

    fn into_iter(self) -> Self::IntoIter {
        self.tensors.iter()
    }
}
