//! The kernels of host programs without a package.

use tenon_base::Result;
use tenon_executor::Registry;
use tenon_kernels::{host_library, tfrt};

/// A set of kernels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kernels {
    /// Arithmetic and control flow, shapes, and tensors of the host.
    All,
    /// The dialect `tfrt`: arithmetic and control flow.
    Basic,
    /// The kernels of `tfrt` for integers and control flow.
    Integers,
}

/// Parts of the names of kernels for types other than integers.
const OTHER_TYPES: [&str; 5] = [".f16", ".bf16", "f32", "f64", ".complex"];

/// A registry of these kernels.
pub fn kernels(which: Kernels) -> Result<Registry> {
    let mut registry = Registry::new();
    match which {
        Kernels::All => registry.register_all(host_library())?,
        Kernels::Basic => registry.register_all(tfrt::library())?,
        Kernels::Integers => {
            let integers = tfrt::library().into_iter().filter(|kernel| {
                let name = kernel.name();
                !OTHER_TYPES.iter().any(|other| name.contains(other))
            });
            registry.register_all(integers)?;
        }
    }
    Ok(registry)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sets_are_nested() {
        let known = |which, name| kernels(which).unwrap().find(name).is_some();
        for which in [Kernels::All, Kernels::Basic, Kernels::Integers] {
            assert!(known(which, "tfrt.add.i32") && known(which, "tfrt.while"));
            assert_eq!(known(which, "tfrt.add.f32"), which != Kernels::Integers);
            assert_eq!(known(which, "ts.print_shape"), which == Kernels::All);
        }
    }
}
