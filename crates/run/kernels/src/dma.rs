//! `tenon.dma`: runs the descriptors of one id.

use crate::{Memory, MoveBinding, Variables};
use std::collections::BTreeMap;
use std::sync::Arc;
use tenon_base::{Error, ErrorKind, Location, Result};
use tenon_dma::{ByteRange, Descriptor, Plan, StochasticRounding, VariableId};
use tenon_executor::{Frame, Kernel, KernelAttributes, KernelDef, Label, Signature, Site};

/// The name of the kernel.
pub(crate) const NAME: &str = "tenon.dma";

pub(crate) fn definition() -> KernelDef {
    KernelDef::new(NAME, Signature::default(), bind)
}

/// The descriptors of a package by id, and their rounding mode: a service of its kernels.
#[derive(Debug, Default)]
pub struct Movements {
    by_id: BTreeMap<u32, Vec<Descriptor>>,
    rounding: Option<Arc<StochasticRounding>>,
}

impl Movements {
    /// Sets the rounding of casts; `None` is to nearest.
    pub fn rounding(mut self, rounding: Option<StochasticRounding>) -> Self {
        self.rounding = rounding.map(Arc::new);
        self
    }

    /// The descriptors of one id; an error when there are none.
    fn find(&self, id: u32) -> Result<&[Descriptor]> {
        let found = self.by_id.get(&id).map(Vec::as_slice);
        found.ok_or_else(|| {
            Error::new(
                ErrorKind::NotFound,
                format!("no descriptors have the id {id}"),
            )
        })
    }
}

impl FromIterator<(u32, Vec<Descriptor>)> for Movements {
    fn from_iter<I: IntoIterator<Item = (u32, Vec<Descriptor>)>>(movements: I) -> Self {
        Self {
            by_id: movements.into_iter().collect(),
            rounding: None,
        }
    }
}

/// A planned descriptor, and the memory that it accesses: the bounding ranges of its access
/// patterns.
pub(crate) struct BoundPlan {
    plan: Plan,
    pub(crate) binding: MoveBinding,
}

/// Descriptors that are bound to memory.
pub(crate) struct BoundDma {
    plans: Vec<BoundPlan>,
    node: String,
    bytes: u64,
    table: Arc<Variables>,
    /// For each descriptor the variables that it reads, and the variable that it writes.
    moved: Vec<(Vec<VariableId>, VariableId)>,
}

impl Kernel for BoundDma {
    fn run(&self, frame: &mut Frame<'_>) -> Result<()> {
        let memory = frame.context::<Memory>()?;
        self.plans
            .iter()
            .try_for_each(|BoundPlan { plan, binding }| {
                memory.movement(binding, |sources, target| plan.execute(sources, target))
            })
            .map_err(|error| error.at(Location::node(self.node.as_str())))
    }

    fn label(&self) -> Label<'_> {
        Label {
            node: &self.node,
            operator: "",
            backend: "dma",
            bytes: self.bytes,
        }
    }

    fn shapes(&self) -> String {
        let moved = self.moved.iter().map(|(read, written)| {
            let read = read.iter().map(|&id| Some(id));
            self.table.shapes(read, [Some(*written)])
        });
        moved.collect::<Vec<_>>().join("; ")
    }
}

/// The descriptors that a kernel runs.
pub(crate) fn descriptors<'a>(
    attributes: KernelAttributes<'_>,
    movements: &'a Movements,
) -> Result<&'a [Descriptor]> {
    let id = attributes.i32("id")?;
    let id = u32::try_from(id).map_err(|_| {
        Error::new(ErrorKind::InvalidProgram, "attribute 'id' is negative").found(id)
    })?;
    movements.find(id)
}

/// The variables that a kernel writes.
pub(crate) fn targets<'a>(
    attributes: KernelAttributes<'_>,
    movements: &'a Movements,
) -> Result<impl Iterator<Item = VariableId> + use<'a>> {
    let descriptors = descriptors(attributes, movements)?.iter();
    Ok(descriptors.map(|descriptor| descriptor.to.variable))
}

/// Checks descriptors and the ranges that they access; all problems together.
pub(crate) fn plans<'a>(
    descriptors: impl Iterator<Item = &'a Descriptor>,
    table: &Arc<Variables>,
    rounding: Option<&Arc<StochasticRounding>>,
) -> Result<Vec<BoundPlan>> {
    let mut errors = Vec::new();
    let mut plans = Vec::new();
    for (index, descriptor) in descriptors.enumerate() {
        match plan(descriptor, table, rounding) {
            Ok(plan) => plans.push(plan),
            Err(error) => {
                errors.push(error.at(Location::field(format!("descriptor {index}"))));
            }
        }
    }
    Error::from_all(errors).map_or(Ok(plans), Err)
}

fn plan(
    descriptor: &Descriptor,
    table: &Arc<Variables>,
    rounding: Option<&Arc<StochasticRounding>>,
) -> Result<BoundPlan> {
    descriptor.check(|id| table.variable(id).ok().map(|variable| variable.size))?;
    let plan = Plan::with_rounding(descriptor, rounding)?;
    let span = |range: &ByteRange| {
        table
            .span(range.variable)?
            .part(range.start, range.end)
            .ok_or_else(|| {
                Error::new(
                    ErrorKind::InvalidPackage,
                    "the access pattern leaves its variable",
                )
            })
    };
    let sources = plan
        .sources()
        .iter()
        .map(span)
        .collect::<Result<Vec<_>>>()?;
    let binding = MoveBinding::new(table, sources, span(&plan.target())?)?;
    Ok(BoundPlan { plan, binding })
}

fn bind(site: &Site<'_>) -> Result<Box<dyn Kernel>> {
    let attributes = site.attributes();
    let node = attributes.string("node")?;
    let movements = site.service::<Movements>()?;
    let table: Arc<Variables> = site.service()?;
    let descriptors = descriptors(attributes, &movements)?;
    let bound = bound(descriptors.iter(), node, table, &movements);
    Ok(Box::new(
        bound.map_err(|error| error.at(Location::node(node)))?,
    ))
}

/// The kernel that runs descriptors.
pub(crate) fn bound<'a>(
    descriptors: impl Iterator<Item = &'a Descriptor> + Clone,
    node: &str,
    table: Arc<Variables>,
    movements: &Movements,
) -> Result<BoundDma> {
    let plans = plans(descriptors.clone(), &table, movements.rounding.as_ref())?;
    let written = descriptors.clone().map(Descriptor::bytes_written);
    let bytes = written.fold(0, u64::saturating_add);
    let moved = descriptors.map(|descriptor| {
        let read = descriptor.from.iter().map(|access| access.variable);
        (read.collect(), descriptor.to.variable)
    });
    Ok(BoundDma {
        plans,
        node: node.to_owned(),
        bytes,
        moved: moved.collect(),
        table,
    })
}
