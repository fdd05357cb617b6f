//! Tests of opened files: laziness, several problems at once, wrong redundant tables.

use super::section::{SectionId, Sections};
use super::{EncodeOptions, File, decode, encode};
use crate::{FunctionBuilder, FunctionId, FunctionKind, KernelLocation, Module, Name};
use std::ops::Range;
use std::sync::Arc;

/// Three functions: `one` and `three` of two kernels with a location and an attribute, `two`
/// native.
fn example() -> Module {
    let mut module = Module::new();
    for name in ["one", "two", "three"] {
        if name == "two" {
            module.add(crate::Function::native(name, ["i32"], ["i32"]));
            continue;
        }
        let mut function = FunctionBuilder::new(name, FunctionKind::Async);
        function.location(KernelLocation::FileLineCol {
            file: "a.mlir".into(),
            line: 1,
            column: 1,
        });
        let seven = function.kernel("make").attribute("value", 7i32);
        let seven = seven.result("i32");
        let sum = function.kernel("add").operands([seven, seven]);
        let sum = sum.result("i32");
        module.add(function.returns([sum]));
    }
    module
}

fn bytes() -> Vec<u8> {
    encode(&example(), &EncodeOptions::default()).unwrap()
}

/// The range of a section's body.
fn section(file: &[u8], id: SectionId) -> Range<usize> {
    let sections = Sections::read(file).unwrap();
    let reader = sections.reader(id, file);
    reader.offset() as usize..reader.offset() as usize + reader.remaining()
}

#[test]
fn opening_reads_headers_and_the_index_only() {
    let whole = bytes();
    let mut noise = whole.clone();
    let index = section(&whole, SectionId::FunctionIndex);
    use SectionId::{AttributeNames, Attributes, Functions, Kernels, Locations, Strings, Types};
    for id in [
        Strings,
        Attributes,
        Kernels,
        Types,
        Functions,
        Locations,
        AttributeNames,
    ] {
        noise[section(&whole, id)].fill(0xFF);
    }
    assert_eq!(noise[index.clone()], whole[index]);
    let file = File::open(&noise).unwrap();
    assert_eq!(file.len(), 3);
    assert!(file.functions().is_err());
    assert!(file.kernel_names().is_err());
    assert!(file.function(FunctionId(0)).is_err());
    assert!(file.module().is_err());
}

#[test]
fn functions_are_decoded_one_by_one() {
    let (module, bytes) = (example(), bytes());
    let file = File::open(&bytes).unwrap();
    for id in [2, 0, 1, 2] {
        let function = file.function(FunctionId(id)).unwrap();
        assert_eq!(function, module.functions[id as usize]);
    }
    assert_eq!(file.find("three").unwrap(), Some(FunctionId(2)));
    assert_eq!(file.find("four").unwrap(), None);
    let error = file.function(FunctionId(3)).unwrap_err().to_string();
    assert!(error.ends_with("expected less than 3, found 3"), "{error}");
    let entries = file.functions().unwrap();
    assert_eq!(entries[1].kind, FunctionKind::Native);
    assert_eq!(entries[1].argument_types, ["i32"]);
    assert_eq!(entries[2].result_types, ["i32"]);
    let names: Vec<&Name> = entries.iter().map(|entry| &entry.name).collect();
    assert_eq!(names, ["one", "two", "three"]);
    assert_eq!(file.kernel_names().unwrap(), ["make", "add"]);
    let streams = file.streams(FunctionId(0)).unwrap();
    assert_eq!((streams.root, &streams.kernels[..]), (0, &[0, 0][..]));
    assert!(file.streams(FunctionId(1)).is_err(), "no body");
    file.verify().unwrap();
}

#[test]
fn a_file_may_own_its_bytes() {
    let bytes: Arc<[u8]> = bytes().into();
    let file: File<'static> = File::open_owned(bytes.clone()).unwrap();
    let threads: Vec<_> = std::thread::scope(|scope| {
        let decode = || file.function(FunctionId(2)).unwrap();
        let threads = [scope.spawn(decode), scope.spawn(decode)];
        threads.map(|thread| thread.join().unwrap()).into()
    });
    assert_eq!(threads, vec![example().functions[2].clone(); 2]);
}

#[test]
fn bytes_need_no_alignment() {
    let file = bytes();
    for shift in 0..8 {
        let mut shifted = vec![0; shift];
        shifted.extend(&file);
        assert_eq!(decode(&shifted[shift..]).unwrap(), example());
    }
}

/// The body of function `one` or `three`, and the records of its kernels, by word.
fn words_of(file: &[u8], function: usize) -> usize {
    let functions = section(file, SectionId::Functions);
    // Both bodies have the same size, half of the section each. Location, 2 registers, 3 kernels of
    // 3 bytes, the result: 15 bytes and one of padding.
    functions.start + function * functions.len() / 2 + 16
}

#[test]
fn all_problems_are_reported_together() {
    let mut file = bytes();
    for function in [0, 1] {
        let kernels = words_of(&file, function);
        // The pseudo kernel takes 9 words, `make` 11, of which the first is its code; the operands
        // of `add` are words 7 and 8.
        file[kernels + 4 * 9] = 77;
        file[kernels + 4 * (9 + 11 + 7)] = 1;
        file[kernels + 4 * (9 + 11 + 8)] = 9;
    }
    let error = decode(&file).unwrap_err();
    let lines: Vec<String> = error.to_string().lines().map(str::to_owned).collect();
    assert_eq!(lines.len(), 6, "{lines:#?}");
    for (line, function) in lines
        .iter()
        .zip(["one", "one", "one", "three", "three", "three"])
    {
        assert!(line.starts_with("section Functions: byte "), "{line}");
        assert!(line.contains(&format!("node '{function}': ")), "{line}");
    }
    let ends = [
        "a kernel code outside of the Kernels table: expected less than 2, found 77",
        "a register that is used before its definition: found %1",
        "a register outside of the register table: expected less than 2, found 9",
    ];
    for (line, end) in lines.iter().zip(ends.iter().chain(&ends)) {
        assert!(line.ends_with(end), "{line}");
    }
    // One function separately.
    let opened = File::open(&file).unwrap();
    assert_eq!(opened.function(FunctionId(2)).unwrap_err().all().count(), 3);
}

#[test]
fn wrong_use_tables_are_reported() {
    let good = bytes();
    let kernels = words_of(&good, 0);
    let find = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut file = good.clone();
        change(&mut file);
        assert_eq!(decode(&file).unwrap(), example(), "nothing relies on them");
        let error = File::open(&file).unwrap().verify().unwrap_err();
        error.to_string()
    };
    let error = find(&|file| file[kernels - 16 + 2] = 9);
    assert!(
        error.ends_with("another use count of %0: expected 2, found 9"),
        "{error}"
    );
    // In `make`, kernel 2 uses %0 twice: the last two words.
    let error = find(&|file| file[kernels + 4 * 19] = 1);
    let expected = "another list of users of %0: expected [2, 2], found [2, 1]";
    assert!(error.ends_with(expected), "{error}");
}

#[test]
fn two_functions_cannot_share_a_body() {
    let mut file = bytes();
    let index = section(&file, SectionId::FunctionIndex);
    // The last entry: kind, offset (2 bytes), name, no arguments, one result.
    let offset = index.end - 6..index.end - 4;
    file[offset.clone()].copy_from_slice(&[0x80, 0]);
    let error = File::open(&file).unwrap_err().to_string();
    assert!(
        error.contains("two functions with the same body"),
        "{error}"
    );
}
