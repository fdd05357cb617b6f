//! The crossings of a program: values that one backend computes and another uses, counted once per
//! user (docs/placement.md). The compiler counts them in the graph; this recounts them in the
//! program, for backends that are substituted.

use std::collections::{BTreeSet, HashMap};
use tenon_backend::{BackendId, CrossingKind, HandleFactory, Registry};
use tenon_dma::Descriptor;
use tenon_kernels::{Storage, Variable, VariableId};
use tenon_neff::{CrossingReport, Crossings};

/// Counts crossings over the kernels of a program in execution order.
pub(super) struct CrossingCounter<'a> {
    backends: &'a Registry,
    /// The backends that have workloads.
    sides: Vec<Side>,
    /// The origin of each variable that a kernel has written.
    origins: HashMap<VariableId, Origin>,
    /// The counted pairs of a variable and its user.
    counted: BTreeSet<(VariableId, usize)>,
    crossings: Crossings,
}

/// A backend that has workloads.
struct Side {
    id: BackendId,
    factories: Vec<HandleFactory>,
}

/// The origin of a variable's bytes.
#[derive(Clone, Default)]
struct Origin {
    /// The backends that computed them; several if data movement combined them.
    makers: BTreeSet<usize>,
    /// The backend whose memory has them; `None` for plain memory, after data movement.
    holder: Option<usize>,
}

impl<'a> CrossingCounter<'a> {
    /// A counter of a program that runs on `backends`.
    pub fn new(backends: &'a Registry) -> Self {
        Self {
            backends,
            sides: Vec::new(),
            origins: HashMap::new(),
            counted: BTreeSet::new(),
            crossings: Crossings::default(),
        }
    }

    /// Counts a workload of `backend`.
    pub fn add_workload(
        &mut self,
        variables: &[Variable],
        backend: &BackendId,
        inputs: impl IntoIterator<Item = VariableId>,
        outputs: impl IntoIterator<Item = VariableId>,
    ) {
        let user = self.side(backend);
        for input in inputs {
            let Some(origin) = self.origins.get(&base(variables, input)) else {
                continue;
            };
            let is_foreign = origin.makers.iter().any(|&maker| maker != user);
            if is_foreign && self.counted.insert((input, user)) {
                let crossing = self.crossing(&variables[input.index()], origin, user);
                self.crossings.count += 1;
                self.crossings.bytes += crossing.bytes;
                self.crossings.values.push(crossing);
            }
        }
        for output in outputs {
            let origin = Origin {
                makers: BTreeSet::from([user]),
                holder: Some(user),
            };
            self.origins.insert(base(variables, output), origin);
        }
    }

    /// Passes the origins of the sources of data movement on to its targets.
    pub fn add_movement(&mut self, variables: &[Variable], descriptors: &[Descriptor]) {
        let sources = descriptors.iter().flat_map(|descriptor| &descriptor.from);
        let origins = sources.filter_map(|from| self.origins.get(&base(variables, from.variable)));
        let makers: BTreeSet<usize> = origins.flat_map(|origin| &origin.makers).copied().collect();
        for descriptor in descriptors {
            let origin = Origin {
                makers: makers.clone(),
                holder: None,
            };
            let target = base(variables, descriptor.to.variable);
            self.origins.insert(target, origin);
        }
    }

    /// The crossings of all kernels added.
    pub fn finish(self) -> Crossings {
        self.crossings
    }

    fn side(&mut self, id: &BackendId) -> usize {
        let known = self.sides.iter().position(|side| side.id == *id);
        known.unwrap_or_else(|| {
            let factories = self.backends.find(id);
            let factories = factories.map(|backend| backend.handle_factories());
            self.sides.push(Side {
                id: id.clone(),
                factories: factories.unwrap_or_default(),
            });
            self.sides.len() - 1
        })
    }

    fn crossing(&self, variable: &Variable, origin: &Origin, user: usize) -> CrossingReport {
        let makers = origin.makers.iter().filter(|&&maker| maker != user);
        let holder = origin.holder.map(|holder| &self.sides[holder]);
        let holder = holder.map_or(&[][..], |side| &side.factories);
        CrossingReport {
            value: variable.name.to_string(),
            from: makers
                .map(|&maker| self.sides[maker].id.to_string())
                .collect(),
            to: self.sides[user].id.to_string(),
            way: CrossingKind::between(holder, &self.sides[user].factories).to_string(),
            bytes: variable.size,
        }
    }
}

/// The variable that owns the bytes of one, which may be a view.
fn base(variables: &[Variable], id: VariableId) -> VariableId {
    match variables.get(id.index()).map(|variable| &variable.storage) {
        Some(Storage::View(of)) => *of,
        _ => id,
    }
}
