//! Elements of tensors with their exact value, for text and JSON.

use serde_json::{Value, json};
use std::fmt;
use tenon_base::{Error, ErrorKind, Result};
use tenon_tensor::{DataType, Tensor, TensorType, convert};

/// Significant decimal digits that distinguish all values of any type of 16 bits or fewer.
const MOST_DIGITS: usize = 5;

/// An element of a tensor, exactly.
#[derive(Debug, Clone, PartialEq)]
pub enum Element {
    /// Of type bool.
    Bool(bool),
    /// Of any integer type.
    Integer(i128),
    /// Of any floating-point type.
    Real(Decimal),
    /// Of a complex type: real and imaginary part.
    Complex(Decimal, Decimal),
    /// A string.
    Text(String),
}

/// A floating-point value with the fewest digits that identify it in its type.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Decimal(f64);

impl Element {
    /// As JSON: a boolean, a string or a number; NaN and infinities, which JSON lacks, as the texts `NaN`,
    /// `inf` and `-inf`; a complex number as an array of its two parts.
    pub fn json(&self) -> Value {
        match self {
            Element::Bool(truth) => json!(truth),
            Element::Integer(number) => match i64::try_from(*number) {
                Ok(number) => json!(number),
                // No type is wider.
                Err(_) => json!(u64::try_from(*number).unwrap_or(u64::MAX)),
            },
            Element::Real(number) => number.json(),
            Element::Complex(real, imaginary) => json!([real.json(), imaginary.json()]),
            Element::Text(text) => json!(text),
        }
    }
}

impl fmt::Display for Element {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Element::Bool(truth) => write!(f, "{truth}"),
            Element::Integer(number) => write!(f, "{number}"),
            Element::Real(number) => write!(f, "{number}"),
            Element::Complex(real, imaginary) => write!(f, "({real}, {imaginary})"),
            Element::Text(text) => write!(f, "{text:?}"),
        }
    }
}

impl Decimal {
    /// The value as JSON, as in [`Element::json`].
    pub fn json(self) -> Value {
        if self.0.is_finite() {
            json!(self.0)
        } else {
            json!(self.to_string())
        }
    }

    /// The value of an f32.
    fn of_f32(number: f32) -> Self {
        // The shortest text of the f32, read as f64, has that same shortest text.
        Self(format!("{number:?}").parse().unwrap_or(f64::from(number)))
    }
}

impl From<f64> for Decimal {
    fn from(number: f64) -> Self {
        Self(number)
    }
}

impl fmt::Display for Decimal {
    /// `0.1`, `3.0`, `1e-7`, `NaN`, `-inf`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.0)
    }
}

/// The first `most` elements of a tensor.
pub fn elements(tensor: &Tensor, most: usize) -> Result<Vec<Element>> {
    if let Some(strings) = tensor.strings() {
        let texts = strings
            .take(most)
            .map(|text| Element::Text(text.to_owned()));
        return Ok(texts.collect());
    }
    let part = first(tensor, most)?;
    let bytes = part.bytes();
    let reals = |list: Vec<Decimal>| list.into_iter().map(Element::Real).collect();
    Ok(match part.dtype() {
        DataType::Bool => bytes.iter().map(|&byte| Element::Bool(byte != 0)).collect(),
        DataType::U64 => {
            let chunks = bytes.as_chunks().0.iter();
            let number = |&bytes| Element::Integer(u64::from_le_bytes(bytes).into());
            chunks.map(number).collect()
        }
        dtype if dtype.is_integer() => {
            let wide = convert(&part, DataType::I64)?;
            let integers = wide.as_slice::<i64>().unwrap_or_default().iter();
            integers.map(|&it| Element::Integer(it.into())).collect()
        }
        DataType::F32 | DataType::F32r | DataType::Tf32 => reals(singles(bytes)),
        DataType::F64 => reals(doubles(bytes)),
        DataType::C64 => pairs(&singles(bytes)),
        DataType::C128 => pairs(&doubles(bytes)),
        dtype if dtype.is_float() => reals(narrow(&part)?),
        dtype => {
            let text = format!("elements of type {dtype} cannot be shown");
            return Err(Error::new(ErrorKind::Unsupported, text));
        }
    })
}

/// The first `most` elements as a tensor of one dimension.
fn first(tensor: &Tensor, most: usize) -> Result<Tensor> {
    let count = tensor.ty().elements().min(most);
    let ty = TensorType::new(tensor.dtype(), [count])?;
    let part = tensor.buffer().slice(0..ty.bytes());
    Tensor::new(
        ty,
        part.ok_or_else(|| Error::new(ErrorKind::Internal, "a tensor shorter than its type"))?,
    )
}

fn singles(bytes: &[u8]) -> Vec<Decimal> {
    let chunks = bytes.as_chunks().0.iter();
    let number = |&bytes| Decimal::of_f32(f32::from_le_bytes(bytes));
    chunks.map(number).collect()
}

fn doubles(bytes: &[u8]) -> Vec<Decimal> {
    let chunks = bytes.as_chunks().0.iter();
    chunks
        .map(|&bytes| Decimal(f64::from_le_bytes(bytes)))
        .collect()
}

fn pairs(parts: &[Decimal]) -> Vec<Element> {
    let (pairs, _) = parts.as_chunks();
    let pair = |&[real, imaginary]: &[Decimal; 2]| Element::Complex(real, imaginary);
    pairs.iter().map(pair).collect()
}

/// The elements of a type of 16 bits or fewer: the shortest decimals that round to them.
fn narrow(part: &Tensor) -> Result<Vec<Decimal>> {
    let exact = wide(part)?;
    let mut found: Vec<Option<f64>> = exact
        .iter()
        .map(|number| (!number.is_finite()).then_some(*number))
        .collect();
    for digits in 1..=MOST_DIGITS {
        let short = |number: &f64| {
            format!("{number:.*e}", digits - 1)
                .parse()
                .unwrap_or(*number)
        };
        let short: Vec<f64> = exact.iter().map(short).collect();
        let rounded = Tensor::from_slice([short.len()], &short)?;
        let back = wide(&convert(&rounded, part.dtype())?)?;
        for ((found, short), (back, exact)) in
            found.iter_mut().zip(short).zip(back.iter().zip(&exact))
        {
            if found.is_none() && back == exact {
                *found = Some(short);
            }
        }
    }
    let found = found.into_iter().zip(exact);
    Ok(found
        .map(|(short, exact)| Decimal(short.unwrap_or(exact)))
        .collect())
}

fn wide(tensor: &Tensor) -> Result<Vec<f64>> {
    let wide = convert(tensor, DataType::F64)?;
    Ok(wide.as_slice::<f64>().unwrap_or_default().to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(tensor: &Tensor) -> String {
        let elements = elements(tensor, usize::MAX).unwrap();
        let texts: Vec<String> = elements.iter().map(Element::to_string).collect();
        texts.join(" ")
    }

    fn json(tensor: &Tensor) -> String {
        let elements = elements(tensor, usize::MAX).unwrap();
        Value::from_iter(elements.iter().map(Element::json)).to_string()
    }

    #[test]
    fn integers_and_booleans_are_exact() {
        let odd = (1i64 << 53) + 1;
        let tensor = Tensor::from_slice([3], &[odd, i64::MIN, -1]).unwrap();
        assert_eq!(text(&tensor), "9007199254740993 -9223372036854775808 -1");
        assert_eq!(json(&tensor), "[9007199254740993,-9223372036854775808,-1]");
        let tensor = Tensor::from_slice([2], &[u64::MAX, 0]).unwrap();
        assert_eq!(json(&tensor), "[18446744073709551615,0]");
        let tensor = Tensor::from_bools([2], &[true, false]).unwrap();
        assert_eq!(
            (text(&tensor), json(&tensor)),
            ("true false".into(), "[true,false]".into())
        );
        let ty = TensorType::new(DataType::I4, [3]).unwrap();
        let bytes = tenon_tensor::BufferMut::copy_of(&[0x7f, 0x08]).unwrap();
        assert_eq!(text(&Tensor::new(ty, bytes.freeze()).unwrap()), "-1 7 -8");
    }

    #[test]
    fn floats_have_the_digits_of_their_type() {
        let tensor =
            Tensor::from_slice([4], &[0.1f32, 1e-30, f32::NAN, f32::NEG_INFINITY]).unwrap();
        assert_eq!(text(&tensor), "0.1 1e-30 NaN -inf");
        assert_eq!(json(&tensor), "[0.1,1e-30,\"NaN\",\"-inf\"]");
        let tensor = Tensor::from_slice([3], &[0.1f64, 1.0 / 3.0, -0.0]).unwrap();
        assert_eq!(text(&tensor), "0.1 0.3333333333333333 -0.0");
        let values = Tensor::from_slice([5], &[0.1f32, 1.0 / 3.0, 65504.0, 6e-8, f32::INFINITY]);
        let half = convert(&values.unwrap(), DataType::F16).unwrap();
        assert_eq!(text(&half), "0.1 0.3333 65500.0 6e-8 inf");
    }

    #[test]
    fn every_narrow_number_reads_back() {
        for &dtype in DataType::ALL {
            if !dtype.is_float() || dtype.bits() > 16 {
                continue;
            }
            let count = 1usize << dtype.bits();
            let ty = TensorType::new(dtype, [count]).unwrap();
            let mut bytes = tenon_tensor::BufferMut::zeroed(ty.bytes()).unwrap();
            for code in 0..count {
                let first = code * dtype.bits();
                let code = (code as u16) << (first % 8);
                let element = bytes[first / 8..].iter_mut().zip(code.to_le_bytes());
                element.for_each(|(byte, bits)| *byte |= bits);
            }
            let tensor = Tensor::new(ty, bytes.freeze()).unwrap();
            let shown = text(&tensor);
            let shown: Vec<f64> = shown.split(' ').map(|text| text.parse().unwrap()).collect();
            let shown = Tensor::from_slice([count], &shown).unwrap();
            let back = wide(&convert(&shown, dtype).unwrap()).unwrap();
            for (found, expected) in back.iter().zip(wide(&tensor).unwrap()) {
                assert!(
                    *found == expected || expected.is_nan(),
                    "{dtype}: {found} {expected}"
                );
            }
        }
    }

    #[test]
    fn strings_are_quoted() {
        let tensor = Tensor::from_strings([3], &["a", "\"\n", ""]).unwrap();
        assert_eq!(text(&tensor), r#""a" "\"\n" """#);
        assert_eq!(json(&tensor), r#"["a","\"\n",""]"#);
        assert_eq!(elements(&tensor, 1).unwrap().len(), 1);
    }

    #[test]
    fn the_first_elements_are_enough() {
        let tensor = Tensor::from_slice([2, 2], &[1i8, -2, 3, 4]).unwrap();
        let two = [Element::Integer(1), Element::Integer(-2)];
        assert_eq!(elements(&tensor, 2).unwrap(), two);
    }
}
