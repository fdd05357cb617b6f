//! The transfers of a compiled package, run without its program.

mod common;

use common::{bytes, compiled, f32s, node, open, random_tensor};
use std::collections::BTreeMap;
use tenon_base::Control;
use tenon_graph::{Attribute, Attributes, Graph};
use tenon_runtime::PackageTransfers;

#[test]
fn a_concat_runs_on_given_variables() {
    let mut graph = Graph::new("join");
    let a = graph.add_input("a", f32s(&[2, 3]));
    let b = graph.add_input("b", f32s(&[2, 5]));
    let axis = Attributes::new().with("axis", Attribute::Int(1));
    let joined = node(&mut graph, "join", "Concat", &[a, b], axis);
    graph.outputs.push(joined);
    let package = open(&bytes(&compiled(graph).contents)).unwrap();
    let transfers = PackageTransfers::read(&package).unwrap();
    let rows = transfers.rows().unwrap();
    assert_eq!(rows.len(), 2);
    assert_eq!((&*rows[0].from[0], &*rows[1].from[0]), ("a", "b"));
    assert_eq!((&*rows[0].core, &*rows[0].engine), ("sg00", "sp"));
    let (a, b) = (random_tensor(&[2, 3], 1), random_tensor(&[2, 5], 2));
    let given = [("a", &a), ("b", &b)];
    let given: BTreeMap<String, Vec<u8>> = given
        .iter()
        .map(|(name, tensor)| ((*name).to_owned(), tensor.bytes().to_vec()))
        .collect();
    let outcome = transfers.run(&given, &["sp"], &Control::new()).unwrap();
    let (a, b) = (a.bytes(), b.bytes());
    let expected = [&a[..12], &b[..20], &a[12..], &b[20..]].concat();
    assert_eq!(outcome.variables[0][&rows[0].to], expected);
    assert_eq!(outcome.races, []);
}

/// Two engines synchronised by a semaphore: `act` copies `x` to `y`, then `pool` copies `y` to `z`.
const PROGRAMS: &str = r#"
func.func @act(%engine: !tenon.engine, %c0: !tfrt.chain) -> !tfrt.chain {
  %c1 = "tenon.dma.trigger"(%engine, %c0) {count = 0 : ui32, function = "", id = 1 : ui32} : (!tenon.engine, !tfrt.chain) -> (!tfrt.chain)
  tfrt.return %c1 : !tfrt.chain
}
func.func @pool(%engine: !tenon.engine, %c0: !tfrt.chain) -> !tfrt.chain {
  %c1 = "tenon.semaphore.wait"(%engine, %c0) {at_least = 1 : ui32, semaphore = 3 : ui64} : (!tenon.engine, !tfrt.chain) -> (!tfrt.chain)
  %c2 = "tenon.dma.trigger"(%engine, %c1) {count = 0 : ui32, function = "", id = 2 : ui32} : (!tenon.engine, !tfrt.chain) -> (!tfrt.chain)
  tfrt.return %c2 : !tfrt.chain
}
"#;

fn with_programs(text: &str) -> tenon_neff::Package {
    let module = tenon_bef::parse(text, "engines.mlir").unwrap();
    let program = tenon_bef::encode(&module, &tenon_bef::EncodeOptions::default()).unwrap();
    let copy = |id: u32, from: &str, to: &str| {
        format!(
            r#"{{"dma":[{{"id":{id},"queue":"q","semaphore":3,"desc":{{"from":"{from}","from_off":0,
            "from_sizes":[4],"from_steps":[1],"to":"{to}","to_off":0,"to_sizes":[4],"to_steps":[1]}}}}]}}"#
        )
    };
    let members: [(&str, &[u8]); 7] = [
        (
            "neff.json",
            br#"{"nodes":[{"op":"tvm_op","name":"sg","inputs":[],"output_names":[],"attrs":
            {"func_name":"__kelf","kelf":"kelf-0.json"}}],"node_row_ptr":[0,0],"attrs":
            {"shape":["list_shape",[]],"storage_id":["list_int",[]],"dltype":["list_str",[]]}}"#,
        ),
        (
            "kelf-0.json",
            br#"{"graphs":[{"definition":"sg00/def.json","name":"sg00"}],"target":"cayman"}"#,
        ),
        (
            "sg00/def.json",
            br#"{"name":"sg00","version":"0.6","act":"act.json","act_instr":"act.bin",
            "pool":"pool.json","pool_instr":"pool.bin",
            "dma_queue":{"q":{"type":"data","num_queues":1}},"var":{
            "x":{"type":"input","var_id":0,"size":4},
            "y":{"type":"tmp-buf","var_id":1,"size":4},
            "z":{"type":"output","var_id":2,"size":4}}}"#,
        ),
        ("sg00/act.json", &copy(1, "x", "y").into_bytes()),
        ("sg00/pool.json", &copy(2, "y", "z").into_bytes()),
        ("sg00/act.bin", &program),
        ("sg00/pool.bin", &program),
    ];
    let header = tenon_neff::Header::tenon("engines", 1);
    let mut writer = tenon_neff::PackageWriter::in_memory(header).unwrap();
    for (name, bytes) in members {
        writer.add(name, bytes).unwrap();
    }
    open(&writer.finish().unwrap().0).unwrap()
}

#[test]
fn engine_programs_run_concurrently() {
    let transfers = PackageTransfers::read(&with_programs(PROGRAMS)).unwrap();
    let given = BTreeMap::from([("x".to_owned(), vec![1, 2, 3, 4])]);
    let run = |engines: &[&str]| transfers.run(&given, engines, &Control::new());
    let outcome = run(&[]).unwrap();
    assert_eq!(outcome.variables[0]["z"], [1, 2, 3, 4]);
    assert_eq!(outcome.semaphores[0], [(3, 2)]);
    assert_eq!(outcome.races, []);
    // Alone it waits forever: a deadlock.
    let deadlock = run(&["pool"]).unwrap_err().to_string();
    assert!(
        deadlock.contains("pool") && deadlock.contains("semaphore 3"),
        "{deadlock}"
    );
}

#[test]
fn a_program_of_another_type_is_rejected() {
    let text = "func.func @act(%c0: !tfrt.chain) -> !tfrt.chain { tfrt.return %c0 : !tfrt.chain }";
    let error = PackageTransfers::read(&with_programs(text)).err().unwrap();
    let expected = "sg00/act.bin: node '@act': the function does not have the type of an engine program: expected (!tenon.engine, \
                    !tfrt.chain) -> !tfrt.chain, found (!tfrt.chain) -> (!tfrt.chain)";
    assert_eq!(error.to_string(), expected);
}

#[test]
fn triggers_of_unknown_transfers_are_rejected() {
    let text = PROGRAMS
        .replacen("id = 1", "id = 9", 1)
        .replace("function = \"\", id = 2", "function = \"later\", id = 1");
    let error = PackageTransfers::read(&with_programs(&text)).err().unwrap();
    let expected = [
        "sg00/act.bin: node '@act kernel 0 (tenon.dma.trigger)': the engine has no transfer of this \
         id: found 9",
        "sg00/pool.bin: node '@pool kernel 1 (tenon.dma.trigger)': no function_start of the engine \
         has this name: found 'later'",
        "sg00/pool.bin: node '@pool kernel 1 (tenon.dma.trigger)': the engine has no transfer of \
         this id: found 1",
    ];
    assert_eq!(error.to_string(), expected.join("\n"));
}

#[test]
fn a_pad_of_repeated_elements_is_nine_copies() {
    // The source rows and columns of the padded matrix.
    let cases = [
        ("reflect", [1, 0, 1, 2, 1], [2, 1, 0, 1, 2, 3, 2, 1]),
        ("edge", [0, 0, 1, 2, 2], [0, 0, 0, 1, 2, 3, 3, 3]),
        ("wrap", [2, 0, 1, 2, 0], [2, 3, 0, 1, 2, 3, 0, 1]),
    ];
    for (mode, rows, columns) in cases {
        let mut graph = Graph::new(mode);
        let x = graph.add_input("x", f32s(&[3, 4]));
        let pads = tenon_tensor::Tensor::from_slice([4], &[1i64, 2, 1, 2]).unwrap();
        let pads = graph.add_constant("pads", pads);
        let mode = Attributes::new().with("mode", Attribute::String(mode.into()));
        let padded = node(&mut graph, "padded", "Pad", &[x, pads], mode);
        graph.outputs.push(padded);
        let package = open(&bytes(&compiled(graph).contents)).unwrap();
        let transfers = PackageTransfers::read(&package).unwrap();
        let moved = transfers.rows().unwrap();
        assert_eq!(moved.len(), 9);
        let x = random_tensor(&[3, 4], 1);
        let given = BTreeMap::from([("x".to_owned(), x.bytes().to_vec())]);
        let outcome = transfers.run(&given, &["sp"], &Control::new()).unwrap();
        let element = |row: usize, column: usize| &x.bytes()[4 * (4 * row + column)..][..4];
        let expected = rows.map(|row| columns.map(|column| element(row, column)).concat());
        assert_eq!(outcome.variables[0][&moved[0].to], expected.concat());
    }
}
