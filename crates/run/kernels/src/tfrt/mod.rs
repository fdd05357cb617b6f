//! The `tfrt` dialect: numbers, printing, order, calls and loops (facts 2.8, 4.1).

mod calls;
mod chains;
mod loops;
mod numbers;
mod once;
mod parallel;
mod pending;
mod printing;

use tenon_executor::KernelDef;

/// Its kernels.
pub fn library() -> Vec<KernelDef> {
    let families = [
        numbers::kernels(),
        printing::kernels(),
        chains::kernels(),
        calls::kernels(),
        loops::kernels(),
        once::kernels(),
        parallel::kernels(),
    ];
    families.into_iter().flatten().collect()
}
