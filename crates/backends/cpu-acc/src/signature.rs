//! The input of kernel selection: an operator with its attributes, types and constants, from a node
//! (support query) or from a workload specification.

use crate::floats::FloatType;
use crate::simd::Level;
use crate::simd::rows::{Geometry, fits_i32};
use tenon_backend::{InputSpec, NodeView, Reason, Refusal, WorkloadSpec};
use tenon_base::Result;
use tenon_graph::geometry::Window;
use tenon_graph::{Attributes, Inference, OperatorDef, infer};
use tenon_tensor::{DataType, Shape, Tensor, TensorType};

/// An operator with its attributes, types and constants.
pub(crate) struct Signature<'a> {
    pub(crate) op: &'static OperatorDef,
    pub(crate) level: Level,
    /// Whether the types of the outputs are known to be those of shape inference.
    is_inferred: bool,
    attributes: &'a Attributes,
    inputs: Vec<Option<&'a TensorType>>,
    constants: Vec<Option<&'a Tensor>>,
    /// Whether the input has a prepared form, so that it is a constant even without its elements.
    prepared: Vec<bool>,
    outputs: Vec<Option<&'a TensorType>>,
}

/// A refusal with a reason in plain text.
pub(crate) fn refuse(text: impl Into<String>) -> Refusal {
    Reason::Other { text: text.into() }.into()
}

/// A refusal of an attribute's value.
pub(crate) fn refuse_attribute(attribute: &'static str, found: impl ToString) -> Refusal {
    Reason::AttributeValue {
        attribute,
        found: found.to_string(),
    }
    .into()
}

impl<'a> Signature<'a> {
    pub(crate) fn of_node(node: &NodeView<'a>, level: Level) -> Self {
        Self {
            op: node.op,
            level,
            is_inferred: false,
            attributes: node.attributes,
            inputs: node.inputs.to_vec(),
            constants: node.constants.to_vec(),
            prepared: Vec::new(),
            outputs: node.outputs.to_vec(),
        }
    }

    pub(crate) fn of_spec(spec: &'a WorkloadSpec, level: Level) -> Self {
        let constant = |input: &'a InputSpec| input.constant.as_ref();
        Self {
            op: spec.op,
            level,
            is_inferred: false,
            attributes: &spec.attributes,
            inputs: spec
                .inputs
                .iter()
                .map(|input| input.as_ref().map(|i| &i.ty))
                .collect(),
            constants: spec
                .inputs
                .iter()
                .map(|i| i.as_ref().and_then(constant))
                .collect(),
            prepared: spec
                .inputs
                .iter()
                .map(|i| i.as_ref().is_some_and(|i| i.prepared.is_some()))
                .collect(),
            outputs: spec.outputs.iter().map(Option::as_ref).collect(),
        }
    }

    /// The same with outputs that were compared with shape inference.
    pub(crate) fn inferred(self) -> Self {
        Self {
            is_inferred: true,
            ..self
        }
    }

    /// Refuses operators with empty tensors: no memory bounds the other extents of an empty tensor, and
    /// CpuRef is as fast on them. An empty list of one dimension may be an omitted optional input.
    pub(crate) fn refuse_empty(&self) -> Result<(), Refusal> {
        let inputs = self
            .inputs
            .iter()
            .flatten()
            .filter(|ty| ty.shape().len() > 1);
        let mut types = inputs.chain(self.outputs.iter().flatten());
        if types.any(|ty| ty.elements() == 0) {
            return Err(refuse("no kernel for empty tensors"));
        }
        Ok(())
    }

    /// Refuses outputs that differ from shape inference or are all missing, and parameters that are not
    /// constant. A package is not trusted, so that kernels that rely on shape inference check it.
    pub(crate) fn check_inferred(&self) -> Result<(), Refusal> {
        if self.outputs.iter().flatten().next().is_none() {
            return Err(refuse("output 0 is missing"));
        }
        for (index, def) in self.op.inputs.iter().enumerate() {
            if def.compile_time && self.optional(index).is_some() && self.constant(index).is_none()
            {
                return Err(Reason::NotConstant { input: index }.into());
            }
        }
        if self.is_inferred {
            return Ok(());
        }
        let inferred = infer(
            self.op,
            self.attributes,
            &self.inputs,
            &self.constants,
            self.outputs.len(),
        )
        .map_err(|error| refuse(error.to_string()))?;
        let mut outputs = self.outputs.iter().zip(&inferred);
        if self.outputs.len() > inferred.len()
            || outputs.any(|(found, expected)| found.is_some_and(|found| found != expected))
        {
            return Err(refuse("the outputs differ from the inferred types"));
        }
        Ok(())
    }

    /// The number of inputs; omitted ones before the last count.
    pub(crate) fn input_count(&self) -> usize {
        self.inputs.len()
    }

    /// The type of a required input.
    pub(crate) fn input(&self, index: usize) -> Result<&'a TensorType, Refusal> {
        self.optional(index)
            .ok_or_else(|| refuse(format!("input {index} is missing")))
    }

    /// The type of an optional input.
    pub(crate) fn optional(&self, index: usize) -> Option<&'a TensorType> {
        self.inputs.get(index).copied().flatten()
    }

    /// The shape of a required input of the type `float`.
    pub(crate) fn float_shape(&self, index: usize, float: FloatType) -> Result<&'a Shape, Refusal> {
        let ty = self.input(index)?;
        let found = ty.dtype();
        if FloatType::of(found) == Some(float) {
            return Ok(ty.shape());
        }
        let input = index;
        Err(Reason::InputType { input, found }.into())
    }

    /// The type of weights: that of the other operands, or a type of 16 bits of constant weights beside operands of
    /// f32.
    pub(crate) fn type_of_weights(
        &self,
        index: usize,
        float: FloatType,
    ) -> Result<FloatType, Refusal> {
        let found = self.input(index)?.dtype();
        let weights = FloatType::of_input(found, index)?;
        if weights != float && float != FloatType::F32 {
            let input = index;
            return Err(Reason::InputType { input, found }.into());
        }
        if weights != float && !self.is_constant(index) {
            return Err(Reason::NotConstant { input: index }.into());
        }
        Ok(weights)
    }

    /// The shape of a required f32 input.
    pub(crate) fn f32_shape(&self, index: usize) -> Result<&'a Shape, Refusal> {
        self.float_shape(index, FloatType::F32)
    }

    /// The shape of an optional input of type `float`.
    pub(crate) fn float_input(
        &self,
        index: usize,
        float: FloatType,
    ) -> Result<Option<&'a Shape>, Refusal> {
        self.optional(index)
            .map(|_| self.float_shape(index, float))
            .transpose()
    }

    /// The extents of a required f32 input of rank `N`.
    pub(crate) fn ranked<const N: usize>(&self, index: usize) -> Result<[usize; N], Refusal> {
        let shape = self.f32_shape(index)?;
        let rank = shape.len();
        <[usize; N]>::try_from(&shape[..]).map_err(|_| {
            Reason::InputRank {
                input: index,
                found: rank,
            }
            .into()
        })
    }

    /// Whether input `index` is a constant, in plain or in prepared form.
    pub(crate) fn is_constant(&self, index: usize) -> bool {
        self.constant(index).is_some() || self.prepared.get(index) == Some(&true)
    }

    /// The elements of input `index` when it is a constant in plain form.
    pub(crate) fn constant(&self, index: usize) -> Option<&'a Tensor> {
        self.constants.get(index).copied().flatten()
    }

    /// The elements of an optional integer input, which must be constant; `None` when it is omitted.
    pub(crate) fn constant_ints(&self, index: usize) -> Result<Option<Vec<i64>>, Refusal> {
        if self.optional(index).is_none() {
            return Ok(None);
        }
        let ints = self.constant(index).and_then(Tensor::to_i64s);
        ints.map(Some)
            .ok_or(Reason::NotConstant { input: index }.into())
    }

    /// The type of an optional output.
    pub(crate) fn any_output(&self, index: usize) -> Option<&'a TensorType> {
        self.outputs.get(index).copied().flatten()
    }

    /// The type of a required output.
    pub(crate) fn output(&self, index: usize) -> Result<&'a TensorType, Refusal> {
        self.any_output(index)
            .ok_or_else(|| refuse(format!("output {index} is missing")))
    }

    /// The extents of the only output, of f32 and rank `N`.
    pub(crate) fn ranked_output<const N: usize>(&self) -> Result<[usize; N], Refusal> {
        let shape = self.only_output()?;
        <[usize; N]>::try_from(&shape[..]).map_err(|_| {
            refuse(format!(
                "no kernel for an output of {} dimensions",
                shape.len()
            ))
        })
    }

    /// The shape of the only output, which has type `dtype`.
    pub(crate) fn typed_output(&self, dtype: DataType) -> Result<&'a Shape, Refusal> {
        if self.outputs.iter().skip(1).any(Option::is_some) {
            return Err(refuse("no kernel for outputs after the first"));
        }
        let ty = self.output(0)?;
        if ty.dtype() != dtype {
            return Err(refuse(format!(
                "no kernel for an output of type {}",
                ty.dtype()
            )));
        }
        Ok(ty.shape())
    }

    /// The shape of the only output, of f32.
    pub(crate) fn only_output(&self) -> Result<&'a Shape, Refusal> {
        self.typed_output(DataType::F32)
    }

    pub(crate) fn int(&self, name: &'static str, default: i64) -> Result<i64, Refusal> {
        self.attributes
            .int(name, default)
            .map_err(|error| refuse(error.to_string()))
    }

    pub(crate) fn flag(&self, name: &'static str, default: bool) -> Result<bool, Refusal> {
        Ok(self.int(name, default.into())? != 0)
    }

    pub(crate) fn float(&self, name: &'static str, default: f32) -> Result<f32, Refusal> {
        self.attributes
            .float(name, default)
            .map_err(|error| refuse(error.to_string()))
    }

    pub(crate) fn string(
        &self,
        name: &'static str,
        default: &'static str,
    ) -> Result<&str, Refusal> {
        self.attributes
            .string(name, default)
            .map_err(|error| refuse(error.to_string()))
    }

    pub(crate) fn ints(&self, name: &'static str) -> Result<Option<&[i64]>, Refusal> {
        self.attributes
            .ints(name)
            .map_err(|error| refuse(error.to_string()))
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.attributes.value(name).is_some()
    }

    /// The geometry of a window of `kernel` over images of batch, one to three spatial extents,
    /// channels; where `transposed`, of a transposed convolution.
    pub(crate) fn geometry(
        &self,
        image: &[usize],
        kernel: &[usize],
        transposed: bool,
    ) -> Result<Geometry, Refusal> {
        let &[images, ref size @ .., channels] = image else {
            return Err(refuse("no kernel for images without channels"));
        };
        let window = if transposed {
            Window::transposed(self.attributes, size, kernel)
        } else {
            Window::sliding(self.attributes, size, kernel)
        };
        let window = window.map_err(|error| refuse(error.to_string()))?;
        if size.len() > 3 {
            return Err(refuse(
                "no kernel for windows of more than three dimensions",
            ));
        }
        let three = |list: &[usize], leading: usize| {
            let mut axes = [leading; 3];
            axes[3 - list.len()..].copy_from_slice(list);
            axes
        };
        let shape = Geometry {
            images,
            size: three(size, 1),
            channels,
            kernel: three(kernel, 1),
            strides: three(&window.strides, 1),
            dilations: three(&window.dilations, 1),
            before: three(&window.pads_begin, 0),
            after: three(&window.pads_end, 0),
            output: three(&window.output, 1),
        };
        if fits_i32(&shape) {
            Ok(shape)
        } else {
            Err(refuse("the image is too large"))
        }
    }

    /// Whether output `index` is requested.
    pub(crate) fn has_output(&self, index: usize) -> bool {
        self.any_output(index).is_some()
    }

    /// The attributes, for the geometry that kernels share with shape inference.
    pub(crate) fn attributes(&self) -> &'a Attributes {
        self.attributes
    }

    /// The operator as shape inference reads it.
    pub(crate) fn inference(&self) -> Inference<'_> {
        Inference {
            attributes: self.attributes,
            inputs: &self.inputs,
            constants: &self.constants,
            outputs: self.outputs.len(),
        }
    }

    /// An axis attribute, normalised to `0..rank`.
    pub(crate) fn axis(
        &self,
        name: &'static str,
        default: i64,
        rank: usize,
    ) -> Result<usize, Refusal> {
        let axis = self.int(name, default)?;
        let positive = if axis < 0 { axis + rank as i64 } else { axis };
        usize::try_from(positive)
            .ok()
            .filter(|&axis| axis < rank)
            .ok_or_else(|| refuse_attribute(name, axis))
    }
}
