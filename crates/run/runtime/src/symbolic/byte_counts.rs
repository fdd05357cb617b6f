//! Sizes from the byte counts of inputs: callers of libnrt pass memory without shapes.

use super::{SymbolicCore, SymbolicPort};
use crate::Signature;
use tenon_base::{Error, ErrorKind, Location, Result};
use tenon_graph::shape_for;
use tenon_tensor::TensorType;
use tenon_tensor::size::{SizeExpr, SymbolId, Symbols};

/// The greatest size of a dimension: callers allocate tensors of the largest sizes.
const MAX_BOUND: u64 = 1 << 24;

/// How the sizes of symbols follow from the byte counts of the inputs.
pub(crate) enum ByteCounts {
    /// Each symbol from one input, in this order.
    Steps(Vec<Step>),
    /// By the first combination of buckets whose inputs have these byte counts.
    Buckets(Vec<Combination>),
}

/// A symbol that an input decides: it is extents of the input, whose other extents are known before.
pub(crate) struct Step {
    symbol: SymbolId,
    input: usize,
}

/// The sizes of a combination of buckets, and the byte counts of its inputs.
pub(crate) struct Combination {
    sizes: Vec<i64>,
    bytes: Vec<usize>,
}

impl SymbolicCore {
    /// How sizes follow from byte counts.
    ///
    /// # Errors
    /// Symbols without bound, and symbols that byte counts do not decide.
    pub fn byte_counts(&self) -> Result<ByteCounts> {
        let unbounded = self.symbols.iter().filter_map(|(id, symbol)| {
            let is_bounded = !self.buckets.sizes(id).is_empty() || symbol.max <= MAX_BOUND;
            (!is_bounded).then(|| {
                let text = format!("dimension '{}' has no bound", symbol.name);
                Error::new(ErrorKind::Unsupported, text)
                    .expected(format_args!("a greatest size of at most {MAX_BOUND}"))
                    .found(symbol.max)
                    .help(format!("compile the model with --dim {}=A..B", symbol.name))
            })
        });
        if let Some(error) = Error::from_all(unbounded) {
            return Err(error);
        }
        let (steps, decided) = self.steps();
        if steps.len() == self.symbols.len() {
            return Ok(ByteCounts::Steps(steps));
        }
        let combinations = self.buckets.combinations();
        if combinations.is_empty() {
            let left = self.symbols.iter().filter(|(id, _)| !decided[id.index()]);
            let left: Vec<&str> = left.map(|(_, symbol)| symbol.name.as_str()).collect();
            let text = "the byte counts of the inputs do not decide the sizes of all dimensions";
            return Err(Error::new(ErrorKind::Unsupported, text)
                .found(left.join(", "))
                .help(format!(
                    "fix some with --dim {}=N, or give all dimensions buckets with --bucket NAME=A,B,C",
                    left[0]
                )));
        }
        let with_bytes = combinations.into_iter().map(|sizes| {
            let bytes = self
                .inputs
                .iter()
                .map(|port| Ok(port.fixed(&sizes)?.ty.bytes()));
            let bytes = bytes.collect::<Result<_>>()?;
            Ok(Combination { sizes, bytes })
        });
        with_bytes.collect::<Result<_>>().map(ByteCounts::Buckets)
    }

    /// An order in which inputs decide symbols, and which symbols they decide.
    fn steps(&self) -> (Vec<Step>, Vec<bool>) {
        let mut steps = Vec::new();
        let mut decided = vec![false; self.symbols.len()];
        let step = |decided: &[bool]| {
            let mut ports = self.inputs.iter().enumerate();
            ports.find_map(|(input, port)| {
                let mut open = port.symbols().filter(|id| !decided[id.index()]);
                let symbol = open.next()?;
                let alone = open.all(|other| other == symbol);
                let mut extents = port.extents.iter();
                let plain = extents.all(|extent| {
                    extent.symbol() == Some(symbol) || !extent.symbols().contains(&symbol)
                });
                let whole = port.dtype.bits() >= 8;
                (alone && plain && whole).then_some(Step { symbol, input })
            })
        };
        while let Some(next) = step(&decided) {
            decided[next.symbol.index()] = true;
            steps.push(next);
        }
        (steps, decided)
    }

    /// The sizes for inputs of these byte counts, in order.
    ///
    /// # Errors
    /// Byte counts that are those of no size, sizes outside of their range, and inputs that contradict each other.
    pub fn sizes_for(&self, counts: &ByteCounts, bytes: &[usize]) -> Result<Vec<i64>> {
        match counts {
            ByteCounts::Steps(steps) => self.solve(steps, bytes),
            ByteCounts::Buckets(all) => {
                let found = all.iter().find(|combination| combination.bytes == bytes);
                found.map(|found| found.sizes.clone()).ok_or_else(|| {
                    let buckets = self.symbols.iter().map(|(id, symbol)| {
                        let sizes = self.buckets.sizes(id).iter().map(i64::to_string);
                        format!("{} {}", symbol.name, sizes.collect::<Vec<_>>().join(" or "))
                    });
                    let found = self.inputs.iter().zip(bytes);
                    let found = found.map(|(port, bytes)| format!("{} {bytes}", port.name));
                    wrong("the byte counts of the inputs are those of no combination of buckets")
                        .expected(buckets.collect::<Vec<_>>().join(", "))
                        .found(format!("bytes {}", found.collect::<Vec<_>>().join(", ")))
                })
            }
        }
    }

    /// Two combinations of buckets with the same byte counts, of which the first is executed.
    pub fn ambiguity(&self, counts: &ByteCounts) -> Option<String> {
        let ByteCounts::Buckets(all) = counts else {
            return None;
        };
        all.iter().enumerate().find_map(|(at, first)| {
            let mut later = all[at + 1..].iter();
            let second = later.find(|second| second.bytes == first.bytes)?;
            let (first, second) = (self.named(&first.sizes), self.named(&second.sizes));
            Some(format!("the inputs have the same byte counts for {first} and {second}: the first is executed"))
        })
    }

    /// The sizes with their symbols.
    pub(super) fn named(&self, sizes: &[i64]) -> String {
        let pairs = self.symbols.iter().zip(sizes);
        let pairs = pairs.map(|((_, symbol), size)| format!("{} = {size}", symbol.name));
        pairs.collect::<Vec<_>>().join(", ")
    }

    fn solve(&self, steps: &[Step], bytes: &[usize]) -> Result<Vec<i64>> {
        let mut sizes = vec![1; self.symbols.len()];
        for step in steps {
            let (port, &bytes) = match (self.inputs.get(step.input), bytes.get(step.input)) {
                (Some(port), Some(bytes)) => (port, bytes),
                _ => return Err(wrong("an input is missing")),
            };
            sizes[step.symbol.index()] = self.decided_by(port, step.symbol, bytes, &sizes)?;
        }
        self.symbols.check(&sizes)?;
        let mut problems = Vec::new();
        for (port, &found) in self.inputs.iter().zip(bytes) {
            let ty = port.fixed(&sizes)?.ty;
            if ty.bytes() != found {
                let text = format!("the tensor of input '{}' has the wrong size", port.name);
                let expected = format!("{} bytes ({ty} for {})", ty.bytes(), self.named(&sizes));
                problems.push(wrong(text).expected(expected).found(found));
            }
        }
        Error::from_all(problems).map_or(Ok(sizes), Err)
    }

    /// The size of a symbol for an input of this byte count, with the sizes of the symbols before it.
    fn decided_by(
        &self,
        port: &SymbolicPort,
        symbol: SymbolId,
        bytes: usize,
        sizes: &[i64],
    ) -> Result<i64> {
        // With the size 1: the bytes of one, of a dimension that may occur several times.
        let one = TensorType::new(port.dtype, shape_for(&port.extents, sizes)?)?.bytes() as u128;
        let of = |extent: &&SizeExpr| extent.symbol() == Some(symbol);
        let times = port.extents.iter().filter(of).count() as u32;
        let count = |size: u64| u128::from(size).saturating_pow(times).saturating_mul(one);
        let (mut low, mut high) = (0, u64::from(u32::MAX));
        while low < high {
            let middle = low + (high - low) / 2;
            match count(middle) < bytes as u128 {
                true => low = middle + 1,
                false => high = middle,
            }
        }
        if one == 0 || count(low) != bytes as u128 {
            let name = self
                .symbols
                .symbol(symbol)
                .map_or("", |symbol| &symbol.name);
            let signature = port.signature(&self.symbols)?;
            let text = format!("the byte count of input '{}' is that of no size", port.name);
            let expected = match times {
                1 => format!("a multiple of {one} bytes ({signature})"),
                _ => format!("{one} bytes times a power of {times} ({signature})"),
            };
            return Err(wrong(text)
                .expected(expected)
                .found(bytes)
                .at(Location::field(format!("dimension '{name}'"))));
        }
        Ok(low as i64)
    }

    /// The inputs and outputs with the largest size of each dimension: for the greatest buckets, or the greatest
    /// sizes of symbols without buckets.
    ///
    /// # Errors
    /// Types larger than the address space.
    pub fn largest(&self) -> Result<[Vec<Signature>; 2]> {
        let mut symbols = Symbols::default();
        for (id, symbol) in self.symbols.iter() {
            let greatest = self.buckets.sizes(id).last();
            let max = greatest.map_or(symbol.max, |&size| size as u64);
            symbols.add(&symbol.name, symbol.min..=max)?;
        }
        let largest = |port: &SymbolicPort| {
            let extent = |extent: &SizeExpr| {
                let max = symbols.range(extent).max.unwrap_or(i128::MAX);
                usize::try_from(max.max(0)).unwrap_or(usize::MAX)
            };
            let shape: Vec<usize> = port.extents.iter().map(extent).collect();
            let ty = TensorType::new(port.dtype, shape);
            let ty = ty.map_err(|error| error.at(Location::field(format!("'{}'", port.name))))?;
            Ok(Signature::fixed(port.name.clone(), ty))
        };
        Ok([
            self.inputs.iter().map(largest).collect::<Result<_>>()?,
            self.outputs.iter().map(largest).collect::<Result<_>>()?,
        ])
    }

    /// The sizes of all combinations of buckets; none unless all symbols have buckets.
    pub fn bucket_sizes(&self) -> Vec<Vec<i64>> {
        self.buckets.combinations()
    }
}

fn wrong(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::InvalidArgument, message)
}
