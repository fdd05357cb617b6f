//! The values of the random operators: a counter-based generator, Philox4x32-10 (Salmon, Moraes, Dror and
//! Shaw, "Parallel Random Numbers: As Easy as 1, 2, 3", 2011). Element `n` is computed from `n` and the
//! seed alone, so that all backends, vector levels and thread counts give the same values.

use std::f64::consts::TAU;

/// Values of one block of the generator.
pub const BLOCK: usize = 4;

/// A stream of values, chosen by a seed.
///
/// ```
/// let stream = tenon_graph::random::Stream::new(1.0);
/// assert_eq!(stream.uniform(7), stream.uniform(7));
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Stream {
    key: [u32; 2],
}

impl Stream {
    /// The stream of a seed: the key is the bits of the seed.
    pub fn new(seed: f32) -> Self {
        Self {
            key: [seed.to_bits(), 0],
        }
    }

    /// The values of block `index` in (0, 1), uniformly distributed.
    #[inline(always)]
    pub fn uniform(&self, index: u64) -> [f64; BLOCK] {
        let counter = [index as u32, (index >> 32) as u32, 0, 0];
        // The middles of 2^32 intervals: neither 0 nor 1.
        philox(counter, self.key).map(|bits| (f64::from(bits) + 0.5) / (1u64 << 32) as f64)
    }

    /// The values of block `index`, normally distributed with mean 0 and deviation 1 (Box and Muller, "A
    /// Note on the Generation of Random Normal Deviates", 1958).
    pub fn normal(&self, index: u64) -> [f64; BLOCK] {
        let [a, b, c, d] = self.uniform(index);
        let pair = |radius: f64, turn: f64| {
            let (sin, cos) = (TAU * turn).sin_cos();
            let radius = (-2.0 * radius.ln()).sqrt();
            [radius * cos, radius * sin]
        };
        let ([a, b], [c, d]) = (pair(a, b), pair(c, d));
        [a, b, c, d]
    }
}

/// Ten rounds of Philox4x32.
#[inline(always)]
fn philox(counter: [u32; 4], mut key: [u32; 2]) -> [u32; 4] {
    let [mut a, mut b, mut c, mut d] = counter;
    for _ in 0..10 {
        let first = u64::from(a) * 0xD251_1F53;
        let second = u64::from(c) * 0xCD9E_8D57;
        (a, b, c, d) = (
            (second >> 32) as u32 ^ b ^ key[0],
            second as u32,
            (first >> 32) as u32 ^ d ^ key[1],
            first as u32,
        );
        key = [
            key[0].wrapping_add(0x9E37_79B9),
            key[1].wrapping_add(0xBB67_AE85),
        ];
    }
    [a, b, c, d]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The known answers of the authors' Random123 library.
    #[test]
    fn philox_gives_the_published_values() {
        assert_eq!(
            philox([0; 4], [0; 2]),
            [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8]
        );
        assert_eq!(
            philox([u32::MAX; 4], [u32::MAX; 2]),
            [0x408f_276d, 0x41c8_3b0e, 0xa20b_c7c6, 0x6d54_51fd]
        );
        assert_eq!(
            philox(
                [0x243f_6a88, 0x85a3_08d3, 0x1319_8a2e, 0x0370_7344],
                [0xa409_3822, 0x299f_31d0]
            ),
            [0xd16c_fe09, 0x94fd_cceb, 0x5001_e420, 0x2412_6ea1]
        );
    }

    #[test]
    fn values_have_the_moments_of_their_distribution() {
        let stream = Stream::new(3.0);
        let moments = |values: &[f64]| {
            let mean = values.iter().sum::<f64>() / values.len() as f64;
            let square = |value: &f64| (value - mean) * (value - mean);
            (
                mean,
                values.iter().map(square).sum::<f64>() / values.len() as f64,
            )
        };
        let uniform: Vec<f64> = (0..50_000).flat_map(|at| stream.uniform(at)).collect();
        let (mean, variance) = moments(&uniform);
        assert!((mean - 0.5).abs() < 3e-3 && (variance - 1.0 / 12.0).abs() < 1e-3);
        let normal: Vec<f64> = (0..50_000).flat_map(|at| stream.normal(at)).collect();
        let (mean, variance) = moments(&normal);
        assert!(mean.abs() < 1e-2 && (variance - 1.0).abs() < 1e-2);
        assert_ne!(Stream::new(4.0).uniform(0), stream.uniform(0));
    }
}
