//! `CpuRef` as a loadable backend: any backend in Rust becomes a library by one line.

tenon_backend::export_backend!(c"CpuRef", tenon_cpu_ref::CpuRef);
