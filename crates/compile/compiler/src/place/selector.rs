//! Backend selection: the order of support queries for a node, and the decision that follows.

use super::{Hint, NodePlacement, NodeRefusal, QueryReason, Target, is_view};
use crate::layout;
use crate::lower::movement_node;
use crate::precision::narrow_weights;
use std::collections::BTreeSet;
use std::sync::Arc;
use tenon_backend::{
    Backend, BackendId, NodeRanges, NodeView, Reason, Refusal, Registry, is_reachable,
};
use tenon_base::{Error, ErrorKind, Location, Result};
use tenon_graph::operator::OperatorClass;
use tenon_graph::{Graph, Node, Tensor, TensorType, ValueId};
use tenon_plan::descriptors;

/// The backends of a list of names.
#[derive(Default)]
struct ResolvedBackends<'r> {
    available: Vec<&'r Arc<dyn Backend>>,
    /// Backends that cannot run on this machine, each with the reason.
    unavailable: Vec<(BackendId, String)>,
    /// One error for each unknown name.
    unknown: Vec<Error>,
}

impl<'r> ResolvedBackends<'r> {
    fn new(registry: &'r Registry, ids: &[BackendId]) -> Self {
        let mut resolved = Self::default();
        let mut seen = BTreeSet::new();
        for id in ids.iter().filter(|id| seen.insert(*id)) {
            match (registry.find(id), registry.unavailable(id)) {
                (Some(backend), _) => resolved.available.push(backend),
                (None, Some(reason)) => resolved.unavailable.push((id.clone(), reason.to_owned())),
                (None, None) => resolved.unknown.push(registry.unknown(id)),
            }
        }
        resolved
    }
}

/// The error about a model when every named backend is unavailable.
fn none_available(unavailable: &[(BackendId, String)]) -> Error {
    let error = Error::new(ErrorKind::Unsupported, "no backend to place the model on");
    let reasons = unavailable.iter();
    let reasons: Vec<String> = reasons
        .map(|(id, reason)| format!("{id}: {reason}"))
        .collect();
    if reasons.is_empty() {
        error
    } else {
        error.found(reasons.join("; "))
    }
}

/// Selects the backend of a node: a hinted one first, then the others in order of preference.
pub(crate) struct BackendSelector<'a> {
    backends: Vec<&'a Arc<dyn Backend>>,
    /// Whether the first of `backends` is offered data movement before DMA.
    first_moves_data: bool,
    hints: Vec<(&'a Hint, &'a Arc<dyn Backend>)>,
    unavailable: Vec<(BackendId, String)>,
}

/// An executor that a node is offered to.
enum Candidate<'a> {
    Backend(&'a Arc<dyn Backend>, QueryReason),
    Dma,
}

/// The operands of a node, as a support query takes them.
pub(super) struct Operands {
    pub inputs: Vec<Option<TensorType>>,
    pub constants: Vec<Option<Tensor>>,
    pub outputs: Vec<Option<TensorType>>,
    pub ranges: Option<NodeRanges>,
}

impl Operands {
    /// The operands of a node of `graph`.
    pub fn of(graph: &Graph, node: &Node) -> Self {
        let types = |ids: &[Option<ValueId>]| -> Vec<Option<TensorType>> {
            ids.iter()
                .map(|id| id.and_then(|id| graph.value(id).ty.clone()))
                .collect()
        };
        let constant = |id: ValueId| graph.value(id).known().cloned();
        Self {
            inputs: types(&node.inputs),
            constants: node.inputs.iter().map(|id| id.and_then(constant)).collect(),
            outputs: types(&node.outputs),
            ranges: NodeRanges::of(graph, node),
        }
    }

    /// Whether `backend` supports `node` with these operands.
    pub fn query(&self, backend: &dyn Backend, node: &Node) -> std::result::Result<(), Refusal> {
        fn refs<T>(list: &[Option<T>]) -> Vec<Option<&T>> {
            list.iter().map(Option::as_ref).collect()
        }
        if !is_reachable(&backend.handle_factories()) {
            let text = "tensors cannot pass between its memory and plain memory".into();
            return Err(Reason::Other { text }.into());
        }
        backend.supports(&NodeView {
            op: node.op,
            attributes: &node.attributes,
            inputs: &refs(&self.inputs),
            constants: &refs(&self.constants),
            outputs: &refs(&self.outputs),
            ranges: self
                .ranges
                .as_ref()
                .filter(|_| backend.takes_dynamic_shapes()),
        })
    }
}

/// The backend that would execute a node, in the terms that rewrites compare.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Assignment {
    rank: usize,
    prefers_channels_last: bool,
    is_reference: bool,
    /// The hint that applies to the node.
    hint: Option<usize>,
}

impl Assignment {
    /// The number of candidates that precede the backend; the maximum without a backend.
    pub fn rank(assignment: Option<Self>) -> usize {
        assignment.map_or(usize::MAX, |assignment| assignment.rank)
    }

    /// Whether the backend prefers images with channels last.
    pub fn prefers_channels_last(self) -> bool {
        self.prefers_channels_last
    }

    /// Whether the nodes of both have the same hint or none, and so the same candidates.
    pub fn has_hint_of(self, other: Self) -> bool {
        self.hint == other.hint
    }

    /// Whether the backend is a reference implementation.
    pub fn is_reference(self) -> bool {
        self.is_reference
    }
}

/// The placement of a node, and its operands in a wider type where it is converted.
pub(super) struct Decision {
    pub placement: NodePlacement,
    pub widened: Option<Operands>,
}

impl<'a> BackendSelector<'a> {
    /// A selector over `backends` in this order, preceded for each node by the backend of its hint.
    /// Unknown names are reported together; unavailable backends are skipped.
    pub fn new(registry: &'a Registry, backends: &[BackendId], hints: &'a [Hint]) -> Result<Self> {
        let hinted = hints.iter().map(|hint| hint.backend.clone());
        let hinted: Vec<BackendId> = hinted.filter(|id| !backends.contains(id)).collect();
        let hinted = ResolvedBackends::new(registry, &hinted);
        let mut named = ResolvedBackends::new(registry, backends);
        named.unavailable.extend(hinted.unavailable);
        let mut problems = hinted.unknown;
        problems.append(&mut named.unknown);
        if problems.is_empty() && named.available.is_empty() {
            problems.push(none_available(&named.unavailable));
        }
        let hints = hints.iter();
        let hints = hints.filter_map(|hint| Some((hint, registry.find(&hint.backend)?)));
        let first = named.available.first();
        let selector = Self {
            first_moves_data: first.is_some_and(|first| !first.is_reference()),
            backends: named.available,
            hints: hints.collect(),
            unavailable: named.unavailable,
        };
        Error::from_all(problems).map_or(Ok(selector), Err)
    }

    /// The named backends that cannot run on this machine, each with the reason.
    pub fn unavailable(&self) -> &[(BackendId, String)] {
        &self.unavailable
    }

    /// The names of the backends in order of preference.
    pub fn preference(&self) -> Vec<BackendId> {
        self.backends.iter().map(|backend| backend.id()).collect()
    }

    /// The backend of that name, among those that nodes are offered to.
    pub fn find(&self, id: &BackendId) -> Option<&'a Arc<dyn Backend>> {
        self.all().into_iter().find(|backend| backend.id() == *id)
    }

    /// All backends that nodes are offered to, the preferred ones first.
    pub fn all(&self) -> Vec<&'a Arc<dyn Backend>> {
        let mut seen = BTreeSet::new();
        let hinted = self.hints.iter().map(|(_, backend)| *backend);
        self.backends
            .iter()
            .copied()
            .chain(hinted)
            .filter(|backend| seen.insert(backend.id()))
            .collect()
    }

    /// Checks that every hint matches a node, so that a misspelt name is reported.
    pub fn check_hints(&self, graph: &Graph) -> Result<()> {
        let unmatched = self.hints.iter().filter(|(hint, _)| {
            let mut nodes = graph.nodes.iter();
            !nodes.any(|node| hint.pattern.matches(&node.name))
        });
        let problems = unmatched.map(|(hint, _)| {
            let text = format!("no node is called like '{}'", hint.pattern);
            Error::new(ErrorKind::Usage, text)
                .help("the names of the nodes that are left after optimising: --emit-graph")
        });
        Error::from_all(problems).map_or(Ok(()), Err)
    }

    /// The backend that would execute a node of `graph`, possibly in a wider type; `None` for data
    /// movement that becomes descriptors, views, and nodes that no backend supports.
    pub fn assignment(&self, graph: &Graph, node: &Node) -> Option<Assignment> {
        if is_view(node.op.class) {
            return None;
        }
        let operands = Operands::of(graph, node);
        let mut hints = self.hints.iter();
        let hint = hints.position(|(hint, _)| hint.pattern.matches(&node.name));
        let mut candidates = self.candidates(node, &[]).into_iter().enumerate();
        candidates.find_map(|(rank, candidate)| match candidate {
            // Descriptors are assumed to be possible: the candidates after them are not queried.
            Candidate::Dma => Some(None),
            Candidate::Backend(backend, _) => {
                let supports = operands.query(&**backend, node).is_ok()
                    || node.op.class == OperatorClass::Compute
                        && super::convert::wider(node, &operands, &**backend).is_some();
                let assignment = || Assignment {
                    rank,
                    prefers_channels_last: layout::prefers_channels_last(backend),
                    is_reference: backend.is_reference(),
                    hint,
                };
                supports.then(|| Some(assignment()))
            }
        })?
    }

    /// Places `node` on the first candidate that supports it; the backends of `without` are not
    /// queried. With `widen`, a backend that lacks only the node's data type is queried with a wider
    /// one.
    pub(super) fn decide(
        &self,
        graph: &Graph,
        node: &Node,
        without: &[BackendId],
        widen: bool,
    ) -> Result<Decision> {
        let mut placement = NodePlacement {
            node: node.name.clone(),
            operator: node.op.name,
            target: Target::View,
            hint: None,
            converted: None,
            weights: None,
            subgraph: None,
            cost: None,
            refusals: Vec::new(),
            replaced: None,
        };
        let mut widened = None;
        if is_view(node.op.class) {
            return Ok(Decision { placement, widened });
        }
        let operands = Operands::of(graph, node);
        placement.weights = narrow_weights(node.op, operands.inputs.iter().map(Option::as_ref));
        for candidate in self.candidates(node, without) {
            let (backend, query) = match candidate {
                Candidate::Backend(backend, query) => (backend, query),
                Candidate::Dma => {
                    match descriptors(&movement_node(graph, node, |_| Some(0))) {
                        Ok(_) => {
                            placement.target = Target::Dma;
                            return Ok(Decision { placement, widened });
                        }
                        Err(text) => placement.refusals.push(NodeRefusal {
                            backend: BackendId::new("dma"),
                            refusal: Reason::Other { text }.into(),
                            query: QueryReason::Preference,
                        }),
                    }
                    continue;
                }
            };
            match operands.query(&**backend, node) {
                Ok(()) => {}
                Err(refusal) => {
                    let wider = if widen && node.op.class == OperatorClass::Compute {
                        super::convert::wider(node, &operands, &**backend)
                    } else {
                        None
                    };
                    placement.refusals.push(NodeRefusal {
                        backend: backend.id(),
                        refusal,
                        query: query.clone(),
                    });
                    let Some((types, operands)) = wider else {
                        continue;
                    };
                    placement.converted = Some(types);
                    widened = Some(operands);
                }
            }
            if let QueryReason::Hint(pattern) = query {
                placement.hint = Some(pattern);
            }
            placement.target = Target::Backend(backend.id());
            return Ok(Decision { placement, widened });
        }
        Err(no_backend(node, &placement.refusals))
    }

    /// The candidates for a node in order, each once.
    fn candidates(&self, node: &Node, without: &[BackendId]) -> Vec<Candidate<'a>> {
        let mut list = Vec::with_capacity(self.backends.len() + 2);
        let mut seen: Vec<BackendId> = without.to_vec();
        let mut add = |list: &mut Vec<_>, backend: &'a Arc<dyn Backend>, query| {
            let id = backend.id();
            if !seen.contains(&id) {
                seen.push(id);
                list.push(Candidate::Backend(backend, query));
            }
        };
        let hint = self
            .hints
            .iter()
            .find(|(hint, _)| hint.pattern.matches(&node.name));
        if let Some((hint, backend)) = hint {
            add(&mut list, backend, QueryReason::Hint(hint.pattern.clone()));
        }
        // The preferred backend may keep data movement in its subgraph; then DMA, then the others.
        // A reference implementation is no faster than DMA.
        let moves_data = node.op.class == OperatorClass::Movement;
        if let Some(first) = self.backends.first()
            && (!moves_data || self.first_moves_data)
        {
            add(&mut list, first, QueryReason::Preference);
        }
        if moves_data {
            list.push(Candidate::Dma);
        }
        for backend in &self.backends {
            add(&mut list, backend, QueryReason::Preference);
        }
        list
    }
}

/// The error about a node that no backend supports.
fn no_backend(node: &Node, refusals: &[NodeRefusal]) -> Error {
    let reasons: Vec<String> = refusals
        .iter()
        .map(|refused| format!("{}: {}", refused.backend, refused.refusal))
        .collect();
    let text = format!("no backend takes {}: {}", node.op.name, reasons.join("; "));
    Error::new(ErrorKind::Unsupported, text).at(Location::node(node.name.as_str()))
}
