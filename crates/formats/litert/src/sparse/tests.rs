use super::*;
use flatbuffers::FlatBufferBuilder;
use schema::{DimensionMetadataArgs, SparsityParametersArgs, Uint8Vector, Uint8VectorArgs};

/// A level: its extent if it is dense, segments and indices if it is compressed.
enum Form {
    Dense(i32),
    Compressed(&'static [u8], &'static [u8]),
}

use Form::{Compressed, Dense};

/// The dense tensor of i8, or the error.
fn decoded(
    shape: &[i64],
    order: &[i32],
    blocked: &[i32],
    levels: &[Form],
    values: &[u8],
) -> Result<Vec<u8>, String> {
    let mut builder = FlatBufferBuilder::new();
    let mut tables = Vec::new();
    for level in levels {
        let mut args = DimensionMetadataArgs::default();
        match level {
            Dense(extent) => args.dense_size = *extent,
            Compressed(segments, indices) => {
                args.format = DimensionType::SPARSE_CSR;
                let mut list = |values: &[u8]| {
                    let values = Some(builder.create_vector(values));
                    Uint8Vector::create(&mut builder, &Uint8VectorArgs { values })
                };
                args.array_segments = Some(list(segments).as_union_value());
                args.array_indices = Some(list(indices).as_union_value());
                args.array_segments_type = SparseIndexVector::Uint8Vector;
                args.array_indices_type = SparseIndexVector::Uint8Vector;
            }
        }
        tables.push(DimensionMetadata::create(&mut builder, &args));
    }
    let args = SparsityParametersArgs {
        traversal_order: Some(builder.create_vector(order)),
        block_map: Some(builder.create_vector(blocked)),
        dim_metadata: Some(builder.create_vector(&tables)),
    };
    let root = SparsityParameters::create(&mut builder, &args);
    builder.finish(root, None);
    let bytes = builder.finished_data();
    let parameters = flatbuffers::root::<SparsityParameters<'_>>(bytes).unwrap();
    SparseTensor::new(parameters, shape, 1, values)
        .and_then(|sparse| sparse.dense(1 << 20))
        .map_err(|error| error.to_string())
}

#[test]
fn blocks_are_placed_in_their_rows_and_columns() {
    // Of two rows of two blocks of 1 × 2, the second one of the first row and the first one of the second row.
    let levels = [Dense(2), Compressed(&[0, 1, 2], &[1, 0]), Dense(2)];
    let dense = decoded(&[2, 4], &[0, 1, 2], &[1], &levels, &[1, 2, 3, 4]);
    assert_eq!(dense.unwrap(), [0, 0, 1, 2, 3, 4, 0, 0]);
}

#[test]
fn contradicting_levels_are_errors() {
    let refused = |order: &[i32], blocked: &[i32], levels: &[Form], values: &[u8]| {
        decoded(&[2, 4], order, blocked, levels, values).unwrap_err()
    };
    let rows = || Compressed(&[0, 1, 2], &[1, 0]);
    let levels = [Dense(2), rows()];
    let text = refused(&[0, 0], &[], &levels, &[1, 2]);
    assert!(
        text.starts_with("the levels of a sparse tensor do not fit its shape"),
        "{text}"
    );
    let text = refused(&[0, 1], &[], &levels, &[1]);
    assert!(text.contains("less values than positions"), "{text}");
    let text = refused(&[0, 1], &[], &levels, &[1, 2, 3]);
    assert!(text.contains("expected 2 bytes, found 3"), "{text}");
    let text = refused(&[0, 1], &[], &[Dense(3), rows()], &[1, 2]);
    assert!(
        text.contains("dense level does not fit the shape: expected 2, found 3"),
        "{text}"
    );
    for indices in [
        Compressed(&[0, 2, 2], &[1, 1]),
        Compressed(&[0, 1, 2], &[0, 4]),
    ] {
        let text = refused(&[0, 1], &[], &[Dense(2), indices], &[1, 2]);
        assert!(
            text.contains("expected ascending integers below 4"),
            "{text}"
        );
    }
    for segments in [
        Compressed(&[0, 1], &[1, 0]),
        Compressed(&[0, 1, 3], &[1, 0]),
    ] {
        let text = refused(&[0, 1], &[], &[Dense(2), segments], &[1, 2]);
        assert!(
            text.contains("the segments of a sparse tensor are invalid"),
            "{text}"
        );
    }
    let text = refused(&[0, 1, 2], &[1], &[Dense(2), rows(), Dense(3)], &[1, 2]);
    assert!(
        text.contains("a block does not divide its dimension"),
        "{text}"
    );
}

#[test]
fn a_tensor_above_the_limit_is_an_error() {
    let levels = [Dense(1 << 21)];
    let text = decoded(&[1 << 21], &[0], &[], &levels, &[]).unwrap_err();
    assert!(
        text.contains("too many elements to keep in memory"),
        "{text}"
    );
    let text = decoded(&[i64::MAX, 4], &[0, 1], &[], &[Dense(1), Dense(4)], &[]).unwrap_err();
    assert!(
        text.contains("the shape of a sparse tensor is too large"),
        "{text}"
    );
}
