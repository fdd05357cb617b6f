//! Properties of the package readers for arbitrary bytes. The fuzz targets check them, and a test of
//! `tenon-neff` with the seeds.

use tenon_neff::{
    Control, Definition, Engine, HEADER_BYTES, Header, Limits, Package, PackageWriter,
    VerifyOptions, verify,
};
use tenon_tensor::BufferMut;

const GRAPH: &str = r#"{"nodes":[{"op":"tvm_op","name":"sg","inputs":[],"output_names":[],
    "attrs":{"func_name":"__kelf","kelf":"kelf-0.json"}}],"node_row_ptr":[0,0]}"#;
const KELF: &str = r#"{"graphs":[{"definition":"sg00/def.json","name":"sg00"}],"target":"trn1"}"#;
const DEFINITION: &str = r#"{"sp":"SP.json","sp_instr":"SP.bin","dma_queue":{"q":{"type":"data"}},
    "var":{"x":{"type":"input","var_id":0,"size":64},"y":{"type":"output","var_id":1,"size":64}}}"#;
const ENGINE: &str = r#"{"instr":"SP.bin","dma":[]}"#;

/// Encoding a decoded header yields the same bytes.
pub fn header(bytes: &[u8]) {
    if let Ok(header) = Header::decode(bytes) {
        assert_eq!(header.encode()[..], bytes[..HEADER_BYTES]);
    }
}

/// The members of an archive are in bounds; it is verified without panic, and packs to the same
/// members.
pub fn archive(bytes: &[u8]) {
    let mut header = Header::tenon("fuzz", 1);
    header.data_size = bytes.len() as u64;
    let Some(package) = open(&[&header.encode()[..], bytes].concat()) else {
        return;
    };
    check(&package);
    let mut writer = PackageWriter::in_memory(header).expect("memory");
    for (name, len) in package.members() {
        let member = package.member(name).expect("listed");
        assert_eq!(member.len(), len);
        // A name that a reader gave may be one that no header holds.
        if writer.add(name, &member).is_err() {
            return;
        }
    }
    let packed = open(&writer.finish().expect("written").0).expect("our own");
    for (name, _) in package.members() {
        assert_eq!(
            packed.member(name).as_deref(),
            package.member(name).as_deref()
        );
    }
}

/// Serializing a parsed definition yields the same JSON; any definition is verified without panic.
pub fn definition(bytes: &[u8]) {
    if let Ok(definition) = serde_json::from_slice::<Definition>(bytes) {
        let text = serde_json::to_vec(&definition).expect("json");
        assert_eq!(text, compact(bytes));
        definition.scratchpad_bytes();
    }
    check(&package(bytes, ENGINE.as_bytes()));
}

/// As [`definition`], for the description of an engine.
pub fn engine(bytes: &[u8]) {
    if let Ok(engine) = serde_json::from_slice::<Engine>(bytes) {
        assert_eq!(serde_json::to_vec(&engine).expect("json"), compact(bytes));
    }
    check(&package(DEFINITION.as_bytes(), bytes));
}

/// The JSON in compact, normalised form.
fn compact(bytes: &[u8]) -> Vec<u8> {
    let value: serde_json::Value = serde_json::from_slice(bytes).expect("read before");
    serde_json::to_vec(&value).expect("json")
}

fn package(definition: &[u8], engine: &[u8]) -> Package {
    let mut header = Header::tenon("fuzz", 1);
    header.set_build_version("another");
    let mut writer = PackageWriter::in_memory(header).expect("memory");
    let members = [
        ("neff.json", GRAPH.as_bytes()),
        ("kelf-0.json", KELF.as_bytes()),
        ("sg00/def.json", definition),
        ("sg00/SP.json", engine),
        ("sg00/SP.bin", b""),
    ];
    members
        .iter()
        .for_each(|(name, bytes)| writer.add(name, bytes).expect("written"));
    open(&writer.finish().expect("written").0).expect("our own")
}

fn open(bytes: &[u8]) -> Option<Package> {
    let buffer = BufferMut::copy_of(bytes).ok()?.freeze();
    let limits = Limits::of_bytes(1 << 24);
    Package::from_buffer(buffer, &limits, &Control::new()).ok()
}

fn check(package: &Package) {
    let options = VerifyOptions {
        hash: true,
        findings: 100,
        ..VerifyOptions::default()
    };
    let found = verify(package, &options, &Control::new()).expect("not stopped");
    assert!(found.list.len() <= 100);
    let _ = found.to_string();
}
