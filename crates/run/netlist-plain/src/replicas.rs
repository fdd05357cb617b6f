//! Replication of queues and graphs on several devices: one per device (netlist 6.5).

use std::collections::HashSet;
use tenon_netlist::{Graph, Instruction, Netlist, Queue, QueueSetting, Spanned};

/// The name of a replica.
fn replica_name(name: &str, device: u32) -> String {
    format!("{name}.{device}")
}

/// The names of replicated queues, ops and graphs.
struct ReplicatedNames<'n> {
    queues: HashSet<&'n str>,
    ops: HashSet<&'n str>,
    graphs: Vec<&'n Graph>,
}

impl ReplicatedNames<'_> {
    /// The name of the replica on `device`, for a replicated name.
    fn resolved(&self, name: &Spanned<String>, device: u32) -> Spanned<String> {
        let text = name.value.as_str();
        if self.queues.contains(text) || self.ops.contains(text) {
            Spanned::new(replica_name(text, device), name.span)
        } else {
            name.clone()
        }
    }
}

/// The netlist with one queue and one graph per device, with the device as suffix of their names.
pub(crate) fn expand(netlist: &Netlist) -> Netlist {
    let many = |devices: &[Spanned<u32>]| devices.len() > 1;
    let graphs: Vec<&Graph> = netlist
        .graphs
        .iter()
        .filter(|graph| many(&graph.target_device))
        .collect();
    let queues = netlist
        .queues
        .iter()
        .filter(|queue| many(&queue.target_device));
    let names = ReplicatedNames {
        queues: queues.map(|queue| queue.name.value.as_str()).collect(),
        ops: graphs
            .iter()
            .flat_map(|graph| &graph.ops)
            .map(|op| op.name.value.as_str())
            .collect(),
        graphs,
    };
    let mut expanded = netlist.clone();
    expanded.queues = netlist
        .queues
        .iter()
        .flat_map(|queue| replicas_of(&names, queue))
        .collect();
    expanded.graphs = netlist
        .graphs
        .iter()
        .flat_map(|graph| graphs_of(&names, graph))
        .collect();
    for program in &mut expanded.programs {
        let instructions = std::mem::take(&mut program.instructions);
        program.instructions = instructions
            .into_iter()
            .flat_map(|instruction| instructions_of(&names, instruction))
            .collect();
    }
    expanded
}

fn replicas_of(names: &ReplicatedNames<'_>, queue: &Queue) -> Vec<Queue> {
    if queue.target_device.len() < 2 {
        return vec![queue.clone()];
    }
    let replica = |device: &Spanned<u32>| {
        let mut replica = queue.clone();
        replica.name.value = replica_name(&queue.name.value, device.value);
        replica.input = names.resolved(&queue.input, device.value);
        replica.alias = queue
            .alias
            .as_ref()
            .map(|name| names.resolved(name, device.value));
        replica.target_device = vec![*device];
        replica
    };
    queue.target_device.iter().map(replica).collect()
}

fn graphs_of(names: &ReplicatedNames<'_>, graph: &Graph) -> Vec<Graph> {
    if graph.target_device.len() < 2 {
        return vec![graph.clone()];
    }
    let replica = |device: &Spanned<u32>| {
        let mut replica = graph.clone();
        replica.name.value = replica_name(&graph.name.value, device.value);
        replica.target_device = vec![*device];
        for op in &mut replica.ops {
            op.name.value = replica_name(&op.name.value, device.value);
            for input in &mut op.inputs {
                input.name = names.resolved(&input.name, device.value);
            }
        }
        replica
    };
    graph.target_device.iter().map(replica).collect()
}

fn instructions_of(
    names: &ReplicatedNames<'_>,
    mut instruction: Spanned<Instruction>,
) -> Vec<Spanned<Instruction>> {
    match &mut instruction.value {
        Instruction::Execute { graph, settings } => {
            let replicated = names.graphs.iter().find(|other| other.name == *graph);
            let Some(replicated) = replicated else {
                return vec![instruction];
            };
            let one = |device: &Spanned<u32>| {
                let named = |setting: &QueueSetting| QueueSetting {
                    queue: names.resolved(&setting.queue, device.value),
                    fields: setting.fields.clone(),
                };
                let other = |setting: &QueueSetting| {
                    // A setting for the replica of another device is ignored.
                    let parts = setting.queue.value.rsplit_once('.');
                    parts.is_some_and(|(base, number)| {
                        names.queues.contains(base) && number != device.value.to_string()
                    })
                };
                let settings = settings
                    .iter()
                    .filter(|setting| !other(setting))
                    .map(named)
                    .collect();
                let name = Spanned::new(replica_name(&graph.value, device.value), graph.span);
                Spanned::new(
                    Instruction::Execute {
                        graph: name,
                        settings,
                    },
                    instruction.span,
                )
            };
            replicated.target_device.iter().map(one).collect()
        }
        _ => vec![instruction],
    }
}
