//! The placement of tensors in memory of backends.

use crate::variables::Span;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tenon_backend::{
    Backend, EdgeStrategy, HandleFactory, MemorySource, common_source, edge_strategy,
    preferred_factory,
};
use tenon_base::{Error, ErrorKind, Result};
use tenon_tensor::TensorType;

/// The tensors of a program that are in memory of backends: a service of its kernels, which request
/// placements when they are bound. Each execution allocates the tensors separately.
#[derive(Default)]
pub struct TensorPlacements(Mutex<PlacementTable>);

#[derive(Default)]
struct PlacementTable {
    placements: Vec<Arc<TensorPlacement>>,
    by_span: HashMap<Span, Vec<usize>>,
}

/// A tensor in memory of a backend, in placement of a span of plain memory.
pub(crate) struct TensorPlacement {
    pub span: Span,
    pub ty: TensorType,
    pub backend: Arc<dyn Backend>,
    pub factory: HandleFactory,
    pub origin: Origin,
}

/// The memory of a tensor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Origin {
    /// Memory allocated by the backend: elements are copied.
    Allocated,
    /// Imported plain memory of its span.
    Plain,
    /// Imported memory of the tensor at a position, which exports it as this source.
    Tensor(usize, MemorySource),
}

impl TensorPlacements {
    /// The placement of a tensor of a workload of `backend`, whose preferences are `factories`: a
    /// tensor that another backend has in compatible memory, one imported from memory that another
    /// backend exports, one imported from plain memory, or one allocated by the backend (facts,
    /// armnn.md 2, step 12).
    pub(crate) fn of(
        &self,
        backend: &Arc<dyn Backend>,
        factories: &[HandleFactory],
        span: Span,
        ty: &TensorType,
    ) -> Result<usize> {
        let Some(factory) = preferred_factory(factories) else {
            let text = format!(
                "tensors cannot pass between plain memory and backend {}",
                backend.id()
            );
            return Err(Error::new(ErrorKind::Unsupported, text));
        };
        let mut all = self.lock();
        let PlacementTable {
            placements,
            by_span,
        } = &mut *all;
        let known = by_span.entry(span).or_default();
        let alike = |placement: &TensorPlacement| {
            placement.ty == *ty
                || (!placement.factory.padding && placement.ty.dtype() == ty.dtype())
        };
        let mut origin = match edge_strategy(&[], factories) {
            Some(EdgeStrategy::Export) => Origin::Plain,
            _ => Origin::Allocated,
        };
        for &position in &*known {
            let placement = &placements[position];
            if !alike(placement) {
                continue;
            }
            match edge_strategy(std::slice::from_ref(&placement.factory), factories) {
                Some(EdgeStrategy::Direct) => return Ok(position),
                Some(EdgeStrategy::Export) if !matches!(origin, Origin::Tensor(..)) => {
                    let source = common_source(&placement.factory, factory);
                    origin = source.map_or(origin, |source| Origin::Tensor(position, source));
                }
                _ => {}
            }
        }
        known.push(placements.len());
        placements.push(Arc::new(TensorPlacement {
            span,
            ty: ty.clone(),
            backend: backend.clone(),
            factory: factory.clone(),
            origin,
        }));
        Ok(placements.len() - 1)
    }

    /// The placements from position `first` on.
    pub(crate) fn starting_at(&self, first: usize) -> Vec<Arc<TensorPlacement>> {
        self.lock()
            .placements
            .get(first..)
            .unwrap_or_default()
            .to_vec()
    }

    fn lock(&self) -> MutexGuard<'_, PlacementTable> {
        // A holder that panicked leaves complete entries.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
