//! The function of a temporal epoch: reads of queues, ops in topological order, pushes to queues.

use super::epochs::Schedule;
use super::value::{TensorView, Value};
use super::{NumericMode, Scope, error_at, movements};
use std::collections::HashMap;
use tenon_base::{Error, ErrorKind, Result};
use tenon_bef::{
    Function, FunctionBuilder, FunctionKind, KernelBuilder, KernelLocation, RegisterId,
};
use tenon_netlist::{
    AttributeKey, DataFormat, Graph, Input, Op, OpKind, Queue, QueueKind, Span, TileShape, Tm,
};

pub(super) const MACHINE: &str = "!netlist.machine";
pub(super) const TENSOR: &str = "!netlist.tensor";
const CHAIN: &str = "!tfrt.chain";

/// Builds the function of an epoch.
pub(super) struct EpochBuilder<'n> {
    pub scope: &'n Scope<'n>,
    pub function: FunctionBuilder,
    machine: RegisterId,
    schedule: Schedule<'n>,
    /// Tensors of ops and of queues that have been read.
    values: HashMap<&'n str, Value>,
    /// Chains of reads, operands of the writes of the same memory.
    read: HashMap<&'n str, RegisterId>,
    /// Chains of pushes, operands of the reads of streaming queues.
    pushed: HashMap<&'n str, RegisterId>,
    /// The results of the function: the caller waits for all of them.
    results: Vec<RegisterId>,
}

/// The function of the epoch of `graphs`, and the queues that it reads.
pub(super) fn epoch<'n>(
    scope: &'n Scope<'n>,
    name: String,
    graphs: &[&'n Graph],
) -> Result<(Function, Vec<String>)> {
    let schedule = Schedule::new(graphs, &scope.queues, scope.source)?;
    let mut function = FunctionBuilder::new(name, FunctionKind::Async);
    let machine = function.argument(MACHINE);
    let mut builder = EpochBuilder {
        scope,
        function,
        machine,
        schedule,
        values: HashMap::new(),
        read: HashMap::new(),
        pushed: HashMap::new(),
        results: Vec::new(),
    };
    let reads = builder.schedule.reads.clone();
    for &queue in &reads {
        if !builder.schedule.streaming.contains(queue) {
            builder.read(queue)?;
        }
    }
    let mut errors = Vec::new();
    for op in builder.schedule.ops.clone() {
        if let Err(error) = builder.op(op) {
            errors.push(error);
        }
    }
    Error::from_all(errors).map_or(Ok(()), Err)?;
    let reads = reads.into_iter().map(str::to_owned).collect();
    Ok((builder.function.returns(builder.results), reads))
}

impl<'n> EpochBuilder<'n> {
    pub(super) fn location(&self, span: Span) -> KernelLocation {
        self.scope.location(span)
    }

    /// Emits the read of a queue.
    fn read(&mut self, name: &'n str) -> Result<Value> {
        let queue = self.scope.queues[name];
        let blocking = &queue.blocking;
        let waits = self.pushed.get(name).copied();
        // An empty queue is reported at the first op that reads it.
        let reader = self.schedule.ops.iter().find_map(|op| {
            let input = op.inputs.iter().find(|input| input.name.value == name)?;
            Some((&*op.name.value, input.name.span))
        });
        let (node, span) = reader.unwrap_or((name, queue.name.span));
        let location = self.location(span);
        let [register, chain] = self
            .function
            .kernel("netlist.read")
            .operands([self.machine].into_iter().chain(waits))
            .attribute("queue", name)
            .attribute("node", node)
            .location(location)
            .results([TENSOR, CHAIN]);
        self.read.insert(name, chain);
        let value = Value {
            register,
            tiles: super::value::tiles_of(blocking),
            tile: blocking.tile().map(|side| side as usize),
            rounded: self.rounded_queue(queue),
            constant: self.is_constant(queue),
            view: None,
        };
        self.values.insert(name, value.clone());
        Ok(value)
    }

    /// Whether every input reads the same entry, as for parameters: in a ram that the host fills, or
    /// in a queue that a prologue loads.
    fn is_constant(&self, queue: &Queue) -> bool {
        let name = &*queue.name.value;
        let is_ram = queue.kind.value == QueueKind::Ram;
        queue.is_host_fed() && (is_ram || self.scope.loaded.contains(name))
    }

    /// The format in which all entries of a queue are known to be exact.
    fn rounded_queue(&self, queue: &Queue) -> Option<DataFormat> {
        let formats = self.scope.mode == NumericMode::Formats;
        (queue.is_host_fed() || formats).then_some(queue.df.value)
    }

    fn value(&mut self, input: &'n Input) -> Result<Value> {
        let name = &*input.name.value;
        if let Some(value) = self.values.get(name) {
            return Ok(value.clone());
        }
        if self.scope.queues.contains_key(name) {
            return self.read(name);
        }
        let text = format!("'{name}' is computed after it is read");
        Err(error_at(self.scope.source, input.name.span, text))
    }

    fn op(&mut self, op: &'n Op) -> Result<()> {
        let mut inputs: Vec<Value> = Vec::with_capacity(op.inputs.len());
        for (index, input) in op.inputs.iter().enumerate() {
            let value = self.value(input)?;
            let operand = match (super::ops::is_dense_matmul(op), index, &inputs[..]) {
                (true, 0 | 1, _) => self.viewed_input(op, input, value, true)?,
                (true, 2, [a, ..]) => self.bias(op, input, value, a.tiles[1])?,
                _ if super::ops::reads_views(op) => self.viewed_input(op, input, value, false)?,
                _ => self.moved_input(op, input, value)?,
            };
            inputs.push(operand);
        }
        let value = if op.gradient_op.is_some_and(|gradient| gradient.value) {
            self.gradient(op, &mut inputs)?
        } else {
            self.compute(op, &inputs)?
        };
        let value = self.finished(op, value)?;
        self.values.insert(&op.name.value, value.clone());
        let filled = self.scope.filled.get(&*op.name.value);
        for queue in filled.cloned().unwrap_or_default() {
            self.push(op, queue, value.clone())?;
        }
        if filled.is_none() {
            // The caller also waits for a result that no queue takes.
            self.results.push(value.register);
        }
        Ok(())
    }

    /// An input of an op, stored: in the op's format, then unpad, TMs, pad
    /// (netlist 3.8). The order of rounding and TMs is Tenon's (netlist 5.6): tiles are stored in their
    /// format before they are moved, and a transpose changes which sixteen elements share an exponent.
    fn moved_input(&mut self, op: &Op, input: &Input, value: Value) -> Result<Value> {
        let value = self.rounded_input(op, input, value)?;
        let movements = movements::of_input(input);
        if movements.is_empty() {
            return Ok(value);
        }
        let after = self.tiles_after(input, &value)?;
        Ok(self.moved(&op.name.value, input.name.span, &value, &movements, after))
    }

    /// The tiles of an input after its unpad, TMs and pad.
    fn tiles_after(&self, input: &Input, value: &Value) -> Result<[usize; 3]> {
        let [t, rows, columns] = value.tiles.map(|size| size as u64);
        let after = TileShape { t, rows, columns }
            .after_input(input)
            .map_err(|finding| finding.to_error(self.scope.source))?;
        Ok([after.t, after.rows, after.columns].map(|size| size as usize))
    }

    /// An input that the op reads through a view, so that broadcast tiles are not stored. An input
    /// with a transpose is stored, except where the op `transposes` tiles itself.
    fn viewed_input(
        &mut self,
        op: &Op,
        input: &Input,
        value: Value,
        transposes: bool,
    ) -> Result<Value> {
        let movements = movements::of_input(input);
        let needs_transpose = movements.transposes_tiles() && !transposes;
        if movements.is_empty() || needs_transpose || movements.pads() {
            return self.moved_input(op, input, value);
        }
        let value = self.rounded_input(op, input, value)?;
        let after = self.tiles_after(input, &value)?;
        Ok(Value {
            tiles: after,
            tile: movements::tile_after(&movements, value.tile),
            view: Some(TensorView {
                stored: value.tiles,
                movements,
                broadcast: None,
            }),
            ..value
        })
    }

    /// The third input of a matmul with `rows` rows of tiles. The kernel broadcasts a bias of one row
    /// of tiles itself: a last TM that does so is left out.
    fn bias(&mut self, op: &Op, input: &Input, value: Value, rows: usize) -> Result<Value> {
        let is_bias = op.attributes.is(AttributeKey::Bias) && !super::ops::is_integer(op);
        let is_broadcast = |tm: &Tm| matches!(tm, Tm::BroadcastRows(_));
        if let Some((last, before)) = input.tms.split_last()
            && is_bias
            && is_broadcast(&last.value)
            && input.pad.is_none()
        {
            let row = Input {
                tms: before.to_vec(),
                ..input.clone()
            };
            let all = self.tiles_after(input, &value)?;
            if all[1] == rows && self.tiles_after(&row, &value)?[..2] == [1, 1] {
                return self.moved_input(op, &row, value);
            }
        }
        self.moved_input(op, input, value)
    }

    /// Whether inputs of a format are rounded to it: those that the golden model rounds (netlist 5.6),
    /// and all in the mode `formats`.
    fn rounds_inputs(&self, df: DataFormat) -> bool {
        use DataFormat::{Bfp2, Bfp2B, Bfp4, Bfp4B};
        let formats = self.scope.mode == NumericMode::Formats;
        formats || matches!(df, Bfp4 | Bfp4B | Bfp2 | Bfp2B)
    }

    /// An input rounded to its format.
    fn rounded_input(&mut self, op: &Op, input: &Input, value: Value) -> Result<Value> {
        let df = input.df.value;
        let (node, span) = (&*op.name.value, input.name.span);
        if df == DataFormat::Float32 {
            return Ok(if self.scope.is_wormhole() {
                self.simple("netlist.tf32", node, span, value)
            } else {
                value
            });
        }
        Ok(if self.rounds_inputs(df) && value.rounded != Some(df) {
            self.round(node, span, value, df)
        } else {
            value
        })
    }

    /// The kernels after an op: relu, rounding, change of the tile size (netlist 3.8, 5.6).
    fn finished(&mut self, op: &Op, mut value: Value) -> Result<Value> {
        use DataFormat::*;
        let (node, span) = (&*op.name.value, op.name.span);
        // A result is in the registers before it is packed; the schedules of a fused op round their
        // own registers.
        let acc = op.acc_df.map(|format| format.value);
        let acc = acc.filter(|&acc| !acc.is_integer() && value.rounded != Some(acc));
        if let Some(acc) = acc.filter(|_| self.scope.mode == NumericMode::Formats)
            && op.kind.value.uses_registers()
            && op.kind.value != OpKind::FusedOp
        {
            value = self.round(node, span, value, acc);
        }
        if op.kind.value != OpKind::FusedOp {
            value = self.relu(node, span, &op.attributes, value);
        }
        let out = op.out_df.value;
        let always = matches!(out, Int8 | Int32 | Bfp4 | Bfp4B | Bfp2 | Bfp2B);
        if always || self.scope.mode == NumericMode::Formats {
            value = self.round(node, span, value, out);
        }
        let tile = op.blocking.tile().map(|side| side as usize);
        Ok(self.resized(node, span, value, tile))
    }

    /// The gradient sum with the op's result added. A matmul accumulates into the sum directly.
    fn gradient(&mut self, op: &Op, inputs: &mut Vec<Value>) -> Result<Value> {
        let machine = self.machine;
        let before = Value {
            register: self.sum_kernel(op, "netlist.sum", [machine]).result(TENSOR),
            tiles: super::value::tiles_of(&op.blocking),
            tile: op.blocking.tile().map(|side| side as usize),
            rounded: None,
            constant: false,
            view: None,
        };
        let sum = if super::ops::is_dense_matmul(op) {
            inputs.push(before);
            self.compute(op, inputs)?
        } else {
            let value = self.compute(op, inputs)?;
            let both = [before.register, value.register];
            Value {
                register: self
                    .sum_kernel(op, "netlist.accumulate", both)
                    .result(TENSOR),
                rounded: None,
                constant: false,
                ..value
            }
        };
        let keeps = [machine, sum.register];
        let kept = self.sum_kernel(op, "netlist.keep", keeps).result(CHAIN);
        self.results.push(kept);
        Ok(sum)
    }

    /// A kernel on the sum of a gradient op.
    fn sum_kernel<const N: usize>(
        &mut self,
        op: &Op,
        kernel: &str,
        operands: [RegisterId; N],
    ) -> KernelBuilder<'_> {
        let location = self.location(op.name.span);
        self.function
            .kernel(kernel)
            .operands(operands)
            .attribute("node", op.name.value.as_str())
            .location(location)
    }

    /// Emits the push to a queue, after the reads of the same memory that precede it.
    fn push(&mut self, op: &'n Op, queue: &'n Queue, value: Value) -> Result<()> {
        let name = &*queue.name.value;
        let mut entry = value;
        let movements = movements::of_tms(&queue.input_tms);
        if !movements.is_empty() {
            let [t, rows, columns] = entry.tiles.map(|size| size as u64);
            let mut shape = TileShape { t, rows, columns };
            for tm in &queue.input_tms {
                shape = shape
                    .after_tm(tm.value, tm.span)
                    .map_err(|finding| finding.to_error(self.scope.source))?;
            }
            let after = [shape.t, shape.rows, shape.columns].map(|size| size as usize);
            entry = self.moved(&op.name.value, queue.input.span, &entry, &movements, after);
        }
        let waits = match queue.kind.value {
            QueueKind::Ram => self.reads_of_memory(queue),
            QueueKind::Queue => self.read.get(name).copied().into_iter().collect(),
        };
        let location = self.location(queue.input.span);
        let chain = self
            .function
            .kernel("netlist.push")
            .operands([self.machine, entry.register].into_iter().chain(waits))
            .attribute("queue", name)
            .attribute("node", op.name.value.as_str())
            .location(location)
            .result(CHAIN);
        self.pushed.insert(name, chain);
        self.results.push(chain);
        Ok(())
    }

    /// The reads of all views of a ram's memory.
    fn reads_of_memory(&self, ram: &Queue) -> Vec<RegisterId> {
        let memory = self.scope.memory_of(ram);
        let mut shared: Vec<RegisterId> = self
            .read
            .iter()
            .filter(|(name, _)| self.scope.memory_of(self.scope.queues[**name]) == memory)
            .map(|(_, &chain)| chain)
            .collect();
        shared.sort_unstable_by_key(|register| register.0);
        shared
    }

    /// An error about an op that cannot be lowered.
    pub(super) fn unsupported(&self, span: Span, text: impl Into<String>) -> Error {
        let place = error_at(self.scope.source, span, String::new());
        Error::new(ErrorKind::Unsupported, text).at(place.location().clone())
    }
}
