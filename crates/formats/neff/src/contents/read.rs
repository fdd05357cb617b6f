//! Package → contents.

use super::check::newer_format;
use super::write::TENON_JSON;
use super::{Contents, Movement, PackageVariable, Role};
use crate::error::{collect, invalid};
use crate::structure::member_of;
use crate::{
    Definition, Engine, EngineName, FeatureBits, Kelf, NEFF_JSON, NeffGraph, Package, TENON_FORMAT,
    TenonMember, Trigger, Variable, VariableKind,
};
use serde::Deserialize;
use std::collections::HashMap;
use tenon_base::{Error, ErrorKind, Location, Result};
use tenon_dma::VariableId;

impl Contents {
    /// Reads and checks the subgraph of a package of Tenon. Constants and the program are slices of
    /// the file. A package of another compiler is an error that names its engine programs. A
    /// package of several nodes is an error too: [`NodeGraph`](crate::NodeGraph) reads those.
    pub fn read(package: &Package) -> Result<Self> {
        read_only_node(package).map_err(|error| package.locate(error))
    }
}

fn read_only_node(package: &Package) -> Result<Contents> {
    let graph: NeffGraph = package.json(NEFF_JSON)?;
    let mut kelfs = graph.nodes.iter().filter_map(|node| node.kelf());
    let kelf = kelfs
        .next()
        .ok_or_else(|| invalid("no node of a subgraph").at(Location::member(NEFF_JSON)))?;
    let contents = read_node(package, kelf)?;
    let computing = graph.nodes.iter().filter(|node| *node.op != *"null");
    let count = computing.count();
    if count > 1 {
        let text = format!("the package has {count} nodes that compute, not one");
        return Err(Error::new(ErrorKind::Unsupported, text).at(Location::member(NEFF_JSON)));
    }
    Ok(contents)
}

/// The subgraph that the member `kelf` names.
pub(super) fn read_node(package: &Package, kelf: &str) -> Result<Contents> {
    let definition_member = definition_member(package, kelf)?;
    let definition: Definition = package.json(&definition_member)?;
    if !package.header().is_tenon() {
        return Err(foreign(package, &definition));
    }
    check_features(package)?;
    let folder = definition_member
        .rfind('/')
        .map_or("", |end| &definition_member[..=end]);
    let member = |name: &str| format!("{folder}{name}");
    let files = definition.engine(EngineName::Sp);
    let missing = |key: &str| {
        invalid("missing").at(Location {
            field: Some(key.to_owned()),
            ..Location::member(&definition_member)
        })
    };
    let engine_member = member(
        files
            .and_then(|f| f.description)
            .ok_or_else(|| missing("sp"))?,
    );
    let program = member(
        files
            .and_then(|f| f.program)
            .ok_or_else(|| missing("sp_instr"))?,
    );
    let engine: Engine = package.json(&engine_member)?;
    let tenon_member = member(TENON_JSON);
    let tenon = tenon(package, &tenon_member)?;
    let variables = variables(package, folder, &definition, tenon.is_symbolic())
        .map_err(|error| error.at(Location::member(&definition_member)))?;
    let features = package.header().feature_bits;
    let symbols = features.contains(FeatureBits::TENON_SYMBOLS);
    // Of several subgraphs that a host program calls, some have no symbols.
    let hosted = features.contains(FeatureBits::TENON_HOST_FUNCTIONS);
    if tenon.is_symbolic() != symbols && (tenon.is_symbolic() || !hosted) {
        let error = invalid("the feature bit of packages with symbols differs from the member");
        return Err(error.at(Location::member(&tenon_member)));
    }
    let contents = Contents {
        name: package.header().name_text().into_owned(),
        movements: movements(&engine, &definition)
            .map_err(|error| error.at(Location::member(&engine_member)))?,
        variables,
        program: package.require(&program)?,
        tenon,
    };
    contents
        .check_rules(hosted)
        .map_err(|error| error.at(Location::member(folder)))?;
    Ok(contents)
}

/// The definition that a kelf names.
fn definition_member(package: &Package, name: &str) -> Result<String> {
    let kelf: Kelf = package.json(name)?;
    match kelf.graphs.first() {
        Some(graph) => Ok(graph.definition.to_string()),
        None => Err(invalid("no subgraph").at(Location::member(name))),
    }
}

/// The error of a package of another compiler (architecture, decision 9).
fn foreign(package: &Package, definition: &Definition) -> Error {
    let engines = EngineName::ALL
        .into_iter()
        .filter_map(|engine| definition.engine(engine));
    let programs: Vec<&str> = engines.filter_map(|files| files.program).collect();
    let maker = package.header().build_version_text().into_owned();
    let maker = if maker.is_empty() {
        "another compiler".to_owned()
    } else {
        maker
    };
    Error::new(
        ErrorKind::Unsupported,
        format!(
            "the package was made by {maker}; its engine programs ({}) are of an instruction set \
             that cannot run here",
            programs.join(", ")
        ),
    )
    .help("it can be listed, checked, compared and repacked")
}

fn check_features(package: &Package) -> Result<()> {
    let known = FeatureBits::TENON_HOST_PROGRAM
        | FeatureBits::TENON_CPU_NODES
        | FeatureBits::TENON_SYMBOLS
        | FeatureBits::TENON_HOST_FUNCTIONS;
    let unknown = FeatureBits(package.header().feature_bits.0 & !known.0);
    if unknown == FeatureBits::default() {
        return Ok(());
    }
    Err(Error::new(
        ErrorKind::UnsupportedVersion,
        "the package requires unknown features",
    )
    .found(unknown)
    .at(Location::field("feature_bits")))
}

/// Reads the format of a member alone: other keys may have changed.
#[derive(Deserialize)]
pub(super) struct Format {
    pub format: u32,
}

fn tenon(package: &Package, name: &str) -> Result<TenonMember> {
    package.json::<TenonMember>(name).map_err(|error| {
        // A later format may have other keys: report the format, not the missing key.
        match package.json::<Format>(name) {
            Ok(Format { format }) if format > TENON_FORMAT => {
                newer_format(format, TENON_FORMAT).at(Location::member(name))
            }
            _ => error,
        }
    })
}

fn variables(
    package: &Package,
    folder: &str,
    definition: &Definition,
    symbolic: bool,
) -> Result<Vec<PackageVariable>> {
    let count = definition.var.iter().count();
    let mut slots: Vec<Option<PackageVariable>> = (0..count).map(|_| None).collect();
    let mut problems = Vec::new();
    for (name, stored) in definition.var.iter() {
        let parsed = variable(package, folder, name, stored, symbolic).and_then(|variable| {
            match slots.get_mut(stored.var_id as usize) {
                Some(slot @ None) => {
                    *slot = Some(variable);
                    Ok(())
                }
                Some(_) => Err(invalid("two variables of this id").found(stored.var_id)),
                None => Err(invalid("ids must be dense")
                    .expected(format_args!("less than {count}"))
                    .found(stored.var_id)),
            }
        });
        if let Err(error) = parsed {
            problems.push(error.at(Location::field(format!("var['{name}']"))));
        }
    }
    match Error::from_all(problems) {
        Some(error) => Err(error),
        // Without problems, every variable has filled its slot.
        None => Ok(slots.into_iter().flatten().collect()),
    }
}

fn variable(
    package: &Package,
    folder: &str,
    name: &str,
    stored: &Variable,
    symbolic: bool,
) -> Result<PackageVariable> {
    let missing = |key: &str| invalid(format!("{key} is missing"));
    let size = stored.size.ok_or_else(|| missing("size"))?;
    let role = match stored.kind {
        VariableKind::Input => Role::Input,
        VariableKind::Output => Role::Output,
        VariableKind::Pointer => Role::View,
        VariableKind::Virtual if symbolic => Role::Planned,
        VariableKind::Virtual => Role::Arena {
            offset: stored
                .backing_variable_off
                .ok_or_else(|| missing("backing_variable_off"))?,
        },
        VariableKind::File => match &stored.file_name {
            Some(file) => {
                let file = member_of(folder, file);
                let bytes = package.member(&file).ok_or_else(|| {
                    invalid("the package has no such member").found(format_args!("'{file}'"))
                })?;
                Role::Constant(bytes)
            }
            None => Role::Absent,
        },
        VariableKind::StateBuffer | VariableKind::TmpBuf | VariableKind::DgeTable => {
            return Err(Error::new(
                ErrorKind::Unsupported,
                "a variable type that Tenon does not write",
            )
            .found(format_args!("{:?}", stored.kind)));
        }
    };
    Ok(PackageVariable {
        name: name.to_owned(),
        size,
        role,
    })
}

fn movements(engine: &Engine, definition: &Definition) -> Result<Vec<Movement>> {
    let ids: HashMap<&str, VariableId> = definition
        .var
        .iter()
        .map(|(name, stored)| (name, VariableId(stored.var_id)))
        .collect();
    let triggers = engine.dma.iter().enumerate();
    let mut movements = collect(triggers.map(|(index, trigger)| {
        movement(trigger, definition, &ids)
            .map_err(|error| error.at(Location::node(format!("dma[{index}]"))))
    }))?;
    movements.sort_by_key(|movement: &Movement| movement.id);
    Ok(movements)
}

fn movement(
    trigger: &Trigger,
    definition: &Definition,
    ids: &HashMap<&str, VariableId>,
) -> Result<Movement> {
    let queue = trigger.queue.as_deref().unwrap_or_default();
    if definition.dma_queue.find(queue).is_none() {
        let error = invalid("no such queue set").found(format_args!("'{queue}'"));
        return Err(error.at(Location::field("queue")));
    }
    let parse = |stored: &crate::JsonDescriptor| stored.parse(|name| ids.get(name).copied());
    Ok(Movement {
        id: trigger.id,
        descriptors: collect(trigger.desc.iter().map(parse))?,
    })
}
