//! A package of another compiler: read completely, written again equal member by member.
//!
//! Needs the file in the folder that `TENON_EXTRA_DATA` names; says so when it is unset.
#![allow(clippy::print_stderr, reason = "says that it skips")]

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tenon_base::{Control, ErrorKind};
use tenon_neff::{
    Contents, Definition, Engine, HashCheck, Info, Kelf, Limits, NeffGraph, Package, PackageWriter,
    TensorMap,
};
use tenon_tensor::BufferMut;

fn package() -> Option<Package> {
    let Some(folder) = std::env::var_os("TENON_EXTRA_DATA") else {
        eprintln!("skipped: TENON_EXTRA_DATA is not set");
        return None;
    };
    let path = std::path::Path::new(&folder).join("neff/nkipy_matmul_small.neff");
    Some(Package::open(path, &Control::new()).unwrap())
}

/// The member parsed to its type and written again.
fn again<T: DeserializeOwned + Serialize>(package: &Package, name: &str) -> Vec<u8> {
    serde_json::to_vec(&package.json::<T>(name).unwrap()).unwrap()
}

fn rewritten(package: &Package, name: &str) -> Option<Vec<u8>> {
    let file = name.rsplit('/').next().unwrap_or(name);
    Some(match file {
        "neff.json" => again::<NeffGraph>(package, name),
        "info.json" => again::<Info>(package, name),
        "kelf-0.json" => again::<Kelf>(package, name),
        "def.json" => again::<Definition>(package, name),
        "tensor_map.json" => again::<TensorMap>(package, name),
        "PE.json" | "Activation.json" | "Pool.json" | "DVE.json" | "SP.json" => {
            again::<Engine>(package, name)
        }
        _ => return None,
    })
}

#[test]
fn header_and_ports() {
    let Some(package) = package() else { return };
    let header = package.header();
    assert_eq!(
        (header.pkg_version, header.data_size, header.lnc_size),
        (2, 61440, 2)
    );
    assert_eq!(header.name_text(), "file.neff");
    assert!(header.feature_bits.to_string().contains("neff_feature_vnc"));
    let graph: NeffGraph = package.json("neff.json").unwrap();
    let ports = |ports: Vec<tenon_neff::PortType>| {
        ports
            .into_iter()
            .map(|port| (port.name, port.dtype, port.shape))
            .collect::<Vec<_>>()
    };
    let half = |name: &str, shape: [i64; 2]| (name.to_owned(), "float16".to_owned(), shape.into());
    assert_eq!(
        ports(graph.inputs()),
        [half("x", [128, 256]), half("y", [256, 128])]
    );
    // Listed once for each of the two physical cores.
    assert_eq!(ports(graph.outputs()), [half("output0", [128, 128])]);
    assert_eq!(
        package.verify_hash(&Control::new()).unwrap(),
        HashCheck::ForeignDiffers
    );
}

#[test]
fn executing_it_says_what_cannot_run() {
    let Some(package) = package() else { return };
    let error = Contents::read(&package).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    let text = error.to_string();
    assert!(
        text.contains("PE.bin, Activation.bin, Pool.bin, DVE.bin, SP.bin"),
        "{text}"
    );
}

#[test]
fn packing_again_changes_no_member() {
    let Some(package) = package() else { return };
    for pkg_version in [1, 2] {
        let mut header = package.header().clone();
        header.pkg_version = pkg_version;
        let mut writer = PackageWriter::in_memory(header).unwrap();
        let mut typed = 0;
        for (name, _) in package.members() {
            let bytes = package.member(name).unwrap();
            let written = rewritten(&package, name);
            typed += usize::from(written.is_some());
            writer
                .add(name, written.as_deref().unwrap_or(&bytes))
                .unwrap();
        }
        assert_eq!(typed, 3 + 2 * 7);
        let (bytes, header) = writer.finish().unwrap();
        assert_eq!(header.uuid, package.header().uuid);
        let buffer = BufferMut::copy_of(&bytes).unwrap().freeze();
        let packed = Package::from_buffer(buffer, &Limits::default(), &Control::new()).unwrap();
        assert!(
            packed
                .members()
                .map(|(name, _)| name)
                .eq(package.members().map(|(name, _)| name))
        );
        for (name, _) in package.members() {
            let (old, new) = (package.member(name).unwrap(), packed.member(name).unwrap());
            if rewritten(&package, name).is_some() {
                let value = |bytes: &[u8]| serde_json::from_slice::<Value>(bytes).unwrap();
                assert_eq!(value(&old), value(&new), "{name}");
            } else {
                assert!(old[..] == new[..], "{name}");
            }
        }
    }
}
