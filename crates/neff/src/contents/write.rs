//! Contents → package.

use super::{Contents, PackageVariable, Role};
use crate::{
    Definition, Engine, EngineName, Header, INFO_JSON, Info, Kelf, KelfGraph, NEFF_JSON, NeffGraph,
    PackageWriter, Port, QueueSet, StoredDescriptor, Table, Target, Trigger, Variable,
    VariableKind,
};
use serde::Serialize;
use std::path::Path;
use tenon_base::{Control, Error, ErrorKind, Location, Result};
use tenon_tensor::{ALIGNMENT, DataType};

pub(super) const FOLDER: &str = "sg00/";
pub(super) const KELF: &str = "kelf-0.json";
pub(super) const TENON_JSON: &str = "tenon.json";
pub(super) const QUEUE: &str = "qTenon";
const DEFINITION: &str = "def.json";
const ENGINE: &str = "SP.json";
const PROGRAM: &str = "program.bef";
const TENSOR_MAP: &str = "tensor_map.json";

/// How a package is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WriteOptions {
    /// 1: a plain archive, whose constants are used where they lie; 2: gzip, for shipping.
    pub pkg_version: u64,
}

impl Default for WriteOptions {
    /// A plain archive.
    fn default() -> Self {
        Self { pkg_version: 1 }
    }
}

impl Contents {
    /// Writes the package beside `path` and puts it there when it is whole; a failure leaves what
    /// was there before. Equal contents give equal bytes.
    pub fn write(
        &self,
        path: impl AsRef<Path>,
        options: WriteOptions,
        control: &Control,
    ) -> Result<Header> {
        let path = path.as_ref();
        let write = || {
            self.check()?;
            let writer = PackageWriter::create(path, self.header(options)?)?.with_digests();
            Ok(self.write_to(writer, control)?.1)
        };
        write().map_err(|error: Error| error.at(Location::file(path)))
    }

    /// The package's bytes.
    pub fn to_bytes(&self, options: WriteOptions, control: &Control) -> Result<Vec<u8>> {
        self.check()?;
        let writer = PackageWriter::in_memory(self.header(options)?)?.with_digests();
        Ok(self.write_to(writer, control)?.0)
    }

    fn header(&self, options: WriteOptions) -> Result<Header> {
        if !matches!(options.pkg_version, 1 | 2) {
            let error = Error::new(ErrorKind::InvalidArgument, "no such package version");
            return Err(error.expected("1 or 2").found(options.pkg_version));
        }
        Ok(Header::tenon(&self.name, options.pkg_version))
    }

    fn write_to<W: Target>(
        &self,
        mut writer: PackageWriter<W>,
        control: &Control,
    ) -> Result<(W::Done, Header)> {
        let mut json = |name: &str, bytes: Result<Vec<u8>>| writer.add(name, &bytes?);
        let member = |name: &str| format!("{FOLDER}{name}");
        json(NEFF_JSON, encode(&self.graph()))?;
        json(INFO_JSON, encode(&Info::tenon(&self.name)))?;
        json(KELF, encode(&kelf()))?;
        json(&member(DEFINITION), encode(&self.definition()))?;
        json(&member(ENGINE), encode(&self.engine()))?;
        json(&member(PROGRAM), Ok(self.program.to_vec()))?;
        json(&member(TENSOR_MAP), encode(&Table(self.tensor_map())))?;
        json(&member(TENON_JSON), encode(&self.tenon))?;
        let constants = || {
            self.variables
                .iter()
                .enumerate()
                .filter_map(|(id, variable)| match &variable.role {
                    Role::Constant(buffer) => Some((id, buffer)),
                    _ => None,
                })
        };
        let total: u64 = constants().map(|(_, buffer)| buffer.len() as u64).sum();
        let mut done = 0;
        for (id, buffer) in constants() {
            control.progress("write the package", done, total)?;
            writer.add(&member(&constant_file(id)), buffer)?;
            done += buffer.len() as u64;
        }
        control.progress("write the package", done, total)?;
        writer.finish()
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
            KELF,
        )
    }

    fn definition(&self) -> Definition {
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
            definition
                .var
                .push(variable.name.clone(), self.stored_variable(id, variable));
        }
        definition
    }

    fn stored_variable(&self, id: usize, variable: &PackageVariable) -> Variable {
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
            Role::Constant(_) => stored.file_name = Some(constant_file(id).into()),
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
                .map(|descriptor| StoredDescriptor::new(descriptor, name))
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

fn kelf() -> Kelf {
    Kelf {
        graphs: vec![KelfGraph {
            definition: format!("{FOLDER}{DEFINITION}").into(),
            name: FOLDER.trim_end_matches('/').into(),
            other: Default::default(),
        }],
        version: Some("0.5".into()),
        target: Some("tenon".into()),
        other: Default::default(),
    }
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
