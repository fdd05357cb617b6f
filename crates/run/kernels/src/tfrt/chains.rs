//! Chains: ordering between kernels.

use tenon_executor::{Chain, KernelDef, RestOperands, Value, kernel};

pub(super) fn kernels() -> Vec<KernelDef> {
    vec![
        kernel("tfrt.new.chain", || Chain).doc("A chain without a predecessor."),
        kernel("tfrt.merge.chains", |_: RestOperands<'_>| Chain)
            .doc("A chain after all operands, of any types."),
        kernel("tfrt.alias.value", |_: Chain, value: Value| value)
            .doc("The value, available after the chain."),
    ]
}
