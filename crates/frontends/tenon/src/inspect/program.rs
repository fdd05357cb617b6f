//! The host program of a package: decoded, and as annotated text.

use std::collections::BTreeMap;
use std::fmt::Write;
use tenon_base::Result;
use tenon_bef::{Module, PrintOptions, print};
use tenon_neff::{Contents, Extent, Package, Role};

/// Decodes the host program of a package.
pub fn decode_program(contents: &Contents) -> Result<Module> {
    tenon_bef::decode(&contents.program)
}

/// The host program of a package as MLIR text. Comments list the variables by id, and above
/// each kernel its node and operator; lines are short.
pub fn program_text(package: &Package) -> Result<String> {
    let contents = Contents::read(package)?;
    let module = decode_program(&contents)?;
    let options = PrintOptions {
        readable: true,
        ..PrintOptions::default()
    };
    Ok(variables(&contents) + &print(&module, options))
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
