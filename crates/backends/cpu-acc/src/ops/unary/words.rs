//! Functions of one operand of any numeric type, applied to parts in place.

use super::Function;
use crate::elementary::Elementary;
use crate::ops::broadcast::PART;
use crate::ops::element_types::refuse_type;
use crate::ops::number::{Integer, Number};
use crate::ops::{Kernel, UnpreparedWorkload};
use crate::signature::Signature;
use crate::simd::disjoint::for_each_chunk;
use crate::simd::{Level, Simd, VectorOp};
use std::marker::PhantomData;
use tenon_backend::{OperandPair, Operands, Refusal, Workload, WorkloadPlan};
use tenon_base::Result;
use tenon_tensor::Element;

/// Elements of a chunk; one thread is used for at most two.
const CHUNK: usize = 1 << 14;

/// A function of words in place.
type MapFn<W> = Box<dyn Fn(&mut [W]) + Send + Sync>;

/// A function of words that is applied to every element.
struct WordMap<W> {
    map: MapFn<W>,
}

impl<W: Element> UnpreparedWorkload for WordMap<W> {
    fn workload_plan(&self) -> WorkloadPlan {
        WorkloadPlan::in_place([0])
    }
}

impl<W: Element> Workload for WordMap<W> {
    fn execute(&self, operands: &mut Operands<'_>) -> Result<()> {
        map_words(operands, &self.map)
    }
}

/// Applies `map` to parts of at most [`PART`] elements.
pub(super) fn map_words<W: Element>(
    operands: &mut Operands<'_>,
    map: &(impl Fn(&mut [W]) + Sync + ?Sized),
) -> Result<()> {
    let (from, to) = match operands.pair::<W>(0, 0)? {
        OperandPair::InPlace(elements) => (None, elements),
        OperandPair::Apart(from, to) => (Some(from), to),
    };
    for_each_part(from, to, |from, to| {
        if let Some(from) = from {
            to.copy_from_slice(from);
        }
        map(to);
    });
    Ok(())
}

/// Calls `map` with each part of the output and of the input, or with the output alone where it has the
/// elements of the input.
pub(super) fn for_each_part<W: Element>(
    from: Option<&[W]>,
    to: &mut [W],
    map: impl Fn(Option<&[W]>, &mut [W]) + Sync,
) {
    let parallel = to.len() > 2 * CHUNK;
    for_each_chunk(to, CHUNK, parallel, |index, to| {
        for (part, to) in to.chunks_mut(PART).enumerate() {
            let start = index * CHUNK + part * PART;
            map(from.map(|from| &from[start..][..to.len()]), to);
        }
    });
}

/// The bound of `Clip` that is input `input`, where it is present.
pub(super) fn bound<T: Element>(operands: &Operands<'_>, input: usize) -> Result<Option<T>> {
    if !operands.has_input(input) {
        return Ok(None);
    }
    Ok(operands.input::<T>(input)?.first().copied())
}

/// The kernel of a function of elements of type `T`.
pub(super) fn number_map<T: Number>(
    function: impl Fn(T) -> T + Send + Sync + 'static,
) -> Result<Box<dyn Kernel>, Refusal> {
    let map = move |words: &mut [T::Word]| {
        for word in words {
            *word = function(T::of(*word)).word();
        }
    };
    Ok(Box::new(WordMap { map: Box::new(map) }))
}

/// A function of integers, with the instructions of the level.
struct IntegerMap<T, F> {
    level: Level,
    function: F,
    element: PhantomData<T>,
}

impl<T: Integer, F: Fn(T) -> T + Copy + Send + Sync + 'static> UnpreparedWorkload
    for IntegerMap<T, F>
{
    fn workload_plan(&self) -> WorkloadPlan {
        WorkloadPlan::in_place([0])
    }
}

impl<T: Integer, F: Fn(T) -> T + Copy + Send + Sync + 'static> Workload for IntegerMap<T, F> {
    fn execute(&self, operands: &mut Operands<'_>) -> Result<()> {
        let (from, to) = match operands.pair::<T>(0, 0)? {
            OperandPair::InPlace(elements) => (None, elements),
            OperandPair::Apart(from, to) => (Some(from), to),
        };
        for_each_part(from, to, |from, to| {
            self.level.run(IntegerPart {
                function: self.function,
                from,
                to,
            });
        });
        Ok(())
    }
}

/// A part of the output, and of the input where that is apart.
struct IntegerPart<'a, T, F> {
    function: F,
    from: Option<&'a [T]>,
    to: &'a mut [T],
}

impl<T: Integer, F: Fn(T) -> T> VectorOp for IntegerPart<'_, T, F> {
    type Output = ();

    #[inline(always)]
    fn eval<S: Simd>(self, _: S) {
        match self.from {
            Some(from) => {
                for (to, &x) in self.to.iter_mut().zip(from) {
                    *to = (self.function)(x);
                }
            }
            None => {
                for x in self.to {
                    *x = (self.function)(*x);
                }
            }
        }
    }
}

/// `Clip` of f64 or integers.
pub(super) struct Clip<T> {
    /// The bounds of omitted inputs.
    pub(super) unbounded: [T; 2],
}

impl<T: Number> UnpreparedWorkload for Clip<T> {
    fn workload_plan(&self) -> WorkloadPlan {
        WorkloadPlan::in_place([0])
    }
}

impl<T: Number> Workload for Clip<T> {
    fn execute(&self, operands: &mut Operands<'_>) -> Result<()> {
        let low = bound::<T>(operands, 1)?.unwrap_or(self.unbounded[0]);
        let high = bound::<T>(operands, 2)?.unwrap_or(self.unbounded[1]);
        map_words::<T>(operands, &|elements: &mut [T]| {
            for element in elements {
                // The upper bound where it is below the lower one, as in NumPy; NaN stays NaN.
                let raised = if *element < low { low } else { *element };
                *element = if raised > high { high } else { raised };
            }
        })
    }
}

/// `Shrink`, which converts integers to f64 and back.
pub(super) fn shrink_map<T: Number>(limit: f64, bias: f64) -> Result<Box<dyn Kernel>, Refusal> {
    number_map::<T>(move |x| {
        let x = x.to_f64();
        T::of_f64(if x < -limit {
            x + bias
        } else if x > limit {
            x - bias
        } else {
            0.0
        })
    })
}

/// The kernel of a function of integers.
pub(super) fn integer_kernel<T: Integer>(
    signature: &Signature<'_>,
    function: Function,
) -> Result<Box<dyn Kernel>, Refusal> {
    fn map<T: Integer>(
        level: Level,
        function: impl Fn(T) -> T + Copy + Send + Sync + 'static,
    ) -> Result<Box<dyn Kernel>, Refusal> {
        Ok(Box::new(IntegerMap {
            level,
            function,
            element: PhantomData,
        }))
    }
    let level = signature.level;
    let (zero, one) = (T::of_f64(0.0), T::of_f64(1.0));
    let minus_one = zero.minus(one);
    match (signature.op.name, function) {
        ("Abs", _) => map(level, move |x: T| if x < zero { zero.minus(x) } else { x }),
        ("Neg", _) => map(level, move |x: T| zero.minus(x)),
        ("Sign", _) => map(level, move |x: T| {
            if x > zero {
                one
            } else if x < zero {
                minus_one
            } else {
                zero
            }
        }),
        ("Relu", _) => map(level, move |x: T| x.greatest(zero)),
        ("BitwiseNot", _) => map(level, move |x: T| x.xor(minus_one)),
        ("Clip", _) => Ok(Box::new(Clip {
            unbounded: [T::of_f64(f64::NEG_INFINITY), T::of_f64(f64::INFINITY)],
        })),
        (_, Function::Loop(Elementary::Shrink { limit, bias })) => {
            shrink_map::<T>(limit.into(), bias.into())
        }
        _ => Err(refuse_type(0, signature.input(0)?.dtype())),
    }
}
