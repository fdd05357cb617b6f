//! What a Rust backend made of a subgraph, as it goes out.

use super::Outgoing;
use crate::OptimisationViews;
use std::sync::Arc;
use tenon_backend_abi as abi;

/// The four lists as structs, with all that they point to.
#[repr(C)]
pub(crate) struct ViewsOut {
    /// First, so that a pointer to it is one to the whole.
    pub views: abi::Views,
    substitutions: Box<[abi::Substitution]>,
    substitution_list: Box<[*const abi::Substitution]>,
    failed: Box<[abi::FailedPart]>,
    failed_list: Box<[*const abi::FailedPart]>,
    // Borrows from `source`, and is dropped before it.
    outgoing: Outgoing<'static>,
    _source: Arc<(OptimisationViews, Vec<String>)>,
}

impl ViewsOut {
    /// In a box, where it stays.
    pub fn new(views: OptimisationViews, release: abi::Release<abi::Views>) -> Box<Self> {
        let reasons: Vec<String> = views
            .failed
            .iter()
            .map(|part| part.refusal.to_string())
            .collect();
        let source = Arc::new((views, reasons));
        // SAFETY: what is shared is kept beside what borrows from it, and dropped after it.
        let (views, reasons) = unsafe { &*Arc::as_ptr(&source) };
        let mut outgoing = Outgoing::default();
        let substitutions: Box<[_]> = views
            .substitutions
            .iter()
            .map(|part| abi::Substitution {
                size: size_of::<abi::Substitution>(),
                nodes: outgoing.ids(part.nodes.iter().map(|id| id.0)),
                inputs: outgoing.ids(part.inputs.iter().map(|id| id.0)),
                outputs: outgoing.ids(part.outputs.iter().map(|id| id.0)),
                replacement: outgoing.graph(&part.replacement),
            })
            .collect();
        let failed: Box<[_]> = views
            .failed
            .iter()
            .zip(reasons)
            .map(|(part, reason)| abi::FailedPart {
                size: size_of::<abi::FailedPart>(),
                nodes: outgoing.ids(part.nodes.iter().map(|id| id.0)),
                reason: abi::Text::of(reason),
            })
            .collect();
        let substitution_list: Box<[_]> =
            substitutions.iter().map(|part| &raw const *part).collect();
        let failed_list: Box<[_]> = failed.iter().map(|part| &raw const *part).collect();
        let told = abi::Views {
            size: size_of::<abi::Views>(),
            substitution_count: substitutions.len(),
            substitutions: substitution_list.as_ptr(),
            failed_count: failed.len(),
            failed: failed_list.as_ptr(),
            untouched: outgoing.ids(views.untouched.iter().map(|id| id.0)),
            deleted: outgoing.ids(views.deleted.iter().map(|id| id.0)),
            release,
        };
        Box::new(Self {
            views: told,
            substitutions,
            substitution_list,
            failed,
            failed_list,
            outgoing,
            _source: source,
        })
    }
}
