//! Packages of netlists with modified programs: invalid attributes of kernels are refused when the package
//! is loaded, and executions of loaded packages end.

mod common;

use common::named;
use std::time::{Duration, Instant};
use tenon::inspect::Contents;
use tenon::neff::Limits;
use tenon::neff::Package;
use tenon::neff::WriteOptions;
use tenon::netlist::Job;
use tenon::netlist::Source;
use tenon::{Control, LoadOptions, Model, Result, RunOptions, Tensor};
use tenon_bef::{Attribute, EncodeOptions, Kernel, Module};
use tenon_tensor::BufferMut;

/// `y`, a ram of four slots, or a queue: what `x` has, written by an op.
const NETLIST: &str = "devices: {arch: grayskull}
queues:
  x: {type: queue, input: HOST, entries: 4, grid_size: [1, 1], t: 1, mblock: [1, 2], ublock: [1, 1],
      df: Float32, target_device: 0, loc: dram, dram: [[0, 0x10000000]]}
  y: {type: KIND, input: copy, entries: 4, grid_size: [1, 1], t: 1, mblock: [1, 2], ublock: [1, 1],
      df: Float32, target_device: 0, loc: dram, dram: [[0, 0x20000000]]}
graphs:
  g:
    target_device: 0
    input_count: 2
    copy: {type: nop, grid_loc: [0, 0], grid_size: [1, 1], inputs: [x], in_df: [Float32],
           acc_df: Float16, out_df: Float32, intermed_df: Float32, ublock_order: r, buf_size_mb: 2,
           math_fidelity: HiFi4, t: 1, mblock: [1, 2], ublock: [1, 1]}
programs:
  - run:
    - var: {$at: 0}
    - loop: 2
    - execute: {graph_name: g, queue_settings: {
        x: {prologue: false, epilogue: false, zero: false, rd_ptr_local: $at, rd_ptr_global: $at}}}
    - varinst: [$at, incwrap, 2, 8]
    - endloop
";

fn contents(kind: &str) -> Contents {
    let source = Source::new("copy.yaml", NETLIST.replace("KIND", kind));
    let compiled = Job::new().compile(&source).unwrap();
    compiled.contents().clone()
}

/// Loads a package with another program.
fn load(contents: &Contents, module: &Module) -> Result<Model> {
    let program = tenon_bef::encode(module, &EncodeOptions::default())?;
    let contents = Contents {
        program: BufferMut::copy_of(&program)?.freeze(),
        ..contents.clone()
    };
    let bytes = contents.to_bytes(WriteOptions::default(), &Control::new())?;
    let package = Package::from_buffer(bytes, &Limits::default(), &Control::new())?;
    Model::from_package(&package, &LoadOptions::default())
}

/// Runs on zeros; it must end, with any result.
fn run(model: &Model) {
    let inputs: Vec<(String, Tensor)> = model
        .inputs()
        .iter()
        .map(|input| {
            (
                input.name.clone(),
                Tensor::zeroed(input.ty.clone()).unwrap(),
            )
        })
        .collect();
    let given = named(&inputs);
    let control = Control::with_deadline(Instant::now() + Duration::from_secs(2));
    let options = RunOptions::new().control(control);
    let _ = model.run_with(&given, options);
}

fn kernels<'m>(module: &'m mut Module, name: &'m str) -> impl Iterator<Item = &'m mut Kernel> {
    let all = module.functions.iter_mut();
    all.flat_map(|function| &mut function.kernels)
        .filter(move |kernel| &*kernel.name == name)
}

/// Changes an attribute of all kernels of a name.
fn with(module: &Module, name: &str, attribute: &str, value: Attribute) -> Module {
    let mut module = module.clone();
    let mut changed = 0;
    for kernel in kernels(&mut module, name) {
        for (found, old) in &mut kernel.attributes {
            if &**found == attribute {
                *old = value.clone();
                changed += 1;
            }
        }
    }
    assert!(changed > 0, "no {name} has {attribute}");
    module
}

fn sizes(values: &[i32]) -> Attribute {
    Attribute::Array(values.iter().map(|&value| Attribute::I32(value)).collect())
}

#[test]
fn loads_and_stores_match_their_queue() {
    let refused = |contents: &Contents, module: &Module, why: &str| {
        let error = load(contents, module).map(drop).unwrap_err().to_string();
        assert!(
            error.contains(why) && error.contains("program.bef"),
            "{why}: {error}"
        );
    };
    let ram = contents("ram");
    let module = tenon::inspect::decode_program(&ram).unwrap();
    run(&load(&ram, &module).unwrap());
    for slots in [0, 1, 3, 5, 1 << 40, i64::MAX] {
        let changed = with(&module, "netlist.store", "slots", Attribute::I64(slots));
        refused(&ram, &changed, "does not hold entries of it");
    }
    let negative = with(&module, "netlist.store", "slots", Attribute::I64(-1));
    refused(&ram, &negative, "'slots'");
    for entries in [1, 3] {
        let fewer = with(&module, "netlist.queue", "entries", Attribute::I64(entries));
        refused(&ram, &fewer, "does not hold entries of it");
    }
    let none = with(
        &module,
        "netlist.store",
        "queue",
        Attribute::String("z".into()),
    );
    refused(&ram, &none, "no queue 'z' is declared before");
    for tiles in [[1, 2, 1], [2, 1, 2], [1, 1, 0]] {
        let other = with(&module, "netlist.load", "tiles", sizes(&tiles));
        refused(&ram, &other, "differ from it in shape");
    }
    let small = with(&module, "netlist.load", "tile", sizes(&[1, 1]));
    refused(&ram, &small, "differ from it in shape");

    let queue = contents("queue");
    let module = tenon::inspect::decode_program(&queue).unwrap();
    run(&load(&queue, &module).unwrap());
    let changed = with(&module, "netlist.store", "slots", Attribute::I64(4));
    refused(&queue, &changed, "does not hold entries of it");
}

/// Replaces an attribute, or the first element of an array; false if it is not numeric.
fn make_extreme(attribute: &mut Attribute, value: i64) -> bool {
    match attribute {
        Attribute::I32(number) => *number = value as i32,
        Attribute::I64(number) => *number = value,
        Attribute::F32(number) => *number = value as f32,
        Attribute::Array(values) | Attribute::Aggregate(values) => {
            return values
                .first_mut()
                .is_some_and(|number| make_extreme(number, value));
        }
        _ => return false,
    }
    true
}

/// Each numeric attribute of each kernel is replaced by extreme values.
#[test]
fn no_attribute_of_a_program_makes_it_endless() {
    for kind in ["ram", "queue"] {
        let contents = contents(kind);
        let module = tenon::inspect::decode_program(&contents).unwrap();
        let mut tried = 0;
        let functions = module.functions.iter().enumerate();
        let kernels = functions.flat_map(|(at, function)| {
            let kernels = function.kernels.iter().enumerate();
            kernels.map(move |(index, kernel)| (at, index, kernel))
        });
        for (function, index, kernel) in kernels {
            for (attribute, (name, _)) in kernel.attributes.iter().enumerate() {
                for value in [0, 1, -1, i32::MAX.into(), 1 << 40, i64::MAX, i64::MIN] {
                    let mut changed = module.clone();
                    let attributes = &mut changed.functions[function].kernels[index].attributes;
                    if !make_extreme(&mut attributes[attribute].1, value) {
                        continue;
                    }
                    tried += 1;
                    let begun = Instant::now();
                    if let Ok(model) = load(&contents, &changed) {
                        run(&model);
                    }
                    let took = begun.elapsed();
                    let is_short = took < Duration::from_secs(30);
                    assert!(is_short, "{} {name} = {value}: {took:?}", kernel.name);
                }
            }
        }
        assert!(tried > 100, "{tried}");
    }
}
