//! Vectors worked out by hand; what NumPy has stands in `tests/ops.rs`.

use super::*;
use crate::TILE;

fn numbered(t: usize, rows: usize, columns: usize) -> Tensor {
    Tensor::from_fn(t, rows, columns, |z, y, x| {
        ((z * rows + y / TILE) * columns + x / TILE) as f32
    })
}

#[test]
fn zero_times_anything_is_zero() {
    let zero = Tensor::zeros(1, 1, 1);
    let infinite = zero.clone().map(1, |_| f32::INFINITY);
    assert_eq!(multiply(&zero, &infinite), zero);
    assert_eq!(multiply(&infinite, &zero), zero);
}

#[test]
fn relu_cuts_at_its_threshold() {
    let line = [-1.0, 0.5, 2.0];
    let tensor = Tensor::from_fn(1, 1, 1, |_, _, x| line[x % 3]);
    let first = |tensor: Tensor| tensor.values[..3].to_vec();
    assert_eq!(first(relu(tensor.clone(), 0.0, false)), [0.0, 0.5, 2.0]);
    assert_eq!(first(relu(tensor.clone(), 1.0, false)), [0.0, 0.0, 2.0]);
    assert_eq!(first(relu(tensor, 1.0, true)), [0.0, 0.5, 1.0]);
}

#[test]
fn a_vector_mode_leaves_the_rest_of_a_tile() {
    let input = Tensor::zeros(1, 1, 1);
    let attributes = Attributes::default();
    let mut faults = Vec::new();
    let mut exp = |vector, old: Option<&Tensor>| {
        unary(
            OpKind::Exp,
            &attributes,
            &input,
            Some(vector),
            old,
            &mut faults,
        )
        .unwrap()
    };
    let rows = exp("r", None);
    assert_eq!((rows.at(0, 3, 31), rows.at(0, 4, 0)), (1.0, 0.0));
    let seven = Tensor::from_fn(1, 1, 1, |_, _, _| 7.0);
    let columns = exp("c", Some(&seven));
    assert_eq!((columns.at(0, 31, 15), columns.at(0, 0, 16)), (1.0, 7.0));
}

#[test]
fn the_original_gives_zero_a_reciprocal_and_a_logarithm() {
    let zero = Tensor::zeros(1, 1, 1);
    let mut faults = Vec::new();
    let mut of =
        |kind| unary(kind, &Attributes::default(), &zero, None, None, &mut faults).unwrap();
    assert_eq!(of(OpKind::Reciprocal).values[0], 8_388_608.0);
    assert_eq!(of(OpKind::Log).values[0], f32::EPSILON.ln());
    assert!(faults.is_empty());
}

#[test]
fn the_square_root_of_a_negative_number_is_told() {
    let mut input = Tensor::zeros(1, 1, 1);
    input.values[5] = -4.0;
    let mut faults = Vec::new();
    let output = unary(
        OpKind::Sqrt,
        &Attributes::default(),
        &input,
        None,
        None,
        &mut faults,
    )
    .unwrap();
    assert!(output.values[5].is_nan());
    assert_eq!(faults.len(), 1);
    assert_eq!((faults[0].element, faults[0].value), (5, -4.0));
}

/// Two strips by hand: the first puts sparse tile 1 before activation row 0 into output row 1 of
/// slice 0, the second sparse tile 0 before activation row 3 into row 0 of slice 1.
#[test]
fn a_sparse_product_follows_its_encoding() {
    let sparse = Sparse {
        grid: [1, 1],
        t: 2,
        mblock: [2, 1],
        ublock: [1, 1],
        u_kt: 2,
        fracture: 1,
        pointer_bits: 2,
        ublock_bits: 2,
        bytes: 4,
    };
    // Tile 0 is the identity, tile 1 twice the identity.
    let tiles = Tensor::from_fn(1, 1, 2, |_, y, x| {
        if x % TILE == y {
            (1 + x / TILE) as f32
        } else {
            0.0
        }
    });
    let activations = numbered(1, 4, 1).map(1, |value| value + 10.0);
    let stream: [u16; 10] = [0, 1 << 14, 1, 1 << 2 | 1, 1 << 14, 1, 1 << 14, 1, 1 << 2, 1];
    let mut encoding = Tensor::zeros(1, 1, 1);
    for (index, pair) in stream.chunks(2).enumerate() {
        encoding.values[index] = f32::from_bits(u32::from(pair[0]) | u32::from(pair[1]) << 16);
    }
    let output = sparse_matmul(&sparse, &tiles, &activations, &encoding, None).unwrap();
    let at = |z, row| output.at(z, row * TILE + 3, 5);
    assert_eq!(
        [at(0, 0), at(0, 1), at(1, 0), at(1, 1)],
        [0.0, 20.0, 13.0, 0.0]
    );
}

#[test]
fn an_encoding_that_names_what_is_not_there_is_refused() {
    let sparse = Sparse {
        grid: [1, 1],
        t: 1,
        mblock: [1, 1],
        ublock: [1, 1],
        u_kt: 1,
        fracture: 1,
        pointer_bits: 4,
        ublock_bits: 4,
        bytes: 4,
    };
    let tile = Tensor::zeros(1, 1, 1);
    let ones = tile.clone().map(1, |_| f32::from_bits(u32::MAX));
    assert!(sparse_matmul(&sparse, &tile, &tile, &ones, None).is_err());
    // An encoding without an end runs out of words.
    assert!(
        sparse_matmul(&sparse, &tile, &tile, &tile, None)
            .unwrap_err()
            .contains("ends")
    );
}

#[test]
fn an_embedding_picks_rows_and_leaves_none_zero() {
    let table = Tensor::from_fn(1, 2, 1, |_, y, x| (y * 100 + x) as f32);
    let mut indices = Tensor::zeros(1, 1, 1);
    for (place, index) in [40u32, u32::MAX, 7].into_iter().enumerate() {
        indices.values[place] = f32::from_bits(index);
    }
    let output = embedding(&table, &indices, 32, 1).unwrap();
    assert_eq!(
        [output.at(0, 0, 3), output.at(0, 1, 3), output.at(0, 2, 3)],
        [4003.0, 0.0, 703.0]
    );
    indices.values[0] = f32::from_bits(64);
    assert!(embedding(&table, &indices, 32, 1).is_err());
}
