//! Parsing and verifying a subgraph of 100 000 variables and 1 000 000 descriptors. The allocator of
//! the bench reports peak memory.

use divan::{AllocProfiler, Bencher};
use std::fmt::Write;
use tenon_neff::{
    Control, Header, Limits, Package, PackageWriter, Structure, VerifyOptions, verify,
};

#[global_allocator]
static ALLOCATOR: AllocProfiler = AllocProfiler::system();

const VARIABLES: usize = 100_000;
const DESCRIPTORS: usize = 1_000_000;

fn main() {
    divan::main();
}

fn definition() -> String {
    let mut text = String::from(
        r#"{"name":"definition","version":"0.6","sp":"SP.json","sp_instr":"SP.bin","dma_queue":{"#,
    );
    text += r#""qIn":{"type":"in","owner":"sp","num_queues":16},"#;
    text += r#""qOut":{"type":"out","owner":"sp","num_queues":16}},"var":{"#;
    for id in 0..VARIABLES {
        let comma = if id > 0 { "," } else { "" };
        let off = id * 65536;
        write!(
            text,
            r#"{comma}"layer{id}.value":{{"type":"virtual","var_id":{id},"size":65536,"alignment":64,"backing_variable_off":{off}}}"#
        )
        .expect("to memory");
    }
    text + "}}"
}

/// Half of them copies, a quarter transposed, a quarter sums of two.
fn engine() -> String {
    let mut text = String::from(r#"{"name":"SP.json","instr":"SP.bin","dma":["#);
    for id in 0..DESCRIPTORS {
        let comma = if id > 0 { "," } else { "" };
        let (a, b) = (id % VARIABLES, (id * 7 + 1) % VARIABLES);
        let queue = if id % 2 == 0 { "qIn" } else { "qOut" };
        let to = format!(
            r#""to":"layer{b}.value","to_off":{},"to_sizes":[4096],"to_steps":[1]"#,
            id % 16 * 4096
        );
        let source = match id % 4 {
            0 | 1 => format!(
                r#""from":"layer{a}.value","from_off":0,"from_sizes":[4096],"from_steps":[1]"#
            ),
            2 => format!(
                r#""from":"layer{a}.value","from_off":64,"from_sizes":[4,32,32],"from_steps":[1,128,4]"#
            ),
            _ => format!(
                r#""op":"add","to_dtype":"float32","from_arr":[{{"from":"layer{a}.value","from_off":0,"from_sizes":[4096],"from_steps":[1],"from_dtype":"float32"}},{{"from":"layer{b}.value","from_off":0,"from_sizes":[4096],"from_steps":[1],"from_dtype":"float32"}}]"#
            ),
        };
        write!(
            text,
            r#"{comma}{{"id":{id},"queue":"{queue}","semaphore":3,"desc":{{{source},{to}}}}}"#
        )
        .expect("to memory");
    }
    text + "]}"
}

fn package() -> Package {
    let mut header = Header::tenon("large", 1);
    header.set_build_version("bench");
    let mut writer = PackageWriter::in_memory(header).expect("memory");
    let graph = r#"{"nodes":[{"op":"tvm_op","name":"sg","inputs":[],"output_names":[],
        "attrs":{"func_name":"__kelf","kelf":"kelf-0.json"}}],"node_row_ptr":[0,0],
        "attrs":{"shape":["list_shape",[]],"storage_id":["list_int",[]],"dltype":["list_str",[]]}}"#;
    let kelf = r#"{"graphs":[{"definition":"sg00/def.json","name":"sg00"}],"target":"cayman"}"#;
    let members = [
        ("neff.json", graph),
        ("kelf-0.json", kelf),
        ("sg00/def.json", &definition()),
        ("sg00/SP.json", &engine()),
        ("sg00/SP.bin", ""),
    ];
    for (name, text) in members {
        writer.add(name, text.as_bytes()).expect("written");
    }
    let (bytes, _) = writer.finish().expect("written");
    Package::from_buffer(bytes, &Limits::default(), &Control::new()).expect("a package")
}

// Each sample has a new package, as a command that reads one.

#[divan::bench(sample_count = 5, sample_size = 1)]
fn parse(bencher: Bencher) {
    let bencher = bencher.with_inputs(package);
    bencher.bench_local_refs(|package| Structure::read(package).expect("read"));
}

#[divan::bench(sample_count = 5, sample_size = 1)]
fn parse_and_verify(bencher: Bencher) {
    bencher.with_inputs(package).bench_local_refs(|package| {
        let found = verify(package, &VerifyOptions::default(), &Control::new()).expect("checked");
        assert!(found.is_good(), "{found}");
    });
}
