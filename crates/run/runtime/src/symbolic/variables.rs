//! The variables of a package with symbols, and those of an instance.

use super::appended::AppendedPort;
use std::collections::BTreeMap;
use std::sync::Arc;
use tenon_base::{Error, ErrorKind, Location, Result};
use tenon_graph::{shape_for, size_tensor};
use tenon_kernels::{OperandKey, PreparedForm, Storage, Variable, VariableId, Variables};
use tenon_neff::{PackageVariable, Port, Role, TenonMember};
use tenon_plan::{PlannedVariable, VariableMemory};
use tenon_tensor::size::{SizeExpr, Symbols};
use tenon_tensor::{DataType, TensorType};

/// All variables; a [`VariableId`] is a position.
pub(super) struct SymbolicVariables(Vec<SymbolicVariable>);

struct SymbolicVariable {
    name: Arc<str>,
    storage: SymbolicStorage,
    /// Its type, if a kernel or view names it.
    ty: Option<(DataType, Vec<SizeExpr>)>,
    size: u64,
    prepared: Option<PreparedForm>,
}

enum SymbolicStorage {
    /// Memory that is known without the sizes.
    Known(Storage),
    /// The arena.
    Arena,
    /// The same bytes as a variable in the arena.
    ArenaView(VariableId),
    /// Integers that are known with the sizes.
    Sizes(Vec<SizeExpr>),
}

impl SymbolicVariables {
    pub fn new(
        variables: Vec<PackageVariable>,
        member: &TenonMember,
        symbols: &Symbols,
    ) -> Result<Self> {
        let mut types = BTreeMap::new();
        let mut views = BTreeMap::new();
        let mut sizes = BTreeMap::new();
        let mut forms = BTreeMap::new();
        for info in &member.variables {
            types.insert(info.var_id, (info.dtype, info.shape.parse(symbols)?));
            views.extend(info.view_of.map(|of| (info.var_id, of)));
        }
        for port in member.inputs.iter().chain(&member.outputs) {
            let extents = port.shape.parse(symbols)?;
            types.entry(port.var_id).or_insert((port.dtype, extents));
        }
        for info in &member.sizes {
            let elements = info.elements.iter().map(|element| element.parse(symbols));
            sizes.insert(info.var_id, elements.collect::<Result<Vec<_>>>()?);
            let extents = info.shape.iter().map(|&extent| (extent as i64).into());
            types
                .entry(info.var_id)
                .or_insert((info.dtype, extents.collect()));
        }
        for info in &member.constants {
            if let Some(form) = &info.prepared {
                let form = PreparedForm {
                    of: form.of,
                    backend: form.backend.clone(),
                    layout: form.layout.clone(),
                };
                forms.insert(info.var_id, form);
            }
        }
        let position = |ports: &[Port], id| ports.iter().position(|port| port.var_id == id);
        let mut all = Vec::with_capacity(variables.len());
        for (id, variable) in (0..).map(VariableId).zip(variables) {
            let known = |storage: Option<Storage>| {
                storage.map(SymbolicStorage::Known).ok_or_else(|| {
                    let error = Error::new(ErrorKind::InvalidPackage, "it is not listed");
                    error.at(Location::field(format!("variable '{}'", variable.name)))
                })
            };
            let storage = match variable.role {
                Role::Input => known(position(&member.inputs, id).map(Storage::Input))?,
                Role::Output => known(position(&member.outputs, id).map(Storage::Output))?,
                Role::Constant(bytes) => SymbolicStorage::Known(Storage::Constant(bytes)),
                Role::Absent => SymbolicStorage::Known(Storage::Absent),
                Role::View => known(views.get(&id).map(|&of| Storage::View(of)))?,
                Role::Planned | Role::Arena { .. } => match (sizes.remove(&id), views.get(&id)) {
                    (Some(elements), _) => SymbolicStorage::Sizes(elements),
                    (None, Some(&of)) => SymbolicStorage::ArenaView(of),
                    (None, None) => SymbolicStorage::Arena,
                },
            };
            all.push(SymbolicVariable {
                name: variable.name.into(),
                storage,
                ty: types.remove(&id),
                size: variable.size,
                prepared: forms.remove(&id),
            });
        }
        Ok(Self(all))
    }

    /// The variables for these sizes; those in the arena have no place yet. The inputs of `appended` are the beginnings
    /// of their outputs; the other inputs are numbered without them.
    pub fn fixed(&self, sizes: &[i64], appended: &[AppendedPort]) -> Result<Vec<Variable>> {
        let fixed = |variable: &SymbolicVariable| {
            let mut fixed = variable.fixed(sizes)?;
            if let Storage::Input(position) = &mut fixed.storage {
                let port = appended.iter().find(|port| port.input == *position);
                match port.and_then(|port| self.output(port.output)) {
                    Some(output) => fixed.storage = Storage::Prefix(output),
                    None => {
                        let before = appended.iter().filter(|port| port.input < *position);
                        *position -= before.count();
                    }
                }
            }
            Ok(fixed)
        };
        let named = |variable: &SymbolicVariable| {
            fixed(variable).map_err(|error: Error| {
                error.at(Location::field(format!("variable '{}'", variable.name)))
            })
        };
        self.0.iter().map(named).collect()
    }

    /// The variable of an output.
    fn output(&self, position: usize) -> Option<VariableId> {
        let is_output = |variable: &SymbolicVariable| matches!(variable.storage, SymbolicStorage::Known(Storage::Output(at)) if at == position);
        let found = self.0.iter().position(is_output)?;
        u32::try_from(found).ok().map(VariableId)
    }

    /// The position of the input that a variable is.
    pub fn input_position(&self, id: VariableId) -> Option<usize> {
        match self.0.get(id.index())?.storage {
            SymbolicStorage::Known(Storage::Input(position)) => Some(position),
            _ => None,
        }
    }

    /// The position of the output that a variable is.
    pub fn output_position(&self, id: VariableId) -> Option<usize> {
        match self.0.get(id.index())?.storage {
            SymbolicStorage::Known(Storage::Output(position)) => Some(position),
            _ => None,
        }
    }

    /// The variable whose bytes a variable shows, or itself.
    pub fn viewed(&self, id: VariableId) -> VariableId {
        match self.0.get(id.index()).map(|variable| &variable.storage) {
            Some(SymbolicStorage::Known(Storage::View(of)) | SymbolicStorage::ArenaView(of)) => *of,
            _ => id,
        }
    }

    /// The type of a variable, if a kernel or view names it.
    pub fn ty(&self, id: VariableId) -> Option<(DataType, &[SizeExpr])> {
        let ty = self.0.get(id.index())?.ty.as_ref();
        ty.map(|(dtype, extents)| (*dtype, &extents[..]))
    }

    /// What a kernel depends on in a variable: its type, or the elements of a constant.
    pub fn key(&self, id: VariableId) -> OperandKey {
        let variable = |id: VariableId| self.0.get(id.index());
        let of = self.viewed(id);
        match (
            variable(id).and_then(|variable| variable.ty.as_ref()),
            variable(of),
        ) {
            (Some((dtype, extents)), Some(viewed)) if viewed.varies() => {
                OperandKey::Type(*dtype, extents.clone())
            }
            (ty, viewed) => {
                let extents = ty.map_or(&[][..], |(_, extents)| extents);
                let elements = match viewed.map(|viewed| &viewed.storage) {
                    Some(SymbolicStorage::Sizes(elements)) => &elements[..],
                    _ => &[],
                };
                OperandKey::Elements(id, [extents, elements].concat())
            }
        }
    }

    /// The variables as the planner takes them.
    pub fn planned(&self, table: &Variables) -> Vec<PlannedVariable> {
        let variables = (0..).map(VariableId).zip(&self.0);
        let planned = variables.map(|(id, variable)| PlannedVariable {
            bytes: table
                .variable(id)
                .map_or(0, |variable| variable.size as usize),
            memory: match variable.storage {
                SymbolicStorage::Arena => VariableMemory::Arena,
                SymbolicStorage::ArenaView(of) => VariableMemory::View(of.0),
                SymbolicStorage::Known(Storage::View(of)) => VariableMemory::View(of.0),
                SymbolicStorage::Known(_) | SymbolicStorage::Sizes(_) => VariableMemory::Fixed,
            },
        });
        planned.collect()
    }

    /// The variables in the arena, views included.
    pub fn in_arena(&self) -> impl Iterator<Item = VariableId> {
        let variables = (0..).map(VariableId).zip(&self.0);
        let in_arena = variables.filter(|(_, variable)| {
            let storage = &variable.storage;
            matches!(
                storage,
                SymbolicStorage::Arena | SymbolicStorage::ArenaView(_)
            )
        });
        in_arena.map(|(id, _)| id)
    }
}

impl SymbolicVariable {
    /// Whether its elements differ between executions.
    fn varies(&self) -> bool {
        match &self.storage {
            SymbolicStorage::Arena | SymbolicStorage::ArenaView(_) => true,
            SymbolicStorage::Known(storage) => {
                matches!(storage, Storage::Input(_) | Storage::Output(_))
            }
            SymbolicStorage::Sizes(_) => false,
        }
    }

    fn fixed(&self, sizes: &[i64]) -> Result<Variable> {
        let ty = match &self.ty {
            Some((dtype, extents)) => Some(TensorType::new(*dtype, shape_for(extents, sizes)?)?),
            None => None,
        };
        let storage = match (&self.storage, &ty) {
            (SymbolicStorage::Known(storage), _) => storage.clone(),
            (SymbolicStorage::Sizes(elements), Some(ty)) => {
                Storage::Constant(size_tensor(ty, elements, sizes)?.buffer().clone())
            }
            _ => Storage::Arena { offset: 0 },
        };
        Ok(Variable {
            name: self.name.clone(),
            size: ty.as_ref().map_or(self.size, |ty| ty.bytes() as u64),
            storage,
            ty,
            prepared: self.prepared.clone(),
        })
    }
}
