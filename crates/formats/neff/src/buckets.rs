//! Buckets: the sizes for which a package with symbols has instances, and the padding of inputs between them
//! (docs/package.md, "Buckets").

use crate::TenonMember;
use crate::error::invalid;
use serde::{Deserialize, Serialize};
use std::collections::HashSet;
use tenon_base::{Error, Location, Result};
use tenon_tensor::size::{SymbolId, Symbols};
use tenon_tensor::{DataType, converter};

/// The greatest number of combinations of the buckets of all symbols.
pub const MAX_COMBINATIONS: usize = 64;

/// The sizes of a symbol for which there are instances.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BucketInfo {
    /// The name of the symbol.
    pub symbol: String,
    /// The sizes, ascending.
    pub sizes: Vec<u64>,
}

/// What an input is filled with up to the size of a bucket.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PaddingInfo {
    /// The name of the input.
    pub input: String,
    /// An element of the input's type, in decimal, or `inf`, `-inf`, `NaN`.
    pub value: String,
}

/// The buckets and paddings of a package, by the positions of symbols and inputs.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Buckets {
    /// The sizes of each symbol, ascending; none for one without buckets.
    sizes: Vec<Vec<i64>>,
    /// For each input the bytes of the element that it is padded with.
    paddings: Vec<Option<Box<[u8]>>>,
}

impl Buckets {
    /// Reads the buckets and paddings of a package with these symbols; all problems together.
    ///
    /// # Errors
    /// Unknown or repeated symbols and inputs, sizes that do not ascend or are outside the range of their symbol,
    /// more than [`MAX_COMBINATIONS`], values that are no element of their input's type, paddings of inputs whose
    /// size no bucket changes.
    pub fn new(member: &TenonMember, symbols: &Symbols) -> Result<Self> {
        let mut problems = Vec::new();
        let mut all = Self {
            sizes: vec![Vec::new(); symbols.len()],
            paddings: vec![None; member.inputs.len()],
        };
        for (index, info) in member.buckets.iter().enumerate() {
            if let Err(error) = all.add_bucket(info, symbols) {
                problems.push(error.at(Location::field(format!("buckets[{index}]"))));
            }
        }
        let count = all.sizes.iter().map(|sizes| sizes.len().max(1));
        let count = count.fold(1usize, usize::saturating_mul);
        if count > MAX_COMBINATIONS {
            let error = invalid("too many combinations of buckets");
            let error = error.expected(format_args!("at most {MAX_COMBINATIONS}"));
            problems.push(error.found(count).at(Location::field("buckets")));
        }
        let mut named = HashSet::new();
        for (index, info) in member.paddings.iter().enumerate() {
            let added = match named.insert(&info.input) {
                true => all.add_padding(info, member, symbols),
                false => Err(invalid("an input with two paddings").found(&info.input)),
            };
            if let Err(error) = added {
                problems.push(error.at(Location::field(format!("paddings[{index}]"))));
            }
        }
        Error::from_all(problems).map_or(Ok(all), Err)
    }

    fn add_bucket(&mut self, info: &BucketInfo, symbols: &Symbols) -> Result<()> {
        let id = symbols.find(&info.symbol);
        let known = id.and_then(|id| symbols.symbol(id).zip(self.sizes.get_mut(id.index())));
        let Some((symbol, slot)) = known else {
            let names: Vec<&str> = symbols.iter().map(|(_, s)| s.name.as_str()).collect();
            let error =
                invalid("no symbolic dimension of the model has this name").found(&info.symbol);
            return Err(match names.is_empty() {
                true => error.help("all its sizes are fixed"),
                false => error.expected(names.join(", ")),
            });
        };
        let name = &symbol.name;
        if !slot.is_empty() {
            return Err(invalid(format!(
                "the buckets of dimension '{name}' are listed twice"
            )));
        }
        if info.sizes.is_empty() || info.sizes.len() > MAX_COMBINATIONS {
            let error = invalid(format!("the number of buckets of dimension '{name}'"));
            let error = error.expected(format_args!("1 to {MAX_COMBINATIONS}"));
            return Err(error.found(info.sizes.len()));
        }
        let ascending = info.sizes.windows(2).all(|pair| pair[0] < pair[1]);
        let outside = info.sizes.iter();
        let mut outside = outside.filter(|size| !(symbol.min..=symbol.max).contains(size));
        if let Some(size) = outside.next() {
            let error = invalid(format!("a bucket outside the range of dimension '{name}'"));
            let error = error.expected(format_args!("{} to {}", symbol.min, symbol.max));
            return Err(error.found(size));
        }
        if !ascending {
            let error = invalid(format!("the buckets of dimension '{name}' do not ascend"));
            return Err(error.found(format_args!("{:?}", info.sizes)));
        }
        // The range of a symbol ends below 2^31.
        *slot = info.sizes.iter().map(|&size| size as i64).collect();
        Ok(())
    }

    fn add_padding(
        &mut self,
        info: &PaddingInfo,
        member: &TenonMember,
        symbols: &Symbols,
    ) -> Result<()> {
        let mut inputs = member.inputs.iter();
        let Some(position) = inputs.position(|input| input.name == info.input) else {
            let names: Vec<&str> = member.inputs.iter().map(|i| i.name.as_str()).collect();
            let error = invalid("no input of the model has this name");
            return Err(error.expected(names.join(", ")).found(&info.input));
        };
        let input = &member.inputs[position];
        let extents = input.shape.parse(symbols)?;
        let mut used = extents.iter().flat_map(|extent| extent.symbols());
        if !used.any(|id| !self.sizes(id).is_empty()) {
            let text = format!(
                "'{}' has no dimension with buckets, so that it is not padded",
                info.input
            );
            return Err(invalid(text).found(format_args!("{}{}", input.dtype, input.shape)));
        }
        let element = element(input.dtype, &info.value).ok_or_else(|| {
            let text = format!("the padding of '{}' is no element of its type", info.input);
            invalid(text).expected(input.dtype).found(&info.value)
        })?;
        self.paddings[position] = Some(element);
        Ok(())
    }

    /// Whether no symbol has buckets.
    pub fn is_empty(&self) -> bool {
        self.sizes.iter().all(Vec::is_empty)
    }

    /// The sizes of a symbol, ascending; none if it has no buckets.
    pub fn sizes(&self, symbol: SymbolId) -> &[i64] {
        self.sizes.get(symbol.index()).map_or(&[], Vec::as_slice)
    }

    /// The bytes of the element that an input is padded with.
    pub fn padding(&self, input: usize) -> Option<&[u8]> {
        self.paddings.get(input)?.as_deref()
    }

    /// All combinations of buckets in lexicographic order; none if a symbol has no buckets. At most
    /// [`MAX_COMBINATIONS`].
    pub fn combinations(&self) -> Vec<Vec<i64>> {
        if self.sizes.is_empty() || self.sizes.iter().any(Vec::is_empty) {
            return Vec::new();
        }
        let mut all = vec![Vec::new()];
        for sizes in &self.sizes {
            let longer = all.iter().flat_map(|first: &Vec<i64>| {
                let with = move |&size: &i64| first.iter().copied().chain([size]).collect();
                sizes.iter().map(with)
            });
            all = longer.collect();
        }
        all
    }
}

/// The bytes of an element of a real type of whole bytes.
fn element(dtype: DataType, text: &str) -> Option<Box<[u8]>> {
    let mut bytes = vec![0; dtype.bits() / 8].into_boxed_slice();
    let mut back = [0; 8];
    let same = if dtype.is_float() {
        let value: f64 = text.parse().ok()?;
        converter(DataType::F64, dtype)?(&value.to_le_bytes(), &mut bytes);
        converter(dtype, DataType::F64)?(&bytes, &mut back);
        let stored = f64::from_le_bytes(back);
        // Rounded, but not overflowed.
        stored.is_finite() == value.is_finite() && stored.is_nan() == value.is_nan()
    } else {
        let value: i64 = text.parse().ok()?;
        converter(DataType::I64, dtype)?(&value.to_le_bytes(), &mut bytes);
        converter(dtype, DataType::I64)?(&bytes, &mut back);
        let unsigned = dtype == DataType::U64 && value < 0;
        i64::from_le_bytes(back) == value && !unsigned
    };
    same.then_some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ModelInfo, Port, PortShape};
    use tenon_dma::VariableId;
    use tenon_tensor::size::SizeExpr;

    /// A model of `ids: i64[batch, seq]` and `scale: f16[2]`.
    fn member(buckets: &[(&str, &[u64])], paddings: &[(&str, &str)]) -> (TenonMember, Symbols) {
        let mut symbols = Symbols::default();
        let batch = symbols.add("batch", 1..=8).unwrap();
        let seq = symbols.add("seq", 1..=512).unwrap();
        let mut member = TenonMember::new(ModelInfo::default());
        let port = |name: &str, dtype, shape| Port {
            name: name.into(),
            var_id: VariableId(0),
            dtype,
            shape,
        };
        let extents = [SizeExpr::from(batch), SizeExpr::from(seq)];
        let ids = PortShape::new(&symbols, &extents);
        let scale = PortShape::from([2].as_slice());
        member.inputs = vec![
            port("ids", DataType::I64, ids),
            port("scale", DataType::F16, scale),
        ];
        let bucket = |(symbol, sizes): &(&str, &[u64])| BucketInfo {
            symbol: (*symbol).into(),
            sizes: sizes.to_vec(),
        };
        member.buckets = buckets.iter().map(bucket).collect();
        let padding = |(input, value): &(&str, &str)| PaddingInfo {
            input: (*input).into(),
            value: (*value).into(),
        };
        member.paddings = paddings.iter().map(padding).collect();
        (member, symbols)
    }

    fn read(buckets: &[(&str, &[u64])], paddings: &[(&str, &str)]) -> Result<Buckets> {
        let (member, symbols) = member(buckets, paddings);
        Buckets::new(&member, &symbols)
    }

    #[test]
    fn buckets_have_combinations_and_paddings() {
        let found = read(&[("seq", &[64, 128]), ("batch", &[1, 4])], &[("ids", "-7")]).unwrap();
        let expected = [[1, 64], [1, 128], [4, 64], [4, 128]];
        assert_eq!(found.combinations(), expected.map(|pair| pair.to_vec()));
        assert_eq!(found.padding(0), Some(&(-7i64).to_le_bytes()[..]));
        assert_eq!(found.padding(1), None);
        let one = read(&[("seq", &[64])], &[]).unwrap();
        assert!(one.combinations().is_empty() && !one.is_empty());
        assert_eq!(one.sizes(SymbolId(1)), [64]);
        assert!(read(&[], &[]).unwrap().is_empty());
    }

    #[test]
    fn wrong_buckets_and_paddings_are_named_together() {
        let many: Vec<u64> = (1..=33).collect();
        let huge = [1, u64::MAX];
        for (buckets, paddings, parts) in [
            (
                &[("len", &[1][..])][..],
                &[][..],
                &["buckets[0]", "expected batch, seq, found len"][..],
            ),
            (
                &[("seq", &[]), ("batch", &[9])],
                &[],
                &["1 to 64", "buckets[1]", "1 to 8, found 9"],
            ),
            (&[("seq", &[4, 4])], &[], &["do not ascend: found [4, 4]"]),
            (&[("seq", &[8, 4])], &[], &["do not ascend"]),
            (
                &[("seq", &huge)],
                &[],
                &["1 to 512, found 18446744073709551615"],
            ),
            (
                &[("seq", &[1]), ("seq", &[2])],
                &[],
                &["buckets[1]", "are listed twice"],
            ),
            (
                &[("seq", &many), ("batch", &[1, 2])],
                &[],
                &["at most 64, found 66"],
            ),
            (
                &[("seq", &[64])],
                &[("mask", "0")],
                &["paddings[0]", "expected ids, scale, found mask"],
            ),
            (
                &[("seq", &[64])],
                &[("scale", "0")],
                &["'scale' has no dimension with buckets"],
            ),
            (
                &[],
                &[("ids", "0")],
                &["'ids' has no dimension with buckets"],
            ),
            (
                &[("seq", &[64])],
                &[("ids", "0.5")],
                &["no element of its type: expected i64, found 0.5"],
            ),
            (
                &[("seq", &[64])],
                &[("ids", "0"), ("ids", "1")],
                &["paddings[1]", "two paddings"],
            ),
        ] {
            let error = read(buckets, paddings).unwrap_err().to_string();
            for part in parts {
                assert!(error.contains(part), "{part}: {error}");
            }
        }
    }

    #[test]
    fn elements_are_those_of_their_type() {
        let bytes = |dtype, text: &str| element(dtype, text).map(|bytes| bytes.to_vec());
        assert_eq!(
            bytes(DataType::F32, "-inf"),
            Some(f32::NEG_INFINITY.to_le_bytes().to_vec())
        );
        assert_eq!(bytes(DataType::F16, "-65504"), Some(vec![0xff, 0xfb]));
        assert_eq!(bytes(DataType::U8, "255"), Some(vec![255]));
        assert_eq!(bytes(DataType::Bool, "1"), Some(vec![1]));
        for (dtype, text) in [
            (DataType::F16, "1e6"),
            (DataType::I8, "128"),
            (DataType::U64, "-1"),
            (DataType::Bool, "2"),
            (DataType::I4, "1"),
            (DataType::C64, "1"),
            (DataType::String, "a"),
            (DataType::I32, ""),
        ] {
            assert_eq!(bytes(dtype, text), None, "{dtype} {text}");
        }
    }
}
