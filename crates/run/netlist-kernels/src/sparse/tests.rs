use super::*;

fn stream(words: &[u16]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

/// Two strips of one row, then another row in the next tile of the encoding.
#[test]
fn a_stream_of_strips_is_decoded() {
    let encoding = Encoding {
        u_kt: 2,
        tile_bits: 4,
        ublock_bits: 4,
        t: 2,
    };
    // Strip 0: one ublock (row 1), two entries: tile 3 at r 0, d 1; tile 5 at r 1, d 0.
    let mut words = vec![0, 0, 1, 2 << 4 | 1, 3 << 12 | 1, 5 << 12 | 2];
    // Strip 7, last of its row and of its tile: no ublocks.
    words.extend([7, 0xc000, 0]);
    words.resize(ENCODING_TILE / 2, 0);
    // Strip 2, last of its row: one entry.
    words.extend([2, 0x4000, 1, 1 << 4, 0]);
    let entries = encoding.entries(&stream(&words), 2).unwrap();
    let entry = |t, row, tile, depth| Entry {
        t,
        row,
        tile,
        depth,
    };
    let expected = [entry(0, 2, 3, 1), entry(0, 3, 5, 0), entry(1, 0, 0, 4)];
    assert_eq!(entries, expected);
    assert!(encoding.entries(&stream(&words[..8]), 2).is_err());
}

#[test]
fn bits_hold_the_largest_index() {
    assert_eq!([1, 2, 3, 4, 5, 56].map(bits), [1, 1, 2, 2, 3, 6]);
}

/// A diagonal tile of twos selects the second row of tiles of the activations, doubled.
#[test]
fn a_diagonal_tile_of_twos_doubles_the_selected_activations() {
    let build = |tiles, value: &dyn Fn(usize) -> f32| {
        TileTensor::build(tiles, [32, 32], |to| {
            to.iter_mut().enumerate().for_each(|(i, v)| *v = value(i));
            Ok(())
        })
        .unwrap()
    };
    let sparse = build([1, 1, 1], &|i| if i % 33 == 0 { 2.0 } else { 0.0 });
    let activations = build([1, 2, 1], &|i| i as f32);
    // Strip 1, last of its row: ublock 0, one entry, tile 0 at r 0, d 0; 1 tile in the depth.
    let words = [1u16, 0x4000, 1, 1 << 4, 0];
    let encodings = build([1, 1, 1], &|i| {
        let word = |at: usize| u32::from(words.get(at).copied().unwrap_or(0));
        f32::from_bits(word(2 * i) | word(2 * i + 1) << 16)
    });
    let cores = Cores {
        encoding: Encoding {
            u_kt: 1,
            tile_bits: 4,
            ublock_bits: 4,
            t: 1,
        },
        tiles: [1, 1, 1],
        grid: [1, 1],
        fracture: 1,
        ublock_rows: 1,
        format: DataFormat::RawUInt32,
    };
    let product = cores.run(&sparse, &activations, &encodings).unwrap();
    let expected = |i: usize| 2.0 * (1024 + i) as f32;
    assert!(
        product
            .values()
            .iter()
            .enumerate()
            .all(|(i, &v)| v == expected(i))
    );
}
