//! Random nodes: CpuAcc agrees with CpuRef, and neither panics.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tenon_cpu_acc::CpuAcc;
use tenon_cpu_ref::CpuRef;
use tenon_random_nodes::{Choices, RandomNode};

fuzz_target!(|bytes: &[u8]| {
    if let Some(node) = RandomNode::new(&mut Choices::new(bytes))
        && let Err(text) = node.compare(&CpuRef, &CpuAcc::new(), 2e-4)
    {
        panic!("{text}");
    }
});
