//! Contents → package.

use super::{Contents, PackageVariable, Role};
use crate::error::encode;
use crate::{
    Definition, Digest, Engine, EngineName, FeatureBits, Header, INFO_JSON, Info, JsonDescriptor,
    Kelf, KelfGraph, NEFF_JSON, NeffGraph, PackageWriter, Port, QueueSet, Table, Target, Trigger,
    Variable, VariableKind,
};
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::path::Path;
use tenon_base::{Control, Error, ErrorKind, Location, Result};
use tenon_tensor::{ALIGNMENT, Buffer, DataType};

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
        let checked = self.check().map(|()| self.members());
        write_file(checked, path.as_ref(), options, control)
    }

    /// The package's bytes.
    pub fn to_bytes(&self, options: WriteOptions, control: &Control) -> Result<Buffer> {
        self.check()?;
        self.members().to_bytes(options, control)
    }

    fn members(&self) -> PackageMembers<'_> {
        PackageMembers {
            name: &self.name,
            features: self.features(),
            graph: self.graph(),
            cores: vec![(self, NodeFiles::of(0))],
            others: Vec::new(),
        }
    }

    pub(super) fn features(&self) -> FeatureBits {
        let program = FeatureBits::TENON_HOST_PROGRAM;
        if self.tenon.is_symbolic() {
            program | FeatureBits::TENON_SYMBOLS
        } else {
            program
        }
    }

    /// The members of one subgraph.
    fn write_node<W: Target>(
        &self,
        writer: &mut PackageWriter<W>,
        files: &NodeFiles,
        control: &Control,
    ) -> Result<()> {
        let member = |name: &str| format!("{}{name}", files.folder);
        writer.add(&files.kelf, &encode(&files.stored())?)?;
        writer.add(&member(DEFINITION), &encode(&self.definition(files))?)?;
        writer.add(&member(ENGINE), &encode(&self.engine())?)?;
        writer.add(&member(PROGRAM), &self.program)?;
        writer.add(&member(TENSOR_MAP), &encode(&Table(self.tensor_map()))?)?;
        writer.add(&member(TENON_JSON), &encode(&self.tenon)?)?;
        let constants = || self.stored_constants(files);
        let total: u64 = constants().map(|(_, buffer)| buffer.len() as u64).sum();
        let mut done = 0;
        for (id, buffer) in constants() {
            control.progress("write the package", done, total)?;
            writer.add(&member(&constant_file(id)), buffer)?;
            done += buffer.len() as u64;
        }
        control.progress("write the package", done, total)
    }

    /// The constants that are members of this subgraph, with their ids.
    fn stored_constants<'a>(
        &'a self,
        files: &'a NodeFiles,
    ) -> impl Iterator<Item = (usize, &'a Buffer)> {
        let constant = |(id, variable): (usize, &'a PackageVariable)| match &variable.role {
            Role::Constant(buffer) => Some((id, buffer)),
            _ => None,
        };
        let constants = self.variables.iter().enumerate().filter_map(constant);
        constants.filter(|(id, _)| !files.shared.contains_key(id))
    }

    fn graph(&self) -> NeffGraph {
        fn ports(ports: &[Port]) -> Vec<(&str, DataType, Vec<i64>)> {
            ports
                .iter()
                .map(|port| (port.name.as_str(), port.dtype, port.shape.to_neff()))
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
            Role::Arena { .. } | Role::Planned => VariableKind::Virtual,
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
            Role::Input | Role::Output | Role::Absent | Role::Planned => {}
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
            desc: movement
                .descriptors
                .iter()
                .map(|descriptor| JsonDescriptor::new(descriptor, name))
                .collect(),
            ..Trigger::default()
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

/// The members of a package: what [`Contents`] and [`NodeGraph`](super::NodeGraph) have in common.
/// Borrows constants and libraries, so that writing a file copies neither.
pub(super) struct PackageMembers<'a> {
    pub name: &'a str,
    pub features: FeatureBits,
    pub graph: NeffGraph,
    /// The subgraphs with their member names.
    pub cores: Vec<(&'a Contents, NodeFiles)>,
    /// Other members with their names: libraries of CPU nodes, the host program.
    pub others: Vec<(String, Buffer)>,
}

impl PackageMembers<'_> {
    pub fn to_bytes(&self, options: WriteOptions, control: &Control) -> Result<Buffer> {
        let header = self.header(options)?;
        // A plain archive is allocated once; the size of a compressed one is not known.
        let capacity = if header.pkg_version == 1 {
            self.capacity()
        } else {
            0
        };
        let writer = PackageWriter::in_memory_with_capacity(header, capacity)?;
        Ok(self.write_to(writer, control)?.0)
    }

    fn header(&self, options: WriteOptions) -> Result<Header> {
        if !matches!(options.pkg_version, 1 | 2) {
            let error = Error::new(ErrorKind::InvalidArgument, "unknown package version");
            return Err(error.expected("1 or 2").found(options.pkg_version));
        }
        let mut header = Header::tenon(self.name, options.pkg_version);
        header.feature_bits = self.features;
        Ok(header)
    }

    /// An estimate of the package's size: large members, and a share for entry headers and JSON.
    fn capacity(&self) -> usize {
        let constants = self
            .cores
            .iter()
            .flat_map(|(contents, files)| contents.stored_constants(files))
            .map(|(_, buffer)| buffer.len());
        let programs = self
            .cores
            .iter()
            .map(|(contents, _)| contents.program.len());
        let others = self.others.iter().map(|(_, member)| member.len());
        let members: usize = constants.chain(programs).chain(others).sum();
        members + members / 16 + (64 << 10)
    }

    fn write_to<W: Target>(
        &self,
        writer: PackageWriter<W>,
        control: &Control,
    ) -> Result<(W::Output, Header)> {
        let mut writer = writer.with_digests();
        writer.add(NEFF_JSON, &encode(&self.graph)?)?;
        writer.add(INFO_JSON, &encode(&Info::tenon(self.name))?)?;
        for (contents, files) in &self.cores {
            contents.write_node(&mut writer, files, control)?;
        }
        for (name, library) in &self.others {
            writer.add(name, library)?;
        }
        writer.finish()
    }
}

/// Writes the members of a package whose rules were checked to a file; errors name the file.
pub(super) fn write_file(
    members: Result<PackageMembers<'_>>,
    path: &Path,
    options: WriteOptions,
    control: &Control,
) -> Result<Header> {
    let write = |members: PackageMembers<'_>| {
        let writer = PackageWriter::create(path, members.header(options)?)?;
        Ok(members.write_to(writer, control)?.1)
    };
    members
        .and_then(write)
        .map_err(|error: Error| error.at(Location::file(path)))
}

/// The file of a constant, inside the subgraph's folder.
fn constant_file(id: usize) -> String {
    format!("constants/{id}.bin")
}
