//! Recurrent layers: LSTM (Hochreiter and Schmidhuber, 1997; forget gates: Gers et al., 2000; peepholes:
//! Gers and Schmidhuber, 2000), GRU (Cho et al., 2014) and the plain RNN (Elman, 1990). One product with
//! the inputs of all steps, then, in each step, a product with the state and the cell's update.
//!
//! Sequences of several lengths advance together: in each step the state of every sequence is multiplied,
//! and the cell updates those that have not ended.

mod cell_update;
mod gate_function;
mod run;

use super::element_types::of_float;
use super::pairs::paired_words;
use super::prepared::{Fill, Preparation, Weights};
use super::{Kernel, check_lengths, total_len};
use crate::floats::{FloatElement, FloatType, Floats};
use crate::panels::{layout, pack_columns, packed_len, word_rows};
use crate::signature::{Signature, refuse};
use crate::simd::Level;
use crate::simd::disjoint::{Blocks, for_each_block};
use gate_function::GateFunction;
use run::{LayerMemory, RecurrentRun};
use tenon_backend::{Operands, Refusal, Workload, WorkloadPlan, WorkloadSpec};
use tenon_base::Result;
use tenon_tensor::Tensor;

/// Operations of all steps from which on the two directions run on two threads.
const PARALLEL_OPERATIONS: usize = 1 << 18;

/// The cell of a layer, which fixes the order of the gates in weights and biases.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Cell {
    /// Input, output, forget and cell gates; with `coupled`, the forget gate is 1 less the input gate.
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

/// A recurrent layer.
#[derive(Debug, Clone)]
struct Recurrent {
    level: Level,
    /// The type of all operands but constant weights; sums and states are of f32.
    float: FloatType,
    /// The type of W and R.
    weights: FloatType,
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
    let x = signature.float_shape(0, float)?;
    let weights = signature.type_of_weights(1, float)?;
    signature.type_of_weights(2, float)?;
    let r = signature.float_shape(2, weights)?;
    let (&[first, second, features], &[directions, _, hidden]) = (&x[..], &r[..]) else {
        return Err(refuse(
            "no kernel for operands of other than three dimensions",
        ));
    };
    let batch_first = signature.flag("layout", false)?;
    let (steps, batch) = if batch_first {
        (second, first)
    } else {
        (first, second)
    };
    let cell = Cell::of(signature)?;
    let backwards = match signature.string("direction", "forward")? {
        "reverse" => vec![true],
        "bidirectional" => vec![false, true],
        _ => vec![false],
    };
    let is_lstm = matches!(cell, Cell::Lstm { .. });
    // Shape inference relates the shapes, but not the types of the states and peepholes to that of X.
    for input in [5, 6, 7] {
        signature.float_input(input, float)?;
    }
    let has = |input: usize| signature.optional(input).is_some();
    let layer = Recurrent {
        level: signature.level,
        float,
        weights,
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
        constant: [1, 2].map(|input| signature.is_constant(input)),
        bias: has(3),
        lengths: has(4),
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

    /// The type of packed weights.
    fn packed_type(&self) -> FloatType {
        match self.float {
            FloatType::F32 => self.weights,
            _ => FloatType::F32,
        }
    }

    /// Words of one direction's packed weights.
    fn packed(&self, input: usize) -> usize {
        self.packed_rows(input, word_rows(self.packed_type(), self.depth(input)))
    }

    /// Elements of one direction's panels of `rows` rows.
    fn packed_rows(&self, input: usize, rows: usize) -> usize {
        let [first, second] = self.parts(input);
        packed_len(rows, first).saturating_add(packed_len(rows, second))
    }

    /// The preparation of the weights of input `input`, `[direction][gate][depth]`.
    fn preparation<'a>(
        &self,
        input: usize,
        fill: &'a dyn Fn(&[f32], &mut [f32]),
    ) -> Preparation<'a> {
        Preparation {
            input,
            layout: layout(self.packed_type()),
            len: self.backwards.len().saturating_mul(self.packed(input)),
            fill: match self.packed_type() {
                FloatType::F32 => Fill::Floats(fill),
                float => Fill::Pairs {
                    fill,
                    depth: self.depth(input),
                    float,
                },
            },
        }
    }

    /// Packs the weights of all directions in f32.
    fn fill(&self, input: usize, from: &[f32], to: &mut [f32]) {
        let size = self.depth(input) * self.gates();
        let directions = from.chunks_exact(size);
        let packed = self.packed_rows(input, self.depth(input));
        for (from, to) in directions.zip(to.chunks_exact_mut(packed)) {
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
    fn sizes(&self) -> [usize; 12] {
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
            if self.packed_type() == FloatType::F32 {
                0
            } else {
                let x = rows.saturating_mul(paired_words(self.features));
                x.max(self.batch.saturating_mul(paired_words(self.hidden)))
            },
        ]
    }

    /// Elements of scratch memory for one direction.
    fn slot(&self) -> usize {
        total_len(self.sizes())
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
            prepared.extend(self.preparation(input, &fill).planned(spec)?);
        }
        Ok(WorkloadPlan {
            scratch_bytes: self.scratch().saturating_mul(size_of::<f32>()),
            prepared,
            ..WorkloadPlan::default()
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
        of_float!(self.layer.float, T => self.execute_as::<T>(operands))
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
        check_lengths(lengths.unwrap_or_default(), layer.steps)?;
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
        let operations = (2 * layer.steps * layer.batch).saturating_mul(layer.gates() * hidden);
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
