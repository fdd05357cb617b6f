//! Backends' kernels under ops of netlists: a workload made when the shapes are first seen.

use super::spare;
use super::tensor::{TileTensor, wrong_shape};
use std::sync::{Arc, Mutex, PoisonError};
use tenon_backend::{
    InputSpec, NodeView, OwnedOperands, Registry, Workload, WorkloadPlan, WorkloadSpec,
};
use tenon_base::{Error, ErrorKind, Result};
use tenon_executor::Site;
use tenon_graph::operator::operator;
use tenon_graph::{Attribute, Attributes, OperatorDef};
use tenon_tensor::{DataType, Tensor, TensorType};

/// An operator of the first backend that takes it, for one place in a program.
struct Operator {
    backends: Arc<Registry>,
    op: &'static OperatorDef,
    attributes: Attributes,
    /// The workload for the shapes of its last run: those of an op do not change.
    bound: Mutex<Option<Arc<Bound>>>,
}

struct Bound {
    inputs: Vec<Option<TensorType>>,
    output: TensorType,
    scratch: usize,
    workload: Box<dyn Workload>,
}

impl Bound {
    /// Whether it was made for operands of those types.
    fn fits(&self, inputs: &[Option<&Tensor>], output: &TensorType) -> bool {
        let types = inputs.iter().map(|input| input.map(Tensor::ty));
        self.output == *output && self.inputs.iter().map(Option::as_ref).eq(types)
    }
}

impl Operator {
    fn new(site: &Site<'_>, name: &str, attributes: Attributes) -> Result<Self> {
        let unknown = || {
            Error::new(
                ErrorKind::Internal,
                format!("operator '{name}' is not known"),
            )
        };
        Ok(Self {
            backends: site.service()?,
            op: operator(name).ok_or_else(unknown)?,
            attributes,
            bound: Mutex::new(None),
        })
    }

    fn run(&self, inputs: &[Option<&Tensor>], output: TensorType) -> Result<Tensor> {
        self.run_bound(&*self.bound(inputs, output)?, inputs)
    }

    fn run_bound(&self, bound: &Bound, inputs: &[Option<&Tensor>]) -> Result<Tensor> {
        let outputs = [Some(bound.output.clone())];
        let mut operands =
            OwnedOperands::with_memory(inputs, &outputs, bound.scratch, spare::take)?;
        operands.execute(&*bound.workload)?;
        let made = operands.into_outputs()?.pop().flatten();
        made.ok_or_else(|| Error::new(ErrorKind::Internal, "a workload without an output"))
    }

    fn bound(&self, inputs: &[Option<&Tensor>], output: TensorType) -> Result<Arc<Bound>> {
        let mut bound = self.bound.lock().unwrap_or_else(PoisonError::into_inner);
        let fits = |bound: &&Arc<Bound>| bound.fits(inputs, &output);
        if let Some(known) = bound.as_ref().filter(fits) {
            return Ok(known.clone());
        }
        let made = Arc::new(self.bind(inputs, output, None)?);
        *bound = Some(made.clone());
        Ok(made)
    }

    /// The workload for such inputs, of which one may stay what it is.
    fn bind(
        &self,
        inputs: &[Option<&Tensor>],
        output: TensorType,
        constant: Option<usize>,
    ) -> Result<Bound> {
        let types: Vec<Option<TensorType>> = inputs
            .iter()
            .map(|input| input.map(|tensor| tensor.ty().clone()))
            .collect();
        let constants: Vec<Option<&Tensor>> = (0..inputs.len())
            .map(|index| inputs[index].filter(|_| constant == Some(index)))
            .collect();
        let input = |(ty, constant): (&Option<TensorType>, &Option<&Tensor>)| {
            Some(InputSpec {
                ty: ty.clone()?,
                constant: constant.cloned(),
                prepared: None,
            })
        };
        let mut spec = WorkloadSpec {
            op: self.op,
            attributes: self.attributes.clone(),
            inputs: types.iter().zip(&constants).map(input).collect(),
            outputs: vec![Some(output.clone())],
        };
        let view = NodeView {
            op: spec.op,
            attributes: &spec.attributes,
            inputs: &types.iter().map(Option::as_ref).collect::<Vec<_>>(),
            constants: &constants,
            outputs: &[Some(&output)],
        };
        let takes = self
            .backends
            .iter()
            .find(|backend| backend.supports(&view).is_ok());
        let backend = takes.ok_or_else(|| {
            let text = format!("no backend takes {} of this shape", self.op.name);
            Error::new(ErrorKind::Unsupported, text)
        })?;
        // The plan is that of this machine: nothing of it is stored.
        let WorkloadPlan {
            scratch_bytes,
            prepared,
            ..
        } = backend.plan(&spec, tenon_backend::CpuLevel::Baseline)?;
        for one in prepared {
            if let Some(Some(input)) = spec.inputs.get_mut(one.input) {
                input.prepared = Some((one.layout, one.data));
            }
        }
        Ok(Bound {
            workload: backend.workload(&spec)?,
            scratch: scratch_bytes,
            inputs: types,
            output,
        })
    }
}

fn attribute(name: &str, value: Attribute) -> Attributes {
    let mut attributes = Attributes::new();
    attributes.set(name, value);
    attributes
}

/// An operator that takes one tensor and makes one of the same shape.
pub(super) struct Elementwise(Operator);

impl Elementwise {
    /// The operator of that name.
    pub(super) fn new(site: &Site<'_>, name: &str) -> Result<Self> {
        Operator::new(site, name, Attributes::new()).map(Self)
    }

    /// The approximation of Gelu by tanh.
    pub(super) fn gelu(site: &Site<'_>) -> Result<Self> {
        let approximate = attribute("approximate", Attribute::String("tanh".into()));
        Operator::new(site, "Gelu", approximate).map(Self)
    }

    /// Its result.
    pub(super) fn run(&self, a: &TileTensor) -> Result<TileTensor> {
        let made = self.0.run(&[Some(a.data())], a.data().ty().clone())?;
        TileTensor::from_tensor(a.tiles(), a.tile(), &made)
    }
}

/// What is added to a product while it is made.
#[derive(Clone, Copy, Default)]
pub(super) struct Added<'a> {
    /// A number for each column.
    pub bias: Option<&'a Tensor>,
    /// A tensor that is cut as the product is.
    pub sum: Option<&'a TileTensor>,
}

/// The product of slices of matrices.
pub(super) struct Product {
    operator: Operator,
    /// Whether the second comes as `[t, n, k]`.
    turned: bool,
    /// What is multiplied with, where it is the same in most runs.
    weights: Option<Mutex<Weights>>,
}

/// What was multiplied with last, and what has been prepared for it when it came again.
#[derive(Default)]
struct Weights {
    last: Option<TileTensor>,
    bound: Option<Arc<Bound>>,
}

impl Product {
    /// `turned` and `constant` are about the second factor, `adds` tells whether something may be
    /// added; each product is multiplied with `scale`.
    pub(super) fn new(
        site: &Site<'_>,
        [turned, constant, adds]: [bool; 3],
        scale: f32,
    ) -> Result<Self> {
        let operator = match turned || adds || scale != 1.0 {
            false => Operator::new(site, "MatMul", Attributes::new())?,
            true => {
                let mut attributes = attribute("trans_b", Attribute::Int(turned.into()));
                attributes.set("scale", Attribute::Float(scale));
                Operator::new(site, "tenon.MatMul", attributes)?
            }
        };
        Ok(Self {
            operator,
            turned,
            weights: constant.then(Mutex::default),
        })
    }

    /// The workload with `b` prepared for it; `None` where it does not come again.
    fn prepared(
        &self,
        inputs: &[Option<&Tensor>],
        b: &TileTensor,
        output: &TensorType,
    ) -> Result<Option<Arc<Bound>>> {
        let Some(weights) = &self.weights else {
            return Ok(None);
        };
        let mut weights = weights.lock().unwrap_or_else(PoisonError::into_inner);
        if !weights.last.as_ref().is_some_and(|last| last.is_same(b)) {
            *weights = Weights {
                last: Some(b.clone()),
                bound: None,
            };
            return Ok(None);
        }
        let fits = |bound: &&Arc<Bound>| bound.fits(inputs, output);
        if let Some(bound) = weights.bound.as_ref().filter(fits) {
            return Ok(Some(bound.clone()));
        }
        let bound = Arc::new(self.operator.bind(inputs, output.clone(), Some(1))?);
        weights.bound = Some(bound.clone());
        Ok(Some(bound))
    }

    /// `a` times `b`, slice by slice; one slice is taken for all of the other. Where the width of a
    /// tile of `a` is not the height of one of `b`, the larger is cut: its tiles are filled up with
    /// zeros in the original.
    pub(super) fn run(
        &self,
        a: &TileTensor,
        b: &TileTensor,
        added: Added<'_>,
    ) -> Result<TileTensor> {
        let ([a_t, rows, depth], [b_t, second, third]) = (a.tiles(), b.tiles());
        let ([height, inner], [first_side, second_side]) = (a.tile(), b.tile());
        let (b_depth, columns, b_inner, width) = match self.turned {
            false => (second, third, first_side, second_side),
            true => (third, second, second_side, first_side),
        };
        if depth != b_depth || a_t != b_t && a_t != 1 && b_t != 1 {
            return Err(wrong_shape("the operands of a product do not fit")
                .expected(format!("[{a_t}, {depth}, any] tiles"))
                .found(b.describe()));
        }
        if inner > b_inner {
            return self.run(&super::moves::resized(a, [height, b_inner])?, b, added);
        }
        if inner < b_inner {
            let cut = match self.turned {
                false => [inner, width],
                true => [width, inner],
            };
            return self.run(a, &super::moves::resized(b, cut)?, added);
        }
        let (tiles, tile) = ([a_t.max(b_t), rows, columns], [height, width]);
        if let Some(sum) = added.sum
            && (sum.tiles(), sum.tile()) != (tiles, tile)
        {
            return Err(wrong_shape("a sum that a product does not fit").found(sum.describe()));
        }
        let shape = [tiles[0], rows * height, columns * width];
        let output = TensorType::new(DataType::F32, shape)?;
        let inputs = match (added.bias, added.sum.map(TileTensor::data)) {
            (None, None) => vec![Some(a.data()), Some(b.data())],
            (bias, None) => vec![Some(a.data()), Some(b.data()), bias],
            (bias, sum) => vec![Some(a.data()), Some(b.data()), bias, sum],
        };
        let made = match self.prepared(&inputs, b, &output)? {
            Some(bound) => self.operator.run_bound(&bound, &inputs)?,
            None => self.operator.run(&inputs, output)?,
        };
        TileTensor::from_tensor(tiles, tile, &made)
    }
}
