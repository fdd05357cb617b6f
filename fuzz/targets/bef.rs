//! BEF files: functions decode individually and together, attributes are read as other types, tables
//! are checked; a decoded module is valid, and encoding is idempotent.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tenon_bef::{
    AttributeCode, DType, EncodeOptions, File, FunctionId, decode, encode, stream_remarks, verify,
};

/// Types as which attributes are read.
const CODES: [AttributeCode; 7] = [
    AttributeCode::STRING,
    AttributeCode::TYPE,
    AttributeCode::SHAPE,
    AttributeCode::DENSE,
    AttributeCode::AGGREGATE,
    AttributeCode::number(DType::I64),
    AttributeCode::number(DType::I32).list(),
];

fuzz_target!(|bytes: &[u8]| {
    let Ok(file) = File::open(bytes) else { return };
    let functions = (0..file.len() as u32).map(|id| file.function(FunctionId(id)));
    let functions: Vec<_> = functions.take(1000).collect();
    let offsets = (0..file.len() as u32).map(|id| file.attribute_offsets(FunctionId(id)));
    for offset in offsets.take(1000).flatten().flatten().flatten().take(100) {
        for code in CODES {
            let _ = file.attribute(offset, code);
        }
    }
    let Ok(module) = file.module() else { return };
    for (one, all) in functions.iter().zip(&module.functions) {
        // Compared as text: a float that is not a number differs from itself.
        if let Ok(one) = one {
            assert_eq!(format!("{one:?}"), format!("{all:?}"));
        }
    }
    verify(&module).expect("what decodes is valid");
    stream_remarks(&module);
    let again = encode(&module, &EncodeOptions::default()).expect("what is valid is encoded");
    File::open(&again).and_then(|file| file.verify()).expect("our own tables");
    let back = decode(&again).expect("our own bytes");
    assert!(encode(&back, &EncodeOptions::default()).expect("our own Module") == again);
});
