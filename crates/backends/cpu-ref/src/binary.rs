//! Elementwise operators of several inputs, with NumPy's broadcasting.

use crate::activation::sigmoid;
use crate::elements::{Elements, is_numeric};
use crate::kernel::{
    BuildError, BuildKernel, Kernel, Node, floats, integers, numeric, scratch, unsupported_type,
    unsupported_value,
};
use crate::loop_nest::{LoopNest, broadcast, for_each_chunk};
use crate::number::{Number, WidenedArithmetic};
use tenon_base::Result;
use tenon_tensor::{DataType, Element};

pub(crate) static KERNELS: &[(&str, BuildKernel)] = &[
    ("Add", |node| arithmetic(node, Arithmetic::Add)),
    ("Sub", |node| arithmetic(node, Arithmetic::Sub)),
    ("Mul", |node| arithmetic(node, Arithmetic::Mul)),
    ("Div", |node| arithmetic(node, Arithmetic::Div)),
    ("PRelu", |node| arithmetic(node, Arithmetic::PRelu)),
    ("SwiGLU", swiglu),
    ("Mod", |node| {
        let fmod = node.attributes.flag("fmod", false)?;
        arithmetic(
            node,
            if fmod {
                Arithmetic::Remainder
            } else {
                Arithmetic::Mod
            },
        )
    }),
    ("Pow", pow),
    ("Min", |node| extreme(node, Arithmetic::Min)),
    ("Max", |node| extreme(node, Arithmetic::Max)),
    ("Sum", |node| total(node, 1.0)),
    ("Mean", |node| {
        total(node, 1.0 / node.inputs.len().max(1) as f64)
    }),
    ("Equal", |node| comparison(node, Comparison::Equal)),
    ("Greater", |node| comparison(node, Comparison::Greater)),
    ("GreaterOrEqual", |node| {
        comparison(node, Comparison::GreaterOrEqual)
    }),
    ("Less", |node| comparison(node, Comparison::Less)),
    ("LessOrEqual", |node| {
        comparison(node, Comparison::LessOrEqual)
    }),
    ("And", |node| logic(node, |a, b| a & b)),
    ("Or", |node| logic(node, |a, b| a | b)),
    ("Xor", |node| logic(node, |a, b| a ^ b)),
    ("BitwiseAnd", |node| bits(node, |a, b| a & b)),
    ("BitwiseOr", |node| bits(node, |a, b| a | b)),
    ("BitwiseXor", |node| bits(node, |a, b| a ^ b)),
    ("BitShift", shift),
];

#[derive(Debug, Clone, Copy)]
enum Arithmetic {
    Add,
    Sub,
    Mul,
    Div,
    Mod,
    Remainder,
    Min,
    Max,
    PRelu,
}

impl Arithmetic {
    fn function<W: WidenedArithmetic>(self) -> fn(W, W) -> W {
        match self {
            Arithmetic::Add => W::plus,
            Arithmetic::Sub => W::minus,
            Arithmetic::Mul => W::times,
            Arithmetic::Div => W::divided_by,
            Arithmetic::Mod => W::modulo,
            Arithmetic::Remainder => W::remainder,
            Arithmetic::Min => W::nan_min,
            Arithmetic::Max => W::nan_max,
            Arithmetic::PRelu => |x, slope| if x < W::ZERO { x.times(slope) } else { x },
        }
    }
}

#[derive(Debug, Clone, Copy)]
enum Comparison {
    Equal,
    Greater,
    GreaterOrEqual,
    Less,
    LessOrEqual,
}

impl Comparison {
    fn function<T: PartialOrd>(self) -> fn(&T, &T) -> bool {
        match self {
            Comparison::Equal => T::eq,
            Comparison::Greater => T::gt,
            Comparison::GreaterOrEqual => T::ge,
            Comparison::Less => T::lt,
            Comparison::LessOrEqual => T::le,
        }
    }
}

/// Loops over the output with each of `inputs`.
fn nest<const N: usize>(node: &Node<'_>, inputs: [usize; N]) -> Result<LoopNest<N>> {
    let out = node.output(0)?.shape();
    let mut all = Vec::with_capacity(N);
    for index in inputs {
        all.push(broadcast(node.shape(index)?, out)?);
    }
    Ok(LoopNest::new(out, std::array::from_fn(|n| &*all[n])))
}

/// A kernel that applies `apply` to each pair of elements.
fn zip<A: Element, B: Element, C: Element>(
    node: &Node<'_>,
    apply: impl Fn(A, B) -> C + Send + Sync + 'static,
) -> Result<Kernel, BuildError> {
    let nest = nest(node, [0, 1])?;
    Ok(Kernel::new(move |operands| {
        let (inputs, mut outputs) = operands.split();
        let (a, b) = (inputs.slice::<A>(0)?, inputs.slice::<B>(1)?);
        for_each_chunk(outputs.slice::<C>(0)?, |first, mut to| {
            nest.for_each_run(first, to.len(), |[x, y], strides, count| {
                let (run, rest) = std::mem::take(&mut to).split_at_mut(count);
                to = rest;
                // The innermost strides are those of contiguous or of broadcast elements.
                match strides {
                    [0, 0] => run.fill(apply(a[x], b[y])),
                    [0, _] => run
                        .iter_mut()
                        .zip(&b[y..])
                        .for_each(|(to, &b)| *to = apply(a[x], b)),
                    [_, 0] => run
                        .iter_mut()
                        .zip(&a[x..])
                        .for_each(|(to, &a)| *to = apply(a, b[y])),
                    _ => {
                        for ((to, &a), &b) in run.iter_mut().zip(&a[x..]).zip(&b[y..]) {
                            *to = apply(a, b);
                        }
                    }
                }
            });
        });
        Ok(())
    }))
}

fn arithmetic(node: &Node<'_>, operation: Arithmetic) -> Result<Kernel, BuildError> {
    numeric!(node.dtype(0)?, 0, T => {
        let apply = operation.function::<<T as Number>::Widened>();
        zip(node, move |a: T, b: T| T::narrow(apply(a.widen(), b.widen())))
    })
}

/// The exponent may have another type; integer powers of integers are exact.
fn pow(node: &Node<'_>) -> Result<Kernel, BuildError> {
    let exponents = node.dtype(1)?;
    if !is_numeric(exponents) || exponents == DataType::Bool || exponents.bits() < 8 {
        return Err(unsupported_type(1, exponents));
    }
    let nest = nest(node, [0, 1])?;
    // Exponents are read by dynamic type, so that it is not compiled for each pair of types.
    numeric!(node.dtype(0)?, 0, T => Ok(Kernel::new(move |operands| {
        let (inputs, mut outputs) = operands.split();
        let (x, y) = (inputs.slice::<T>(0)?, Elements::new(&inputs, 1, exponents)?);
        for_each_chunk(outputs.slice::<T>(0)?, |first, mut to| {
            nest.for_each_run(first, to.len(), |[mut a, mut b], strides, count| {
                let (run, rest) = std::mem::take(&mut to).split_at_mut(count);
                to = rest;
                for to in run {
                    *to = T::narrow(x[a].widen().power(y.at(b)));
                    a = a.wrapping_add_signed(strides[0]);
                    b = b.wrapping_add_signed(strides[1]);
                }
            });
        });
        Ok(())
    })))
}

fn comparison(node: &Node<'_>, comparison: Comparison) -> Result<Kernel, BuildError> {
    if node.dtype(0)? == DataType::Bool {
        let compare = comparison.function::<bool>();
        return zip(node, move |a: u8, b: u8| {
            u8::from(compare(&(a != 0), &(b != 0)))
        });
    }
    numeric!(node.dtype(0)?, 0, T => {
        let compare = comparison.function::<T>();
        zip(node, move |a: T, b: T| u8::from(compare(&a, &b)))
    })
}

fn logic(node: &Node<'_>, apply: fn(bool, bool) -> bool) -> Result<Kernel, BuildError> {
    match node.dtype(0)? {
        DataType::Bool => zip(node, move |a: u8, b: u8| u8::from(apply(a != 0, b != 0))),
        found => Err(unsupported_type(0, found)),
    }
}

fn bits(node: &Node<'_>, apply: fn(i128, i128) -> i128) -> Result<Kernel, BuildError> {
    integers!(node.dtype(0)?, 0, T => {
        zip(node, move |a: T, b: T| T::narrow(apply(a.widen(), b.widen())))
    })
}

/// SwiGLU: A sigmoid(alpha A) times B.
fn swiglu(node: &Node<'_>) -> Result<Kernel, BuildError> {
    let alpha = f64::from(node.attributes.float("alpha", 1.0)?);
    floats!(node.dtype(0)?, 0, T => zip(node, move |a: T, b: T| {
        let (a, b) = (a.to_f64(), b.to_f64());
        T::from_f64(a * sigmoid(alpha * a) * b)
    }))
}

/// Shifts by a negative amount, or by at least the width of the type, give 0; the sign when shifting
/// right.
fn shift(node: &Node<'_>) -> Result<Kernel, BuildError> {
    let left = match node.attributes.string("direction", "")? {
        "LEFT" => true,
        "RIGHT" => false,
        found => return Err(unsupported_value("direction", found)),
    };
    let width = node.dtype(0)?.bits() as i128;
    integers!(node.dtype(0)?, 0, T => zip(node, move |x: T, y: T| {
        let amount = y.widen();
        T::narrow(match (left, (0..width).contains(&amount)) {
            (true, true) => x.widen() << amount,
            (true, false) => 0,
            (false, true) => x.widen() >> amount,
            (false, false) => x.widen() >> width,
        })
    }))
}

/// Loops over the output with each input.
fn nests(node: &Node<'_>) -> Result<Vec<LoopNest<1>>> {
    (0..node.inputs.len())
        .map(|index| nest(node, [index]))
        .collect()
}

/// Calls `body` with each element of `to` and that of `from` which is broadcast to it.
fn accumulate<A: Send, B: Element>(
    nest: &LoopNest<1>,
    to: &mut [A],
    from: &[B],
    body: impl Fn(&mut A, B) + Sync,
) {
    for_each_chunk(to, |first, mut to| {
        nest.for_each_run(first, to.len(), |[x], [stride], count| {
            let (run, rest) = std::mem::take(&mut to).split_at_mut(count);
            to = rest;
            if stride == 0 {
                run.iter_mut().for_each(|to| body(to, from[x]));
            } else {
                run.iter_mut()
                    .zip(&from[x..])
                    .for_each(|(to, &from)| body(to, from));
            }
        });
    });
}

/// The minimum or maximum of any number of inputs.
fn extreme(node: &Node<'_>, operation: Arithmetic) -> Result<Kernel, BuildError> {
    let nests = nests(node)?;
    numeric!(node.dtype(0)?, 0, T => {
        let apply = operation.function::<<T as Number>::Widened>();
        Ok(Kernel::new(move |operands| {
            let (inputs, mut outputs) = operands.split();
            let to = outputs.slice::<T>(0)?;
            for (index, nest) in nests.iter().enumerate() {
                let from = inputs.slice::<T>(index)?;
                if index == 0 {
                    accumulate(nest, to, from, |to, from| *to = from);
                } else {
                    accumulate(nest, to, from, |to, from| {
                        *to = T::narrow(apply(to.widen(), from.widen()));
                    });
                }
            }
            Ok(())
        }))
    })
}

/// The sum of any number of inputs times `factor`, rounded once.
fn total(node: &Node<'_>, factor: f64) -> Result<Kernel, BuildError> {
    let nests = nests(node)?;
    floats!(node.dtype(0)?, 0, T => Kernel::new(move |operands| {
        let (inputs, mut outputs) = operands.split();
        let to = outputs.slice::<T>(0)?;
        let sums = scratch::<f64>(&mut outputs, to.len())?;
        sums.fill(0.0);
        for (index, nest) in nests.iter().enumerate() {
            let from = inputs.slice::<T>(index)?;
            accumulate(nest, sums, from, |sum, from| *sum += from.to_f64());
        }
        to.iter_mut().zip(sums).for_each(|(to, sum)| *to = T::from_f64(*sum * factor));
        Ok(())
    })
    .with_scratch(node.output(0)?.elements()))
}
