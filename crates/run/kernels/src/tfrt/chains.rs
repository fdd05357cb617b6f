//! Order between kernels.

use tenon_executor::{Chain, KernelDef, Rest, Value, kernel};

pub(super) fn kernels() -> Vec<KernelDef> {
    vec![
        kernel("tfrt.new.chain", || Chain).doc("A chain that waits for nothing."),
        kernel("tfrt.merge.chains", |_: Rest<'_>| Chain)
            .doc("A chain behind all operands, of any types."),
        kernel("tfrt.alias.value", |_: Chain, value: Value| value)
            .doc("The value, available behind the chain."),
    ]
}
