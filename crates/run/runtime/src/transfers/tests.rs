use super::*;
use tenon_tensor::BufferMut;

fn definition(text: &str) -> Definition {
    serde_json::from_str(text).unwrap()
}

fn engine(text: &str) -> Engine {
    serde_json::from_str(text).unwrap()
}

fn core<'a>(name: &'a str, definition: &'a Definition, engine: &'a Engine) -> TransferCore<'a> {
    let constant = Constant::Raw(BufferMut::copy_of(&[7, 8, 9, 10]).unwrap().freeze());
    TransferCore {
        name,
        definition,
        engines: vec![("act", engine)],
        constants: HashMap::from([("w.bin".to_owned(), constant)]),
        programs: Vec::new(),
        pointers_are_views: false,
    }
}

fn given(list: &[(&str, &[u8])]) -> BTreeMap<String, Vec<u8>> {
    let owned = list
        .iter()
        .map(|(name, bytes)| ((*name).to_owned(), bytes.to_vec()));
    owned.collect()
}

fn run(cores: &[TransferCore<'_>], lnc: usize, list: &[(&str, &[u8])]) -> Result<TransferOutcome> {
    run_transfers(cores, lnc, &given(list), &[], &Control::new())
}

/// One transfer of four bytes; `more` are further keys of it.
fn copy(id: u32, from: &str, to: &str, to_off: u32, more: &str) -> String {
    format!(
        r#"{{"id":{id},"queue":"q",{more}"desc":{{"from":"{from}","from_off":0,"from_sizes":[4],
        "from_steps":[1],"to":"{to}","to_off":{to_off},"to_sizes":[4],"to_steps":[1]}}}}"#
    )
}

const DEFINITION: &str = r#"{"dma_queue":{"q":{"type":"data","num_queues":2,"semaphore_set":[5,6]}},
"var":{
"x":{"type":"input","var_id":0,"size":4},
"w":{"type":"file","var_id":1,"size":4,"file_name":"w.bin"},
"y":{"type":"output","var_id":2,"size":4},
"a":{"type":"virtual","var_id":3,"size":8,"backing_variable_off":0},
"b":{"type":"virtual","var_id":4,"size":4,"backing_variable_off":4},
"sb":{"type":"state-buffer","var_id":5},
"p":{"type":"pointer","var_id":6,"size":12,"referenced_var_id":2},
"t":{"type":"dge-table","var_id":7,"list":[0]}}}"#;

#[test]
fn every_variable_is_initialised_by_its_type() {
    let definition = definition(DEFINITION);
    let list = [
        copy(1, "x", "a", 4, r#""semaphore":9,"#),
        copy(1, "b", "y", 0, ""),
        copy(2, "w", "sb", 96, r#""event":3,"#),
    ];
    let engine = engine(&format!(r#"{{"dma":[{}]}}"#, list.join(",")));
    let cores = [core("sg00", &definition, &engine)];
    let outcome = run(&cores, 1, &[("x", &[1, 2, 3, 4])]).unwrap();
    let variables = &outcome.variables[0];
    // Both scratch variables share the second half of the scratchpad.
    assert_eq!(variables["a"], [0, 0, 0, 0, 1, 2, 3, 4]);
    assert_eq!(variables["b"], [1, 2, 3, 4]);
    assert_eq!(variables["y"], [1, 2, 3, 4]);
    assert_eq!(
        (variables["sb"].len(), &variables["sb"][96..]),
        (100, &[7, 8, 9, 10][..])
    );
    assert_eq!(variables["p"], [0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0]);
    assert!(!variables.contains_key("t"));
    assert_eq!(outcome.semaphores, [[(5, 2), (6, 2), (9, 2)]]);
    assert_eq!(outcome.events, [[3]]);
    // Two queues, and what the second reads the first one wrote.
    assert_eq!(outcome.races.len(), 1);
    let rows = descriptor_rows(&cores).unwrap();
    let names: Vec<_> = rows
        .iter()
        .map(|row| (row.id, &*row.from[0], &*row.to))
        .collect();
    assert_eq!(names, [(1, "x", "a"), (1, "b", "y"), (2, "w", "sb")]);
    assert_eq!((&*rows[2].queue, rows[2].event), ("q", Some(3)));
}

#[test]
fn views_share_the_bytes_of_their_variable() {
    let text = DEFINITION.replace(r#""size":12,"referenced"#, r#""size":4,"referenced"#);
    let definition = definition(&text);
    let engine = engine(&format!(r#"{{"dma":[{}]}}"#, copy(1, "w", "p", 0, "")));
    let mut core = core("sg00", &definition, &engine);
    core.pointers_are_views = true;
    let outcome = run(&[core], 1, &[]).unwrap();
    assert_eq!(outcome.variables[0]["y"], [7, 8, 9, 10]);
}

#[test]
fn cores_run_concurrently_or_in_order() {
    let first = definition(DEFINITION);
    let text = DEFINITION.replace(r#""y":{"type":"output""#, r#""y":{"type":"input""#);
    let text = text.replace(r#""x":{"type":"input""#, r#""x":{"type":"output""#);
    let second = definition(&text);
    let remote = r#""remote_semaphores":[1],"#;
    let copy_to_y = engine(&format!(r#"{{"dma":[{}]}}"#, copy(1, "x", "y", 0, remote)));
    let copy_y = engine(&format!(r#"{{"dma":[{}]}}"#, copy(1, "y", "a", 0, "")));
    let cores = [
        core("sg00", &first, &copy_to_y),
        core("sg01", &first, &copy_y),
    ];
    let outcome = run(&cores, 2, &[("x", &[1, 2, 3, 4])]).unwrap();
    assert_eq!(outcome.variables[1]["y"], [1, 2, 3, 4]);
    assert_eq!(outcome.semaphores[1], [(1, 2), (5, 1), (6, 1)]);
    let alone = run(&cores, 1, &[]).unwrap_err();
    assert!(
        alone.to_string().contains("there is no other core"),
        "{alone}"
    );
    let copy_to_y = engine(&format!(r#"{{"dma":[{}]}}"#, copy(1, "x", "y", 0, "")));
    let serial = [
        core("sg00", &first, &copy_to_y),
        core("sg01", &second, &copy_y),
    ];
    let outcome = run(&serial, 1, &[("sg00/x", &[4, 3, 2, 1])]).unwrap();
    assert_eq!(outcome.variables[1]["a"][..4], [4, 3, 2, 1]);
}

#[test]
fn all_problems_are_reported_together() {
    let text = DEFINITION
        .replace(r#""w.bin""#, r#""v.bin""#)
        .replace(r#""size":12,"#, r#""size":7,"#);
    let definition = definition(&text);
    let list = [
        copy(1, "nothing", "y", 0, ""),
        copy(1, "x", "sb", u32::MAX, ""),
    ];
    let engine = engine(&format!(r#"{{"dma":[{}]}}"#, list.join(",")));
    let cores = [core("sg00", &definition, &engine)];
    let error = run(&cores, 1, &[("y", &[1]), ("none", &[])]).unwrap_err();
    assert_eq!(
        error.to_string(),
        "no core has a variable of this name: found 'none'"
    );
    let error = run(&cores, 1, &[("y", &[1])]).unwrap_err().to_string();
    for part in [
        "sg00: engine act: dma[0].desc[0]: from: no such variable: found 'nothing'",
        "sg00: variable 'w': its data is missing: found 'v.bin'",
        "sg00: variable 'y': the given bytes do not have the size of the variable: expected 4, found 1",
        "sg00: variable 'sb': transfers exceed the maximum size of a state buffer without a declared size",
        "sg00: variable 'p': a pointer is too small for an address: expected at least 8 bytes, found 7",
    ] {
        assert!(error.contains(part), "{part} in {error}");
    }
    assert!(descriptor_rows(&cores).is_err());
    let other = run_transfers(&cores, 1, &BTreeMap::new(), &["pool"], &Control::new());
    assert_eq!(
        other.unwrap_err().to_string(),
        "no core has an engine of this name: found 'pool'"
    );
}

#[test]
fn a_table_and_a_constant_are_not_written() {
    let definition = definition(DEFINITION);
    let refusal = |transfer: String| {
        let engine = engine(&format!(r#"{{"dma":[{transfer}]}}"#));
        run(&[core("sg00", &definition, &engine)], 1, &[])
            .unwrap_err()
            .to_string()
    };
    assert_eq!(
        refusal(copy(1, "x", "w", 0, "")),
        "sg00: engine act: dma[0].desc[0]: to: 'w' is read-only"
    );
    assert!(refusal(copy(1, "t", "y", 0, "")).contains("leaves its variable"));
}
