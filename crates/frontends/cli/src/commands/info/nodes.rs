//! `tenon info` of a package of several nodes.

use super::{header_json, neff_json, print_header, print_metadata, print_neff, print_parts};
use crate::flags::Info;
use crate::output::{self, say};
use crate::table::{Table, bytes};
use serde_json::{Map, Value, json};
use tenon::inspect::Contents;
use tenon::neff::Package;
use tenon::neff::{
    CpuFunction, GraphPort, HostFunction, NodeAttribute, NodeGraph, NodeWork, PackageNode,
};
use tenon::{Location, Result};

/// Prints the selected parts, or all of it as JSON.
pub fn run(flags: &Info, package: &Package) -> Result<()> {
    let here = |error: tenon::Error| error.at(Location::file(&flags.file));
    let graph = NodeGraph::read(package).map_err(here)?;
    if flags.memory || flags.placement {
        return parts(flags, package, &graph).map_err(here);
    }
    if flags.json {
        return output::json(as_json(package, &graph).map_err(here)?);
    }
    print_header(&flags.file, package)?;
    print(package, &graph).map_err(here)?;
    if flags.wide {
        print_neff(package)?;
    }
    Ok(())
}

/// Placement and memory of each subgraph.
fn parts(flags: &Info, package: &Package, graph: &NodeGraph) -> Result<()> {
    if flags.svg.is_some() {
        let text = "a picture shows one subgraph, and this package has several nodes";
        return Err(tenon::Error::new(tenon::ErrorKind::Usage, text).help("leave --svg out"));
    }
    let is_symbolic = graph.cores().any(|contents| contents.tenon.is_symbolic());
    if flags.memory && is_symbolic {
        let text = "the sizes of subgraphs are known only when the host function of this package calls them: there is \
                    no memory plan for sizes of its inputs";
        return Err(tenon::Error::new(tenon::ErrorKind::Unsupported, text));
    }
    let mut all = Map::new();
    for node in &graph.nodes {
        let NodeWork::Core(contents) = &node.work else {
            continue;
        };
        if flags.json {
            let parts = super::parts_json(flags, package, contents)?;
            all.insert(node.name.clone(), parts.into());
        } else {
            say!("{}:", node.name)?;
            print_parts(flags, package, contents)?;
        }
    }
    let devices = super::memory::devices(flags, package, graph.cores())?;
    if !flags.json {
        return devices.print();
    }
    let mut parts = Map::from_iter([("subgraphs".to_owned(), all.into())]);
    parts.extend(devices.json());
    output::json(Value::from(parts))
}

fn print(package: &Package, graph: &NodeGraph) -> Result<()> {
    let mut table = Table::new(&["", "name", "type"]);
    let outputs = || graph.outputs.iter().filter_map(|&wire| graph.port(wire));
    for port in &graph.inputs {
        table.row(["input".into(), port.name.clone(), ty(port)]);
    }
    for port in outputs() {
        table.row(["output".into(), port.name.clone(), ty(&port)]);
    }
    say!("\n{table}\n")?;
    let mut table = Table::new(&["node", "on", "does", "reads", "makes"]);
    for node in &graph.nodes {
        let listed = |ports: &mut dyn Iterator<Item = GraphPort>| {
            let ports = ports.map(|port| format!("{}: {}", port.name, ty(&port)));
            ports.collect::<Vec<_>>().join(", ")
        };
        let (on, does) = match &node.work {
            NodeWork::Core(contents) => ("core", kernels(contents)?),
            NodeWork::Cpu(function) => ("CPU", call(function)),
            NodeWork::Host(function) => ("host", host_kernels(function)?),
        };
        table.row([
            node.name.clone(),
            on.into(),
            does,
            listed(&mut read(graph, node)),
            listed(&mut node.work.outputs()),
        ]);
    }
    say!("{table}\n")?;
    if let Some(host) = graph.host().filter(|host| !host.symbols.is_empty()) {
        let (inputs, data) = host.symbols.split_at(host.input_symbols);
        for (symbols, when) in [(inputs, "it runs"), (data, "its data are computed")] {
            if !symbols.is_empty() {
                let ranges = super::symbol_ranges(symbols);
                say!("sizes that are known when {when}: {ranges}")?;
            }
        }
    }
    let header = package.header();
    say!(
        "file {}, constants {}, arenas {}",
        bytes(header.header_size + header.data_size),
        bytes(graph.cores().map(Contents::constant_bytes).sum()),
        bytes(graph.cores().map(Contents::arena_bytes).sum())
    )?;
    let core = graph.cores().next().map(|contents| &contents.tenon.model);
    let model = graph.host().map(|host| &host.model).or(core);
    print_metadata(model.iter().flat_map(|model| &model.metadata))
}

/// The program of a host function.
fn host_program(function: &HostFunction) -> Result<tenon::inspect::Module> {
    tenon::inspect::decode_module(&function.program)
}

/// The kernels of a host function: `2 calls, NonZero`.
fn host_kernels(function: &HostFunction) -> Result<String> {
    let program = host_program(function)?;
    let kernels = program
        .functions
        .iter()
        .flat_map(|function| &function.kernels);
    let operators = kernels
        .clone()
        .filter_map(|kernel| kernel.attribute("operator")?.as_str());
    let calls = kernels.filter(|kernel| kernel.name == "tenon.call").count();
    let calls = output::count(calls, "call");
    Ok([calls.as_str()]
        .into_iter()
        .chain(operators)
        .collect::<Vec<_>>()
        .join(", "))
}

/// Tensors that a node reads.
fn read(graph: &NodeGraph, node: &PackageNode) -> impl Iterator<Item = GraphPort> {
    node.inputs.iter().filter_map(|&wire| graph.port(wire))
}

fn ty(port: &GraphPort) -> String {
    format!("{}{:?}", port.dtype, port.shape)
}

fn kernels(contents: &Contents) -> Result<String> {
    let program = tenon::inspect::decode_program(contents)?;
    let kernels: usize = program.functions.iter().map(|it| it.kernels.len()).sum();
    Ok(output::count(kernels, "kernel"))
}

/// A call as the function gets it.
fn call(function: &CpuFunction) -> String {
    let attributes = function.attributes.iter();
    let attributes = attributes.map(|(name, value)| format!("{name} = {}", value_json(value)));
    let attributes: Vec<String> = attributes.collect();
    let shown = if attributes.is_empty() {
        String::new()
    } else {
        format!(" {{{}}}", attributes.join(", "))
    };
    format!("{} by {}{shown}", function.operator, function.symbol)
}

fn value_json(value: &NodeAttribute) -> Value {
    match value {
        NodeAttribute::Float(number) => json!(number),
        NodeAttribute::Int(number) => json!(number),
        NodeAttribute::String(text) => json!(text),
        NodeAttribute::Floats(values) => json!(values),
        NodeAttribute::Ints(values) => json!(values),
        NodeAttribute::Strings(texts) => json!(texts),
    }
}

fn as_json(package: &Package, graph: &NodeGraph) -> Result<Value> {
    let port = |port: &GraphPort| json!({"name": port.name, "dtype": port.dtype.name(), "shape": port.shape});
    let ports = |ports: &mut dyn Iterator<Item = GraphPort>| -> Vec<Value> {
        ports.map(|it| port(&it)).collect()
    };
    let mut nodes = Vec::new();
    for node in &graph.nodes {
        let mut json = json!({
            "name": node.name,
            "inputs": ports(&mut read(graph, node)),
            "outputs": ports(&mut node.work.outputs()),
        });
        match &node.work {
            NodeWork::Core(contents) => {
                let program = tenon::inspect::decode_program(contents)?;
                let kernels: usize = program.functions.iter().map(|it| it.kernels.len()).sum();
                json["on"] = json!("core");
                json["kernels"] = json!(kernels);
                json["constant_bytes"] = json!(contents.constant_bytes());
                json["arena_bytes"] = json!(contents.arena_bytes());
            }
            NodeWork::Host(function) => {
                json["on"] = json!("host");
                json["kernels"] = json!(
                    host_program(function)?
                        .functions
                        .iter()
                        .map(|it| it.kernels.len())
                        .sum::<usize>()
                );
                json["symbols"] = json!(function.symbols);
                json["input_symbols"] = json!(function.input_symbols);
            }
            NodeWork::Cpu(function) => {
                let attributes = function.attributes.iter();
                let attributes = attributes.map(|(name, value)| (name.clone(), value_json(value)));
                json["on"] = json!("cpu");
                json["operator"] = json!(function.operator);
                json["symbol"] = json!(function.symbol);
                json["library_bytes"] = json!(function.library.len());
                json["attributes"] = attributes.collect::<Map<_, _>>().into();
            }
        }
        nodes.push(json);
    }
    let members: Vec<_> = package
        .members()
        .map(|(name, size)| json!({"name": name, "bytes": size}))
        .collect();
    Ok(json!({
        "kind": "package of several nodes",
        "header": header_json(package),
        "neff": neff_json(package)?,
        "inputs": graph.inputs.iter().map(port).collect::<Vec<_>>(),
        "outputs": ports(&mut graph.outputs.iter().filter_map(|&wire| graph.port(wire))),
        "nodes": nodes,
        "members": members,
    }))
}
