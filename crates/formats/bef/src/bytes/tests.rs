//! Whole files: bytes of examples, random Modules, and corrupted files.

use super::*;
use crate::MAX_LOCATION_NESTING;
use crate::arbitrary::module;
use crate::{
    Attribute, Function, FunctionBuilder, FunctionId, FunctionKind, KernelLocation, Module,
};
use proptest::prelude::*;

fn bytes(module: &Module) -> Vec<u8> {
    encode(module, &EncodeOptions::default()).unwrap()
}

/// `%0 = constant 7`, `%1 = add %0, %0`, return `%1`.
fn example() -> Module {
    let mut main = FunctionBuilder::new("main", FunctionKind::Async);
    let seven = main
        .kernel("constant")
        .attribute("value", 7i32)
        .result("i32");
    let sum = main.kernel("add").operands([seven, seven]).result("i32");
    let mut module = Module::new();
    module.add(main.returns([sum]));
    module
}

#[test]
fn golden_file() {
    let mut expected = vec![0x0B, 0xEF, 0x00];
    // Strings, sorted: "add" 0, "constant" 4, "i32" 13, "main" 17, "value" 22.
    expected.extend([0, 28 << 1]);
    expected.extend(b"add\0constant\0i32\0main\0value\0");
    // Attributes: aligned to 4. The body would start at byte 35, so the flag; then it starts at 36.
    expected.extend([1, (4 << 1) | 1, 4]);
    expected.extend([7, 0, 0, 0]);
    // Kernels in the order of use: constant, add. Types: i32.
    expected.extend([2, 3 << 1, 2, 4, 0]);
    expected.extend([3, 2 << 1, 1, 13]);
    // FunctionIndex: one function, kind 0, offset 0, name 17, no arguments, one i32.
    expected.extend([4, 7 << 1, 1, 0, 0, 17, 0, 1, 0]);
    // Functions, aligned to 4.
    let mut body = vec![0]; // location
    body.extend([2, 2, 1]); // two registers, used twice and once
    body.extend([3, 0, 0, 0, 36, 0, 0, 80, 2, 0]); // three kernels: offset, operands, stream
    body.extend([1]); // returns %1
    body.extend([0xCC]); // to a multiple of 4
    let mut words: Vec<u32> = vec![0xABAB_ABAB, 0xCDCD_CDCD, 0, 0, 0, 1];
    words.extend([1, 2, 1]); // one user; register 2; the user is kernel 1
    words.extend([0, 1, 0, 1, 0, 1]); // constant: location 1, one attribute, one result
    words.extend([2, 0, 0, 2, 2]); // two uses; attribute at 0; register 0; used by kernel 2 twice
    words.extend([1, 2, 2, 0, 0, 1]); // add: location 2, two operands, one result
    words.extend([0, 0, 0, 1]); // no users; operands 0 and 0; register 1
    let list: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    body.extend(list);
    let file = bytes(&example());
    let functions = file.windows(body.len()).position(|window| window == body);
    assert_eq!(file[..expected.len()], expected);
    let start = functions.expect("the function's body");
    assert_eq!(start % 4, 0);
    // LocationStrings (empty), Locations: three unknown locations, each a separate byte.
    let rest = &file[start + body.len()..];
    assert_eq!(rest[..7], [6, 0, 7, 3 << 1, 0, 0, 0]);
    // AttributeTypes: one i32 at 0. AttributeNames: one function, three kernels, "value".
    assert_eq!(rest[7..12], [8, 3 << 1, 1, 0, 8]);
    assert_eq!(rest[12..17], [9, 3 << 1, 1, 3, 22]);
    // RegisterTypes: one function, two registers of type 0.
    assert_eq!(rest[17..], [10, 4 << 1, 1, 2, 0, 0]);
}

#[test]
fn optional_sections_can_be_left_out() {
    let module = example();
    let options = EncodeOptions {
        optional_sections: false,
    };
    let bare = decode(&encode(&module, &options).unwrap()).unwrap();
    let function = &bare.functions[0];
    assert_eq!(function.registers, ["none", "i32"]);
    let attributes = &function.kernels[0].attributes;
    assert_eq!(
        *attributes,
        [("attr0".into(), Attribute::I32(-559_038_737))]
    );
}

#[test]
fn names_of_function_references_round_trip() {
    let mut module = Module::new();
    let native = module.add(Function::native("native", ["i32"], ["i32"]));
    let mut region = FunctionBuilder::region();
    let argument = region.argument("i32");
    let region = module.add(region.returns([argument]));
    let mut main = FunctionBuilder::new("main", FunctionKind::Async);
    main.kernel("own.pair")
        .function("first", native)
        .function("second", native)
        .done();
    main.kernel("own.list")
        .function("list[]", native)
        .function("list[]", native)
        .done();
    main.kernel("own.region").region(region).done();
    module.add(main.returns([]));
    let file = bytes(&module);
    assert_eq!(decode(&file).unwrap(), module);

    // Names that are inferred need no section.
    let mut plain = Module::new();
    let callee = plain.add(Function::native("native", ["i32"; 0], []));
    let mut main = FunctionBuilder::new("main", FunctionKind::Async);
    main.kernel("tfrt.call").function("callee", callee).done();
    main.kernel("tfrt.cond")
        .function("a_true_fn", callee)
        .function("b_false_fn", callee)
        .done();
    plain.add(main.returns([]));
    let known = section::Sections::read(&file).unwrap();
    assert!(
        known
            .optional(section::SectionId::FunctionReferenceNames, &file)
            .is_some()
    );
    let file = bytes(&plain);
    let known = section::Sections::read(&file).unwrap();
    assert!(
        known
            .optional(section::SectionId::FunctionReferenceNames, &file)
            .is_none()
    );
    assert_eq!(decode(&file).unwrap(), plain);
}

#[test]
fn nan_payloads_round_trip() {
    let mut main = FunctionBuilder::new("main", FunctionKind::Async);
    let odd = f32::from_bits(0x7FC1_2345);
    main.kernel("constant").attribute("value", odd).done();
    let mut module = Module::new();
    module.add(main.returns([]));
    let back = decode(&bytes(&module)).unwrap();
    let Attribute::F32(value) = back.functions[0].kernels[0].attributes[0].1 else {
        panic!()
    };
    assert_eq!(value.to_bits(), odd.to_bits());
}

#[test]
fn annotations_round_trip() {
    let mut module = example();
    let plain = bytes(&module);
    let place = |line| KernelLocation::FileLineCol {
        file: "a.mlir".into(),
        line,
        column: 3,
    };
    module.attributes = vec![
        ("tfrt.cost_threshold".into(), Attribute::I64(10)),
        (
            "test.type".into(),
            Attribute::Foreign("tensor<?xf32>".into()),
        ),
    ];
    module.attributes.sort_by(|(a, _), (b, _)| a.cmp(b));
    module.functions[0].attributes = vec![
        ("a.flag".into(), Attribute::Unit),
        ("b.list".into(), Attribute::from(vec!["x", "y"])),
    ];
    module.functions[0].return_location = place(4);
    module.functions[0].kernels[1].attributes = vec![("_tfrt_cost".into(), Attribute::I64(3))];
    let mut native = Function::native("native", ["i32"; 0], []);
    native.location = place(7);
    module.add(native);
    let file = bytes(&module);
    assert_eq!(decode(&file).unwrap(), module);
    assert_eq!(bytes(&decode(&file).unwrap()), file);

    // A Module without annotations has no such section.
    let annotations = |file: &[u8]| {
        let sections = section::Sections::read(file).unwrap();
        sections
            .optional(section::SectionId::Annotations, file)
            .is_some()
    };
    assert!(annotations(&file));
    assert!(!annotations(&plain));
}

#[test]
fn attributes_that_bef_cannot_encode_are_reported() {
    let mut module = example();
    module.functions[0].kernels[0].attributes =
        vec![("type".into(), Attribute::Foreign("tensor<1xf32>".into()))];
    module.functions[0].kernels[1].attributes = vec![("flag".into(), Attribute::Unit)];
    let error = encode(&module, &EncodeOptions::default()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "@main: kernel 0 'constant': BEF files cannot encode the 'type' attribute\n\
         @main: kernel 1 'add': BEF files cannot encode the 'flag' attribute"
    );
}

#[test]
fn the_cost_is_not_encoded_as_a_kernel_attribute() {
    let mut main = FunctionBuilder::new("main", FunctionKind::Async);
    main.kernel("work")
        .attribute("_tfrt_cost", 5i64)
        .attribute("id", 1i64)
        .done();
    let mut module = Module::new();
    module.add(main.returns([]));
    let file = bytes(&module);
    assert_eq!(decode(&file).unwrap(), module);
    // Readers that skip Tenon's section decode the other attribute only.
    let start = file.iter().rposition(|byte| *byte == 0x75).unwrap();
    let known = decode(&file[..start]).unwrap();
    assert_eq!(
        known.functions[0].kernels[0].attributes,
        [("id".into(), Attribute::I64(1))]
    );
}

#[test]
fn many_references_to_one_long_string_are_refused() {
    // A long string attribute, once in the file and owned by each of many kernels.
    let mut main = FunctionBuilder::new("main", FunctionKind::Async);
    let long = "x".repeat(1 << 18);
    for _ in 0..300 {
        main.kernel("k").attribute("value", long.as_str()).done();
    }
    let mut module = Module::new();
    module.add(main.returns([]));
    let file = bytes(&module);
    assert!(file.len() < 2 << 18);
    let error = decode(&file).unwrap_err().to_string();
    assert!(error.contains("expands to more than"), "{error}");
}

#[test]
fn a_cost_encoded_as_an_attribute_is_checked() {
    let mut main = FunctionBuilder::new("main", FunctionKind::Async);
    main.kernel("work").attribute("_tfrt_cosT", 0i64).done();
    let mut file = bytes(&Module::from(main.returns([])));
    let at = file.windows(10).position(|w| w == b"_tfrt_cosT").unwrap();
    file[at + 9] = b't';
    let error = decode(&file).unwrap_err().to_string();
    assert!(
        error.ends_with("op cost value must be larger than 0"),
        "{error}"
    );
}

#[test]
fn problems_have_a_location() {
    let file = bytes(&example());
    let mut cut = file.clone();
    cut.truncate(file.len() - 1);
    let error = decode(&cut).unwrap_err().to_string();
    assert!(error.starts_with("section header: byte "), "{error}");
    let mut register = file.clone();
    let at = file.windows(4).rposition(|w| w == [1, 0, 0, 0]).unwrap();
    register[at] = 9;
    let error = decode(&register).unwrap_err().to_string();
    assert!(error.contains("section Functions: byte"), "{error}");
    assert!(error.contains("node 'main'"), "{error}");
    assert!(error.contains("expected less than 2, found 9"), "{error}");
}

#[test]
fn deep_locations_are_refused() {
    let mut location = KernelLocation::Unknown;
    for _ in 0..=MAX_LOCATION_NESTING {
        location = KernelLocation::Name {
            name: "n".into(),
            child: Box::new(location),
        };
    }
    let mut main = FunctionBuilder::new("main", FunctionKind::Async);
    main.location(location);
    let mut module = Module::new();
    module.add(main.returns([]));
    assert!(encode(&module, &EncodeOptions::default()).is_err());
    assert_eq!(FunctionId(0).to_string(), "@0");
}

proptest! {
    #![proptest_config(ProptestConfig::default())]

    #[test]
    fn what_is_written_reads_back(module in module()) {
        let file = bytes(&module);
        let back = decode(&file).unwrap();
        prop_assert_eq!(&back, &module);
        prop_assert_eq!(bytes(&back), file);
    }

    #[test]
    fn a_cut_file_is_an_error_or_a_module(module in module(), cut in any::<prop::sample::Index>()) {
        let file = bytes(&module);
        let _ = decode(&file[..cut.index(file.len())]);
    }

    #[test]
    fn a_damaged_file_never_panics(
        module in module(),
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
    ) {
        let mut file = bytes(&module);
        for (at, byte) in damage {
            let at = at.index(file.len());
            file[at] = byte;
        }
        if let Ok(module) = decode(&file) {
            // Accepted Modules are encodable and round-trip.
            let file = encode(&module, &EncodeOptions::default()).unwrap();
            decode(&file).unwrap();
        }
    }

    #[test]
    fn any_bytes_never_panic(mut bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = decode(&bytes);
        bytes.splice(0..0, section::HEADER);
        let _ = decode(&bytes);
    }
}
