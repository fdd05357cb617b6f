//! Descriptors of any numbers never panic, and copies move what the plain walk of their patterns
//! says. The fuzz target `dma` runs the same check.

#[path = "hostile/descriptors.rs"]
mod descriptors;

use proptest::prelude::*;

/// An empty pattern whose other sizes are huge.
#[test]
fn nothing_is_moved_by_an_empty_pattern_however_long() {
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
    fn small_numbers(bytes in prop::collection::vec(0u8..12, 0..400)) {
        descriptors::check(&bytes);
    }
}
