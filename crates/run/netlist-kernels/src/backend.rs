//! Ops of netlists that a backend executes: a workload is bound to the shapes of the first run.

use super::buffer_pool;
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

/// An operator of a kernel, executed by the first backend that supports it.
struct Operator {
    backends: Arc<Registry>,
    op: &'static OperatorDef,
    attributes: Attributes,
    /// The workload for the shapes of the last run; the shapes of an op do not change.
    bound: Mutex<Option<Arc<BoundOperator>>>,
}

struct BoundOperator {
    inputs: Vec<Option<TensorType>>,
    output: TensorType,
    scratch: usize,
    workload: Box<dyn Workload>,
}

impl BoundOperator {
    /// Whether it is bound to operands of these types.
    fn matches(&self, inputs: &[Option<&Tensor>], output: &TensorType) -> bool {
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

    fn run_bound(&self, bound: &BoundOperator, inputs: &[Option<&Tensor>]) -> Result<Tensor> {
        let outputs = [Some(bound.output.clone())];
        let mut operands =
            OwnedOperands::with_memory(inputs, &outputs, bound.scratch, buffer_pool::allocate)?;
        operands.execute(&*bound.workload)?;
        let result = operands.into_outputs()?.pop().flatten();
        result.ok_or_else(|| Error::new(ErrorKind::Internal, "a workload without an output"))
    }

    fn bound(&self, inputs: &[Option<&Tensor>], output: TensorType) -> Result<Arc<BoundOperator>> {
        let mut bound = self.bound.lock().unwrap_or_else(PoisonError::into_inner);
        let matches = |bound: &&Arc<BoundOperator>| bound.matches(inputs, &output);
        if let Some(known) = bound.as_ref().filter(matches) {
            return Ok(known.clone());
        }
        let new = Arc::new(self.bind(inputs, output, None)?);
        *bound = Some(new.clone());
        Ok(new)
    }

    /// The workload for inputs of these types; input `constant` is a constant.
    fn bind(
        &self,
        inputs: &[Option<&Tensor>],
        output: TensorType,
        constant: Option<usize>,
    ) -> Result<BoundOperator> {
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
            ranges: None,
        };
        let view = NodeView {
            op: spec.op,
            attributes: &spec.attributes,
            inputs: &types.iter().map(Option::as_ref).collect::<Vec<_>>(),
            constants: &constants,
            outputs: &[Some(&output)],
            ranges: None,
        };
        let supporting = self
            .backends
            .iter()
            .find(|backend| backend.supports(&view).is_ok());
        let backend = supporting.ok_or_else(|| {
            let text = format!("no backend supports {} of this shape", self.op.name);
            Error::new(ErrorKind::Unsupported, text)
        })?;
        // The plan is used in this process only; none of it is stored.
        let WorkloadPlan {
            scratch_bytes,
            prepared,
            ..
        } = backend.plan(&spec, tenon_backend::CpuLevel::Baseline)?;
        for form in prepared {
            if let Some(Some(input)) = spec.inputs.get_mut(form.input) {
                input.prepared = Some((form.layout, form.data));
            }
        }
        Ok(BoundOperator {
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

/// A unary elementwise operator.
pub(super) struct Elementwise(Operator);

impl Elementwise {
    /// The operator `name`.
    pub(super) fn new(site: &Site<'_>, name: &str) -> Result<Self> {
        Operator::new(site, name, Attributes::new()).map(Self)
    }

    /// The tanh approximation of Gelu.
    pub(super) fn gelu(site: &Site<'_>) -> Result<Self> {
        let approximate = attribute("approximate", Attribute::String("tanh".into()));
        Operator::new(site, "Gelu", approximate).map(Self)
    }

    pub(super) fn run(&self, a: &TileTensor) -> Result<TileTensor> {
        let result = self.0.run(&[Some(a.data())], a.data().ty().clone())?;
        TileTensor::from_tensor(a.tiles(), a.tile(), &result)
    }
}

/// The addends of a matrix product, fused into its epilogue.
#[derive(Clone, Copy, Default)]
pub(super) struct MatMulAddends<'a> {
    /// One element per column.
    pub bias: Option<&'a Tensor>,
    /// A tensor of the product's tiles.
    pub sum: Option<&'a TileTensor>,
}

/// A batched matrix product: slice by slice.
pub(super) struct BatchMatMul {
    operator: Operator,
    /// Whether B is `[t, n, k]`.
    transposed_b: bool,
    /// B, where it is the same in most runs.
    weights: Option<Mutex<PreparedWeights>>,
}

/// The last B, and its workload with prepared weights from the second run on.
#[derive(Default)]
struct PreparedWeights {
    last: Option<TileTensor>,
    bound: Option<Arc<BoundOperator>>,
}

impl BatchMatMul {
    /// `constant`: B is the same in most runs; `adds`: the product may have addends; `scale`
    /// multiplies the product.
    pub(super) fn new(
        site: &Site<'_>,
        [transposed_b, constant, adds]: [bool; 3],
        scale: f32,
    ) -> Result<Self> {
        let operator = if transposed_b || adds || scale != 1.0 {
            let mut attributes = attribute("trans_b", Attribute::Int(transposed_b.into()));
            attributes.set("scale", Attribute::Float(scale));
            Operator::new(site, "tenon.MatMul", attributes)?
        } else {
            Operator::new(site, "MatMul", Attributes::new())?
        };
        Ok(Self {
            operator,
            transposed_b,
            weights: constant.then(Mutex::default),
        })
    }

    /// The workload with `b` as prepared weights; `None` unless B is constant and the same as in the last
    /// run.
    fn prepared(
        &self,
        inputs: &[Option<&Tensor>],
        b: &TileTensor,
        output: &TensorType,
    ) -> Result<Option<Arc<BoundOperator>>> {
        let Some(weights) = &self.weights else {
            return Ok(None);
        };
        let mut weights = weights.lock().unwrap_or_else(PoisonError::into_inner);
        if !weights.last.as_ref().is_some_and(|last| last.is_same(b)) {
            *weights = PreparedWeights {
                last: Some(b.clone()),
                bound: None,
            };
            return Ok(None);
        }
        let matches = |bound: &&Arc<BoundOperator>| bound.matches(inputs, output);
        if let Some(bound) = weights.bound.as_ref().filter(matches) {
            return Ok(Some(bound.clone()));
        }
        let bound = Arc::new(self.operator.bind(inputs, output.clone(), Some(1))?);
        weights.bound = Some(bound.clone());
        Ok(Some(bound))
    }

    /// `a` times `b`, slice by slice; a single slice is broadcast. Where the width of a tile of `a`
    /// differs from the height of a tile of `b`, the larger tile is truncated: the rest of it is
    /// padding.
    pub(super) fn run(
        &self,
        a: &TileTensor,
        b: &TileTensor,
        addends: MatMulAddends<'_>,
    ) -> Result<TileTensor> {
        let ([a_t, rows, depth], [b_t, second, third]) = (a.tiles(), b.tiles());
        let ([height, inner], [first_side, second_side]) = (a.tile(), b.tile());
        let (b_depth, columns, b_inner, width) = if self.transposed_b {
            (third, second, second_side, first_side)
        } else {
            (second, third, first_side, second_side)
        };
        if depth != b_depth || a_t != b_t && a_t != 1 && b_t != 1 {
            return Err(
                wrong_shape("the operands of a matrix product differ in depth or slices")
                    .expected(format!("[{a_t}, {depth}, any] tiles"))
                    .found(b.describe()),
            );
        }
        if inner > b_inner {
            return self.run(&super::moves::resized(a, [height, b_inner])?, b, addends);
        }
        if inner < b_inner {
            let truncated = if self.transposed_b {
                [width, inner]
            } else {
                [inner, width]
            };
            return self.run(a, &super::moves::resized(b, truncated)?, addends);
        }
        let (tiles, tile) = ([a_t.max(b_t), rows, columns], [height, width]);
        if let Some(sum) = addends.sum
            && (sum.tiles(), sum.tile()) != (tiles, tile)
        {
            return Err(
                wrong_shape("the sum differs in shape from the product").found(sum.describe())
            );
        }
        let shape = [tiles[0], rows * height, columns * width];
        let output = TensorType::new(DataType::F32, shape)?;
        let inputs = match (addends.bias, addends.sum.map(TileTensor::data)) {
            (None, None) => vec![Some(a.data()), Some(b.data())],
            (bias, None) => vec![Some(a.data()), Some(b.data()), bias],
            (bias, sum) => vec![Some(a.data()), Some(b.data()), bias, sum],
        };
        let result = match self.prepared(&inputs, b, &output)? {
            Some(bound) => self.operator.run_bound(&bound, &inputs)?,
            None => self.operator.run(&inputs, output)?,
        };
        TileTensor::from_tensor(tiles, tile, &result)
    }
}
