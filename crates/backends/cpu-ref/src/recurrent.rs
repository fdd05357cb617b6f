//! Recurrent layers (LSTM, GRU, RNN). Sums and states are f64; outputs are rounded once.

use crate::activation::softplus;
use crate::elementary::{sigmoid, tanh};
use crate::kernel::{
    BuildError, BuildKernel, Kernel, Node, floats, length, scratch, unsupported_type,
    unsupported_value,
};
use crate::matmul::dot;
use crate::number::{Number, WidenedArithmetic};
use half::{bf16, f16};
use tenon_backend::Inputs;
use tenon_base::{Result, stop};
use tenon_graph::Attributes;
use tenon_tensor::DataType;

pub(crate) static KERNELS: &[(&str, BuildKernel)] = &[
    ("LSTM", |node| layer(node, CellKind::Lstm)),
    ("GRU", |node| layer(node, CellKind::Gru)),
    ("RNN", |node| layer(node, CellKind::Rnn)),
];

#[derive(Debug, Clone, Copy, PartialEq)]
enum CellKind {
    Lstm,
    Gru,
    Rnn,
}

impl CellKind {
    fn gates(self) -> usize {
        match self {
            CellKind::Lstm => 4,
            CellKind::Gru => 3,
            CellKind::Rnn => 1,
        }
    }

    fn default_functions(self) -> &'static [&'static str] {
        match self {
            CellKind::Lstm => &["Sigmoid", "Tanh", "Tanh"],
            CellKind::Gru => &["Sigmoid", "Tanh"],
            CellKind::Rnn => &["Tanh"],
        }
    }
}

/// An activation function with its parameters.
#[derive(Debug, Clone, Copy)]
enum ActivationFunction {
    Relu,
    Tanh,
    Sigmoid,
    Affine(f64, f64),
    LeakyRelu(f64),
    ThresholdedRelu(f64),
    ScaledTanh(f64, f64),
    HardSigmoid(f64, f64),
    Elu(f64),
    Softsign,
    Softplus,
}

impl ActivationFunction {
    /// The functions of all gates; those with parameters take them from the lists in order.
    fn all(
        attributes: &Attributes,
        cell: CellKind,
        directions: usize,
    ) -> Result<Vec<Self>, BuildError> {
        let mut alphas = attributes
            .floats("activation_alpha")?
            .unwrap_or_default()
            .iter();
        let mut betas = attributes
            .floats("activation_beta")?
            .unwrap_or_default()
            .iter();
        let mut alpha = |default: f64| alphas.next().map_or(default, |&alpha| alpha.into());
        let mut beta = |default: f64| betas.next().map_or(default, |&beta| beta.into());
        let names: Vec<&str> = match attributes.strings("activations")? {
            Some(names) => names.iter().map(String::as_str).collect(),
            None => cell.default_functions().repeat(directions),
        };
        let function = |name: &str| {
            Ok(match name.to_ascii_lowercase().as_str() {
                "relu" => ActivationFunction::Relu,
                "tanh" => ActivationFunction::Tanh,
                "sigmoid" => ActivationFunction::Sigmoid,
                "affine" => ActivationFunction::Affine(alpha(1.0), beta(0.0)),
                "leakyrelu" => ActivationFunction::LeakyRelu(alpha(0.01)),
                "thresholdedrelu" => ActivationFunction::ThresholdedRelu(alpha(1.0)),
                "scaledtanh" => ActivationFunction::ScaledTanh(alpha(1.0), beta(1.0)),
                "hardsigmoid" => ActivationFunction::HardSigmoid(alpha(0.2), beta(0.5)),
                "elu" => ActivationFunction::Elu(alpha(1.0)),
                "softsign" => ActivationFunction::Softsign,
                "softplus" => ActivationFunction::Softplus,
                _ => return Err(unsupported_value("activations", name)),
            })
        };
        names.into_iter().map(function).collect()
    }

    fn apply(self, x: f64) -> f64 {
        match self {
            ActivationFunction::Relu => x.nan_max(0.0),
            ActivationFunction::Tanh => tanh(x),
            ActivationFunction::Sigmoid => sigmoid(x),
            ActivationFunction::Affine(alpha, beta) => alpha * x + beta,
            ActivationFunction::LeakyRelu(alpha) if x < 0.0 => alpha * x,
            ActivationFunction::LeakyRelu(_) => x,
            ActivationFunction::ThresholdedRelu(alpha) if x > alpha => x,
            ActivationFunction::ThresholdedRelu(_) => 0.0,
            ActivationFunction::ScaledTanh(alpha, beta) => alpha * tanh(beta * x),
            ActivationFunction::HardSigmoid(alpha, beta) => {
                (alpha * x + beta).nan_max(0.0).nan_min(1.0)
            }
            ActivationFunction::Elu(alpha) if x < 0.0 => alpha * x.exp_m1(),
            ActivationFunction::Elu(_) => x,
            ActivationFunction::Softsign => x / (1.0 + x.abs()),
            ActivationFunction::Softplus => softplus(x),
        }
    }
}

/// The shapes and attributes of a layer.
struct RecurrentLayer {
    cell: CellKind,
    steps: usize,
    batch: usize,
    features: usize,
    hidden: usize,
    /// For each direction, whether it runs backwards.
    directions: Vec<bool>,
    functions: Vec<ActivationFunction>,
    clip: f64,
    /// X and Y are [batch, steps, ..], states [batch, directions, hidden].
    batch_first: bool,
    /// LSTM: the forget gate is 1 - input gate, as in onnxruntime.
    coupled: bool,
    /// GRU: the reset gate is applied after the product.
    reset_after: bool,
}

impl RecurrentLayer {
    fn new(node: &Node<'_>, cell: CellKind) -> Result<Self, BuildError> {
        let attributes = node.attributes;
        let [first, second, features] = **node.shape(0)? else {
            return Err(unsupported_value(
                "layout",
                "of other than three dimensions",
            ));
        };
        let batch_first = attributes.flag("layout", false)?;
        let directions = match attributes.string("direction", "forward")? {
            "forward" => vec![false],
            "reverse" => vec![true],
            "bidirectional" => vec![false, true],
            other => return Err(unsupported_value("direction", other)),
        };
        Ok(Self {
            cell,
            steps: if batch_first { second } else { first },
            batch: if batch_first { first } else { second },
            features,
            hidden: node.shape(2)?.last().copied().unwrap_or(0),
            functions: ActivationFunction::all(attributes, cell, directions.len())?,
            directions,
            clip: match attributes.float("clip", 0.0)? {
                clip if clip > 0.0 => clip.into(),
                _ => f64::INFINITY,
            },
            batch_first,
            coupled: attributes.flag("input_forget", false)?,
            reset_after: attributes.flag("linear_before_reset", false)?,
        })
    }

    /// Elements of scratch memory: the gates, the hidden state, its next value, the cell state, and the
    /// hidden state after the reset gate.
    fn scratch(&self) -> usize {
        (self.cell.gates() + 4) * self.hidden
    }

    fn x_at(&self, step: usize, batch: usize) -> usize {
        let row = if self.batch_first {
            batch * self.steps + step
        } else {
            step * self.batch + batch
        };
        row * self.features
    }

    fn y_at(&self, step: usize, direction: usize, batch: usize) -> usize {
        let count = self.directions.len();
        let row = if self.batch_first {
            (batch * self.steps + step) * count + direction
        } else {
            (step * count + direction) * self.batch + batch
        };
        row * self.hidden
    }

    fn state_at(&self, direction: usize, batch: usize) -> usize {
        let row = if self.batch_first {
            batch * self.directions.len() + direction
        } else {
            direction * self.batch + batch
        };
        row * self.hidden
    }

    fn clipped(&self, x: f64) -> f64 {
        x.nan_max(-self.clip).nan_min(self.clip)
    }
}

/// The parameters of one direction.
struct DirectionWeights<'a, T, W> {
    w: &'a [W],
    r: &'a [W],
    b: Option<&'a [T]>,
    peephole: Option<&'a [T]>,
    functions: &'a [ActivationFunction],
}

impl<'a, T: Number, W: Number> DirectionWeights<'a, T, W> {
    fn new(inputs: &Inputs<'a>, layer: &'a RecurrentLayer, direction: usize) -> Result<Self> {
        let rows = layer.cell.gates() * layer.hidden;
        fn part<T>(all: &[T], direction: usize, size: usize) -> &[T] {
            &all[direction * size..(direction + 1) * size]
        }
        let peephole = match layer.cell {
            CellKind::Lstm => inputs.optional::<T>(7)?,
            _ => None,
        };
        let each = layer.functions.len() / layer.directions.len();
        Ok(Self {
            w: part(inputs.slice(1)?, direction, rows * layer.features),
            r: part(inputs.slice(2)?, direction, rows * layer.hidden),
            b: inputs
                .optional::<T>(3)?
                .map(|b| part(b, direction, 2 * rows)),
            peephole: peephole.map(|p| part(p, direction, 3 * layer.hidden)),
            functions: &layer.functions[direction * each..(direction + 1) * each],
        })
    }

    /// Bias `row` of X W' (0) or of H R' (1).
    fn bias(&self, which: usize, row: usize, rows: usize) -> f64 {
        self.b.map_or(0.0, |b| b[which * rows + row].to_f64())
    }
}

/// The state of one sequence.
struct SequenceState<'a> {
    gates: &'a mut [f64],
    h: &'a mut [f64],
    next: &'a mut [f64],
    c: &'a mut [f64],
    reset: &'a mut [f64],
}

impl<'a> SequenceState<'a> {
    fn new(layer: &RecurrentLayer, memory: &'a mut [f64]) -> Self {
        let (gates, rest) = memory.split_at_mut(layer.cell.gates() * layer.hidden);
        let (h, rest) = rest.split_at_mut(layer.hidden);
        let (next, rest) = rest.split_at_mut(layer.hidden);
        let (c, reset) = rest.split_at_mut(layer.hidden);
        Self {
            gates,
            h,
            next,
            c,
            reset,
        }
    }

    /// One step: updates `h` (and `c`) from `x`.
    fn step<T: Number, W: Number>(
        &mut self,
        layer: &RecurrentLayer,
        weights: &DirectionWeights<'_, T, W>,
        x: &[T],
    ) {
        let rows = self.gates.len();
        for (row, gate) in self.gates.iter_mut().enumerate() {
            stop::checkpoint();
            let w = &weights.w[row * layer.features..(row + 1) * layer.features];
            *gate = dot(x, w) + weights.bias(0, row, rows);
        }
        match layer.cell {
            CellKind::Lstm => self.lstm(layer, weights),
            CellKind::Gru => self.gru(layer, weights),
            CellKind::Rnn => self.rnn(layer, weights),
        }
    }

    /// The product of row `row` of R with the state.
    fn recurrence<T: Number>(h: &[f64], r: &[T], row: usize) -> f64 {
        stop::checkpoint();
        let r = &r[row * h.len()..(row + 1) * h.len()];
        dot(h, r)
    }

    fn lstm<T: Number, W: Number>(
        &mut self,
        layer: &RecurrentLayer,
        weights: &DirectionWeights<'_, T, W>,
    ) {
        let (rows, hidden) = (self.gates.len(), layer.hidden);
        for (row, gate) in self.gates.iter_mut().enumerate() {
            *gate += Self::recurrence(self.h, weights.r, row) + weights.bias(1, row, rows);
        }
        let [f, g, h] = [0, 1, 2].map(|nth| weights.functions[nth]);
        let peephole = |gate: usize, unit: usize| {
            weights
                .peephole
                .map_or(0.0, |p| p[gate * hidden + unit].to_f64())
        };
        for unit in 0..hidden {
            let [input, output, forget, cell] = [0, 1, 2, 3].map(|n| self.gates[n * hidden + unit]);
            let previous = self.c[unit];
            let input = f.apply(layer.clipped(input + peephole(0, unit) * previous));
            let forget = if layer.coupled {
                1.0 - input
            } else {
                f.apply(layer.clipped(forget + peephole(2, unit) * previous))
            };
            let next = forget * previous + input * g.apply(layer.clipped(cell));
            let output = f.apply(layer.clipped(output + peephole(1, unit) * next));
            self.c[unit] = next;
            self.h[unit] = output * h.apply(next);
        }
    }

    fn gru<T: Number, W: Number>(
        &mut self,
        layer: &RecurrentLayer,
        weights: &DirectionWeights<'_, T, W>,
    ) {
        let (rows, hidden) = (self.gates.len(), layer.hidden);
        let [f, g] = [0, 1].map(|nth| weights.functions[nth]);
        for row in 0..2 * hidden {
            let sum = Self::recurrence(self.h, weights.r, row) + weights.bias(1, row, rows);
            self.gates[row] = f.apply(layer.clipped(self.gates[row] + sum));
        }
        for unit in 0..hidden {
            self.reset[unit] = self.gates[hidden + unit] * self.h[unit];
        }
        for unit in 0..hidden {
            let row = 2 * hidden + unit;
            let bias = weights.bias(1, row, rows);
            let sum = if layer.reset_after {
                let sum = Self::recurrence(self.h, weights.r, row) + bias;
                self.gates[hidden + unit] * sum
            } else {
                Self::recurrence(self.reset, weights.r, row) + bias
            };
            let update = self.gates[unit];
            let new = g.apply(layer.clipped(self.gates[row] + sum));
            self.next[unit] = (1.0 - update) * new + update * self.h[unit];
        }
        self.h.copy_from_slice(self.next);
    }

    fn rnn<T: Number, W: Number>(
        &mut self,
        layer: &RecurrentLayer,
        weights: &DirectionWeights<'_, T, W>,
    ) {
        let rows = self.gates.len();
        for (row, next) in self.next.iter_mut().enumerate() {
            let sum = Self::recurrence(self.h, weights.r, row) + weights.bias(1, row, rows);
            *next = weights.functions[0].apply(layer.clipped(self.gates[row] + sum));
        }
        self.h.copy_from_slice(self.next);
    }
}

fn store<T: Number>(to: &mut Option<&mut [T]>, at: usize, values: &[f64]) {
    if let Some(to) = to {
        to[at..at + values.len()]
            .iter_mut()
            .zip(values)
            .for_each(|(to, &x)| *to = T::of_f64(x));
    }
}

fn load<T: Number>(to: &mut [f64], from: Option<&[T]>, at: usize) {
    match from {
        Some(from) => to
            .iter_mut()
            .zip(&from[at..])
            .for_each(|(to, x)| *to = x.to_f64()),
        None => to.fill(0.0),
    }
}

fn layer(node: &Node<'_>, cell: CellKind) -> Result<Kernel, BuildError> {
    let layer = RecurrentLayer::new(node, cell)?;
    if let Some(lengths) = node.optional(4)
        && lengths.dtype() != DataType::I32
    {
        return Err(unsupported_type(4, lengths.dtype()));
    }
    let (x, weights) = (node.dtype(0)?, node.dtype(1)?);
    if node.dtype(2)? != weights {
        return Err(unsupported_type(2, node.dtype(2)?));
    }
    match (x, weights) {
        (DataType::F32, DataType::F16) => kernel::<f32, f16>(layer),
        (DataType::F32, DataType::BF16) => kernel::<f32, bf16>(layer),
        _ if x != weights => Err(unsupported_type(1, weights)),
        _ => floats!(x, 0, T => kernel::<T, T>(layer)),
    }
}

fn kernel<T: Number, W: Number>(layer: RecurrentLayer) -> Result<Kernel, BuildError> {
    let (cell, size) = (layer.cell, layer.scratch());
    Kernel::new(move |operands| {
        let (inputs, mut outputs) = operands.split();
        let x = inputs.slice::<T>(0)?;
        let lengths = inputs.optional::<i32>(4)?;
        let initial_h = inputs.optional::<T>(5)?;
        let initial_c = if cell == CellKind::Lstm {
            inputs.optional::<T>(6)?
        } else {
            None
        };
        let (mut y, mut y_h) = (outputs.optional::<T>(0)?, outputs.optional::<T>(1)?);
        let mut y_c = if cell == CellKind::Lstm {
            outputs.optional::<T>(2)?
        } else {
            None
        };
        let mut state = SequenceState::new(&layer, scratch(&mut outputs, size)?);
        for (direction, &backwards) in layer.directions.iter().enumerate() {
            let weights = DirectionWeights::<T, W>::new(&inputs, &layer, direction)?;
            for batch in 0..layer.batch {
                let length = match lengths {
                    Some(lengths) => length(lengths[batch].into(), layer.steps)?,
                    None => layer.steps,
                };
                let at = layer.state_at(direction, batch);
                load(state.h, initial_h, at);
                load(state.c, initial_c, at);
                for nth in 0..length {
                    let step = if backwards { length - 1 - nth } else { nth };
                    let from = layer.x_at(step, batch);
                    state.step(&layer, &weights, &x[from..from + layer.features]);
                    store(&mut y, layer.y_at(step, direction, batch), state.h);
                }
                // Steps after the end of a sequence are 0.
                state.next.fill(0.0);
                for step in length..layer.steps {
                    store(&mut y, layer.y_at(step, direction, batch), state.next);
                }
                store(&mut y_h, at, state.h);
                store(&mut y_c, at, state.c);
            }
        }
        Ok(())
    })
    .with_scratch(size)
}
