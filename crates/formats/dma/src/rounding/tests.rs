use super::*;
use DataType::*;

const NARROW: [DataType; 8] = [
    F16, BF16, F8E3M4, F8E4M3, F8E4M3Fn, F8E4M3FnUz, F8E5M2, F8E5M2FnUz,
];

fn cast(to: DataType, seed: u64) -> RoundedCast {
    RoundedCast::new(F32, to, &Arc::new(StochasticRounding::new(seed))).unwrap()
}

/// The cast values in binary64.
fn rounded(cast: &RoundedCast, random: ExecutionRandom, values: &[f32]) -> Vec<f64> {
    let from: Vec<u8> = values
        .iter()
        .flat_map(|number| number.to_le_bytes())
        .collect();
    let mut to = vec![0; values.len() * cast.to];
    cast.convert(random, 0, &from, &mut to);
    let mut wide = vec![0; values.len() * 8];
    (cast.decode)(&to, &mut wide);
    super::doubles(&wide).collect()
}

/// The finite non-negative values of a type in ascending order.
fn finite_values(to: DataType) -> Vec<f64> {
    let bytes = to.bits() / 8;
    let decode = converter(to, F64).unwrap();
    let number = |code: u16| {
        let mut wide = [0; 8];
        decode(&code.to_le_bytes()[..bytes], &mut wide);
        f64::from_le_bytes(wide)
    };
    let last = (1u32 << (to.bits() - 1)) as u16;
    let mut all: Vec<f64> = (0..last)
        .map(number)
        .filter(|number| number.is_finite())
        .collect();
    all.sort_by(f64::total_cmp);
    all
}

#[test]
fn a_value_is_rounded_to_one_of_its_neighbours_and_the_mean_is_the_value() {
    const COUNT: usize = 40_000;
    for to in NARROW {
        let (cast, all) = (cast(to, 1), finite_values(to));
        let places = [0, 1, 3, all.len() / 3, all.len() / 2, all.len() - 2];
        for (at, share) in places.into_iter().zip([0.5, 0.125, 0.75, 0.25, 0.9, 0.3]) {
            let (low, high) = (all[at], all[at + 1]);
            let exact = (low + (high - low) * share) as f32;
            // Values too small for binary32 are skipped.
            let share = (f64::from(exact) - low) / (high - low);
            if !(low < f64::from(exact) && f64::from(exact) < high) {
                continue;
            }
            for sign in [1.0, -1.0] {
                let made = rounded(&cast, cast.next_random(), &vec![exact * sign as f32; COUNT]);
                let up = made.iter().filter(|&&number| number == high * sign).count();
                let down = made.iter().filter(|&&number| number == low * sign).count();
                assert_eq!(up + down, COUNT, "{to} {exact}");
                // Five standard deviations of a binomial distribution.
                let tolerance = 5.0 * (share * (1.0 - share) / COUNT as f64).sqrt();
                let found = up as f64 / COUNT as f64;
                assert!(
                    (found - share).abs() < tolerance,
                    "{to} {exact}: {found} for {share}"
                );
            }
        }
    }
}

#[test]
fn representable_and_non_finite_and_out_of_range_values_are_rounded_to_nearest() {
    for to in NARROW {
        let (cast, all) = (cast(to, 2), finite_values(to));
        let last = *all.last().unwrap() as f32;
        let mut values: Vec<f32> = all.iter().map(|&number| number as f32).collect();
        values.retain(|number| number.is_normal() || *number == 0.0);
        values.extend([f32::INFINITY, f32::NAN, last * 1.5, f32::MAX]);
        values.extend(values.clone().iter().map(|number| -number));
        let plain = converter(F32, to).unwrap();
        let from: Vec<u8> = values
            .iter()
            .flat_map(|number| number.to_le_bytes())
            .collect();
        let mut expected = vec![0; values.len() * cast.to];
        plain(&from, &mut expected);
        let mut found = vec![0; expected.len()];
        cast.convert(cast.next_random(), 0, &from, &mut found);
        assert_eq!(found, expected, "{to}");
    }
}

#[test]
fn bf16_of_binary32_is_its_upper_half_or_the_next_value() {
    let cast = cast(BF16, 3);
    let values: Vec<f32> = (0..5000u32)
        .map(|number| f32::from_bits(number * 0x6_91F3))
        .collect();
    let finite: Vec<f32> = values
        .into_iter()
        .filter(|number| number.is_finite())
        .collect();
    for (number, made) in finite
        .iter()
        .zip(rounded(&cast, cast.next_random(), &finite))
    {
        let bits = number.to_bits() & 0xFFFF_0000;
        let ends = [bits, bits + 0x1_0000].map(|bits| f64::from(f32::from_bits(bits)));
        assert!(
            ends.contains(&made) || number.abs() > 3.38e38,
            "{number}: {made}"
        );
    }
}

#[test]
fn the_seed_determines_the_sequence_of_roundings() {
    let values = vec![1.001f32; 1000];
    let run = |seed| {
        let cast = cast(BF16, seed);
        [0, 1].map(|_| rounded(&cast, cast.next_random(), &values))
    };
    assert_eq!(run(5), run(5));
    assert_ne!(run(5), run(6));
    let [first, second] = run(5);
    assert_ne!(first, second);
    // The result does not depend on how the elements are split.
    let cast = cast(BF16, 5);
    let random = cast.next_random();
    let from: Vec<u8> = values
        .iter()
        .flat_map(|number| number.to_le_bytes())
        .collect();
    let (mut whole, mut parts) = (vec![0; 2000], vec![0; 2000]);
    cast.convert(random, 0, &from, &mut whole);
    cast.convert(random, 0, &from[..4 * 301], &mut parts[..2 * 301]);
    cast.convert(random, 301, &from[4 * 301..], &mut parts[2 * 301..]);
    assert_eq!(whole, parts);
}

#[test]
fn exact_casts_and_integers_have_no_stochastic_rounding() {
    let rounding = Arc::new(StochasticRounding::new(1));
    for (from, to) in [(F16, F32), (F32, F64), (I32, BF16), (BF16, BF16), (F32, I8)] {
        assert!(
            RoundedCast::new(from, to, &rounding).is_none(),
            "{from} {to}"
        );
    }
}
