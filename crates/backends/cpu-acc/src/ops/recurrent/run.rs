//! One execution of a recurrent layer.

use super::cell_update::{CellUpdate, UpdatePhase};
use super::{BoundRecurrent, Cell, Recurrent};
use crate::floats::{FloatType, Floats};
use crate::ops::pairs::PairedRows;
use crate::ops::split_scratch;
use crate::panels::{Panels, packed_len, word_rows};
use crate::simd::disjoint::MatrixMut;
use crate::simd::gemm::{Gemm, multiply};
use crate::simd::rows::Matrix;

/// The scratch memory of one direction.
pub(super) struct LayerMemory<'a> {
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
    pub(super) h: &'a mut [f32],
    pub(super) c: &'a mut [f32],
    /// The packed weights that are no constants.
    packed: [&'a mut [f32]; 2],
    peepholes: &'a mut [f32],
    /// X in f32, where it is of another type.
    x: &'a mut [f32],
    /// Weights in f32, where they are of another type.
    weights: &'a mut [f32],
    /// Rows in pairs, where packed weights have 16 bits.
    pairs: &'a mut [f32],
}

impl<'a> LayerMemory<'a> {
    pub(super) fn new(layer: &Recurrent, memory: &'a mut [f32]) -> Self {
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
            pairs,
        ] = split_scratch(memory, layer.sizes());
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
            pairs,
        }
    }
}

/// One execution.
pub(super) struct RecurrentRun<'a> {
    pub(super) bound: &'a BoundRecurrent,
    pub(super) x: Floats<'a>,
    /// W and R, where they are no constants.
    pub(super) plain: [Option<Floats<'a>>; 2],
    pub(super) bias: Option<Floats<'a>>,
    pub(super) lengths: Option<&'a [i32]>,
    /// The hidden state and the cell state.
    pub(super) initial: [Option<Floats<'a>>; 2],
    pub(super) peepholes: Option<Floats<'a>>,
}

impl RecurrentRun<'_> {
    /// All steps of one direction. `store` writes the output of a step of a sequence.
    pub(super) fn direction(
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
            pairs,
            ..
        } = memory;
        let [_, r] = self.weights(direction, [&*packed[0], &*packed[1]]);
        let words = word_rows(layer.packed_type(), hidden);
        let (first, second) = r.split_at(packed_len(words, layer.parts(2)[0]));
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
            self.multiply((h, layer.batch), (first, None), pairs, output);
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
                self.multiply((reset, layer.batch), (second, None), pairs, output);
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
        self.multiply((x, rows), (w, Some(memory.bias)), memory.pairs, output);
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

    /// The product of the rows of `a` and a packed matrix, and a bias.
    fn multiply(
        &self,
        (a, rows): (&[f32], usize),
        (panels, bias): (&[f32], Option<&[f32]>),
        pairs: &mut [f32],
        output: MatrixMut<'_>,
    ) {
        let layer = &self.bound.layer;
        let (depth, float) = (a.len() / rows, layer.packed_type());
        let gemm = Gemm {
            bias,
            ..Gemm::new(Panels::of(float, panels, depth, output.columns()))
        };
        if float == FloatType::F32 {
            let a = Matrix::new(a, rows, depth, depth);
            multiply(layer.level, &a, &gemm, output);
        } else {
            let product = layer.level.product_of(float);
            let a = PairedRows::new(layer.level, product, (a, depth), pairs);
            a.multiply(layer.level, (0..rows, depth.div_ceil(2)), &gemm, output);
        }
    }
}
