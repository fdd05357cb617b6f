//! Who is asked for a node, in which order, and what they answer.

use super::{Hint, NodePlacement, NodeRefusal, QueryReason, Target, is_view};
use crate::{layout, movement};
use std::collections::BTreeSet;
use std::sync::Arc;
use tenon_backend::{Backend, BackendId, NodeView, Reason, Refusal, Registry, is_reachable};
use tenon_base::{Error, ErrorKind, Location, Result};
use tenon_graph::operator::OperatorClass;
use tenon_graph::{Graph, Node, Tensor, TensorType, ValueId};

/// Backends that were named, sorted by whether they can compute here.
#[derive(Default)]
struct Named<'r> {
    available: Vec<&'r Arc<dyn Backend>>,
    /// Those that cannot, each with the reason.
    unavailable: Vec<(BackendId, String)>,
    /// An error a name that nothing is known of.
    unknown: Vec<Error>,
}

impl<'r> Named<'r> {
    fn of(registry: &'r Registry, ids: &[BackendId]) -> Self {
        let mut named = Self::default();
        let mut seen = BTreeSet::new();
        for id in ids.iter().filter(|id| seen.insert(*id)) {
            match (registry.find(id), registry.unavailable(id)) {
                (Some(backend), _) => named.available.push(backend),
                (None, Some(reason)) => named.unavailable.push((id.clone(), reason.to_owned())),
                (None, None) => named.unknown.push(registry.unknown(id)),
            }
        }
        named
    }
}

/// The error about a model for which no backend is left.
fn none_left(unavailable: &[(BackendId, String)]) -> Error {
    let error = Error::new(ErrorKind::Unsupported, "no backend to place the model on");
    let reasons = unavailable.iter();
    let reasons: Vec<String> = reasons
        .map(|(id, reason)| format!("{id}: {reason}"))
        .collect();
    match reasons.is_empty() {
        true => error,
        false => error.found(reasons.join("; ")),
    }
}

/// Asks backends: those that hints name, then the preferred ones.
pub(crate) struct Asker<'a> {
    backends: Vec<&'a Arc<dyn Backend>>,
    hints: Vec<(&'a Hint, &'a Arc<dyn Backend>)>,
    unavailable: Vec<(BackendId, String)>,
}

/// Whom a node is offered to.
enum Candidate<'a> {
    Backend(&'a Arc<dyn Backend>, QueryReason),
    Dma,
}

/// The operands of a node as backends see them.
pub(super) struct Operands {
    pub inputs: Vec<Option<TensorType>>,
    pub constants: Vec<Option<Tensor>>,
    pub outputs: Vec<Option<TensorType>>,
}

impl Operands {
    /// Those of a node of `graph`.
    pub fn of(graph: &Graph, node: &Node) -> Self {
        let types = |ids: &[Option<ValueId>]| -> Vec<Option<TensorType>> {
            ids.iter()
                .map(|id| id.and_then(|id| graph.value(id).ty.clone()))
                .collect()
        };
        let constant = |id: ValueId| graph.value(id).constant.clone();
        Self {
            inputs: types(&node.inputs),
            constants: node.inputs.iter().map(|id| id.and_then(constant)).collect(),
            outputs: types(&node.outputs),
        }
    }

    /// Whether `backend` takes `node` with these operands.
    pub fn asked(&self, backend: &dyn Backend, node: &Node) -> std::result::Result<(), Refusal> {
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
        })
    }
}

/// The backend that would execute a node.
pub(crate) struct Assignment<'a> {
    /// How many are asked before.
    rank: usize,
    backend: &'a Arc<dyn Backend>,
}

impl Assignment<'_> {
    /// How many backends are preferred to it; more than any where there is none.
    pub fn rank(assignment: Option<&Self>) -> usize {
        assignment.map_or(usize::MAX, |assignment| assignment.rank)
    }

    /// Whether it computes best on images with channels last.
    pub fn prefers_channels_last(&self) -> bool {
        layout::prefers_channels_last(self.backend)
    }
}

/// Who takes a node, and with which operands when not with its own.
pub(super) struct Decision {
    pub placement: NodePlacement,
    pub widened: Option<Operands>,
}

impl<'a> Asker<'a> {
    /// Asks `backends` in this order, and before them those of `hints`. Unknown names are reported
    /// together; backends that cannot compute here are left out.
    pub fn new(registry: &'a Registry, backends: &[BackendId], hints: &'a [Hint]) -> Result<Self> {
        let hinted = hints.iter().map(|hint| hint.backend.clone());
        let hinted: Vec<BackendId> = hinted.filter(|id| !backends.contains(id)).collect();
        let hinted = Named::of(registry, &hinted);
        let mut named = Named::of(registry, backends);
        named.unavailable.extend(hinted.unavailable);
        let mut problems = hinted.unknown;
        problems.append(&mut named.unknown);
        if problems.is_empty() && named.available.is_empty() {
            problems.push(none_left(&named.unavailable));
        }
        let hints = hints.iter();
        let hints = hints.filter_map(|hint| Some((hint, registry.find(&hint.backend)?)));
        let asker = Self {
            backends: named.available,
            hints: hints.collect(),
            unavailable: named.unavailable,
        };
        Error::from_all(problems).map_or(Ok(asker), Err)
    }

    /// Backends that were named, but cannot compute here, each with the reason.
    pub fn unavailable(&self) -> &[(BackendId, String)] {
        &self.unavailable
    }

    /// Their names.
    pub fn preference(&self) -> Vec<BackendId> {
        self.backends.iter().map(|backend| backend.id()).collect()
    }

    /// The backend of that name, when it may have nodes.
    pub fn find(&self, id: &BackendId) -> Option<&'a Arc<dyn Backend>> {
        self.all().into_iter().find(|backend| backend.id() == *id)
    }

    /// All backends that may have nodes, the preferred ones first.
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

    /// Every hint must be of some node: a name written wrongly would go unnoticed.
    pub fn check_hints(&self, graph: &Graph) -> Result<()> {
        let lost = self.hints.iter().filter(|(hint, _)| {
            let mut nodes = graph.nodes.iter();
            !nodes.any(|node| hint.pattern.matches(&node.name))
        });
        let problems = lost.map(|(hint, _)| {
            let text = format!("no node is called like '{}'", hint.pattern);
            Error::new(ErrorKind::Usage, text)
                .help("the names of the nodes that are left after optimising: --emit-graph")
        });
        Error::from_all(problems).map_or(Ok(()), Err)
    }

    /// The backend that would execute a node of `graph`, also in a wider type; `None` for data
    /// movement that becomes descriptors, views, and nodes that no backend takes.
    pub fn assignment(&self, graph: &Graph, node: &Node) -> Option<Assignment<'a>> {
        if is_view(node.op.class) {
            return None;
        }
        let operands = Operands::of(graph, node);
        let mut candidates = self.candidates(node, &[]).into_iter().enumerate();
        candidates.find_map(|(rank, candidate)| match candidate {
            // What comes after descriptors is asked only where they cannot do it.
            Candidate::Dma => Some(None),
            Candidate::Backend(backend, _) => {
                let takes = operands.asked(&**backend, node).is_ok()
                    || node.op.class == OperatorClass::Compute
                        && super::convert::wider(node, &operands, &**backend).is_some();
                takes.then_some(Some(Assignment { rank, backend }))
            }
        })?
    }

    /// Finds who takes `node`, those of `without` not asked. `widen` offers the node in wider types
    /// where only its own are missing.
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
            subgraph: None,
            refusals: Vec::new(),
            replaced: None,
        };
        let mut widened = None;
        if is_view(node.op.class) {
            return Ok(Decision { placement, widened });
        }
        let operands = Operands::of(graph, node);
        for candidate in self.candidates(node, without) {
            let (backend, asked) = match candidate {
                Candidate::Backend(backend, asked) => (backend, asked),
                Candidate::Dma => {
                    match movement::descriptors(graph, node, &|_| Some(0)) {
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
            match operands.asked(&**backend, node) {
                Ok(()) => {}
                Err(refusal) => {
                    let wider = match widen && node.op.class == OperatorClass::Compute {
                        true => super::convert::wider(node, &operands, &**backend),
                        false => None,
                    };
                    placement.refusals.push(NodeRefusal {
                        backend: backend.id(),
                        refusal,
                        query: asked.clone(),
                    });
                    let Some((types, operands)) = wider else {
                        continue;
                    };
                    placement.converted = Some(types);
                    widened = Some(operands);
                }
            }
            if let QueryReason::Hint(pattern) = asked {
                placement.hint = Some(pattern);
            }
            placement.target = Target::Backend(backend.id());
            return Ok(Decision { placement, widened });
        }
        Err(nobody(node, &placement.refusals))
    }

    /// Whom a node is offered to, in order, each once.
    fn candidates(&self, node: &Node, without: &[BackendId]) -> Vec<Candidate<'a>> {
        let mut list = Vec::with_capacity(self.backends.len() + 2);
        let mut seen: Vec<BackendId> = without.to_vec();
        let mut add = |list: &mut Vec<_>, backend: &'a Arc<dyn Backend>, asked| {
            let id = backend.id();
            if !seen.contains(&id) {
                seen.push(id);
                list.push(Candidate::Backend(backend, asked));
            }
        };
        let hint = self
            .hints
            .iter()
            .find(|(hint, _)| hint.pattern.matches(&node.name));
        if let Some((hint, backend)) = hint {
            add(&mut list, backend, QueryReason::Hint(hint.pattern.clone()));
        }
        let moves = node.op.class == OperatorClass::Movement;
        // The first choice may claim a movement for its subgraph; then DMA, then the others.
        if let Some(first) = self.backends.first()
            && !(moves && first.id().as_str() == "CpuRef")
        {
            add(&mut list, first, QueryReason::Preference);
        }
        if moves {
            list.push(Candidate::Dma);
        }
        for backend in &self.backends {
            add(&mut list, backend, QueryReason::Preference);
        }
        list
    }
}

/// The error about a node that nobody takes.
fn nobody(node: &Node, refusals: &[NodeRefusal]) -> Error {
    let reasons: Vec<String> = refusals
        .iter()
        .map(|refused| format!("{}: {}", refused.backend, refused.refusal))
        .collect();
    let text = format!("no backend takes {}: {}", node.op.name, reasons.join("; "));
    Error::new(ErrorKind::Unsupported, text).at(Location::node(node.name.as_str()))
}
