//! Rewrites of Modules: what `tenon opt` does with them.

mod canonicalize;
mod inline;
mod tree;

use crate::Module;

/// Simplifies every function, as long as anything changes:
///
/// * `tfrt.merge.chains` waits for each value once and for no `tfrt.new.chain`; one that waits for
///   a single chain is that chain, one that waits for nothing is a `tfrt.new.chain`.
/// * `tfrt.if` with a constant condition is the region it takes; `tfrt.cond` and `tfrt.case` with
///   a constant are a `tfrt.call` of the function they take.
/// * A kernel without effects that nobody uses is gone: constants, new and merged chains, integer
///   and comparing arithmetic that cannot fail, shapes that are built.
///
/// In sync functions, whose results must be their own, only the last rule is used. The Module must
/// be one that [`verify`](crate::verify) or [`parse_for_rewriting`](crate::parse_for_rewriting)
/// accepts; it stays one.
///
/// ```
/// let text = "func.func @f() -> i32 {
///   %0 = tfrt.constant.i32 7
///   %1 = tfrt.constant.i32 8
///   tfrt.return %0 : i32
/// }
/// ";
/// let mut module = tenon_bef::parse(text, "f.mlir").unwrap();
/// tenon_bef::canonicalize(&mut module);
/// assert_eq!(module.functions[0].kernels.len(), 1);
/// ```
pub fn canonicalize(module: &mut Module) {
    tree::rewrite(module, canonicalize::forest);
}

/// Puts the kernels of small functions in place of their calls (`tfrt.call`), callees first, also
/// inside of regions. Functions that call themselves, directly or by others, native and sync ones
/// stay called. What was inlined stands at both its places. Private functions that nothing refers
/// to any more are gone.
///
/// A call starts when all its arguments are there, a kernel when its own operands are: what was
/// inlined may start earlier. The Module must be as [`canonicalize`] wants it.
pub fn inline(module: &mut Module) {
    tree::rewrite(module, inline::forest);
}
