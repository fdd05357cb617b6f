//! The rules of descriptors: of the stored form, and, by `tenon-dma`, of accesses inside variables.

use super::{Check, Part};
use crate::descriptor::JsonAccess;
use crate::{JsonDescriptor, KeyPath, Rule, rule};
use std::fmt::Arguments;
use tenon_base::{Error, Result};
use tenon_dma::{Descriptor, MAX_DIMENSIONS, MAX_SOURCES, VariableId};

/// The data types of the format (neff 2.16).
const DTYPES: [&str; 15] = [
    "float8e3", "float8e4", "float8e5", "float16", "float32", "float32r", "bfloat16", "uint8",
    "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64",
];

const OPERATIONS: [&str; 7] = ["copy", "cast", "add", "min", "max", "fma", "transpose"];

/// The check of one descriptor, and its place in the member.
struct DescriptorCheck<'a, 'c> {
    state: &'a mut Check<'c>,
    member: &'a str,
    path: &'a dyn Fn() -> KeyPath,
    has_errors: bool,
    /// The executable form, if it was not taken yet.
    parsed: Option<Result<Descriptor>>,
}

impl DescriptorCheck<'_, '_> {
    fn report(&mut self, rule: &'static Rule, key: &str, detail: impl Into<String>) {
        self.has_errors |= rule.severity == crate::Severity::Error;
        let path = if key.is_empty() {
            (self.path)()
        } else {
            extend((self.path)(), key)
        };
        self.state.report(rule, self.member, path, detail);
    }
}

/// `path` extended by the keys of a location of `tenon-dma` (`from_arr[2].from_off`).
fn extend(mut path: KeyPath, keys: &str) -> KeyPath {
    for key in keys.split('.') {
        let (name, index) = match key.split_once('[') {
            Some((name, rest)) => (name, rest.trim_end_matches(']').parse().ok()),
            None => (key, None),
        };
        path = path.key(name);
        if let Some(index) = index {
            path = path.index(index);
        }
    }
    path
}

/// The rules of a descriptor.
pub(super) fn descriptor(
    state: &mut Check<'_>,
    part: &Part<'_>,
    stored: &JsonDescriptor,
    member: &str,
    path: &dyn Fn() -> KeyPath,
) {
    let id = |name: &str| part.variables.get(name).map(|&(at, _)| VariableId(at));
    let parsed = Some(stored.parse(id));
    let mut check = DescriptorCheck {
        state,
        member,
        path,
        has_errors: false,
        parsed,
    };
    let op = stored.op.as_deref().unwrap_or("copy");
    if !OPERATIONS.contains(&op) {
        check.report(&rule::DESC_OP, "op", format!("found '{op}'"));
    }
    if part.is_inf1() {
        inf1(&mut check, stored, op);
    }
    sources(&mut check, part, stored, op);
    let to = format_args!("to");
    access(&mut check, part, to, "to", &stored.target());
    operands(&mut check, stored, op);
    if let Some(tile) = stored.num_tiling_dimensions
        && tile as usize > stored.to_sizes.len()
    {
        let detail = format!("found {tile} of {}", stored.to_sizes.len());
        check.report(&rule::DESC_TILING, "num_tiling_dimensions", detail);
    }
    if !check.has_errors {
        movement(&mut check, part, stored);
    }
}

/// Operations and keys that INF1 does not have.
fn inf1(check: &mut DescriptorCheck<'_, '_>, stored: &JsonDescriptor, op: &str) {
    let keys = [
        ("op", op != "copy"),
        ("from_arr", stored.from_arr.is_some()),
        ("from_dtype", stored.from_dtype.is_some()),
        ("to_dtype", stored.to_dtype.is_some()),
        ("scale", stored.scale.is_some()),
        ("constant", stored.constant.is_some()),
        ("transpose_shape", stored.transpose_shape.is_some()),
        (
            "transpose_element_size",
            stored.transpose_element_size.is_some(),
        ),
    ];
    for (key, _) in keys.into_iter().filter(|&(_, is_present)| is_present) {
        check.report(&rule::DESC_OP_INF1, key, "");
    }
}

fn sources(
    check: &mut DescriptorCheck<'_, '_>,
    part: &Part<'_>,
    stored: &JsonDescriptor,
    op: &str,
) {
    let many = matches!(op, "add" | "min" | "max" | "fma");
    match &stored.from_arr {
        Some(list) => {
            if !(1..=MAX_SOURCES).contains(&list.len()) {
                let detail = format!("found {}", list.len());
                check.report(&rule::DESC_SOURCES, "from_arr", detail);
            }
            if !many && OPERATIONS.contains(&op) {
                check.report(
                    &rule::DESC_FROM,
                    "from_arr",
                    format!("found from_arr for {op}"),
                );
            }
            if stored.from.is_some() {
                check.report(&rule::DESC_FROM_ARR, "from", "found both");
            }
            for (index, source) in list.iter().enumerate() {
                let side = format_args!("from_arr[{index}].from");
                access(check, part, side, "from", &source.access());
            }
        }
        None if many => check.report(&rule::DESC_FROM_ARR, "", format!("no from_arr for {op}")),
        None if stored.from.is_none() => check.report(&rule::DESC_FROM, "", "no 'from'"),
        None => {
            for source in stored.sources() {
                access(check, part, format_args!("from"), "from", &source);
            }
        }
    }
}

/// The rules of one end. `side` is the prefix of its keys, `key` the last part of that.
fn access(
    check: &mut DescriptorCheck<'_, '_>,
    part: &Part<'_>,
    side: Arguments<'_>,
    key: &str,
    access: &JsonAccess<'_>,
) {
    let of = |suffix: &str| format!("{side}{suffix}");
    let name = access.variable.map(|name| name.as_str());
    // A descriptor with an executable form has known variables.
    let is_read = matches!(check.parsed, Some(Ok(_)));
    if !is_read && !name.is_some_and(|name| part.variables.contains_key(name)) {
        let found = name.map_or(format!("no '{key}'"), |name| format!("found '{name}'"));
        check.report(&rule::DESC_VARIABLE, &of(""), found);
    }
    if access.offset.is_none() {
        check.report(&rule::DESC_OFFSET, &of(""), format!("no '{key}_off'"));
    }
    if !(1..=MAX_DIMENSIONS).contains(&access.sizes.len()) {
        let detail = format!("found {}", access.sizes.len());
        check.report(&rule::DESC_DIMENSIONS, &of("_sizes"), detail);
    }
    if access.steps.len() != access.sizes.len() {
        let detail = format!(
            "expected {}, found {}",
            access.sizes.len(),
            access.steps.len()
        );
        check.report(&rule::DESC_LENGTHS, &of("_steps"), detail);
    }
    if let Some(dtype) = access.dtype {
        // Tenon writes data types that the format does not have.
        let own = check.state.package.header().is_tenon() && crate::neff_dtype(dtype).is_some();
        if !own && !DTYPES.contains(&dtype.as_str()) {
            check.report(&rule::DESC_DTYPE, &of("_dtype"), format!("found '{dtype}'"));
        }
    }
}

/// The rules of keys that belong to one operation.
fn operands(check: &mut DescriptorCheck<'_, '_>, stored: &JsonDescriptor, op: &str) {
    let found = || format!("found {op}");
    if op != "fma" {
        let in_sources = stored
            .from_arr
            .iter()
            .flatten()
            .any(|source| source.scale.is_some());
        if stored.scale.is_some() || in_sources {
            check.report(&rule::DESC_SCALE, "scale", found());
        }
        if stored.scale_dtype.is_some() {
            check.report(&rule::DESC_SCALE, "scale_dtype", found());
        }
    }
    match stored.scale_dtype.as_deref() {
        None if op == "fma" => check.report(&rule::DESC_SCALE_DTYPE_MISSING, "", ""),
        Some(dtype) if dtype != "float32" => {
            check.report(
                &rule::DESC_SCALE_DTYPE,
                "scale_dtype",
                format!("found '{dtype}'"),
            );
        }
        _ => {}
    }
    constant(check, stored, op);
    if op != "transpose" {
        for (key, is_present) in [
            ("transpose_shape", stored.transpose_shape.is_some()),
            (
                "transpose_element_size",
                stored.transpose_element_size.is_some(),
            ),
        ] {
            if is_present {
                check.report(&rule::DESC_TRANSPOSE, key, found());
            }
        }
    }
    if let Some(shape) = stored
        .transpose_shape
        .as_ref()
        .filter(|shape| shape.len() != 4)
    {
        let detail = format!("found {}", shape.len());
        check.report(&rule::DESC_TRANSPOSE_SHAPE, "transpose_shape", detail);
    }
    let whole = stored.transpose_shape.is_some() && stored.transpose_element_size.is_some();
    if op == "transpose" && !whole {
        check.report(
            &rule::DESC_TRANSPOSE_RUNS,
            "",
            "no 'transpose_shape' or element size",
        );
    }
}

fn constant(check: &mut DescriptorCheck<'_, '_>, stored: &JsonDescriptor, op: &str) {
    if !matches!(op, "min" | "max") {
        for (key, is_present) in [
            ("constant", stored.constant.is_some()),
            ("constant_dtype", stored.constant_dtype.is_some()),
        ] {
            if is_present {
                check.report(&rule::DESC_CONSTANT, key, format!("found {op}"));
            }
        }
        return;
    }
    let number = stored.constant.as_ref();
    let Some(dtype) = stored.constant_dtype.as_deref() else {
        if number.is_some() {
            check.report(&rule::DESC_CONSTANT_IGNORED, "constant", "");
        }
        return;
    };
    let fits = match dtype {
        "float32" => number.map(|n| n.as_f64().is_some()),
        "int32" => number.map(|n| n.as_i64().is_some_and(|n| i32::try_from(n).is_ok())),
        "uint32" => number.map(|n| n.as_u64().is_some_and(|n| u32::try_from(n).is_ok())),
        _ => {
            check.report(
                &rule::DESC_CONSTANT_DTYPE,
                "constant_dtype",
                format!("found '{dtype}'"),
            );
            return;
        }
    };
    match (fits, number) {
        (Some(false), Some(number)) => {
            let detail = format!("found {number} as {dtype}");
            check.report(&rule::DESC_CONSTANT_VALUE, "constant", detail);
        }
        (None, _) => check.report(&rule::DESC_CONSTANT_VALUE, "", "no 'constant'"),
        _ => {}
    }
}

/// The rules of the executable form: accesses inside their variables, sources that fill the target.
fn movement(check: &mut DescriptorCheck<'_, '_>, part: &Part<'_>, stored: &JsonDescriptor) {
    let is_whole = stored.transpose_shape.is_some() && stored.transpose_element_size.is_some();
    if stored.op.as_deref() == Some("transpose") && !is_whole {
        return;
    }
    let parsed = match check.parsed.take() {
        None => return,
        Some(Ok(parsed)) => parsed,
        Some(Err(error)) => {
            for problem in error.all() {
                let key = problem.location().field.clone().unwrap_or_default();
                check.report(&rule::DESC_OP, &key, problem.without_location().to_string());
            }
            return;
        }
    };
    let size_of = |id: VariableId| part.sizes.get(id.index()).copied();
    if let Err(error) = parsed.check(size_of) {
        for problem in error.all() {
            let key = problem.location().field.clone().unwrap_or_default();
            let rule = rule_of(&key, &parsed, problem);
            check.report(rule, &key, problem.without_location().to_string());
        }
    }
}

/// The rule that a problem of `tenon-dma` violates, by its key.
fn rule_of(key: &str, descriptor: &Descriptor, problem: &Error) -> &'static Rule {
    let overflows =
        |access: &tenon_dma::Access| access.range().is_none() || access.volume().is_none();
    let any_overflows = || {
        descriptor
            .from
            .iter()
            .chain([&descriptor.to])
            .any(overflows)
    };
    match key.rsplit(['.', '_']).next() {
        Some("off") => &rule::DESC_BOUNDS,
        Some("steps") => &rule::DESC_STEPS,
        Some("dtype") => &rule::DESC_DTYPE,
        _ if key.starts_with("transpose") => &rule::DESC_TRANSPOSE_RUNS,
        Some("arr") => &rule::DESC_SOURCES,
        Some("sizes") if any_overflows() && problem.message().contains("overflow") => {
            &rule::DESC_BOUNDS
        }
        _ => &rule::DESC_SIZES,
    }
}
