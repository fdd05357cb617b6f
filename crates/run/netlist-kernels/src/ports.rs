//! The kernels of a netlist inside a package: variables are the entries that the host pushes, and the
//! entries that it would pop are stored in variables (docs/package.md, "Netlists").

use super::attributes::{flag, names, optional_format, size_or, sizes};
use super::convert::round_to_format;
use super::declare::DeclaredQueues;
use super::machine::Machine;
use super::program::{Body, control};
use super::queue::EntrySource;
use super::tensor::TileTensor;
use std::sync::Arc;
use tenon_base::{Error, ErrorKind, Result};
use tenon_dma::VariableId;
use tenon_executor::{KernelDef, Opaque, Request, Signature, Site, Value};
use tenon_kernels::{Memory, Variables, WorkloadBinding};
use tenon_tensor::{DataType, Tensor, TensorType};
use tenon_tile::DataFormat;

pub(super) fn kernels() -> Vec<KernelDef> {
    let signature = |functions| Signature {
        operands: vec![Machine::TYPE],
        functions: Some(functions),
        ..Signature::default()
    };
    vec![
        control("netlist.call", signature(1), call)
            .doc("Calls a function with the machine and integers."),
        control("netlist.load", signature(0), load).doc(
            "Pushes the entries of a variable as the host, or fills the slots of a ram with them.",
        ),
        control("netlist.collect", signature(0), collect)
            .doc("Stores the entries that are pushed to queues as outputs."),
        control("netlist.store", signature(0), store)
            .doc("Writes the outputs of a queue, or the slots of a ram, to a variable."),
    ]
}

fn call(site: &Site<'_>) -> Result<Body> {
    let params = site.attributes().i32s("params")?;
    Ok(Box::new(move |frame| {
        let machine = frame.object::<Machine>(0)?.clone();
        let params = params.iter().map(|&param| Value::I32(param));
        let arguments = [Value::opaque(machine)].into_iter().chain(params).collect();
        // The called function has this execution's control, and stops with it.
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

/// The shape of the entries of a queue.
struct Entry {
    queue: String,
    tiles: [usize; 3],
    tile: [usize; 2],
}

impl Entry {
    /// Checks that an array has whole entries, and at least one; returns the elements of an entry.
    fn check(&self, ty: &TensorType) -> Result<usize> {
        let mut sizes = self.tiles.iter().chain(&self.tile);
        let size = sizes.try_fold(1usize, |all, &size| all.checked_mul(size));
        let size = size.unwrap_or(usize::MAX);
        let found = ty.elements();
        let is_whole = size > 0 && found > 0 && found.is_multiple_of(size);
        if !is_whole || ty.dtype() != DataType::F32 {
            let text = format!("the entries of '{}' do not fill its variable", self.queue);
            return Err(Error::new(ErrorKind::InvalidPackage, text)
                .expected(format_args!("a multiple of {size} elements of f32"))
                .found(ty));
        }
        Ok(size)
    }

    /// The consecutive entries of an array, as views of its memory.
    fn all_of(&self, array: &Tensor) -> Result<Vec<TileTensor>> {
        let size = self.check(array.ty())?;
        let found = array.shape().elements();
        let bytes = size * size_of::<f32>();
        let starts = (0..found / size).map(|index| index * bytes);
        starts
            .filter_map(|start| array.buffer().slice(start..start + bytes))
            .map(|part| {
                let data = Tensor::new(TensorType::new(array.dtype(), [size])?, part)?;
                TileTensor::from_tensor(self.tiles, self.tile, &data)
            })
            .collect()
    }
}

fn load(site: &Site<'_>) -> Result<Body> {
    let attributes = site.attributes();
    let ram = flag(attributes, "ram")?;
    let entry = Entry {
        queue: attributes.string("queue")?.to_owned(),
        tiles: sizes(attributes, "tiles")?,
        tile: sizes(attributes, "tile")?,
    };
    let table = site.service::<Variables>()?;
    let id = variable(site)?;
    let declared = site.service::<DeclaredQueues>()?.find(&entry.queue)?;
    if (ram, entry.tiles, entry.tile) != (declared.is_ram, declared.tiles, declared.tile) {
        let text = format!(
            "the entries loaded into '{}' differ from it in shape",
            entry.queue
        );
        return Err(Error::new(ErrorKind::InvalidProgram, text)
            .expected(format_args!(
                "{:?} tiles of {:?}",
                declared.tiles, declared.tile
            ))
            .found(format_args!("{:?} tiles of {:?}", entry.tiles, entry.tile)));
    }
    entry.check(table.ty(id)?)?;
    // Constants of a package are rounded when compiling.
    let format = optional_format(attributes, "format")?.unwrap_or(DataFormat::Float32);
    let binding = WorkloadBinding::new(&table, &[Some(id)], &[], None)?;
    // Entries of a constant are the same memory in every execution, so that kernels can cache results
    // that depend on them alone.
    let constant = table.constant(id).map(|bytes| {
        let array = Tensor::new(table.ty(id)?.clone(), bytes.clone())?;
        entry.all_of(&array).map(Arc::<[TileTensor]>::from)
    });
    let constant = constant.transpose()?;
    Ok(Box::new(move |frame| {
        let entries = match &constant {
            Some(entries) => entries.clone(),
            None => frame.context::<Memory>()?.operands(&binding, |operands| {
                let values: &[f32] = operands.input(0)?;
                let array = Tensor::from_slice([values.len()], values)?;
                let entries = entry.all_of(&array)?;
                entries
                    .iter()
                    .map(|entry| round_to_format(entry, format))
                    .collect()
            })?,
        };
        let count = entries.len() as u64;
        let zeros = TileTensor::zeroed(entry.tiles, entry.tile)?;
        let source: EntrySource = Arc::new(move |index| {
            // Slots of a ram beyond the variable are zeros; the entries of a queue repeat.
            if ram && index >= count {
                return Ok(zeros.clone());
            }
            Ok(entries[(index % count) as usize].clone())
        });
        frame.object::<Machine>(0)?.feed(&entry.queue, source)
    }))
}

fn collect(site: &Site<'_>) -> Result<Body> {
    let drained = names(site.attributes(), "drained")?;
    let recorded = names(site.attributes(), "kept")?;
    Ok(Box::new(move |frame| {
        let machine = frame.object::<Machine>(0)?;
        for queue in &drained {
            machine.collect(queue, true)?;
        }
        recorded
            .iter()
            .try_for_each(|queue| machine.collect(queue, false))
    }))
}

fn store(site: &Site<'_>) -> Result<Body> {
    let attributes = site.attributes();
    let queue = attributes.string("queue")?.to_owned();
    let slots = size_or(attributes, "slots", 0)?;
    let table = site.service::<Variables>()?;
    let id = variable(site)?;
    let declared = site.service::<DeclaredQueues>()?.find(&queue)?;
    let elements = table.ty(id)?.shape().elements();
    let of_ram = slots > 0;
    let slots_fit = !of_ram || slots <= declared.entries && slots == elements / declared.elements;
    if of_ram != declared.is_ram || !slots_fit || !elements.is_multiple_of(declared.elements) {
        let text = format!("the variable of queue '{queue}' does not hold entries of it");
        let kind = if declared.is_ram {
            "slots of a ram"
        } else {
            "entries of a queue"
        };
        return Err(Error::new(ErrorKind::InvalidProgram, text)
            .expected(format_args!(
                "at most {} {kind} of {} elements",
                declared.entries, declared.elements
            ))
            .found(format_args!("{slots} slots, {elements} elements")));
    }
    let binding = WorkloadBinding::new(&table, &[], &[Some(id)], None)?;
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
                let text = format!("queue '{queue}' has another number of entries than planned");
                return Err(Error::new(ErrorKind::ExecutionFailed, text)
                    .expected(format_args!("{} elements", to.len()))
                    .found(found));
            }
            let mut rest = to;
            for entry in &entries {
                let (to, later) = rest.split_at_mut(entry.values().len());
                to.copy_from_slice(entry.values());
                rest = later;
            }
            Ok(())
        })
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_share_the_memory_of_their_array() {
        let entry = Entry {
            queue: "q".to_owned(),
            tiles: [1, 1, 2],
            tile: [32, 32],
        };
        let elements: Vec<f32> = (0..3 * 2048).map(|index| index as f32).collect();
        let array = Tensor::from_slice([3, 1, 32, 64], &elements).unwrap();
        let entries = entry.all_of(&array).unwrap();
        assert_eq!(entries.len(), 3);
        for (index, found) in entries.iter().enumerate() {
            let start = array.bytes()[index * 8192..].as_ptr();
            assert_eq!(found.data().bytes().as_ptr(), start);
            assert_eq!(found.values()[0], index as f32 * 2048.0);
        }
        let short = Tensor::from_slice([100], &elements[..100]).unwrap();
        let other = Tensor::from_slice([2048], &[1u8; 2048]).unwrap();
        for wrong in [short, other] {
            let error = entry.all_of(&wrong).unwrap_err().to_string();
            assert!(
                error.contains("the entries of 'q' do not fill its variable"),
                "{error}"
            );
        }
    }
}
