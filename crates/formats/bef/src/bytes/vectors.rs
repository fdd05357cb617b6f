//! Test vectors written by hand from the rules of bef 1.1 to bef 1.7: order and sharing of all parts,
//! on any host.

use super::budget::Budget;
use super::location::{LocationReader, LocationWriter};
use super::section::HEADER;
use super::strings::StringsReader;
use super::wire::{Reader, Writer};
use super::{EncodeOptions, decode, encode};
use crate::{
    Attribute, Function, FunctionBuilder, FunctionKind, KernelLocation, Module, RegisterId,
};

fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

/// A region of one kernel in a kernel of `main`:
///
/// ```none
/// %0 = b.make {n = 1 : i64} : i32
/// %1 = a.loop %0 { (%a) : %b = c.in %a : f32; return %a } : i32
/// b.use %1, %0
/// return %1
/// ```
fn with_region() -> Module {
    let mut module = Module::new();
    let mut region = FunctionBuilder::region();
    let argument = region.argument("i32");
    region.kernel("c.in").operands([argument]).result("f32");
    let region = module.add(region.returns([argument]));
    let mut main = FunctionBuilder::new("main", FunctionKind::Async);
    let made = main.kernel("b.make").attribute("n", 1i64).result("i32");
    let looped = main.kernel("a.loop").operands([made]).region(region);
    let looped = looped.result("i32");
    main.kernel("b.use").operands([looped, made]).done();
    module.add(main.returns([looped]));
    module
}

#[test]
fn the_bytes_of_a_file_with_a_region() {
    let mut file = HEADER.to_vec();
    // Strings, sorted by bytes: "" 0, a.loop 1, b.make 8, b.use 15, c.in 21, f32 26, i32 30,
    // i64 34, main 38, n 43; 45 bytes.
    file.extend([0, 45 << 1]);
    file.extend(b"\0a.loop\0b.make\0b.use\0c.in\0f32\0i32\0i64\0main\0n\0");
    // Attributes: one i64. The body would start at 52, which is not a multiple of 8: flag,
    // alignment, padding up to 56.
    file.extend([1, (8 << 1) | 1, 8, 0xCC, 0xCC, 0xCC]);
    file.extend([1, 0, 0, 0, 0, 0, 0, 0]);
    // Kernels: those of a region precede the kernel that contains it.
    file.extend([2, 5 << 1, 4, 8, 21, 1, 15]);
    // Types: the result of b.make, its attribute, the result of c.in.
    file.extend([3, 4 << 1, 3, 30, 34, 26]);
    // FunctionIndex: the region (kind 0, offset 0, no name, i32 to i32), then main.
    file.extend([4, 14 << 1, 2]);
    file.extend([0, 0, 0, 1, 0, 1, 0]);
    file.extend([0, 92, 38, 0, 1, 0]);
    // Functions: 268 bytes from 96 on, which is a multiple of 4: no flag. 536 is 0x84 0x18.
    file.extend([5, 0x84, 0x18]);
    assert_eq!(file.len(), 96);
    // The region: location 0; two registers, the argument used by c.in and returned; two kernels,
    // streams 0 (with the return) and 1; returns %0. Twelve bytes, so no padding.
    file.extend([0, 2, 2, 0, 2, 0, 0, 0, 44, 1, 1, 0]);
    // The pseudo kernel defines %2, which is unused, and the argument %0 for kernel 1.
    file.extend(words(&[0xABAB_ABAB, 0xCDCD_CDCD, 0, 0, 0, 2]));
    file.extend(words(&[0, 1, 2, 0, 1]));
    // c.in: code 1, location 1, an operand, a result without users.
    file.extend(words(&[1, 1, 1, 0, 0, 1, 0, 0, 1]));
    // main: location 2; two registers, each used twice; four kernels; returns %1; padding.
    file.extend([
        2, 2, 2, 2, 4, 0, 0, 0, 36, 0, 0, 80, 1, 0, 124, 2, 1, 1, 0xCC, 0xCC,
    ]);
    // The pseudo kernel defines %2 for kernel 1, which has no operands.
    file.extend(words(&[0xABAB_ABAB, 0xCDCD_CDCD, 0, 0, 0, 1, 1, 2, 1]));
    // b.make: code 0, location 3, attribute at 0, %0 with two users, the last one first.
    file.extend(words(&[0, 3, 0, 1, 0, 1, 2, 0, 0, 3, 2]));
    // a.loop: code 2, location 4, operand %0, function 0, %1 with one user: returning is not
    // listed.
    file.extend(words(&[2, 4, 1, 0, 1, 1, 1, 0, 0, 1, 3]));
    // b.use: code 3, location 5, operands %1 and %0.
    file.extend(words(&[3, 5, 2, 0, 0, 0, 1, 0]));
    // LocationStrings and Locations: six unknown locations, each a separate byte.
    file.extend([6, 0, 7, 6 << 1, 0, 0, 0, 0, 0, 0]);
    // AttributeTypes: i64 at 0. AttributeNames: two functions of two and four kernels, "n".
    file.extend([8, 3 << 1, 1, 0, 9]);
    file.extend([9, 4 << 1, 2, 2, 4, 43]);
    // RegisterTypes: i32 and f32; i32 and i32.
    file.extend([10, 7 << 1, 2, 2, 0, 2, 2, 0, 0]);
    // The names of the references are inferred: no section of Tenon.
    let module = with_region();
    assert_eq!(encode(&module, &EncodeOptions::default()).unwrap(), file);
    assert_eq!(decode(&file).unwrap(), module);
}

#[test]
fn the_bytes_of_all_kinds_of_functions() {
    let mut module = Module::new();
    module.add(Function::native("n", ["i1"], ["i8"]));
    module.add(FunctionBuilder::new("s", FunctionKind::Sync).returns([]));
    module.add(FunctionBuilder::new("z", FunctionKind::Async).returns([]));
    let options = EncodeOptions {
        optional_sections: false,
    };
    let file = encode(&module, &options).unwrap();
    // Strings: i1 0, i8 3, n 6, s 8, z 10. An empty Attributes section, no kernels, two types.
    let mut expected = HEADER.to_vec();
    expected.extend([0, 12 << 1]);
    expected.extend(b"i1\0i8\0n\0s\0z\0");
    expected.extend([1, 0, 2, 1 << 1, 0, 3, 3 << 1, 2, 0, 3]);
    // A native function of kind 1 has the offset where the next body starts; sync is 2. A body
    // without kernels takes 8 bytes and a pseudo kernel of 8 words.
    expected.extend([4, 18 << 1, 3]);
    expected.extend([1, 0, 6, 1, 0, 1, 1]);
    expected.extend([2, 0, 8, 0, 0]);
    expected.extend([0, 40, 10, 0, 0]);
    assert_eq!(file[..expected.len()], expected);
    assert_eq!(decode(&file).unwrap(), module);
}

#[test]
fn the_bytes_of_all_kinds_of_locations() {
    let place = KernelLocation::FileLineCol {
        file: "f.py".into(),
        line: 42,
        column: 314,
    };
    let named = |name: &str, child| KernelLocation::Name {
        name: name.into(),
        child: Box::new(child),
    };
    let fused = KernelLocation::Fused(vec![
        named("a", KernelLocation::Unknown),
        KernelLocation::CallSite {
            callee: Box::new(place.clone()),
            caller: Box::new(named("a", place.clone())),
        },
    ]);
    let mut writer = LocationWriter::default();
    assert_eq!(writer.add(&KernelLocation::Unknown), 0);
    assert_eq!(writer.add(&fused), 1);
    assert_eq!(writer.add(&place), 19, "a separate record");
    // Strings are shared: "a" 0, "f.py" 2. 314 is 2 * 128 + 58.
    assert_eq!(writer.strings, b"a\0f.py\0");
    let mut expected = vec![0];
    expected.extend([4, 2]);
    expected.extend([2, 0, 0]);
    expected.extend([3, 1, 2, 42, 0x82, 58, 2, 0, 1, 2, 42, 0x82, 58]);
    expected.extend([1, 2, 42, 0x82, 58]);
    // The fused record: two bytes, three for the name, thirteen for the call site.
    assert_eq!(writer.locations.bytes, expected);

    let strings = Reader::new("LocationStrings", 0, &writer.strings);
    let mut reader = LocationReader {
        locations: Reader::new("Locations", 0, &expected),
        strings: StringsReader::new(strings),
    };
    let mut budget = Budget::for_file(0);
    let mut read = |offset| {
        let mut location = KernelLocation::Unknown;
        let read = reader.location(offset, &mut budget, &mut location);
        read.map(|()| location).unwrap()
    };
    assert_eq!((read(1), read(19)), (fused, place));
    // Locations that TFRT cannot write have offsets after the section (bef 1.7).
    assert_eq!(read(0xFFFF_FFFE), KernelLocation::Unknown);
}

#[test]
fn the_bytes_of_a_nested_aggregate() {
    let attribute = Attribute::list(vec![vec![1i32].into(), 2i64.into()]);
    let mut main = FunctionBuilder::new("m", FunctionKind::Async);
    main.kernel("k").attribute("a", attribute).done();
    let module = Module::from(main.returns([]));
    let file = encode(&module, &EncodeOptions::default()).unwrap();
    // A nested array counts as aligned to 8, so that the prefix of 20 bytes ends at 24. Each
    // element has its type in the byte before it: 0x88 an array of i32, 9 an i64. Offsets count
    // from the start of the aggregate.
    let mut expected = vec![0xCC; 4];
    expected.extend([
        8, 0, 20, 0, 44, 0, 0, 0, 2, 0, 0, 0, 24, 0, 0, 0, 36, 0, 0, 0,
    ]);
    expected.extend([0xCC, 0xCC, 0xCC, 0x88, 1, 0, 0, 0, 1, 0, 0, 0]);
    expected.extend([0xCC, 0xCC, 0xCC, 9, 2, 0, 0, 0, 0, 0, 0, 0]);
    let at = file.windows(expected.len()).position(|w| w == expected);
    // The section is aligned to 8 in the file.
    assert_eq!(at.unwrap() % 8, 0);
    assert_eq!(decode(&file).unwrap(), module);
}

#[test]
fn distinct_attributes_are_in_the_order_of_first_use() {
    let mut main = FunctionBuilder::new("m", FunctionKind::Async);
    for (value, other) in [(7i32, 1u8), (5, 2), (7, 1)] {
        let kernel = main.kernel("k").attribute("b", value);
        kernel.attribute("a", other).done();
    }
    let mut unused = Vec::<RegisterId>::new();
    let module = Module::from(main.returns(unused.drain(..)));
    let file = encode(&module, &EncodeOptions::default()).unwrap();
    // By name "a" is first: 1 : ui8, then 7 : i32 at 4; 2 : ui8, then 5 : i32 at 12.
    let expected = [
        1, 0xCC, 0xCC, 0xCC, 7, 0, 0, 0, 2, 0xCC, 0xCC, 0xCC, 5, 0, 0, 0,
    ];
    assert!(file.windows(16).any(|window| window == expected));
    let mut types = Writer::new();
    types.raw(&[8, 9 << 1, 4, 0, 1, 4, 8, 8, 1, 12, 8]);
    assert!(file.windows(11).any(|window| window == types.bytes));
}
