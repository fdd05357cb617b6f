//! The operators, one file a family.

use crate::OperatorDef;

/// All families; [`crate::operator::all`] walks them.
pub(crate) static FAMILIES: &[&[OperatorDef]] = &[];
