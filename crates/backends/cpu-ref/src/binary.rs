//! Elementwise operators of several inputs, with NumPy's broadcasting.

use crate::chunks::for_each_chunk;
use crate::elementary::sigmoid;
use crate::elements::{Elements, is_numeric};
use crate::kernel::{
    BuildError, BuildKernel, Kernel, Node, floats, integers, numeric, scratch, unsupported_type,
    unsupported_value,
};
use crate::loop_nest::{BLOCK, LoopNest, broadcast};
use crate::number::{Number, WidenedArithmetic, read_widened};
use tenon_base::{Result, vectorized};
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

/// A function of two operands that replaces the first of them, in vectors.
macro_rules! in_vectors {
    (|$a:ident, $b:ident| $result:expr) => {
        |a, b| {
            vectorized!(for (a, &$b) in a.iter_mut().zip(b) {
                let $a = *a;
                *a = $result;
            });
        }
    };
}

impl Arithmetic {
    fn function<W: WidenedArithmetic>(self) -> fn(&mut [W], &[W]) {
        match self {
            Arithmetic::Add => in_vectors!(|a, b| a.plus(b)),
            Arithmetic::Sub => in_vectors!(|a, b| a.minus(b)),
            Arithmetic::Mul => in_vectors!(|a, b| a.times(b)),
            Arithmetic::Div => in_vectors!(|a, b| a.divided_by(b)),
            Arithmetic::Mod => in_vectors!(|a, b| a.modulo(b)),
            Arithmetic::Remainder => in_vectors!(|a, b| a.remainder(b)),
            Arithmetic::Min => in_vectors!(|a, b| a.nan_min(b)),
            Arithmetic::Max => in_vectors!(|a, b| a.nan_max(b)),
            Arithmetic::PRelu => {
                in_vectors!(|x, slope| if x < W::ZERO { x.times(slope) } else { x })
            }
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
    fn function<W: WidenedArithmetic>(self) -> fn(&[W], &[W], &mut [u8]) {
        macro_rules! compare {
            ($method:ident) => {
                |a, b, to| {
                    vectorized!(for ((to, a), b) in to.iter_mut().zip(a).zip(b) {
                        *to = a.$method(b).into();
                    });
                }
            };
        }
        match self {
            Comparison::Equal => compare!(eq),
            Comparison::Greater => compare!(gt),
            Comparison::GreaterOrEqual => compare!(ge),
            Comparison::Less => compare!(lt),
            Comparison::LessOrEqual => compare!(le),
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
                let run = to.split_off_mut(..count).unwrap_or_default();
                // The innermost strides are those of contiguous or of broadcast elements.
                vectorized!(match strides {
                    [0, 0] => run.fill(apply(a[x], b[y])),
                    [0, _] =>
                        for (to, &b) in run.iter_mut().zip(&b[y..]) {
                            *to = apply(a[x], b);
                        },
                    [_, 0] =>
                        for (to, &a) in run.iter_mut().zip(&a[x..]) {
                            *to = apply(a, b[y]);
                        },
                    _ => {
                        for ((to, &a), &b) in run.iter_mut().zip(&a[x..]).zip(&b[y..]) {
                            *to = apply(a, b);
                        }
                    }
                });
            });
        });
        Ok(())
    }))
}

/// A kernel that computes blocks of pairs of elements, both converted to the type of their arithmetic.
fn zip_widened<T: Number, C: Element>(
    node: &Node<'_>,
    compute: impl Fn(&mut [T::Widened], &mut [T::Widened], &mut [C]) + Send + Sync + 'static,
) -> Result<Kernel, BuildError> {
    let nest = nest(node, [0, 1])?;
    Ok(Kernel::new(move |operands| {
        let (inputs, mut outputs) = operands.split();
        let (a, b) = (inputs.slice::<T>(0)?, inputs.slice::<T>(1)?);
        for_each_chunk(outputs.slice::<C>(0)?, |first, mut to| {
            nest.for_each_run(first, to.len(), |at, strides, count| {
                let run = to.split_off_mut(..count).unwrap_or_default();
                let [mut x, mut y] = [[T::Widened::ZERO; BLOCK]; 2];
                for (nth, to) in run.chunks_mut(BLOCK).enumerate() {
                    let start =
                        |n: usize| at[n].wrapping_add_signed((nth * BLOCK) as isize * strides[n]);
                    let (x, y) = (&mut x[..to.len()], &mut y[..to.len()]);
                    read_widened(a, start(0), strides[0], x);
                    read_widened(b, start(1), strides[1], y);
                    compute(x, y, to);
                }
            });
        });
        Ok(())
    }))
}

fn arithmetic(node: &Node<'_>, operation: Arithmetic) -> Result<Kernel, BuildError> {
    numeric!(node.dtype(0)?, 0, T => {
        let apply = operation.function::<<T as Number>::Widened>();
        zip_widened::<T, T>(node, move |a, b, to| {
            apply(a, b);
            T::narrows(a, to);
        })
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
                let run = to.split_off_mut(..count).unwrap_or_default();
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
        let compare = comparison.function();
        return zip_widened::<u8, u8>(node, move |a, b, to| {
            // Any byte but 0 is true.
            let values = a.iter_mut().chain(b.iter_mut());
            values.for_each(|x| *x = (*x != 0).into());
            compare(a, b, to);
        });
    }
    numeric!(node.dtype(0)?, 0, T => {
        let compare = comparison.function();
        zip_widened::<T, u8>(node, move |a, b, to| compare(a, b, to))
    })
}

fn logic(
    node: &Node<'_>,
    apply: impl Fn(bool, bool) -> bool + Send + Sync + 'static,
) -> Result<Kernel, BuildError> {
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
        T::of_f64(a * sigmoid(alpha * a) * b)
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

/// Calls `body` with blocks of `to` and of the elements of `from` that are broadcast to it.
fn accumulate<A: Send, T: Number>(
    nest: &LoopNest<1>,
    to: &mut [A],
    from: &[T],
    body: impl Fn(&mut [A], &[T::Widened]) + Sync,
) {
    for_each_chunk(to, |first, mut to| {
        nest.for_each_run(first, to.len(), |[x], [stride], count| {
            let run = to.split_off_mut(..count).unwrap_or_default();
            let mut block = [T::Widened::ZERO; BLOCK];
            for (nth, to) in run.chunks_mut(BLOCK).enumerate() {
                let block = &mut block[..to.len()];
                let start = x.wrapping_add_signed((nth * BLOCK) as isize * stride);
                read_widened(from, start, stride, block);
                body(to, block);
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
                accumulate(nest, to, inputs.slice::<T>(index)?, |to, from| {
                    if index > 0 {
                        let mut values = [<T as Number>::Widened::ZERO; BLOCK];
                        let values = &mut values[..to.len()];
                        T::widens(to, values);
                        apply(values, from);
                        T::narrows(values, to);
                    } else {
                        T::narrows(from, to);
                    }
                });
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
            accumulate(nest, sums, from, |sums, from| {
                vectorized!(for (sum, x) in sums.iter_mut().zip(from) {
                    *sum += x;
                });
            });
        }
        vectorized!(for sum in sums.iter_mut() {
            *sum *= factor;
        });
        T::from_reals(sums, to);
        Ok(())
    })
    .with_scratch(node.output(0)?.elements()))
}
