//! Operations and access patterns against NumPy and ml_dtypes. Needs the interpreter that
//! `TENON_PYTHON` names; says so when it is unset.
#![allow(clippy::print_stderr, reason = "says that it skips")]

use std::path::Path;
use std::process::Command;
use tenon_dma::{Access, ByteRange, Constant, Descriptor, Operation, Plan, VariableId};
use tenon_tensor::{DataType, converter};

#[test]
fn movements_are_those_of_numpy() {
    let Some(python) = std::env::var_os("TENON_PYTHON") else {
        eprintln!("skipped: TENON_PYTHON is not set");
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/numpy_movements.py");
    let status = Command::new(python)
        .arg(script)
        .arg(folder.path())
        .status()
        .unwrap();
    assert!(status.success());
    let cases = std::fs::read_to_string(folder.path().join("cases.txt")).unwrap();
    for line in cases.lines() {
        check(line, folder.path());
    }
    assert!(cases.lines().count() > 400);
}

fn check(line: &str, folder: &Path) {
    let mut words = line.split(' ');
    let name = words.next().unwrap();
    let descriptor = descriptor(words);
    let file = |part: &str| std::fs::read(folder.join(format!("{name}.{part}.bin"))).unwrap();
    let sources: Vec<Vec<u8>> = (0..descriptor.from.len())
        .map(|i| file(&i.to_string()))
        .collect();
    let expected = file("to");
    descriptor
        .check(|id| {
            let bytes = sources.get(id.index()).unwrap_or(&expected);
            Some(bytes.len() as u64)
        })
        .unwrap();
    let plan = Plan::new(&descriptor).unwrap();
    let of = |range: &ByteRange| range.start as usize..range.end as usize;
    let parts = sources.iter().zip(plan.sources());
    let parts: Vec<&[u8]> = parts.map(|(bytes, range)| &bytes[of(range)]).collect();
    let mut found = vec![0xee; expected.len()];
    plan.execute(&parts, &mut found[of(&plan.target())])
        .unwrap();
    if found == expected {
        return;
    }
    // NaN payloads may differ; targets with NaNs are contiguous.
    let dtype = descriptor.to.dtype;
    let size = dtype.bits() / 8;
    for (expected, found) in expected.chunks(size).zip(found.chunks(size)) {
        let same = expected == found || is_nan(dtype, expected) && is_nan(dtype, found);
        assert!(same, "{line}: expected {expected:02x?}, found {found:02x?}");
    }
}

fn is_nan(dtype: DataType, bytes: &[u8]) -> bool {
    let mut wide = [0; 8];
    if dtype.is_float() && bytes.len() == dtype.bits() / 8 {
        converter(dtype, DataType::F64).unwrap()(bytes, &mut wide);
    }
    f64::from_le_bytes(wide).is_nan()
}

fn descriptor<'a>(mut words: impl Iterator<Item = &'a str>) -> Descriptor {
    let operation = words.next().unwrap();
    let (options, accesses): (Vec<&str>, Vec<&str>) = words.partition(|word| word.contains('='));
    let option = |name: &str| {
        let found = options.iter().filter_map(|text| text.split_once('='));
        found
            .filter(|(known, _)| *known == name)
            .map(|(_, value)| value)
            .next()
    };
    let sources = accesses.len() - 1;
    let mut accesses = accesses.into_iter();
    let to = access(accesses.next().unwrap(), sources);
    let constant = || {
        option("constant").map(|text| match text.split_once(':').unwrap() {
            ("f32", value) => Constant::F32(value.parse().unwrap()),
            ("i32", value) => Constant::I32(value.parse().unwrap()),
            (_, value) => Constant::U32(value.parse().unwrap()),
        })
    };
    let operation = match operation {
        "copy" => Operation::Copy,
        "cast" => Operation::Cast,
        "add" => Operation::Add,
        "min" => Operation::Min {
            constant: constant(),
        },
        "max" => Operation::Max {
            constant: constant(),
        },
        "fma" => Operation::Fma {
            scales: list(option("scales").unwrap()),
        },
        "transpose" => Operation::Transpose {
            shape: list::<Vec<u64>, _>(option("shape").unwrap())
                .try_into()
                .unwrap(),
            element_size: option("element").unwrap().parse().unwrap(),
        },
        other => panic!("{other}"),
    };
    Descriptor {
        operation,
        from: accesses
            .enumerate()
            .map(|(index, text)| access(text, index))
            .collect(),
        to,
    }
}

fn access(text: &str, variable: usize) -> Access {
    let parts: Vec<&str> = text.split(':').collect();
    Access {
        variable: VariableId(variable as u32),
        dtype: parts[0].parse().unwrap(),
        offset: parts[1].parse().unwrap(),
        sizes: list(parts[2]),
        steps: list(parts[3]),
    }
}

fn list<L: FromIterator<T>, T: std::str::FromStr<Err: std::fmt::Debug>>(text: &str) -> L {
    text.split(',').map(|item| item.parse().unwrap()).collect()
}
