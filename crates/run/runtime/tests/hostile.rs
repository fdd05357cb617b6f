//! Damaged and malicious packages: rejected or executed, without panics or accesses outside of
//! their memory.

mod common;

use common::*;
use proptest::prelude::*;
use std::sync::OnceLock;
use tenon_base::{Error, ErrorKind, Result};
use tenon_bef::{Attribute, EncodeOptions, Module, encode};
use tenon_compiler::Compiled;
use tenon_neff::{PreparedForm, Role};
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
    let expected = (
        tenon_bef::Name::from("operator"),
        Attribute::String(operator.into()),
    );
    let mut kernels = module.functions[0].kernels.iter_mut();
    let kernel = kernels
        .find(|kernel| kernel.attributes.contains(&expected))
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
fn a_workload_that_writes_read_only_memory_is_rejected() {
    let compiled = compiled(movements());
    let role = |matches: fn(&Role) -> bool| {
        let found = compiled
            .contents
            .variables
            .iter()
            .position(|variable| matches(&variable.role));
        found.unwrap() as i32
    };
    let input = role(|role| matches!(role, Role::Input));
    let set_output = |value: i32| {
        with_program(&compiled, |module| {
            set(module, "Sigmoid", "outputs", ids(&[value]))
        })
    };
    for (value, expected) in [
        (input, "it is read-only"),
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
    assert!(refusal(scratch).to_string().contains("it is read-only"));
    // The same bytes in another shape.
    let shape = with_program(&compiled, |module| {
        let turned = attribute(module, "Add", "outputs").clone();
        set(module, "Sigmoid", "inputs", turned);
    });
    let text = refusal(shape).to_string();
    assert!(
        text.contains("the type of output 0 is not the result type of Sigmoid"),
        "{text}"
    );
    with_program(&compiled, |_| ()).unwrap();
}

#[test]
fn unknown_names_and_kinds_are_rejected() {
    let compiled = compiled(movements());
    let change = |name: &str, value: Attribute| {
        refusal(with_program(&compiled, |module| {
            set(module, "Sigmoid", name, value)
        }))
        .to_string()
    };
    let text = change("operator", Attribute::String("NoSuch".into()));
    assert!(text.contains("unknown operator 'NoSuch'"), "{text}");
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
    let text = refusal(asynchronous).to_string();
    // Without chains the kernels are unordered.
    assert!(text.contains("no operand orders them"), "{text}");
}

/// A package whose weights are stored only in prepared form.
fn prepared_only() -> Compiled {
    let registry = tenon_builtin::registry();
    let options = tenon_compiler::Options::new(&registry);
    tenon_compiler::compile(perceptron(&[12, 9, 5]), &options).unwrap()
}

/// The same with modified descriptions of prepared forms.
fn with_forms(compiled: &Compiled, change: impl Fn(&mut PreparedForm)) -> Compiled {
    let mut compiled = compiled.clone();
    let constants = compiled.contents.tenon.constants.iter_mut();
    constants
        .filter_map(|info| info.prepared.as_mut())
        .for_each(change);
    compiled
}

#[test]
fn an_unknown_layout_is_rejected_without_plain_constants() {
    let compiled = prepared_only();
    let variables = compiled.contents.variables.iter();
    let absent = variables.filter(|variable| matches!(variable.role, Role::Absent));
    assert_eq!(absent.count(), 2);
    execute(&with_program(&compiled, |_| ()).unwrap()).unwrap();

    let foreign = with_forms(&compiled, |form| form.layout = "panels99:f32".into());
    let error = refusal(with_program(&foreign, |_| ()));
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    let text = error.to_string();
    for constant in ["w0", "w1"] {
        let sentence = format!(
            "constant '{constant}' is stored only in the layout 'panels99:f32', which backend CpuAcc \
             cannot use: "
        );
        assert!(text.contains(&sentence), "{text}");
    }
    let help = "compile the model with --keep-plain";
    assert!(text.contains(help), "{text}");

    let mut short = compiled.clone();
    let variables = short.contents.variables.iter_mut();
    for variable in variables.filter(|variable| variable.name.ends_with(".prepared")) {
        variable.size -= 64;
        if let Role::Constant(buffer) = &mut variable.role {
            *buffer = buffer.slice(64..buffer.len()).unwrap();
        }
    }
    let error = refusal(with_program(&short, |_| ()));
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");

    // With a plain form, the constant is prepared at load.
    let registry = tenon_builtin::registry();
    let mut options = tenon_compiler::Options::new(&registry);
    options.keep_plain = true;
    let whole = tenon_compiler::compile(perceptron(&[12, 9, 5]), &options).unwrap();
    let foreign = with_forms(&whole, |form| form.layout = "panels99:f32".into());
    let outputs = [&whole, &foreign]
        .map(|compiled| execute(&with_program(compiled, |_| ()).unwrap()).unwrap());
    assert_eq!(outputs[0], outputs[1]);
}

#[test]
fn the_form_of_an_absent_constant_must_be_prepared_from_it() {
    let compiled = prepared_only();
    let refused =
        |change: &dyn Fn(&mut Module)| refusal(with_program(&compiled, change)).to_string();
    let other = with_forms(&compiled, |form| form.backend = "Npu".into());
    let text = refusal(with_program(&other, |_| ())).to_string();
    assert!(text.contains("prepared for CpuAcc"), "{text}");

    let swapped = refused(&|module| {
        let second = &module.functions[0].kernels[1].attributes;
        let form = second.iter().find(|(name, _)| name == "prepared");
        let form = form.unwrap().1.clone();
        set(module, "tenon.MatMul", "prepared", form);
    });
    assert!(swapped.contains("is not a form of variable"), "{swapped}");
    let unnamed = refused(&|module| {
        set(module, "tenon.MatMul", "prepared", ids(&[-1, -1, -1]));
    });
    let expected = "the plain form of constant 'w0' is absent";
    assert!(unnamed.contains(expected), "{unnamed}");

    let variables = &compiled.contents.variables;
    let id = variables
        .iter()
        .position(|v| matches!(v.role, Role::Absent));
    let written = refused(&|module| {
        set(
            module,
            "tenon.MatMul",
            "outputs",
            ids(&[id.unwrap() as i32]),
        );
    });
    let expected = "its plain bytes are absent";
    assert!(written.contains(expected), "{written}");
}

#[test]
fn a_backend_that_reads_an_absent_plain_form_is_rejected() {
    let compiled = with_forms(&prepared_only(), |form| form.backend = "CpuRef".into());
    let error = refusal(with_program(&compiled, |module| {
        for kernel in &mut module.functions[0].kernels {
            let mut attributes = kernel.attributes.iter_mut();
            let backend = attributes.find(|(name, _)| name == "backend").unwrap();
            backend.1 = Attribute::String("CpuRef".into());
        }
    }));
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
    let text = error.to_string();
    assert!(
        text.contains("backend CpuRef cannot use: it reads the plain form"),
        "{text}"
    );
}

#[test]
fn a_movement_that_overlaps_its_target_is_rejected() {
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
        let mut packages: Vec<_> = graphs.map(|graph| bytes(&compiled(graph).contents)).into();
        packages.push(bytes(&prepared_only().contents));
        packages
    })
}

/// Positions of structural bytes: JSON and program, with the tar headers between.
fn structure(package: &[u8]) -> std::ops::Range<usize> {
    let end = package
        .windows(15)
        .position(|window| window == b"sg00/constants/");
    0..end.unwrap_or(package.len())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(ProptestConfig::default().cases.max(400)))]

    #[test]
    fn a_flipped_byte_never_panics(which in 0usize..3, place in any::<prop::sample::Index>(), value: u8) {
        let mut bytes = packages()[which].clone();
        let range = structure(&bytes);
        let at = place.index(range.len());
        bytes[at] = value;
        if let Ok(model) = load_bytes(&bytes) {
            let _ = execute(&model);
        }
    }

    #[test]
    fn a_cut_package_is_refused(which in 0usize..3, place in any::<prop::sample::Index>()) {
        let bytes = &packages()[which];
        let at = place.index(bytes.len());
        prop_assert!(load_bytes(&bytes[..at]).is_err());
    }

    #[test]
    fn damaged_programs_never_panic(
        which in 0usize..3,
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
