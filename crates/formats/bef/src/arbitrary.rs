//! Random valid Modules for property tests, of every form that the format supports.

use crate::text::kernel_problems;
use crate::{
    Attribute, DType, Dense, Function, FunctionBuilder, FunctionId, FunctionKind, KernelLocation,
    Module, RegisterId,
};
use proptest::collection::{btree_map, vec};
use proptest::prelude::*;
use std::collections::{BTreeMap, HashSet};

const TYPES: &[&str] = &[
    "i32",
    "i1",
    "f32",
    "!tfrt.chain",
    "!tfrt_tensor.tensor",
    "tensor<2x?xf32>",
    "(i32, f32) -> i1",
    "!my.type<[1, \"a\"]>",
];

const KERNELS: &[&str] = &[
    "tenon.workload",
    "tfrt.add.i32",
    "tfrt.constant.i32",
    "tfrt.constant.f32",
    "tfrt.print.i32",
    "tfrt.merge.chains",
    "tfrt.new.chain",
    "tfrt.call",
    "tfrt.cond",
    "tfrt.case",
    "tfrt.while",
    "tfrt.once",
    "tfrt.if",
    "tfrt.repeat.i32",
    "odd \"name\"\n\\",
];

/// One kernel before its operands are known.
#[derive(Debug, Clone)]
struct KernelPlan {
    name: &'static str,
    operands: Vec<usize>,
    attributes: BTreeMap<String, Attribute>,
    references: BTreeMap<String, Vec<usize>>,
    results: Vec<&'static str>,
    regions: Vec<FunctionPlan>,
    location: KernelLocation,
}

/// One function before its registers are numbered.
#[derive(Debug, Clone)]
struct FunctionPlan {
    sync: bool,
    arguments: Vec<&'static str>,
    kernels: Vec<KernelPlan>,
    results: Vec<usize>,
    location: KernelLocation,
}

fn text() -> impl Strategy<Value = String> {
    prop_oneof!["[a-z]{0,6}", "[ -~]{0,8}", "[^\0]{0,4}"]
}

pub(crate) fn location() -> impl Strategy<Value = KernelLocation> {
    let leaf = prop_oneof![
        Just(KernelLocation::Unknown),
        (text(), 0..300u32, any::<u32>()).prop_map(|(file, line, column)| {
            KernelLocation::FileLineCol {
                file: file.into(),
                line,
                column,
            }
        }),
    ];
    leaf.prop_recursive(3, 8, 3, |inner| {
        prop_oneof![
            (text(), inner.clone()).prop_map(|(name, child)| KernelLocation::Name {
                name: name.into(),
                child: Box::new(child)
            }),
            (inner.clone(), inner.clone()).prop_map(|(callee, caller)| {
                KernelLocation::CallSite {
                    callee: Box::new(callee),
                    caller: Box::new(caller),
                }
            }),
            vec(inner, 0..3).prop_map(KernelLocation::Fused),
        ]
    })
}

fn number() -> impl Strategy<Value = Attribute> {
    prop_oneof![
        any::<bool>().prop_map(Attribute::I1),
        any::<i8>().prop_map(Attribute::I8),
        any::<i16>().prop_map(Attribute::I16),
        any::<i32>().prop_map(Attribute::I32),
        any::<i64>().prop_map(Attribute::I64),
        any::<u8>().prop_map(Attribute::UI8),
        any::<u16>().prop_map(Attribute::UI16),
        any::<u32>().prop_map(Attribute::UI32),
        any::<u64>().prop_map(Attribute::UI64),
        // NaN is not equal to itself; a separate test covers it.
        any::<f32>()
            .prop_filter("NaN", |x| !x.is_nan())
            .prop_map(Attribute::F32),
        any::<f64>()
            .prop_filter("NaN", |x| !x.is_nan())
            .prop_map(Attribute::F64),
        any::<u16>().prop_map(Attribute::F16),
        any::<u16>().prop_map(Attribute::BF16),
        dtype().prop_map(Attribute::Type),
    ]
}

fn dtype() -> impl Strategy<Value = DType> {
    (1..DType::ALL.len()).prop_map(|index| DType::ALL[index])
}

fn dense() -> impl Strategy<Value = Attribute> {
    let sized: Vec<DType> = DType::ALL
        .iter()
        .copied()
        .filter(|t| t.size().is_some())
        .collect();
    (
        proptest::sample::select(sized),
        vec(0..4i64, 0..4),
        any::<bool>(),
    )
        .prop_perturb(|(dtype, shape, splat), mut random| {
            let count = shape.iter().product::<i64>() as usize;
            let size = dtype.size().unwrap_or(0);
            let mut element = || match dtype {
                DType::I1 => vec![random.random::<u8>() & 1],
                _ => (0..size).map(|_| random.random()).collect::<Vec<u8>>(),
            };
            let data = if splat {
                element().repeat(count)
            } else {
                (0..count).flat_map(|_| element()).collect()
            };
            Attribute::Dense(Dense { dtype, shape, data })
        })
}

pub(crate) fn attribute() -> impl Strategy<Value = Attribute> {
    let leaf = prop_oneof![
        4 => number(),
        2 => text().prop_map(Attribute::from),
        2 => vec(any::<i32>(), 0..4).prop_map(Attribute::from),
        1 => vec(any::<i64>(), 0..4).prop_map(Attribute::from),
        1 => vec(any::<bool>(), 0..4).prop_map(Attribute::from),
        1 => vec(dtype(), 0..4).prop_map(Attribute::from),
        1 => proptest::option::of(vec(proptest::option::of(0..100i64), 0..4))
            .prop_map(Attribute::Shape),
        1 => dense(),
        1 => Just(Attribute::Symbol {
            path: vec!["kernel0".into(), "main".into()],
            module: "module @kernel0 attributes {tfrt.compiled} {\n  any.op \"}\"\n}".into(),
        }),
        1 => vec("[a-z$. ]{1,4}", 1..4).prop_map(|path| Attribute::Symbol {
            path,
            module: "\"builtin.module\"() ({\n  \"a.b\"() : () -> ()\n}) : () -> ()".into(),
        }),
    ];
    leaf.prop_recursive(3, 12, 4, |inner| vec(inner, 0..4).prop_map(Attribute::list))
}

fn attribute_name() -> impl Strategy<Value = String> {
    prop_oneof![
        "[a-z][a-z_.0-9]{0,5}",
        Just("value".into()),
        Just("odd name".into())
    ]
}

fn types() -> impl Strategy<Value = Vec<&'static str>> {
    vec(proptest::sample::select(TYPES), 0..3)
}

fn kernel(regions: BoxedStrategy<Vec<FunctionPlan>>) -> impl Strategy<Value = KernelPlan> {
    (
        proptest::sample::select(KERNELS),
        vec(any::<usize>(), 0..4),
        btree_map(attribute_name(), attribute(), 0..3),
        btree_map(
            "[a-c]_fn|callee|branches\\[\\]",
            vec(any::<usize>(), 1..3),
            0..2,
        ),
        types(),
        regions,
        location(),
    )
        .prop_map(
            |(name, operands, attributes, references, results, regions, location)| KernelPlan {
                name,
                operands,
                attributes,
                references,
                results,
                regions,
                location,
            },
        )
}

fn function(regions: BoxedStrategy<Vec<FunctionPlan>>) -> impl Strategy<Value = FunctionPlan> {
    (
        any::<bool>(),
        types(),
        vec(kernel(regions), 0..6),
        vec(any::<usize>(), 0..3),
        location(),
    )
        .prop_map(
            |(sync, arguments, kernels, results, location)| FunctionPlan {
                sync,
                arguments,
                kernels,
                results,
                location,
            },
        )
}

/// A valid module.
pub(crate) fn module() -> impl Strategy<Value = Module> {
    let leaf = vec(function(Just(Vec::new()).boxed()), 0..2).boxed();
    let inner = prop_oneof![3 => Just(Vec::new()), 1 => leaf].boxed();
    let outer = prop_oneof![3 => Just(Vec::new()), 1 => vec(function(inner), 0..3)].boxed();
    (vec(function(outer), 0..4), vec((types(), types()), 0..2)).prop_map(|(functions, natives)| {
        let mut module = Module::new();
        for (index, (arguments, results)) in natives.into_iter().enumerate() {
            module.add(Function::native(
                format!("native.{index}"),
                arguments,
                results,
            ));
        }
        // References may target any named function, known only when all are added.
        for (index, plan) in functions.into_iter().enumerate() {
            let function = build(&mut module, plan, format!("f {index}"), None);
            module.add(function);
        }
        resolve(module)
    })
}

/// A function whose regions have been added: those of a kernel adjacent, after their own nested
/// regions. A region has the location of its kernel, as in text.
fn build(
    module: &mut Module,
    plan: FunctionPlan,
    name: String,
    outer: Option<KernelLocation>,
) -> Function {
    let mut regions: Vec<Vec<FunctionId>> = Vec::new();
    for kernel in &plan.kernels {
        let mut built = Vec::new();
        for region in kernel.regions.iter().cloned() {
            built.push(build(
                module,
                region,
                String::new(),
                Some(kernel.location.clone()),
            ));
        }
        regions.push(built.into_iter().map(|region| module.add(region)).collect());
    }
    let sync = plan.sync && !name.is_empty();
    let kind = if sync {
        FunctionKind::Sync
    } else {
        FunctionKind::Async
    };
    let mut builder = FunctionBuilder::new(name, kind);
    builder.location(outer.unwrap_or(plan.location));
    let mut made: Vec<RegisterId> = plan
        .arguments
        .iter()
        .map(|argument| builder.argument(*argument))
        .collect();
    for (kernel, regions) in plan.kernels.into_iter().zip(regions) {
        let chosen = kernel
            .operands
            .iter()
            .filter_map(|pick| choose(&made, *pick));
        let mut next = builder
            .kernel(kernel.name)
            .operands(chosen)
            .attributes(kernel.attributes.clone());
        for (name, picks) in &kernel.references {
            let base = name.trim_end_matches("[]");
            if kernel.attributes.contains_key(base) {
                continue;
            }
            let count = if base == name { 1 } else { picks.len() };
            for pick in &picks[..count] {
                next = next.function(name.clone(), FunctionId((*pick % (1 << 30)) as u32));
            }
        }
        next = regions
            .into_iter()
            .fold(next, |next, region| next.region(region));
        next = next.location(kernel.location);
        match kernel.results[..] {
            [] => next.done(),
            [one] => made.push(next.result(one)),
            [one, two, ..] => made.extend(next.results([one, two])),
        }
    }
    let mut seen = HashSet::new();
    let allowed: Vec<RegisterId> = made
        .into_iter()
        .filter(|register| !sync || register.0 as usize >= plan.arguments.len())
        .collect();
    let results = plan
        .results
        .iter()
        .filter_map(|pick| choose(&allowed, *pick));
    let results: Vec<RegisterId> = results
        .filter(|register| !sync || seen.insert(*register))
        .collect();
    builder.returns(results)
}

fn choose(registers: &[RegisterId], pick: usize) -> Option<RegisterId> {
    registers.get(pick.checked_rem(registers.len())?).copied()
}

/// Resolves the random picks of references to named functions.
fn resolve(mut module: Module) -> Module {
    let named: Vec<FunctionId> = (0u32..)
        .zip(&module.functions)
        .filter(|(_, function)| !function.is_region())
        .map(|(id, _)| FunctionId(id))
        .collect();
    // A kernel that violates the rules of its operation is renamed to an unknown dialect.
    let wrong: Vec<(usize, usize)> = (module.functions.iter().enumerate())
        .flat_map(|(at, function)| {
            let kernels = function.kernels.iter().enumerate();
            let module = &module;
            kernels
                .filter(|(_, kernel)| {
                    kernel.name == "tfrt.call"
                        || !kernel_problems(&module.functions, function, kernel).is_empty()
                })
                .map(move |(index, _)| (at, index))
        })
        .collect();
    for (at, index) in wrong {
        let name = &mut module.functions[at].kernels[index].name;
        *name = format!("any.{name}").into();
    }
    for kernel in module
        .functions
        .iter_mut()
        .flat_map(|function| &mut function.kernels)
    {
        for (_, id) in kernel
            .functions
            .iter_mut()
            .filter(|(name, _)| !name.is_empty())
        {
            *id = named[id.0 as usize % named.len()];
        }
    }
    module
}
