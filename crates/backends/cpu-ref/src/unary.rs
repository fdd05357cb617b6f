//! Elementwise (unary) operators.

use crate::chunks::{CHECKPOINT_ELEMENTS, for_each_chunk};
use crate::elementary::{acos, asin, erf, exp};
use crate::kernel::{
    BuildError, BuildKernel, Kernel, Node, floats, integers, numeric, unsupported_type,
};
use crate::loop_nest::BLOCK;
use crate::number::{Number, WidenedArithmetic};
use tenon_backend::OperandPair;
use tenon_base::{Result, stop, vectorized};
use tenon_tensor::{DataType, Element};

/// A kernel that computes a floating-point function in f64, which is inlined into its loop.
macro_rules! float {
    ($node:expr, |$x:ident| $result:expr) => {
        $crate::unary::map_reals(
            $node,
            #[inline(always)]
            move |$x: f64| $result,
        )
    };
}
pub(crate) use float;

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
    ("Reciprocal", |node| float!(node, |x| x.recip())),
    ("Sqrt", |node| float!(node, |x| x.sqrt())),
    ("Exp", |node| float!(node, |x| exp(x))),
    ("Log", |node| float!(node, |x| x.ln())),
    ("Ceil", |node| float!(node, |x| x.ceil())),
    ("Floor", |node| float!(node, |x| x.floor())),
    ("Round", |node| float!(node, |x| x.round_ties_even())),
    ("Erf", |node| float!(node, |x| erf(x))),
    ("Sin", |node| float!(node, |x| x.sin())),
    ("Cos", |node| float!(node, |x| x.cos())),
    ("Tan", |node| float!(node, |x| x.tan())),
    ("Asin", |node| float!(node, |x| asin(x))),
    ("Acos", |node| float!(node, |x| acos(x))),
    ("Atan", |node| float!(node, |x| x.atan())),
    ("Sinh", |node| float!(node, |x| x.sinh())),
    ("Cosh", |node| float!(node, |x| x.cosh())),
    // The `asinh` of std calls `hypot`, which programs link in a version of glibc 2.35.
    ("Asinh", |node| float!(node, |x| libm::asinh(x))),
    ("Acosh", |node| float!(node, |x| x.acosh())),
    ("Atanh", |node| float!(node, |x| x.atanh())),
    ("Not", not),
    ("BitwiseNot", bitwise_not),
    ("IsInf", is_inf),
    ("IsNaN", is_nan),
];

/// A kernel that applies `apply` to each element, in place where allowed.
pub(crate) fn map<T: Element>(apply: impl Fn(T) -> T + Send + Sync + 'static) -> Kernel {
    map_slices(move |from: Option<&[T]>, to| {
        vectorized!(match from {
            Some(from) => {
                for (to, &from) in to.iter_mut().zip(from) {
                    *to = apply(from);
                }
            }
            None => {
                for value in to {
                    *value = apply(*value);
                }
            }
        });
    })
}

/// A kernel that computes slices of elements: from the input, or in place.
fn map_slices<T: Element>(
    apply: impl Fn(Option<&[T]>, &mut [T]) + Send + Sync + 'static,
) -> Kernel {
    Kernel::new(move |operands| {
        let (from, to) = match operands.pair::<T>(0, 0)? {
            OperandPair::InPlace(values) => (None, values),
            OperandPair::Apart(from, to) => (Some(from), to),
        };
        for_each_chunk(to, |first, to| {
            for (index, to) in to.chunks_mut(CHECKPOINT_ELEMENTS).enumerate() {
                stop::checkpoint();
                let first = first + index * CHECKPOINT_ELEMENTS;
                let from = from.map(|from| &from[first..first + to.len()]);
                apply(from, to);
            }
        });
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
            vectorized!(for (to, &from) in to.iter_mut().zip(from) {
                *to = apply(from);
            });
        }
    });
}

/// Applies `apply` to each element of `from` in f64; the slices are equally long.
pub(crate) fn transform_reals<T: Number>(from: &[T], to: &mut [T], apply: impl Fn(f64) -> f64) {
    let mut reals = [0.0; BLOCK];
    for (from, to) in from.chunks(BLOCK).zip(to.chunks_mut(BLOCK)) {
        stop::checkpoint();
        let reals = &mut reals[..from.len()];
        T::to_reals(from, reals);
        vectorized!(for x in reals.iter_mut() {
            *x = apply(*x);
        });
        T::from_reals(reals, to);
    }
}

/// Replaces values by a function of them.
type ReplaceReals = dyn Fn(&mut [f64]) + Send + Sync;

/// The kernel of [`float!`].
pub(crate) fn map_reals(
    node: &Node<'_>,
    apply: impl Fn(f64) -> f64 + Send + Sync + 'static,
) -> Result<Kernel, BuildError> {
    // Boxed, so that the function is not compiled for each type.
    let apply: Box<ReplaceReals> = Box::new(move |values| {
        vectorized!(for value in values.iter_mut() {
            *value = apply(*value);
        });
    });
    floats!(node.dtype(0)?, 0, T => Ok(map_slices(move |from: Option<&[T]>, to| {
        let mut reals = [0.0; BLOCK];
        for (index, to) in to.chunks_mut(BLOCK).enumerate() {
            let reals = &mut reals[..to.len()];
            match from {
                Some(from) => T::to_reals(&from[index * BLOCK..][..to.len()], reals),
                None => T::to_reals(to, reals),
            }
            apply(reals);
            T::from_reals(reals, to);
        }
    })))
}

/// A kernel that computes the same function in f64 and in integers.
pub(crate) fn float_or_integer(
    node: &Node<'_>,
    real: impl Fn(f64) -> f64 + Send + Sync + 'static,
    integer: impl Fn(i128) -> i128 + Send + Sync + 'static,
) -> Result<Kernel, BuildError> {
    if node.dtype(0)?.is_float() {
        return map_reals(node, real);
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
