//! From a package to a model.

use crate::arenas::Arenas;
use crate::model::Inner;
use crate::{Model, Runtime, Signature};
use std::collections::BTreeMap;
use std::sync::Arc;
use tenon_base::{Control, Error, ErrorKind, Location, Result, pool};
use tenon_bef::decode;
use tenon_dma::VariableId;
use tenon_executor::{Program, Services};
use tenon_kernels::{
    Movements, PreparedForm, Storage, Variable, Variables, accesses, verify_order,
};
use tenon_neff::{Contents, Package, PackageVariable, Port, Role, TenonMember};
use tenon_tensor::{DataType, TensorType};

/// How a model is loaded.
#[derive(Debug, Clone)]
pub struct LoadOptions {
    /// Progress, cancel and deadline of the load.
    pub control: Control,
    /// Threads that one execution uses at most; all CPUs when `None`.
    pub threads: Option<usize>,
    /// Executions at a time for which memory is made at load.
    pub in_flight: usize,
    /// Executions at a time at most; memory for those beyond `in_flight` is made when first needed,
    /// more executions wait.
    pub max_in_flight: usize,
}

impl Default for LoadOptions {
    /// One execution at a time without waiting, as many as there are CPUs at most.
    fn default() -> Self {
        Self {
            control: Control::new(),
            threads: None,
            in_flight: 1,
            max_in_flight: std::thread::available_parallelism().map_or(1, |count| count.get()),
        }
    }
}

impl Model {
    /// Loads a package. Its constants stay where they lie in the mapped file.
    ///
    /// # Errors
    /// A package of another compiler, a malformed one, or one that needs backends or kernels that
    /// the runtime does not have. All problems of the program are told together.
    pub fn load(runtime: &Runtime, package: &Package, options: &LoadOptions) -> Result<Self> {
        let load = || load_contents(runtime, Contents::read(package)?, options);
        let loaded = match options.threads {
            Some(limit) => pool::with_thread_limit(limit, load),
            None => load(),
        };
        loaded.map_err(|error| match package.path() {
            Some(path) => error.at(Location::file(path)),
            None => error,
        })
    }
}

fn load_contents(runtime: &Runtime, contents: Contents, options: &LoadOptions) -> Result<Model> {
    let control = &options.control;
    let Contents {
        variables,
        movements,
        program,
        tenon,
        ..
    } = contents;
    control.progress("variables", 0, 0)?;
    let inputs = signatures("inputs", &tenon.inputs)?;
    let outputs = signatures("outputs", &tenon.outputs)?;
    let table = Arc::new(table(variables, &tenon)?);
    control.progress("program", 0, 0)?;
    let module = decode(&program).map_err(|error| error.at(Location::member(PROGRAM)))?;
    drop(program);
    let movements = movements
        .into_iter()
        .map(|movement| (movement.id, movement.descriptors));
    let movements = Arc::new(Movements::from_iter(movements));
    let services = Services::new()
        .with(table.clone())
        .with(movements.clone())
        .with(runtime.backends.clone());
    let program = Program::decode(&module, &runtime.kernels, &services)
        .and_then(|program| {
            verify_order(&module, |kernel| accesses(kernel, &table, &movements))?;
            Ok((main(&program)?, program))
        })
        .map_err(|error| error.at(Location::member(PROGRAM)));
    let (main, program) = program?;
    control.progress("memory", 0, 0)?;
    let arenas = Arenas::new(
        table,
        &program.functions()[main],
        options.in_flight,
        options.max_in_flight,
    )?;
    Ok(Model(Arc::new(Inner {
        name: tenon.model.name.clone(),
        inputs,
        outputs,
        program,
        main,
        arenas,
        threads: options.threads,
        member: tenon,
        uncontrolled: Control::new(),
    })))
}

/// Where the program lies, for messages.
const PROGRAM: &str = "sg00/program.bef";

/// Where the types of variables stand, for messages.
const MEMBER: &str = "sg00/tenon.json";

/// The function that executes the model.
fn main(program: &Program) -> Result<usize> {
    let found = program
        .functions()
        .iter()
        .position(|function| function.name() == "main");
    let main =
        found.ok_or_else(|| Error::new(ErrorKind::NotFound, "there is no function @main"))?;
    let function = &program.functions()[main];
    let registers = function.registers();
    if function.arguments() > 0 || function.results(&registers).next().is_some() {
        return Err(invalid(
            "@main has arguments or results, which nobody gives or takes",
        ));
    }
    Ok(main)
}

/// The table of variables: those of `def.json` with the types of `tenon.json`. That ports and
/// variables fit each other was checked when the package was read.
fn table(variables: Vec<PackageVariable>, member: &TenonMember) -> Result<Variables> {
    let place = |field| Location {
        field: Some(field),
        ..Location::member(MEMBER)
    };
    let mut errors = Vec::new();
    let mut types = BTreeMap::new();
    let mut views = BTreeMap::new();
    for info in &member.variables {
        match TensorType::new(info.dtype, info.shape.as_slice()) {
            Ok(ty) => drop(types.insert(info.var_id, ty)),
            Err(error) => errors.push(error.at(place(format!("variable {}", info.var_id.0)))),
        }
        views.extend(info.view_of.map(|of| (info.var_id, of)));
    }
    let mut forms: BTreeMap<VariableId, PreparedForm> = member
        .constants
        .iter()
        .filter_map(|info| {
            let form = info.prepared.as_ref()?;
            let form = PreparedForm {
                of: form.of,
                backend: form.backend.clone(),
                layout: form.layout.clone(),
            };
            Some((info.var_id, form))
        })
        .collect();
    let positions = |ports: &[Port]| -> BTreeMap<VariableId, usize> {
        ports
            .iter()
            .enumerate()
            .map(|(position, port)| (port.var_id, position))
            .collect()
    };
    let (inputs, outputs) = (positions(&member.inputs), positions(&member.outputs));
    let mut all = Vec::with_capacity(variables.len());
    for (index, variable) in variables.into_iter().enumerate() {
        let id = VariableId(index as u32);
        let missing = |what: &str| {
            invalid(format!("it is not among the {what}"))
                .at(place(format!("variable '{}'", variable.name)))
        };
        let storage = match variable.role {
            Role::Input => inputs
                .get(&id)
                .map(|&at| Storage::Input(at))
                .ok_or("inputs"),
            Role::Output => outputs
                .get(&id)
                .map(|&at| Storage::Output(at))
                .ok_or("outputs"),
            Role::Constant(bytes) => Ok(Storage::Constant(bytes)),
            Role::Absent => Ok(Storage::Absent),
            Role::View => views.get(&id).map(|&of| Storage::View(of)).ok_or("views"),
            Role::Arena { offset } => Ok(Storage::Arena { offset }),
        };
        match storage.map_err(missing) {
            Ok(storage) => all.push(Variable {
                name: variable.name,
                size: variable.size,
                storage,
                ty: types.remove(&id),
                prepared: forms.remove(&id),
            }),
            Err(error) => errors.push(error),
        }
    }
    Error::from_all(errors).map_or(Ok(()), Err)?;
    Variables::new(all)
}

fn signatures(what: &str, ports: &[Port]) -> Result<Vec<Signature>> {
    let mut errors = Vec::new();
    let mut signatures = Vec::with_capacity(ports.len());
    for port in ports {
        let ty =
            TensorType::new(port.dtype, port.shape.as_slice()).and_then(|ty| match ty.dtype() {
                DataType::String => Err(Error::new(ErrorKind::Unsupported, "a tensor of strings")),
                _ => Ok(ty),
            });
        match ty {
            Ok(ty) => signatures.push(Signature {
                name: port.name.clone(),
                ty,
            }),
            Err(error) => {
                let field = Some(format!("{what} '{}'", port.name));
                errors.push(error.at(Location {
                    field,
                    ..Location::member(MEMBER)
                }));
            }
        }
    }
    Error::from_all(errors).map_or(Ok(signatures), Err)
}

fn invalid(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::InvalidPackage, message)
}
