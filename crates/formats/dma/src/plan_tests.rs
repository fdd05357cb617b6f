use super::*;
use crate::{Constant, Extents, Steps, StridedView, VariableId, copy_strided};
use proptest::prelude::*;
use smallvec::smallvec;
use tenon_tensor::DataType;

/// Positions of the bytes of a pattern, in order, by definition.
fn positions(access: &Access) -> Vec<usize> {
    let mut positions = vec![access.offset as usize];
    for (&size, &step) in access.sizes.iter().zip(&access.steps).rev() {
        positions = positions
            .iter()
            .flat_map(|&start| (0..size as i64).map(move |i| (start as i64 + i * step) as usize))
            .collect();
    }
    positions
}

/// The target of `0xee` bytes after a copy or transpose, computed byte by byte.
fn reference(descriptor: &Descriptor, source: &[u8], target_len: usize) -> Vec<u8> {
    let mut target = vec![0xee; target_len];
    let mut reads = positions(&descriptor.from[0]);
    if let Operation::Transpose {
        shape,
        element_size,
    } = descriptor.operation
    {
        let [a, b, c, d] = shape.map(|count| count as usize);
        let element = element_size as usize;
        let mut order = Vec::new();
        for w in 0..d {
            for (z, y, x) in
                (0..c).flat_map(|z| (0..b).flat_map(move |y| (0..a).map(move |x| (z, y, x))))
            {
                // Element (x, y, z, w) of the result is (w, y, z, x) of the source.
                let number = w + d * (y + b * (z + c * x));
                order.extend((0..element).map(|byte| reads[number * element + byte]));
            }
        }
        reads = order;
    }
    for (read, write) in reads.into_iter().zip(positions(&descriptor.to)) {
        target[write] = source[read];
    }
    target
}

fn executed(descriptor: &Descriptor, source: &[u8], target_len: usize) -> Vec<u8> {
    let plan = Plan::new(descriptor).unwrap();
    let mut target = vec![0xee; target_len];
    let of = |range: ByteRange| range.start as usize..range.end as usize;
    let write = of(plan.target());
    plan.execute(&[&source[of(plan.sources()[0])]], &mut target[write])
        .unwrap();
    target
}

fn noise(len: usize) -> Vec<u8> {
    (0..len as u32)
        .map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8)
        .collect()
}

fn end(access: &Access) -> usize {
    access.range().unwrap().end as usize
}

fn access(variable: u32) -> impl Strategy<Value = Access> {
    let dims = proptest::collection::vec((1u64..6, -40i64..40), 1..=4);
    (dims, 0u64..9).prop_map(move |(dims, offset)| {
        with_valid_offset(Access {
            variable: VariableId(variable),
            offset,
            sizes: dims.iter().map(|&(size, _)| size).collect(),
            steps: dims.iter().map(|&(_, step)| step).collect(),
            dtype: DataType::U8,
        })
    })
}

/// The access with an offset that keeps negative steps in bounds.
fn with_valid_offset(mut access: Access) -> Access {
    let back = |(&size, &step): (&u64, &i64)| (size - 1) * step.min(0).unsigned_abs();
    access.offset += access
        .sizes
        .iter()
        .zip(&access.steps)
        .map(back)
        .sum::<u64>();
    access
}

/// Two patterns of equal volume.
fn pair() -> impl Strategy<Value = Descriptor> {
    (access(0), access(1), any::<u8>()).prop_map(|(from, mut to, pick)| {
        // Take the sizes of the source in another order, or in one row.
        let mut sizes: Extents = from.sizes.clone();
        match pick % 4 {
            0 => sizes.reverse(),
            1 => sizes = smallvec![sizes.iter().product()],
            2 => sizes.rotate_left(1),
            _ => {}
        }
        to.steps.resize(sizes.len(), 7);
        to.sizes = sizes;
        Descriptor::copy(from, with_valid_offset(to))
    })
}

/// A transpose of elements of any size, with patterns that are aligned to its dimensions or not.
fn transpose() -> impl Strategy<Value = Descriptor> {
    let shape = [1u64..6, 1..4, 1..4, 1..6];
    (shape, 1u64..10, -3i64..60, -3i64..60, any::<[bool; 2]>()).prop_map(
        |(shape, element_size, read, write, packed)| {
            let volume = shape.iter().product::<u64>() * element_size;
            let pattern = |variable, packed, step, row: u64| {
                let sizes: Extents = if packed {
                    smallvec![volume]
                } else {
                    smallvec![row, volume / row]
                };
                with_valid_offset(Access {
                    variable: VariableId(variable),
                    offset: 2,
                    steps: [1, step][..sizes.len()].into(),
                    sizes,
                    dtype: DataType::U8,
                })
            };
            let source = pattern(0, packed[0], read, shape[3] * element_size);
            // Rows of two columns do not divide every shape.
            let half = if volume % 2 == 0 { volume / 2 } else { 1 };
            let to = pattern(1, packed[1], write, half);
            let operation = Operation::Transpose {
                shape,
                element_size,
            };
            Descriptor {
                operation,
                from: vec![source],
                to,
            }
        },
    )
}

proptest! {
    #[test]
    fn any_copy_follows_the_definition(descriptor in pair()) {
        let source = noise(end(&descriptor.from[0]));
        let len = end(&descriptor.to) + 3;
        prop_assert_eq!(
            executed(&descriptor, &source, len),
            reference(&descriptor, &source, len),
            "{:?}", descriptor
        );
    }

    #[test]
    fn any_transpose_follows_the_definition(descriptor in transpose()) {
        let source = noise(end(&descriptor.from[0]));
        let len = end(&descriptor.to) + 3;
        prop_assert_eq!(
            executed(&descriptor, &source, len),
            reference(&descriptor, &source, len),
            "{:?}", descriptor
        );
    }

    #[test]
    fn permutations_of_any_rank_are_exact(
        shape in proptest::collection::vec(1usize..5, 0..=6),
        element in prop_oneof![Just(1usize), Just(2), Just(3), Just(4), Just(8), Just(16)],
        seed in any::<u64>(),
    ) {
        let mut order: Vec<usize> = (0..shape.len()).collect();
        order.sort_by_key(|&axis| seed.rotate_left(axis as u32 * 9) & 0xff);
        let from = StridedView::contiguous(VariableId(0), 0, element, &shape);
        let strides: Vec<i64> = order.iter().map(|&axis| from.strides[axis]).collect();
        let target_shape: Vec<usize> = order.iter().map(|&axis| shape[axis]).collect();
        let from = StridedView::new(VariableId(0), 0, strides);
        let to = StridedView::contiguous(VariableId(1), 0, element, &target_shape);
        let len = shape.iter().product::<usize>() * element;
        let source = noise(len);
        let mut found = vec![0; len];
        let mut expected = vec![0; len];
        for descriptor in copy_strided(element, &target_shape, &from, &to).unwrap() {
            for (read, write) in
                positions(&descriptor.from[0]).into_iter().zip(positions(&descriptor.to))
            {
                expected[write] = source[read];
            }
            let plan = Plan::new(&descriptor).unwrap();
            let of = |range: ByteRange| range.start as usize..range.end as usize;
            let write = of(plan.target());
            plan.execute(&[&source[of(plan.sources()[0])]], &mut found[write]).unwrap();
        }
        prop_assert_eq!(found, expected);
    }
}

#[test]
fn parallel_movements_are_exact() {
    // Transposes with full and partial blocks, strided rows, one run: all above the threshold.
    for element in [1, 2, 4, 8] {
        let shape = [1000 / element, 1111];
        let from = StridedView::new(
            VariableId(0),
            0,
            [element as i64, shape[0] as i64 * element as i64],
        );
        let to = StridedView::contiguous(VariableId(1), 0, element, &shape);
        let descriptors = copy_strided(element, &shape, &from, &to).unwrap();
        let len = shape[0] * shape[1] * element;
        let source = noise(len);
        assert_eq!(
            executed(&descriptors[0], &source, len),
            reference(&descriptors[0], &source, len)
        );
    }
    let from = StridedView::new(VariableId(0), 0, [1000, 1]);
    let to = StridedView::new(VariableId(1), 0, [1500, 1]);
    let descriptor = &copy_strided(1, &[900, 777], &from, &to).unwrap()[0];
    let source = noise(1_000_000);
    assert_eq!(
        executed(descriptor, &source, 1_500_000),
        reference(descriptor, &source, 1_500_000)
    );
    let run = Descriptor::copy(
        Access::bytes(VariableId(0), 3, 777_777),
        Access::bytes(VariableId(1), 5, 777_777),
    );
    assert_eq!(
        executed(&run, &source, 800_000),
        reference(&run, &source, 800_000)
    );
}

#[test]
fn strides_of_zero_broadcast() {
    let from = StridedView::new(VariableId(0), 0, [0, 4, 0]);
    let to = StridedView::contiguous(VariableId(1), 0, 4, &[5, 3, 7]);
    let descriptor = &copy_strided(4, &[5, 3, 7], &from, &to).unwrap()[0];
    let source = noise(12);
    assert_eq!(
        executed(descriptor, &source, 420),
        reference(descriptor, &source, 420)
    );
}

#[test]
fn slices_of_other_lengths_are_rejected() {
    let descriptor = Descriptor::copy(
        Access::bytes(VariableId(0), 0, 8),
        Access::bytes(VariableId(1), 0, 8),
    );
    let plan = Plan::new(&descriptor).unwrap();
    assert!(plan.execute(&[&[0; 7]], &mut [0; 8]).is_err());
    assert!(plan.execute(&[&[0; 8]], &mut [0; 9]).is_err());
    assert!(plan.execute(&[], &mut [0; 8]).is_err());
}

fn elements<T: tenon_tensor::Element>(dtype: DataType, bytes: &[u8]) -> Vec<T> {
    let ty = tenon_tensor::TensorType::new(dtype, [bytes.len() * 8 / dtype.bits()]).unwrap();
    let buffer = tenon_tensor::BufferMut::copy_of(bytes).unwrap().freeze();
    let tensor = tenon_tensor::Tensor::new(ty, buffer).unwrap();
    tenon_tensor::convert(&tensor, T::DATA_TYPE)
        .unwrap()
        .as_slice()
        .unwrap()
        .to_vec()
}

fn bytes_of<T: tenon_tensor::Element>(values: &[T]) -> Vec<u8> {
    tenon_tensor::Tensor::from_slice([values.len()], values)
        .unwrap()
        .bytes()
        .to_vec()
}

fn typed(variable: u32, dtype: DataType, elements: u64) -> Access {
    let bytes = dtype.bytes(elements as usize).unwrap() as u64;
    Access {
        dtype,
        ..Access::bytes(VariableId(variable), 0, bytes)
    }
}

fn run(descriptor: &Descriptor, sources: &[&[u8]]) -> Vec<u8> {
    let plan = Plan::new(descriptor).unwrap();
    let target = plan.target();
    let mut bytes = vec![0; (target.end - target.start) as usize];
    plan.execute(sources, &mut bytes).unwrap();
    bytes
}

#[test]
fn casts_of_contiguous_and_strided_elements_are_exact() {
    let values: Vec<f32> = (0..100_000).map(|i| (i as f32 - 5e4) * 1.0007).collect();
    let source = bytes_of(&values);
    let to = typed(1, DataType::BF16, 100_000);
    let from = typed(0, DataType::F32, 100_000);
    let packed = Descriptor {
        operation: Operation::Cast,
        from: vec![from],
        to,
    };
    let expected: Vec<half::bf16> = values.iter().map(|&v| half::bf16::from_f32(v)).collect();
    assert_eq!(run(&packed, &[&source]), bytes_of(&expected));
    // The transpose of 200 x 500 with a cast, into rows with gaps.
    let access = |variable, dtype, sizes: [u64; 3], steps: [i64; 3]| Access {
        variable: VariableId(variable),
        offset: 0,
        sizes: Extents::from_slice(&sizes),
        steps: Steps::from_slice(&steps),
        dtype,
    };
    let from = access(0, DataType::F32, [4, 200, 500], [1, 2000, 4]);
    let to = access(1, DataType::I16, [2, 200, 500], [1, 2, 402]);
    let strided = Descriptor {
        operation: Operation::Cast,
        from: vec![from],
        to,
    };
    let found = run(&strided, &[&source]);
    for (column, row) in [(0, 0), (0, 199), (499, 199), (123, 45)] {
        let at = column * 402 + row * 2;
        let value = values[row * 500 + column] as i16;
        assert_eq!(found[at..at + 2], value.to_le_bytes());
    }
    assert_eq!(found[400..402], [0, 0]);
}

#[test]
fn sums_and_extremes_follow_ieee_754() {
    let (a, b) = ([1.5f32, -2.0, f32::NAN, 4.0], [0.25f32, 8.0, 1.0, -1.0]);
    let sources = [&bytes_of(&a)[..], &bytes_of(&b)[..]];
    let descriptor = |operation| Descriptor {
        operation,
        from: vec![typed(0, DataType::F32, 4), typed(1, DataType::F32, 4)],
        to: typed(2, DataType::F32, 4),
    };
    let result = |operation| elements::<f32>(DataType::F32, &run(&descriptor(operation), &sources));
    let sum = result(Operation::Add);
    assert_eq!((sum[0], sum[1], sum[3]), (1.75, 6.0, 3.0));
    assert!(sum[2].is_nan());
    let least = result(Operation::Min {
        constant: Some(Constant::F32(-1.5)),
    });
    assert_eq!((least[0], least[1], least[3]), (-1.5, -2.0, -1.5));
    assert!(least[2].is_nan());
    let greatest = result(Operation::Max { constant: None });
    assert_eq!((greatest[0], greatest[1], greatest[3]), (1.5, 8.0, 4.0));
    let fma = result(Operation::Fma {
        scales: vec![2.0, -4.0],
    });
    assert_eq!((fma[0], fma[1], fma[3]), (2.0, -36.0, 12.0));
}

#[test]
fn integers_are_summed_exactly_and_wrap_in_the_target_type() {
    let a = bytes_of(&[u64::MAX, 5, 1 << 63]);
    let b = bytes_of(&[-1i8, -7, 127]);
    let descriptor = |operation, to| Descriptor {
        operation,
        from: vec![typed(0, DataType::U64, 3), typed(1, DataType::I8, 3)],
        to: typed(2, to, 3),
    };
    let sum = run(&descriptor(Operation::Add, DataType::U64), &[&a, &b]);
    assert_eq!(
        sum,
        bytes_of(&[u64::MAX - 1, 5u64.wrapping_sub(7), (1 << 63) + 127])
    );
    let least = run(
        &descriptor(Operation::Min { constant: None }, DataType::I64),
        &[&a, &b],
    );
    assert_eq!(least, bytes_of(&[-1i64, -7, 127]));
    let constant = Some(Constant::U32(200));
    let greatest = run(
        &descriptor(Operation::Max { constant }, DataType::U8),
        &[&a, &b],
    );
    assert_eq!(greatest, [255, 200, 0]);
}

#[test]
fn the_shape_of_a_transpose_must_cover_the_target() {
    let descriptor = |shape, element_size| Descriptor {
        operation: Operation::Transpose {
            shape,
            element_size,
        },
        from: vec![Access::bytes(VariableId(0), 0, 12)],
        to: Access::bytes(VariableId(1), 0, 12),
    };
    assert!(descriptor([2, 1, 1, 3], 2).check(|_| Some(12)).is_ok());
    let refusal = |shape, size| {
        let error = Plan::new(&descriptor(shape, size)).unwrap_err();
        error.to_string()
    };
    assert_eq!(
        refusal([2, 1, 1, 3], 4),
        "transpose_shape: shape and target differ in size: expected 12 bytes, found 24"
    );
    assert!(refusal([u64::MAX, 2, 1, 3], 2).contains("differ in size"));
    assert_eq!(
        refusal([2, 1, 1, 3], 0),
        "transpose_element_size: elements without bytes"
    );
}

#[test]
fn negative_steps_are_bounds_checked() {
    let back = |offset, steps: [i64; 2]| Access {
        variable: VariableId(0),
        offset,
        sizes: smallvec![4, 3],
        steps: Steps::from_slice(&steps),
        dtype: DataType::U8,
    };
    let to = Access::bytes(VariableId(1), 0, 12);
    let check = |from| Descriptor::copy(from, to.clone()).check(|_| Some(16));
    check(back(8, [1, -4])).unwrap();
    let range = back(8, [1, -4]).range().unwrap();
    assert_eq!((range.start, range.end), (0, 12));
    let error = check(back(7, [1, -4])).unwrap_err();
    assert_eq!(
        error.to_string(),
        "from_off: the access pattern leaves its variable, or overflows: expected at least byte 0"
    );
    assert!(check(back(8, [1, i64::MIN])).is_err());
    assert!(check(back(u64::MAX, [1, -4])).is_err());
}

#[test]
fn repeated_writes_beyond_the_size_of_the_target_are_rejected() {
    let again = |variable| Access {
        steps: smallvec![0],
        ..Access::bytes(VariableId(variable), 0, 1 << 40)
    };
    let descriptor = Descriptor::copy(again(0), again(1));
    assert_eq!(
        descriptor.check(|_| Some(64)).unwrap_err().to_string(),
        "to_sizes: more bytes are written than the variable has: expected at most 64, found \
         1099511627776"
    );
}

#[test]
fn an_unsupported_cast_names_its_data_type() {
    let cast = Descriptor {
        operation: Operation::Cast,
        from: vec![typed(0, DataType::C64, 1)],
        to: typed(1, DataType::F32, 1),
    };
    assert!(Plan::new(&cast).unwrap_err().to_string().contains("c64"));
}
