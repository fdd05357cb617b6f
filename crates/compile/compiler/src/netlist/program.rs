//! Lowering of programs: a function of straight-line instructions, and one for each loop body
//! (netlist 6.4).

use super::epoch::MACHINE;
use super::ops::invalid;
use super::{Scope, error_at};
use std::collections::{BTreeSet, HashMap};
use tenon_base::{Error, Result};
use tenon_bef::{
    Attribute, FunctionBuilder, FunctionId, FunctionKind, KernelBuilder, Module, RegisterId,
};
use tenon_netlist::{Instruction, Operand, Program, QueueSetting, SettingKey, Span, Spanned};

const RUN: &str = "!netlist.run";

/// The function of an epoch.
#[derive(Debug, Clone)]
pub(super) struct LoweredEpoch {
    pub function: FunctionId,
    /// Inputs that one execute takes.
    pub inputs: u32,
    /// The queues that it reads.
    pub reads: Vec<String>,
    /// Its graphs.
    pub graphs: Vec<String>,
    /// The devices that they are on.
    pub devices: BTreeSet<u32>,
}

/// The name of a program's function.
pub(super) fn function_name(program: &str) -> String {
    format!("program.{program}")
}

/// Lowers a program; returns its parameters.
pub(super) fn program(
    scope: &Scope<'_>,
    program: &Program,
    epochs: &HashMap<String, LoweredEpoch>,
    module: &mut Module,
) -> Result<Vec<String>> {
    let params: Vec<String> = match program.instructions.first().map(|first| &first.value) {
        Some(Instruction::Param(names)) => names.iter().map(|name| name.value.clone()).collect(),
        _ => Vec::new(),
    };
    let name = function_name(&program.name.value);
    let mut main = FunctionBuilder::new(&name, FunctionKind::Sync);
    let machine = main.argument(MACHINE);
    let values: Vec<RegisterId> = params.iter().map(|_| main.argument("i32")).collect();
    let names: Vec<&str> = params.iter().map(String::as_str).collect();
    let run = main
        .kernel("netlist.begin")
        .operands([machine].into_iter().chain(values))
        .attribute("program", program.name.value.as_str())
        .attribute("params", names_attribute(&names))
        .location(scope.location(program.name.span))
        .result(RUN);
    let mut lowering = Lowering {
        scope,
        epochs,
        module,
        name: name.clone(),
        loops: 0,
        pending: Vec::new(),
        ready: Vec::new(),
        merged: HashMap::new(),
        errors: Vec::new(),
    };
    let mut body = Body {
        function: main,
        run,
    };
    let mut instructions = program.instructions.iter();
    lowering.block(&mut body, &mut instructions, None)?;
    Error::from_all(lowering.errors).map_or(Ok(()), Err)?;
    module.add(body.function.returns([]));
    Ok(params)
}

/// The name of the function that runs the epoch of a graph by itself.
pub(super) fn eager_name(graph: &str) -> String {
    format!("eager.{graph}")
}

/// Adds a function that runs an epoch once, without a program: every queue streams.
pub(super) fn eager(graph: &str, epoch: &LoweredEpoch, module: &mut Module) {
    let mut function = FunctionBuilder::new(eager_name(graph), FunctionKind::Sync);
    let machine = function.argument(MACHINE);
    let run = function
        .kernel("netlist.begin")
        .operands([machine])
        .attribute("program", graph)
        .attribute("params", names_attribute::<&str>(&[]))
        .result(RUN);
    let kernel = function.kernel("netlist.execute").operands([run]);
    execute_attributes(kernel, epoch).done();
    module.add(function.returns([]));
}

/// The attributes of `netlist.execute` for an epoch.
pub(super) fn execute_attributes<'k>(
    kernel: KernelBuilder<'k>,
    epoch: &LoweredEpoch,
) -> KernelBuilder<'k> {
    kernel
        .attribute("inputs", i64::from(epoch.inputs))
        .attribute("reads", names_attribute(&epoch.reads))
        .attribute("graphs", names_attribute(&epoch.graphs))
        .function("epoch", epoch.function)
}

pub(super) fn names_attribute<N: AsRef<str>>(names: &[N]) -> Attribute {
    let names = names.iter().map(|name| Attribute::from(name.as_ref()));
    Attribute::list(names.collect())
}

/// A function under construction.
pub(super) struct Body {
    function: FunctionBuilder,
    run: RegisterId,
}

pub(super) struct Lowering<'l> {
    pub scope: &'l Scope<'l>,
    epochs: &'l HashMap<String, LoweredEpoch>,
    pub module: &'l mut Module,
    name: String,
    loops: usize,
    /// Executed graphs of an epoch that is not complete yet.
    pending: Vec<String>,
    /// Complete epochs that are not emitted yet, because others may run concurrently with them.
    pub ready: Vec<(LoweredEpoch, Span)>,
    /// Concurrent epochs merged into one, by their graphs; `None` where their ops form a cycle.
    pub merged: HashMap<Vec<String>, Option<LoweredEpoch>>,
    errors: Vec<Error>,
}

impl Lowering<'_> {
    /// Lowers instructions up to the end of the program, or of the loop that starts at `loop_start`.
    fn block<'p>(
        &mut self,
        body: &mut Body,
        instructions: &mut impl Iterator<Item = &'p Spanned<Instruction>>,
        loop_start: Option<Span>,
    ) -> Result<()> {
        while let Some(instruction) = instructions.next() {
            let span = instruction.span;
            let is_execute = matches!(instruction.value, Instruction::Execute { .. });
            if !is_execute && self.pending.is_empty() {
                self.run_ready(body);
            }
            match &instruction.value {
                Instruction::EndLoop if loop_start.is_some() => return Ok(()),
                Instruction::EndLoop => {
                    let text = "endloop without a loop";
                    return Err(error_at(self.scope.source, span, text));
                }
                Instruction::Loop(count) => {
                    let function = self.body_of_loop(instructions, span)?;
                    self.kernel(body, "netlist.loop", span, |kernel| {
                        kernel
                            .attribute("count", operand(&count.value))
                            .function("body", function)
                    });
                }
                Instruction::EndProgram => break,
                other => self.instruction(body, other, span),
            }
        }
        self.run_ready(body);
        match loop_start {
            None => Ok(()),
            Some(span) => Err(error_at(self.scope.source, span, "a loop without endloop")),
        }
    }

    fn body_of_loop<'p>(
        &mut self,
        instructions: &mut impl Iterator<Item = &'p Spanned<Instruction>>,
        span: Span,
    ) -> Result<FunctionId> {
        self.loops += 1;
        let name = format!("{}.loop{}", self.name, self.loops);
        let mut function = FunctionBuilder::new(name, FunctionKind::Sync);
        let run = function.argument(RUN);
        let mut body = Body { function, run };
        // Type erasure: a generic argument would make the recursion instantiate without end.
        let instructions: &mut dyn Iterator<Item = &'p Spanned<Instruction>> = instructions;
        let mut instructions = instructions;
        self.block(&mut body, &mut instructions, Some(span))?;
        Ok(self.module.add(body.function.returns([])))
    }

    pub(super) fn kernel(
        &self,
        body: &mut Body,
        name: &str,
        span: Span,
        with: impl for<'k> FnOnce(KernelBuilder<'k>) -> KernelBuilder<'k>,
    ) {
        let run = body.run;
        let kernel = body.function.kernel(name).operands([run]);
        with(kernel).location(self.scope.location(span)).done();
    }

    /// Lowers an instruction without control flow.
    fn instruction(&mut self, body: &mut Body, instruction: &Instruction, span: Span) {
        match instruction {
            Instruction::Var(variables) => self.declare(body, "netlist.var", variables),
            Instruction::StaticVar(variables) => self.declare(body, "netlist.staticvar", variables),
            Instruction::VarInst {
                output,
                operation,
                operands,
            } => self.kernel(body, "netlist.varinst", span, |kernel| {
                let kernel = kernel
                    .attribute("output", output.value.as_str())
                    .attribute("operation", operation.value.name());
                let named = ["a", "b"].into_iter().zip(operands);
                named.fold(kernel, |kernel, (name, value)| {
                    kernel.attribute(name, operand(&value.value))
                })
            }),
            Instruction::AllocateQueue(queues) => {
                self.queues(body, "netlist.allocate", queues, span)
            }
            Instruction::DeallocateQueue(queues) => {
                self.queues(body, "netlist.deallocate", queues, span);
            }
            Instruction::Execute { graph, settings } => self.execute(body, graph, settings),
            Instruction::Param(_)
            | Instruction::Loop(_)
            | Instruction::EndLoop
            | Instruction::EndProgram => {}
        }
    }

    fn declare(
        &self,
        body: &mut Body,
        kernel: &str,
        variables: &[(Spanned<String>, Spanned<Operand>)],
    ) {
        for (name, value) in variables {
            self.kernel(body, kernel, name.span, |kernel| {
                kernel
                    .attribute("name", name.value.as_str())
                    .attribute("value", operand(&value.value))
            });
        }
    }

    fn queues(&self, body: &mut Body, kernel: &str, queues: &[Spanned<String>], span: Span) {
        let names: Vec<&str> = queues.iter().map(|queue| queue.value.as_str()).collect();
        self.kernel(body, kernel, span, |kernel| {
            kernel.attribute("queues", names_attribute(&names))
        });
    }

    /// Lowers the settings of one graph; with the last of its graphs an epoch is ready.
    fn execute(&mut self, body: &mut Body, graph: &Spanned<String>, settings: &[QueueSetting]) {
        let Some(epoch) = self.epochs.get(&graph.value) else {
            let text = format!("there is no graph '{}'", graph.value);
            self.errors
                .push(error_at(self.scope.source, graph.span, text));
            return;
        };
        let epoch = epoch.clone();
        if !self.is_concurrent(&epoch) {
            self.run_ready(body);
        }
        for setting in settings {
            if !self.scope.queues.contains_key(setting.queue.value.as_str()) {
                let text = format!("there is no queue '{}'", setting.queue.value);
                self.errors
                    .push(error_at(self.scope.source, setting.queue.span, text));
                continue;
            }
            self.kernel(body, "netlist.setting", setting.queue.span, |kernel| {
                let kernel = kernel
                    .attribute("queue", setting.queue.value.as_str())
                    .attribute("graph", graph.value.as_str());
                let fields = SettingKey::ALL.iter().filter_map(|&key| {
                    let value = setting.find(key)?;
                    Some((key.name(), operand(&value.value)))
                });
                kernel.attributes(fields)
            });
        }
        self.pending.push(graph.value.clone());
        if !epoch
            .graphs
            .iter()
            .all(|graph| self.pending.contains(graph))
        {
            return;
        }
        self.pending.retain(|graph| !epoch.graphs.contains(graph));
        self.ready.push((epoch, graph.span));
    }
}

/// An operand as an attribute: an integer, or the name of a variable.
fn operand(operand: &Operand) -> Attribute {
    match operand {
        Operand::Immediate(value) => Attribute::I64(*value),
        Operand::Variable(name) => name.as_str().into(),
    }
}

/// The input count of an epoch, which all of its graphs must have.
pub(super) fn inputs_of(graphs: &[&tenon_netlist::Graph]) -> Result<u32> {
    let counts: Vec<u32> = graphs.iter().map(|graph| graph.input_count.value).collect();
    match counts.first() {
        Some(&first) if counts.iter().all(|&count| count == first) => Ok(first),
        _ => Err(invalid("graphs of one epoch differ in their input_count")
            .expected("the same input_count")
            .found(format_args!("{counts:?}"))),
    }
}
