//! Signals: Fourier transforms and mel scales. Complex values are a last dimension of 2.

use super::rows::*;
use super::shapes::{
    Inferred, axis, dtype_attribute, expect_scalar, expect_shape, extent, invalid, one, positive,
    product, rank,
};
use crate::{DataType, Inference};
use tenon_base::Result;

operators! { "signal"
    /// The discrete Fourier transform along an axis (default the last but one) of a tensor whose
    /// last dimension is 1 (real) or 2 (complex).
    Compute "DFT"
        (required("input", FLOATS), known(optional("dft_length", INDICES)),
         known(optional("axis", I64)))
        -> (required("output", FLOATS))
        [
            int("inverse", "1: the inverse transform; default 0"),
            int("onesided", "1: for real signals, only the distinct frequencies; default 0"),
        ] dft;
    /// Fourier transforms of frames of a signal [B, length, 1 or 2]: [B, frames, frequencies, 2].
    Compute "STFT"
        (required("signal", FLOATS), known(required("frame_step", INDICES)),
         optional("window", FLOATS), known(optional("frame_length", INDICES)))
        -> (required("output", FLOATS))
        [int("onesided", "1: only the distinct frequencies; default 1")] stft;
    /// Weights from a spectrum to mel bands: [dft_length / 2 + 1, num_mel_bins].
    Compute "MelWeightMatrix"
        (known(required("num_mel_bins", INDICES)), known(required("dft_length", INDICES)),
         required("sample_rate", INDICES), required("lower_edge_hertz", FLOATS),
         required("upper_edge_hertz", FLOATS))
        -> (required("output", NUMERIC))
        [string("output_datatype", "the element type; default f32")] mel;
}

/// The integer in an optional scalar input.
fn scalar(node: &Inference<'_>, index: usize, name: &str) -> Result<Option<i64>> {
    expect_scalar(node, index, name)?;
    Ok(node.ints(index)?.and_then(|values| values.first().copied()))
}

fn dft(node: &Inference<'_>) -> Inferred {
    let input = node.input(0)?;
    let dims = rank(input, "input", 2..=usize::MAX)?;
    let mut shape = input.shape().to_vec();
    let parts = shape[dims - 1];
    if parts != 1 && parts != 2 {
        return Err(invalid("input 'input' has the wrong last dimension")
            .expected("1 (real) or 2 (complex)")
            .found(parts));
    }
    let along = axis(scalar(node, 2, "axis")?.unwrap_or(-2), dims, "input 'axis'")?;
    if along == dims - 1 {
        return Err(invalid("input 'axis' is the dimension of complex numbers").found(along));
    }
    let one_sided = node.attributes.flag("onesided", false)?;
    let inverse = node.attributes.flag("inverse", false)?;
    let length = match scalar(node, 1, "dft_length")? {
        Some(given) => positive(given, "input 'dft_length'")?,
        // From the distinct frequencies to an even number of samples.
        None if one_sided && inverse => product(2, shape[along].saturating_sub(1), "the output")?,
        None => shape[along],
    };
    if one_sided && !inverse && parts == 2 {
        return Err(invalid("attribute 'onesided' needs a real signal").found("a complex one"));
    }
    (shape[along], shape[dims - 1]) = match (one_sided, inverse) {
        (true, false) => (length / 2 + 1, 2),
        (true, true) => (length, 1),
        (false, _) => (length, 2),
    };
    one(input.dtype(), shape)
}

fn stft(node: &Inference<'_>) -> Inferred {
    let signal = node.input(0)?;
    rank(signal, "signal", 3..=3)?;
    let [batch, samples, parts] = [signal.shape()[0], signal.shape()[1], signal.shape()[2]];
    if parts != 1 && parts != 2 {
        return Err(invalid("input 'signal' has the wrong last dimension")
            .expected("1 (real) or 2 (complex)")
            .found(parts));
    }
    let step = positive(
        scalar(node, 1, "frame_step")?.unwrap_or(0),
        "input 'frame_step'",
    )?;
    let window = node.optional(2);
    let frame = match (scalar(node, 3, "frame_length")?, window) {
        (Some(given), _) => positive(given, "input 'frame_length'")?,
        (None, Some(window)) => {
            rank(window, "window", 1..=1)?;
            window.shape()[0]
        }
        (None, None) => samples,
    };
    if let Some(window) = window {
        expect_shape(window, "window", &[frame])?;
    }
    if frame > samples {
        return Err(invalid("a frame is longer than the signal")
            .expected(format_args!("at most {samples}"))
            .found(frame));
    }
    let one_sided = node.attributes.flag("onesided", true)?;
    let frequencies = if one_sided { frame / 2 + 1 } else { frame };
    one(
        signal.dtype(),
        [batch, (samples - frame) / step + 1, frequencies, 2],
    )
}

fn mel(node: &Inference<'_>) -> Inferred {
    for (index, name) in [
        (2, "sample_rate"),
        (3, "lower_edge_hertz"),
        (4, "upper_edge_hertz"),
    ] {
        expect_scalar(node, index, name)?;
    }
    let bins = extent(
        scalar(node, 0, "num_mel_bins")?.unwrap_or(0),
        "input 'num_mel_bins'",
    )?;
    let length = extent(
        scalar(node, 1, "dft_length")?.unwrap_or(0),
        "input 'dft_length'",
    )?;
    one(
        dtype_attribute(node, "output_datatype", DataType::F32)?,
        [length / 2 + 1, bins],
    )
}
