//! Packages that another compiler made: told apart, and refused with what cannot run here.

use tenon_base::{Error, ErrorKind, Result};
use tenon_neff::{Definition, EngineName, Package};

/// Refuses a package that Tenon did not make, naming its engine programs.
pub(crate) fn refuse(package: &Package) -> Result<()> {
    if package.header().is_tenon() {
        return Ok(());
    }
    let programs = programs(package);
    let text = if programs.is_empty() {
        "the package was not made by Tenon and holds nothing that can run here".to_owned()
    } else {
        let programs = programs.join(", ");
        format!(
            "the package was not made by Tenon; its engine programs cannot run here: {programs}"
        )
    };
    Err(Error::new(ErrorKind::Unsupported, text)
        .help("it can still be read and listed; compile the model it was made from to run it"))
}

/// The engine programs of all subgraphs, as far as they can be read.
fn programs(package: &Package) -> Vec<String> {
    let mut programs = Vec::new();
    for (member, _) in package.members() {
        let Some(folder) = member.strip_suffix("/def.json") else {
            continue;
        };
        let Ok(definition) = package.json::<Definition>(member) else {
            continue;
        };
        for engine in EngineName::ALL {
            let program = definition.engine(engine).and_then(|files| files.program);
            programs.extend(program.map(|program| format!("{folder}/{program}")));
        }
    }
    programs
}
