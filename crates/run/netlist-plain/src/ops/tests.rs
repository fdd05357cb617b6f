//! Test vectors computed by hand; `tests/ops.rs` compares with NumPy.

use super::*;
use crate::TILE;

/// A tensor whose elements are the index of their tile.
fn tile_indices(t: usize, rows: usize, columns: usize) -> Tensor {
    let index = |z: usize, y: usize, x: usize| (z * rows + y / TILE) * columns + x / TILE;
    Tensor::from_fn(t, rows, columns, |z, y, x| index(z, y, x) as f32).unwrap()
}

/// One tile.
fn tile(element: impl Fn(usize, usize) -> f32) -> Tensor {
    Tensor::from_fn(1, 1, 1, |_, y, x| element(y, x)).unwrap()
}

#[test]
fn zero_times_anything_is_zero() {
    let (zero, infinite) = (tile(|_, _| 0.0), tile(|_, _| f32::INFINITY));
    assert_eq!(multiply(&zero, &infinite).unwrap(), zero);
    assert_eq!(multiply(&infinite, &zero).unwrap(), zero);
}

#[test]
fn relu_clamps_at_its_threshold() {
    let line = [-1.0, 0.5, 2.0];
    let first = |threshold, max| {
        let tensor = relu(tile(|_, x| line[x % 3]), threshold, max);
        tensor.values[..3].to_vec()
    };
    assert_eq!(first(0.0, false), [0.0, 0.5, 2.0]);
    assert_eq!(first(1.0, false), [0.0, 0.0, 2.0]);
    assert_eq!(first(1.0, true), [0.0, 0.5, 1.0]);
}

#[test]
fn a_vector_mode_computes_a_part_of_each_tile() {
    let input = tile(|_, _| 0.0);
    let attributes = Attributes::default();
    let mut faults = Faults::default();
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
    let seven = tile(|_, _| 7.0);
    let columns = exp("c", Some(&seven));
    assert_eq!((columns.at(0, 31, 15), columns.at(0, 0, 16)), (1.0, 7.0));
}

#[test]
fn the_reciprocal_and_the_logarithm_of_zero_are_finite() {
    let zero = tile(|_, _| 0.0);
    let mut faults = Faults::default();
    let mut of =
        |kind| unary(kind, &Attributes::default(), &zero, None, None, &mut faults).unwrap();
    assert_eq!(of(OpKind::Reciprocal).values[0], 8_388_608.0);
    assert_eq!(of(OpKind::Log).values[0], f32::EPSILON.ln());
    assert_eq!(faults, Faults::default());
}

#[test]
fn the_square_root_of_a_negative_number_is_a_fault() {
    let mut input = tile(|_, _| 0.0);
    input.values[5] = -4.0;
    let mut faults = Faults::default();
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
    assert_eq!(faults.count, 1);
    let first = faults.first.unwrap();
    assert_eq!((first.element, first.value), (5, -4.0));
}

/// Two strips: the first adds sparse tile 1 times activation row 0 to output row 1 of slice 0, the
/// second sparse tile 0 times activation row 3 to output row 0 of slice 1.
#[test]
fn a_sparse_matmul_follows_its_encoding() {
    let sparse = SparseSizes {
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
    })
    .unwrap();
    let activations = tile_indices(1, 4, 1).map(1, |value| value + 10.0);
    let stream: [u16; 10] = [0, 1 << 14, 1, 1 << 2 | 1, 1 << 14, 1, 1 << 14, 1, 1 << 2, 1];
    let mut encoding = tile(|_, _| 0.0);
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
fn an_encoding_with_invalid_references_is_an_error() {
    let sparse = SparseSizes {
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
    let zeros = tile(|_, _| 0.0);
    let ones = tile(|_, _| f32::from_bits(u32::MAX));
    assert!(sparse_matmul(&sparse, &zeros, &zeros, &ones, None).is_err());
    let error = sparse_matmul(&sparse, &zeros, &zeros, &zeros, None).unwrap_err();
    assert!(error.message().contains("ends within a strip"), "{error}");
}

#[test]
fn an_embedding_gathers_rows_and_the_maximal_index_is_a_row_of_zeros() {
    let table = Tensor::from_fn(1, 2, 1, |_, y, x| (y * 100 + x) as f32).unwrap();
    let mut indices = tile(|_, _| 0.0);
    for (value, index) in indices.values.iter_mut().zip([40u32, u32::MAX, 7]) {
        *value = f32::from_bits(index);
    }
    let output = embedding(&table, &indices, 32, 1).unwrap();
    assert_eq!(
        [output.at(0, 0, 3), output.at(0, 1, 3), output.at(0, 2, 3)],
        [4003.0, 0.0, 703.0]
    );
    indices.values[0] = f32::from_bits(64);
    assert!(embedding(&table, &indices, 32, 1).is_err());
}
