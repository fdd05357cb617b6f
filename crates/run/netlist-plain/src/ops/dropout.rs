//! Dropout with the mask of the original, which is the same for every tile (netlist 3.1). It is generated
//! by the Mersenne Twister MT19937 (Matsumoto and Nishimura, 1998).

use crate::error::failed;
use crate::tensor::{TILE, Tensor};
use tenon_base::Result;

/// Zeroes elements by the mask and scales the others; `p` is the probability of a zero.
pub fn dropout(input: &Tensor, p: f64) -> Result<Tensor> {
    if !(0.0..=1.0).contains(&p) {
        return Err(failed("p is not a probability").expected("0 to 1").found(p));
    }
    let scale = if p == 1.0 {
        1.0
    } else {
        1.0 / (1.0 - p as f32)
    };
    let words = words(2 * TILE * TILE);
    // Two words are a number in [0, 1), the lower half first.
    let random = |at: usize| {
        let (low, high) = (f64::from(words[2 * at]), f64::from(words[2 * at + 1]));
        (low + high * 4_294_967_296.0) / 18_446_744_073_709_551_616.0
    };
    let mut output = input.try_clone()?;
    let width = input.width();
    for (index, value) in output.values.iter_mut().enumerate() {
        let (row, column) = (index / width % TILE, index % width % TILE);
        *value = if random(row * TILE + column) < p {
            0.0
        } else {
            *value * scale
        };
    }
    Ok(output)
}

/// The first outputs of MT19937 with seed 5489.
fn words(count: usize) -> Vec<u32> {
    const N: usize = 624;
    let mut x: Vec<u32> = vec![5489];
    for i in 1..N {
        let last = x[i - 1];
        x.push(
            1_812_433_253u32
                .wrapping_mul(last ^ (last >> 30))
                .wrapping_add(i as u32),
        );
    }
    for i in 0..count {
        let y = (x[i] & 0x8000_0000) + (x[i + 1] & 0x7fff_ffff);
        let twist = if y.is_multiple_of(2) { 0 } else { 0x9908_b0df };
        x.push(x[i + 397] ^ (y >> 1) ^ twist);
    }
    let tempered = x[N..].iter().map(|&y| {
        let y = y ^ (y >> 11);
        let y = y ^ ((y << 7) & 0x9d2c_5680);
        let y = y ^ ((y << 15) & 0xefc6_0000);
        y ^ (y >> 18)
    });
    tempered.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The C++ standard specifies the 10,000th output for the default seed.
    #[test]
    fn the_generator_is_mt19937() {
        let words = words(10_000);
        assert_eq!((words[0], words[9_999]), (3_499_211_612, 4_123_659_995));
    }

    #[test]
    fn every_tile_has_the_same_mask() {
        let ones = Tensor::from_fn(2, 1, 2, |_, _, _| 1.0).unwrap();
        let output = dropout(&ones, 0.25).unwrap();
        let zeros = output.values.iter().filter(|value| **value == 0.0).count();
        assert!((4 * 200..4 * 312).contains(&zeros), "{zeros}");
        let kept = output.values.iter().find(|value| **value != 0.0).unwrap();
        assert_eq!(*kept, 1.0 / 0.75);
        for y in 0..TILE {
            let row = output.row(0, y);
            assert_eq!(row[..TILE], row[TILE..]);
            assert_eq!(row, output.row(1, y));
        }
        assert_eq!(dropout(&ones, 0.0).unwrap(), ones);
        assert!(
            dropout(&ones, 1.0)
                .unwrap()
                .values
                .iter()
                .all(|value| *value == 0.0)
        );
        assert!(dropout(&ones, 1.5).is_err());
    }
}
