//! Resolved names: the producers and consumers of queues and ops.

use crate::netlist::{Graph, Netlist, Op, Queue};
use std::collections::HashMap;

/// The definition of a name.
#[derive(Debug, Clone, Copy)]
pub enum Node<'n> {
    /// A queue or ram.
    Queue(&'n Queue),
    /// An op of a graph.
    Op(&'n Graph, &'n Op),
}

/// The resolved names of a netlist.
#[derive(Debug)]
pub struct Links<'n> {
    nodes: HashMap<&'n str, Node<'n>>,
    graphs: HashMap<&'n str, &'n Graph>,
    /// The consumers of a node: graph, op, and index of the input.
    readers: HashMap<&'n str, Vec<(&'n Graph, &'n Op, usize)>>,
    /// The queues that an op writes.
    outputs: HashMap<&'n str, Vec<&'n Queue>>,
}

impl<'n> Links<'n> {
    /// Resolves the names of `netlist`; of duplicate names the first is effective.
    pub fn new(netlist: &'n Netlist) -> Self {
        let mut links = Self {
            nodes: HashMap::new(),
            graphs: HashMap::new(),
            readers: HashMap::new(),
            outputs: HashMap::new(),
        };
        for queue in &netlist.queues {
            links
                .nodes
                .entry(&queue.name.value)
                .or_insert(Node::Queue(queue));
        }
        for (graph, op) in netlist.ops() {
            links.graphs.entry(&graph.name.value).or_insert(graph);
            links
                .nodes
                .entry(&op.name.value)
                .or_insert(Node::Op(graph, op));
        }
        for graph in &netlist.graphs {
            links.graphs.entry(&graph.name.value).or_insert(graph);
        }
        for (graph, op) in netlist.ops() {
            for (index, input) in op.inputs.iter().enumerate() {
                let name = links.base(&input.name.value);
                links
                    .readers
                    .entry(name)
                    .or_default()
                    .push((graph, op, index));
            }
        }
        for queue in netlist.queues.iter().filter(|queue| !queue.is_host_fed()) {
            let name = links.base(&queue.input.value);
            links.outputs.entry(name).or_default().push(queue);
        }
        links
    }

    /// A name without the device suffix of a replica (netlist 6.5), if only the base name is defined.
    fn base(&self, name: &'n str) -> &'n str {
        match name.rsplit_once('.') {
            Some((base, device))
                if !self.nodes.contains_key(name)
                    && device.parse::<u32>().is_ok()
                    && self.nodes.contains_key(base) =>
            {
                base
            }
            _ => name,
        }
    }

    /// The definition of a name.
    pub fn find(&self, name: &'n str) -> Option<Node<'n>> {
        self.nodes.get(self.base(name)).copied()
    }

    /// The queue of a name.
    pub fn queue(&self, name: &'n str) -> Option<&'n Queue> {
        match self.find(name) {
            Some(Node::Queue(queue)) => Some(queue),
            _ => None,
        }
    }

    /// The graph of a name.
    pub fn graph(&self, name: &str) -> Option<&'n Graph> {
        self.graphs.get(name).copied()
    }

    /// The consumers of a queue or op, with the index of the input.
    pub fn readers(&self, name: &str) -> &[(&'n Graph, &'n Op, usize)] {
        self.readers.get(name).map_or(&[], Vec::as_slice)
    }

    /// The queues that an op writes.
    pub fn output_queues(&self, op: &str) -> &[&'n Queue] {
        self.outputs.get(op).map_or(&[], Vec::as_slice)
    }

    /// All names of queues and ops, for suggestions.
    pub fn names(&self) -> impl Iterator<Item = &'n str> + '_ {
        self.nodes.keys().copied()
    }
}

impl Node<'_> {
    /// Its blocking.
    pub fn blocking(&self) -> &crate::Blocking {
        match self {
            Node::Queue(queue) => &queue.blocking,
            Node::Op(_, op) => &op.blocking,
        }
    }
}
