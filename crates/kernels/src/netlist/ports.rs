//! The kernels of a netlist inside a package: variables become what the host pushes, what it would
//! pop becomes variables (docs/package.md, "Netlists").

use super::attributes::{flag, names, size_or, sizes};
use super::machine::Machine;
use super::program::{Body, control};
use super::queue::Feed;
use super::tensor::TileTensor;
use crate::{Memory, Variables, WorkloadBinding};
use std::sync::Arc;
use tenon_base::{Error, ErrorKind, Result};
use tenon_dma::VariableId;
use tenon_executor::{KernelDef, Opaque, Request, Signature, Site, Value};
use tenon_tensor::Tensor;

pub(super) fn kernels() -> Vec<KernelDef> {
    let signature = |functions| Signature {
        operands: vec![Machine::TYPE],
        functions: Some(functions),
        ..Signature::default()
    };
    vec![
        control(
            "netlist.call",
            signature(1),
            call,
            "Calls a function with the machine and numbers.",
        ),
        control(
            "netlist.load",
            signature(0),
            load,
            "Has the host push the entries of a variable, or fills slots of a ram with them.",
        ),
        control(
            "netlist.collect",
            signature(0),
            collect,
            "Keeps what is pushed to a queue.",
        ),
        control(
            "netlist.store",
            signature(0),
            store,
            "Writes the entries that a queue kept, or the slots of a ram, to a variable.",
        ),
    ]
}

fn call(site: &Site<'_>) -> Result<Body> {
    let params = site.attributes().i32s("params")?;
    Ok(Box::new(move |frame| {
        let machine = frame.object::<Machine>(0)?.clone();
        let numbers = params.iter().map(|&number| Value::I32(number));
        let arguments = [Value::opaque(machine)]
            .into_iter()
            .chain(numbers)
            .collect();
        // What is called stops when this execution is to stop.
        let request = Request::with(frame.host(), frame.control().clone(), false);
        frame
            .function(0)?
            .execute_sync(&request, arguments)
            .map(drop)
    }))
}

/// The variable that a kernel names.
fn variable(site: &Site<'_>) -> Result<VariableId> {
    let id = u32::try_from(site.attributes().i32("variable")?).ok();
    id.map(VariableId)
        .ok_or_else(|| Error::new(ErrorKind::InvalidProgram, "'variable' is negative"))
}

fn load(site: &Site<'_>) -> Result<Body> {
    let attributes = site.attributes();
    let queue = attributes.string("queue")?.to_owned();
    let ram = flag(attributes, "ram")?;
    let (tiles, tile): ([usize; 3], [usize; 2]) =
        (sizes(attributes, "tiles")?, sizes(attributes, "tile")?);
    let table = site.service::<Variables>()?;
    let binding = WorkloadBinding::new(&table, &[Some(variable(site)?)], &[], None)?;
    Ok(Box::new(move |frame| {
        let memory = frame.context::<Memory>()?;
        let entries = memory.operands(&binding, |operands| {
            let values: &[f32] = operands.input(0)?;
            let size = tiles.iter().chain(&tile).product::<usize>();
            if size == 0 || values.is_empty() || !values.len().is_multiple_of(size) {
                let text = format!("the entries of '{queue}' do not fill its variable");
                return Err(Error::new(ErrorKind::InvalidPackage, text)
                    .expected(format_args!("a multiple of {size} numbers"))
                    .found(values.len()));
            }
            let entry = |values: &[f32]| {
                let data = Tensor::from_slice([values.len()], values)?;
                TileTensor::from_tensor(tiles, tile, &data)
            };
            values.chunks(size).map(entry).collect::<Result<Vec<_>>>()
        })?;
        let count = entries.len() as u64;
        let zeros = TileTensor::zeroed(tiles, tile)?;
        let feed: Feed = Arc::new(move |number| {
            // Slots of a ram that were not given are zeros; a host pushes from the start again.
            Ok(match ram && number >= count {
                true => zeros.clone(),
                false => entries[(number % count) as usize].clone(),
            })
        });
        frame.object::<Machine>(0)?.feed(&queue, feed)
    }))
}

fn collect(site: &Site<'_>) -> Result<Body> {
    let drained = names(site.attributes(), "drained")?;
    let kept = names(site.attributes(), "kept")?;
    Ok(Box::new(move |frame| {
        let machine = frame.object::<Machine>(0)?;
        for queue in &drained {
            machine.collect(queue, true)?;
        }
        kept.iter()
            .try_for_each(|queue| machine.collect(queue, false))
    }))
}

fn store(site: &Site<'_>) -> Result<Body> {
    let attributes = site.attributes();
    let queue = attributes.string("queue")?.to_owned();
    let slots = size_or(attributes, "slots", 0)?;
    let table = site.service::<Variables>()?;
    let binding = WorkloadBinding::new(&table, &[], &[Some(variable(site)?)], None)?;
    Ok(Box::new(move |frame| {
        let machine = frame.object::<Machine>(0)?;
        let entries = match slots {
            0 => machine.take_outputs(&queue)?,
            _ => {
                let slots = (0..slots).map(|slot| machine.slot(&queue, slot));
                slots.filter_map(Result::transpose).collect::<Result<_>>()?
            }
        };
        frame.context::<Memory>()?.operands(&binding, |operands| {
            let (_, mut outputs) = operands.split();
            let to = outputs.slice::<f32>(0)?;
            let found: usize = entries.iter().map(|entry| entry.values().len()).sum();
            if found != to.len() {
                let text = format!("queue '{queue}' got another number of entries than planned");
                return Err(Error::new(ErrorKind::ExecutionFailed, text)
                    .expected(format_args!("{} numbers", to.len()))
                    .found(found));
            }
            let mut rest = to;
            for entry in &entries {
                let (now, later) = rest.split_at_mut(entry.values().len());
                now.copy_from_slice(entry.values());
                rest = later;
            }
            Ok(())
        })
    }))
}
