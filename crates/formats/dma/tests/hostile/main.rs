//! No descriptor panics or writes out of bounds, whatever its values.

mod descriptors;

use proptest::prelude::*;

/// The position of `u8` among all data types.
const U8: u8 = 18;

/// Bytes of a mostly valid descriptor: in general a copy between patterns of equal sizes.
fn mostly_valid() -> impl Strategy<Value = Vec<u8>> {
    let steps = prop_oneof![Just(1u8), 0u8..20];
    let dims = proptest::collection::vec((1u8..6, steps.clone(), steps), 1..=4);
    (dims, any::<[u8; 6]>()).prop_map(|(dims, pick)| {
        let rank = dims.len() as u8;
        // No constant, one source, an operation; then both accesses.
        let mut bytes = vec![
            pick[0],
            pick[1] % 3,
            0,
            1,
            [0, 0, 3, 5][usize::from(pick[2] % 4)],
        ];
        for side in 0u8..2 {
            bytes.extend([rank, (pick[3] % 3 + side) % 3, pick[5] % 50]);
            bytes.extend(dims.iter().map(|dim| dim.0));
            bytes.extend(dims.iter().map(|dim| if side == 0 { dim.1 } else { dim.2 }));
            bytes.push(U8);
        }
        bytes
    })
}

proptest! {
    #[test]
    fn any_bytes(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        descriptors::check(&bytes);
    }

    #[test]
    fn mostly_valid_descriptors(list in proptest::collection::vec(mostly_valid(), 0..5)) {
        let mut bytes = vec![list.len() as u8];
        bytes.extend(list.concat());
        descriptors::check(&bytes);
    }
}
