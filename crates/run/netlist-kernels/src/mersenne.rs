//! The Mersenne Twister MT19937 (Matsumoto and Nishimura, 1998): what the original draws its random
//! numbers with (facts 3.1, 6.8).

/// Words of the state.
const N: usize = 624;
/// The word that is mixed into the first.
const M: usize = 397;

/// The seed of a generator that was given none.
pub(super) const DEFAULT_SEED: u32 = 5489;

/// A generator.
pub(super) struct Mersenne {
    state: [u32; N],
    next: usize,
}

impl Mersenne {
    /// The generator of a seed.
    pub(super) fn new(seed: u32) -> Self {
        let mut state = [seed; N];
        for i in 1..N {
            let before = state[i - 1];
            let mixed = (before ^ before >> 30).wrapping_mul(1_812_433_253);
            state[i] = mixed.wrapping_add(i as u32);
        }
        Self { state, next: N }
    }

    /// The next 32 random bits.
    pub(super) fn word(&mut self) -> u32 {
        if self.next == N {
            self.turn();
        }
        let mut y = self.state[self.next];
        self.next += 1;
        y ^= y >> 11;
        y ^= y << 7 & 0x9d2c_5680;
        y ^= y << 15 & 0xefc6_0000;
        y ^ y >> 18
    }

    fn turn(&mut self) {
        for i in 0..N {
            let y = self.state[i] & 0x8000_0000 | self.state[(i + 1) % N] & 0x7fff_ffff;
            let odd = if y & 1 == 1 { 0x9908_b0df } else { 0 };
            self.state[i] = self.state[(i + M) % N] ^ y >> 1 ^ odd;
        }
        self.next = 0;
    }

    /// A number from 0 up to 1, of two words, as C++ libraries make a double.
    pub(super) fn unit(&mut self) -> f64 {
        let (low, high) = (f64::from(self.word()), f64::from(self.word()));
        let unit = (low + high * 4_294_967_296.0) / 18_446_744_073_709_551_616.0;
        unit.min(1.0 - f64::EPSILON / 2.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The C++ standard gives the ten-thousandth number of the default seed.
    #[test]
    fn the_ten_thousandth_number_is_that_of_the_standard() {
        let mut random = Mersenne::new(DEFAULT_SEED);
        let last = (0..10_000).map(|_| random.word()).last();
        assert_eq!(last, Some(4_123_659_995));
    }
}
