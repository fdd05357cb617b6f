//! Queues and graphs on several devices become one each (facts 6.5).

use std::collections::HashSet;
use tenon_netlist::{Graph, Instruction, Netlist, Queue, QueueSetting, Spanned};

/// The name of what stands on one device.
fn on(name: &str, device: u32) -> String {
    format!("{name}.{device}")
}

/// Names that stand on several devices.
struct Names<'n> {
    queues: HashSet<&'n str>,
    ops: HashSet<&'n str>,
    graphs: Vec<&'n Graph>,
}

impl Names<'_> {
    /// A name as something on `device` means it.
    fn resolved(&self, name: &Spanned<String>, device: u32) -> Spanned<String> {
        let text = name.value.as_str();
        match self.queues.contains(text) || self.ops.contains(text) {
            true => Spanned::new(on(text, device), name.span),
            false => name.clone(),
        }
    }
}

/// The netlist with one queue and one graph a device, each named with its device.
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
    let names = Names {
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

fn replicas_of(names: &Names<'_>, queue: &Queue) -> Vec<Queue> {
    if queue.target_device.len() < 2 {
        return vec![queue.clone()];
    }
    let replica = |device: &Spanned<u32>| {
        let mut replica = queue.clone();
        replica.name.value = on(&queue.name.value, device.value);
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

fn graphs_of(names: &Names<'_>, graph: &Graph) -> Vec<Graph> {
    if graph.target_device.len() < 2 {
        return vec![graph.clone()];
    }
    let replica = |device: &Spanned<u32>| {
        let mut replica = graph.clone();
        replica.name.value = on(&graph.name.value, device.value);
        replica.target_device = vec![*device];
        for op in &mut replica.ops {
            op.name.value = on(&op.name.value, device.value);
            for input in &mut op.inputs {
                input.name = names.resolved(&input.name, device.value);
            }
        }
        replica
    };
    graph.target_device.iter().map(replica).collect()
}

fn instructions_of(
    names: &Names<'_>,
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
                    // A setting that names a replica of another device is not of this one.
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
                let name = Spanned::new(on(&graph.value, device.value), graph.span);
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
