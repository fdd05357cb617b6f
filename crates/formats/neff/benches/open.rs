//! Opening a package of 250 MiB and 1000 constants: `cargo bench -p tenon-neff`.
#![allow(missing_docs)]

use divan::Bencher;
use std::path::PathBuf;
use tenon_base::Control;
use tenon_neff::{
    ConstantInfo, Contents, ModelInfo, Package, PackageVariable, Role, TenonMember, WriteOptions,
};
use tenon_tensor::{BufferMut, DataType};

const CONSTANTS: usize = 1000;
const BYTES: usize = 256 << 10;

fn main() {
    divan::main();
}

fn contents() -> Contents {
    let buffer = BufferMut::zeroed(BYTES).unwrap().freeze();
    let mut tenon = TenonMember::new(ModelInfo::default());
    tenon.constants = (0..CONSTANTS)
        .map(|id| ConstantInfo {
            var_id: tenon_neff::VariableId(id as u32),
            name: format!("layer{id}.weight"),
            dtype: DataType::F32,
            shape: vec![BYTES / 4],
            prepared: None,
        })
        .collect();
    let variable = |id| PackageVariable {
        name: format!("layer{id}.weight"),
        size: BYTES as u64,
        role: Role::Constant(buffer.clone()),
    };
    Contents {
        name: "large".into(),
        variables: (0..CONSTANTS).map(variable).collect(),
        movements: Vec::new(),
        program: buffer.slice(0..4096).unwrap(),
        tenon,
    }
}

fn file() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("large.neff");
    contents()
        .write(&path, WriteOptions::default(), &Control::new())
        .unwrap();
    (folder, path)
}

#[divan::bench]
fn open(bencher: Bencher) {
    let (_folder, path) = file();
    bencher.bench_local(|| Package::open(&path, &Control::new()).unwrap());
}

#[divan::bench]
fn open_and_read(bencher: Bencher) {
    let (_folder, path) = file();
    bencher.bench_local(|| {
        let package = Package::open(&path, &Control::new()).unwrap();
        Contents::read(&package).unwrap()
    });
}

#[divan::bench(sample_count = 5)]
fn write(bencher: Bencher) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("large.neff");
    let contents = contents();
    bencher.bench_local(|| {
        contents
            .write(&path, WriteOptions::default(), &Control::new())
            .unwrap();
    });
}
