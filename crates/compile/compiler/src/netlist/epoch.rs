//! The function of an epoch: queues are read, ops hand tensors to each other, queues are written.

use super::epochs::Schedule;
use super::value::{Value, Way};
use super::{NumericMode, Scope, error_at};
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
    /// Chains of reads, which writes of the same memory wait for.
    read: HashMap<&'n str, RegisterId>,
    /// Chains of pushes, which reads of streaming queues wait for.
    pushed: HashMap<&'n str, RegisterId>,
    /// What the function answers, so that its caller waits for everything.
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
        // Starving is the trouble of the op that reads first.
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
            constant: self.comes_again(queue),
            way: None,
        };
        self.values.insert(name, value.clone());
        Ok(value)
    }

    /// Whether an entry is read again and again, as parameters are: in a ram that the host fills,
    /// or in a queue that is loaded before the first input.
    fn comes_again(&self, queue: &Queue) -> bool {
        let name = &*queue.name.value;
        let is_ram = queue.kind.value == QueueKind::Ram;
        queue.is_host_fed() && (is_ram || self.scope.loaded.contains(name))
    }

    /// The format that all entries of a queue are known to fit.
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
            let arrived = match (super::ops::is_product(op), index, &inputs[..]) {
                (true, 0 | 1, _) => self.coming(op, input, value, true)?,
                (true, 2, [a, ..]) => self.third(op, input, value, a.tiles[1])?,
                _ if super::ops::sees(op) => self.coming(op, input, value, false)?,
                _ => self.arriving(op, input, value)?,
            };
            inputs.push(arrived);
        }
        let value = match op.gradient_op.is_some_and(|gradient| gradient.value) {
            true => self.gradient(op, &mut inputs)?,
            false => self.compute(op, &inputs)?,
        };
        let value = self.finished(op, value)?;
        self.values.insert(&op.name.value, value.clone());
        let filled = self.scope.filled.get(&*op.name.value);
        for queue in filled.cloned().unwrap_or_default() {
            self.push(op, queue, value.clone())?;
        }
        if filled.is_none() {
            // The caller waits for what nobody takes too.
            self.results.push(value.register);
        }
        Ok(())
    }

    /// An input on its way to an op: in the op's format, then unpad, TMs, pad (facts 3.8). Facts 5.6
    /// do not say which comes first; tiles are stored in their format before they are moved, and
    /// their blocks of sixteen are others where they are transposed.
    fn arriving(&mut self, op: &Op, input: &Input, value: Value) -> Result<Value> {
        let value = self.rounded_input(op, input, value)?;
        let steps = super::steps::steps(input);
        if steps.is_empty() {
            return Ok(value);
        }
        let after = self.after(input, &value)?;
        Ok(self.moved(&op.name.value, input.name.span, &value, &steps, after))
    }

    /// The tiles of an input when it has arrived.
    fn after(&self, input: &Input, value: &Value) -> Result<[usize; 3]> {
        let [t, rows, columns] = value.tiles.map(|size| size as u64);
        let after = TileShape { t, rows, columns }
            .after_input(input)
            .map_err(|finding| finding.to_error(self.scope.source))?;
        Ok([after.t, after.rows, after.columns].map(|size| size as usize))
    }

    /// An input that the op sees through its TMs, transposed ones only where it `turns` them itself:
    /// what only comes again need not be in memory.
    fn coming(&mut self, op: &Op, input: &Input, value: Value, turns: bool) -> Result<Value> {
        let steps = super::steps::steps(input);
        let turned = super::steps::flips(&steps) && !turns;
        if steps.is_empty() || turned || super::steps::pads(&steps) {
            return self.arriving(op, input, value);
        }
        let value = self.rounded_input(op, input, value)?;
        let after = self.after(input, &value)?;
        Ok(Value {
            tiles: after,
            tile: super::steps::tile(&steps, value.tile),
            way: Some(Way {
                from: value.tiles,
                steps,
                spread: [false; 2],
            }),
            ..value
        })
    }

    /// The third input of a product of so many rows of tiles. Of a bias whose one row of tiles is
    /// broadcast that row will do.
    fn third(&mut self, op: &Op, input: &Input, value: Value, rows: usize) -> Result<Value> {
        let is_bias = op.attributes.is(AttributeKey::Bias) && !super::ops::is_integer(op);
        let broadcast = |tm: &Tm| matches!(tm, Tm::BroadcastRows(_));
        if let Some((last, before)) = input.tms.split_last()
            && is_bias
            && broadcast(&last.value)
            && input.pad.is_none()
        {
            let row = Input {
                tms: before.to_vec(),
                ..input.clone()
            };
            let whole = self.after(input, &value)?;
            if whole[1] == rows && self.after(&row, &value)?[..2] == [1, 1] {
                return self.arriving(op, &row, value);
            }
        }
        self.arriving(op, input, value)
    }

    /// Whether inputs of a format are rounded to it: those that golden rounds (facts 5.6), and all
    /// in `formats`.
    fn rounds_inputs(&self, df: DataFormat) -> bool {
        use DataFormat::{Bfp2, Bfp2B, Bfp4, Bfp4B};
        let formats = self.scope.mode == NumericMode::Formats;
        formats || matches!(df, Bfp4 | Bfp4B | Bfp2 | Bfp2B)
    }

    /// An input in its format.
    fn rounded_input(&mut self, op: &Op, input: &Input, value: Value) -> Result<Value> {
        let df = input.df.value;
        let (node, span) = (&*op.name.value, input.name.span);
        if df == DataFormat::Float32 {
            return Ok(match self.scope.is_wormhole() {
                true => self.simple("netlist.tf32", node, span, value),
                false => value,
            });
        }
        Ok(match self.rounds_inputs(df) && value.rounded != Some(df) {
            true => self.round(node, span, value, df),
            false => value,
        })
    }

    /// After the op: relu, formats, the size of tiles (facts 3.8, 5.6).
    fn finished(&mut self, op: &Op, mut value: Value) -> Result<Value> {
        use DataFormat::*;
        let (node, span) = (&*op.name.value, op.name.span);
        // What is computed lies in the registers before it is packed; fused ops say themselves
        // what does.
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

    /// The sum that a gradient op keeps, with what it adds. A product is added to it while it is
    /// made.
    fn gradient(&mut self, op: &Op, inputs: &mut Vec<Value>) -> Result<Value> {
        let machine = self.machine;
        let before = Value {
            register: self.of_sum(op, "netlist.sum", [machine]).result(TENSOR),
            tiles: super::value::tiles_of(&op.blocking),
            tile: op.blocking.tile().map(|side| side as usize),
            rounded: None,
            constant: false,
            way: None,
        };
        let sum = if super::ops::is_product(op) {
            inputs.push(before);
            self.compute(op, inputs)?
        } else {
            let value = self.compute(op, inputs)?;
            let both = [before.register, value.register];
            Value {
                register: self.of_sum(op, "netlist.accumulate", both).result(TENSOR),
                rounded: None,
                constant: false,
                ..value
            }
        };
        let keeps = [machine, sum.register];
        let kept = self.of_sum(op, "netlist.keep", keeps).result(CHAIN);
        self.results.push(kept);
        Ok(sum)
    }

    /// A kernel about the sum of a gradient op.
    fn of_sum<const N: usize>(
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

    /// Writes a queue: after all reads of the same memory, where those come first.
    fn push(&mut self, op: &'n Op, queue: &'n Queue, value: Value) -> Result<()> {
        let name = &*queue.name.value;
        let mut entry = value;
        let steps = super::steps::tms(&queue.input_tms);
        if !steps.is_empty() {
            let [t, rows, columns] = entry.tiles.map(|size| size as u64);
            let mut shape = TileShape { t, rows, columns };
            for tm in &queue.input_tms {
                shape = shape
                    .after_tm(tm.value, tm.span)
                    .map_err(|finding| finding.to_error(self.scope.source))?;
            }
            let after = [shape.t, shape.rows, shape.columns].map(|size| size as usize);
            entry = self.moved(&op.name.value, queue.input.span, &entry, &steps, after);
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

    /// What cannot be lowered.
    pub(super) fn unsupported(&self, span: Span, text: impl Into<String>) -> Error {
        let place = error_at(self.scope.source, span, String::new());
        Error::new(ErrorKind::Unsupported, text).at(place.location().clone())
    }
}
