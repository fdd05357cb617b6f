//! Function calls and conditional calls.

use tenon_base::Result;
use tenon_executor::{
    Frame, FunctionHandle, Kernel, KernelDef, Request, RestOperands, Signature, Value, kernel,
};

pub(super) fn kernels() -> Vec<KernelDef> {
    let case = Signature {
        operands: vec!["i32"],
        variadic: true,
        variadic_results: true,
        ..Signature::default()
    };
    vec![
        kernel("tfrt.call", call).doc("Calls the function with the operands."),
        kernel("tfrt.if", choose)
            .doc("Calls the first region when the condition holds, else the second."),
        kernel("tfrt.cond", choose)
            .doc("Calls one function when the condition holds, else the other."),
        KernelDef::new("tfrt.case", case, |_| Ok(Box::new(Case)))
            .doc("Calls the function at that index; the last one for an index out of range."),
    ]
}

fn call(arguments: RestOperands<'_>, callee: FunctionHandle, request: &Request) -> Vec<Value> {
    callee.execute(request, arguments.iter().cloned().collect())
}

fn choose(
    condition: bool,
    arguments: RestOperands<'_>,
    then: FunctionHandle,
    otherwise: FunctionHandle,
    request: &Request,
) -> Vec<Value> {
    let callee = if condition { then } else { otherwise };
    callee.execute(request, arguments.iter().cloned().collect())
}

/// `tfrt.case`, with any number of functions.
struct Case;

impl Kernel for Case {
    fn run(&self, frame: &mut Frame<'_>) -> Result<()> {
        let index: i32 = frame.read(0)?;
        let last = frame.functions().saturating_sub(1);
        let branch = usize::try_from(index).map_or(last, |index| index.min(last));
        let arguments = (1..frame.operands()).map(|operand| frame.operand(operand).clone());
        let results = frame
            .function(branch)?
            .execute(frame.request(), arguments.collect());
        for (index, value) in results.into_iter().enumerate() {
            frame.set(index, value);
        }
        Ok(())
    }
}
