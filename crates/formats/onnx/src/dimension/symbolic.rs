//! Dimensions that stay symbolic: their symbols, and their example sizes while compiling.

use crate::ExampleSizes;
use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use tenon_base::Result;
use tenon_tensor::TensorType;
use tenon_tensor::size::{SizeExpr, Symbols};

/// Primes of which no sum or small multiple is a usual extent of a model.
const PRIMES: [i64; 24] = [
    211, 223, 227, 229, 233, 239, 241, 251, 257, 263, 269, 271, 277, 281, 283, 293, 307, 311, 313,
    317, 331, 337, 347, 349,
];

/// Primes of which a window of some hundred and a stride of some dozens leave different, large extents.
const LARGE_PRIMES: [i64; 8] = [
    40_009, 41_011, 42_013, 43_003, 44_017, 45_007, 46_021, 47_017,
];

/// Primes for narrow ranges, the largest first.
const SMALL_PRIMES: [i64; 44] = [
    199, 197, 193, 191, 181, 179, 173, 167, 163, 157, 151, 149, 139, 137, 131, 127, 113, 109, 107,
    103, 101, 97, 89, 83, 79, 73, 71, 67, 61, 59, 53, 47, 43, 41, 37, 31, 29, 23, 19, 17, 13, 11,
    7, 5,
];

/// The symbolic dimensions of a model, by name.
#[derive(Debug, Default)]
pub(super) struct SymbolicDimensions {
    pub symbols: Symbols,
    pub example_sizes: Vec<i64>,
    extents: BTreeMap<String, SizeExpr>,
}

impl SymbolicDimensions {
    /// Symbols for the dimensions `names`. A name that is an expression of other dimensions (`past + length`) is
    /// no separate symbol.
    pub fn new(
        names: &[String],
        known: &BTreeMap<String, usize>,
        ranges: &BTreeMap<String, RangeInclusive<u64>>,
        examples: ExampleSizes,
    ) -> Result<Self> {
        let mut all = Self::default();
        let is_expression = |name: &&String| name.contains(['+', '*']) || name.contains(" - ");
        let (expressions, plain): (Vec<&String>, Vec<&String>) =
            names.iter().partition(is_expression);
        for name in plain {
            all.add(name, ranges.get(name), examples)?;
        }
        for name in expressions {
            match all.symbols.parse(&all.substituted(name, known)) {
                Ok(extent) => drop(all.extents.insert(name.clone(), extent)),
                Err(_) => all.add(name, ranges.get(name), examples)?,
            }
        }
        Ok(all)
    }

    fn add(
        &mut self,
        name: &str,
        range: Option<&RangeInclusive<u64>>,
        examples: ExampleSizes,
    ) -> Result<()> {
        let range = range.cloned().unwrap_or_else(|| default_range(name));
        let symbol = self.symbols.add(&self.symbol_name(name), range.clone())?;
        let example = self.example(&range, examples);
        self.example_sizes.push(example);
        self.extents.insert(name.to_owned(), symbol.into());
        Ok(())
    }

    /// A name that expressions can contain, and that is not taken.
    fn symbol_name(&self, name: &str) -> String {
        let name = symbol_text(name);
        let mut unique = name.clone();
        let mut count = 1;
        while self.symbols.find(&unique).is_some() {
            count += 1;
            unique = format!("{name}.{count}");
        }
        unique
    }

    /// A size that no other symbol has. It is in the range, unless that is narrow: small sizes cannot be distinguished
    /// from fixed extents.
    fn example(&self, range: &RangeInclusive<u64>, examples: ExampleSizes) -> i64 {
        let narrow = match examples {
            ExampleSizes::SmallPrimes => *range.end() < 8,
            _ => *range.end() < 353,
        };
        let is_free = |size: &i64| {
            let inside = u64::try_from(*size).is_ok_and(|size| range.contains(&size));
            (inside || narrow) && !self.example_sizes.contains(size)
        };
        let multiples = [
            11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47, 7, 5, 3, 9, 15, 4, 2, 1,
        ]
        .into_iter()
        .map(|odd| odd * 32)
        .filter(|_| examples == ExampleSizes::MultiplesOf32);
        let small = SMALL_PRIMES
            .into_iter()
            .filter(|&prime| examples == ExampleSizes::SmallPrimes && prime < 32 && !narrow);
        let large_primes = LARGE_PRIMES
            .into_iter()
            .filter(|_| examples == ExampleSizes::LargePrimes);
        let small = small.chain(large_primes);
        let mut candidates = small.chain(multiples).chain(PRIMES).chain(SMALL_PRIMES);
        let found = candidates.find(is_free);
        let (min, max) = (*range.start() as i64, *range.end() as i64);
        // More symbols than primes, or a narrow range.
        let any = || (min..=max).rev().take(512).find(is_free).unwrap_or(max);
        let large = || (min.max(353)..=max).take(4096).find(is_free);
        found.or_else(large).unwrap_or_else(any)
    }

    /// An expression with the names of symbols, and the values of known dimensions.
    fn substituted(&self, text: &str, known: &BTreeMap<String, usize>) -> String {
        let belongs = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '/' | ':');
        let mut result = String::new();
        let mut rest = text;
        while let Some(first) = rest.chars().next() {
            let end = rest.find(|c| !belongs(c)).unwrap_or(rest.len());
            let (word, after) = rest.split_at(end.max(first.len_utf8()));
            match (known.get(word), self.extents.get(word)) {
                (Some(size), _) => result.push_str(&size.to_string()),
                (None, Some(extent)) => result.push_str(&self.symbols.text(extent)),
                (None, None) => result.push_str(word),
            }
            rest = after;
        }
        result
    }

    /// The example size of each dimension.
    pub fn examples(&self) -> impl Iterator<Item = (String, usize)> + '_ {
        self.extents.iter().filter_map(|(name, extent)| {
            let size = extent.evaluate(&self.example_sizes).ok()?;
            Some((name.clone(), usize::try_from(size).ok()?))
        })
    }

    /// The extents of an input of type `ty` with these names of dimensions; `None` if none is symbolic.
    pub fn extents(
        &self,
        names: impl Iterator<Item = Option<String>>,
        ty: &TensorType,
    ) -> Option<Vec<SizeExpr>> {
        let mut symbolic = false;
        let extents = names.zip(ty.shape().iter()).map(|(name, &extent)| {
            let found = name.and_then(|name| self.extents.get(&name));
            symbolic |= found.is_some();
            found.cloned().unwrap_or_else(|| (extent as i64).into())
        });
        let extents = extents.collect();
        symbolic.then_some(extents)
    }
}

/// The range of a dimension for which none is given: any size but 0. The past of a cache is empty at first.
fn default_range(name: &str) -> RangeInclusive<u64> {
    let any = Symbols::any_size();
    if name.contains("past") {
        0..=*any.end()
    } else {
        any
    }
}

/// The name as an identifier: `x[1]` is `x.1`.
fn symbol_text(name: &str) -> String {
    let mut text = String::new();
    for c in name.trim_end_matches(']').chars() {
        match c {
            '[' => text.push('.'),
            c if c.is_ascii_alphanumeric() || c == '_' || c == '.' => text.push(c),
            _ => text.push('_'),
        }
    }
    let starts = text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    if !starts || ["floor", "min", "max"].contains(&text.as_str()) {
        text.insert(0, '_');
    }
    text
}
