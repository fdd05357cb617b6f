//! Each problem separately, and all of them together.

use super::*;
use crate::{COST_ATTRIBUTE, FunctionBuilder, KernelLocation, Name};

/// A valid module: a region, a sync function, and a function that contains the region and
/// references the sync function.
fn valid() -> Module {
    let mut module = Module::new();
    let region = module.add(FunctionBuilder::region().returns([]));
    let mut first = FunctionBuilder::new("first", FunctionKind::Sync);
    let one = first.kernel("one").attribute("value", 1i32).result("i32");
    let first = module.add(first.returns([one]));
    let mut second = FunctionBuilder::new("second", FunctionKind::Async);
    let argument = second.argument("i32");
    let kernel = second
        .kernel("k")
        .operands([argument])
        .function("f", first)
        .region(region);
    let made = kernel.result("f32");
    module.add(second.returns([made]));
    module
}

fn problems(change: impl FnOnce(&mut Module)) -> Vec<String> {
    let mut module = valid();
    change(&mut module);
    let Err(error) = verify(&module) else {
        return Vec::new();
    };
    error.to_string().lines().map(str::to_owned).collect()
}

fn kernel(module: &mut Module) -> &mut Kernel {
    &mut module.functions[2].kernels[0]
}

#[test]
fn a_valid_module_passes() {
    assert_eq!(problems(|_| {}), [""; 0]);
}

#[test]
fn each_problem_has_its_sentence_and_place() {
    let one = |expected: &str, change: &dyn Fn(&mut Module)| {
        assert_eq!(problems(change), [expected]);
    };
    one(
        "@second: kernel 0 'k': uses %1 before its definition",
        &|m| {
            kernel(m).operands = [RegisterId(1)].into_iter().collect();
        },
    );
    one(
        "@second: kernel 0 'k': %9 is not one of the 2 registers",
        &|m| {
            kernel(m).operands = [RegisterId(9)].into_iter().collect();
        },
    );
    one("@second: kernel 0 'k': defines %1 a second time", &|m| {
        kernel(m).results = [RegisterId(1); 2].into_iter().collect();
    });
    one("@second: %1 is never defined", &|m| {
        kernel(m).results.clear()
    });
    one("@second: returned %9 is not one of the 2 registers", &|m| {
        m.functions[2].results = vec![RegisterId(9)];
    });
    one("@second: kernel 0 'k': function 9 does not exist", &|m| {
        kernel(m).functions[0].1 = FunctionId(9);
    });
    one(
        "@second: kernel 0 'k': region 0 belongs to two kernels",
        &|m| {
            kernel(m).functions.push((Name::default(), FunctionId(0)));
        },
    );
    one("region 0: a region that belongs to no kernel", &|m| {
        kernel(m).functions.pop();
    });
    one(
        "@second: kernel 0 'k': a region has no name, and a function reference has one",
        &|m| {
            kernel(m).functions[0].0 = Name::default();
        },
    );
    one("@second: kernel 0 '': a kernel without a name", &|m| {
        kernel(m).name = Name::default()
    });
    one(
        "@second: kernel 0 'k': attribute 'a' is not in order of names",
        &|m| {
            kernel(m).attributes = vec![("b".into(), 1i32.into()), ("a".into(), 1i32.into())];
        },
    );
    one("@second: kernel 0 'k': attribute 'a' occurs twice", &|m| {
        kernel(m).attributes = vec![("a".into(), 1i32.into()), ("a".into(), 2i32.into())];
    });
    one("@second: kernel 0 'k': attribute 'f' occurs twice", &|m| {
        kernel(m).attributes = vec![("f".into(), 1i32.into())];
    });
    one(
        "@second: kernel 0 'k': op cost value must be larger than 0",
        &|m| {
            kernel(m).attributes = vec![(COST_ATTRIBUTE.into(), 0i64.into())];
        },
    );
    one("@second: 'i 32' is not a type", &|m| {
        m.functions[2].registers[0] = "i 32".into()
    });
    one("@first: redefinition of this symbol", &|m| {
        m.functions[2].name = "first".into()
    });
    one(
        "@first: return value 1 is duplicated in a sync function",
        &|m| {
            m.functions[1].results = vec![RegisterId(0); 2];
            m.functions[1].result_types = vec!["i32".into(); 2];
        },
    );
    one(
        "@second: type of return operand 0 ('i32') doesn't match function result type ('f32')",
        &|m| m.functions[2].results = vec![RegisterId(0)],
    );
    one(
        "@second: kernel 0 'k': a location with a NUL character",
        &|m| {
            kernel(m).location = KernelLocation::Name {
                name: "k".into(),
                child: Box::new(KernelLocation::FileLineCol {
                    file: "nul\0".into(),
                    line: 1,
                    column: 1,
                }),
            };
        },
    );
    one("@second: 3 arguments but 2 registers", &|m| {
        m.functions[2].arguments = 3
    });
}

#[test]
fn all_problems_are_reported_together() {
    let found = problems(|m| {
        kernel(m).operands = [RegisterId(9)].into_iter().collect();
        m.functions[1].kernels[0].name = "nul\0".into();
    });
    assert_eq!(
        found,
        [
            "@first: kernel 0 'nul\\0': a kernel name with a NUL character",
            "@second: kernel 0 'k': %9 is not one of the 2 registers",
        ]
    );
}

#[test]
fn a_region_may_not_hold_itself() {
    let found = problems(|m| {
        let holder = kernel(m).clone();
        m.functions[0].registers = vec!["i32".into(), "f32".into()];
        m.functions[0].arguments = 1;
        m.functions[0].kernels = vec![holder];
    });
    let expected = "region 0: kernel 0 'k': region 0 does not precede its function";
    assert_eq!(found, [expected]);
}
