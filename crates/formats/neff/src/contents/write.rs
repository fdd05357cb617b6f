//! Contents → package.

use super::{Contents, PackageVariable, Role};
use crate::{
    Definition, Digest, Engine, EngineName, FileTarget, Header, INFO_JSON, Info, JsonDescriptor,
    Kelf, KelfGraph, NEFF_JSON, NeffGraph, PackageWriter, Port, QueueSet, Table, Target, Trigger,
    Variable, VariableKind,
};
use serde::Serialize;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::path::Path;
use tenon_base::{Control, Error, ErrorKind, Location, Result};
use tenon_tensor::{ALIGNMENT, DataType};

pub(super) const TENON_JSON: &str = "tenon.json";
pub(super) const QUEUE: &str = "qTenon";
const DEFINITION: &str = "def.json";
const ENGINE: &str = "SP.json";
const PROGRAM: &str = "program.bef";
const TENSOR_MAP: &str = "tensor_map.json";

/// Options of writing a package.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WriteOptions {
    /// 1: a plain archive, whose constants are used in the mapped file; 2: gzip, for shipping.
    pub pkg_version: u64,
}

impl Default for WriteOptions {
    /// A plain archive.
    fn default() -> Self {
        Self { pkg_version: 1 }
    }
}

impl Contents {
    /// Writes the package to a temporary file that replaces `path` when it is complete; a failure
    /// leaves the old file. Equal contents give equal bytes.
    pub fn write(
        &self,
        path: impl AsRef<Path>,
        options: WriteOptions,
        control: &Control,
    ) -> Result<Header> {
        write_file(path.as_ref(), self.header(options), |writer| {
            self.check()?;
            self.write_to(writer, control)
        })
    }

    /// The package's bytes.
    pub fn to_bytes(&self, options: WriteOptions, control: &Control) -> Result<Vec<u8>> {
        self.check()?;
        let writer = PackageWriter::in_memory(self.header(options)?)?.with_digests();
        Ok(self.write_to(writer, control)?.0)
    }

    fn header(&self, options: WriteOptions) -> Result<Header> {
        header(&self.name, options)
    }

    fn write_to<W: Target>(
        &self,
        mut writer: PackageWriter<W>,
        control: &Control,
    ) -> Result<(W::Output, Header)> {
        write_head(&mut writer, &self.name, &self.graph())?;
        self.write_node(&mut writer, &NodeFiles::of(0), control)?;
        writer.finish()
    }

    /// The members of one subgraph.
    pub(super) fn write_node<W: Target>(
        &self,
        writer: &mut PackageWriter<W>,
        files: &NodeFiles,
        control: &Control,
    ) -> Result<()> {
        let mut add = |name: String, bytes: Vec<u8>| writer.add(&name, &bytes);
        let member = |name: &str| format!("{}{name}", files.folder);
        add(files.kelf.clone(), encode(&files.stored())?)?;
        add(member(DEFINITION), encode(&self.definition(files))?)?;
        add(member(ENGINE), encode(&self.engine())?)?;
        add(member(PROGRAM), self.program.to_vec())?;
        add(member(TENSOR_MAP), encode(&Table(self.tensor_map()))?)?;
        add(member(TENON_JSON), encode(&self.tenon)?)?;
        let constants = || {
            self.variables
                .iter()
                .enumerate()
                .filter_map(|(id, variable)| match &variable.role {
                    Role::Constant(buffer) => Some((id, buffer)),
                    _ => None,
                })
                .filter(|(id, _)| !files.shared.contains_key(id))
        };
        let total: u64 = constants().map(|(_, buffer)| buffer.len() as u64).sum();
        let mut done = 0;
        for (id, buffer) in constants() {
            control.progress("write the package", done, total)?;
            writer.add(&member(&constant_file(id)), buffer)?;
            done += buffer.len() as u64;
        }
        control.progress("write the package", done, total)
    }

    fn graph(&self) -> NeffGraph {
        fn ports(ports: &[Port]) -> Vec<(&str, DataType, &[usize])> {
            ports
                .iter()
                .map(|port| (port.name.as_str(), port.dtype, &port.shape[..]))
                .collect()
        }
        NeffGraph::of_one(
            &ports(&self.tenon.inputs),
            &ports(&self.tenon.outputs),
            &NodeFiles::of(0).kelf,
        )
    }

    fn definition(&self, files: &NodeFiles) -> Definition {
        let mut definition = Definition {
            name: Some("definition".into()),
            version: Some("0.6".into()),
            ..Definition::default()
        };
        definition.set_engine(EngineName::Sp, ENGINE, PROGRAM);
        definition.dma_queue.push(
            QUEUE,
            QueueSet {
                kind: "data".into(),
                owner: Some(EngineName::Sp.key().into()),
                num_queues: Some(1),
                ..QueueSet::default()
            },
        );
        for (id, variable) in self.variables.iter().enumerate() {
            definition.var.push(
                variable.name.clone(),
                self.stored_variable(id, variable, files),
            );
        }
        definition
    }

    fn stored_variable(
        &self,
        id: usize,
        variable: &PackageVariable,
        files: &NodeFiles,
    ) -> Variable {
        let kind = match &variable.role {
            Role::Input => VariableKind::Input,
            Role::Output => VariableKind::Output,
            Role::Constant(_) | Role::Absent => VariableKind::File,
            Role::View => VariableKind::Pointer,
            Role::Arena { .. } => VariableKind::Virtual,
        };
        let mut stored = Variable::new(kind, id as u32, variable.size);
        stored.alignment = Some(ALIGNMENT as u64);
        match &variable.role {
            Role::Constant(_) => stored.file_name = Some(files.constant(id).into()),
            Role::Arena { offset } => stored.backing_variable_off = Some(*offset),
            Role::View => {
                let info = self
                    .tenon
                    .variables
                    .iter()
                    .find(|info| info.var_id.index() == id);
                stored.referenced_var_id = info.and_then(|info| info.view_of).map(|of| of.0);
            }
            Role::Input | Role::Output | Role::Absent => {}
        }
        stored
    }

    fn engine(&self) -> Engine {
        let name = |id| {
            self.variable(id)
                .map_or("", |variable| variable.name.as_str())
        };
        let trigger = |movement: &super::Movement| Trigger {
            id: movement.id,
            queue: Some(QUEUE.into()),
            instance_name: None,
            function_start: None,
            section_start_desc: None,
            event: None,
            semaphore: None,
            remote_semaphores: None,
            desc: movement
                .descriptors
                .iter()
                .map(|descriptor| JsonDescriptor::new(descriptor, name))
                .collect(),
            other: Default::default(),
        };
        Engine {
            name: Some(ENGINE.into()),
            instr: Some(PROGRAM.into()),
            dma: self.movements.iter().map(trigger).collect(),
            ..Engine::default()
        }
    }
}

/// The member names of one subgraph in a package.
pub(super) struct NodeFiles {
    /// The kelf that lists it.
    pub kelf: String,
    /// The folder of its other members, with its slash.
    pub folder: String,
    /// Constants that are members of an earlier subgraph: the file of each, by `var_id`.
    pub shared: HashMap<usize, String>,
}

impl NodeFiles {
    /// The names of subgraph `index`, counted from 0.
    pub fn of(index: usize) -> Self {
        Self {
            kelf: format!("kelf-{index}.json"),
            folder: format!("sg{index:02}/"),
            shared: HashMap::new(),
        }
    }

    /// The names of all subgraphs of a package; equal constants are stored once.
    pub fn all<'a>(cores: impl Iterator<Item = &'a Contents>) -> Vec<Self> {
        let mut known: HashMap<Digest, String> = HashMap::new();
        let mut all = Vec::new();
        for (index, contents) in cores.enumerate() {
            let mut files = Self::of(index);
            for (id, variable) in contents.variables.iter().enumerate() {
                let Role::Constant(buffer) = &variable.role else {
                    continue;
                };
                let file = format!("../{}{}", files.folder, constant_file(id));
                match known.entry(Digest::of(buffer)) {
                    Entry::Vacant(entry) => drop(entry.insert(file)),
                    // A subgraph has one variable for equal constants.
                    Entry::Occupied(entry) if entry.get().starts_with(&files.outside()) => {}
                    Entry::Occupied(entry) => drop(files.shared.insert(id, entry.get().clone())),
                }
            }
            all.push(files);
        }
        all
    }

    /// The folder as the other subgraphs name it.
    fn outside(&self) -> String {
        format!("../{}", self.folder)
    }

    /// The `file_name` of a constant.
    fn constant(&self, id: usize) -> String {
        let shared = self.shared.get(&id).cloned();
        shared.unwrap_or_else(|| constant_file(id))
    }

    /// The subgraph's name.
    pub fn name(&self) -> &str {
        self.folder.trim_end_matches('/')
    }

    fn stored(&self) -> Kelf {
        Kelf {
            graphs: vec![KelfGraph {
                definition: format!("{}{DEFINITION}", self.folder).into(),
                name: self.name().into(),
                other: Default::default(),
            }],
            version: Some("0.5".into()),
            target: Some("tenon".into()),
            other: Default::default(),
        }
    }
}

/// The header of a package of that name.
pub(super) fn header(name: &str, options: WriteOptions) -> Result<Header> {
    if !matches!(options.pkg_version, 1 | 2) {
        let error = Error::new(ErrorKind::InvalidArgument, "unknown package version");
        return Err(error.expected("1 or 2").found(options.pkg_version));
    }
    Ok(Header::tenon(name, options.pkg_version))
}

/// Writes a package with its digests to a file; errors name the file.
pub(super) fn write_file<D>(
    path: &Path,
    header: Result<Header>,
    write: impl FnOnce(PackageWriter<FileTarget>) -> Result<(D, Header)>,
) -> Result<Header> {
    let writer = header.and_then(|header| PackageWriter::create(path, header));
    let written = writer.and_then(|writer| write(writer.with_digests()));
    written
        .map(|(_, header)| header)
        .map_err(|error| error.at(Location::file(path)))
}

/// Writes the members before those of subgraphs.
pub(super) fn write_head<W: Target>(
    writer: &mut PackageWriter<W>,
    name: &str,
    graph: &NeffGraph,
) -> Result<()> {
    writer.add(NEFF_JSON, &encode(graph)?)?;
    writer.add(INFO_JSON, &encode(&Info::tenon(name))?)
}

/// The file of a constant, inside the subgraph's folder.
fn constant_file(id: usize) -> String {
    format!("constants/{id}.bin")
}

fn encode<T: Serialize>(value: &T) -> Result<Vec<u8>> {
    serde_json::to_vec(value).map_err(|error| {
        Error::new(
            ErrorKind::Internal,
            format!("cannot write as JSON: {error}"),
        )
        .source(error)
    })
}
