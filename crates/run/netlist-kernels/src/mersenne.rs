//! The Mersenne Twister MT19937 (Matsumoto and Nishimura, "Mersenne Twister", 1998), the random number
//! generator of the original (netlist 3.1).

/// Words of the state.
const N: usize = 624;
/// The offset of the word that is mixed into the first (m of the paper).
const M: usize = 397;

/// The default seed of the C++ standard library.
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
            self.twist();
        }
        let mut y = self.state[self.next];
        self.next += 1;
        y ^= y >> 11;
        y ^= y << 7 & 0x9d2c_5680;
        y ^= y << 15 & 0xefc6_0000;
        y ^ y >> 18
    }

    /// Generates the next `N` words of the state.
    fn twist(&mut self) {
        for i in 0..N {
            let y = self.state[i] & 0x8000_0000 | self.state[(i + 1) % N] & 0x7fff_ffff;
            let odd = if y & 1 == 1 { 0x9908_b0df } else { 0 };
            self.state[i] = self.state[(i + M) % N] ^ y >> 1 ^ odd;
        }
        self.next = 0;
    }

    /// A value in 0..1 from two words, as C++'s `std::generate_canonical` makes a double.
    pub(super) fn unit(&mut self) -> f64 {
        let (low, high) = (f64::from(self.word()), f64::from(self.word()));
        let unit = (low + high * 4_294_967_296.0) / 18_446_744_073_709_551_616.0;
        unit.min(1.0 - f64::EPSILON / 2.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The C++ standard specifies the ten-thousandth output of the default seed.
    #[test]
    fn the_ten_thousandth_output_is_that_of_the_cpp_standard() {
        let mut random = Mersenne::new(DEFAULT_SEED);
        let last = (0..10_000).map(|_| random.word()).last();
        assert_eq!(last, Some(4_123_659_995));
    }
}
