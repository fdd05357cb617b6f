//! A package of another compiler that has every kind of member.

use crate::{Header, PackageWriter};
use serde_json::{Value, json};
use std::collections::BTreeMap;

pub(crate) struct Sample {
    pub header: Header,
    pub members: BTreeMap<String, Vec<u8>>,
}

impl Sample {
    pub fn new() -> Self {
        let mut header = Header::tenon("sample", 1);
        header.build_version = [0; 128];
        header.feature_bits.0 = 0;
        let mut members = BTreeMap::new();
        let mut json = |name: &str, value: Value| {
            members.insert(name.to_owned(), serde_json::to_vec_pretty(&value).unwrap());
        };
        json("neff.json", graph());
        json(
            "info.json",
            json!({"name": "sample", "num_tpb": 1, "num_tpb_requested": 1}),
        );
        json("hlo_stats.json", json!({"ConstantSize": 0, "Traffic": -1}));
        let graphs = json!([{"definition": "sg00/def.json", "name": "sg00"}]);
        json(
            "kelf-0.json",
            json!({"graphs": graphs, "version": "0.5", "target": "cayman"}),
        );
        json("sg00/def.json", definition());
        json("sg00/SP.json", sp());
        for engine in ["PE", "Pool"] {
            let text = json!({"dma": [], "instr": format!("{engine}.bin"), "name": format!("{engine}.json")});
            json(&format!("sg00/{engine}.json"), text);
        }
        json(
            "sg00/Activation.json",
            json!({"act_info": "act_info.json", "act_semaphore": 12,
            "activation_function_sets": ["exp_and_others"], "dma": [],
            "instr": "Activation.bin", "name": "Activation.json"}),
        );
        json(
            "sg00/act_info.json",
            json!({"pwp_file_keys": ["bkt_bin"], "act_func_sets": [
            {"name": "exp_and_others", "bkt_bin": "t.bin", "act": {"exp": 400}}]}),
        );
        json(
            "sg00/DVE.json",
            json!({"dma": [], "instr": "DVE.bin", "dve_tables": [
            {"control_fast_table": "t.bin", "control_slow_table": "t.bin",
             "datapath_table": "t.bin", "opcode_table": "t.bin"},
            {"control_table": "t.bin", "datapath_table": "t.bin", "opcode_table": "t.bin"}]}),
        );
        json(
            "sg00/tensor_map.json",
            json!({
            "x": {"dtype": "float16", "is_const": false, "kind": "input", "split_axis": null},
            "y": {"dtype": "float16", "kind": "output"}}),
        );
        for program in ["PE", "Pool", "Activation", "DVE", "SP"] {
            members.insert(format!("sg00/{program}.bin"), vec![0; 64]);
        }
        members.insert("sg00/t.bin".into(), vec![5; 32]);
        members.insert("sg00/w.bin".into(), vec![9; 16]);
        Self { header, members }
    }

    pub fn bytes(&self) -> Vec<u8> {
        let mut writer = PackageWriter::in_memory(self.header.clone()).unwrap();
        self.members
            .iter()
            .for_each(|(name, bytes)| writer.add(name, bytes).unwrap());
        writer.finish().unwrap().0.to_vec()
    }

    /// Sets the value at a JSON pointer; null removes it.
    pub fn set(&mut self, member: &str, pointer: &str, value: Value) {
        let (parent, key) = pointer.rsplit_once('/').unwrap();
        self.change(member, parent, |parent| match (parent, value) {
            (Value::Object(map), Value::Null) => drop(map.remove(key).unwrap()),
            (Value::Object(map), value) => drop(map.insert(key.to_owned(), value)),
            (Value::Array(list), value) => list[key.parse::<usize>().unwrap()] = value,
            (other, _) => panic!("{other} has no {key}"),
        });
    }

    /// Adds a key to the object at a JSON pointer.
    pub fn add(&mut self, member: &str, pointer: &str, key: &str, value: Value) {
        self.change(member, pointer, |parent| parent[key] = value);
    }

    fn change(&mut self, member: &str, pointer: &str, change: impl FnOnce(&mut Value)) {
        let bytes = self.members.get_mut(member).unwrap();
        let mut whole: Value = serde_json::from_slice(bytes).unwrap();
        change(whole.pointer_mut(pointer).unwrap());
        *bytes = serde_json::to_vec_pretty(&whole).unwrap();
    }
}

fn graph() -> Value {
    json!({
        "nodes": [
            {"op": "null", "name": "x", "inputs": [], "output_names": ["x"], "is_param": "0"},
            {"op": "tvm_op", "name": "sg_core", "attrs": {"func_name": "__kelf",
                "flatten_data": "0", "num_inputs": "1", "kelf": "kelf-0.json", "num_outputs": "1"},
             "inputs": [[0, 0, 0]], "output_names": ["y"]},
        ],
        "arg_nodes": [0],
        "heads": [[1, 0, 0]],
        "attrs": {"shape": ["list_shape", [[4, 8], [4, 8]]], "storage_id": ["list_int", [0, 1]],
            "dltype": ["list_str", ["float16", "float16"]]},
        "node_row_ptr": [0, 1, 2],
        "metadata": {"signatures": {"default": {
            "inputs": {"x": {"id": 0, "dtype": "float16", "shape": [4, 8]}}, "outputs": {}}}},
    })
}

fn definition() -> Value {
    json!({
        "name": "definition", "version": "0.6", "#rank_world_size": 0,
        "pe": "PE.json", "pe_instr": "PE.bin", "pe_dbg": [], "pe_asm_dbg": [],
        "act": "Activation.json", "act_instr": "Activation.bin",
        "pool": "Pool.json", "pool_instr": "Pool.bin",
        "dve": "DVE.json", "dve_instr": "DVE.bin",
        "sp": "SP.json", "sp_instr": "SP.bin", "dma_dbg": [],
        "cc_streams": {"num_streams": 0}, "debug_info": {},
        "dma_queue": {
            "qIn": {"type": "in", "owner": "sp", "num_queues": 2, "semaphore_set": [4, 5],
                "fabric_path": "main"},
            "qOut": {"type": "out", "owner": "sp", "semaphore": 6, "fabric_path": "alt",
                "queue_instances": ["qOut.0", "qOut.1"], "pinned": false},
            "qDynamic": {"type": "dynamic", "owner": "sp", "num_queues": 16, "dynamic_dma":
                {"SB_scratch_partition_offset": 0, "SB_scratch_partition_size": 16384}},
        },
        "fp8_conversion_config": {"emax_fp8_e4m3": 8, "emax_fp8_e5m2": 15,
            "fp8_range_extension": true, "fp8_sis": false, "fp8_sns": false, "ocp_sat": true},
        "neff_features": [],
        "runtime_event_count": 12, "runtime_semaphore_count": 3,
        "runtime_statebuffer_reservation": [
            {"base_partition": 0, "offset": 8, "partitions": 128, "size": 8, "type": "evtaccel"}],
        "var": {
            "SB": {"type": "state-buffer", "var_id": 0},
            "x": {"type": "input", "var_id": 1, "size": 64, "ops": []},
            "y": {"type": "output", "var_id": 2, "size": 64},
            "w": {"type": "file", "var_id": 3, "size": 16, "alignment": 64,
                "fabric_path": "alt", "file_name": "w.bin"},
            "t": {"type": "virtual", "var_id": 4, "size": 64, "backing_variable_off": 128},
            "p": {"type": "pointer", "var_id": 5, "size": 64, "referenced_var_id": 1},
            "private": {"type": "tmp-buf", "var_id": 6, "size": 64, "alignment": 0},
            "table": {"type": "dge-table", "var_id": 7, "list": [1, 2]},
        },
    })
}

fn sp() -> Value {
    let copy = |from: &str, to: &str| {
        json!({"from": from, "from_off": 0, "from_sizes": [64], "from_steps": [1],
            "to": to, "to_off": 0, "to_sizes": [64], "to_steps": [1]})
    };
    json!({
        "name": "SP.json", "instr": "SP.bin",
        "dma": [
            {"id": 0, "queue": "qIn", "semaphore": 4, "event": 1, "desc": copy("x", "y")},
            {"id": 1, "instance_name": "qOut.1", "function_start": "main",
             "section_start_desc": true, "remote_semaphores": [],
             "desc": [copy("x", "t"), copy("t", "SB")]},
        ],
    })
}
