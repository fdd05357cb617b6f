//! `CpuRef` as a loadable backend: one line exports a Rust backend as a library.

tenon_backend::export_backend!(c"CpuRef", tenon_cpu_ref::CpuRef);
