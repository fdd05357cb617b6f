//! LSTM of f32 with the default activations (Hochreiter and Schmidhuber, 1997; with forget gates, Gers
//! et al., 2000): one product with the inputs of all steps, then a product with the state in each step.

use super::Kernel;
use super::prepared::{Preparation, Weights};
use crate::activation::Activation;
use crate::panels::{LAYOUT, Panels, pack_columns, packed_len};
use crate::signature::{Signature, refuse, refuse_attribute};
use crate::simd::disjoint::MatrixMut;
use crate::simd::gemm::{Gemm, multiply};
use crate::simd::math::{sigmoid, tanh};
use crate::simd::rows::Matrix;
use crate::simd::{Level, Simd, VectorOp};
use tenon_backend::{Operands, Reason, Refusal, Workload, WorkloadPlan, WorkloadSpec};
use tenon_base::Result;
use tenon_tensor::Tensor;

/// Input, output, forget and cell gates, in this order in weights and biases.
const GATES: usize = 4;

/// An LSTM layer.
#[derive(Debug, Clone)]
struct Lstm {
    level: Level,
    steps: usize,
    batch: usize,
    features: usize,
    hidden: usize,
    /// For each direction, whether it runs from the last step to the first.
    backwards: Vec<bool>,
    bias: bool,
    initial: [bool; 2],
}

/// The kernel.
pub(super) fn kernel(signature: &Signature<'_>) -> Result<Box<dyn Kernel>, Refusal> {
    let [steps, batch, features] = signature.ranked(0)?;
    let [directions, gates, hidden] = signature.ranked(2)?;
    for attribute in ["activations", "clip", "activation_alpha", "activation_beta"] {
        if signature.has(attribute) && !default_activations(signature)? {
            return Err(refuse_attribute(attribute, "other than the default"));
        }
    }
    for attribute in ["layout", "input_forget"] {
        if signature.flag(attribute, false)? {
            return Err(refuse_attribute(attribute, 1));
        }
    }
    if signature.optional(4).is_some() || signature.optional(7).is_some() {
        return Err(refuse(
            "no kernel for sequences of several lengths or for peepholes",
        ));
    }
    let backwards = match signature.string("direction", "forward")? {
        "forward" => vec![false],
        "reverse" => vec![true],
        "bidirectional" => vec![false, true],
        other => return Err(refuse_attribute("direction", other)),
    };
    let fits = directions == backwards.len()
        && Some(gates) == hidden.checked_mul(GATES)
        && signature.ranked(1)? == [directions, gates, features];
    let bias = signature.optional_f32_shape(3)?;
    if !fits || bias.is_some_and(|bias| bias[..] != [directions, 2 * gates]) {
        return Err(refuse("the shapes do not fit"));
    }
    for input in [1, 2] {
        if !signature.is_constant(input) {
            return Err(Reason::NotConstant { input }.into());
        }
    }
    let whole = [steps, directions, batch, hidden];
    let states = [directions, batch, hidden];
    for (output, shape) in [(0, &whole[..]), (1, &states), (2, &states)] {
        if signature
            .optional_output(output)?
            .is_some_and(|found| found[..] != *shape)
        {
            return Err(refuse("the shapes do not fit"));
        }
    }
    for input in [5, 6] {
        let state = signature.optional_f32_shape(input)?;
        if state.is_some_and(|state| state[..] != [directions, batch, hidden]) {
            return Err(refuse("the shapes do not fit"));
        }
    }
    let initial = [5, 6].map(|input| signature.optional(input).is_some());
    let bias = bias.is_some();
    let level = signature.level;
    Ok(Box::new(Lstm {
        level,
        steps,
        batch,
        features,
        hidden,
        backwards,
        bias,
        initial,
    }))
}

/// Whether the activations are the default ones, without parameters or clipping.
fn default_activations(signature: &Signature<'_>) -> Result<bool, Refusal> {
    let plain = ["clip", "activation_alpha", "activation_beta"];
    let names = signature.inference().attributes.strings("activations");
    let names = names
        .map_err(|error| refuse(error.to_string()))?
        .unwrap_or(&[]);
    let usual = ["sigmoid", "tanh", "tanh"];
    let default = names
        .iter()
        .enumerate()
        .all(|(i, name)| name.eq_ignore_ascii_case(usual[i % 3]));
    Ok(default && plain.iter().all(|name| !signature.has(name)))
}

impl Lstm {
    fn gates(&self) -> usize {
        GATES * self.hidden
    }

    /// The preparation of the weights of input `input`, `[direction][gate][depth]`.
    fn preparation<'a>(
        &self,
        input: usize,
        fill: &'a dyn Fn(&[f32], &mut [f32]),
    ) -> Preparation<'a> {
        let packed = packed_len(self.depth(input), self.gates());
        let len = self.backwards.len().saturating_mul(packed);
        Preparation {
            input,
            layout: LAYOUT,
            len,
            fill,
        }
    }

    fn depth(&self, input: usize) -> usize {
        if input == 1 {
            self.features
        } else {
            self.hidden
        }
    }

    fn fill(&self, input: usize, from: &[f32], to: &mut [f32]) {
        let (depth, gates) = (self.depth(input), self.gates());
        if depth * gates == 0 {
            return;
        }
        let matrices = from.chunks_exact(depth * gates);
        for (from, to) in matrices.zip(to.chunks_exact_mut(packed_len(depth, gates))) {
            pack_columns(from, depth, depth, gates, to);
        }
    }

    /// Elements of scratch memory: the sum of the biases, the input's contribution to all gates, the
    /// gates of one step, the hidden state and the cell state.
    fn scratch(&self) -> usize {
        let gates = self
            .gates()
            .saturating_mul(1 + self.steps * self.batch + self.batch);
        gates.saturating_add(2 * self.batch * self.hidden)
    }
}

impl Kernel for Lstm {
    fn plan(&self, spec: &WorkloadSpec) -> Result<WorkloadPlan> {
        let prepare = |input: usize| {
            self.preparation(input, &|from, to| self.fill(input, from, to))
                .prepare(spec)
        };
        Ok(WorkloadPlan {
            scratch_bytes: self.scratch().saturating_mul(size_of::<f32>()),
            in_place: Vec::new(),
            prepared: vec![prepare(1)?, prepare(2)?],
        })
    }

    fn plain(&self, spec: &WorkloadSpec, input: usize) -> Result<Option<Tensor>> {
        match input {
            1 | 2 => self
                .preparation(input, &|from, to| self.fill(input, from, to))
                .plain(spec),
            _ => Ok(None),
        }
    }

    fn bind(self: Box<Self>, spec: &WorkloadSpec) -> Result<Box<dyn Workload>> {
        let find = |input: usize| {
            self.preparation(input, &|from, to| self.fill(input, from, to))
                .find(spec)
        };
        let weights = [find(1)?, find(2)?];
        Ok(Box::new(BoundLstm {
            lstm: *self,
            weights,
        }))
    }
}

/// An LSTM with its packed weights, ready to execute.
struct BoundLstm {
    lstm: Lstm,
    /// The weights of the input and of the hidden state.
    weights: [Weights; 2],
}

impl Workload for BoundLstm {
    fn execute(&self, operands: &mut Operands<'_>) -> Result<()> {
        let Lstm {
            batch,
            hidden,
            steps,
            ..
        } = self.lstm;
        let (inputs, mut outputs) = operands.split();
        let x = inputs.slice::<f32>(0)?;
        let bias = if self.lstm.bias {
            Some(inputs.slice::<f32>(3)?)
        } else {
            None
        };
        let initial_h = if self.lstm.initial[0] {
            Some(inputs.slice::<f32>(5)?)
        } else {
            None
        };
        let initial_c = if self.lstm.initial[1] {
            Some(inputs.slice::<f32>(6)?)
        } else {
            None
        };
        let mut y = outputs.optional::<f32>(0)?;
        let mut last_h = outputs.optional::<f32>(1)?;
        let mut last_c = outputs.optional::<f32>(2)?;
        let scratch = super::scratch(&mut outputs, self.lstm.scratch())?;
        let (size, directions) = (batch * hidden, self.lstm.backwards.len());
        for (direction, &backwards) in self.lstm.backwards.iter().enumerate() {
            let own = direction * size..(direction + 1) * size;
            let mut layer = LstmDirection::new(self, direction, scratch);
            layer.begin(
                x,
                bias,
                initial_h.map(|h| &h[own.clone()]),
                initial_c.map(|c| &c[own.clone()]),
            );
            for index in 0..steps {
                let step = if backwards { steps - 1 - index } else { index };
                layer.step(step);
                if let Some(y) = &mut y {
                    y[(step * directions + direction) * size..][..size].copy_from_slice(layer.h);
                }
            }
            if let Some(last_h) = &mut last_h {
                last_h[own.clone()].copy_from_slice(layer.h);
            }
            if let Some(last_c) = &mut last_c {
                last_c[own].copy_from_slice(layer.c);
            }
        }
        Ok(())
    }

    fn reads(&self, input: usize) -> bool {
        !matches!(input, 1 | 2)
    }
}

/// One direction in one execution, with its scratch memory.
struct LstmDirection<'a> {
    bound: &'a BoundLstm,
    direction: usize,
    bias: &'a mut [f32],
    /// The input's contribution to the gates of all steps.
    input_gates: &'a mut [f32],
    /// The gates of one step.
    gates: &'a mut [f32],
    h: &'a mut [f32],
    c: &'a mut [f32],
}

impl<'a> LstmDirection<'a> {
    fn new(bound: &'a BoundLstm, direction: usize, scratch: &'a mut [f32]) -> Self {
        let lstm = &bound.lstm;
        let (bias, rest) = scratch.split_at_mut(lstm.gates());
        let (input_gates, rest) = rest.split_at_mut(lstm.steps * lstm.batch * lstm.gates());
        let (gates, rest) = rest.split_at_mut(lstm.batch * lstm.gates());
        let (h, c) = rest.split_at_mut(lstm.batch * lstm.hidden);
        Self {
            bound,
            direction,
            bias,
            input_gates,
            gates,
            h,
            c,
        }
    }

    /// Sets the initial state and multiplies the inputs of all steps.
    fn begin(&mut self, x: &[f32], bias: Option<&[f32]>, h: Option<&[f32]>, c: Option<&[f32]>) {
        let lstm = &self.bound.lstm;
        let gates = lstm.gates();
        match bias {
            Some(bias) => {
                let bias = &bias[self.direction * 2 * gates..][..2 * gates];
                let (of_input, of_state) = bias.split_at(gates);
                for ((sum, a), b) in self.bias.iter_mut().zip(of_input).zip(of_state) {
                    *sum = a + b;
                }
            }
            None => self.bias.fill(0.0),
        }
        let start = |state: &mut [f32], initial: Option<&[f32]>| match initial {
            Some(initial) => state.copy_from_slice(initial),
            None => state.fill(0.0),
        };
        start(self.h, h);
        start(self.c, c);
        let rows = lstm.steps * lstm.batch;
        let gemm = Gemm {
            bias: Some(self.bias),
            ..self.gemm(0)
        };
        let x = Matrix::new(x, rows, lstm.features, lstm.features);
        multiply(
            lstm.level,
            &x,
            &gemm,
            MatrixMut::new(self.input_gates, rows, gates, gates),
        );
    }

    /// The product with weights 0 (of the input) or 1 (of the hidden state).
    fn gemm(&self, which: usize) -> Gemm<'a> {
        let lstm = &self.bound.lstm;
        let (depth, gates) = (lstm.depth(which + 1), lstm.gates());
        let len = packed_len(depth, gates);
        let weights = &self.bound.weights[which].elements()[self.direction * len..][..len];
        let Activation { limits, function } = Activation::NONE;
        let panels = Panels::new(weights, depth, gates);
        Gemm {
            panels,
            bias: None,
            addend: None,
            scale: 1.0,
            limits,
            function,
        }
    }

    fn step(&mut self, step: usize) {
        let lstm = &self.bound.lstm;
        let (gates, batch, hidden) = (lstm.gates(), lstm.batch, lstm.hidden);
        let size = batch * gates;
        let gemm = self.gemm(1);
        let gemm = Gemm {
            addend: Some(&self.input_gates[step * size..][..size]),
            ..gemm
        };
        let h = Matrix::new(self.h, batch, hidden, hidden);
        multiply(
            lstm.level,
            &h,
            &gemm,
            MatrixMut::new(self.gates, batch, gates, gates),
        );
        if hidden == 0 {
            return;
        }
        let states = self
            .h
            .chunks_exact_mut(hidden)
            .zip(self.c.chunks_exact_mut(hidden));
        for (gates, (h, c)) in self.gates.chunks_exact(gates).zip(states) {
            lstm.level.run(LstmCell { gates, h, c });
        }
    }
}

/// The update of the state of one sequence by its gates.
struct LstmCell<'a> {
    gates: &'a [f32],
    h: &'a mut [f32],
    c: &'a mut [f32],
}

impl VectorOp for LstmCell<'_> {
    type Output = ();

    #[inline(always)]
    fn eval<S: Simd>(self, s: S) {
        let hidden = self.h.len();
        let states = self.h.chunks_mut(S::LANES).zip(self.c.chunks_mut(S::LANES));
        for (block, (h, c)) in states.enumerate() {
            let gate = |gate: usize| {
                s.load_part(&self.gates[gate * hidden + block * S::LANES..][..h.len()])
            };
            let (input, output) = (sigmoid(s, gate(0)), sigmoid(s, gate(1)));
            let (forget, candidate) = (sigmoid(s, gate(2)), tanh(s, gate(3)));
            let cell = s.fma(forget, s.load_part(c), s.mul(input, candidate));
            s.store_part(cell, c);
            s.store_part(s.mul(output, tanh(s, cell)), h);
        }
    }
}
