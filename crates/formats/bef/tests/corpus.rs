//! The seed corpus of fuzzing and inputs of past failures, read as by the fuzz target `bef`.
//! `TENON_BLESS=1` rewrites the valid files.

use std::path::PathBuf;
use tenon_bef::{
    Attribute, DType, Dense, EncodeOptions, File, Function, FunctionBuilder, FunctionId,
    FunctionKind, KernelLocation, Module, decode, encode, stream_remarks, verify,
};

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../fuzz/seeds/bef")
}

fn place(line: u32) -> KernelLocation {
    KernelLocation::FileLineCol {
        file: "seed.mlir".into(),
        line,
        column: 3,
    }
}

/// Every kind of attribute.
fn attributes() -> Module {
    let dense = Dense {
        dtype: DType::F32,
        shape: vec![2, 1],
        data: vec![0, 0, 128, 63, 0, 0, 0, 64],
    };
    let symbol = Attribute::Symbol {
        path: vec!["kernels".into(), "main".into()],
        module: "module @kernels attributes {tfrt.compiled} {\n}".into(),
    };
    let values: Vec<Attribute> = vec![
        true.into(),
        (-1i8).into(),
        2i16.into(),
        3i32.into(),
        4i64.into(),
        5u8.into(),
        6u16.into(),
        7u32.into(),
        8u64.into(),
        1.5f32.into(),
        2.5f64.into(),
        Attribute::F16(0x3C00),
        Attribute::BF16(0x3F80),
        "text".into(),
        DType::Complex64.into(),
        vec![1i64, 2].into(),
        vec![true].into(),
        Vec::<i32>::new().into(),
        Attribute::list(vec![1i32.into(), vec!["nested"].into()]),
        Attribute::Shape(Some(vec![Some(2), None])),
        Attribute::Shape(None),
        dense.into(),
        symbol,
    ];
    let mut main = FunctionBuilder::new("attributes", FunctionKind::Sync);
    for (index, value) in values.into_iter().enumerate() {
        let kernel = main.kernel("my.use").attribute("value", value);
        kernel.location(place(index as u32)).done();
    }
    Module::from(main.returns([]))
}

/// Native functions, references, nested regions, all kinds of locations, annotations.
fn structure() -> Module {
    let mut module = Module::new();
    let mut native = Function::native("native", ["i32"], ["i32"]);
    native.location = place(1);
    let native = module.add(native);
    let mut inner = FunctionBuilder::region();
    let argument = inner.argument("i32");
    let inner = module.add(inner.returns([argument]));
    let mut outer = FunctionBuilder::region();
    let argument = outer.argument("i32");
    let result = outer
        .kernel("tfrt.repeat.i32")
        .operands([argument, argument]);
    let result = result.region(inner).result("i32");
    let outer = module.add(outer.returns([result]));
    let mut main = FunctionBuilder::new("main", FunctionKind::Async);
    let chain = main.argument("!tfrt.chain");
    let one = main.kernel("tfrt.constant.i32").attribute("value", 1i32);
    let one = one.location(place(2)).result("i32");
    let named = KernelLocation::Name {
        name: "looped".into(),
        child: Box::new(place(3)),
    };
    let looped = main.kernel("tfrt.repeat.i32").operands([one, one]);
    let looped = looped.region(outer).location(named.clone()).result("i32");
    let called = main.kernel("my.call").operands([looped]);
    let called = called
        .function("other", native)
        .attribute("_tfrt_cost", 5i64);
    let called = called.location(KernelLocation::CallSite {
        callee: Box::new(named.clone()),
        caller: Box::new(place(4)),
    });
    let called = called.result("i32");
    let print = main.kernel("tfrt.print.i32").operands([called, chain]);
    let chain = print
        .location(KernelLocation::Fused(vec![named, KernelLocation::Unknown]))
        .result("!tfrt.chain");
    let mut main = main.returns([chain, called]);
    main.return_location = place(5);
    main.attributes = vec![
        ("my.flag".into(), Attribute::Unit),
        ("tfrt.cost_threshold".into(), Attribute::I64(4)),
    ];
    module.add(main);
    let merge = "tfrt.merge_inter_dependent_streams";
    module.attributes = vec![(merge.into(), Attribute::I1(true))];
    module
}

fn valid() -> Vec<(&'static str, Vec<u8>)> {
    let bytes = |module: &Module, optional_sections| {
        encode(module, &EncodeOptions { optional_sections }).unwrap()
    };
    vec![
        ("attributes.bef", bytes(&attributes(), true)),
        ("bare.bef", bytes(&structure(), false)),
        ("structure.bef", bytes(&structure(), true)),
    ]
}

#[test]
fn valid_files_equal_their_encoding() {
    for (name, bytes) in valid() {
        let path = folder().join(name);
        if std::env::var_os("TENON_BLESS").is_some() {
            std::fs::create_dir_all(folder()).unwrap();
            std::fs::write(&path, &bytes).unwrap();
        }
        assert!(
            std::fs::read(&path).unwrap() == bytes,
            "{name}; TENON_BLESS=1 rewrites it"
        );
    }
    let bytes = encode(&structure(), &EncodeOptions::default()).unwrap();
    assert_eq!(decode(&bytes).unwrap(), structure());
}

#[test]
fn every_file_decodes_or_fails_with_an_error() {
    let mut modules = 0;
    for entry in std::fs::read_dir(folder()).unwrap() {
        let path = entry.unwrap().path();
        let bytes = std::fs::read(&path).unwrap();
        modules += usize::from(read(&bytes));
    }
    assert!(modules >= valid().len());
}

/// Reads a file by every function of the interface; whether it is a valid Module.
fn read(bytes: &[u8]) -> bool {
    let Ok(file) = File::open(bytes) else {
        return false;
    };
    for id in 0..file.len().min(1000) as u32 {
        let _ = file.function(FunctionId(id));
        let _ = file.streams(FunctionId(id));
    }
    let _ = file.verify();
    let Ok(module) = file.module() else {
        return false;
    };
    verify(&module).unwrap();
    stream_remarks(&module);
    let bytes = encode(&module, &EncodeOptions::default()).unwrap();
    let back = decode(&bytes).unwrap();
    assert!(encode(&back, &EncodeOptions::default()).unwrap() == bytes);
    true
}
