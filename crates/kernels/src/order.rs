//! The verifier of order (architecture, decision 4): kernels that touch the same bytes, one of them
//! writing, must be ordered.

use crate::variables::Base;
use crate::{Access, Span};
use std::collections::BTreeMap;
use tenon_base::{Error, ErrorKind, Location, Result};
use tenon_bef::{Function, FunctionKind, Kernel, Module};

/// Problems told before the rest is only counted.
const MAX_REPORTED: usize = 20;

/// Kernels whose followers are found in one pass over a function.
const BLOCK: usize = 1024;

/// Checks every function of `module` that runs in dataflow order: two kernels that operands do not
/// order may not touch overlapping bytes when one of them writes. In a synchronous function the
/// order of kernels is the order. `accesses` tells what a kernel touches.
pub fn verify_order(
    module: &Module,
    accesses: impl Fn(&Kernel) -> Result<Vec<Access>>,
) -> Result<()> {
    let mut errors = Vec::new();
    for function in module
        .functions
        .iter()
        .filter(|function| function.kind == FunctionKind::Async)
    {
        let mut touched = Touched::default();
        let mut pairs = Vec::new();
        for (index, kernel) in function.kernels.iter().enumerate() {
            for access in accesses(kernel)? {
                touched.add(index as u32, &access, &mut pairs);
            }
        }
        pairs.sort_unstable();
        pairs.dedup();
        let unordered = unordered(function, &pairs);
        let more = unordered.len().saturating_sub(MAX_REPORTED);
        for (first, second) in unordered.into_iter().take(MAX_REPORTED) {
            errors.push(problem(function, first, second));
        }
        if more > 0 {
            errors.push(invalid(format!(
                "{more} more pairs of kernels of @{}",
                function.name
            )));
        }
    }
    Error::from_all(errors).map_or(Ok(()), Err)
}

/// For each stretch of bytes its last writer and the readers since, in kernel order. Checking each
/// kernel against these is enough: order is transitive, and every earlier kernel that matters was
/// checked against them.
#[derive(Default)]
struct Touched(BTreeMap<Base, BTreeMap<usize, Stretch>>);

#[derive(Clone, Default)]
struct Stretch {
    end: usize,
    writer: Option<u32>,
    readers: Vec<u32>,
}

impl Touched {
    /// Records an access; pairs that must be ordered go to `pairs`.
    fn add(&mut self, kernel: u32, access: &Access, pairs: &mut Vec<(u32, u32)>) {
        let Span { base, start, len } = access.span;
        if len == 0 {
            return;
        }
        let end = start + len;
        let stretches = self.0.entry(base).or_default();
        split(stretches, start);
        split(stretches, end);
        let mut at = start;
        while at < end {
            let next = stretches.range(at..end).next().map(|(&start, _)| start);
            if next != Some(at) {
                let gap = Stretch {
                    end: next.unwrap_or(end),
                    ..Stretch::default()
                };
                stretches.insert(at, gap);
            }
            let Some(stretch) = stretches.get_mut(&at) else {
                return;
            };
            stretch.touch(kernel, access.writes, pairs);
            at = stretch.end;
        }
    }
}

/// Makes a stretch begin at `at`, if one covers it.
fn split(stretches: &mut BTreeMap<usize, Stretch>, at: usize) {
    let Some((_, stretch)) = stretches.range_mut(..at).next_back() else {
        return;
    };
    if stretch.end > at {
        let rest = stretch.clone();
        stretch.end = at;
        stretches.insert(at, rest);
    }
}

impl Stretch {
    fn touch(&mut self, kernel: u32, writes: bool, pairs: &mut Vec<(u32, u32)>) {
        let mut after = |earlier: u32| {
            if earlier != kernel {
                pairs.push((earlier, kernel));
            }
        };
        if !writes {
            self.writer.into_iter().for_each(after);
            if self.readers.last() != Some(&kernel) {
                self.readers.push(kernel);
            }
            return;
        }
        self.readers.drain(..).for_each(&mut after);
        self.writer.replace(kernel).into_iter().for_each(after);
    }
}

/// Those of the sorted `pairs` that no chain of operands orders. Takes one pass over the function
/// for each [`BLOCK`] of first kernels, so that its memory grows with the kernels alone.
fn unordered(function: &Function, pairs: &[(u32, u32)]) -> Vec<(u32, u32)> {
    let makers = makers(function);
    let mut unordered = Vec::new();
    let mut rest = pairs;
    while let Some(&(first, _)) = rest.first() {
        let block = first as usize / BLOCK;
        let count = rest.partition_point(|&(first, _)| first as usize / BLOCK == block);
        let (now, later) = rest.split_at(count);
        let follows = Follows::of(function, &makers, block * BLOCK);
        unordered.extend(
            now.iter()
                .filter(|(first, second)| !follows.after(*first, *second)),
        );
        rest = later;
    }
    unordered
}

/// The kernel that makes each register.
fn makers(function: &Function) -> Vec<Option<u32>> {
    let mut makers = vec![None; function.registers.len()];
    for (index, kernel) in function.kernels.iter().enumerate() {
        for register in &kernel.results {
            if let Some(maker) = makers.get_mut(register.0 as usize) {
                *maker = Some(index as u32);
            }
        }
    }
    makers
}

/// For each kernel of a function, which of a block of kernels it follows.
struct Follows {
    start: usize,
    bits: Vec<[u64; BLOCK / 64]>,
}

impl Follows {
    fn of(function: &Function, makers: &[Option<u32>], start: usize) -> Self {
        let mut bits = vec![[0; BLOCK / 64]; function.kernels.len()];
        for (index, kernel) in function.kernels.iter().enumerate().skip(start) {
            let made = kernel
                .operands
                .iter()
                .filter_map(|register| makers.get(register.0 as usize));
            // A maker that does not stand before its user is refused when the program is bound.
            for maker in made
                .flatten()
                .map(|&maker| maker as usize)
                .filter(|&maker| maker < index)
            {
                let (before, from) = bits.split_at_mut(index);
                let (maker_bits, own) = (&before[maker], &mut from[0]);
                own.iter_mut()
                    .zip(maker_bits)
                    .for_each(|(own, bits)| *own |= bits);
                if let Some(bit) = maker.checked_sub(start).filter(|&bit| bit < BLOCK) {
                    own[bit / 64] |= 1 << (bit % 64);
                }
            }
        }
        Self { start, bits }
    }

    fn after(&self, first: u32, second: u32) -> bool {
        let bit = (first as usize).checked_sub(self.start);
        let row = self.bits.get(second as usize);
        bit.zip(row).is_some_and(|(bit, row)| {
            row.get(bit / 64)
                .is_some_and(|word| word >> (bit % 64) & 1 == 1)
        })
    }
}

fn problem(function: &Function, first: u32, second: u32) -> Error {
    let name = |index: u32| {
        function
            .kernels
            .get(index as usize)
            .map_or("", |kernel| &kernel.name)
    };
    invalid(format!(
        "kernels {} ('{}') and {} ('{}') touch the same bytes, one of them writes, and no operand orders them",
        first + 1,
        name(first),
        second + 1,
        name(second),
    ))
    .help("hand a chain from the first to the second")
    .at(Location::field(format!("@{}", function.name)))
}

fn invalid(message: String) -> Error {
    Error::new(ErrorKind::InvalidProgram, message)
}
