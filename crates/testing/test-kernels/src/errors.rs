//! Kernels that fail or cancel the request.

use crate::failed;
use tenon_base::Result;
use tenon_executor::{Chain, Frame, Kernel, KernelDef, Request, Signature, Value, kernel};

const BAD: &str = "something bad happened";

pub(crate) fn kernels() -> Vec<KernelDef> {
    let two = Signature {
        results: vec!["i32", "i32"],
        ..Signature::default()
    };
    vec![
        kernel("tfrt_test.fail", || -> Result<i32> { Err(failed(BAD)) }).doc("An error."),
        KernelDef::new("tfrt_test.partial_fail", two, |_| Ok(Box::new(PartialFail)))
            .doc("1, and an error."),
        kernel("tfrt_test.error_chain", |_: Chain| -> Result<Chain> {
            Err(failed("error chain"))
        })
        .doc("An error in place of a chain."),
        kernel("tfrt_test.cancel", |_: Chain, request: &Request| {
            request.cancel();
            (0i32, Chain)
        })
        .doc("Cancels the request; returns 0 and the chain."),
    ]
}

struct PartialFail;

impl Kernel for PartialFail {
    fn run(&self, frame: &mut Frame<'_>) -> Result<()> {
        frame.set(0, Value::I32(1));
        Err(failed(BAD))
    }
}
