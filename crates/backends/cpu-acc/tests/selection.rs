//! Gather, scatter, selection and TopK, beside the reference.

mod common;

use common::{Case, InputKind, LEVELS, Random};
use half::{bf16, f16};
use tenon_base::ErrorKind;
use tenon_graph::Attribute;
use tenon_tensor::{DataType, Element, Tensor};

/// Element types: of each size, float and integer, signed and unsigned.
const TYPES: [DataType; 13] = [
    DataType::F32,
    DataType::F64,
    DataType::F16,
    DataType::BF16,
    DataType::I8,
    DataType::I16,
    DataType::I32,
    DataType::I64,
    DataType::U8,
    DataType::U16,
    DataType::U32,
    DataType::U64,
    DataType::Bool,
];

/// Elements of any type with few different values, so that some are equal; floats have NaN, infinities
/// and zeros of both signs.
fn elements(random: &mut Random, dtype: DataType, shape: &[usize]) -> Tensor {
    fn tensor<T: Element>(shape: &[usize], all: impl Iterator<Item = T>) -> Tensor {
        let all: Vec<T> = all.take(shape.iter().product()).collect();
        Tensor::from_slice(shape, &all).unwrap()
    }
    let mut floats = {
        let mut random = Random::new(random.next());
        move || match random.below(24) {
            0 => f32::NAN,
            1 => f32::INFINITY,
            2 => f32::NEG_INFINITY,
            3 => -0.0,
            4 => 0.0,
            _ => (random.value() * 40.0).round() / 8.0,
        }
    };
    let mut ints = {
        let mut random = Random::new(random.next());
        move || random.next() >> random.below(64)
    };
    match dtype {
        DataType::F32 => tensor(shape, std::iter::repeat_with(floats)),
        DataType::F64 => tensor(shape, std::iter::repeat_with(|| f64::from(floats()))),
        DataType::F16 => tensor(shape, std::iter::repeat_with(|| f16::from_f32(floats()))),
        DataType::BF16 => tensor(shape, std::iter::repeat_with(|| bf16::from_f32(floats()))),
        DataType::I8 => tensor(shape, std::iter::repeat_with(|| ints() as i8)),
        DataType::I16 => tensor(shape, std::iter::repeat_with(|| ints() as i16)),
        DataType::I32 => tensor(shape, std::iter::repeat_with(|| ints() as i32)),
        DataType::I64 => tensor(shape, std::iter::repeat_with(|| ints() as i64)),
        DataType::U8 => tensor(shape, std::iter::repeat_with(|| ints() as u8)),
        DataType::U16 => tensor(shape, std::iter::repeat_with(|| ints() as u16)),
        DataType::U32 => tensor(shape, std::iter::repeat_with(|| ints() as u32)),
        DataType::U64 => tensor(shape, std::iter::repeat_with(ints)),
        DataType::Bool => {
            let all: Vec<bool> = (0..shape.iter().product())
                .map(|_| ints() & 1 == 1)
                .collect();
            Tensor::from_bools(shape, &all).unwrap()
        }
        other => panic!("no elements of {other}"),
    }
}

fn variable(case: Case, tensor: Tensor) -> Case {
    case.tensor(Some(tensor), InputKind::Variable)
}

/// Indices of a dimension, some of them negative, as i32 or i64.
fn indices(random: &mut Random, shape: &[usize], extent: usize, wide: bool) -> Tensor {
    let extent = extent as i64;
    let count = shape.iter().product();
    let all: Vec<i64> = (0..count)
        .map(|_| random.below(2 * extent as usize) as i64 - extent)
        .collect();
    if wide {
        Tensor::from_slice(shape, &all).unwrap()
    } else {
        let all: Vec<i32> = all.iter().map(|&at| at as i32).collect();
        Tensor::from_slice(shape, &all).unwrap()
    }
}

#[test]
fn gather_of_any_axis_and_type() {
    let mut random = Random::new(51);
    for round in 0..80 {
        let dtype = TYPES[round % TYPES.len()];
        let rank = random.between(1, 4);
        let data = random.shape(rank, 9);
        let axis = random.below(rank);
        let index_rank = random.below(3);
        let taken = random.shape(index_rank, 20);
        let at = indices(&mut random, &taken, data[axis], round % 2 == 0);
        let axis = if random.below(2) == 0 {
            axis as i64
        } else {
            axis as i64 - rank as i64
        };
        let case = variable(Case::new("Gather"), elements(&mut random, dtype, &data));
        variable(case, at)
            .int("axis", axis)
            .outputs(1)
            .agrees_with_reference(0.0);
    }
    // More indices than a block, slices longer than a vector, more than one thread.
    let data = elements(&mut random, DataType::F32, &[3, 50, 70]);
    let at = indices(&mut random, &[700], 50, true);
    let case = variable(variable(Case::new("Gather"), data), at).int("axis", 1);
    case.outputs(1).agrees_with_reference(0.0);
}

#[test]
fn gather_elements_of_any_axis() {
    let mut random = Random::new(52);
    for round in 0..100 {
        let dtype = TYPES[round % TYPES.len()];
        let rank = random.between(1, 4);
        let data = random.shape(rank, if round == 99 { 40 } else { 8 });
        let axis = random.below(rank);
        let mut taken: Vec<usize> = data.clone();
        for (at, extent) in taken.iter_mut().enumerate() {
            if at == axis {
                *extent = random.between(1, 300);
            } else if random.below(3) == 0 {
                *extent = random.between(1, *extent);
            }
        }
        let at = indices(&mut random, &taken, data[axis], round % 2 == 0);
        let case = variable(
            Case::new("GatherElements"),
            elements(&mut random, dtype, &data),
        );
        let case = variable(case, at).int("axis", axis as i64);
        case.outputs(1).agrees_with_reference(0.0);
    }
}

/// Tuples of indices in the dimensions `extents`.
fn tuples(random: &mut Random, shape: &[usize], extents: &[usize]) -> Tensor {
    let count = shape.iter().product::<usize>() / extents.len().max(1);
    let all: Vec<i64> = (0..count)
        .flat_map(|_| {
            extents
                .iter()
                .map(|&extent| random.below(2 * extent) as i64 - extent as i64)
                .collect::<Vec<_>>()
        })
        .collect();
    Tensor::from_slice(shape, &all).unwrap()
}

#[test]
fn gather_nd_with_batches() {
    let mut random = Random::new(53);
    for round in 0..80 {
        let dtype = TYPES[round % TYPES.len()];
        let rank = random.between(1, 5);
        let data = random.shape(rank, 6);
        let batch = random.below(rank.min(3));
        let tuple = random.between(1, rank - batch);
        let index_rank = random.below(3);
        let middle = random.shape(index_rank, 18);
        let at = [&data[..batch], &middle, &[tuple]].concat();
        let at = tuples(&mut random, &at, &data[batch..batch + tuple]);
        let case = variable(Case::new("GatherND"), elements(&mut random, dtype, &data));
        let case = variable(case, at).int("batch_dims", batch as i64);
        case.outputs(1).agrees_with_reference(0.0);
    }
}

const REDUCTIONS: [&str; 5] = ["none", "add", "mul", "min", "max"];

#[test]
fn scatter_elements_with_all_reductions() {
    let mut random = Random::new(54);
    for round in 0..130 {
        let dtype = TYPES[round % TYPES.len()];
        let reduction = REDUCTIONS[round / TYPES.len() % 5];
        let rank = random.between(1, 4);
        let data = random.shape(rank, 8);
        let axis = random.below(rank);
        let mut at: Vec<usize> = data
            .iter()
            .map(|&extent| random.between(1, extent))
            .collect();
        at[axis] = random.between(1, 300);
        let updates = elements(&mut random, dtype, &at);
        let at = indices(&mut random, &at, data[axis], round % 2 == 0);
        let case = variable(
            Case::new("ScatterElements"),
            elements(&mut random, dtype, &data),
        );
        let case = variable(variable(case, at), updates).int("axis", axis as i64);
        case.string("reduction", reduction)
            .outputs(1)
            .agrees_with_reference(0.0);
    }
}

#[test]
fn scatter_nd_with_all_reductions() {
    let mut random = Random::new(55);
    for round in 0..130 {
        let dtype = TYPES[round % TYPES.len()];
        let reduction = REDUCTIONS[round / TYPES.len() % 5];
        let rank = random.between(1, 4);
        let data = random.shape(rank, 8);
        let tuple = random.between(1, rank);
        let index_rank = random.below(3);
        let middle = random.shape(index_rank, 25);
        let updates = elements(&mut random, dtype, &[&middle, &data[tuple..]].concat());
        let at = tuples(&mut random, &[&*middle, &[tuple]].concat(), &data[..tuple]);
        let case = variable(Case::new("ScatterND"), elements(&mut random, dtype, &data));
        let case = variable(variable(case, at), updates);
        case.string("reduction", reduction)
            .outputs(1)
            .agrees_with_reference(0.0);
    }
}

#[test]
fn caches_are_written_from_an_index_on() {
    let mut random = Random::new(56);
    for (round, mode) in ["linear", "circular"].repeat(10).iter().enumerate() {
        let dtype = TYPES[round % TYPES.len()];
        let (batch, heads, len) = (
            random.between(1, 3),
            random.between(1, 3),
            random.between(2, 9),
        );
        let steps = random.between(1, len);
        let width = random.between(1, 5);
        let starts: Vec<i64> = (0..batch)
            .map(|_| {
                random.below(if *mode == "linear" {
                    len - steps + 1
                } else {
                    20
                }) as i64
            })
            .collect();
        let cache = elements(&mut random, dtype, &[batch, heads, len, width]);
        let case = variable(Case::new("TensorScatter"), cache);
        let update = elements(&mut random, dtype, &[batch, heads, steps, width]);
        let case = variable(case, update);
        let case = if round < 4 {
            case.none()
        } else {
            case.input(&[batch], &starts)
        };
        case.string("mode", mode)
            .outputs(1)
            .agrees_with_reference(0.0);
    }
}

#[test]
fn triangles_one_hot_diagonals_and_ranges() {
    let mut random = Random::new(57);
    for (round, &dtype) in TYPES.repeat(3).iter().enumerate() {
        let rank = random.between(2, 4);
        let shape = random.shape(rank, 12);
        let k = random.below(20) as i64 - 10;
        let case = variable(Case::new("Trilu"), elements(&mut random, dtype, &shape));
        let case = if round % 3 == 0 {
            case
        } else {
            case.input(&[], &[k])
        };
        let upper = random.below(2) as i64;
        case.int("upper", upper)
            .outputs(1)
            .agrees_with_reference(0.0);

        let index_type = TYPES[random.below(12)];
        let case = variable(
            Case::new("OneHot"),
            elements(&mut random, index_type, &shape),
        );
        let case = case.constant(&[], &[random.between(1, 30) as i64]);
        let case = variable(case, elements(&mut random, dtype, &[2]));
        let axis = random.below(rank + 1) as i64;
        case.int("axis", axis).outputs(1).agrees_with_reference(0.0);

        let case = Case::new("EyeLike").input(&shape[..2], &vec![0i32; shape[0] * shape[1]]);
        let case = case.int("k", k).string("dtype", dtype.name());
        case.outputs(1).agrees_with_reference(0.0);
    }
    for k in [i64::MIN, i64::MAX, 0] {
        for upper in [0, 1] {
            let case = Case::new("Trilu")
                .input(&[3, 4], &[1u8; 12])
                .input(&[1], &[k]);
            case.int("upper", upper)
                .outputs(1)
                .agrees_with_reference(0.0);
        }
    }
    for (start, limit, delta) in [(0f32, 10f32, 0.3f32), (5.0, -5.0, -0.7)] {
        let case = Case::new("Range").constant(&[], &[start]);
        let case = case.constant(&[], &[limit]).constant(&[], &[delta]);
        case.outputs(1).agrees_with_reference(0.0);
        let case = Case::new("Range").constant(&[], &[start as i64]);
        let case = case.constant(&[], &[1000i64]).constant(&[], &[7i64]);
        case.outputs(1).agrees_with_reference(0.0);
    }
}

#[test]
fn compressed_and_reversed_slices() {
    let mut random = Random::new(58);
    for &dtype in &TYPES {
        let rank = random.between(2, 4);
        let shape = random.shape(rank, 9);
        let axis = random.below(rank);
        for along in [None, Some(axis)] {
            let len = along.map_or(shape.iter().product(), |axis| shape[axis]);
            let mut flags: Vec<bool> = (0..len).map(|_| random.below(2) == 1).collect();
            flags[random.below(len)] = true;
            let flags = Tensor::from_bools([len], &flags).unwrap();
            let case = variable(Case::new("Compress"), elements(&mut random, dtype, &shape));
            let case = case.tensor(Some(flags), InputKind::Constant);
            let case = match along {
                Some(axis) => case.int("axis", axis as i64),
                None => case,
            };
            case.outputs(1).agrees_with_reference(0.0);
        }
        let batch = random.below(2);
        let lens: Vec<i64> = (0..shape[batch])
            .map(|_| random.below(shape[1 - batch] + 1) as i64)
            .collect();
        let case = variable(
            Case::new("ReverseSequence"),
            elements(&mut random, dtype, &shape),
        );
        let case = case.input(&[shape[batch]], &lens);
        let case = case
            .int("batch_axis", batch as i64)
            .int("time_axis", 1 - batch as i64);
        case.outputs(1).agrees_with_reference(0.0);
    }
}

#[test]
fn top_k_of_any_axis_with_ties_and_nan() {
    let mut random = Random::new(59);
    for round in 0..120 {
        let dtype = TYPES[round % 12];
        let rank = random.between(1, 3);
        let mut shape = random.shape(rank, 6);
        let axis = random.below(rank);
        shape[axis] = random.pick(&[1, 2, 7, 100, 300, 1000, 2500]);
        let k = random
            .pick(&[1, 2, 5, 33, 100, shape[axis]])
            .min(shape[axis]);
        if axis + 1 < rank {
            shape[rank - 1] = random.pick(&[1, 3, 16, 21]);
        }
        let case = variable(Case::new("TopK"), elements(&mut random, dtype, &shape));
        let case = case.constant(&[1], &[k as i64]).int("axis", axis as i64);
        let case = case.int("largest", random.below(2) as i64).outputs(2);
        case.agrees_with_reference(0.0);
        if round < 12 {
            case.without_output(round % 2).agrees_with_reference(0.0);
        }
    }
    // Many lanes, on more than one thread.
    let x = elements(&mut random, DataType::F32, &[300, 200]);
    let case = variable(Case::new("TopK"), x).constant(&[1], &[3i64]);
    case.outputs(2).agrees_with_reference(0.0);
}

#[test]
fn indices_out_of_bounds_are_errors() {
    let data = [0f32; 12];
    let at = |index: i64| {
        [
            Case::new("Gather")
                .input(&[3, 4], &data)
                .input(&[1], &[index]),
            Case::new("GatherElements")
                .input(&[3, 4], &data)
                .input(&[1, 1], &[index]),
            Case::new("GatherND")
                .input(&[3, 4], &data)
                .input(&[1, 2], &[0, index]),
            Case::new("ScatterElements")
                .input(&[3, 4], &data)
                .input(&[1, 1], &[index])
                .input(&[1, 1], &[1f32]),
            Case::new("ScatterND")
                .input(&[3, 4], &data)
                .input(&[1, 1], &[index])
                .input(&[1, 4], &[1f32; 4]),
            Case::new("TensorScatter")
                .input(&[1, 3, 4], &data)
                .input(&[1, 1, 4], &[1f32; 4])
                .input(&[1], &[index]),
            Case::new("ReverseSequence")
                .input(&[3, 4], &data)
                .input(&[4], &[0, 1, 2, index]),
        ]
    };
    for index in [4, -5, i64::MIN, i64::MAX, 1 << 32, -1 << 32] {
        for case in at(index) {
            let case = case.outputs(1);
            for level in LEVELS {
                let error = case.bind(level).try_execute().unwrap_err();
                assert_eq!(
                    error.kind(),
                    ErrorKind::OutOfBounds,
                    "{}",
                    case.spec.op.name
                );
                assert!(error.to_string().contains(&index.to_string()), "{error}");
            }
        }
    }
}

#[test]
fn hostile_attributes_and_types_are_refused() {
    let data = [0f32; 12];
    let refused = |case: Case, text: &str| {
        let refusal = case.supported(LEVELS[0]).unwrap_err().to_string();
        assert!(refusal.contains(text), "{}: {refusal}", case.spec.op.name);
    };
    let gather = || {
        Case::new("Gather")
            .input(&[3, 4], &data)
            .input(&[1], &[0i64])
    };
    refused(gather().int("axis", i64::MIN).f32_output(&[1, 4]), "axis");
    refused(gather().f32_output(&[2, 4]), "outputs");
    refused(gather().output(DataType::I32, &[1, 4]), "outputs");
    let nd = || {
        Case::new("GatherND")
            .input(&[3, 4], &data)
            .input(&[1, 1], &[0i64])
    };
    for batch in [i64::MIN, -1, 2, i64::MAX] {
        refused(
            nd().int("batch_dims", batch).f32_output(&[1, 4]),
            "batch_dims",
        );
    }
    let scatter = Case::new("ScatterND")
        .input(&[3, 4], &data)
        .input(&[1, 1], &[0i64])
        .input(&[1, 4], &[0f32; 4])
        .string("reduction", "and")
        .f32_output(&[3, 4]);
    refused(scatter, "reduction");
    let top = |k: i64| {
        let case = Case::new("TopK").input(&[3, 4], &data).constant(&[1], &[k]);
        case.f32_output(&[3, 1]).output(DataType::I64, &[3, 1])
    };
    for k in [-1, 5, i64::MAX, i64::MIN] {
        refused(top(k), "K");
    }
    let variable = Case::new("TopK").input(&[3, 4], &data).input(&[1], &[1i64]);
    refused(
        variable.f32_output(&[3, 1]).output(DataType::I64, &[3, 1]),
        "constant",
    );
    let flags = Attribute::Ints(vec![1, 0]);
    let case = Case::new("Trilu")
        .input(&[3, 4], &data)
        .attribute("upper", flags);
    refused(case.f32_output(&[3, 4]), "upper");
}
