//! Hand-made programs, bound and run: order, errors with locations, cancellation, rejected
//! programs.

use std::sync::{Arc, Mutex};
use tenon_base::{Control, Error, ErrorKind, Result};
use tenon_bef::{Attribute, Function, FunctionKind, Module, RegisterId};
use tenon_executor::{
    Frame, Kernel, KernelDef, Observer, Opaque, Program, Registry, Services, Signature, Site, Value,
};

/// `t.constant`: returns its attribute.
struct Constant(i32);
impl Kernel for Constant {
    fn run(&self, frame: &mut Frame<'_>) -> Result<()> {
        frame.set(0, Value::I32(self.0));
        Ok(())
    }
}

/// `t.sum`: adds any number of operands and the addend of the service.
struct Sum(Arc<i32>);
impl Kernel for Sum {
    fn run(&self, frame: &mut Frame<'_>) -> Result<()> {
        let mut sum = *self.0;
        for index in 0..frame.operands() {
            match frame.operand(index) {
                Value::I32(value) => sum += value,
                other => {
                    return Err(Error::new(ErrorKind::ExecutionFailed, "not a number")
                        .found(format_args!("{other:?}")));
                }
            }
        }
        frame.set(0, Value::I32(sum));
        Ok(())
    }
}

/// `t.share`: an opaque value.
struct Share;
impl Kernel for Share {
    fn run(&self, frame: &mut Frame<'_>) -> Result<()> {
        let shared = frame.context::<Arc<Mutex<u32>>>()?.clone();
        frame.set(0, Value::opaque(SharedCount(shared)));
        Ok(())
    }
}

struct SharedCount(#[allow(dead_code, reason = "its references are counted")] Arc<Mutex<u32>>);
impl Opaque for SharedCount {
    const TYPE: &'static str = "!t.share";
}

/// `t.fail`.
struct Fail;
impl Kernel for Fail {
    fn run(&self, _: &mut Frame<'_>) -> Result<()> {
        Err(Error::new(
            ErrorKind::ExecutionFailed,
            "something bad happened",
        ))
    }
}

/// `t.use`: takes an opaque value.
struct Use;
impl Kernel for Use {
    fn run(&self, frame: &mut Frame<'_>) -> Result<()> {
        assert!(matches!(frame.operand(0), Value::Opaque(_)));
        Ok(())
    }
}

/// `t.ordered`: records the order in which `finish_binding` is called.
struct Ordered(Arc<Mutex<Vec<i32>>>, i32);
impl Kernel for Ordered {
    fn run(&self, _: &mut Frame<'_>) -> Result<()> {
        Ok(())
    }
    fn finish_binding(&mut self) -> Result<()> {
        self.0.lock().unwrap().push(self.1);
        match self.1 % 1000 {
            999 => Err(Error::new(ErrorKind::Unsupported, "no place for it")),
            _ => Ok(()),
        }
    }
}

fn registry() -> Registry {
    let def = |name: &'static str, signature, bind: fn(&Site<'_>) -> Result<Box<dyn Kernel>>| {
        KernelDef::new(name, signature, bind)
    };
    let signature = |operands: &[&'static str], results: &[&'static str]| Signature {
        operands: operands.to_vec(),
        results: results.to_vec(),
        ..Signature::default()
    };
    let sum = Signature {
        variadic: true,
        ..signature(&[], &["i32"])
    };
    let mut registry = Registry::new();
    registry
        .register_all([
            def("t.constant", signature(&[], &["i32"]), |site| {
                Ok(Box::new(Constant(site.attributes().i32("value")?)))
            }),
            def("t.sum", sum, |site| Ok(Box::new(Sum(site.service()?)))),
            def("t.share", signature(&[], &["?"]), |_| Ok(Box::new(Share))),
            def("t.use", signature(&["?"], &[]), |_| Ok(Box::new(Use))),
            def("t.fail", signature(&[], &[]), |_| Ok(Box::new(Fail))),
            def("t.ordered", signature(&[], &[]), |site| {
                let value = site.attributes().i32("value")?;
                Ok(Box::new(Ordered(site.service()?, value)))
            }),
        ])
        .unwrap();
    registry
}

fn kernel(name: &str, operands: &[u32], results: &[u32]) -> tenon_bef::Kernel {
    tenon_bef::Kernel {
        name: name.into(),
        operands: operands
            .iter()
            .map(|&register| RegisterId(register))
            .collect(),
        results: results
            .iter()
            .map(|&register| RegisterId(register))
            .collect(),
        ..Default::default()
    }
}

fn constant(value: i32, result: u32) -> tenon_bef::Kernel {
    let attributes = vec![("value".into(), Attribute::I32(value))];
    tenon_bef::Kernel {
        attributes,
        ..kernel("t.constant", &[], &[result])
    }
}

/// A module of one function `main`.
fn module(registers: &[&str], results: &[u32], kernels: Vec<tenon_bef::Kernel>) -> Module {
    Module::from(Function {
        name: "main".into(),
        kind: FunctionKind::Sync,
        registers: registers.iter().map(|&ty| ty.into()).collect(),
        result_types: results
            .iter()
            .map(|&index| registers[index as usize].into())
            .collect(),
        results: results
            .iter()
            .map(|&register| RegisterId(register))
            .collect(),
        kernels,
        ..Function::default()
    })
}

fn decode(module: &Module) -> Result<Program> {
    Program::decode(module, &registry(), &Services::new().with(Arc::new(100i32)))
}

fn refusal(module: &Module) -> String {
    decode(module).err().expect("must be refused").to_string()
}

#[test]
fn values_reach_their_users_and_registers_are_reused() {
    let kernels = vec![
        constant(1, 0),
        constant(2, 1),
        kernel("t.sum", &[0, 1, 0], &[2]),
    ];
    let program = decode(&module(&["i32", "i32", "i32"], &[2], kernels)).unwrap();
    let main = program.function("main").unwrap();
    let mut registers = main.registers();
    for _ in 0..3 {
        main.run(&mut registers, &[], &(), &Control::new(), &mut ())
            .unwrap();
        assert_eq!(
            main.results(&registers).collect::<Vec<_>>(),
            [&Value::I32(104)]
        );
    }
    assert_eq!(
        program.function("other").err().unwrap().kind(),
        ErrorKind::NotFound
    );
}

#[test]
fn arguments_are_checked() {
    let mut module = module(&["i32", "i32"], &[1], vec![kernel("t.sum", &[0], &[1])]);
    module.functions[0].arguments = 1;
    let program = decode(&module).unwrap();
    let main = program.function("main").unwrap();
    let mut registers = main.registers();
    let mut run =
        |arguments: &[Value]| main.run(&mut registers, arguments, &(), &Control::new(), &mut ());
    run(&[Value::I32(5)]).unwrap();
    assert_eq!(
        run(&[]).unwrap_err().to_string(),
        "wrong number of arguments of @main: expected 1, found 0"
    );
    assert_eq!(
        run(&[Value::F32(1.0)]).unwrap_err().to_string(),
        "wrong type of argument 0 of @main: expected i32, found f32"
    );
}

#[test]
fn an_opaque_value_is_dropped_after_its_last_use() {
    struct Counts<'a>(&'a Arc<Mutex<u32>>, Vec<usize>);
    impl Observer for Counts<'_> {
        fn start(&mut self, _: usize) {
            self.1.push(Arc::strong_count(self.0));
        }
        fn end(&mut self, _: usize) -> Result<()> {
            Ok(())
        }
    }
    let kernels = vec![
        kernel("t.share", &[], &[0]),
        kernel("t.use", &[0], &[]),
        constant(1, 1),
    ];
    let program = decode(&module(&["!t.share", "i32"], &[1], kernels)).unwrap();
    let main = program.function("main").unwrap();
    let shared = Arc::new(Mutex::new(0));
    let context = shared.clone();
    let mut counts = Counts(&shared, vec![]);
    main.run(
        &mut main.registers(),
        &[],
        &context,
        &Control::new(),
        &mut counts,
    )
    .unwrap();
    assert_eq!(counts.1, [2, 3, 2]);
}

#[test]
fn the_first_error_ends_the_run_with_its_location() {
    let mut fail = kernel("t.fail", &[], &[]);
    fail.location = tenon_bef::KernelLocation::FileLineCol {
        file: "a.mlir".into(),
        line: 4,
        column: 7,
    };
    let program = decode(&module(&["i32"], &[], vec![fail, constant(1, 0)])).unwrap();
    let main = program.function("main").unwrap();
    let mut registers = main.registers();
    let error = main
        .run(&mut registers, &[], &(), &Control::new(), &mut ())
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        "a.mlir:4:7: kernel 't.fail': something bad happened"
    );
    assert_eq!(error.kind(), ErrorKind::ExecutionFailed);
}

#[test]
fn a_cancelled_run_stops_before_its_next_kernel() {
    struct CancelAt(usize, Control, usize);
    impl Observer for CancelAt {
        fn start(&mut self, index: usize) {
            self.2 += 1;
            if index == self.0 {
                self.1.cancel();
            }
        }
        fn end(&mut self, _: usize) -> Result<()> {
            Ok(())
        }
    }
    let kernels = (0..5).map(|register| constant(1, register)).collect();
    let program = decode(&module(&["i32"; 5], &[], kernels)).unwrap();
    let main = program.function("main").unwrap();
    let control = Control::new();
    let mut observer = CancelAt(2, control.clone(), 0);
    let error = main
        .run(&mut main.registers(), &[], &(), &control, &mut observer)
        .unwrap_err();
    assert_eq!((error.kind(), observer.2), (ErrorKind::Cancelled, 3));
}

#[test]
fn an_error_of_the_observer_ends_the_run_after_that_kernel() {
    struct StopAt(usize, Vec<usize>);
    impl Observer for StopAt {
        fn start(&mut self, index: usize) {
            self.1.push(index);
        }
        fn end(&mut self, index: usize) -> Result<()> {
            if index == self.0 {
                Err(Error::new(ErrorKind::Cancelled, "seen enough"))
            } else {
                Ok(())
            }
        }
    }
    let kernels = (0..5).map(|register| constant(1, register)).collect();
    let program = decode(&module(&["i32"; 5], &[], kernels)).unwrap();
    let main = program.function("main").unwrap();
    let mut observer = StopAt(2, Vec::new());
    let (mut registers, control) = (main.registers(), Control::new());
    let error = main.run(&mut registers, &[], &(), &control, &mut observer);
    assert_eq!(error.unwrap_err().to_string(), "seen enough");
    assert_eq!(observer.1, [0, 1, 2]);
}

#[test]
fn a_kernel_without_its_context_is_an_error() {
    let program = decode(&module(
        &["!t.share"],
        &[],
        vec![kernel("t.share", &[], &[0])],
    ))
    .unwrap();
    let main = program.function("main").unwrap();
    let error = main
        .run(&mut main.registers(), &[], &(), &Control::new(), &mut ())
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Internal);
}

#[test]
fn all_problems_of_a_program_are_reported_together() {
    let kernels = vec![
        kernel("t.unknown", &[], &[]),
        kernel("t.constant", &[], &[0]),
        kernel("t.constant", &[], &[1]),
    ];
    assert_eq!(
        refusal(&module(&["i32", "f32"], &[], kernels)),
        "@main: kernel 0 't.unknown': unknown kernel name 't.unknown'\n\
         @main: kernel 1 't.constant': attribute 'value' is missing\n\
         @main: kernel 2 't.constant': wrong type of result 0: expected i32, found f32"
    );
}

#[test]
fn a_malformed_module_is_rejected() {
    let twice = module(&["i32"], &[0], vec![constant(1, 0), constant(2, 0)]);
    assert!(refusal(&twice).contains("defines %0 a second time"));
    let early = module(
        &["i32", "i32"],
        &[],
        vec![kernel("t.sum", &[1], &[0]), constant(2, 1)],
    );
    assert!(refusal(&early).contains("uses %1 before its definition"));
}

#[test]
fn a_name_is_registered_once() {
    let mut registry = registry();
    let again = registry.find("t.sum").unwrap().clone();
    assert_eq!(
        registry.register(again).unwrap_err().kind(),
        ErrorKind::InvalidArgument
    );
    assert_eq!(registry.names()[0], "t.constant");
}

/// Kernels are bound by several threads, and finished in the order of the function.
#[test]
fn kernels_finish_binding_in_order() {
    let after = |value| tenon_bef::Kernel {
        attributes: vec![("value".into(), Attribute::I32(value))],
        ..kernel("t.ordered", &[], &[])
    };
    let settled = Arc::new(Mutex::new(Vec::<i32>::new()));
    let services = Services::new().with(settled.clone());
    let decode = |count| {
        let module = module(&[], &[], (0..count).map(after).collect());
        Program::decode(&module, &registry(), &services)
    };
    decode(900).unwrap();
    assert_eq!(*settled.lock().unwrap(), Vec::from_iter(0..900));
    let refused = decode(2000).err().unwrap();
    assert_eq!(refused.to_string().matches("no place for it").count(), 2);
}
