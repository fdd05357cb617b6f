//! Temporal epochs: graphs that run concurrently, input by input (netlist 3.8, 6.1, 6.5).

use crate::error::{failed, of_op, of_queue};
use crate::format;
use crate::machine::Machine;
use crate::ops::{self, Context, Faults};
use crate::order::order;
use crate::tensor::{TILE, Tensor};
use crate::tm;
use std::collections::HashMap;
use std::rc::Rc;
use tenon_base::{ErrorKind, Location, Result};
use tenon_netlist::{Arch, Graph, Input, Op, OpKind, Queue, QueueKind, SettingKey, Tm};

/// The setting of one queue for an execute, with the values of variables.
#[derive(Debug, Clone, Default)]
pub(crate) struct ResolvedSetting {
    /// Prologue or epilogue: one entry for all inputs.
    pub(crate) loads_once: bool,
    pub(crate) zero: bool,
    pub(crate) local: Option<i64>,
    pub(crate) read: Option<i64>,
    pub(crate) write: Option<i64>,
    pub(crate) local_step: i64,
    pub(crate) read_step: i64,
    pub(crate) write_step: i64,
}

/// An execute that is queued to run with others.
#[derive(Debug, Clone)]
pub(crate) struct QueuedExecute<'n> {
    pub(crate) graph: &'n Graph,
    pub(crate) settings: HashMap<&'n str, ResolvedSetting>,
    /// Pointers that are bound to a variable: queue, field, variable.
    pub(crate) bound: Vec<(&'n str, SettingKey, &'n str)>,
}

/// The outputs of the ops that were computed for the current input.
type OpOutputs<'n> = HashMap<&'n str, Rc<Tensor>>;

impl<'n> Machine<'n> {
    /// Whether an execute runs concurrently with the queued ones: it is of their temporal graph, or on
    /// other devices, which grayskull does not support.
    pub(crate) fn joins(&self, pending: &QueuedExecute<'n>) -> bool {
        let group = |graph: &Graph| self.groups.get(graph.name.value.as_str());
        self.pending.iter().all(|other| {
            let apart = other.graph.target_device.iter().all(|device| {
                pending
                    .graph
                    .target_device
                    .iter()
                    .all(|other| other.value != device.value)
            });
            let together = group(other.graph) == group(pending.graph);
            let same_count = other.graph.input_count == pending.graph.input_count;
            apart && same_count && (together || self.arch != Arch::Grayskull)
        })
    }

    /// Whether the queue has an incomplete temporal graph.
    pub(crate) fn awaits_more(&self) -> bool {
        self.pending.iter().any(|pending| {
            let group = self.groups.get(pending.graph.name.value.as_str());
            group.is_some_and(|group| {
                let is_queued = |name: &&str| {
                    self.pending
                        .iter()
                        .any(|other| other.graph.name.value == **name)
                };
                !group.iter().all(is_queued)
            })
        })
    }

    /// Runs the queued executes concurrently; if a queue runs empty, one temporal graph after the other
    /// (netlist 6.5).
    pub(crate) fn flush(&mut self) -> Result<()> {
        let pending = std::mem::take(&mut self.pending);
        let Some(first) = pending.first() else {
            return Ok(());
        };
        let group = |pending: &QueuedExecute<'n>| {
            self.groups.get(pending.graph.name.value.as_str()).cloned()
        };
        let first = group(first);
        if pending.iter().all(|other| group(other) == first) {
            return self.epoch(&pending);
        }
        let mut stores = HashMap::with_capacity(self.stores.len());
        for (name, store) in &self.stores {
            let copy = store.try_clone().map_err(|error| of_queue(name, error))?;
            stores.insert(*name, copy);
        }
        let before = (stores, self.sums.clone());
        let Err(error) = self.epoch(&pending) else {
            return Ok(());
        };
        if error.kind() != ErrorKind::ExecutionFailed {
            return Err(error);
        }
        (self.stores, self.sums) = before;
        let mut parts: Vec<Vec<QueuedExecute<'n>>> = Vec::new();
        for one in pending {
            let group = self.groups.get(one.graph.name.value.as_str());
            let same = |part: &&mut Vec<QueuedExecute<'n>>| {
                self.groups.get(part[0].graph.name.value.as_str()) == group
            };
            match parts.iter_mut().find(same) {
                Some(part) => part.push(one),
                None => parts.push(vec![one]),
            }
        }
        parts.iter().try_for_each(|part| self.epoch(part))
    }

    fn epoch(&mut self, pending: &[QueuedExecute<'n>]) -> Result<()> {
        for one in pending {
            self.apply(one)?;
        }
        let graphs: Vec<&Graph> = pending.iter().map(|one| one.graph).collect();
        let order = order(&graphs, &self.queues)?;
        let count = |graph: usize| graphs[graph].input_count.value;
        let inputs = (0..graphs.len()).map(count).max().unwrap_or(0);
        for input in 0..inputs {
            let mut outputs = OpOutputs::new();
            let mut writes: Vec<(&'n Queue, Rc<Tensor>)> = Vec::new();
            for &(graph, op) in order.iter().filter(|(graph, _)| input < count(*graph)) {
                self.control.check()?;
                if op.kind.value == OpKind::Drainer {
                    continue;
                }
                let output = Rc::new(self.op(&pending[graph], op, i64::from(input), &outputs)?);
                self.push(op, &output, &mut writes)?;
                outputs.insert(&op.name.value, output);
            }
            // Rams are written after all ops have read them (netlist 6.2).
            for (queue, tensor) in writes {
                self.write_ram(queue, tensor)?;
            }
            self.advance(pending);
        }
        Ok(())
    }

    /// Sets the pointers of an execute, and zeroes queues with the setting `zero`.
    fn apply(&mut self, pending: &QueuedExecute<'n>) -> Result<()> {
        for (name, setting) in &pending.settings {
            let Some(queue) = self.queues.get(name).copied() else {
                continue;
            };
            let zeros = self.zeros(queue)?;
            if let Some(store) = self.stores.get_mut(name) {
                if let Some(pointer) = setting.read {
                    store.set_read(pointer);
                }
                if let Some(pointer) = setting.write {
                    store.set_write(pointer);
                }
                if setting.zero {
                    store.zero(&zeros);
                }
            }
            if setting.zero {
                self.sums.remove(queue.input.value.as_str());
            }
        }
        Ok(())
    }

    /// Advances the pointers that the device increments after each input.
    fn advance(&mut self, pending: &[QueuedExecute<'n>]) {
        for one in pending {
            for (name, setting) in &one.settings {
                let Some(store) = self.stores.get_mut(name) else {
                    continue;
                };
                match store.kind() {
                    QueueKind::Queue if setting.read_step != 0 => {
                        store.advance_read(setting.read_step)
                    }
                    QueueKind::Ram if !setting.loads_once => {
                        store.advance_read(setting.read_step);
                        store.advance_write(setting.write_step);
                    }
                    _ => {}
                }
            }
            // A queue without settings is popped after each input.
            let read = one.graph.ops.iter().flat_map(|op| &op.inputs);
            let mut names: Vec<&str> = read.map(|input| input.name.value.as_str()).collect();
            names.sort_unstable();
            names.dedup();
            for name in names
                .into_iter()
                .filter(|name| !one.settings.contains_key(name))
            {
                let store = self.stores.get_mut(name);
                if let Some(store) = store.filter(|store| store.kind() == QueueKind::Queue) {
                    store.advance_read(1);
                }
            }
        }
    }

    /// Computes one op for one input.
    fn op(
        &mut self,
        pending: &QueuedExecute<'n>,
        op: &'n Op,
        number: i64,
        outputs: &OpOutputs<'n>,
    ) -> Result<Tensor> {
        let mut inputs = Vec::with_capacity(op.inputs.len());
        for input in &op.inputs {
            let tensor = self.source(pending, op, input, number, outputs)?;
            let prepared = self.prepare_input(input, tensor);
            inputs.push(prepared.map_err(|error| {
                of_op(
                    op,
                    error.at(Location::field(format!("input '{}'", input.name.value))),
                )
            })?);
        }
        let tile = self.valid_tile(op);
        let context = Context {
            op,
            fused: self.fused_op(op),
            small_tiles: tile.iter().any(|&side| side <= 16),
        };
        let mut faults = Faults::default();
        let output = ops::compute(&context, &inputs, &mut faults)?;
        self.record_faults(op, faults);
        let mut output = output.masked(tile);
        if op.is_gradient() {
            if let Some(sum) = self.sums.get(op.name.value.as_str()) {
                output = ops::add(sum, &output).map_err(|error| of_op(op, error))?;
            }
            let sum = output.try_clone().map_err(|error| of_op(op, error))?;
            self.sums.insert(&op.name.value, Rc::new(sum));
        }
        if op.kind.value != OpKind::FusedOp
            && let Some((threshold, max)) = ops::relu_of(&op.attributes)
        {
            output = ops::relu(output, threshold, max);
        }
        Ok(if self.options.rounds || op.out_df.value.is_integer() {
            format::round_output(output, op.out_df.value)
        } else {
            output
        })
    }

    /// The fused op of an op.
    fn fused_op(&self, op: &Op) -> Option<&'n tenon_netlist::FusedOp> {
        let id = op.attributes.word(tenon_netlist::AttributeKey::FusedOpId)?;
        self.netlist.fused_op(id)
    }

    /// Rows and columns of valid elements of each output tile: the tile size of the output, for most
    /// ops at most that of the inputs (netlist 3.8).
    fn valid_tile(&self, op: &Op) -> [usize; 2] {
        let mut tile = op.blocking.tile().map(|side| side as usize);
        if op.kind.value == OpKind::Matmul {
            return tile;
        }
        for input in &op.inputs {
            let name = input.name.value.as_str();
            let queue = self.queues.get(name).map(|queue| &queue.blocking);
            let source = queue.or_else(|| self.ops.get(name).map(|op| &op.blocking));
            let mut sides = source.map_or([TILE; 2], |blocking| {
                blocking.tile().map(|side| side as usize)
            });
            let transposes = input
                .tms
                .iter()
                .filter(|tm| tm.value == Tm::Transpose)
                .count();
            if transposes % 2 == 1 {
                sides.reverse();
            }
            tile = [tile[0].min(sides[0]), tile[1].min(sides[1])];
        }
        tile
    }

    /// The source of an input: the output of another op, or an entry of a queue.
    fn source(
        &self,
        pending: &QueuedExecute<'n>,
        op: &Op,
        input: &'n Input,
        number: i64,
        outputs: &OpOutputs<'n>,
    ) -> Result<Rc<Tensor>> {
        let name = input.name.value.as_str();
        if let Some(tensor) = outputs.get(name) {
            return Ok(tensor.clone());
        }
        let (Some(queue), Some(store)) = (self.queues.get(name), self.stores.get(name)) else {
            let message = format!("it reads op '{name}', which does not run concurrently");
            return Err(of_op(op, failed(message)));
        };
        let setting = pending.settings.get(name);
        if queue.kind.value == QueueKind::Ram {
            return self.read_ram(queue);
        }
        let pointer = match setting {
            Some(setting) => {
                let step = if setting.loads_once {
                    0
                } else {
                    setting.local_step
                };
                setting.local.unwrap_or(store.read_pointer()) + number * step
            }
            None => store.read_pointer(),
        };
        store.peek(pointer).ok_or_else(|| {
            let message = format!(
                "graph '{}' reads '{name}' where it is empty, at input {number}, pointer {pointer}",
                pending.graph.name.value
            );
            of_op(op, failed(message))
        })
    }

    /// Rounds, unpads, manipulates and pads an input.
    fn prepare_input(&self, input: &Input, source: Rc<Tensor>) -> Result<Rc<Tensor>> {
        let mut tensor = source;
        if self.options.rounds && format::is_rounded(input.df.value, self.arch) {
            let copy = Rc::try_unwrap(tensor).or_else(|shared| shared.try_clone())?;
            tensor = Rc::new(format::round_input(copy, input.df.value, self.arch));
        }
        if let Some(unpad) = &input.unpad {
            tensor = Rc::new(tm::unpad(&tensor, unpad.value)?);
        }
        for tm in &input.tms {
            tensor = Rc::new(tm::apply(&tensor, tm.value)?);
        }
        if let Some(pad) = input.pad {
            tensor = Rc::new(tm::pad(&tensor, pad.value)?);
        }
        Ok(tensor)
    }

    /// Pushes an output to the queues of the op; rams are written at the end of the input.
    fn push(
        &mut self,
        op: &'n Op,
        output: &Rc<Tensor>,
        writes: &mut Vec<(&'n Queue, Rc<Tensor>)>,
    ) -> Result<()> {
        let queues = self
            .outputs
            .get(op.name.value.as_str())
            .cloned()
            .unwrap_or_default();
        for queue in queues {
            let name = queue.name.value.as_str();
            let mut entry = output.clone();
            for tm in &queue.input_tms {
                let manipulated = tm::apply(&entry, tm.value);
                entry = Rc::new(manipulated.map_err(|error| of_queue(name, error))?);
            }
            let expected = crate::machine::entry_shape(queue)?;
            if entry.shape() != expected {
                let message = format!("its output does not have the shape of '{name}'");
                return Err(of_op(op, failed(message))
                    .expected(format!("{expected:?}"))
                    .found(format!("{:?}", entry.shape())));
            }
            if queue.kind.value == QueueKind::Ram {
                writes.push((queue, entry));
                continue;
            }
            self.count_output(entry.values.len())?;
            let pushed = match self.stores.get_mut(name) {
                Some(store) => store.push(entry).map_err(|error| of_queue(name, error))?,
                None => false,
            };
            if !pushed {
                let message = format!("it pushes to '{name}', which is full");
                return Err(of_op(op, failed(message)));
            }
        }
        Ok(())
    }
}
