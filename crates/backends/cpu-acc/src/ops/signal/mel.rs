//! The weights of mel filter banks.

use crate::ops::{Kernel, UnpreparedWorkload};
use crate::signature::{Signature, refuse};
use tenon_backend::{Operands, Reason, Refusal, Workload};
use tenon_base::{Error, ErrorKind, Result, stop};
use tenon_tensor::DataType;

/// MelWeightMatrix: triangular filters between adjacent edges, which are equidistant on the mel scale.
struct MelWeights {
    rows: usize,
    bands: usize,
    /// The length of the transform.
    length: f64,
    /// The types of the sample rate, the lower and the upper edge.
    types: [DataType; 3],
}

/// The kernel of MelWeightMatrix.
pub(in crate::ops) fn mel(signature: &Signature<'_>) -> Result<Box<dyn Kernel>, Refusal> {
    let &[rows, bands] = &signature.only_output()?[..] else {
        return Err(refuse(
            "no kernel for an output of other than two dimensions",
        ));
    };
    let length = signature.constant_ints(1)?;
    let length = length.and_then(|ints| ints.first().copied()).unwrap_or(0);
    let mut types = [DataType::F32; 3];
    for (nth, dtype) in types.iter_mut().enumerate() {
        *dtype = signature.input(2 + nth)?.dtype();
        let is_known = matches!(
            dtype,
            DataType::I32 | DataType::I64 | DataType::F32 | DataType::F64
        );
        if !is_known {
            let (input, found) = (2 + nth, *dtype);
            return Err(Reason::InputType { input, found }.into());
        }
    }
    Ok(Box::new(MelWeights {
        rows,
        bands,
        length: length as f64,
        types,
    }))
}

impl UnpreparedWorkload for MelWeights {}

impl Workload for MelWeights {
    fn execute(&self, operands: &mut Operands<'_>) -> Result<()> {
        let (inputs, mut outputs) = operands.split();
        let first = |nth: usize| -> Result<f64> {
            let index = 2 + nth;
            Ok(match self.types[nth] {
                DataType::I32 => inputs.slice::<i32>(index)?[0].into(),
                DataType::I64 => inputs.slice::<i64>(index)?[0] as f64,
                DataType::F64 => inputs.slice::<f64>(index)?[0],
                _ => inputs.slice::<f32>(index)?[0].into(),
            })
        };
        let (rate, low, high) = (first(0)?, first(1)?, first(2)?);
        let to_mel = |hertz: f64| 2595.0 * (hertz / 700.0).ln_1p() / std::f64::consts::LN_10;
        let width = (to_mel(high) - to_mel(low)) / (self.bands + 2) as f64;
        let edge = |nth: usize| -> Result<usize> {
            let mel = to_mel(low) + nth as f64 * width;
            let hertz = 700.0 * (mel / 2595.0 * std::f64::consts::LN_10).exp_m1();
            let row = ((self.length + 1.0) * hertz / rate).floor();
            let inside = (0.0..self.rows as f64).contains(&row);
            inside.then_some(row as usize).ok_or_else(|| {
                let text = "an edge of a mel band is out of the spectrum";
                Error::new(ErrorKind::OutOfBounds, text)
                    .expected(format_args!(
                        "0 to {} of the spectrum",
                        self.rows as i64 - 1
                    ))
                    .found(row)
            })
        };
        let to = outputs.slice::<f32>(0)?;
        to.fill(0.0);
        let mut edges = [edge(0)?, edge(1)?];
        for band in 0..self.bands {
            stop::checkpoint();
            let [left, middle] = edges;
            let right = edge(band + 2)?;
            edges = [middle, right];
            to[middle * self.bands + band] = 1.0;
            for row in left..middle {
                let share = (row - left) as f64 / (middle - left) as f64;
                to[row * self.bands + band] = share as f32;
            }
            for row in middle + 1..right {
                let share = (right - row) as f64 / (right - middle) as f64;
                to[row * self.bands + band] = share as f32;
            }
        }
        Ok(())
    }
}
