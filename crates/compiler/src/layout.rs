//! Layout.

use std::sync::Arc;
use tenon_backend::{Backend, CapabilityValue};

/// How images are best laid out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Preference {
    /// As the model has them: channels before rows.
    AsIs,
    /// Channels last.
    Nhwc,
}

/// What the first choice of backends prefers.
pub(crate) fn preference(backends: &[&Arc<dyn Backend>]) -> Preference {
    let nhwc = CapabilityValue::String("nhwc".into());
    let prefers = backends.first().is_some_and(|backend| {
        backend
            .capabilities()
            .iter()
            .any(|capability| capability.name == "PreferredLayout" && capability.value == nhwc)
    });
    if prefers {
        Preference::Nhwc
    } else {
        Preference::AsIs
    }
}
