//! Elementwise operators of several inputs, which broadcast as in NumPy.

use crate::activation::sigmoid;
use crate::kernel::{
    Build, Kernel, Node, Stop, floats, integers, no_type, no_value, numbers, scratch,
};
use crate::nest::{Nest, broadcast, strides};
use crate::number::{Number, Wide};
use tenon_base::Result;
use tenon_tensor::{DataType, Element};

pub(crate) static KERNELS: &[(&str, Build)] = &[
    ("Add", |node| arithmetic(node, Arithmetic::Add)),
    ("Sub", |node| arithmetic(node, Arithmetic::Sub)),
    ("Mul", |node| arithmetic(node, Arithmetic::Mul)),
    ("Div", |node| arithmetic(node, Arithmetic::Div)),
    ("PRelu", |node| arithmetic(node, Arithmetic::PRelu)),
    ("SwiGLU", swiglu),
    ("Mod", |node| {
        let rest = node.attributes.flag("fmod", false)?;
        arithmetic(
            node,
            if rest {
                Arithmetic::Rest
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
    Rest,
    Min,
    Max,
    PRelu,
}

impl Arithmetic {
    fn function<W: Wide>(self) -> fn(W, W) -> W {
        match self {
            Arithmetic::Add => W::plus,
            Arithmetic::Sub => W::minus,
            Arithmetic::Mul => W::times,
            Arithmetic::Div => W::over,
            Arithmetic::Mod => W::modulo,
            Arithmetic::Rest => W::rest,
            Arithmetic::Min => W::least,
            Arithmetic::Max => W::greatest,
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

/// Loops over output 0 and inputs 0 and 1.
fn nest(node: &Node<'_>) -> Result<Nest<3>> {
    let out = node.output(0)?.shape();
    let (a, b) = (
        broadcast(node.shape(0)?, out)?,
        broadcast(node.shape(1)?, out)?,
    );
    Ok(Nest::new(out, [&strides(out), &a, &b]))
}

/// A kernel that applies `apply` to each pair of elements.
fn zip<A: Element, B: Element, C: Element>(
    node: &Node<'_>,
    apply: impl Fn(A, B) -> C + Send + Sync + 'static,
) -> Result<Kernel, Stop> {
    let nest = nest(node)?;
    Ok(Kernel::new(move |operands| {
        let (inputs, mut outputs) = operands.split();
        let (a, b) = (inputs.slice::<A>(0)?, inputs.slice::<B>(1)?);
        let to = outputs.slice::<C>(0)?;
        nest.for_each(|[out, x, y]| to[out] = apply(a[x], b[y]));
        Ok(())
    }))
}

fn arithmetic(node: &Node<'_>, operation: Arithmetic) -> Result<Kernel, Stop> {
    numbers!(node.dtype(0)?, 0, T => {
        let apply = operation.function::<<T as Number>::Wide>();
        zip(node, move |a: T, b: T| T::narrow(apply(a.wide(), b.wide())))
    })
}

/// The exponent may be of another type; integers to the power of integers are exact.
fn pow(node: &Node<'_>) -> Result<Kernel, Stop> {
    numbers!(node.dtype(0)?, 0, T => {
        numbers!(node.dtype(1)?, 1, U => {
            zip(node, |x: T, y: U| T::narrow(x.wide().power(y.to_f64())))
        })
    })
}

fn comparison(node: &Node<'_>, comparison: Comparison) -> Result<Kernel, Stop> {
    if node.dtype(0)? == DataType::Bool {
        let ask = comparison.function::<bool>();
        return zip(node, move |a: u8, b: u8| {
            u8::from(ask(&(a != 0), &(b != 0)))
        });
    }
    numbers!(node.dtype(0)?, 0, T => {
        let ask = comparison.function::<T>();
        zip(node, move |a: T, b: T| u8::from(ask(&a, &b)))
    })
}

fn logic(node: &Node<'_>, apply: fn(bool, bool) -> bool) -> Result<Kernel, Stop> {
    match node.dtype(0)? {
        DataType::Bool => zip(node, move |a: u8, b: u8| u8::from(apply(a != 0, b != 0))),
        found => Err(no_type(0, found)),
    }
}

fn bits(node: &Node<'_>, apply: fn(i128, i128) -> i128) -> Result<Kernel, Stop> {
    integers!(node.dtype(0)?, 0, T => {
        zip(node, move |a: T, b: T| T::narrow(apply(a.wide(), b.wide())))
    })
}

/// The gate A sigmoid(alpha A) times B.
fn swiglu(node: &Node<'_>) -> Result<Kernel, Stop> {
    let alpha = f64::from(node.attributes.float("alpha", 1.0)?);
    floats!(node.dtype(0)?, 0, T => zip(node, move |a: T, b: T| {
        let (a, b) = (a.to_f64(), b.to_f64());
        T::from_f64(a * sigmoid(alpha * a) * b)
    }))
}

/// Shifts by the width of the type or more, or by less than nothing, leave no bit: only the sign,
/// to the right.
fn shift(node: &Node<'_>) -> Result<Kernel, Stop> {
    let left = match node.attributes.string("direction", "")? {
        "LEFT" => true,
        "RIGHT" => false,
        found => return Err(no_value("direction", found)),
    };
    let width = node.dtype(0)?.bits() as i128;
    integers!(node.dtype(0)?, 0, T => zip(node, move |x: T, y: T| {
        let places = y.wide();
        T::narrow(match (left, (0..width).contains(&places)) {
            (true, true) => x.wide() << places,
            (true, false) => 0,
            (false, true) => x.wide() >> places,
            (false, false) => x.wide() >> width,
        })
    }))
}

/// Loops over output 0 and each input.
fn nests(node: &Node<'_>) -> Result<Vec<Nest<2>>> {
    let out = node.output(0)?.shape();
    let own = strides(out);
    (0..node.inputs.len())
        .map(|index| Ok(Nest::new(out, [&own, &broadcast(node.shape(index)?, out)?])))
        .collect()
}

/// The least or greatest of any number of inputs.
fn extreme(node: &Node<'_>, operation: Arithmetic) -> Result<Kernel, Stop> {
    let nests = nests(node)?;
    numbers!(node.dtype(0)?, 0, T => {
        let apply = operation.function::<<T as Number>::Wide>();
        Ok(Kernel::new(move |operands| {
            let (inputs, mut outputs) = operands.split();
            let to = outputs.slice::<T>(0)?;
            for (index, nest) in nests.iter().enumerate() {
                let from = inputs.slice::<T>(index)?;
                if index == 0 {
                    nest.copy(to, from);
                } else {
                    nest.for_each(|[out, x]| {
                        to[out] = T::narrow(apply(to[out].wide(), from[x].wide()));
                    });
                }
            }
            Ok(())
        }))
    })
}

/// The sum of any number of inputs times `factor`, rounded once.
fn total(node: &Node<'_>, factor: f64) -> Result<Kernel, Stop> {
    let nests = nests(node)?;
    floats!(node.dtype(0)?, 0, T => Kernel::new(move |operands| {
        let (inputs, mut outputs) = operands.split();
        let to = outputs.slice::<T>(0)?;
        let sums = scratch::<f64>(&mut outputs, to.len())?;
        sums.fill(0.0);
        for (index, nest) in nests.iter().enumerate() {
            let from = inputs.slice::<T>(index)?;
            nest.for_each(|[out, x]| sums[out] += from[x].to_f64());
        }
        to.iter_mut().zip(sums).for_each(|(to, sum)| *to = T::from_f64(*sum * factor));
        Ok(())
    })
    .with_scratch(node.output(0)?.elements()))
}
