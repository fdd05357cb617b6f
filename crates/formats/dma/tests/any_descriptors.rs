//! Arbitrary descriptors never panic, and copies agree with a byte-by-byte reference. The fuzz target
//! `dma` runs the same check.

#[path = "hostile/descriptors.rs"]
mod descriptors;

use proptest::prelude::*;

/// An empty pattern with huge sizes in its other dimensions.
#[test]
fn an_empty_pattern_of_any_size_moves_nothing() {
    descriptors::check(&[
        1, 153, 153, 153, 153, 153, 153, 1, 0, 0, 0, 43, 153, 153, 1, 0, 0, 153, 255, 255, 255, 15,
        255,
    ]);
}

proptest! {
    #[test]
    fn any_bytes(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        descriptors::check(&bytes);
    }

    #[test]
    fn small_values(bytes in prop::collection::vec(0u8..12, 0..400)) {
        descriptors::check(&bytes);
    }
}
