//! Graphs and queues on several devices: one replica for each device, named `.0`, `.1` (netlist 6.5).

use std::collections::HashSet;
use tenon_netlist::{Graph, Instruction, Netlist, Program, Queue, Spanned};

/// The same netlist with every graph and queue on one device.
pub(super) fn expand(netlist: &Netlist) -> Netlist {
    let is_replicated = |devices: &[Spanned<u32>]| devices.len() > 1;
    let queues = netlist
        .queues
        .iter()
        .filter(|queue| is_replicated(&queue.target_device));
    let graphs = netlist
        .graphs
        .iter()
        .filter(|graph| is_replicated(&graph.target_device));
    let mut replicated = ReplicatedNames {
        queues: queues.map(|queue| &*queue.name.value).collect(),
        ops: HashSet::new(),
        graphs: HashSet::new(),
    };
    for graph in graphs {
        replicated.graphs.insert(&graph.name.value);
        replicated
            .ops
            .extend(graph.ops.iter().map(|op| &*op.name.value));
    }
    if replicated.queues.is_empty() && replicated.graphs.is_empty() {
        return netlist.clone();
    }
    Netlist {
        queues: netlist
            .queues
            .iter()
            .flat_map(|queue| replicated.queue(queue))
            .collect(),
        graphs: netlist
            .graphs
            .iter()
            .flat_map(|graph| replicated.graph(graph))
            .collect(),
        programs: netlist
            .programs
            .iter()
            .map(|program| replicated.program(program, &netlist.graphs))
            .collect(),
        ..netlist.clone()
    }
}

/// The names of replicated queues, ops and graphs.
struct ReplicatedNames<'n> {
    queues: HashSet<&'n str>,
    ops: HashSet<&'n str>,
    graphs: HashSet<&'n str>,
}

impl ReplicatedNames<'_> {
    /// Adds the device to the name of a replicated queue or op.
    fn rename(&self, name: &mut String, device: u32) {
        if self.queues.contains(&**name) || self.ops.contains(&**name) {
            *name = format!("{name}.{device}");
        }
    }

    fn queue(&self, queue: &Queue) -> Vec<Queue> {
        let devices = &queue.target_device;
        if devices.len() < 2 {
            return vec![queue.clone()];
        }
        let replica = |device: &Spanned<u32>| {
            let mut queue = queue.clone();
            self.rename(&mut queue.name.value, device.value);
            self.rename(&mut queue.input.value, device.value);
            if let Some(alias) = &mut queue.alias {
                self.rename(&mut alias.value, device.value);
            }
            queue.target_device = vec![*device];
            queue
        };
        devices.iter().map(replica).collect()
    }

    fn graph(&self, graph: &Graph) -> Vec<Graph> {
        let devices = &graph.target_device;
        if devices.len() < 2 {
            return vec![graph.clone()];
        }
        let replica = |device: &Spanned<u32>| {
            let mut graph = graph.clone();
            graph.name.value = format!("{}.{}", graph.name.value, device.value);
            graph.target_device = vec![*device];
            for op in &mut graph.ops {
                self.rename(&mut op.name.value, device.value);
                for input in &mut op.inputs {
                    self.rename(&mut input.name.value, device.value);
                }
            }
            graph
        };
        devices.iter().map(replica).collect()
    }

    fn program(&self, program: &Program, graphs: &[Graph]) -> Program {
        let instructions = program.instructions.iter();
        Program {
            name: program.name.clone(),
            instructions: instructions
                .flat_map(|one| self.instruction(one, graphs))
                .collect(),
        }
    }

    fn instruction(
        &self,
        instruction: &Spanned<Instruction>,
        graphs: &[Graph],
    ) -> Vec<Spanned<Instruction>> {
        let devices = match &instruction.value {
            Instruction::Execute { graph, .. } if self.graphs.contains(&*graph.value) => {
                let named = graphs.iter().find(|known| known.name.value == graph.value);
                named.map_or(&[][..], |graph| &graph.target_device)
            }
            _ => return vec![instruction.clone()],
        };
        let replica = |device: &Spanned<u32>| {
            let mut one = instruction.clone();
            if let Instruction::Execute { graph, settings } = &mut one.value {
                graph.value = format!("{}.{}", graph.value, device.value);
                for setting in settings {
                    self.rename(&mut setting.queue.value, device.value);
                }
            }
            one
        };
        devices.iter().map(replica).collect()
    }
}
