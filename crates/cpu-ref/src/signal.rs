//! Signals.

use crate::kernel::Build;

pub(crate) static KERNELS: &[(&str, Build)] = &[];
