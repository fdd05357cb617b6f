//! One step of an LSTM with projection (Sak et al., 2014), layer normalization (Ba et al., 2016), limits and any activation,
//! as single operators; over a sequence it is the body of a Scan.

use super::lstm::{Direction, operands, peepholes};
use super::{extent, joined, product, transposed};
use crate::model::invalid;
use crate::node::Operation;
use crate::proto;
use crate::schema::tflite::ActivationFunctionType as Activation;
use tenon_base::Result;
use tenon_onnx::proto::{GraphProto, data_type};

#[derive(Debug, Clone, Copy)]
pub(super) struct CellOptions {
    pub activation: Activation,
    /// The greatest magnitude of the state; 0: none.
    pub cell_clip: f32,
    /// The same of the projection.
    pub projection_clip: f32,
}

/// The operands of a step; gates are in the order input, forget, cell, output.
pub(super) struct Cell {
    options: CellOptions,
    cells: i64,
    outputs: i64,
    /// [4 cells, inputs]
    weights: String,
    /// [outputs, 4 cells]
    recurrent: String,
    biases: [String; 4],
    /// Of the input, forget and output gate.
    peepholes: [Option<String>; 3],
    normalization: Option<[String; 4]>,
    projection: Option<Projection>,
}

struct Projection {
    /// [cells, outputs]
    weights: String,
    bias: Option<String>,
}

impl Cell {
    pub fn new(
        op: &mut Operation<'_, '_>,
        direction: &Direction,
        options: CellOptions,
        has_auxiliary: bool,
    ) -> Result<Self> {
        let mut weights = gates(op, direction.weights)?;
        if let Some(auxiliary) = direction.auxiliary.filter(|_| has_auxiliary) {
            let more = gates(op, auxiliary)?;
            weights = joined(op, &[weights, more], 1)?;
        }
        let recurrent = gates(op, direction.recurrent)?;
        let recurrent = transposed(op, &recurrent)?;
        let normalization = direction
            .normalization
            .filter(|inputs| op.has_input(inputs[1]));
        let normalization = normalization.map(|it| scales(op, it)).transpose()?;
        let projection = if op.has_input(direction.projection[0]) {
            let bias = direction.projection[1];
            let weights = op.real(direction.projection[0])?;
            Some(Projection {
                weights: transposed(op, &weights)?,
                bias: op.has_input(bias).then(|| op.real(bias)).transpose()?,
            })
        } else {
            None
        };
        let cells = extent(op, direction.weights[1], 0)?;
        Ok(Self {
            options,
            cells,
            outputs: match projection {
                Some(_) => extent(op, direction.projection[0], 0)?,
                None => cells,
            },
            weights,
            recurrent,
            biases: operands(op, direction.biases)?,
            peepholes: peepholes(op, direction)?,
            normalization,
            projection,
        })
    }

    /// The part of the arguments of the gates that the input gives.
    pub fn arguments(&self, op: &mut Operation<'_, '_>, x: &str) -> Result<String> {
        product(op, x, &self.weights)
    }

    /// The output of the first step, before which the states are 0.
    pub fn first_step(&self, op: &mut Operation<'_, '_>, arguments: &str) -> Result<String> {
        Ok(self.step(op, arguments, None)?.0)
    }

    /// The outputs [time, batch, outputs] of a sequence [time, batch, inputs].
    pub fn sequence(
        &self,
        op: &mut Operation<'_, '_>,
        x: &str,
        is_reverse: bool,
    ) -> Result<String> {
        let arguments = self.arguments(op, x)?;
        let shape = op.emit("Shape", &[x], Vec::new())?;
        let second = op.i64_constant(&[1]);
        let batch = op.emit("Gather", &[&shape, &second], Vec::new())?;
        let mut states = Vec::with_capacity(2);
        for extent in [self.outputs, self.cells] {
            let extent = op.i64_constant(&[extent]);
            let shape = joined(op, &[batch.clone(), extent], 0)?;
            let zero = op.scalar_of(data_type::FLOAT, 0.0)?;
            states.push(op.emit("Expand", &[&zero, &shape], Vec::new())?);
        }
        let label = op.label.clone();
        op.conversion.begin_graph(&format!("{label}/step"));
        let body = self.body(op);
        let ended = op.conversion.end_graph();
        let (input, output) = body?;
        let graph = GraphProto {
            input,
            output,
            ..ended
        };
        let direction = i64::from(is_reverse);
        let attributes = vec![
            proto::graph("body", graph),
            proto::int("num_scan_inputs", 1),
            proto::ints("scan_input_directions", vec![direction]),
            proto::ints("scan_output_directions", vec![direction]),
        ];
        let inputs = [&states[0], &states[1], arguments.as_str()];
        let results = op.emit_many("Scan", &inputs, attributes, 3)?;
        results
            .into_iter()
            .next_back()
            .ok_or_else(|| invalid("a Scan without outputs"))
    }

    /// The inputs and outputs of the body of a Scan: output and state, arguments or output.
    fn body(&self, op: &mut Operation<'_, '_>) -> Result<(Values, Values)> {
        let label = op.label.clone();
        let names = ["output", "state", "arguments"];
        let names = names.map(|name| op.conversion.unique(&format!("{label}/{name}")));
        let inputs = names
            .each_ref()
            .map(|name| proto::value(name, data_type::FLOAT, None));
        let [before, state, arguments] = &names;
        let (y, state) = self.step(op, arguments, Some([before, state]))?;
        let copy = op.emit("Identity", &[&y], Vec::new())?;
        let outputs = [y, state, copy];
        let outputs = outputs.map(|name| proto::value(&name, data_type::FLOAT, None));
        Ok((inputs.into(), outputs.into()))
    }

    /// The output and the state after a step. Without states they are 0 before it.
    fn step(
        &self,
        op: &mut Operation<'_, '_>,
        arguments: &str,
        before: Option<[&String; 2]>,
    ) -> Result<(String, String)> {
        let mut arguments = arguments.to_owned();
        if let Some([output, _]) = before {
            let more = op.emit("MatMul", &[output, &self.recurrent], Vec::new())?;
            arguments = op.emit("Add", &[&arguments, &more], Vec::new())?;
        }
        let split = vec![proto::int("axis", 1), proto::int("num_outputs", 4)];
        let gates = op.emit_many("Split", &[&arguments], split, 4)?;
        let state = before.map(|[_, state]| state.as_str());
        let forget = self.gate(op, &gates[1], 1, state.zip(self.peepholes[1].as_deref()))?;
        let forget = op.emit("Sigmoid", &[&forget], Vec::new())?;
        let input = self.gate(op, &gates[0], 0, state.zip(self.peepholes[0].as_deref()))?;
        let input = op.emit("Sigmoid", &[&input], Vec::new())?;
        let new = self.gate(op, &gates[2], 2, None)?;
        let new = op.activated(new, self.options.activation)?;
        let mut next = op.emit("Mul", &[&input, &new], Vec::new())?;
        if let Some(state) = state {
            let kept = op.emit("Mul", &[&forget, state], Vec::new())?;
            next = op.emit("Add", &[&next, &kept], Vec::new())?;
        }
        let next = clipped(op, next, self.options.cell_clip)?;
        let peephole = self.peepholes[2].as_deref();
        let output = self.gate(op, &gates[3], 3, Some(next.as_str()).zip(peephole))?;
        let output = op.emit("Sigmoid", &[&output], Vec::new())?;
        let y = op.activated(next.clone(), self.options.activation)?;
        let mut y = op.emit("Mul", &[&output, &y], Vec::new())?;
        if let Some(projection) = &self.projection {
            y = op.emit("MatMul", &[&y, &projection.weights], Vec::new())?;
            if let Some(bias) = &projection.bias {
                y = op.emit("Add", &[&y, bias], Vec::new())?;
            }
            y = clipped(op, y, self.options.projection_clip)?;
        }
        Ok((y, next))
    }

    /// The argument of a gate's function: with the state times its weights, normalized, with the bias.
    fn gate(
        &self,
        op: &mut Operation<'_, '_>,
        argument: &str,
        gate: usize,
        peephole: Option<(&str, &str)>,
    ) -> Result<String> {
        let mut argument = argument.to_owned();
        if let Some((state, weights)) = peephole {
            let part = op.emit("Mul", &[state, weights], Vec::new())?;
            argument = op.emit("Add", &[&argument, &part], Vec::new())?;
        }
        let bias = &self.biases[gate];
        match &self.normalization {
            // The constant is LiteRT's.
            Some(scales) => op.emit(
                "LayerNormalization",
                &[&argument, &scales[gate], bias],
                vec![proto::float("epsilon", 1e-8)],
            ),
            None => op.emit("Add", &[&argument, bias], Vec::new()),
        }
    }
}

type Values = Vec<tenon_onnx::proto::ValueInfoProto>;

/// The operands of four gates, joined.
fn gates(op: &mut Operation<'_, '_>, inputs: [usize; 4]) -> Result<String> {
    let all = operands(op, inputs)?;
    joined(op, &all, 0)
}

/// The scales of the gates. That of the forget gate is also the one of an input gate with its negative argument.
fn scales(op: &mut Operation<'_, '_>, inputs: [usize; 4]) -> Result<[String; 4]> {
    let [input, forget, cell, output] = inputs;
    let input = if op.has_input(input) { input } else { forget };
    let input = op.real(input)?;
    Ok([input, op.real(forget)?, op.real(cell)?, op.real(output)?])
}

/// A value of at most this magnitude; 0: any.
fn clipped(op: &mut Operation<'_, '_>, value: String, limit: f32) -> Result<String> {
    if limit == 0.0 {
        return Ok(value);
    }
    op.clipped(value, data_type::FLOAT, -limit, limit)
}
