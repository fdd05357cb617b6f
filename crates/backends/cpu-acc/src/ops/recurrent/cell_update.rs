//! The update of the state of one sequence in one step: the vector loops of recurrent layers.

use super::gate_function::GateFunction;
use super::{Cell, Recurrent};
use crate::simd::{Simd, VectorOp};

/// A phase of the update of the cells.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum UpdatePhase {
    /// The update and reset gates of a GRU with `reset_after` unset.
    Reset,
    /// The state.
    State,
}

/// The update of the state of one sequence by its gates.
pub(super) struct CellUpdate<'a> {
    pub(super) layer: &'a Recurrent,
    pub(super) phase: UpdatePhase,
    pub(super) functions: &'a [GateFunction],
    /// The products with the state.
    pub(super) gates: &'a mut [f32],
    /// The products with the input.
    pub(super) input: &'a [f32],
    pub(super) hidden_bias: &'a [f32],
    pub(super) peepholes: Option<&'a [f32]>,
    pub(super) h: &'a mut [f32],
    pub(super) c: &'a mut [f32],
    pub(super) reset: &'a mut [f32],
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
            for (forget, input) in forget.iter_mut().zip(&*in_gate) {
                *forget = 1.0 - input;
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
