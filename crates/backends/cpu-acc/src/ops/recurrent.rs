//! Recurrent layers: LSTM (Hochreiter and Schmidhuber, 1997; forget gates: Gers et al., 2000; peepholes:
//! Gers and Schmidhuber, 2000), GRU (Cho et al., 2014) and the plain RNN (Elman, 1990). One product with
//! the inputs of all steps, then, in each step, a product with the state and the cell's update.
//!
//! Sequences of several lengths advance together: in each step the state of every sequence is multiplied,
//! and the cell updates those that have not ended.

use super::Kernel;
use super::prepared::{Preparation, Weights};
use crate::activation::Activation;
use crate::floats::{FloatElement, FloatType, Floats};
use crate::panels::{LAYOUT, Panels, pack_columns, packed_len};
use crate::signature::{Signature, refuse, refuse_attribute};
use crate::simd::disjoint::{Blocks, MatrixMut, for_each_block};
use crate::simd::gemm::{Gemm, multiply};
use crate::simd::math::{UnaryFunction, map_in_place};
use crate::simd::rows::Matrix;
use crate::simd::{Level, Simd, VectorOp};
use tenon_backend::{Operands, Refusal, Workload, WorkloadPlan, WorkloadSpec};
use tenon_base::{Error, ErrorKind, Result};
use tenon_tensor::{DataType, Tensor};

/// Operations of all steps from which on the two directions run on two threads.
const PARALLEL_OPERATIONS: usize = 1 << 18;

/// The cell of a layer, which fixes the order of the gates in weights and biases.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Cell {
    /// Input, output, forget and cell gates; with `coupled`, the input gate is 1 less the forget gate.
    Lstm { coupled: bool },
    /// Update, reset and hidden gates; with `reset_after`, the reset gate is applied after the product.
    Gru { reset_after: bool },
    /// One gate.
    Rnn,
}

impl Cell {
    fn of(signature: &Signature<'_>) -> Result<Self, Refusal> {
        Ok(match signature.op.name {
            "LSTM" => Cell::Lstm {
                coupled: signature.flag("input_forget", false)?,
            },
            "GRU" => Cell::Gru {
                reset_after: signature.flag("linear_before_reset", false)?,
            },
            _ => Cell::Rnn,
        })
    }

    fn gates(self) -> usize {
        match self {
            Cell::Lstm { .. } => 4,
            Cell::Gru { .. } => 3,
            Cell::Rnn => 1,
        }
    }

    fn default_functions(self) -> &'static [&'static str] {
        match self {
            Cell::Lstm { .. } => &["Sigmoid", "Tanh", "Tanh"],
            Cell::Gru { .. } => &["Sigmoid", "Tanh"],
            Cell::Rnn => &["Tanh"],
        }
    }
}

/// The activation of a gate.
#[derive(Debug, Clone, Copy)]
enum GateFunction {
    Unary(UnaryFunction),
    /// `alpha * x + beta`.
    Affine(f32, f32),
    /// `x` above alpha, else 0.
    ThresholdedRelu(f32),
    /// `alpha * tanh(beta * x)`.
    ScaledTanh(f32, f32),
    /// `x / (1 + |x|)`.
    Softsign,
    /// `ln(1 + exp(x))`.
    Softplus,
}

impl GateFunction {
    /// The functions of all directions; those with parameters take them from the lists in order.
    fn all(signature: &Signature<'_>, cell: Cell, directions: usize) -> Result<Vec<Self>, Refusal> {
        let attributes = signature.inference().attributes;
        let list = |name| {
            let list = attributes.floats(name);
            list.map_err(|error| refuse(error.to_string()))
        };
        let mut alphas = list("activation_alpha")?.unwrap_or_default().iter();
        let mut betas = list("activation_beta")?.unwrap_or_default().iter();
        let mut alpha = |default: f32| alphas.next().copied().unwrap_or(default);
        let mut beta = |default: f32| betas.next().copied().unwrap_or(default);
        let given = attributes.strings("activations");
        let names: Vec<&str> = match given.map_err(|error| refuse(error.to_string()))? {
            Some(names) => names.iter().map(String::as_str).collect(),
            None => cell.default_functions().repeat(directions),
        };
        if names.len() < directions * cell.default_functions().len() {
            return Err(refuse_attribute("activations", names.len()));
        }
        let function = |name: &str| {
            Ok(match name.to_ascii_lowercase().as_str() {
                "relu" => Self::Unary(UnaryFunction::Clamp {
                    low: 0.0,
                    high: f32::INFINITY,
                }),
                "tanh" => Self::Unary(UnaryFunction::Tanh),
                "sigmoid" => Self::Unary(UnaryFunction::Sigmoid),
                "affine" => Self::Affine(alpha(1.0), beta(0.0)),
                "leakyrelu" => Self::Unary(UnaryFunction::LeakyRelu { alpha: alpha(0.01) }),
                "thresholdedrelu" => Self::ThresholdedRelu(alpha(1.0)),
                "scaledtanh" => Self::ScaledTanh(alpha(1.0), beta(1.0)),
                "hardsigmoid" => Self::Unary(UnaryFunction::HardSigmoid {
                    alpha: alpha(0.2),
                    beta: beta(0.5),
                }),
                "elu" => Self::Unary(UnaryFunction::Elu { alpha: alpha(1.0) }),
                "softsign" => Self::Softsign,
                "softplus" => Self::Softplus,
                _ => return Err(refuse_attribute("activations", name)),
            })
        };
        names.into_iter().map(function).collect()
    }

    #[inline(always)]
    fn apply<S: Simd>(self, s: S, elements: &mut [f32]) {
        match self {
            Self::Unary(function) => map_in_place(s, function, elements),
            Self::Affine(alpha, beta) => elements.iter_mut().for_each(|x| *x = alpha * *x + beta),
            Self::ThresholdedRelu(alpha) => elements
                .iter_mut()
                .for_each(|x| *x = if *x > alpha { *x } else { 0.0 }),
            Self::ScaledTanh(alpha, beta) => {
                elements.iter_mut().for_each(|x| *x *= beta);
                map_in_place(s, UnaryFunction::Tanh, elements);
                elements.iter_mut().for_each(|x| *x *= alpha);
            }
            Self::Softsign => elements.iter_mut().for_each(|x| *x /= 1.0 + x.abs()),
            Self::Softplus => elements
                .iter_mut()
                .for_each(|x| *x = x.max(0.0) + (-x.abs()).exp().ln_1p()),
        }
    }
}

/// A recurrent layer.
#[derive(Debug, Clone)]
struct Recurrent {
    level: Level,
    float: FloatType,
    cell: Cell,
    steps: usize,
    batch: usize,
    features: usize,
    hidden: usize,
    /// For each direction, whether it runs from the last step to the first.
    backwards: Vec<bool>,
    /// The functions of all directions; there may be unused ones after them.
    functions: Vec<GateFunction>,
    /// The bound of the inputs of the functions.
    clip: f32,
    /// X and Y are `[batch, steps, ..]`, states `[batch, directions, hidden]`.
    batch_first: bool,
    /// Whether W and R are constants, which are packed when compiling.
    constant: [bool; 2],
    bias: bool,
    lengths: bool,
    /// Whether there are an initial hidden state and an initial cell state.
    initial: [bool; 2],
    peepholes: bool,
}

/// The kernel.
pub(super) fn kernel(signature: &Signature<'_>) -> Result<Box<dyn Kernel>, Refusal> {
    let float = FloatType::of_input(signature.input(0)?.dtype(), 0)?;
    let ranked = |input| -> Result<[usize; 3], Refusal> {
        let shape = signature.float_input(input, float)?;
        let extents = shape.and_then(|shape| <[usize; 3]>::try_from(&shape[..]).ok());
        extents.ok_or_else(|| refuse("the shapes do not fit"))
    };
    let [first, second, features] = ranked(0)?;
    let [directions, rows, hidden] = ranked(2)?;
    let batch_first = signature.flag("layout", false)?;
    let (steps, batch) = if batch_first {
        (second, first)
    } else {
        (first, second)
    };
    let cell = Cell::of(signature)?;
    let backwards = match signature.string("direction", "forward")? {
        "forward" => vec![false],
        "reverse" => vec![true],
        "bidirectional" => vec![false, true],
        other => return Err(refuse_attribute("direction", other)),
    };
    let is_lstm = matches!(cell, Cell::Lstm { .. });
    let states = if batch_first {
        [batch, directions, hidden]
    } else {
        [directions, batch, hidden]
    };
    let whole = if batch_first {
        [batch, steps, directions, hidden]
    } else {
        [steps, directions, batch, hidden]
    };
    let fits = |found: Option<&tenon_tensor::Shape>, expected: &[usize]| {
        found.is_none_or(|found| found[..] == *expected)
    };
    let mut matching = directions == backwards.len()
        && Some(rows) == hidden.checked_mul(cell.gates())
        && ranked(1)? == [directions, rows, features]
        && fits(signature.float_input(3, float)?, &[directions, 2 * rows])
        && fits(signature.float_input(5, float)?, &states)
        && fits(signature.float_output(0, float)?, &whole)
        && fits(signature.float_output(1, float)?, &states);
    if is_lstm {
        matching = matching
            && fits(signature.float_input(6, float)?, &states)
            && fits(signature.float_input(7, float)?, &[directions, 3 * hidden])
            && fits(signature.float_output(2, float)?, &states);
    }
    let lengths = signature.optional(4);
    if let Some(lengths) = lengths {
        matching &= lengths.dtype() == DataType::I32 && lengths.shape()[..] == [batch];
    }
    if !matching {
        return Err(refuse("the shapes or types do not fit"));
    }
    let has = |input: usize| signature.optional(input).is_some();
    let layer = Recurrent {
        level: signature.level,
        float,
        cell,
        steps,
        batch,
        features,
        hidden,
        functions: GateFunction::all(signature, cell, directions)?,
        backwards,
        clip: match signature.float("clip", 0.0)? {
            clip if clip > 0.0 => clip,
            _ => f32::INFINITY,
        },
        batch_first,
        // The prepared form is of f32.
        constant: [1, 2].map(|input| float == FloatType::F32 && signature.is_constant(input)),
        bias: has(3),
        lengths: lengths.is_some(),
        initial: [has(5), is_lstm && has(6)],
        peepholes: is_lstm && has(7),
    };
    if layer.scratch() > isize::MAX as usize / size_of::<f32>() {
        return Err(refuse("the layer is too large"));
    }
    Ok(Box::new(layer))
}

impl Recurrent {
    /// The columns of the products with all gates.
    fn gates(&self) -> usize {
        self.cell.gates() * self.hidden
    }

    /// The columns of the packed matrices of input 1 (W) or 2 (R). The hidden gate of a GRU with
    /// `reset_after` unset is multiplied separately.
    fn parts(&self, input: usize) -> [usize; 2] {
        match self.cell {
            Cell::Gru { reset_after: false } if input == 2 => [2 * self.hidden, self.hidden],
            _ => [self.gates(), 0],
        }
    }

    fn depth(&self, input: usize) -> usize {
        if input == 1 {
            self.features
        } else {
            self.hidden
        }
    }

    /// Elements of one direction's packed weights.
    fn packed(&self, input: usize) -> usize {
        let [first, second] = self.parts(input);
        let depth = self.depth(input);
        packed_len(depth, first).saturating_add(packed_len(depth, second))
    }

    /// The preparation of the weights of input `input`, `[direction][gate][depth]`.
    fn preparation<'a>(
        &self,
        input: usize,
        fill: &'a dyn Fn(&[f32], &mut [f32]),
    ) -> Preparation<'a> {
        Preparation {
            input,
            layout: LAYOUT,
            len: self.backwards.len().saturating_mul(self.packed(input)),
            fill,
        }
    }

    /// Packs the weights of all directions.
    fn fill(&self, input: usize, from: &[f32], to: &mut [f32]) {
        let size = self.depth(input) * self.gates();
        let directions = from.chunks_exact(size);
        for (from, to) in directions.zip(to.chunks_exact_mut(self.packed(input))) {
            self.pack(input, from, to);
        }
    }

    /// Packs the weights of one direction.
    fn pack(&self, input: usize, from: &[f32], to: &mut [f32]) {
        let depth = self.depth(input);
        let [first, second] = self.parts(input);
        let (from_first, from_second) = from.split_at(first * depth);
        let (to_first, to_second) = to.split_at_mut(packed_len(depth, first));
        pack_columns(from_first, depth, depth, first, to_first);
        if second > 0 {
            pack_columns(from_second, depth, depth, second, to_second);
        }
    }

    /// The parts of a direction's scratch memory.
    fn sizes(&self) -> [usize; 11] {
        let states = self.batch.saturating_mul(self.hidden);
        let rows = self.steps.saturating_mul(self.batch);
        let packed = |input: usize| {
            if self.constant[input - 1] {
                0
            } else {
                self.packed(input)
            }
        };
        let is_half = self.float != FloatType::F32;
        let is_gru = matches!(self.cell, Cell::Gru { .. });
        let is_lstm = matches!(self.cell, Cell::Lstm { .. });
        [
            self.gates().saturating_add(self.hidden),
            rows.saturating_mul(self.gates()),
            self.batch.saturating_mul(self.gates()),
            if is_gru { states } else { 0 },
            states,
            if is_lstm { states } else { 0 },
            packed(1),
            packed(2),
            if self.peepholes { 3 * self.hidden } else { 0 },
            if is_half {
                rows.saturating_mul(self.features)
            } else {
                0
            },
            if is_half {
                let depth = self.features.max(self.hidden);
                depth.saturating_mul(self.gates())
            } else {
                0
            },
        ]
    }

    /// Elements of scratch memory for one direction.
    fn slot(&self) -> usize {
        self.sizes().into_iter().fold(0, usize::saturating_add)
    }

    fn scratch(&self) -> usize {
        self.slot().saturating_mul(self.backwards.len())
    }

    /// The row of a step of a sequence in X.
    fn row(&self, step: usize, sequence: usize) -> usize {
        if self.batch_first {
            sequence * self.steps + step
        } else {
            step * self.batch + sequence
        }
    }

    /// The start of a sequence's state in an input or output of states.
    fn state_at(&self, direction: usize, sequence: usize) -> usize {
        let row = if self.batch_first {
            sequence * self.backwards.len() + direction
        } else {
            direction * self.batch + sequence
        };
        row * self.hidden
    }
}

impl Kernel for Recurrent {
    fn plan(&self, spec: &WorkloadSpec) -> Result<WorkloadPlan> {
        let mut prepared = Vec::new();
        for input in [1, 2].into_iter().filter(|input| self.constant[input - 1]) {
            let fill = |from: &[f32], to: &mut [f32]| self.fill(input, from, to);
            prepared.push(self.preparation(input, &fill).prepare(spec)?);
        }
        Ok(WorkloadPlan {
            scratch_bytes: self.scratch().saturating_mul(size_of::<f32>()),
            in_place: Vec::new(),
            prepared,
        })
    }

    fn plain(&self, spec: &WorkloadSpec, input: usize) -> Result<Option<Tensor>> {
        if !(1..=2).contains(&input) || !self.constant[input - 1] {
            return Ok(None);
        }
        let fill = |from: &[f32], to: &mut [f32]| self.fill(input, from, to);
        self.preparation(input, &fill).plain(spec)
    }

    fn bind(self: Box<Self>, spec: &WorkloadSpec) -> Result<Box<dyn Workload>> {
        let find = |input: usize| -> Result<Option<Weights>> {
            let fill = |from: &[f32], to: &mut [f32]| self.fill(input, from, to);
            let constant = self.constant[input - 1];
            let preparation = constant.then(|| self.preparation(input, &fill));
            preparation.map(|form| form.find(spec)).transpose()
        };
        let weights = [find(1)?, find(2)?];
        Ok(Box::new(BoundRecurrent {
            layer: *self,
            weights,
        }))
    }
}

/// A layer with its packed weights, ready to execute.
struct BoundRecurrent {
    layer: Recurrent,
    /// The packed weights of the input and of the hidden state, where they are constants.
    weights: [Option<Weights>; 2],
}

impl Workload for BoundRecurrent {
    fn execute(&self, operands: &mut Operands<'_>) -> Result<()> {
        match self.layer.float {
            FloatType::F32 => self.execute_as::<f32>(operands),
            FloatType::F16 => self.execute_as::<half::f16>(operands),
            FloatType::Bf16 => self.execute_as::<half::bf16>(operands),
        }
    }

    fn reads(&self, input: usize) -> bool {
        !matches!(input, 1 | 2) || self.weights[input - 1].is_none()
    }
}

impl BoundRecurrent {
    fn execute_as<T: FloatElement>(&self, operands: &mut Operands<'_>) -> Result<()> {
        let layer = &self.layer;
        let (inputs, mut outputs) = operands.split();
        let given = |is_given: bool, input: usize| -> Result<Option<Floats<'_>>> {
            let elements = is_given.then(|| inputs.slice::<T>(input)).transpose()?;
            Ok(elements.map(T::floats))
        };
        let plain = |index: usize| given(self.weights[index].is_none(), index + 1);
        let lengths = layer.lengths.then(|| inputs.slice::<i32>(4)).transpose()?;
        for &length in lengths.unwrap_or_default() {
            if usize::try_from(length).is_ok_and(|length| length <= layer.steps) {
                continue;
            }
            return Err(
                Error::new(ErrorKind::OutOfBounds, "a length is out of range")
                    .expected(format_args!("0 to {}", layer.steps))
                    .found(length),
            );
        }
        let run = RecurrentRun {
            bound: self,
            x: T::floats(inputs.slice(0)?),
            plain: [plain(0)?, plain(1)?],
            bias: given(layer.bias, 3)?,
            lengths,
            initial: [given(layer.initial[0], 5)?, given(layer.initial[1], 6)?],
            peepholes: given(layer.peepholes, 7)?,
        };
        let y = outputs.optional::<T>(0)?;
        let mut last = [outputs.optional::<T>(1)?, None];
        if let Cell::Lstm { .. } = layer.cell {
            last[1] = outputs.optional::<T>(2)?;
        }
        let (slot, directions, hidden) = (layer.slot(), layer.backwards.len(), layer.hidden);
        let scratch = super::scratch(&mut outputs, layer.scratch())?;
        let (rows, width) = if y.is_none() {
            (0, 0)
        } else if layer.batch_first {
            (layer.batch * layer.steps, hidden)
        } else {
            (layer.steps, layer.batch * hidden)
        };
        let blocks = Blocks {
            stacks: 1,
            rows,
            blocks: directions,
            width,
        };
        let operations = 2 * layer.steps * layer.batch * layer.gates() * hidden;
        let parallel = directions > 1 && operations >= PARALLEL_OPERATIONS;
        let memory = (&mut *scratch, slot, directions);
        let y = y.unwrap_or_default();
        for_each_block(y, blocks, memory, parallel, |direction, mut y, memory| {
            let mut store = |step: usize, sequence: usize, h: &[f32]| {
                if rows == 0 {
                    return;
                }
                let to = if layer.batch_first {
                    y.row_mut(layer.row(step, sequence))
                } else {
                    &mut y.row_mut(step)[sequence * hidden..][..hidden]
                };
                T::floats_mut(to).write(layer.level, 0..hidden, h);
            };
            run.direction(direction, &mut store, memory);
        });
        for (direction, memory) in scratch.chunks_exact_mut(slot).enumerate() {
            let state = LayerMemory::new(layer, memory);
            for (to, from) in last.iter_mut().zip([state.h, state.c]) {
                let Some(to) = to else { continue };
                for (sequence, from) in from.chunks_exact(hidden).enumerate() {
                    let at = layer.state_at(direction, sequence);
                    T::floats_mut(to).write(layer.level, at..at + hidden, from);
                }
            }
        }
        Ok(())
    }
}

/// The scratch memory of one direction.
struct LayerMemory<'a> {
    /// The biases of the input's product.
    bias: &'a mut [f32],
    /// The bias of the hidden gate of a GRU with `reset_after`; else zeros.
    hidden_bias: &'a mut [f32],
    /// The products with the inputs of all steps, a row for each row of X.
    input_gates: &'a mut [f32],
    /// The gates of one step.
    gates: &'a mut [f32],
    /// The hidden state after the reset gate.
    reset: &'a mut [f32],
    h: &'a mut [f32],
    c: &'a mut [f32],
    /// The packed weights that are no constants.
    packed: [&'a mut [f32]; 2],
    peepholes: &'a mut [f32],
    /// X in f32, where it is of another type.
    x: &'a mut [f32],
    /// Weights in f32, where they are of another type.
    weights: &'a mut [f32],
}

impl<'a> LayerMemory<'a> {
    fn new(layer: &Recurrent, memory: &'a mut [f32]) -> Self {
        let mut rest = memory;
        let [
            biases,
            input_gates,
            gates,
            reset,
            h,
            c,
            w,
            r,
            peepholes,
            x,
            weights,
        ] = layer
            .sizes()
            .map(|size| rest.split_off_mut(..size).unwrap_or_default());
        let (bias, hidden_bias) = biases.split_at_mut(layer.gates());
        Self {
            bias,
            hidden_bias,
            input_gates,
            gates,
            reset,
            h,
            c,
            packed: [w, r],
            peepholes,
            x,
            weights,
        }
    }
}

/// One execution.
struct RecurrentRun<'a> {
    bound: &'a BoundRecurrent,
    x: Floats<'a>,
    /// W and R, where they are no constants.
    plain: [Option<Floats<'a>>; 2],
    bias: Option<Floats<'a>>,
    lengths: Option<&'a [i32]>,
    /// The hidden state and the cell state.
    initial: [Option<Floats<'a>>; 2],
    peepholes: Option<Floats<'a>>,
}

impl RecurrentRun<'_> {
    /// All steps of one direction. `store` writes the output of a step of a sequence.
    fn direction(
        &self,
        direction: usize,
        store: &mut dyn FnMut(usize, usize, &[f32]),
        memory: &mut [f32],
    ) {
        let layer = &self.bound.layer;
        let hidden = layer.hidden;
        let mut memory = LayerMemory::new(layer, memory);
        self.begin(direction, &mut memory);
        let LayerMemory {
            hidden_bias,
            input_gates,
            gates,
            reset,
            h,
            c,
            packed,
            peepholes,
            ..
        } = memory;
        let [_, r] = self.weights(direction, [&*packed[0], &*packed[1]]);
        let (first, second) = r.split_at(packed_len(hidden, layer.parts(2)[0]));
        let length = |sequence: usize| {
            self.lengths
                .map_or(layer.steps, |lengths| lengths[sequence] as usize)
        };
        let longest = (0..layer.batch).map(length).max().unwrap_or(0);
        let step_of = |nth: usize, sequence: usize| {
            if layer.backwards[direction] {
                length(sequence) - 1 - nth
            } else {
                nth
            }
        };
        let each = layer.cell.default_functions().len();
        let functions = &layer.functions[direction * each..][..each];
        let peepholes = layer.peepholes.then_some(&*peepholes);
        let all = layer.gates();
        for nth in 0..longest {
            let [columns, later] = layer.parts(2);
            let output = MatrixMut::new(gates, layer.batch, columns, all);
            self.multiply(h, layer.batch, first, None, output);
            let mut update = |phase: UpdatePhase, gates: &mut [f32], reset: &mut [f32]| {
                for sequence in (0..layer.batch).filter(|&sequence| nth < length(sequence)) {
                    let row = layer.row(step_of(nth, sequence), sequence);
                    let own = sequence * hidden..(sequence + 1) * hidden;
                    layer.level.run(CellUpdate {
                        layer,
                        phase,
                        functions,
                        gates: &mut gates[sequence * all..][..all],
                        input: &input_gates[row * all..][..all],
                        hidden_bias,
                        peepholes,
                        h: &mut h[own.clone()],
                        c: c.get_mut(own.clone()).unwrap_or_default(),
                        reset: reset.get_mut(own).unwrap_or_default(),
                    });
                }
            };
            if later > 0 {
                update(UpdatePhase::Reset, gates, reset);
                let output = MatrixMut::new(&mut gates[columns..], layer.batch, later, all);
                self.multiply(reset, layer.batch, second, None, output);
            }
            update(UpdatePhase::State, gates, reset);
            for sequence in (0..layer.batch).filter(|&sequence| nth < length(sequence)) {
                let h = &h[sequence * hidden..][..hidden];
                store(step_of(nth, sequence), sequence, h);
            }
        }
        // Steps after the end of a sequence are 0. The gates of the last step are no longer needed.
        gates.fill(0.0);
        for sequence in 0..layer.batch {
            for step in length(sequence)..layer.steps {
                store(step, sequence, &gates[..hidden]);
            }
        }
    }

    /// Sets the initial states, packs weights that are no constants, and multiplies the inputs of all
    /// steps.
    fn begin(&self, direction: usize, memory: &mut LayerMemory<'_>) {
        let layer = &self.bound.layer;
        let (all, hidden) = (layer.gates(), layer.hidden);
        memory.hidden_bias.fill(0.0);
        memory.bias.fill(0.0);
        let level = layer.level;
        if let Some(bias) = self.bias {
            let start = direction * 2 * all;
            bias.copy(level, start..start + all, memory.bias);
            let of_state = &mut memory.gates[..all];
            bias.copy(level, start + all..start + 2 * all, of_state);
            let summed = if layer.cell == (Cell::Gru { reset_after: true }) {
                memory.hidden_bias.copy_from_slice(&of_state[2 * hidden..]);
                2 * hidden
            } else {
                all
            };
            for (sum, bias) in memory.bias.iter_mut().zip(&of_state[..summed]) {
                *sum += *bias;
            }
        }
        if let Some(peepholes) = self.peepholes {
            let start = direction * 3 * hidden;
            peepholes.copy(level, start..start + 3 * hidden, memory.peepholes);
        }
        for (state, initial) in [&mut *memory.h, &mut *memory.c]
            .into_iter()
            .zip(self.initial)
        {
            match initial {
                Some(initial) => {
                    for (sequence, state) in state.chunks_exact_mut(hidden).enumerate() {
                        let at = layer.state_at(direction, sequence);
                        initial.copy(level, at..at + hidden, state);
                    }
                }
                None => state.fill(0.0),
            }
        }
        for (input, plain) in (1..).zip(self.plain) {
            let size = layer.depth(input) * all;
            if let Some(plain) = plain {
                let start = direction * size;
                let own = plain.load(level, start..start + size, memory.weights);
                layer.pack(input, own, memory.packed[input - 1]);
            }
        }
        let rows = layer.steps * layer.batch;
        let [w, _] = self.weights(direction, [&*memory.packed[0], &*memory.packed[1]]);
        let output = MatrixMut::new(memory.input_gates, rows, all, all);
        let x = self.x.load(level, 0..rows * layer.features, memory.x);
        self.multiply(x, rows, w, Some(memory.bias), output);
    }

    /// The packed weights of a direction.
    fn weights<'w>(&'w self, direction: usize, packed: [&'w [f32]; 2]) -> [&'w [f32]; 2] {
        [0, 1].map(|index| match &self.bound.weights[index] {
            Some(weights) => {
                let size = self.bound.layer.packed(index + 1);
                &weights.elements()[direction * size..][..size]
            }
            None => packed[index],
        })
    }

    /// The product of the rows of `a` and a packed matrix.
    fn multiply(
        &self,
        a: &[f32],
        rows: usize,
        panels: &[f32],
        bias: Option<&[f32]>,
        output: MatrixMut<'_>,
    ) {
        let depth = a.len() / rows;
        let Activation { limits, function } = Activation::NONE;
        let gemm = Gemm {
            panels: Panels::new(panels, depth, output.columns()),
            bias,
            addend: None,
            scale: 1.0,
            limits,
            function,
        };
        let a = Matrix::new(a, rows, depth, depth);
        multiply(self.bound.layer.level, &a, &gemm, output);
    }
}

/// A phase of the update of the cells.
#[derive(Clone, Copy, PartialEq)]
enum UpdatePhase {
    /// The update and reset gates of a GRU with `reset_after` unset.
    Reset,
    /// The state.
    State,
}

/// The update of the state of one sequence by its gates.
struct CellUpdate<'a> {
    layer: &'a Recurrent,
    phase: UpdatePhase,
    functions: &'a [GateFunction],
    /// The products with the state.
    gates: &'a mut [f32],
    /// The products with the input.
    input: &'a [f32],
    hidden_bias: &'a [f32],
    peepholes: Option<&'a [f32]>,
    h: &'a mut [f32],
    c: &'a mut [f32],
    reset: &'a mut [f32],
}

/// `sum + addend` within `-clip..=clip`; NaN stays NaN.
#[inline(always)]
fn add_clipped(sums: &mut [f32], addends: &[f32], clip: f32) {
    for (sum, addend) in sums.iter_mut().zip(addends) {
        *sum += addend;
    }
    if clip < f32::INFINITY {
        for sum in sums {
            *sum = if *sum > clip { clip } else { *sum };
            *sum = if *sum < -clip { -clip } else { *sum };
        }
    }
}

impl CellUpdate<'_> {
    #[inline(always)]
    fn lstm<S: Simd>(self, s: S, coupled: bool) {
        let (hidden, clip) = (self.h.len(), self.layer.clip);
        let (gates, input) = (self.gates, self.input);
        if let Some(peepholes) = self.peepholes {
            // The input and the forget gate observe the cell state before the update.
            for (gate, peephole) in [(0, 0), (2, 2)] {
                let gate = &mut gates[gate * hidden..][..hidden];
                let weights = &peepholes[peephole * hidden..][..hidden];
                for ((gate, weight), c) in gate.iter_mut().zip(weights).zip(&*self.c) {
                    *gate += weight * c;
                }
            }
        }
        let [f, g, h] = [0, 1, 2].map(|nth| self.functions[nth]);
        if self.peepholes.is_none() {
            add_clipped(gates, input, clip);
            f.apply(s, &mut gates[..3 * hidden]);
        } else {
            for gate in [0, 2, 3] {
                let own = gate * hidden..(gate + 1) * hidden;
                add_clipped(&mut gates[own.clone()], &input[own], clip);
            }
            f.apply(s, &mut gates[..hidden]);
            f.apply(s, &mut gates[2 * hidden..3 * hidden]);
        }
        g.apply(s, &mut gates[3 * hidden..]);
        let (in_gate, rest) = gates.split_at_mut(hidden);
        let (out_gate, rest) = rest.split_at_mut(hidden);
        let (forget, candidate) = rest.split_at_mut(hidden);
        if coupled {
            for (gate, forget) in in_gate.iter_mut().zip(&*forget) {
                *gate = 1.0 - forget;
            }
        }
        let cells = self.c.iter_mut().zip(&mut *self.h);
        let gates = in_gate.iter().zip(&*forget).zip(&*candidate);
        for ((c, h), ((in_gate, forget), candidate)) in cells.zip(gates) {
            *c = forget * *c + in_gate * candidate;
            *h = *c;
        }
        if let Some(peepholes) = self.peepholes {
            let weights = &peepholes[hidden..2 * hidden];
            for ((gate, weight), c) in out_gate.iter_mut().zip(weights).zip(&*self.c) {
                *gate += weight * c;
            }
            add_clipped(out_gate, &input[hidden..2 * hidden], clip);
            f.apply(s, out_gate);
        }
        h.apply(s, self.h);
        for (h, gate) in self.h.iter_mut().zip(&*out_gate) {
            *h *= gate;
        }
    }

    #[inline(always)]
    fn gru<S: Simd>(self, s: S, reset_after: bool) {
        let (hidden, clip) = (self.h.len(), self.layer.clip);
        let (gates, candidate) = self.gates.split_at_mut(2 * hidden);
        if reset_after || self.phase == UpdatePhase::Reset {
            add_clipped(gates, &self.input[..2 * hidden], clip);
            self.functions[0].apply(s, gates);
        }
        let (update, reset) = gates.split_at(hidden);
        if self.phase == UpdatePhase::Reset {
            for ((to, reset), h) in self.reset.iter_mut().zip(reset).zip(&*self.h) {
                *to = reset * h;
            }
            return;
        }
        if reset_after {
            let pairs = candidate.iter_mut().zip(reset).zip(self.hidden_bias);
            for ((candidate, reset), bias) in pairs {
                *candidate = reset * (*candidate + bias);
            }
        }
        add_clipped(candidate, &self.input[2 * hidden..], clip);
        self.functions[1].apply(s, candidate);
        for ((h, candidate), update) in self.h.iter_mut().zip(&*candidate).zip(update) {
            *h = (1.0 - update) * candidate + update * *h;
        }
    }
}

impl VectorOp for CellUpdate<'_> {
    type Output = ();

    #[inline(always)]
    fn eval<S: Simd>(self, s: S) {
        match self.layer.cell {
            Cell::Lstm { coupled } => self.lstm(s, coupled),
            Cell::Gru { reset_after } => self.gru(s, reset_after),
            Cell::Rnn => {
                add_clipped(self.gates, self.input, self.layer.clip);
                self.functions[0].apply(s, self.gates);
                self.h.copy_from_slice(self.gates);
            }
        }
    }
}
