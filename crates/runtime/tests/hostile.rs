//! Packages that were damaged or made to harm: refused or executed, never a panic, never memory of
//! others.

mod common;

use common::*;
use proptest::prelude::*;
use std::sync::OnceLock;
use tenon_base::{Error, Result};
use tenon_bef::{Attribute, EncodeOptions, Module, encode};
use tenon_compiler::Compiled;
use tenon_neff::Role;
use tenon_runtime::{LoadOptions, Model, Runtime};
use tenon_tensor::{BufferMut, Tensor};

fn load_bytes(bytes: &[u8]) -> Result<Model> {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    Model::load(
        RUNTIME.get_or_init(runtime),
        &open(bytes)?,
        &LoadOptions::default(),
    )
}

fn execute(model: &Model) -> Result<Vec<Tensor>> {
    let zeros = model
        .inputs()
        .iter()
        .map(|input| Tensor::zeroed(input.ty.clone()));
    let zeros = zeros.collect::<Result<Vec<_>>>()?;
    let names = model.inputs().iter().map(|input| input.name.as_str());
    model.run(&names.zip(&zeros).collect::<Vec<_>>())
}

/// Loads the model with its program changed.
fn with_program(compiled: &Compiled, change: impl FnOnce(&mut Module)) -> Result<Model> {
    let mut module = compiled.module.clone();
    change(&mut module);
    let program = encode(&module, &EncodeOptions::default()).unwrap();
    let mut contents = compiled.contents.clone();
    contents.program = BufferMut::copy_of(&program).unwrap().freeze();
    load_bytes(&bytes(&contents))
}

/// An attribute of the first workload that applies `operator`.
fn attribute<'a>(module: &'a mut Module, operator: &str, name: &str) -> &'a mut Attribute {
    let wanted = ("operator".to_owned(), Attribute::String(operator.into()));
    let mut kernels = module.functions[0].kernels.iter_mut();
    let kernel = kernels
        .find(|kernel| kernel.attributes.contains(&wanted))
        .unwrap();
    &mut kernel
        .attributes
        .iter_mut()
        .find(|(own, _)| own == name)
        .unwrap()
        .1
}

fn set(module: &mut Module, operator: &str, name: &str, value: Attribute) {
    *attribute(module, operator, name) = value;
}

fn ids(list: &[i32]) -> Attribute {
    Attribute::Array(list.iter().copied().map(Attribute::I32).collect())
}

fn refusal(model: Result<Model>) -> Error {
    model.expect_err("must be refused")
}

#[test]
fn a_workload_that_writes_what_it_may_not_is_refused() {
    let compiled = compiled(movements());
    let role = |wanted: fn(&Role) -> bool| {
        let found = compiled
            .contents
            .variables
            .iter()
            .position(|variable| wanted(&variable.role));
        found.unwrap() as i32
    };
    let input = role(|role| matches!(role, Role::Input));
    let set_output = |value: i32| {
        with_program(&compiled, |module| {
            set(module, "Sigmoid", "outputs", ids(&[value]))
        })
    };
    for (value, expected) in [
        (input, "it is only read"),
        (9999, "no variable has the id 9999"),
        (-7, "'outputs' has a negative variable"),
        (-1, "output 0 is missing"),
    ] {
        let text = refusal(set_output(value)).to_string();
        assert!(text.contains(expected), "{text}");
        assert!(text.contains("node 'sigmoid'") || value == -7, "{text}");
    }
    let scratch = with_program(&compiled, |module| {
        set(module, "Sigmoid", "scratch", Attribute::I32(input));
    });
    assert!(refusal(scratch).to_string().contains("it is only read"));
    // The same bytes in another shape.
    let shape = with_program(&compiled, |module| {
        let turned = attribute(module, "Add", "outputs").clone();
        set(module, "Sigmoid", "inputs", turned);
    });
    let text = refusal(shape).to_string();
    assert!(
        text.contains("output 0 is not of the type that Sigmoid makes"),
        "{text}"
    );
    with_program(&compiled, |_| ()).unwrap();
}

#[test]
fn unknown_names_and_kinds_are_refused() {
    let compiled = compiled(movements());
    let change = |name: &str, value: Attribute| {
        refusal(with_program(&compiled, |module| {
            set(module, "Sigmoid", name, value)
        }))
        .to_string()
    };
    let text = change("operator", Attribute::String("NoSuch".into()));
    assert!(text.contains("operator 'NoSuch' is not known"), "{text}");
    let text = change("backend", Attribute::String("Gpu".into()));
    assert!(
        text.contains("backend 'Gpu' is not there: expected one of CpuAcc, CpuRef"),
        "{text}"
    );
    let text = change("inputs", Attribute::I32(0));
    assert!(
        text.contains("attribute 'inputs' has the wrong type"),
        "{text}"
    );
    let text = change("prepared", ids(&[-1, -1]));
    assert!(
        text.contains("'prepared' does not have an entry for each input"),
        "{text}"
    );
    let renamed = with_program(&compiled, |module| {
        module.functions[0].name = "other".into()
    });
    assert!(
        refusal(renamed)
            .to_string()
            .contains("there is no function @main")
    );
    let asynchronous = with_program(&compiled, |module| {
        module.functions[0].kind = tenon_bef::FunctionKind::Async;
    });
    assert!(
        refusal(asynchronous)
            .to_string()
            .contains("@main is asynchronous")
    );
}

#[test]
fn a_movement_that_reads_what_it_writes_is_refused() {
    let compiled = compiled(movements());
    let mut contents = compiled.contents.clone();
    let descriptor = &mut contents.movements[0].descriptors[0];
    descriptor.from[0] = descriptor.to.clone();
    let text = refusal(load_bytes(&bytes(&contents))).to_string();
    assert!(
        text.contains("a descriptor writes bytes that it reads"),
        "{text}"
    );
}

/// The packages whose bytes are damaged below.
fn packages() -> &'static [Vec<u8>] {
    static PACKAGES: OnceLock<Vec<Vec<u8>>> = OnceLock::new();
    PACKAGES.get_or_init(|| {
        let graphs = [movements(), perceptron(&[12, 9, 5])];
        graphs.map(|graph| bytes(&compiled(graph).contents)).into()
    })
}

/// Positions of the bytes that decide: JSON and program, with the tar headers between.
fn structure(package: &[u8]) -> std::ops::Range<usize> {
    let end = package
        .windows(20)
        .position(|window| window == b"sg00/constants/0.bin");
    0..end.unwrap_or(package.len())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn a_flipped_byte_never_panics(which in 0usize..2, place in any::<prop::sample::Index>(), value: u8) {
        let mut bytes = packages()[which].clone();
        let range = structure(&bytes);
        let at = place.index(range.len());
        bytes[at] = value;
        if let Ok(model) = load_bytes(&bytes) {
            let _ = execute(&model);
        }
    }

    #[test]
    fn a_cut_package_is_refused(which in 0usize..2, place in any::<prop::sample::Index>()) {
        let bytes = &packages()[which];
        let at = place.index(bytes.len());
        prop_assert!(load_bytes(&bytes[..at]).is_err());
    }

    #[test]
    fn damaged_programs_never_panic(
        which in 0usize..2,
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
    ) {
        let mut bytes = packages()[which].clone();
        let start = bytes.windows(3).position(|window| window == [0x0b, 0xef, 0x00]).unwrap();
        for (place, value) in changes {
            bytes[start + place.index(1500)] = value;
        }
        if let Ok(model) = load_bytes(&bytes) {
            let _ = execute(&model);
        }
    }
}
