//! DFT, STFT and MelWeightMatrix, compared with the reference backend.

mod common;
#[path = "common/operands.rs"]
mod operands;

use common::{Case, LEVELS, Random};
use operands::floats;
use tenon_tensor::DataType;

/// The types and the tolerances of their results.
const TYPES: [(DataType, f64); 4] = [
    (DataType::F32, 2e-5),
    (DataType::F64, 1e-11),
    (DataType::F16, 2e-3),
    (DataType::BF16, 1.2e-2),
];

#[test]
fn transforms_along_any_dimension() {
    let mut random = Random::new(61);
    for round in 0..150 {
        let (dtype, tolerance) = TYPES[round % 4];
        let rank = random.between(2, 4);
        let mut shape: Vec<usize> = (0..rank).map(|_| random.between(1, 4)).collect();
        let axis = random.below(rank - 1);
        shape[axis] = random.pick(&[1, 2, 3, 4, 7, 8, 12, 31, 64, 97, 100, 210]);
        let (inverse, one_sided) = (random.below(2) == 1, random.below(2) == 1);
        shape[rank - 1] = if one_sided && !inverse {
            1
        } else {
            random.between(1, 2)
        };
        if one_sided && inverse {
            shape[axis] = shape[axis].max(2);
        }
        let case = floats(Case::new("DFT"), &mut random, dtype, &shape);
        let case = if random.below(2) == 1 {
            case.constant(&[], &[random.between(1, 130) as i64])
        } else {
            case.none()
        };
        let axis = axis as i64 - if random.below(2) == 1 { rank as i64 } else { 0 };
        case.constant(&[], &[axis])
            .int("inverse", inverse.into())
            .int("onesided", one_sided.into())
            .outputs(1)
            .agrees_with_reference(tolerance);
    }
}

#[test]
fn frames_of_a_signal() {
    let mut random = Random::new(62);
    for round in 0..60 {
        let (dtype, tolerance) = TYPES[round % 4];
        let (batch, samples) = (random.between(1, 3), random.between(1, 300));
        let length = random.between(1, samples);
        let one_sided = random.below(2);
        let parts = if one_sided == 1 {
            1
        } else {
            random.between(1, 2)
        };
        let case = Case::new("STFT").int("onesided", one_sided as i64);
        let case = floats(case, &mut random, dtype, &[batch, samples, parts]);
        let case = case.constant(&[], &[random.between(1, 40) as i64]);
        let window = random.below(2) == 1;
        let case = if window {
            floats(case, &mut random, dtype, &[length])
        } else {
            case.none()
        };
        let case = if !window || random.below(2) == 1 {
            case.constant(&[], &[length as i64])
        } else {
            case
        };
        case.outputs(1).agrees_with_reference(4.0 * tolerance);
    }
}

#[test]
fn mel_weights() {
    for (bands, length, rate, low, high) in [
        (8i64, 16i64, 8192i64, 0f32, 4096f32),
        (40, 400, 16000, 20.0, 7600.0),
        (1, 1, 2, 0.0, 0.5),
    ] {
        Case::new("MelWeightMatrix")
            .constant(&[], &[bands])
            .constant(&[], &[length])
            .input(&[], &[rate])
            .input(&[], &[low])
            .input(&[], &[high])
            .outputs(1)
            .agrees_with_reference(1e-6);
    }
    let outside = Case::new("MelWeightMatrix")
        .constant(&[], &[8i64])
        .constant(&[], &[16i64])
        .input(&[], &[100i64])
        .input(&[], &[0f32])
        .input(&[], &[1e9f32])
        .outputs(1);
    assert!(outside.bind(LEVELS[0]).try_execute().is_err());
}

#[test]
fn a_transform_beyond_any_memory_is_refused() {
    let case = Case::new("DFT")
        .input(&[1, 2, 1], &[0f32; 2])
        .constant(&[], &[1i64 << 40])
        .constant(&[], &[1i64])
        .outputs(1);
    assert!(case.supported(LEVELS[2]).is_err());
}
