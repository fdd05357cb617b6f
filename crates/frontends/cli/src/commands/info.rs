//! `tenon info`

mod memory;
mod nodes;

use super::{load, placement};
use crate::flags::Info;
use crate::output::{self, say};
use crate::table::{Table, bytes};
use serde_json::{Map, Value, json};
use std::path::Path;
use tenon::inspect::{Contents, PackageVariable, Role};
use tenon::neff::Package;
use tenon::neff::{BucketInfo, FeatureBits, HeaderBlock, NodeTable, PaddingInfo, SymbolInfo};
use tenon::tensor::size::Symbols;
use tenon::{Location, ModelFile, OnnxModel, OpenOptions, Result};

pub fn run(flags: &Info) -> Result<()> {
    let here = |error: tenon::Error| error.at(Location::file(&flags.file));
    let plain = || {
        let text = "only packages that Tenon made have a placement report and a memory plan";
        here(tenon::Error::new(tenon::ErrorKind::Usage, text).help("compile the model first"))
    };
    let mut options = OpenOptions::new().limits(flags.limits.limits());
    options.signature.clone_from(&flags.signature);
    match options.open(&flags.file)? {
        ModelFile::Onnx(_) if flags.memory || flags.placement => return Err(plain()),
        ModelFile::Onnx(model) if flags.json => output::json(model_json(&model))?,
        ModelFile::Onnx(model) => print_model(&flags.file, &model)?,
        ModelFile::Package(package) => {
            let features = package.header().feature_bits;
            if !package.header().is_tenon() {
                if flags.memory || flags.placement {
                    return Err(plain());
                }
                return print_members(&flags.file, &package, flags.json);
            }
            if features.contains(FeatureBits::TENON_CPU_NODES)
                || features.contains(FeatureBits::TENON_HOST_FUNCTIONS)
            {
                return nodes::run(flags, &package);
            }
            let contents = Contents::read(&package).map_err(here)?;
            if flags.memory || flags.placement {
                return print_all(flags, &package, &contents).map_err(here);
            }
            let program = tenon::inspect::decode_program(&contents).map_err(here)?;
            if flags.json {
                output::json(package_json(&package, &contents, &program)?)?;
            } else {
                print_package(&flags.file, &package, &contents, &program)?;
                if flags.wide {
                    print_neff(&package)?;
                }
            }
        }
    }
    Ok(())
}

/// The selected parts of a package of one subgraph, and the memory of backends.
fn print_all(flags: &Info, package: &Package, contents: &Contents) -> Result<()> {
    let devices = memory::devices(flags, package, [contents])?;
    if flags.json {
        let mut parts = parts_json(flags, package, contents)?;
        parts.extend(devices.json());
        return output::json(Value::from(parts));
    }
    print_parts(flags, package, contents)?;
    devices.print()
}

/// The selected parts of a subgraph: placement, memory plan.
fn print_parts(flags: &Info, package: &Package, contents: &Contents) -> Result<()> {
    let report = &contents.tenon.placement;
    if flags.placement {
        placement::print(report)?;
        say!("\n{report}")?;
    }
    if flags.memory {
        memory::print(&memory::report(flags, package, contents)?, &contents.name)?;
    }
    Ok(())
}

fn parts_json(flags: &Info, package: &Package, contents: &Contents) -> Result<Map<String, Value>> {
    let mut parts = Map::new();
    if flags.placement {
        let report = &contents.tenon.placement;
        let report = json!({"summary": report.to_string(), "report": report});
        parts.insert("placement".into(), report);
    }
    if flags.memory {
        let report = memory::report(flags, package, contents)?;
        parts.insert("memory".into(), report.json());
    }
    Ok(parts)
}

fn model_json(model: &OnnxModel) -> Value {
    let signature = model.signature();
    let values = |values: &[tenon::inspect::OnnxValue]| {
        values
            .iter()
            .map(|value| json!({"name": value.name, "type": value.to_string()}))
            .collect::<Vec<_>>()
    };
    let initialisers = signature.initialisers.iter();
    let initialisers = initialisers.map(|(name, ty)| json!({"name": name, "type": ty.to_string()}));
    json!({
        "kind": format_name(model).to_lowercase(),
        "name": signature.name,
        "producer": signature.producer,
        "ir_version": signature.ir_version,
        "opsets": signature.opsets,
        "inputs": values(&signature.inputs),
        "outputs": values(&signature.outputs),
        "nodes": signature.nodes,
        "operators": signature.operators,
        "functions": signature.functions,
        "initialisers": initialisers.collect::<Vec<_>>(),
        "constants": signature.initialisers.len(),
        "constant_bytes": signature.initialiser_bytes(),
        "metadata": signature.metadata,
    })
}

/// The format of the file.
fn format_name(model: &OnnxModel) -> &'static str {
    match model
        .signature()
        .metadata
        .contains_key(tenon::inspect::LITERT_SIGNATURES)
    {
        true => "LiteRT",
        false => "ONNX",
    }
}

fn print_model(path: &Path, model: &OnnxModel) -> Result<()> {
    let signature = model.signature();
    let opset = |(domain, version): (&String, &i64)| match domain.as_str() {
        "" => format!("opset {version}"),
        domain => format!("{domain} {version}"),
    };
    let opsets: Vec<_> = signature.opsets.iter().map(opset).collect();
    say!(
        "{}: {} model '{}', {}",
        path.display(),
        format_name(model),
        signature.name,
        opsets.join(", ")
    )?;
    if !signature.producer.is_empty() {
        say!("made by {}", signature.producer)?;
    }
    let mut table = Table::new(&["", "name", "type"]);
    for (what, values) in [("input", &signature.inputs), ("output", &signature.outputs)] {
        for value in values {
            table.row([what.into(), value.name.clone(), value.to_string()]);
        }
    }
    say!("\n{table}\n")?;
    say!(
        "{}, {}; {}:",
        output::count(signature.initialisers.len(), "constant"),
        bytes(signature.initialiser_bytes()),
        output::count(signature.nodes, "node")
    )?;
    let counted: Vec<_> = signature
        .operators
        .iter()
        .map(|(name, count)| format!("{count} {name}"))
        .collect();
    say!("  {}", counted.join(", "))?;
    print_metadata(signature.metadata.iter())
}

/// Constants of a package, and sizes in bytes.
struct Sizes {
    file: u64,
    /// Constants of the model.
    plain: usize,
    /// Prepared forms of them.
    prepared: usize,
    /// Constants of which only prepared forms are there.
    absent: usize,
    /// All bytes of constants, in whatever form.
    constants: u64,
    /// Constants that executing reads: not the plain copies of prepared ones.
    used_constants: u64,
    arena: u64,
}

impl Sizes {
    fn new(package: &Package, contents: &Contents) -> Self {
        let constant = |variable: &&PackageVariable| matches!(variable.role, Role::Constant(_));
        let all = contents.constant_bytes();
        let replaced: Vec<u32> = contents
            .tenon
            .constants
            .iter()
            .filter_map(|constant| constant.prepared.as_ref().map(|form| form.of.0))
            .collect();
        let plain: u64 = contents
            .variables
            .iter()
            .enumerate()
            .filter(|(id, variable)| constant(variable) && replaced.contains(&(*id as u32)))
            .map(|(_, variable)| variable.size)
            .sum();
        let header = package.header();
        let constants = &contents.tenon.constants;
        let prepared = constants
            .iter()
            .filter(|constant| constant.prepared.is_some())
            .count();
        let absent = |variable: &&PackageVariable| matches!(variable.role, Role::Absent);
        Self {
            file: header.header_size + header.data_size,
            plain: constants.len() - prepared,
            prepared,
            absent: contents.variables.iter().filter(absent).count(),
            constants: all,
            used_constants: all - plain,
            arena: contents.arena_bytes(),
        }
    }
}

fn header_json(package: &Package) -> Value {
    let header = package.header();
    json!({
        "pkg_version": header.pkg_version,
        "neff_version": format!("{}.{}", header.version_major, header.version_minor),
        "build_version": header.build_version_text(),
        "name": header.name_text(),
        "uuid": header.uuid_text(),
        "hash": header.hash_text(),
        "features": header.feature_bits.names().collect::<Vec<_>>(),
        "compressed": package.is_compressed(),
    })
}

/// Header and nodes as packagers show them (neff 3.2).
fn neff_json(package: &Package) -> Result<Value> {
    let header = HeaderBlock::from(package.header());
    Ok(json!({"header": header, "nodes": NodeTable::of(package)?.nodes}))
}

fn print_neff(package: &Package) -> Result<()> {
    say!("\n{}", HeaderBlock::from(package.header()))?;
    say!("{}", NodeTable::of(package)?)
}

fn package_json(
    package: &Package,
    contents: &Contents,
    program: &tenon::inspect::Module,
) -> Result<Value> {
    let sizes = Sizes::new(package, contents);
    let ports = |ports: &[tenon::inspect::Port]| {
        ports
            .iter()
            .map(|port| json!({"name": port.name, "dtype": port.dtype.name(), "shape": port.shape}))
            .collect::<Vec<_>>()
    };
    let functions: Vec<_> = program
        .functions
        .iter()
        .map(|function| json!({"name": function.name, "kernels": function.kernels.len()}))
        .collect();
    Ok(json!({
        "kind": "package",
        "header": header_json(package),
        "neff": neff_json(package)?,
        "model": contents.tenon.model.name,
        "symbols": contents.tenon.symbols,
        "buckets": contents.tenon.buckets,
        "paddings": contents.tenon.paddings,
        "inputs": ports(&contents.tenon.inputs),
        "outputs": ports(&contents.tenon.outputs),
        "functions": functions,
        "placement": placement::line(&contents.tenon.placement),
        "targets": contents.tenon.targets,
        "constants": contents.tenon.constants,
        "metadata": contents.tenon.model.metadata,
        "sizes": {
            "file_bytes": sizes.file,
            "constant_bytes": sizes.constants,
            "used_constant_bytes": sizes.used_constants,
            "prepared_only_constants": sizes.absent,
            "arena_bytes": sizes.arena,
        },
    }))
}

/// The ranges of symbols.
fn symbol_ranges(symbols: &[SymbolInfo]) -> String {
    let ranges: Vec<String> = symbols.iter().map(symbol_range).collect();
    ranges.join(", ")
}

/// A symbol with its range: `batch 1 to 64`.
fn symbol_range(symbol: &SymbolInfo) -> String {
    let SymbolInfo { name, min, max } = symbol;
    if *max == *Symbols::any_size().end() {
        format!("{name} {min} or more")
    } else {
        format!("{name} {min} to {max}")
    }
}

fn print_package(
    path: &Path,
    package: &Package,
    contents: &Contents,
    program: &tenon::inspect::Module,
) -> Result<()> {
    print_header(path, package)?;
    let mut table = Table::new(&["", "name", "type"]);
    let tenon = &contents.tenon;
    for (what, ports) in [("input", &tenon.inputs), ("output", &tenon.outputs)] {
        for port in ports {
            let ty = format!("{}{:?}", port.dtype, port.shape);
            table.row([what.into(), port.name.clone(), ty]);
        }
    }
    say!("\n{table}\n")?;
    if tenon.is_symbolic() {
        let ranges = symbol_ranges(&tenon.symbols);
        say!("sizes that are known when it runs: {ranges}")?;
    }
    for BucketInfo { symbol, sizes } in &tenon.buckets {
        let sizes: Vec<String> = sizes.iter().map(u64::to_string).collect();
        say!("buckets of {symbol}: {}", sizes.join(", "))?;
    }
    for PaddingInfo { input, value } in &tenon.paddings {
        say!("{input} is padded with {value}")?;
    }
    for function in &program.functions {
        say!(
            "function @{}: {}",
            function.name,
            output::count(function.kernels.len(), "kernel")
        )?;
    }
    if let Some(line) = placement::line(&tenon.placement) {
        say!("{line}")?;
    }
    for (backend, target) in &tenon.targets {
        say!("compiled for {target} ({backend})")?;
    }
    let sizes = Sizes::new(package, contents);
    say!(
        "{}, {} ({}, {} in prepared form alone; executing reads {})",
        output::count(sizes.plain, "constant"),
        bytes(sizes.constants),
        output::count(sizes.prepared, "prepared form"),
        output::count(sizes.absent, "constant"),
        bytes(sizes.used_constants)
    )?;
    if tenon.is_symbolic() {
        say!(
            "file {}, arena planned when the sizes are known",
            bytes(sizes.file)
        )?;
    } else {
        say!("file {}, arena {}", bytes(sizes.file), bytes(sizes.arena))?;
    }
    print_metadata(tenon.model.metadata.iter())
}

fn print_header(path: &Path, package: &Package) -> Result<()> {
    let header = package.header();
    say!(
        "{}: package '{}', {}, uuid {}",
        path.display(),
        header.name_text(),
        match header.build_version_text() {
            text if text.is_empty() => "build version not given".into(),
            text => text,
        },
        header.uuid_text()
    )?;
    let features: Vec<_> = header.feature_bits.names().collect();
    say!(
        "package version {}, NEFF {}.{}, features: {}",
        header.pkg_version,
        header.version_major,
        header.version_minor,
        if features.is_empty() {
            "none".into()
        } else {
            features.join(", ")
        }
    )
}

/// The readable parts of another compiler's package: header, nodes, members.
fn print_members(path: &Path, package: &Package, as_json: bool) -> Result<()> {
    if as_json {
        let members: Vec<_> = package
            .members()
            .map(|(name, size)| json!({"name": name, "bytes": size}))
            .collect();
        return output::json(
            json!({"kind": "foreign package", "header": header_json(package),
                   "neff": neff_json(package)?, "members": members}),
        );
    }
    print_header(path, package)?;
    say!("made by another compiler: it can be listed here, not run")?;
    print_neff(package)?;
    let mut table = Table::new(&["member", "size"]);
    for (name, size) in package.members() {
        table.row([name.to_owned(), bytes(size as u64)]);
    }
    say!("{table}")
}

fn print_metadata<'a>(metadata: impl Iterator<Item = (&'a String, &'a String)>) -> Result<()> {
    for (key, value) in metadata {
        say!("{key}: {}", value.replace('\n', ", "))?;
    }
    Ok(())
}
