//! The verifier of memory order (architecture, decision 4): two kernels that access the same bytes,
//! at least one of them writing, must be ordered (the absence of data races).

use crate::variables::Base;
use crate::{Access, Span};
use std::collections::BTreeMap;
use tenon_base::{Error, ErrorKind, Location, Result};
use tenon_bef::{Function, FunctionKind, Kernel, Module};

/// The maximum number of reported pairs; further ones are counted.
const MAX_REPORTED: usize = 20;

/// The number of kernels whose successors are found in one pass over a function.
const BLOCK: usize = 1024;

/// Checks every asynchronous function of `module`: two kernels that are not ordered by operands may
/// not access overlapping bytes when one of them writes. Kernels of a synchronous function run in
/// block order. `accesses` returns the accesses of a kernel.
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
        let mut history = AccessHistory::default();
        let mut pairs = Vec::new();
        for (index, kernel) in function.kernels.iter().enumerate() {
            for access in accesses(kernel)? {
                history.record(index as u32, &access, &mut pairs);
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

/// For each interval of bytes, the last writer and the readers since then, in kernel order
/// (read-after-write, write-after-read and write-after-write hazards). Checking each kernel against
/// these suffices: order is transitive, and earlier accesses were checked against them.
#[derive(Default)]
struct AccessHistory(BTreeMap<Base, BTreeMap<usize, ByteInterval>>);

#[derive(Clone, Default)]
struct ByteInterval {
    end: usize,
    writer: Option<u32>,
    readers: Vec<u32>,
}

impl AccessHistory {
    /// Records an access; pairs that must be ordered go to `pairs`.
    fn record(&mut self, kernel: u32, access: &Access, pairs: &mut Vec<(u32, u32)>) {
        let Span { base, start, len } = access.span;
        if len == 0 {
            return;
        }
        let end = start + len;
        let intervals = self.0.entry(base).or_default();
        split(intervals, start);
        split(intervals, end);
        let mut at = start;
        while at < end {
            let next = intervals.range(at..end).next().map(|(&start, _)| start);
            if next != Some(at) {
                let gap = ByteInterval {
                    end: next.unwrap_or(end),
                    ..ByteInterval::default()
                };
                intervals.insert(at, gap);
            }
            let Some(interval) = intervals.get_mut(&at) else {
                return;
            };
            interval.record(kernel, access.writes, pairs);
            at = interval.end;
        }
    }
}

/// Splits the interval that contains `at`, so that one begins there.
fn split(intervals: &mut BTreeMap<usize, ByteInterval>, at: usize) {
    let Some((_, interval)) = intervals.range_mut(..at).next_back() else {
        return;
    };
    if interval.end > at {
        let rest = interval.clone();
        interval.end = at;
        intervals.insert(at, rest);
    }
}

impl ByteInterval {
    fn record(&mut self, kernel: u32, writes: bool, pairs: &mut Vec<(u32, u32)>) {
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

/// The pairs of the sorted `pairs` that are not ordered by a path of operands. Computes the
/// transitive closure with bit sets, one pass over the function per [`BLOCK`] of first kernels, so
/// that memory is linear in the number of kernels.
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

/// The kernel that writes each register.
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

/// For each kernel of a function, its predecessors among a block of kernels, as a bit set.
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
            // A writer after its user is rejected when the program is bound.
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
        "kernels {} ('{}') and {} ('{}') access the same bytes, one of them writes, and no operand orders them",
        first,
        name(first),
        second,
        name(second),
    ))
    .help("hand a chain from the first to the second")
    .at(Location::field(format!("@{}", function.name)))
}

fn invalid(message: String) -> Error {
    Error::new(ErrorKind::InvalidProgram, message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tenon_bef::RegisterId;

    /// A module of one function: each kernel takes the chains of the kernels that it lists, and
    /// accesses bytes of the arena: (start, end, writes).
    type Row<'a> = (&'a [u32], &'a [(usize, usize, bool)]);

    type OwnedRow = (Vec<u32>, Vec<(usize, usize, bool)>);

    fn check(kind: FunctionKind, rows: &[Row<'_>]) -> Result<()> {
        let kernels = rows
            .iter()
            .enumerate()
            .map(|(index, (operands, _))| Kernel {
                name: index.to_string().into(),
                operands: operands
                    .iter()
                    .map(|&operand| RegisterId(operand))
                    .collect(),
                results: [RegisterId(index as u32)].into_iter().collect(),
                ..Kernel::default()
            });
        let function = Function {
            name: "f".into(),
            kind,
            registers: vec!["!tfrt.chain".into(); rows.len()],
            kernels: kernels.collect(),
            ..Function::default()
        };
        let module = Module::from(function);
        verify_order(&module, |kernel| {
            let (_, history) = rows[kernel.name.parse::<usize>().unwrap()];
            let access = |&(start, end, writes): &(usize, usize, bool)| Access {
                span: Span {
                    base: Base::ARENA,
                    start,
                    len: end - start,
                },
                writes,
            };
            Ok(history.iter().map(access).collect())
        })
    }

    fn asynchronous(rows: &[Row<'_>]) -> Result<()> {
        check(FunctionKind::Async, rows)
    }

    #[test]
    fn readers_and_disjoint_accesses_need_no_order() {
        asynchronous(&[(&[], &[(0, 8, false)]), (&[], &[(4, 12, false)])]).unwrap();
        asynchronous(&[(&[], &[(0, 8, true)]), (&[], &[(8, 16, true)])]).unwrap();
        asynchronous(&[(&[], &[(0, 8, true), (0, 8, false)])]).unwrap();
        asynchronous(&[(&[], &[(0, 8, true)]), (&[], &[(4, 4, true)])]).unwrap();
    }

    #[test]
    fn order_is_transitive() {
        asynchronous(&[
            (&[], &[(0, 8, true)]),
            (&[0], &[]),
            (&[1], &[(4, 12, false)]),
            (&[0], &[(0, 2, false)]),
            (&[2, 3], &[(0, 16, true)]),
        ])
        .unwrap();
    }

    #[test]
    fn each_hazard_is_rejected() {
        let hazards = [(true, false), (false, true), (true, true)];
        for (first, second) in hazards {
            let rows: [Row<'_>; 2] = [(&[], &[(0, 8, first)]), (&[], &[(7, 9, second)])];
            assert_eq!(
                asynchronous(&rows).unwrap_err().to_string(),
                "@f: kernels 0 ('0') and 1 ('1') access the same bytes, one of them writes, and no \
                 operand orders them; hand a chain from the first to the second"
            );
            check(FunctionKind::Sync, &rows).unwrap();
        }
    }

    #[test]
    fn a_reusing_writer_must_follow_every_reader() {
        // 0 writes; 1 and 2 read; 3 writes after 1 only.
        let error = asynchronous(&[
            (&[], &[(0, 8, true)]),
            (&[0], &[(0, 8, false)]),
            (&[0], &[(4, 8, false)]),
            (&[1], &[(0, 8, true)]),
        ])
        .unwrap_err();
        assert_eq!(error.all().count(), 1);
        assert!(
            error.to_string().contains("kernels 2 ('2') and 3 ('3')"),
            "{error}"
        );
    }

    /// The reference definition, for small functions.
    fn reference(rows: &[Row<'_>]) -> bool {
        let mut after = vec![vec![false; rows.len()]; rows.len()];
        for (index, (operands, _)) in rows.iter().enumerate() {
            for &operand in *operands {
                let inherited = after[operand as usize].clone();
                after[index]
                    .iter_mut()
                    .zip(inherited)
                    .for_each(|(own, other)| *own |= other);
                after[index][operand as usize] = true;
            }
        }
        let clash = |a: &Row<'_>, b: &Row<'_>| {
            a.1.iter()
                .any(|a| b.1.iter().any(|b| (a.2 || b.2) && a.0 < b.1 && b.0 < a.1))
        };
        (0..rows.len()).all(|second| {
            (0..second).all(|first| after[second][first] || !clash(&rows[first], &rows[second]))
        })
    }

    proptest::proptest! {
        #[test]
        fn it_agrees_with_the_plain_definition(
            rows in proptest::collection::vec(
                (
                    proptest::collection::vec(0u32..12, 0..3),
                    proptest::collection::vec((0usize..6, 1usize..4, proptest::bool::weighted(0.3)), 0..3),
                ),
                1..12,
            )
        ) {
            let rows: Vec<OwnedRow> = rows
                .into_iter()
                .enumerate()
                .map(|(index, (operands, history))| {
                    let operands = operands.into_iter().filter(|&operand| (operand as usize) < index);
                    let history = history.into_iter().map(|(start, len, writes)| (start, start + len, writes));
                    (operands.collect(), history.collect())
                })
                .collect();
            let rows: Vec<Row<'_>> =
                rows.iter().map(|(operands, history)| (&operands[..], &history[..])).collect();
            proptest::prop_assert_eq!(asynchronous(&rows).is_ok(), reference(&rows));
        }
    }

    #[test]
    fn order_is_found_across_blocks() {
        // A long chain whose ends access the same bytes, complete and cut in the middle.
        let rows = |cut: Option<usize>| -> Vec<OwnedRow> {
            let count = 3 * BLOCK;
            let operands = |index: usize| match index.checked_sub(1) {
                Some(before) if cut != Some(index) => vec![before as u32],
                _ => vec![],
            };
            let ends = |index: usize| index == 0 || index == count - 1;
            (0..count)
                .map(|index| {
                    (
                        operands(index),
                        if ends(index) {
                            vec![(0, 8, true)]
                        } else {
                            vec![]
                        },
                    )
                })
                .collect()
        };
        let check = |rows: &[OwnedRow]| {
            let rows: Vec<Row<'_>> = rows.iter().map(|(a, b)| (&a[..], &b[..])).collect();
            asynchronous(&rows)
        };
        check(&rows(None)).unwrap();
        assert!(check(&rows(Some(BLOCK + 5))).is_err());
    }
}
