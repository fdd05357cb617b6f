//! Elementwise (unary) operators.

use crate::kernel::{
    BuildError, BuildKernel, Kernel, Node, floats, integers, numeric, unsupported_type,
};
use crate::loop_nest::{CHECKPOINT_ELEMENTS, for_each_chunk};
use crate::number::{Number, WidenedArithmetic};
use tenon_backend::OperandPair;
use tenon_base::{Result, stop};
use tenon_tensor::{DataType, Element};

pub(crate) static KERNELS: &[(&str, BuildKernel)] = &[
    ("Abs", |node| {
        float_or_integer(
            node,
            WidenedArithmetic::absolute,
            WidenedArithmetic::absolute,
        )
    }),
    ("Neg", |node| float_or_integer(node, |x| -x, |x| -x)),
    ("Sign", |node| {
        float_or_integer(node, WidenedArithmetic::signum, WidenedArithmetic::signum)
    }),
    ("Reciprocal", |node| float(node, f64::recip)),
    ("Sqrt", |node| float(node, f64::sqrt)),
    ("Exp", |node| float(node, f64::exp)),
    ("Log", |node| float(node, f64::ln)),
    ("Ceil", |node| float(node, f64::ceil)),
    ("Floor", |node| float(node, f64::floor)),
    ("Round", |node| float(node, f64::round_ties_even)),
    ("Erf", |node| float(node, libm::erf)),
    ("Sin", |node| float(node, f64::sin)),
    ("Cos", |node| float(node, f64::cos)),
    ("Tan", |node| float(node, f64::tan)),
    ("Asin", |node| float(node, f64::asin)),
    ("Acos", |node| float(node, f64::acos)),
    ("Atan", |node| float(node, f64::atan)),
    ("Sinh", |node| float(node, f64::sinh)),
    ("Cosh", |node| float(node, f64::cosh)),
    ("Asinh", |node| float(node, f64::asinh)),
    ("Acosh", |node| float(node, f64::acosh)),
    ("Atanh", |node| float(node, f64::atanh)),
    ("Not", not),
    ("BitwiseNot", bitwise_not),
    ("IsInf", is_inf),
    ("IsNaN", is_nan),
];

/// A kernel that applies `apply` to each element, in place where allowed.
pub(crate) fn map<T: Element>(apply: impl Fn(T) -> T + Send + Sync + 'static) -> Kernel {
    Kernel::new(move |operands| {
        match operands.pair::<T>(0, 0)? {
            OperandPair::InPlace(values) => for_each_chunk(values, |_, values| {
                for values in values.chunks_mut(CHECKPOINT_ELEMENTS) {
                    stop::checkpoint();
                    for value in values {
                        *value = apply(*value);
                    }
                }
            }),
            OperandPair::Apart(from, to) => transform(from, to, &apply),
        }
        Ok(())
    })
    .in_place()
}

/// Applies `apply` to each element of `from`.
pub(crate) fn transform<A: Element, B: Element>(
    from: &[A],
    to: &mut [B],
    apply: impl Fn(A) -> B + Sync,
) {
    for_each_chunk(to, |first, to| {
        for (index, to) in to.chunks_mut(CHECKPOINT_ELEMENTS).enumerate() {
            stop::checkpoint();
            let from = &from[first + index * CHECKPOINT_ELEMENTS..];
            to.iter_mut()
                .zip(from)
                .for_each(|(to, &from)| *to = apply(from));
        }
    });
}

/// A kernel that computes a floating-point function in f64.
pub(crate) fn float(
    node: &Node<'_>,
    apply: impl Fn(f64) -> f64 + Send + Sync + 'static,
) -> Result<Kernel, BuildError> {
    // Boxed, so that the function is not compiled for each type.
    let apply: Box<dyn Fn(f64) -> f64 + Send + Sync> = Box::new(apply);
    floats!(node.dtype(0)?, 0, T => Ok(map(move |x: T| T::from_f64(apply(x.to_f64())))))
}

/// A kernel that computes the same function in f64 and in integers.
pub(crate) fn float_or_integer(
    node: &Node<'_>,
    real: impl Fn(f64) -> f64 + Send + Sync + 'static,
    integer: impl Fn(i128) -> i128 + Send + Sync + 'static,
) -> Result<Kernel, BuildError> {
    if node.dtype(0)?.is_float() {
        return float(node, real);
    }
    integers!(node.dtype(0)?, 0, T => Ok(map(move |x: T| T::narrow(integer(x.widen())))))
}

fn not(node: &Node<'_>) -> Result<Kernel, BuildError> {
    match node.dtype(0)? {
        DataType::Bool => Ok(map(|x: u8| (x == 0).into())),
        found => Err(unsupported_type(0, found)),
    }
}

fn bitwise_not(node: &Node<'_>) -> Result<Kernel, BuildError> {
    integers!(node.dtype(0)?, 0, T => Ok(map(|x: T| !x)))
}

/// A kernel that computes a predicate of each element.
fn test(
    node: &Node<'_>,
    predicate: impl Fn(f64) -> bool + Send + Sync + 'static,
) -> Result<Kernel, BuildError> {
    numeric!(node.dtype(0)?, 0, T => Ok(Kernel::new(move |operands| {
        let (inputs, mut outputs) = operands.split();
        let (from, to) = (inputs.slice::<T>(0)?, outputs.slice::<u8>(0)?);
        transform(from, to, |x| u8::from(predicate(x.to_f64())));
        Ok(())
    })))
}

fn is_inf(node: &Node<'_>) -> Result<Kernel, BuildError> {
    let negative = node.attributes.flag("detect_negative", true)?;
    let positive = node.attributes.flag("detect_positive", true)?;
    test(node, move |x| {
        x.is_infinite() && if x < 0.0 { negative } else { positive }
    })
}

fn is_nan(node: &Node<'_>) -> Result<Kernel, BuildError> {
    test(node, f64::is_nan)
}
