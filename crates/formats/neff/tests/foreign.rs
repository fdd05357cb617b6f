//! A package of another compiler: read completely, and rewritten with equal members.
//!
//! Needs the file in the folder that `TENON_EXTRA_DATA` names; says so when it is unset.
#![allow(clippy::print_stderr, reason = "says that it skips")]

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tenon_base::{Control, ErrorKind};
use tenon_neff::{
    ActInfo, ActivationProfile, Constant, Contents, Definition, Engine, HashCheck, HloStats, Info,
    Kelf, Limits, NeffGraph, NodeTable, PackOptions, Package, PackageWriter, Severity, Structure,
    TensorMap, VerifyOptions, diff, pack, strip, verify,
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

/// The member parsed to its type and serialized again.
fn reserialized<T: DeserializeOwned + Serialize>(package: &Package, name: &str) -> Vec<u8> {
    serde_json::to_vec(&package.json::<T>(name).unwrap()).unwrap()
}

fn rewritten(package: &Package, name: &str) -> Option<Vec<u8>> {
    let file = name.rsplit('/').next().unwrap_or(name);
    Some(match file {
        "neff.json" => reserialized::<NeffGraph>(package, name),
        "info.json" => reserialized::<Info>(package, name),
        "kelf-0.json" => reserialized::<Kelf>(package, name),
        "hlo_stats.json" => reserialized::<HloStats>(package, name),
        "act_info.json" => reserialized::<ActInfo>(package, name),
        "exp_and_others.json" => reserialized::<ActivationProfile>(package, name),
        "def.json" => reserialized::<Definition>(package, name),
        "tensor_map.json" => reserialized::<TensorMap>(package, name),
        "PE.json" | "Activation.json" | "Pool.json" | "DVE.json" | "SP.json" => {
            reserialized::<Engine>(package, name)
        }
        _ => return None,
    })
}

#[test]
fn the_header_and_the_ports_are_read() {
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
fn the_error_of_executing_it_names_the_engine_programs() {
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
fn repacking_changes_no_member() {
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
        assert_eq!(typed, 4 + 2 * 9);
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

/// A JSON text without the white space around its values.
fn minified(text: &[u8]) -> Vec<u8> {
    let (mut inside, mut escaped) = (false, false);
    let keep = |byte: &&u8| {
        let space = byte.is_ascii_whitespace() && !inside;
        match **byte {
            b'"' if !escaped => inside = !inside,
            b'\\' => escaped = !escaped,
            _ => escaped = false,
        }
        !space
    };
    text.iter().filter(keep).copied().collect()
}

#[test]
fn every_json_member_round_trips() {
    let Some(package) = package() else { return };
    for (name, _) in package
        .members()
        .filter(|(name, _)| name.ends_with(".json"))
    {
        let written = rewritten(&package, name).unwrap_or_else(|| panic!("{name} has no type"));
        // Keys in their order, numeric literals with their digits.
        let expected = minified(&package.member(name).unwrap());
        let text = |bytes| String::from_utf8(bytes).unwrap();
        assert_eq!(text(written), text(expected), "{name}");
    }
}

#[test]
fn it_verifies_without_errors() {
    let Some(package) = package() else { return };
    let options = VerifyOptions {
        hash: true,
        ..Default::default()
    };
    let found = verify(&package, &options, &Control::new()).unwrap();
    assert_eq!(
        found.count(Severity::Error) + found.count(Severity::Warning),
        0,
        "{found}"
    );
    let ids: Vec<&str> = found.list.iter().map(|finding| finding.rule.id).collect();
    assert_eq!(ids, ["header.features", "header.hash-foreign"]);
    let structure = Structure::read(&package).unwrap();
    assert_eq!(structure.subgraphs.len(), 2);
    let act = &structure.subgraphs[1]
        .act_info
        .as_ref()
        .unwrap()
        .act_func_sets;
    assert_eq!((act.len(), structure.subgraphs[0].engines.len()), (21, 5));
    let constant = Constant::of(&package, "sg00/value_sg0000_identity_82_CRSM.npy").unwrap();
    assert_eq!(constant.array().unwrap().shape()[..], [128, 128, 1, 1]);
}

#[test]
fn it_unpacks_packs_strips_and_compares() {
    let Some(package) = package() else { return };
    let folder = tempfile::tempdir().unwrap();
    let control = Control::new();
    let (unpacked, path) = (folder.path().join("in"), folder.path().join("out.neff"));
    package.unpack(&unpacked, &control).unwrap();
    pack(&unpacked, &path, &PackOptions::default(), &control).unwrap();
    let packed = Package::open(&path, &control).unwrap();
    assert_eq!(packed.members().count(), package.members().count());
    for (name, _) in package.members() {
        let (old, new) = (package.member(name).unwrap(), packed.member(name).unwrap());
        assert!(old[..] == new[..], "{name}");
    }
    let found = diff(&package, &packed, &control).unwrap();
    let fields: Vec<&str> = found
        .header
        .iter()
        .map(|change| change.place.as_str())
        .collect();
    assert_eq!(fields, ["package_version"]);
    assert!(
        found.members.is_empty() && found.structure.is_empty(),
        "{found}"
    );
    let stripped = strip(&package, &path, false, &control).unwrap();
    assert_eq!(stripped.removed.len(), 4 + 2 * 11);
    let small = Package::open(&path, &control).unwrap();
    let found = verify(&small, &VerifyOptions::default(), &control).unwrap();
    assert_eq!(found.count(Severity::Error), 0, "{found}");
    let nodes = NodeTable::of(&small).unwrap();
    assert_eq!(nodes.nodes.len(), 2);
    assert_eq!(nodes.nodes[0].ports[0].shape, [128, 256]);
}

/// Truncated or changed files give findings or an error, never a panic.
#[test]
fn damaged_files_do_not_panic() {
    let Some(package) = package() else { return };
    let bytes = std::fs::read(package.path().unwrap()).unwrap();
    let check = |bytes: &[u8]| {
        let buffer = BufferMut::copy_of(bytes).unwrap().freeze();
        let limits = Limits::of_bytes(1 << 22);
        let opened = Package::from_buffer(buffer, &limits, &Control::new());
        opened.map(|package| {
            let _ = verify(&package, &VerifyOptions::default(), &Control::new()).unwrap();
        })
    };
    for cut in (0..bytes.len()).step_by(997) {
        assert!(check(&bytes[..cut]).is_err(), "{cut}");
    }
    // Of a plain package, so that the changes are inside members.
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("plain.neff");
    strip(&package, &path, true, &Control::new()).unwrap();
    let plain = std::fs::read(&path).unwrap();
    for at in (0..plain.len()).step_by(1499) {
        let mut changed = plain.clone();
        changed[at] ^= 0x11;
        let _ = check(&changed);
    }
}
