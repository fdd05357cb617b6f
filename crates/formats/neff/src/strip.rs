//! Writes a package as a plain archive without its debug members.

use crate::error::encode;
use crate::{DIGESTS_JSON, Header, Package, PackageWriter, Structure};
use std::collections::{HashMap, HashSet};
use std::path::Path;
use tenon_base::{Control, Location, Result};

/// The result of [`strip`].
#[derive(Debug, Clone, PartialEq)]
pub struct StripReport {
    /// The header of the package written.
    pub header: Header,
    /// The removed members with their sizes.
    pub removed: Vec<(String, usize)>,
}

/// Writes `package` to `path` as a plain archive, without the members in debug lists of its
/// definitions and without those below `debug_info/`; `keep_debug` keeps them. The lists become
/// empty. Digests are recomputed if the package has them.
pub fn strip(
    package: &Package,
    path: impl AsRef<Path>,
    keep_debug: bool,
    control: &Control,
) -> Result<StripReport> {
    let mut header = package.header().clone();
    header.pkg_version = 1;
    if header.is_tenon() {
        // Derived from the content.
        header.uuid = [0; 16];
    }
    let mut debug = if keep_debug {
        DebugMembers::default()
    } else {
        DebugMembers::of(package)?
    };
    let mut writer = PackageWriter::create(path, header)?;
    if package.member(DIGESTS_JSON).is_some() {
        writer = writer.with_digests();
    }
    let mut removed = Vec::new();
    let total = package.members().map(|(_, size)| size as u64).sum();
    let mut done = 0;
    for (name, size) in package.members() {
        control.progress("strip", done, total)?;
        done += size as u64;
        if debug.removed.contains(name) {
            removed.push((name.to_owned(), size));
        } else if let Some(bytes) = debug.changed.remove(name) {
            writer.add(name, &bytes)?;
        } else if name != DIGESTS_JSON {
            writer.add(name, &package.require(name)?)?;
        }
    }
    let (_, header) = writer.finish()?;
    Ok(StripReport { header, removed })
}

/// The members to remove, and the definitions without their names.
#[derive(Default)]
struct DebugMembers {
    removed: HashSet<String>,
    changed: HashMap<String, Vec<u8>>,
}

impl DebugMembers {
    fn of(package: &Package) -> Result<Self> {
        let mut removed: HashSet<String> = package
            .members()
            .map(|(name, _)| name.to_owned())
            .filter(|name| name.starts_with("debug_info/"))
            .collect();
        let mut changed = HashMap::new();
        let (structure, _) = Structure::read_lenient(package);
        for subgraph in structure.subgraphs {
            // A definition with invalid parts is copied as it is.
            let Ok(mut definition) = package.json::<crate::Definition>(&subgraph.member) else {
                continue;
            };
            let mut any = false;
            for (_, list) in definition.debug_lists() {
                for file in list.iter_mut().flat_map(|list| list.drain(..)) {
                    any = true;
                    removed.insert(subgraph.file(&file));
                }
            }
            // Members that the runtime reads are kept even if a debug list names them.
            removed.remove(&subgraph.member);
            for parts in &subgraph.engines {
                for name in parts.member.iter().chain(&parts.program) {
                    removed.remove(name);
                }
            }
            for (_, variable) in subgraph.definition.var.iter() {
                if let Some(file) = &variable.file_name {
                    removed.remove(&subgraph.file(file));
                }
            }
            if any {
                let bytes = encode(&definition)
                    .map_err(|error| error.at(Location::member(&subgraph.member)))?;
                changed.insert(subgraph.member, bytes);
            }
        }
        Ok(Self { removed, changed })
    }
}
