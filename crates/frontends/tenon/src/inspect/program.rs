//! The host program of a package: decoded, and as annotated text.

use std::collections::BTreeMap;
use std::fmt::Write;
use tenon_base::Result;
use tenon_bef::{Module, PrintOptions, print};
use tenon_neff::{Contents, Extent, NodeGraph, NodeWork, Package, Role};

/// Decodes the host program of a package.
pub fn decode_program(contents: &Contents) -> Result<Module> {
    tenon_bef::decode(&contents.program)
}

/// Decodes a program in BEF.
pub fn decode_module(program: &[u8]) -> Result<Module> {
    tenon_bef::decode(program)
}

/// The host program of a package as MLIR text. Comments list the variables by id, and above
/// each kernel its node and operator; lines are short. Of several subgraphs each is printed, after the host function
/// that calls them.
pub fn program_text(package: &Package) -> Result<String> {
    let graph = match NodeGraph::read(package)?.into_one_core() {
        Ok((_, contents)) => return core_text(&contents),
        Err(graph) => graph,
    };
    let mut texts = Vec::new();
    if let Some(host) = graph.host() {
        texts.push(printed(&decode_module(&host.program)?));
    }
    for node in &graph.nodes {
        if let NodeWork::Core(contents) = &node.work {
            let text = core_text(contents)?;
            texts.push(format!("// Subgraph {}\n{text}", node.name));
        }
    }
    Ok(texts.join("\n"))
}

/// The program of a subgraph, with its variables.
fn core_text(contents: &Contents) -> Result<String> {
    Ok(variables(contents) + &printed(&decode_program(contents)?))
}

fn printed(module: &Module) -> String {
    let options = PrintOptions {
        readable: true,
        ..PrintOptions::default()
    };
    print(module, options)
}

/// A line for each variable, by number: its kind of memory, type and name.
fn variables(contents: &Contents) -> String {
    let infos = contents.tenon.variables.iter();
    let infos: BTreeMap<usize, _> = infos.map(|info| (info.var_id.0 as usize, info)).collect();
    let sizes = contents.tenon.sizes.iter();
    let sizes: BTreeMap<usize, _> = sizes.map(|info| (info.var_id.0 as usize, info)).collect();
    let mut text = String::from("// Variables, by the number that kernels call them:\n");
    for (number, variable) in contents.variables.iter().enumerate() {
        let info = infos.get(&number);
        let role = match &variable.role {
            Role::Input => "input".into(),
            Role::Output => "output".into(),
            Role::Constant(_) => "constant".into(),
            Role::Absent => "constant, left out".into(),
            Role::View => match info.and_then(|info| info.view_of) {
                Some(of) => format!("view of {}", of.0),
                None => "view".into(),
            },
            Role::Arena { offset } => format!("memory at {offset}"),
            Role::Planned if sizes.contains_key(&number) => "sizes".into(),
            Role::Planned => "memory".into(),
        };
        let mut ports = contents.tenon.inputs.iter().chain(&contents.tenon.outputs);
        let port = ports.find(|port| port.var_id.0 as usize == number);
        let parts = info.map(|info| (info.dtype, &info.shape));
        let parts = parts.or(port.map(|port| (port.dtype, &port.shape)));
        let ty = match (parts, sizes.get(&number)) {
            (_, Some(sizes)) => {
                let elements = sizes.elements.iter().map(Extent::to_string);
                format!("({})", elements.collect::<Vec<_>>().join(", "))
            }
            (Some((dtype, shape)), None) => format!("{dtype}{shape}"),
            (None, None) => format!("{} bytes", variable.size),
        };
        let name = variable.name.escape_debug();
        // Writing to a String cannot fail.
        let _ = writeln!(text, "//   {number:>3}  {role:<18}  {ty:<24}  {name}");
    }
    text
}
