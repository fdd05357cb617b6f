//! The `tfrt` dialect: scalars, printing, chains, calls and loops (bef 2.8, 4.1).

mod calls;
mod chains;
mod loops;
mod once;
mod parallel;
mod pending;
mod printing;
mod scalars;

use tenon_executor::KernelDef;

/// Its kernels.
pub fn library() -> Vec<KernelDef> {
    let families = [
        scalars::kernels(),
        printing::kernels(),
        chains::kernels(),
        calls::kernels(),
        loops::kernels(),
        once::kernels(),
        parallel::kernels(),
    ];
    families.into_iter().flatten().collect()
}
