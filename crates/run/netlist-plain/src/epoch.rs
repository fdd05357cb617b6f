//! Temporal epochs: graphs that run together, input by input (facts 3.8, 6.1 to 6.5 and 10).

use crate::format;
use crate::machine::Machine;
use crate::ops::{self, Context};
use crate::order::order;
use crate::tensor::{TILE, Tensor};
use crate::tm;
use std::collections::HashMap;
use std::rc::Rc;
use tenon_base::{Error, ErrorKind, Result};
use tenon_netlist::{Arch, Graph, Input, Op, OpKind, Queue, QueueKind, SettingKey, Tm};

/// How an execute reads and writes one queue.
#[derive(Debug, Clone, Default)]
pub(crate) struct Setting {
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

/// An execute that has been reached.
#[derive(Debug, Clone)]
pub(crate) struct Pending<'n> {
    pub(crate) graph: &'n Graph,
    pub(crate) settings: HashMap<&'n str, Setting>,
    /// Pointers that follow a variable afterwards: queue, field, variable.
    pub(crate) bound: Vec<(&'n str, SettingKey, &'n str)>,
}

/// What one input of an epoch has made so far.
type Done<'n> = HashMap<&'n str, Rc<Tensor>>;

impl<'n> Machine<'n> {
    /// Whether an execute runs together with those that wait: it belongs to their temporal graph,
    /// or runs beside them on other devices, which grayskull cannot.
    pub(crate) fn joins(&self, pending: &Pending<'n>) -> bool {
        let group = |graph: &Graph| self.groups.get(graph.name.value.as_str());
        self.pending.iter().all(|other| {
            let apart = other.graph.target_device.iter().all(|device| {
                pending
                    .graph
                    .target_device
                    .iter()
                    .all(|own| own.value != device.value)
            });
            let together = group(other.graph) == group(pending.graph);
            let same_count = other.graph.input_count == pending.graph.input_count;
            apart && same_count && (together || self.arch != Arch::Grayskull)
        })
    }

    /// Whether a temporal graph has begun whose other parts are still to come.
    pub(crate) fn awaits_more(&self) -> bool {
        self.pending.iter().any(|pending| {
            let group = self.groups.get(pending.graph.name.value.as_str());
            group.is_some_and(|group| {
                let waits = |name: &&str| {
                    self.pending
                        .iter()
                        .any(|other| other.graph.name.value == **name)
                };
                !group.iter().all(waits)
            })
        })
    }

    /// Runs what waits, together; where that starves, one temporal graph after the other
    /// (facts 10.4).
    pub(crate) fn flush(&mut self) -> Result<()> {
        let pending = std::mem::take(&mut self.pending);
        let Some(first) = pending.first() else {
            return Ok(());
        };
        let group =
            |pending: &Pending<'n>| self.groups.get(pending.graph.name.value.as_str()).cloned();
        let first = group(first);
        if pending.iter().all(|other| group(other) == first) {
            return self.epoch(&pending);
        }
        let before = (self.stores.clone(), self.sums.clone());
        let Err(error) = self.epoch(&pending) else {
            return Ok(());
        };
        if error.kind() != ErrorKind::ExecutionFailed {
            return Err(error);
        }
        (self.stores, self.sums) = before;
        let mut parts: Vec<Vec<Pending<'n>>> = Vec::new();
        for one in pending {
            let group = self.groups.get(one.graph.name.value.as_str());
            let same = |part: &&mut Vec<Pending<'n>>| {
                self.groups.get(part[0].graph.name.value.as_str()) == group
            };
            match parts.iter_mut().find(same) {
                Some(part) => part.push(one),
                None => parts.push(vec![one]),
            }
        }
        parts.iter().try_for_each(|part| self.epoch(part))
    }

    fn epoch(&mut self, pending: &[Pending<'n>]) -> Result<()> {
        for one in pending {
            self.apply(one)?;
        }
        let graphs: Vec<&Graph> = pending.iter().map(|one| one.graph).collect();
        let order = order(&graphs, &self.queues)?;
        let count = |graph: usize| graphs[graph].input_count.value;
        let inputs = (0..graphs.len()).map(count).max().unwrap_or(0);
        for input in 0..inputs {
            let mut done = Done::new();
            let mut writes: Vec<(&'n Queue, Rc<Tensor>)> = Vec::new();
            for &(graph, op) in order.iter().filter(|(graph, _)| input < count(*graph)) {
                self.control.check()?;
                if op.kind.value == OpKind::Drainer {
                    continue;
                }
                let output = Rc::new(self.op(&pending[graph], op, i64::from(input), &done)?);
                self.push(op, &output, &mut writes)?;
                done.insert(&op.name.value, output);
            }
            // A ram that is read and written in one graph is read first (facts 10.5).
            for (queue, tensor) in writes {
                self.write_ram(queue, tensor)?;
            }
            self.advance(pending);
        }
        Ok(())
    }

    /// Sets the pointers of an execute, and clears what it wants cleared.
    fn apply(&mut self, pending: &Pending<'n>) -> Result<()> {
        for (name, setting) in &pending.settings {
            let Some(queue) = self.queues.get(name).copied() else {
                continue;
            };
            let zeros = self.zeros(queue)?;
            if let Some(store) = self.stores.get_mut(name) {
                setting
                    .read
                    .into_iter()
                    .for_each(|pointer| store.set_read(pointer));
                setting
                    .write
                    .into_iter()
                    .for_each(|pointer| store.set_write(pointer));
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

    /// Moves the pointers that the device moves after each input.
    fn advance(&mut self, pending: &[Pending<'n>]) {
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
            // A queue without settings streams: what was read is gone.
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

    /// One op on one input.
    fn op(
        &mut self,
        pending: &Pending<'n>,
        op: &'n Op,
        number: i64,
        done: &Done<'n>,
    ) -> Result<Tensor> {
        let mut inputs = Vec::with_capacity(op.inputs.len());
        for input in &op.inputs {
            let tensor = self.source(pending, op, input, number, done)?;
            inputs.push(self.prepared(op, input, tensor)?);
        }
        let tile = self.valid_tile(op);
        let context = Context {
            op,
            fused: self.fused_op(op),
            small_tiles: tile.iter().any(|&side| side <= 16),
        };
        let mut faults = Vec::new();
        let output = ops::compute(&context, &inputs, &mut faults)?;
        self.note(op, faults);
        let mut output = output.masked(tile);
        if op.gradient_op.is_some_and(|flag| flag.value) {
            if let Some(sum) = self.sums.get(op.name.value.as_str()) {
                output = ops::add(sum, &output);
            }
            self.sums.insert(&op.name.value, Rc::new(output.clone()));
        }
        if op.kind.value != OpKind::FusedOp
            && let Some((threshold, max)) = ops::relu_of(&op.attributes)
        {
            output = ops::relu(output, threshold, max);
        }
        Ok(match self.options.rounds || op.out_df.value.is_integer() {
            true => format::written(output, op.out_df.value),
            false => output,
        })
    }

    /// The fused op that an op names.
    fn fused_op(&self, op: &Op) -> Option<&'n tenon_netlist::FusedOp> {
        let id = op.attributes.word(tenon_netlist::AttributeKey::FusedOpId)?;
        self.netlist.fused_op(id)
    }

    /// Rows and columns of each tile of the output that are not zeroed: those of the output's
    /// tiles, for most ops no more than the inputs' (facts 3.8).
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

    /// What an input reads: another op's output of this input, or an entry of a queue.
    fn source(
        &self,
        pending: &Pending<'n>,
        op: &Op,
        input: &'n Input,
        number: i64,
        done: &Done<'n>,
    ) -> Result<Rc<Tensor>> {
        let name = input.name.value.as_str();
        if let Some(tensor) = done.get(name) {
            return Ok(tensor.clone());
        }
        let (Some(queue), Some(store)) = (self.queues.get(name), self.stores.get(name)) else {
            let message = format!(
                "op '{}' reads op '{name}', which does not run with it",
                op.name.value
            );
            return Err(Error::new(ErrorKind::ExecutionFailed, message));
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
                "op '{}' of graph '{}' reads '{name}' where it is empty, at input {number}, pointer {pointer}",
                op.name.value, pending.graph.name.value
            );
            Error::new(ErrorKind::ExecutionFailed, message)
        })
    }

    /// An input as its op sees it: in its format, unpadded, manipulated, padded.
    fn prepared(&self, op: &Op, input: &Input, source: Rc<Tensor>) -> Result<Rc<Tensor>> {
        let wrong = |why: String| {
            let message = format!(
                "input '{}' of op '{}': {why}",
                input.name.value, op.name.value
            );
            Error::new(ErrorKind::ExecutionFailed, message)
        };
        let mut tensor = source;
        if self.options.rounds && format::is_rounded(input.df.value, self.arch) {
            let own = Rc::unwrap_or_clone(tensor);
            tensor = Rc::new(format::read(own, input.df.value, self.arch));
        }
        if let Some(unpad) = &input.unpad {
            let left = tm::unpad(&tensor, unpad.value);
            tensor = Rc::new(left.ok_or_else(|| wrong("nothing is left".to_owned()))?);
        }
        for tm in &input.tms {
            tensor = Rc::new(tm::apply(&tensor, tm.value).map_err(wrong)?);
        }
        if let Some(pad) = input.pad {
            tensor = Rc::new(tm::pad(&tensor, pad.value).map_err(wrong)?);
        }
        Ok(tensor)
    }

    /// Hands an output to every queue that the op fills; rams wait for the end of the input.
    fn push(
        &mut self,
        op: &'n Op,
        output: &Rc<Tensor>,
        writes: &mut Vec<(&'n Queue, Rc<Tensor>)>,
    ) -> Result<()> {
        let filled = self
            .filled
            .get(op.name.value.as_str())
            .cloned()
            .unwrap_or_default();
        for queue in filled {
            let name = queue.name.value.as_str();
            let mut entry = output.clone();
            for tm in &queue.input_tms {
                let changed = tm::apply(&entry, tm.value).map_err(|why| {
                    Error::new(
                        ErrorKind::ExecutionFailed,
                        format!("what is pushed to '{name}': {why}"),
                    )
                })?;
                entry = Rc::new(changed);
            }
            let wanted = crate::machine::sized(queue)?;
            if entry.shape() != wanted {
                let message = format!(
                    "op '{}' makes another shape than '{name}' takes",
                    op.name.value
                );
                let error = Error::new(ErrorKind::ExecutionFailed, message);
                return Err(error
                    .expected(format!("{wanted:?}"))
                    .found(format!("{:?}", entry.shape())));
            }
            if queue.kind.value == QueueKind::Ram {
                writes.push((queue, entry));
                continue;
            }
            self.keep(entry.values.len())?;
            if !self
                .stores
                .get_mut(name)
                .is_some_and(|store| store.push(entry))
            {
                let message = format!("op '{}' pushes to '{name}', which is full", op.name.value);
                return Err(Error::new(ErrorKind::ExecutionFailed, message));
            }
        }
        Ok(())
    }
}
