//! A package that violates no rule, then for each rule a package that violates only that rule.

mod sample;

use super::*;
use crate::{DIGESTS_JSON, Header, PackageWriter, Rule, Severity};
use sample::Sample;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use tenon_base::Location;
use tenon_tensor::BufferMut;

fn open(bytes: &[u8]) -> Package {
    let buffer = BufferMut::copy_of(bytes).unwrap().freeze();
    Package::from_buffer(buffer, &Limits::default(), &Control::new()).unwrap()
}

fn findings(sample: &Sample, options: &VerifyOptions) -> Findings {
    verify(&open(&sample.bytes()), options, &Control::new()).unwrap()
}

fn inf1() -> VerifyOptions {
    on(Architecture::Inf1)
}

fn on(architecture: Architecture) -> VerifyOptions {
    VerifyOptions {
        architecture: Some(architecture),
        ..VerifyOptions::default()
    }
}

#[test]
fn the_sample_violates_no_rule() {
    let found = findings(
        &Sample::new(),
        &VerifyOptions {
            hash: true,
            ..Default::default()
        },
    );
    assert_eq!(found.to_string(), "");
    assert!(found.is_good() && found.error().is_none());
}

const DEF: &str = "sg00/def.json";
const SP: &str = "sg00/SP.json";

/// A rule, and a change of one JSON member that violates it: the member, a JSON pointer, the new value
/// (null removes it), and the reported place.
#[rustfmt::skip]
fn json_cases() -> Vec<(&'static str, &'static str, &'static str, Value, &'static str)> {
    let desc = |extra: Value| {
        let mut desc = json!({"from": "x", "from_off": 0, "from_sizes": [64], "from_steps": [1],
            "to": "y", "to_off": 0, "to_sizes": [64], "to_steps": [1]});
        for (key, value) in extra.as_object().unwrap() {
            match value {
                Value::Null => drop(desc.as_object_mut().unwrap().remove(key)),
                value => desc[key] = value.clone(),
            }
        }
        desc
    };
    let source = || json!({"from": "x", "from_off": 0, "from_sizes": [64], "from_steps": [1]});
    let many = |op: &str, count: usize| {
        desc(json!({"op": op, "from": null, "from_off": null, "from_sizes": null,
            "from_steps": null, "from_arr": vec![source(); count]}))
    };
    let with = |mut desc: Value, key: &str, value: Value| { desc[key] = value; desc };
    vec![
        ("json.type", DEF, "/dma_queue/qIn/num_queues", json!("two"), "dma_queue.qIn.num_queues"),
        ("json.missing", DEF, "/var/x/var_id", json!(null), "var.x"),
        ("member.missing", DEF, "/pe_instr", json!("none.bin"), "pe_instr"),
        ("member.missing", DEF, "/var/w/file_name", json!("none.bin"), "var.w.file_name"),
        ("member.missing", "kelf-0.json", "/graphs/0/definition", json!("sg07/def.json"), "graphs[0].definition"),
        ("member.missing", "neff.json", "/nodes/1/attrs/kelf", json!("kelf-b.json"), "nodes[1].attrs.kelf"),
        ("member.missing", "sg00/Activation.json", "/act_info", json!("none.json"), "act_info"),
        ("member.missing", "sg00/act_info.json", "/act_func_sets/0/bkt_bin", json!("none.bin"), "act_func_sets[0].bkt_bin"),
        ("member.missing", "sg00/DVE.json", "/dve_tables/0/opcode_table", json!("none.bin"), "dve_tables[0].opcode_table"),
        ("graph.kelf", "neff.json", "/nodes/1/attrs/func_name", json!("other"), "nodes"),
        ("graph.op", "neff.json", "/nodes/1/op", json!("conv"), "nodes[1].op"),
        ("graph.inputs", "neff.json", "/nodes/1/inputs/0/0", json!(1), "nodes[1].inputs[0]"),
        ("graph.arg-nodes", "neff.json", "/arg_nodes/0", json!(1), "arg_nodes[0]"),
        ("graph.heads", "neff.json", "/heads/0/1", json!(9), "heads[0]"),
        ("graph.row-ptr", "neff.json", "/node_row_ptr/1", json!(7), "node_row_ptr"),
        ("graph.attrs", "neff.json", "/attrs/dltype/1", json!([]), "attrs.dltype"),
        ("graph.counts", "neff.json", "/nodes/1/attrs/num_inputs", json!("3"), "nodes[1].attrs.num_inputs"),
        ("graph.outputs", "neff.json", "/heads", json!([[1, 0, 0], [1, 0, 0]]), "heads[1]"),
        ("graph.signature", "neff.json", "/metadata/signatures/default/inputs/x/shape", json!([1]), "metadata.signatures.default.inputs.x"),
        ("kelf.graphs", "kelf-0.json", "/graphs", json!([]), "graphs"),
        ("kelf.target", "kelf-0.json", "/target", json!("moon"), "target"),
        ("info.cores", "info.json", "/num_tpb", json!(3), "num_tpb"),
        ("queue.type", DEF, "/dma_queue/qIn/type", json!("fast"), "dma_queue.qIn.type"),
        ("queue.num-queues", DEF, "/dma_queue/qIn/num_queues", json!(17), "dma_queue.qIn.num_queues"),
        ("queue.num-queues", DEF, "/dma_queue/qIn/num_queues", json!(0), "dma_queue.qIn.num_queues"),
        ("queue.owner", DEF, "/dma_queue/qIn/owner", json!("gpu"), "dma_queue.qIn.owner"),
        ("queue.pinned", DEF, "/dma_queue/qIn/pinned", json!(true), "dma_queue.qIn.pinned"),
        ("queue.instance-names", DEF, "/dma_queue/qIn/queue_instances", json!(["i", "i"]), "dma_queue.qIn.queue_instances[1]"),
        ("queue.semaphore-set", DEF, "/dma_queue/qIn/semaphore_set", json!([4, 4]), "dma_queue.qIn.semaphore_set"),
        ("queue.semaphore", DEF, "/dma_queue/qIn/semaphore", json!(4), "dma_queue.qIn.semaphore"),
        ("queue.fabric-path", DEF, "/dma_queue/qIn/fabric_path", json!("third"), "dma_queue.qIn.fabric_path"),
        ("header.feature-names", DEF, "/neff_features", json!(["neff_feature_vnc"]), "neff_features[0]"),
        ("var.type", DEF, "/var/x/type", json!("heap"), "var.x.type"),
        ("var.id", DEF, "/var/x/var_id", json!(2), "var.y.var_id"),
        ("var.size", DEF, "/var/x/size", json!(null), "var.x"),
        ("var.alignment", DEF, "/var/w/alignment", json!(48), "var.w.alignment"),
        ("var.fabric-path", DEF, "/var/w/fabric_path", json!("third"), "var.w.fabric_path"),
        ("var.file-name", DEF, "/var/x/file_name", json!("w.bin"), "var.x.file_name"),
        ("var.file", DEF, "/var/w/file_name", json!(null), "var.w"),
        ("var.file-size", DEF, "/var/w/size", json!(17), "var.w.file_name"),
        ("var.backing", DEF, "/var/x/backing_variable_off", json!(0), "var.x.backing_variable_off"),
        ("var.backing-range", DEF, "/var/t/backing_variable_off", json!(u64::MAX), "var.t.backing_variable_off"),
        ("var.reference", DEF, "/var/x/referenced_var_id", json!(2), "var.x.referenced_var_id"),
        ("var.reference-id", DEF, "/var/p/referenced_var_id", json!(77), "var.p.referenced_var_id"),
        ("var.reference-id", DEF, "/var/p/referenced_var_id", json!(5), "var.p.referenced_var_id"),
        ("var.list", DEF, "/var/x/list", json!([]), "var.x.list"),
        ("var.list-id", DEF, "/var/table/list", json!([77]), "var.table.list"),
        ("engine.files", DEF, "/pe_instr", json!(null), "pe"),
        ("engine.files", "sg00/PE.json", "/instr", json!("Pool.bin"), "instr"),
        ("engine.activation", "sg00/Activation.json", "/activation_function_sets/0", json!("none"), "activation_function_sets[0]"),
        ("engine.dve-tables", "sg00/DVE.json", "/dve_tables/0/control_table", json!("t.bin"), "dve_tables[0]"),
        ("engine.dve-tables", "sg00/DVE.json", "/dve_tables/1/control_table", json!(null), "dve_tables[1]"),
        ("dma.queue", SP, "/dma/0/queue", json!(null), "dma[0]"),
        ("dma.queue-name", SP, "/dma/0/queue", json!("none"), "dma[0].queue"),
        ("dma.queue-name", SP, "/dma/0/instance_name", json!("none"), "dma[0].instance_name"),
        ("dma.owner", DEF, "/dma_queue/qIn/owner", json!("pool"), "dma[0].queue"),
        ("dma.remote-lnc", SP, "/dma/0/remote_semaphores", json!([3]), "dma[0].remote_semaphores"),
        ("dma.amount", SP, "/dma/1", json!({"id": 0, "queue": "qOut", "desc": [desc(json!({})), desc(json!({}))]}), "dma[0].id"),
        ("dma.dynamic", SP, "/dma/0/queue", json!("qDynamic"), "dma[0].queue"),
        ("desc.op", SP, "/dma/0/desc", desc(json!({"op": "warp"})), "dma[0].desc.op"),
        ("desc.from", SP, "/dma/0/desc", desc(json!({"from": null})), "dma[0].desc"),
        ("desc.from", SP, "/dma/0/desc", many("cast", 1), "dma[0].desc.from_arr"),
        ("desc.from-arr", SP, "/dma/0/desc", desc(json!({"op": "add"})), "dma[0].desc"),
        ("desc.from-arr", SP, "/dma/0/desc", with(many("add", 2), "from", json!("x")), "dma[0].desc.from"),
        ("desc.sources", SP, "/dma/0/desc", many("add", 17), "dma[0].desc.from_arr"),
        ("desc.sources", SP, "/dma/0/desc", many("max", 0), "dma[0].desc.from_arr"),
        ("desc.variable", SP, "/dma/0/desc/to", json!("none"), "dma[0].desc.to"),
        ("desc.variable", SP, "/dma/0/desc/from", json!("none"), "dma[0].desc.from"),
        ("desc.offset", SP, "/dma/0/desc/to_off", json!(null), "dma[0].desc.to"),
        ("desc.offset", SP, "/dma/0/desc/from_off", json!(null), "dma[0].desc.from"),
        ("desc.dimensions", SP, "/dma/0/desc", desc(json!({"to_sizes": [4, 2, 2, 2, 2], "to_steps": [1, 4, 8, 16, 32]})), "dma[0].desc.to_sizes"),
        ("desc.dimensions", SP, "/dma/0/desc", desc(json!({"from_sizes": null, "from_steps": null})), "dma[0].desc.from_sizes"),
        ("desc.lengths", SP, "/dma/0/desc/from_steps", json!([1, 64]), "dma[0].desc.from_steps"),
        ("desc.bounds", SP, "/dma/0/desc/to_off", json!(1), "dma[0].desc.to_off"),
        ("desc.bounds", SP, "/dma/0/desc/from_off", json!(u64::MAX), "dma[0].desc.from_sizes"),
        ("desc.bounds", SP, "/dma/1/desc/0/to_sizes", json!([65]), "dma[1].desc[0].to_off"),
        ("desc.sizes", SP, "/dma/0/desc/from_sizes", json!([32]), "dma[0].desc.from_sizes"),
        ("desc.sizes", SP, "/dma/0/desc", desc(json!({"op": "cast", "to_sizes": [3], "to_dtype": "float32"})), "dma[0].desc.to_sizes"),
        ("desc.steps", SP, "/dma/0/desc", desc(json!({"op": "cast", "to_steps": [2], "to_sizes": [32], "to_dtype": "float16"})), "dma[0].desc.to_steps"),
        ("desc.dtype", SP, "/dma/0/desc", desc(json!({"to_dtype": "float64"})), "dma[0].desc.to_dtype"),
        ("desc.tiling", SP, "/dma/0/desc/num_tiling_dimensions", json!(2), "dma[0].desc.num_tiling_dimensions"),
        ("desc.scale", SP, "/dma/0/desc/scale", json!(2.0), "dma[0].desc.scale"),
        ("desc.scale", SP, "/dma/0/desc/scale_dtype", json!("float32"), "dma[0].desc.scale_dtype"),
        ("desc.scale-dtype", SP, "/dma/0/desc", with(many("fma", 2), "scale_dtype", json!("int32")), "dma[0].desc.scale_dtype"),
        ("desc.scale-dtype-missing", SP, "/dma/0/desc", many("fma", 2), "dma[0].desc"),
        ("desc.constant", SP, "/dma/0/desc/constant", json!(1), "dma[0].desc.constant"),
        ("desc.constant", SP, "/dma/0/desc/constant_dtype", json!("int32"), "dma[0].desc.constant_dtype"),
        ("desc.constant-dtype", SP, "/dma/0/desc", with(many("min", 1), "constant_dtype", json!("int8")), "dma[0].desc.constant_dtype"),
        ("desc.constant-value", SP, "/dma/0/desc", with(many("min", 1), "constant_dtype", json!("int32")), "dma[0].desc"),
        ("desc.constant-value", SP, "/dma/0/desc", with(with(many("max", 1), "constant_dtype", json!("uint32")), "constant", json!(-1)), "dma[0].desc.constant"),
        ("desc.constant-ignored", SP, "/dma/0/desc", with(many("max", 1), "constant", json!(-1)), "dma[0].desc.constant"),
        ("desc.transpose", SP, "/dma/0/desc/transpose_shape", json!([1, 2, 3, 4]), "dma[0].desc.transpose_shape"),
        ("desc.transpose-shape", SP, "/dma/0/desc", desc(json!({"op": "transpose", "transpose_shape": [8, 8], "transpose_element_size": 1})), "dma[0].desc.transpose_shape"),
        ("desc.transpose-runs", SP, "/dma/0/desc", desc(json!({"op": "transpose"})), "dma[0].desc"),
        ("tensor-map.dtype", "sg00/tensor_map.json", "/x/dtype", json!("float7"), "x.dtype"),
        ("tensor-map.port", "sg00/tensor_map.json", "/x/kind", json!("output"), "x.kind"),
    ]
}

#[test]
fn violations_of_json_rules_are_reported_at_their_place() {
    for (id, member, pointer, value, place) in json_cases() {
        let mut sample = Sample::new();
        sample.set(member, pointer, value);
        let found = findings(&sample, &VerifyOptions::default());
        let finding = found
            .list
            .iter()
            .find(|finding| finding.rule.id == id && finding.path.to_string() == place);
        let finding = finding.unwrap_or_else(|| panic!("{id} at {place} is not in\n{found}"));
        assert!(finding.offset.is_some(), "{finding}");
        let same_severity = |finding: &&Finding| finding.severity() == Severity::Error;
        let errors: Vec<_> = found.list.iter().filter(same_severity).collect();
        assert!(
            errors
                .iter()
                .all(|finding| finding.rule.id == id || is_consequence(id, finding)),
            "more than {id}:\n{found}"
        );
    }
}

/// Whether a finding is a necessary consequence of violating the rule `id`.
fn is_consequence(id: &str, finding: &Finding) -> bool {
    match id {
        // References to a removed value dangle.
        "json.missing" | "var.type" => {
            finding.rule.id == "desc.variable"
                || finding.rule.id == "var.list-id"
                || finding.rule.id == "var.reference-id"
        }
        "member.missing" | "queue.type" | "graph.kelf" => true,
        "graph.op" | "graph.arg-nodes" => finding.rule.id.starts_with("graph."),
        "desc.dimensions" => finding.rule.id == "desc.lengths",
        "var.list-id" | "var.id" => finding.rule.id.starts_with("var."),
        "desc.scale" => true,
        _ => false,
    }
}

#[test]
fn some_rules_depend_on_the_architecture() {
    let mut sample = Sample::new();
    sample.set(SP, "/dma/0/instance_name", json!("qIn"));
    sample.set(SP, "/dma/0/function_start", json!("main"));
    sample.set(SP, "/dma/0/section_start_desc", json!(true));
    sample.set(SP, "/dma/0/remote_semaphores", json!([1]));
    sample.set(SP, "/dma/0/desc/from_dtype", json!("uint8"));
    sample.set(DEF, "/dma_queue/qIn/queue_instances", json!(["qIn"]));
    let ids = |options: &VerifyOptions| -> BTreeSet<&str> {
        findings(&sample, options)
            .list
            .iter()
            .map(|finding| finding.rule.id)
            .collect()
    };
    let only_inf1 = [
        "queue.num-queues",
        "queue.instances",
        "dma.instance",
        "dma.function-start",
        "dma.section-start",
        "desc.op-inf1",
        "dma.remote-semaphores",
    ];
    let found = ids(&inf1());
    for id in only_inf1 {
        assert!(found.contains(id), "{id} is not in {found:?}");
    }
    assert_eq!(
        ids(&on(Architecture::Trn1)),
        ["dma.remote-lnc", "dma.remote-semaphores"].into()
    );
    assert_eq!(ids(&on(Architecture::Trn2)), ["dma.remote-lnc"].into());
    assert_eq!(ids(&on(Architecture::Trn3)), ["dma.remote-lnc"].into());
    // The kelf's architecture is the default.
    check_the_architecture_of_the_kelf();
}

fn check_the_architecture_of_the_kelf() {
    let mut sample = Sample::new();
    sample.set("kelf-0.json", "/target", json!("inf1"));
    let found = findings(&sample, &VerifyOptions::default());
    assert!(
        found
            .list
            .iter()
            .any(|finding| finding.rule.id == "queue.num-queues"),
        "{found}"
    );
    let mut sample = Sample::new();
    sample.set(DEF, "/dma_queue/qIn/pinned", json!(true));
    sample.set("kelf-0.json", "/target", json!("moon"));
    let found = findings(&sample, &VerifyOptions::default());
    assert!(
        found
            .list
            .iter()
            .all(|finding| finding.rule.id == "kelf.target"),
        "{found}"
    );
    assert!("moon".parse::<Architecture>().is_err());
    assert_eq!("trn2".parse::<Architecture>().unwrap().to_string(), "trn2");
}

/// Rules of the header and of whole members.
#[test]
fn violations_of_container_rules_are_reported() {
    let assert_reported = |sample: &Sample, id: &str| {
        let options = VerifyOptions {
            hash: true,
            ..Default::default()
        };
        let found = findings(sample, &options);
        assert!(
            found.list.iter().any(|finding| finding.rule.id == id),
            "{id}:\n{found}"
        );
    };
    let header = |change: fn(&mut Header)| {
        let mut sample = Sample::new();
        change(&mut sample.header);
        sample
    };
    assert_reported(&header(|h| h.feature_bits.0 = 1 << 15), "header.features");
    assert_reported(&header(|h| h.num_tpb = 9), "header.cores");
    assert_reported(&header(|h| h.lnc_size = 2), "header.lnc");
    assert_reported(&header(|h| h.pad[3] = 1), "header.pad");
    assert_reported(&header(|h| *h = Header::tenon("x", 1)), "tenon.contents");
    let mut sample = Sample::new();
    sample.members.insert("sg00/PE.bin".into(), vec![0; 65]);
    assert_reported(&sample, "engine.program");
    let mut sample = Sample::new();
    sample.members.insert("sg00".into(), vec![0; 5]);
    assert_reported(&sample, "archive.folder");
    let mut sample = Sample::new();
    sample.header = Header::tenon("sample", 1);
    assert_reported(&sample, "digest.none");
    let mut sample = Sample::new();
    sample
        .members
        .insert("sg00/a.npy".into(), b"\x93NUMPY\x01".to_vec());
    sample.set(DEF, "/var/w/file_name", json!("a.npy"));
    assert_reported(&sample, "var.npy");
    let mut sample = Sample::new();
    let text = String::from_utf8(sample.members["sg00/def.json"].clone()).unwrap();
    sample.members.insert(
        "sg00/def.json".into(),
        text.replacen("{", "{\"pe\":\"PE.json\",", 1).into(),
    );
    assert_reported(&sample, "json.twice");
    sample
        .members
        .insert("sg00/def.json".into(), text.replacen(":", "=", 3).into());
    assert_reported(&sample, "json.syntax");
    sample
        .members
        .insert("sg00/def.json".into(), vec![b'['; 100_000]);
    assert_reported(&sample, "json.syntax");
}

#[test]
fn violations_of_hash_and_digest_rules_are_reported() {
    let sample = Sample::new();
    let check = |bytes: &[u8]| {
        let options = VerifyOptions {
            hash: true,
            ..Default::default()
        };
        verify(&open(bytes), &options, &Control::new()).unwrap()
    };
    let ids = |found: &Findings| found.list.iter().map(|f| f.rule.id).collect::<Vec<_>>();
    let mut foreign = sample.bytes();
    let at = foreign
        .windows(16)
        .position(|window| window == [9; 16])
        .unwrap();
    foreign[at] = 8;
    assert_eq!(ids(&check(&foreign)), ["header.hash-foreign"]);
    // With digests, the changed member is reported.
    let digested = |header: &Header| {
        let mut writer = PackageWriter::in_memory(header.clone())
            .unwrap()
            .with_digests();
        sample
            .members
            .iter()
            .for_each(|(name, bytes)| writer.add(name, bytes).unwrap());
        writer.finish().unwrap().0.to_vec()
    };
    let mut bytes = digested(&sample.header);
    assert_eq!(ids(&check(&bytes)), [""; 0]);
    let at = bytes
        .windows(16)
        .position(|window| window == [9; 16])
        .unwrap();
    bytes[at] = 8;
    let found = check(&bytes);
    assert_eq!(ids(&found), ["header.hash-foreign", "digest.member"]);
    assert_eq!(found.list[1].member.as_deref(), Some("sg00/w.bin"));
    // A package of Tenon has the hash of its header.
    let mut own = digested(&Header::tenon("x", 1));
    let last = own.len() - 1;
    own[last] = 1;
    assert!(ids(&check(&own)).contains(&"header.hash"));
    // A missing member, an unlisted one, and a list that is not one.
    let repack = |change: fn(&mut Vec<(String, Vec<u8>)>)| {
        let package = open(&digested(&sample.header));
        let mut members: Vec<_> = package
            .members()
            .map(|(name, _)| (name.to_owned(), package.member(name).unwrap().to_vec()))
            .collect();
        change(&mut members);
        let mut writer = PackageWriter::in_memory(sample.header.clone()).unwrap();
        members
            .iter()
            .for_each(|(name, bytes)| writer.add(name, bytes).unwrap());
        check(&writer.finish().unwrap().0)
    };
    let found = repack(|members| members.retain(|(name, _)| name != "hlo_stats.json"));
    assert_eq!(ids(&found), ["digest.lost"]);
    let found = repack(|members| members.push(("new".into(), vec![1])));
    assert_eq!(ids(&found), ["digest.unlisted"]);
    let found = repack(|members| members.last_mut().unwrap().1 = b"{}".to_vec());
    assert_eq!(ids(&found), ["digest.table"]);
    assert_eq!(found.list[0].member.as_deref(), Some(DIGESTS_JSON));
}

#[test]
fn files_that_do_not_open_give_findings() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.neff");
    let check = |bytes: &[u8], options: &VerifyOptions| {
        std::fs::write(&path, bytes).unwrap();
        let found = verify_file(&path, options, &Control::new()).unwrap();
        assert!(!found.is_good());
        found.list[0].rule.id
    };
    let sample = Sample::new();
    let good = sample.bytes();
    let changed = |at: usize, byte: u8| {
        let mut bytes = good.clone();
        bytes[at] = byte;
        bytes
    };
    let usual = VerifyOptions::default();
    assert_eq!(check(&good[..1000], &usual), "header.length");
    assert_eq!(check(&changed(0, 3), &usual), "header.pkg-version");
    assert_eq!(check(&changed(24, 3), &usual), "header.version");
    assert_eq!(check(&changed(9, 0), &usual), "header.size");
    assert_eq!(check(&good[..good.len() - 1], &usual), "header.data-size");
    assert_eq!(check(&changed(1024, b'!'), &usual), "archive.entry");
    let mut packed = Sample::new();
    packed.header.pkg_version = 2;
    let mut bytes = packed.bytes();
    let small = VerifyOptions {
        limits: Limits::of_bytes(999),
        ..usual
    };
    assert_eq!(check(&bytes, &small), "payload.limit");
    bytes[1100] ^= 0xff;
    assert_eq!(check(&bytes, &usual), "payload.gzip");
    let mut bytes = sample.bytes();
    bytes[0] = 2;
    let found = verify(&open(&bytes), &usual, &Control::new()).unwrap();
    assert_eq!(found.list[0].rule.id, "payload.version");
    let missing = verify_file(folder.path().join("none"), &usual, &Control::new()).unwrap_err();
    assert_eq!(missing.kind(), ErrorKind::NotFound);
}

#[test]
fn findings_beyond_the_limit_are_counted() {
    let mut sample = Sample::new();
    for index in 0..20 {
        sample.set(DEF, "/var/x/var_id", json!(1));
        let variable = json!({"type": "input", "var_id": 1, "size": 1});
        sample.add(DEF, "/var", &format!("v{index}"), variable);
    }
    let options = VerifyOptions {
        findings: 5,
        ..VerifyOptions::default()
    };
    let found = findings(&sample, &options);
    assert_eq!((found.list.len(), found.left_out), (5, 15));
    assert!(!found.is_good());
    let text = serde_json::to_value(&found).unwrap();
    assert_eq!(text["list"][0]["rule"], "var.id");
    assert_eq!(text["left_out"], 15);
}

/// Changes bytes one at a time: every change inside a member is reported, and nothing panics.
#[test]
fn any_changed_byte_is_reported() {
    let sample = Sample::new();
    let mut writer = PackageWriter::in_memory(sample.header.clone())
        .unwrap()
        .with_digests();
    for (name, bytes) in &sample.members {
        writer.add(name, bytes).unwrap();
    }
    let good = writer.finish().unwrap().0.to_vec();
    let package = open(&good);
    let mut inside = 0;
    for at in (0..good.len()).step_by(7) {
        let mut bytes = good.clone();
        bytes[at] ^= 0x15;
        let buffer = BufferMut::copy_of(&bytes).unwrap().freeze();
        let Ok(changed) = Package::from_buffer(buffer, &Limits::default(), &Control::new()) else {
            continue;
        };
        let found = verify(&changed, &VerifyOptions::default(), &Control::new()).unwrap();
        let differs =
            |name: &str| changed.member(name).as_deref() != package.member(name).as_deref();
        for (name, _) in package.members().filter(|(name, _)| differs(name)) {
            inside += 1;
            let is_reported = found
                .list
                .iter()
                .any(|finding| finding.rule.id.starts_with("digest."));
            assert!(is_reported, "byte {at} of {name}:\n{found}");
        }
    }
    assert!(inside > 500, "{inside}");
}

#[test]
fn errors_of_loading_are_findings() {
    let mut found = Findings::with_limit(9);
    found.add_load(Ok(())).unwrap();
    assert!(found.is_good());
    let stopped = Error::new(ErrorKind::Cancelled, "stopped");
    assert_eq!(
        found.add_load(Err(stopped)).unwrap_err().kind(),
        ErrorKind::Cancelled
    );
    let problem = |text: &str, field: &str| {
        let place = Location {
            field: Some(field.into()),
            ..Location::member("sg00/program.bef")
        };
        Error::new(ErrorKind::InvalidProgram, text).at(place)
    };
    let both = Error::from_all([problem("one", "a"), problem("two", "b")]).unwrap();
    found.add_load(Err(both)).unwrap();
    let places = found.list.iter().map(|finding| {
        assert_eq!(finding.rule.id, "tenon.load");
        (finding.member.as_deref(), finding.path.to_string())
    });
    let member = Some("sg00/program.bef");
    assert_eq!(
        places.collect::<Vec<_>>(),
        [(member, "a".into()), (member, "b".into())]
    );
}

/// Fails for a rule without a test.
#[test]
fn every_rule_is_tested() {
    let mut ids: BTreeSet<&str> = json_cases().iter().map(|case| case.0).collect();
    let (source, _) = include_str!("tests.rs")
        .split_once("Fails for a rule without a test")
        .unwrap();
    ids.extend(
        Rule::ALL
            .iter()
            .map(|rule| rule.id)
            .filter(|id| source.matches(&format!("\"{id}\"")).count() > 0),
    );
    let untested: Vec<&str> = Rule::ALL
        .iter()
        .map(|rule| rule.id)
        .filter(|id| !ids.contains(id))
        .collect();
    assert_eq!(untested, [""; 0]);
}
