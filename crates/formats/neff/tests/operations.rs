//! Tests of unpack, pack, strip, and the table of nodes.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use tenon_base::{Control, ErrorKind};
use tenon_neff::{
    DIGESTS_JSON, HEADER_BYTES, HEADER_FILE, Header, HeaderBlock, Limits, NodeExecutor, NodeTable,
    PackOptions, Package, PackageWriter, VerifyOptions, diff, pack, strip, verify,
};
use tenon_tensor::BufferMut;

fn open(bytes: &[u8]) -> Package {
    let buffer = BufferMut::copy_of(bytes).unwrap().freeze();
    Package::from_buffer(buffer, &Limits::default(), &Control::new()).unwrap()
}

fn package(header: Header, members: &[(&str, &[u8])], digests: bool) -> Package {
    let mut writer = PackageWriter::in_memory(header).unwrap();
    if digests {
        writer = writer.with_digests();
    }
    for (name, bytes) in members {
        writer.add(name, bytes).unwrap();
    }
    open(&writer.finish().unwrap().0)
}

fn members(package: &Package) -> BTreeMap<String, Vec<u8>> {
    let bytes = |name: &str| package.member(name).unwrap().to_vec();
    package
        .members()
        .map(|(name, _)| (name.to_owned(), bytes(name)))
        .collect()
}

/// A header of another compiler.
fn foreign() -> Header {
    let mut header = Header::tenon("a model", 2);
    header.set_build_version("2.0+abc");
    header.uuid = [7; 16];
    header.version_minor = 1;
    header
}

const GRAPH: &[u8] = br#"{"nodes": [
    {"op": "null", "name": "x", "inputs": [], "output_names": ["x:0"]},
    {"op": "tvm_op", "name": "sg", "attrs": {"func_name": "__kelf", "kelf": "kelf-a.json"},
     "inputs": [[0, 0, 0]], "output_names": ["y:0"]},
    {"op": "tvm_op", "name": "fused_layout_transform", "attrs": {"func_name": "fused_0"},
     "inputs": [[1, 0, 0]], "output_names": ["z:0"]}],
    "arg_nodes": [0], "heads": [[2, 0, 0]], "node_row_ptr": [0, 1, 2, 3],
    "attrs": {"shape": ["list_shape", [[1, 3, 552, 984], [1, 78, 69, 123], []]],
        "dltype": ["list_str", ["float16", "float16", ""]]}}"#;

const DEFINITION: &[u8] = br#"{"pe": "pe.json", "pe_instr": "pe.bin",
    "pe_dbg": ["pe.dbg", "pe.bin"], "var": {
    "x:0": {"type": "input", "var_id": 0, "size": 3259008},
    "y:0": {"type": "output", "var_id": 1, "size": 1323972}}}"#;

fn several() -> Vec<(&'static str, &'static [u8])> {
    vec![
        ("debug_info/hlo.dbg", b"text"),
        (
            "kelf-a.json",
            br#"{"graphs": [{"definition": "sg00/def.json", "name": "sg00"}]}"#,
        ),
        ("sg00/pe.dbg", b"more text"),
        ("sg00/pe.json", br#"{"dma": [], "instr": "pe.bin"}"#),
        ("sg00/pe.bin", &[1; 128]),
        ("sg00/def.json", DEFINITION),
        (
            "sg00/tensor_map.json",
            br#"{"x:0": {"dtype": "float16", "tf_format": "NHWC"}}"#,
        ),
        ("sg00/empty", b""),
        ("neff.json", GRAPH),
    ]
}

#[test]
fn unpacking_and_packing_round_trips() {
    let folder = tempfile::tempdir().unwrap();
    let control = Control::new();
    for pkg_version in [1, 2] {
        let old = package(foreign(), &several(), false);
        let at = folder.path().join(format!("unpacked{pkg_version}"));
        old.unpack(&at, &control).unwrap();
        assert_eq!(fs::read(at.join("sg00/pe.bin")).unwrap(), [1; 128]);
        assert_eq!(fs::read(at.join(HEADER_FILE)).unwrap().len(), HEADER_BYTES);
        let path = folder.path().join("packed.neff");
        let options = PackOptions {
            pkg_version: Some(pkg_version),
            ..Default::default()
        };
        let header = pack(&at, &path, &options, &control).unwrap();
        let new = Package::open(&path, &control).unwrap();
        assert_eq!(*new.header(), header);
        assert_eq!(members(&old), members(&new));
        assert_eq!(new.is_compressed(), pkg_version == 2);
        let mut same = old.header().clone();
        same.pkg_version = pkg_version;
        (same.hash, same.data_size) = (header.hash, header.data_size);
        assert_eq!(same, header);
        // Equal input gives equal bytes.
        let second = folder.path().join("second.neff");
        pack(&at, &second, &options, &control).unwrap();
        assert_eq!(fs::read(&path).unwrap(), fs::read(&second).unwrap());
        let found = diff(&old, &new, &control).unwrap();
        assert!(
            found.members.is_empty() && found.structure.is_empty(),
            "{found}"
        );
        fs::remove_file(&second).unwrap();
    }
}

#[test]
fn unpacking_is_all_or_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let control = Control::new();
    let good = package(foreign(), &several(), false);
    // Existing files are not overwritten.
    let taken = folder.path().join("taken");
    fs::create_dir(&taken).unwrap();
    fs::write(taken.join("mine"), "kept").unwrap();
    let error = good.unpack(&taken, &control).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    assert_eq!(fs::read_dir(&taken).unwrap().count(), 1);
    // A file that is also a folder, and a name that no file can have.
    let long = "n".repeat(300);
    for members in [
        vec![("a", &b"1"[..]), ("a/b", b"2")],
        vec![(&long[..], b"3")],
    ] {
        let bad = package(foreign(), &members, false);
        let error = bad.unpack(folder.path().join("bad"), &control).unwrap_err();
        assert!(error.location().member.is_some(), "{error}");
        assert!(!folder.path().join("bad").exists());
    }
    let stopped = Control::new();
    stopped.cancel();
    let error = good
        .unpack(folder.path().join("stopped"), &stopped)
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Cancelled);
    // No temporary folder is left.
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    // An existing empty folder is used.
    let empty = folder.path().join("empty");
    fs::create_dir(&empty).unwrap();
    good.unpack(&empty, &control).unwrap();
    assert!(empty.join("neff.json").exists());
}

/// Archives that a naive reader would unpack outside of the folder.
#[test]
fn hostile_archives_do_not_open() {
    let entry = |name: &[u8], kind: u8, size: u64| {
        let mut header = tar::Header::new_ustar();
        header.as_mut_bytes()[..name.len()].copy_from_slice(name);
        header.as_mut_bytes()[156] = kind;
        header.set_size(size);
        header.set_cksum();
        header.as_bytes().to_vec()
    };
    let cases: Vec<(&str, Vec<u8>)> = vec![
        ("outside", entry(b"/etc/passwd", b'0', 0)),
        ("outside", entry(b"../../x", b'0', 0)),
        ("outside", entry(b"a/../../x", b'0', 0)),
        ("outside", entry(b"C:\\x", b'0', 0)),
        ("link", entry(b"a", b'1', 0)),
        ("link", entry(b"a", b'2', 0)),
        ("not a file", entry(b"a", b'3', 0)),
        (
            "same name",
            [entry(b"a", b'0', 0), entry(b"./a", b'0', 0)].concat(),
        ),
        ("past the end", entry(b"a", b'0', 1 << 30)),
        ("past the end", entry(b"a", b'0', 513)),
    ];
    for (text, archive) in cases {
        let mut header = foreign();
        header.data_size = archive.len() as u64;
        let bytes = [&header.encode()[..], &archive].concat();
        let buffer = BufferMut::copy_of(&bytes).unwrap().freeze();
        let error = Package::from_buffer(buffer, &Limits::default(), &Control::new());
        let error = error.err().unwrap_or_else(|| panic!("{text} opened"));
        assert!(error.to_string().contains(text), "{error}");
    }
}

#[test]
fn bombs_stop_at_the_limit() {
    let zeros = vec![0; 64 << 20];
    let bomb = |pkg_version| {
        let mut header = foreign();
        header.pkg_version = pkg_version;
        let mut writer = PackageWriter::in_memory(header).unwrap();
        writer.add("zeros", &zeros).unwrap();
        writer.finish().unwrap().0.to_vec()
    };
    // As blocked gzip of Tenon, and as the single stream of other writers.
    let blocks = bomb(2);
    let plain = bomb(1);
    let mut stream = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    std::io::Write::write_all(&mut stream, &plain[HEADER_BYTES..]).unwrap();
    let stream = stream.finish().unwrap();
    let mut header = foreign();
    header.data_size = stream.len() as u64;
    let stream = [&header.encode()[..], &stream].concat();
    assert!(blocks.len() < 1 << 20 && stream.len() < 1 << 20);
    for bytes in [blocks, stream] {
        let buffer = BufferMut::copy_of(&bytes).unwrap().freeze();
        let limits = Limits::of_bytes(32 << 20);
        let error = Package::from_buffer(buffer.clone(), &limits, &Control::new()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::OutOfMemory, "{error}");
        let package = Package::from_buffer(buffer, &Limits::default(), &Control::new()).unwrap();
        assert_eq!(package.member("zeros").unwrap().len(), zeros.len());
    }
}

/// Standard tools read the files: tar a plain archive, gzip and tar a compressed one.
#[test]
#[allow(clippy::print_stderr, reason = "says that it skips")]
fn gzip_and_tar_read_both_forms() {
    use std::process::Command;
    let folder = tempfile::tempdir().unwrap();
    let large = vec![0x5a; 3 << 20];
    let members = [("a/large.bin", &large[..]), ("b.bin", b"small")];
    for (pkg_version, flags) in [(1, "xf"), (2, "xzf")] {
        let mut header = foreign();
        header.pkg_version = pkg_version;
        let mut writer = PackageWriter::in_memory(header).unwrap();
        members
            .iter()
            .for_each(|(name, bytes)| writer.add(name, bytes).unwrap());
        let bytes = writer.finish().unwrap().0;
        fs::write(folder.path().join("payload"), &bytes[HEADER_BYTES..]).unwrap();
        let out = folder.path().join(format!("out{pkg_version}"));
        fs::create_dir(&out).unwrap();
        let tar = Command::new("tar")
            .args([flags, "../payload"])
            .current_dir(&out)
            .output();
        let Ok(tar) = tar else {
            eprintln!("skipped: tar is not installed");
            return;
        };
        assert!(
            tar.status.success(),
            "{}",
            String::from_utf8_lossy(&tar.stderr)
        );
        for (name, bytes) in members {
            assert!(fs::read(out.join(name)).unwrap() == bytes, "{name}");
        }
    }
    let payload = fs::File::open(folder.path().join("payload")).unwrap();
    let gzip = Command::new("gzip").arg("-dc").stdin(payload).output();
    if let Ok(gzip) = gzip {
        // gzip may warn about the trailing zeros.
        assert!(gzip.stdout.starts_with(b"a/large.bin"), "{:?}", gzip.status);
    }
}

#[test]
fn packing_refuses_files_that_cannot_be_members() {
    let folder = tempfile::tempdir().unwrap();
    let inside = folder.path().join("in");
    fs::create_dir_all(inside.join("sg00")).unwrap();
    fs::write(inside.join("sg00/a.bin"), "1").unwrap();
    fs::write(
        inside.join("info.json"),
        r#"{"name": "packed", "num_tpb": 3}"#,
    )
    .unwrap();
    let path = inside.join("out.neff");
    let control = Control::new();
    let options = PackOptions {
        pkg_version: Some(2),
        build_version: Some("tool 1".into()),
        ..Default::default()
    };
    let header = pack(&inside, &path, &options, &control).unwrap();
    assert_eq!((header.version_major, header.version_minor), (0, 4));
    assert_eq!((&*header.name_text(), header.num_tpb), ("packed", 3));
    assert_eq!(header.build_version_text(), "tool 1");
    assert_ne!(header.uuid, [0; 16]);
    // An earlier package in the folder is not packed.
    pack(&inside, &path, &options, &control).unwrap();
    let names: Vec<String> = members(&Package::open(&path, &control).unwrap())
        .into_keys()
        .collect();
    assert_eq!(names, ["info.json", "sg00/a.bin"]);
    let bad = PackOptions {
        pkg_version: Some(3),
        ..options.clone()
    };
    assert_eq!(
        pack(&inside, &path, &bad, &control).unwrap_err().kind(),
        ErrorKind::InvalidArgument
    );
    #[cfg(unix)]
    {
        std::os::unix::fs::symlink("/etc/passwd", inside.join("link")).unwrap();
        let error = pack(&inside, &path, &options, &control).unwrap_err();
        assert!(error.to_string().contains("a link"), "{error}");
    }
    let none = pack(Path::new("/no/such"), &path, &options, &control).unwrap_err();
    assert_eq!(none.kind(), ErrorKind::NotFound);
}

#[test]
fn stripping_removes_debug_members() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("small.neff");
    let control = Control::new();
    let old = package(foreign(), &several(), true);
    let stripped = strip(&old, &path, false, &control).unwrap();
    let removed: Vec<&str> = stripped
        .removed
        .iter()
        .map(|(name, _)| name.as_str())
        .collect();
    // The program is kept although a debug list names it.
    assert_eq!(removed, ["debug_info/hlo.dbg", "sg00/pe.dbg"]);
    let new = Package::open(&path, &control).unwrap();
    assert!(!new.is_compressed());
    assert_eq!(new.header().uuid, old.header().uuid);
    assert!(new.member(DIGESTS_JSON).is_some());
    let definition: serde_json::Value = new.json("sg00/def.json").unwrap();
    assert_eq!(definition["pe_dbg"], serde_json::json!([]));
    let found = verify(&new, &VerifyOptions::default(), &control).unwrap();
    assert!(!found.to_string().contains("digest"), "{found}");
    strip(&old, &path, true, &control).unwrap();
    assert_eq!(
        members(&Package::open(&path, &control).unwrap()),
        members(&old)
    );
}

#[test]
fn the_header_and_the_nodes_display_as_tables() {
    let package = package(foreign(), &several(), false);
    let block = HeaderBlock::from(package.header()).to_string();
    for line in [
        "NEFF Header:\n    Package Version:        2\n    Header Size:            1024\n",
        "    NEFF Build Version:     2.0+abc\n",
        "    NEFF UUID:              07070707-0707-0707-0707-070707070707\n",
        "    Network Name:           a model\n",
        "    Enabled Features:       0x4000000000000000 (tenon-host-program)\n",
    ] {
        assert!(block.contains(line), "{line} is not in\n{block}");
    }
    let table = NodeTable::of(&package).unwrap();
    assert_eq!(table.nodes[1].executor, NodeExecutor::Cpu);
    let expected = "\
NEFF Nodes:
    NODE       Executor                      Name    Variable       Size    Type    Format            Shape    DataType    TimeSeries
       1    Neuron Core                      sg00
                                                          x:0    3259008      IN      NHWC    [1 3 552 984]     float16
                                                          y:0    1323972     OUT              [1 78 69 123]     float16         false
       2            CPU    fused_layout_transform
                                                          y:0          0      IN              [1 78 69 123]     float16
                                                          z:0          0     OUT                         []
";
    assert_eq!(table.to_string(), expected);
    let json = serde_json::to_value(&table).unwrap();
    assert_eq!(json["nodes"][0]["executor"], "Neuron Core");
}
