//! Reproducible random numbers: xorshift64* (Vigna, "An experimental exploration of Marsaglia's
//! xorshift generators, scrambled", 2016) seeded with the output function of SplitMix64.

/// A stream of random numbers.
#[derive(Debug, Clone)]
pub(super) struct Random(u64);

impl Random {
    /// The stream of a seed and a name: queues have different data.
    pub(super) fn new(seed: u64, name: &str) -> Self {
        // FNV-1a of the name.
        let hash = name.bytes().fold(0xcbf2_9ce4_8422_2325u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        let mut state = hash ^ seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        state = (state ^ state >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        state = (state ^ state >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        Self((state ^ state >> 31) | 1)
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// A number in [0, 1).
    pub(super) fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// An integer below `end`, which is not 0.
    pub(super) fn below(&mut self, end: usize) -> usize {
        (self.unit() * end as f64) as usize % end.max(1)
    }

    /// A number of the standard normal distribution (Box-Muller transform).
    pub(super) fn normal(&mut self) -> f64 {
        let radius = (-2.0 * (1.0 - self.unit()).ln()).sqrt();
        radius * (std::f64::consts::TAU * self.unit()).cos()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_have_the_moments_of_their_distributions() {
        let mut random = Random::new(7, "q");
        let n = 20_000;
        let uniform: Vec<f64> = (0..n).map(|_| random.unit()).collect();
        let mean = uniform.iter().sum::<f64>() / f64::from(n);
        assert!((mean - 0.5).abs() < 0.01, "{mean}");
        let normal: Vec<f64> = (0..n).map(|_| random.normal()).collect();
        let square = normal.iter().map(|x| x * x).sum::<f64>() / f64::from(n);
        assert!((square - 1.0).abs() < 0.05, "{square}");
    }

    #[test]
    fn streams_of_two_names_differ() {
        assert_ne!(Random::new(1, "a").next(), Random::new(1, "b").next());
        assert_ne!(Random::new(1, "a").next(), Random::new(2, "a").next());
    }
}
