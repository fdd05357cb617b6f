//! Conversion of an optimised subgraph to C.

#![allow(
    unsafe_code,
    reason = "operands in raw memory and calls through the C interface"
)]

use super::CallArena;
use crate::OptimisationViews;
use std::sync::Arc;
use tenon_backend_abi as abi;

/// The four lists as C structs, with the memory they point to.
#[repr(C)]
pub(crate) struct ExportedViews {
    /// The first member: a pointer to it is a pointer to this struct.
    pub views: abi::Views,
    substitutions: Box<[abi::Substitution]>,
    substitution_list: Box<[*const abi::Substitution]>,
    failed: Box<[abi::FailedPart]>,
    failed_list: Box<[*const abi::FailedPart]>,
    // Borrows from `_source`, which is dropped after it (declaration order).
    arena: CallArena<'static>,
    _source: Arc<(OptimisationViews, Vec<String>)>,
}

impl ExportedViews {
    /// Boxed, since its structs point into each other's memory.
    pub fn new(views: OptimisationViews, release: abi::Release<abi::Views>) -> Box<Self> {
        let reasons: Vec<String> = views
            .failed
            .iter()
            .map(|part| part.refusal.to_string())
            .collect();
        let source = Arc::new((views, reasons));
        // SAFETY: the reference is valid while `source` lives. It ends up in fields of `Self`,
        // which are dropped before `_source`, and the `Arc` is never mutated.
        let (views, reasons) = unsafe { &*Arc::as_ptr(&source) };
        let mut arena = CallArena::default();
        let substitutions: Box<[_]> = views
            .substitutions
            .iter()
            .map(|part| abi::Substitution {
                size: size_of::<abi::Substitution>(),
                nodes: arena.ids(part.nodes.iter().map(|id| id.0)),
                inputs: arena.ids(part.inputs.iter().map(|id| id.0)),
                outputs: arena.ids(part.outputs.iter().map(|id| id.0)),
                replacement: arena.graph(&part.replacement),
            })
            .collect();
        let failed: Box<[_]> = views
            .failed
            .iter()
            .zip(reasons)
            .map(|(part, reason)| abi::FailedPart {
                size: size_of::<abi::FailedPart>(),
                nodes: arena.ids(part.nodes.iter().map(|id| id.0)),
                reason: abi::Text::of(reason),
            })
            .collect();
        let substitution_list: Box<[_]> =
            substitutions.iter().map(|part| &raw const *part).collect();
        let failed_list: Box<[_]> = failed.iter().map(|part| &raw const *part).collect();
        let raw = abi::Views {
            size: size_of::<abi::Views>(),
            substitution_count: substitutions.len(),
            substitutions: substitution_list.as_ptr(),
            failed_count: failed.len(),
            failed: failed_list.as_ptr(),
            untouched: arena.ids(views.untouched.iter().map(|id| id.0)),
            deleted: arena.ids(views.deleted.iter().map(|id| id.0)),
            release,
        };
        Box::new(Self {
            views: raw,
            substitutions,
            substitution_list,
            failed,
            failed_list,
            arena,
            _source: source,
        })
    }
}
