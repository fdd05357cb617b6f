use super::*;
use DataType::*;

const NARROW: [DataType; 8] = [
    F16, BF16, F8E3M4, F8E4M3, F8E4M3Fn, F8E4M3FnUz, F8E5M2, F8E5M2FnUz,
];

fn cast(to: DataType, seed: u64) -> RoundedCast {
    RoundedCast::new(F32, to, &Arc::new(StochasticRounding::new(seed))).unwrap()
}

/// What numbers become, in binary64.
fn rounded(cast: &RoundedCast, chances: Chances, numbers: &[f32]) -> Vec<f64> {
    let from: Vec<u8> = numbers
        .iter()
        .flat_map(|number| number.to_le_bytes())
        .collect();
    let mut to = vec![0; numbers.len() * cast.to];
    cast.convert(chances, 0, &from, &mut to);
    let mut wide = vec![0; numbers.len() * 8];
    (cast.decode)(&to, &mut wide);
    super::numbers(&wide).collect()
}

/// Every finite number of a type that is not below zero, in order, from its codes.
fn all(to: DataType) -> Vec<f64> {
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
fn a_number_becomes_one_of_its_two_neighbours_and_the_mean_is_the_number() {
    const COUNT: usize = 40_000;
    for to in NARROW {
        let (cast, all) = (cast(to, 1), all(to));
        let places = [0, 1, 3, all.len() / 3, all.len() / 2, all.len() - 2];
        for (at, share) in places.into_iter().zip([0.5, 0.125, 0.75, 0.25, 0.9, 0.3]) {
            let (low, high) = (all[at], all[at + 1]);
            let exact = (low + (high - low) * share) as f32;
            // In binary32, which has no room for numbers this small, it may be another one.
            let share = (f64::from(exact) - low) / (high - low);
            if !(low < f64::from(exact) && f64::from(exact) < high) {
                continue;
            }
            for sign in [1.0, -1.0] {
                let made = rounded(&cast, cast.chances(), &vec![exact * sign as f32; COUNT]);
                let up = made.iter().filter(|&&number| number == high * sign).count();
                let down = made.iter().filter(|&&number| number == low * sign).count();
                assert_eq!(up + down, COUNT, "{to} {exact}");
                // Five standard deviations of a binomial distribution.
                let room = 5.0 * (share * (1.0 - share) / COUNT as f64).sqrt();
                let found = up as f64 / COUNT as f64;
                assert!(
                    (found - share).abs() < room,
                    "{to} {exact}: {found} for {share}"
                );
            }
        }
    }
}

#[test]
fn what_is_exact_or_not_finite_or_too_large_is_rounded_to_nearest() {
    for to in NARROW {
        let (cast, all) = (cast(to, 2), all(to));
        let last = *all.last().unwrap() as f32;
        let mut numbers: Vec<f32> = all.iter().map(|&number| number as f32).collect();
        numbers.retain(|number| number.is_normal() || *number == 0.0);
        numbers.extend([f32::INFINITY, f32::NAN, last * 1.5, f32::MAX]);
        numbers.extend(numbers.clone().iter().map(|number| -number));
        let plain = converter(F32, to).unwrap();
        let from: Vec<u8> = numbers
            .iter()
            .flat_map(|number| number.to_le_bytes())
            .collect();
        let mut expected = vec![0; numbers.len() * cast.to];
        plain(&from, &mut expected);
        let mut found = vec![0; expected.len()];
        cast.convert(cast.chances(), 0, &from, &mut found);
        assert_eq!(found, expected, "{to}");
    }
}

#[test]
fn bf16_of_binary32_is_its_upper_half_or_the_next() {
    let cast = cast(BF16, 3);
    let numbers: Vec<f32> = (0..5000u32)
        .map(|number| f32::from_bits(number * 0x6_91F3))
        .collect();
    let finite: Vec<f32> = numbers
        .into_iter()
        .filter(|number| number.is_finite())
        .collect();
    for (number, made) in finite.iter().zip(rounded(&cast, cast.chances(), &finite)) {
        let bits = number.to_bits() & 0xFFFF_0000;
        let ends = [bits, bits + 0x1_0000].map(|bits| f64::from(f32::from_bits(bits)));
        assert!(
            ends.contains(&made) || number.abs() > 3.38e38,
            "{number}: {made}"
        );
    }
}

#[test]
fn one_seed_gives_one_succession() {
    let numbers = vec![1.001f32; 1000];
    let run = |seed| {
        let cast = cast(BF16, seed);
        [0, 1].map(|_| rounded(&cast, cast.chances(), &numbers))
    };
    assert_eq!(run(5), run(5));
    assert_ne!(run(5), run(6));
    let [first, second] = run(5);
    assert_ne!(first, second);
    // In parts as whole.
    let cast = cast(BF16, 5);
    let chances = cast.chances();
    let from: Vec<u8> = numbers
        .iter()
        .flat_map(|number| number.to_le_bytes())
        .collect();
    let (mut whole, mut parts) = (vec![0; 2000], vec![0; 2000]);
    cast.convert(chances, 0, &from, &mut whole);
    cast.convert(chances, 0, &from[..4 * 301], &mut parts[..2 * 301]);
    cast.convert(chances, 301, &from[4 * 301..], &mut parts[2 * 301..]);
    assert_eq!(whole, parts);
}

#[test]
fn casts_that_lose_nothing_and_integers_are_left_alone() {
    let rounding = Arc::new(StochasticRounding::new(1));
    for (from, to) in [(F16, F32), (F32, F64), (I32, BF16), (BF16, BF16), (F32, I8)] {
        assert!(
            RoundedCast::new(from, to, &rounding).is_none(),
            "{from} {to}"
        );
    }
}
