//! The kernels of programs: variables, loops, settings, executes (netlist 6.4).

use super::attributes::{Operand, names, operand, optional_operand, wrong};
use super::epoch;
use super::machine::{Machine, MachineLimits};
use super::op::at_op;
use super::run::{ProgramRun, QueueFields};
use super::tensor::TileTensor;
use std::collections::HashMap;
use tenon_base::{Error, ErrorKind, Result};
use tenon_executor::{Frame, Kernel, KernelDef, Opaque, Signature, Site, Value, kernel};
use tenon_tile::{Operation, SettingKey, Word};

const RUN: &str = ProgramRun::TYPE;
const MACHINE: &str = Machine::TYPE;

pub(super) fn kernels() -> Vec<KernelDef> {
    let one = |results| Signature {
        operands: vec![RUN],
        results,
        functions: Some(0),
        ..Signature::default()
    };
    let calls = || Signature {
        functions: Some(1),
        ..one(vec![])
    };
    let begin = Signature {
        operands: vec![MACHINE],
        variadic: true,
        results: vec![RUN],
        functions: Some(0),
        ..Signature::default()
    };
    vec![
        kernel("netlist.machine", || Machine::new(MachineLimits::default()))
            .doc("A machine without queues."),
        control("netlist.begin", begin, begin_run)
            .doc("Starts a run of a program with its parameters."),
        control("netlist.var", one(vec![]), variable).doc("Declares a variable of the run."),
        control("netlist.staticvar", one(vec![]), static_variable)
            .doc("Declares a variable that keeps its value between runs."),
        control("netlist.varinst", one(vec![]), varinst)
            .doc("Computes a variable, and updates the queue fields that are bound to it."),
        control("netlist.loop", calls(), r#loop).doc("Calls the function `count` times."),
        control("netlist.allocate", one(vec![]), allocate).doc("Allocates queues: they are empty."),
        control("netlist.deallocate", one(vec![]), deallocate).doc("Deallocates queues."),
        control("netlist.setting", one(vec![]), setting)
            .doc("Sets the pointers and flags of a queue for the next execute."),
        control("netlist.execute", calls(), epoch::execute).doc(
            "Applies the settings, calls the function of an epoch once for each input, and moves \
             the pointers of the queues that it reads.",
        ),
        control(
            "netlist.together",
            Signature {
                functions: None,
                ..one(vec![])
            },
            epoch::together,
        )
        .doc("Executes epochs as one where no op starves, else in sequence."),
    ]
}

pub(super) type Body = Box<dyn Fn(&mut Frame<'_>) -> Result<()> + Send + Sync>;

/// A kernel whose `bind` returns the function to run.
pub(super) fn control(
    name: &'static str,
    signature: Signature,
    bind: fn(&Site<'_>) -> Result<Body>,
) -> KernelDef {
    KernelDef::new(name, signature, move |site| {
        Ok(Box::new(Control(bind(site)?)))
    })
}

struct Control(Body);

impl Kernel for Control {
    fn run(&self, frame: &mut Frame<'_>) -> Result<()> {
        (self.0)(frame).map_err(|error| at_op(error, frame.location(), ""))
    }
}

fn begin_run(site: &Site<'_>) -> Result<Body> {
    let program = site.attributes().string("program")?.to_owned();
    let params = names(site.attributes(), "params")?;
    Ok(Box::new(move |frame| {
        let machine = frame.object::<Machine>(0)?.clone();
        let mut values = HashMap::new();
        for (index, name) in params.iter().enumerate() {
            values.insert(name.clone(), frame.read::<i32>(index + 1)?);
        }
        let run = ProgramRun::new(machine, program.clone(), values);
        frame.set(0, Value::opaque(run));
        Ok(())
    }))
}

fn variable(site: &Site<'_>) -> Result<Body> {
    let name = site.attributes().string("name")?.to_owned();
    let value = operand(site.attributes(), "value")?;
    Ok(Box::new(move |frame| {
        frame.object::<ProgramRun>(0)?.declare(&name, &value)
    }))
}

fn static_variable(site: &Site<'_>) -> Result<Body> {
    let name = site.attributes().string("name")?.to_owned();
    let value = operand(site.attributes(), "value")?;
    Ok(Box::new(move |frame| {
        frame.object::<ProgramRun>(0)?.declare_static(&name, &value)
    }))
}

fn varinst(site: &Site<'_>) -> Result<Body> {
    let attributes = site.attributes();
    let output = attributes.string("output")?.to_owned();
    let name = attributes.string("operation")?;
    let operation = Operation::from_word(name)
        .ok_or_else(|| wrong("operation", &Operation::choices()).found(name))?;
    let mut operands = vec![operand(attributes, "a")?];
    operands.extend(optional_operand(attributes, "b")?);
    Ok(Box::new(move |frame| {
        let run = frame.object::<ProgramRun>(0)?;
        run.step()?;
        run.compute(&output, operation, &operands)
    }))
}

fn r#loop(site: &Site<'_>) -> Result<Body> {
    let count = operand(site.attributes(), "count")?;
    Ok(Box::new(move |frame| {
        let body = frame.function(0)?;
        let run = frame.object::<ProgramRun>(0)?;
        let iterations = run.value(&count)?;
        if iterations < 1 {
            let what = match &count {
                Operand::Variable(name) => format!("a loop of {name} iterations"),
                Operand::Number(_) => "a loop".to_owned(),
            };
            let text = format!("{what} has no iterations");
            return Err(Error::new(ErrorKind::InvalidModel, text)
                .expected("at least 1")
                .found(iterations));
        }
        for _ in 0..iterations {
            run.step()?;
            frame.control().check()?;
            body.execute_sync(frame.request(), vec![frame.operand(0).clone()])?;
        }
        Ok(())
    }))
}

fn allocate(site: &Site<'_>) -> Result<Body> {
    let queues = names(site.attributes(), "queues")?;
    Ok(Box::new(move |frame| {
        frame.object::<ProgramRun>(0)?.allocate(&queues)
    }))
}

fn deallocate(site: &Site<'_>) -> Result<Body> {
    let queues = names(site.attributes(), "queues")?;
    Ok(Box::new(move |frame| {
        frame.object::<ProgramRun>(0)?.deallocate(&queues);
        Ok(())
    }))
}

fn setting(site: &Site<'_>) -> Result<Body> {
    let attributes = site.attributes();
    let queue = attributes.string("queue")?.to_owned();
    let graph = attributes.string("graph")?.to_owned();
    let mut fields = Vec::new();
    for &key in SettingKey::ALL {
        if let Some(value) = optional_operand(attributes, key.name())? {
            fields.push((key, value));
        }
    }
    let setting = QueueFields {
        graph,
        queue,
        fields,
    };
    Ok(Box::new(move |frame| {
        frame.object::<ProgramRun>(0)?.setting(setting.clone());
        Ok(())
    }))
}

/// The kernels that read and write queues in graphs.
pub(super) fn queue_kernels() -> Vec<KernelDef> {
    let machine = |rest: &[&'static str], results: Vec<&'static str>| Signature {
        operands: [&[MACHINE], rest].concat(),
        variadic: true,
        results,
        functions: Some(0),
        ..Signature::default()
    };
    let (tensor, chain) = (TileTensor::TYPE, "!tfrt.chain");
    vec![
        control("netlist.queue", machine(&[], vec![]), super::declare::bind)
            .doc("Adds a queue or ram to the machine."),
        control("netlist.read", machine(&[], vec![tensor, chain]), read)
            .doc("The next entry of a queue; pointers do not move."),
        control("netlist.push", machine(&[tensor], vec![chain]), push)
            .doc("Writes an entry to a queue or ram."),
        control("netlist.sum", machine(&[], vec![tensor]), sum)
            .doc("The accumulated gradient of an op; an empty tensor where there is none."),
        control("netlist.keep", machine(&[tensor], vec![chain]), keep)
            .doc("Stores the accumulated gradient of an op."),
    ]
}

fn read(site: &Site<'_>) -> Result<Body> {
    let queue = site.attributes().string("queue")?.to_owned();
    let node = site.attributes().string("node")?.to_owned();
    Ok(Box::new(move |frame| {
        let machine = frame.object::<Machine>(0)?;
        let entry = machine.read(&queue, frame.request().control());
        let entry = entry.map_err(|error| at_op(error, frame.location(), &node))?;
        frame.set(0, Value::opaque(entry));
        frame.set(1, Value::Chain);
        Ok(())
    }))
}

fn push(site: &Site<'_>) -> Result<Body> {
    let queue = site.attributes().string("queue")?.to_owned();
    let node = site.attributes().string("node")?.to_owned();
    Ok(Box::new(move |frame| {
        let machine = frame.object::<Machine>(0)?;
        let entry = frame.object::<TileTensor>(1)?.clone();
        let written = machine.write(&queue, entry, frame.request().control());
        written.map_err(|error| at_op(error, frame.location(), &node))?;
        frame.set(0, Value::Chain);
        Ok(())
    }))
}

fn sum(site: &Site<'_>) -> Result<Body> {
    let node = site.attributes().string("node")?.to_owned();
    Ok(Box::new(move |frame| {
        let sum = frame.object::<Machine>(0)?.sum(&node);
        let sum = sum.map_or_else(TileTensor::empty, Ok)?;
        frame.set(0, Value::opaque(sum));
        Ok(())
    }))
}

fn keep(site: &Site<'_>) -> Result<Body> {
    let node = site.attributes().string("node")?.to_owned();
    Ok(Box::new(move |frame| {
        let sum = frame.object::<TileTensor>(1)?;
        frame.object::<Machine>(0)?.set_sum(&node, sum);
        frame.set(0, Value::Chain);
        Ok(())
    }))
}
