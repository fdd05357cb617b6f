use super::*;
use crate::{
    ConstantInfo, Limits, LiveRange, MemoryPlan, ModelInfo, Package, Port, PreparedForm,
    VariableInfo,
};
use proptest::prelude::*;
use tenon_base::{Control, ErrorKind, Result};
use tenon_dma::{Access, Operation, cast_contiguous};
use tenon_tensor::{BufferMut, DataType};

fn buffer(bytes: &[u8]) -> Buffer {
    BufferMut::copy_of(bytes).unwrap().freeze()
}

/// A package with a variable of every role, a prepared constant and movements.
pub(crate) fn sample() -> Contents {
    let variable = |name: &str, size, role| PackageVariable {
        name: name.into(),
        size,
        role,
    };
    let id = VariableId;
    let mut tenon = TenonMember::new(ModelInfo {
        name: "a model".into(),
        metadata: [("tenon.labels".to_owned(), "zero\none".to_owned())].into(),
    });
    let port = |name: &str, var_id, shape: &[usize]| Port {
        name: name.into(),
        var_id,
        dtype: DataType::F32,
        shape: shape.into(),
    };
    tenon.inputs = vec![port("x", id(0), &[2, 3])];
    tenon.outputs = vec![port("y", id(1), &[3, 2])];
    let info = |var_id, dtype, shape: &[usize], view_of| VariableInfo {
        var_id,
        dtype,
        shape: shape.into(),
        view_of,
    };
    tenon.variables = vec![
        info(id(0), DataType::F32, &[2, 3], None),
        info(id(2), DataType::F32, &[4], None),
        info(id(4), DataType::F32, &[6], Some(id(0))),
    ];
    let constant = |var_id, name: &str, prepared| ConstantInfo {
        var_id,
        name: name.into(),
        dtype: DataType::F32,
        shape: vec![4],
        prepared,
    };
    let form = PreparedForm {
        of: id(2),
        backend: "CpuAcc".into(),
        layout: "panels16:f32".into(),
    };
    tenon.constants = vec![
        constant(id(2), "w", None),
        constant(id(3), "w.prepared", Some(form)),
    ];
    let live = |var_id, offset, size| LiveRange {
        var_id,
        offset,
        size,
        first: 0,
        last: 1,
    };
    tenon.plan = MemoryPlan {
        strategy: "packed".into(),
        arena_bytes: 64 + 12,
        variables: vec![live(id(5), 0, 24), live(id(6), 64, 12)],
    };
    let copy = Descriptor::copy(Access::bytes(id(4), 4, 8), Access::bytes(id(5), 0, 8));
    let cast = cast_contiguous(6, (id(0), 0, DataType::F32), (id(6), 0, DataType::BF16)).unwrap();
    Contents {
        name: "a model".into(),
        variables: vec![
            variable("x", 24, Role::Input),
            variable("y", 24, Role::Output),
            variable("w", 16, Role::Constant(buffer(&[1; 16]))),
            variable("w.prepared", 64, Role::Constant(buffer(&[2; 64]))),
            variable("x.view", 24, Role::View),
            variable("t", 24, Role::Arena { offset: 0 }),
            variable("t \"q\"", 12, Role::Arena { offset: 64 }),
        ],
        movements: vec![
            Movement {
                id: 0,
                descriptors: vec![copy.clone(), copy],
            },
            Movement {
                id: 3,
                descriptors: vec![cast],
            },
        ],
        program: buffer(b"\x0b\xef program"),
        tenon,
    }
}

fn bytes_of(contents: &Contents, pkg_version: u64) -> Vec<u8> {
    contents
        .to_bytes(WriteOptions { pkg_version }, &Control::new())
        .unwrap()
        .to_vec()
}

fn open(bytes: &[u8]) -> Result<Package> {
    Package::from_buffer(buffer(bytes), &Limits::of_bytes(1 << 20), &Control::new())
}

fn read(bytes: &[u8]) -> Result<Contents> {
    Contents::read(&open(bytes)?)
}

/// Asserts equality of everything that a package stores.
fn assert_same(a: &Contents, b: &Contents) {
    assert_eq!(a.name, b.name);
    assert_eq!(a.movements, b.movements);
    assert_eq!(a.program[..], b.program[..]);
    assert_eq!(a.tenon, b.tenon);
    let key = |variable: &PackageVariable| {
        let (role, bytes) = match &variable.role {
            Role::Constant(buffer) => ("constant".to_owned(), buffer.to_vec()),
            role => (format!("{role:?}"), Vec::new()),
        };
        (variable.name.clone(), variable.size, role, bytes)
    };
    let keys = |contents: &Contents| contents.variables.iter().map(key).collect::<Vec<_>>();
    assert_eq!(keys(a), keys(b));
}

#[test]
fn packages_round_trip() {
    let contents = sample();
    for pkg_version in [1, 2] {
        let bytes = bytes_of(&contents, pkg_version);
        let package = open(&bytes).unwrap();
        assert_same(&contents, &Contents::read(&package).unwrap());
        assert_eq!(package.is_compressed(), pkg_version == 2);
        assert_eq!(
            package.verify_hash(&Control::new()).unwrap(),
            crate::HashCheck::Equal
        );
        assert_eq!(bytes, bytes_of(&contents, pkg_version), "not deterministic");
    }
}

/// Pins docs/package.md: order and format of the members, padding, header. `TENON_BLESS=1`
/// rewrites the expected members.
#[test]
fn the_layout_is_that_of_the_golden_file() {
    let bytes = bytes_of(&sample(), 1);
    let package = open(&bytes).unwrap();
    let members: Vec<&str> = package.members().map(|(name, _)| name).collect();
    let expected = [
        "neff.json",
        "info.json",
        "kelf-0.json",
        "sg00/def.json",
        "sg00/SP.json",
        "sg00/program.bef",
        "sg00/tensor_map.json",
        "sg00/tenon.json",
        "sg00/constants/2.bin",
        "sg00/constants/3.bin",
        "digests.json",
    ];
    assert_eq!(members, expected);
    let header = package.header();
    assert_eq!(
        header.feature_bits.to_string(),
        "0x4000000000000000 (tenon-host-program)"
    );
    assert!(header.build_version_text().starts_with("tenon "));
    assert_eq!((header.version_major, header.version_minor), (2, 0));
    assert_eq!(
        (header.num_tpb, header.requested_tpb_count, header.lnc_size),
        (1, 1, 1)
    );
    assert_eq!(header.tpb_per_node[..2], [1, 0]);
    assert_eq!((header.uuid[6] >> 4, header.uuid[8] >> 6), (8, 2));
    assert_eq!(header.uuid[..6], header.hash[..6]);
    assert_eq!(bytes.len() % 10240, 1024);
    for (id, byte) in [(2, 1u8), (3, 2)] {
        let start = bytes
            .windows(16)
            .position(|window| window == [byte; 16])
            .unwrap();
        assert_eq!(start % 64, 0, "constant {id}");
    }
    let entry = tar::Header::from_byte_slice(&bytes[1024..1536]);
    assert_eq!(entry.mode().unwrap(), 0o644);
    assert_eq!(
        (
            entry.uid().unwrap(),
            entry.gid().unwrap(),
            entry.mtime().unwrap()
        ),
        (0, 0, 0)
    );
    let mut text = String::new();
    for name in expected.iter().filter(|name| name.ends_with(".json")) {
        let value: serde_json::Value = package.json(name).unwrap();
        text += &format!(
            "== {name}\n{}\n",
            serde_json::to_string_pretty(&value).unwrap()
        );
    }
    let text = text.replace(env!("CARGO_PKG_VERSION"), "X.Y.Z");
    let golden = concat!(env!("CARGO_MANIFEST_DIR"), "/src/contents/layout.golden");
    if std::env::var_os("TENON_BLESS").is_some() {
        std::fs::write(golden, &text).unwrap();
    }
    assert_eq!(text, std::fs::read_to_string(golden).unwrap());
}

#[test]
fn files_are_written_completely_or_not_at_all() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.neff");
    let contents = sample();
    let header = contents
        .write(&path, WriteOptions::default(), &Control::new())
        .unwrap();
    let package = Package::open(&path, &Control::new()).unwrap();
    assert_eq!(*package.header(), header);
    let read = Contents::read(&package).unwrap();
    assert_same(&contents, &read);
    for variable in &read.variables {
        if let Role::Constant(buffer) = &variable.role {
            assert!(buffer.is_mapped());
            assert_eq!(buffer.as_ptr() as usize % 64, 0);
        }
    }
    // A failure leaves the old file and no temporary one.
    let cancelled = Control::new();
    cancelled.cancel();
    let before = std::fs::read(&path).unwrap();
    let error = contents
        .write(&path, WriteOptions::default(), &cancelled)
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Cancelled);
    assert_eq!(std::fs::read(&path).unwrap(), before);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    let nowhere = folder.path().join("no/such/model.neff");
    let error = contents
        .write(&nowhere, WriteOptions::default(), &Control::new())
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
    assert!(error.to_string().contains("cannot write"), "{error}");
}

#[test]
fn violated_rules_are_reported_together() {
    let mut contents = sample();
    contents.variables[5].role = Role::Arena { offset: 1 };
    contents.variables[2].size = 17;
    contents.tenon.inputs[0].shape = [7].as_slice().into();
    contents.movements[1].id = 0;
    contents.movements[0].descriptors[0].to.offset = 1 << 40;
    let error = contents.check().unwrap_err();
    let text = error.to_string();
    for part in [
        "var['t']: its offset in the arena is not aligned",
        "var['w']: the constant's size differs from the variable's: expected 17, found 16",
        "inputs[0]: 'x' differs in size from its type f32[7]: expected 28, found 24",
        "dma[1].id: ids must ascend",
        "to_off: node 'dma[0].desc[0]': the access pattern leaves its variable",
    ] {
        assert!(text.contains(part), "{part} is not in\n{text}");
    }
    assert!(
        contents
            .to_bytes(WriteOptions::default(), &Control::new())
            .is_err()
    );
}

#[test]
fn states_are_ports_and_each_is_used_once() {
    let mut contents = sample();
    let [input, output] =
        [&contents.tenon.inputs, &contents.tenon.outputs].map(|p| p[0].name.clone());
    let state = |output: &str, input: &str| crate::StateInfo {
        output: output.into(),
        input: input.into(),
    };
    contents.tenon.states = vec![state(&output, &input)];
    let bytes = bytes_of(&contents, 1);
    assert_same(&contents, &read(&bytes).unwrap());
    contents.tenon.states = vec![state(&output, &input), state("nothing", &input)];
    let text = contents.check().unwrap_err().to_string();
    for part in [
        "states[1]: 'nothing' is not among the outputs".to_owned(),
        format!("states[1]: '{input}' is part of two states"),
    ] {
        assert!(text.contains(&part), "{part} is not in\n{text}");
    }
}

/// The sample without the bytes of `w`.
fn without_plain() -> Contents {
    let mut contents = sample();
    contents.variables[2].role = Role::Absent;
    contents
}

#[test]
fn a_constant_may_have_only_a_prepared_form() {
    let contents = without_plain();
    let bytes = bytes_of(&contents, 1);
    assert_same(&contents, &read(&bytes).unwrap());
    let package = open(&bytes).unwrap();
    assert!(package.member("sg00/constants/2.bin").is_none());
    assert!(package.member("sg00/constants/3.bin").is_some());
    let definition: crate::Definition = package.json("sg00/def.json").unwrap();
    let (_, stored) = definition
        .var
        .iter()
        .find(|(name, _)| *name == "w")
        .unwrap();
    assert_eq!(stored.kind, crate::VariableKind::File);
    assert_eq!((stored.size, &stored.file_name), (Some(16), &None));
}

#[test]
fn omitted_constants_have_a_prepared_form_and_no_users() {
    let refusal = |change: fn(&mut Contents)| {
        let mut contents = without_plain();
        change(&mut contents);
        contents.check().unwrap_err().to_string()
    };
    let missing = "var['w']: file_name is missing, and the constant has no prepared form";
    assert_eq!(refusal(|c| drop(c.tenon.constants.remove(0))), missing);
    assert_eq!(refusal(|c| drop(c.tenon.constants.remove(1))), missing);
    let text = refusal(|c| c.variables[3].role = Role::Absent);
    assert!(
        text.contains("constants[1]: variable 3 cannot be among the constants"),
        "{text}"
    );
    let text = refusal(|c| c.variables[2].size = 20);
    assert!(
        text.contains("constants[0]: 'w' differs in size from its type"),
        "{text}"
    );
    let text = refusal(|c| c.movements[0].descriptors[0].from[0].variable = VariableId(2));
    assert!(text.contains("dma[0].desc[0]"), "{text}");
    let text = refusal(|c| {
        c.tenon.variables[2].view_of = Some(VariableId(2));
        c.tenon.variables[2].shape = [4].as_slice().into();
        c.variables[4].size = 16;
    });
    assert!(
        text.contains("variables[2]: a view must refer to a variable"),
        "{text}"
    );
}

#[test]
fn a_newer_format_is_refused_by_name() {
    let mut contents = sample();
    contents.tenon.format = crate::TENON_FORMAT + 1;
    let error = contents.check().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::UnsupportedVersion);
    assert!(error.to_string().contains("newer Tenon"));
}

#[test]
fn every_operation_round_trips() {
    let mut contents = sample();
    let float = |id, dtype| Access {
        dtype,
        ..Access::bytes(VariableId(id), 0, 24)
    };
    contents.movements[0].descriptors = vec![Descriptor {
        operation: Operation::Fma {
            scales: vec![2.0, 0.25],
        },
        from: vec![float(0, DataType::F32), float(4, DataType::F32)],
        to: float(5, DataType::F32),
    }];
    assert_same(&contents, &read(&bytes_of(&contents, 1)).unwrap());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(ProptestConfig::default().cases.max(400)))]

    #[test]
    fn cut_packages_are_refused(cut in 0usize..12288) {
        let bytes = bytes_of(&sample(), 1);
        let cut = cut.min(bytes.len() - 1);
        let error = read(&bytes[..cut]).unwrap_err();
        prop_assert_eq!(error.kind(), ErrorKind::InvalidPackage);
    }

    #[test]
    fn cut_compressed_packages_are_refused(cut in 0usize..12288) {
        let bytes = bytes_of(&sample(), 2);
        prop_assert!(read(&bytes[..cut.min(bytes.len() - 1)]).is_err());
    }

    #[test]
    fn changed_bytes_never_panic(
        changes in proptest::collection::vec((0usize..24576, any::<u8>()), 1..4),
        compressed in any::<bool>(),
    ) {
        let mut bytes = bytes_of(&sample(), if compressed { 2 } else { 1 });
        let len = bytes.len();
        for (position, byte) in changes {
            bytes[position % len] = byte;
        }
        if let Ok(contents) = read(&bytes) {
            // A package that is still readable obeys all rules.
            contents.check().unwrap();
        }
    }

    #[test]
    fn changed_json_never_panics(position in 0usize..4096, byte in any::<u8>(), member in 0usize..8) {
        let package = open(&bytes_of(&sample(), 1)).unwrap();
        let mut writer = crate::PackageWriter::in_memory(package.header().clone()).unwrap();
        for (index, (name, len)) in package.members().enumerate() {
            let mut bytes = package.member(name).unwrap().to_vec();
            if index == member && len > 0 {
                bytes[position % len] = byte;
            }
            writer.add(name, &bytes).unwrap();
        }
        if let Ok(contents) = read(&writer.finish().unwrap().0) {
            contents.check().unwrap();
        }
    }
}
