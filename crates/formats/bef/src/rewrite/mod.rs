//! Rewrites of Modules, the passes of `tenon opt`.

mod canonicalize;
mod inline;
mod tree;

use crate::Module;

/// Canonicalizes every function to a fixed point:
///
/// * `tfrt.merge.chains` has no duplicate operands and no `tfrt.new.chain`; with one operand it is
///   replaced by it, without operands by a `tfrt.new.chain`.
/// * `tfrt.if` with a constant condition is replaced by the selected region, `tfrt.cond` and
///   `tfrt.case` with a constant by a `tfrt.call` of the selected function.
/// * Unused kernels without side effects are removed: constants, new and merged chains, integer
///   arithmetic and comparisons that cannot fail, shapes.
///
/// In sync functions, whose results must be distinct registers, only the last rule applies. The
/// Module must be accepted by [`verify`](crate::verify) or
/// [`parse_for_rewriting`](crate::parse_for_rewriting) and remains so.
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

/// Inlines calls (`tfrt.call`) of small functions, callees first, also inside regions. Recursive,
/// native and sync functions are not inlined. The location of an inlined kernel is a call site.
/// Private functions without remaining references are removed.
///
/// A call starts when all its arguments are ready, a kernel when its own operands are: inlined
/// kernels may start earlier. The same Modules are accepted as by [`canonicalize`].
pub fn inline(module: &mut Module) {
    tree::rewrite(module, inline::forest);
}
