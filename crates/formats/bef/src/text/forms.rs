//! The custom forms of kernels (bef 4.1, 4.2, 4.3): one table for parser, printer and verifier.
//! Every kernel also has the generic form, which is printed if it does not match its row.

use crate::DType;
use std::collections::HashMap;
use std::sync::LazyLock;

pub(crate) const CHAIN: &str = "!tfrt.chain";
const TENSOR: &str = "!tfrt_tensor.tensor";
const SHAPE: &str = "!ts.shape";
const PARTIAL: &str = "!ts.partial_shape";

/// Types of operands or results.
pub(crate) type Types = &'static [&'static str];

/// The custom form of a kernel, after its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// `7`: the attribute `value`, of a type fixed by the name.
    Constant(DType),
    /// `1.0 : f32, 2.0 : f32`: the attributes `real` and `imaginary`.
    Complex(DType),
    /// `%a, %b`: operand and result types are fixed by the name.
    Fixed(Types, Types),
    /// `%a, %b 4 : i32`: as `Fixed`, and the value of the named attribute.
    Valued(Types, &'static str, Types),
    /// `%a, %b {..} : T, U`; the result type is fixed by the name.
    Variadic(&'static str),
    /// `@f(%a) : (T) -> U`; the reference is the named attribute.
    Call(&'static str),
    /// `%c @t @f (%a) : (T) -> U`.
    Cond,
    /// `%i [@f0, @f1] (%a) : (T) -> U`.
    Case,
    /// `%c @body(%a) parallel_iterations(1) : (T) -> U`.
    While,
    /// `%s to %e fixed %b @f(%x) : T`.
    ParallelCall,
    /// `%c, %a : (T) -> (U) { .. } else { .. }`.
    If,
    /// `%a : (T) -> (U) { .. }`.
    DoAsync,
    /// `%n, %a : T { .. }`.
    Repeat,
    /// `%s to %e fixed %b, %x : T { .. }`.
    ParallelFor,
    /// `"name"(%a : T) duration_secs = 1, max_count = 100, num_warmup_runs = 10 { .. }`.
    Benchmark,
}

/// Kernels and their forms. A name may contain sets of alternatives, `{i32,i64}`.
const FORMS: &[(&str, Form)] = &[
    ("tfrt.new.chain", Form::Fixed(&[], &[CHAIN])),
    ("tfrt.merge.chains", Form::Variadic(CHAIN)),
    ("tfrt.and.i1", Form::Fixed(&["i1", "i1"], &["i1"])),
    ("tfrt.{add,mul}.i32", Form::Fixed(&["i32", "i32"], &["i32"])),
    ("tfrt.{add,mul}.i64", Form::Fixed(&["i64", "i64"], &["i64"])),
    ("tfrt.add.f32", Form::Fixed(&["f32", "f32"], &["f32"])),
    ("tfrt.add.f64", Form::Fixed(&["f64", "f64"], &["f64"])),
    ("tfrt.equal.i32", Form::Fixed(&["i32", "i32"], &["i1"])),
    ("tfrt.equal.i64", Form::Fixed(&["i64", "i64"], &["i1"])),
    (
        "tfrt.div.i32",
        Form::Fixed(&["i32", "i32"], &["i32", "i32"]),
    ),
    (
        "tfrt.div.i64",
        Form::Fixed(&["i64", "i64"], &["i64", "i64"]),
    ),
    ("tfrt.print.i1", Form::Fixed(&["i1", CHAIN], &[CHAIN])),
    ("tfrt.print.i32", Form::Fixed(&["i32", CHAIN], &[CHAIN])),
    ("tfrt.print.i64", Form::Fixed(&["i64", CHAIN], &[CHAIN])),
    ("tfrt.print.f32", Form::Fixed(&["f32", CHAIN], &[CHAIN])),
    ("tfrt.print.f64", Form::Fixed(&["f64", CHAIN], &[CHAIN])),
    ("tfrt.constant.i1", Form::Constant(DType::I1)),
    ("tfrt.constant.i32", Form::Constant(DType::I32)),
    ("tfrt.constant.i64", Form::Constant(DType::I64)),
    ("tfrt.constant.ui32", Form::Constant(DType::UI32)),
    ("tfrt.constant.ui64", Form::Constant(DType::UI64)),
    ("tfrt.constant.bf16", Form::Constant(DType::BF16)),
    ("tfrt.constant.f16", Form::Constant(DType::F16)),
    ("tfrt.constant.f32", Form::Constant(DType::F32)),
    ("tfrt.constant.f64", Form::Constant(DType::F64)),
    ("tfrt.constant.complex64", Form::Complex(DType::F32)),
    ("tfrt.constant.complex128", Form::Complex(DType::F64)),
    ("tfrt.call", Form::Call("callee")),
    ("tfrt.once", Form::Call("function")),
    ("tfrt.cond", Form::Cond),
    ("tfrt.case", Form::Case),
    ("tfrt.while", Form::While),
    ("tfrt.if", Form::If),
    ("tfrt.repeat.i32", Form::Repeat),
    ("tfrt.parallel_for.i32", Form::ParallelFor),
    ("tfrt.parallel_call.i32", Form::ParallelCall),
    ("tfrt_test.count3.i32", Form::Fixed(&["i32"], &["i32"; 3])),
    ("tfrt_test.count3.i64", Form::Fixed(&["i64"], &["i64"; 3])),
    ("tfrt_test.do.async", Form::DoAsync),
    ("tfrt_test.benchmark", Form::Benchmark),
    ("tfrt_test.test_cost", Form::Variadic("i32")),
    ("ts.build_shape", Form::Valued(&[], "value", &[SHAPE])),
    (
        "ts.build_partial_shape",
        Form::Valued(&[], "value", &[PARTIAL]),
    ),
    (
        "ts.build_unranked_partial_shape",
        Form::Fixed(&[], &[PARTIAL]),
    ),
    ("ts.print_shape", Form::Fixed(&[SHAPE, CHAIN], &[CHAIN])),
    (
        "ts.print_partial_shape",
        Form::Fixed(&[PARTIAL, CHAIN], &[CHAIN]),
    ),
    ("ts.equal_shape", Form::Fixed(&[SHAPE, SHAPE], &["i1"])),
    ("ts.get_num_elements", Form::Fixed(&[SHAPE], &["i64"])),
    ("ts.get_dimension", Form::Fixed(&[SHAPE, "i32"], &["i64"])),
    (
        "ts.as_fixed_rank_shape.1",
        Form::Fixed(&[SHAPE], &["!ts.fixed_rank_shape.1"]),
    ),
    (
        "ts.print_fixed_rank_shape.1",
        Form::Fixed(&["!ts.fixed_rank_shape.1", CHAIN], &[CHAIN]),
    ),
    (
        "ts.as_fixed_rank_shape.2",
        Form::Fixed(&[SHAPE], &["!ts.fixed_rank_shape.2"]),
    ),
    (
        "ts.print_fixed_rank_shape.2",
        Form::Fixed(&["!ts.fixed_rank_shape.2", CHAIN], &[CHAIN]),
    ),
    (
        "ts.as_fixed_rank_shape.3",
        Form::Fixed(&[SHAPE], &["!ts.fixed_rank_shape.3"]),
    ),
    (
        "ts.print_fixed_rank_shape.3",
        Form::Fixed(&["!ts.fixed_rank_shape.3", CHAIN], &[CHAIN]),
    ),
    ("ts.to_shape", Form::Fixed(&[PARTIAL], &[SHAPE])),
    ("ts.to_partial_shape", Form::Fixed(&[SHAPE], &[PARTIAL])),
    (
        "tfrt_dht.create_uninitialized_tensor.{T}.{0,1,2,3,4,5}",
        Form::Valued(&[], "shape", &[TENSOR]),
    ),
    (
        "tfrt_dht.fill_tensor_with_constant.{T}",
        Form::Valued(&[TENSOR, CHAIN], "value", &[CHAIN]),
    ),
    (
        "tfrt_dht.set_tensor_with_constant_values.{T}",
        Form::Valued(&[TENSOR, CHAIN], "values", &[CHAIN]),
    ),
    (
        "tfrt_dht.print_tensor",
        Form::Fixed(&[TENSOR, CHAIN], &[CHAIN]),
    ),
    (
        "tfrt_dht.tensor_equal.{T}",
        Form::Fixed(&[TENSOR, TENSOR, CHAIN], &["i1", CHAIN]),
    ),
    (
        "coo.{convert_dht_to_coo,convert_coo_to_dht}.{i32,f32}.{0,1,2,3}",
        Form::Fixed(&[TENSOR, CHAIN], &[TENSOR, CHAIN]),
    ),
    (
        "coo.tensor_equal.{i32,f32}.{0,1,2,3}",
        Form::Fixed(&[TENSOR, TENSOR, CHAIN], &["i1", CHAIN]),
    ),
];

/// Expansion of `{T}`: the element types of host tensors.
const ELEMENTS: &str = "{ui8,ui32,ui64,i8,i32,i64,f32,f64,bool,complex64,complex128,f16,bf16}";

static BY_NAME: LazyLock<HashMap<String, Form>> = LazyLock::new(|| {
    let rows = FORMS.iter().flat_map(|(pattern, form)| {
        expand(&pattern.replace("{T}", ELEMENTS))
            .into_iter()
            .map(|name| (name, *form))
    });
    rows.collect()
});

/// Expands a pattern to its names.
fn expand(pattern: &str) -> Vec<String> {
    let Some((before, rest)) = pattern.split_once('{') else {
        return vec![pattern.to_owned()];
    };
    let (alternatives, behind) = rest.split_once('}').unwrap_or((rest, ""));
    let behind = expand(behind);
    let one = |alternative| {
        behind
            .iter()
            .map(move |end| format!("{before}{alternative}{end}"))
    };
    alternatives.split(',').flat_map(one).collect()
}

/// The custom form of a kernel, if it has one.
pub(crate) fn form(kernel: &str) -> Option<Form> {
    BY_NAME.get(kernel).copied()
}

/// The known dialects; unregistered operations of other dialects are refused.
const DIALECTS: &[&str] = &[
    "builtin",
    "coo",
    "corert",
    "func",
    "tenon",
    "tfrt",
    "tfrt_dht",
    "tfrt_sht",
    "tfrt_tensor",
    "tfrt_test",
    "ts",
];

/// Whether the operation `name` is of a known dialect.
pub(crate) fn is_known_dialect(name: &str) -> bool {
    name.split_once('.')
        .is_some_and(|(dialect, _)| DIALECTS.contains(&dialect))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_expand_to_their_names() {
        assert_eq!(
            expand("a.{b,c}.{1,2}"),
            ["a.b.1", "a.b.2", "a.c.1", "a.c.2"]
        );
        let set = form("tfrt_dht.create_uninitialized_tensor.bf16.5");
        assert_eq!(set, Some(Form::Valued(&[], "shape", &[TENSOR])));
        assert_eq!(form("tfrt_dht.create_uninitialized_tensor.bf16.6"), None);
        assert!(form("coo.tensor_equal.i32.0").is_some());
        // No name occurs in two rows.
        let all: usize = FORMS
            .iter()
            .map(|(pattern, _)| expand(&pattern.replace("{T}", ELEMENTS)).len())
            .sum();
        assert_eq!(all, BY_NAME.len());
    }

    #[test]
    fn dialects_are_matched_by_the_whole_namespace() {
        assert!(is_known_dialect("tfrt_test.anything"));
        assert!(!is_known_dialect("tfrt_tests.anything"));
        assert!(!is_known_dialect("tfrt"));
        assert!(!is_known_dialect("vt.add"));
    }
}
