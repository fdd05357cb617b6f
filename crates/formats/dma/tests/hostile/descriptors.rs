//! Arbitrary descriptors: checked, run by the engine, and copies compared with a byte-by-byte
//! reference. Shared by a property test and a fuzz target.

use tenon_base::Control;
use tenon_dma::engine::{Bank, Core, Engine, Machine, QueueSet, Transfer, Variable};
use tenon_dma::{Access, Constant, Descriptor, Operation, VariableId};
use tenon_tensor::DataType;

/// Bytes of each of the variables.
const SIZE: u64 = 600;

/// Values decoded from the input; zeros after its end.
struct Input<'a>(&'a [u8]);

impl Input<'_> {
    fn byte(&mut self) -> u8 {
        let (&first, rest) = self.0.split_first().unwrap_or((&0, &[]));
        self.0 = rest;
        first
    }

    /// Mostly a small value, sometimes any.
    fn integer(&mut self) -> u64 {
        match self.byte() {
            255 => u64::from_le_bytes(std::array::from_fn(|_| self.byte())),
            254 => u64::MAX - u64::from(self.byte()),
            small => small.into(),
        }
    }

    fn access(&mut self) -> Access {
        let rank = usize::from(self.byte() % 6);
        let all = DataType::ALL;
        Access {
            variable: VariableId(u32::from(self.byte() % 4)),
            offset: self.integer(),
            sizes: (0..rank).map(|_| self.integer()).collect(),
            steps: (0..rank).map(|_| self.integer() as i64).collect(),
            dtype: all[usize::from(self.byte()) % all.len()],
        }
    }

    fn descriptor(&mut self) -> Descriptor {
        let constant = match self.byte() % 4 {
            0 => None,
            1 => Some(Constant::F32(f32::from_bits(self.integer() as u32))),
            2 => Some(Constant::I32(self.integer() as i32)),
            _ => Some(Constant::U32(self.integer() as u32)),
        };
        let count = usize::from(self.byte() % 4);
        let operation = match self.byte() % 8 {
            0 | 1 => Operation::Copy,
            2 => Operation::Cast,
            3 => Operation::Add,
            4 => Operation::Min { constant },
            5 => Operation::Max { constant },
            6 => Operation::Fma {
                scales: (0..count).map(|_| f64::from(self.byte())).collect(),
            },
            _ => Operation::Transpose {
                shape: std::array::from_fn(|_| self.integer()),
                element_size: self.integer(),
            },
        };
        Descriptor {
            operation,
            from: (0..count).map(|_| self.access()).collect(),
            to: self.access(),
        }
    }
}

/// The bytes that a checked pattern visits, in order.
fn positions(access: &Access) -> Vec<usize> {
    if access.sizes.contains(&0) {
        // The other sizes of an empty pattern are unbounded.
        return Vec::new();
    }
    let mut positions = vec![access.offset as i64];
    for (&size, &step) in access.sizes.iter().zip(&access.steps).rev() {
        let along = |&start: &i64| (0..size as i64).map(move |index| start + index * step);
        positions = positions.iter().flat_map(along).collect();
    }
    positions
        .into_iter()
        .map(|position| position as usize)
        .collect()
}

/// Decodes descriptors from the bytes and runs them if the engine accepts them.
pub fn check(bytes: &[u8]) {
    let mut input = Input(bytes);
    let mut bank = Bank::default();
    let mut memory: Vec<Vec<u8>> = (0..4u8)
        .map(|n| (0..SIZE).map(|i| n ^ i as u8).collect())
        .collect();
    let variables = (0..4).map(|id| Variable {
        id: VariableId(id),
        name: format!("v{id}"),
        region: bank.add(&memory[id as usize]).ok(),
        is_writable: id != 3,
    });
    let variables = variables.collect();
    let transfers: Vec<Transfer> = (0..input.byte() % 12)
        .map(|_| {
            let queue = if input.byte().is_multiple_of(2) {
                "a"
            } else {
                "b"
            };
            Transfer::new(u32::from(input.byte() % 3), queue, vec![input.descriptor()])
        })
        .collect();
    let descriptors: Vec<Descriptor> = transfers
        .iter()
        .flat_map(|transfer| transfer.descriptors.clone())
        .collect();
    // A check against any size must not panic.
    for descriptor in &descriptors {
        let limit = input.integer();
        let _ = descriptor.check(|_| Some(limit));
    }
    let core = Core {
        name: "sg00".into(),
        variables,
        queue_sets: vec![QueueSet::new("a", 3), QueueSet::new("b", 1)],
        engines: vec![Engine {
            name: "act".into(),
            transfers: transfers.clone(),
        }],
    };
    let Ok(mut machine) = Machine::new(bank, vec![core]) else {
        return;
    };
    let programs = machine.all_triggers();
    machine
        .run(&programs, &Control::new())
        .expect("it was checked");
    if !descriptors
        .iter()
        .all(|each| each.operation == Operation::Copy)
    {
        return;
    }
    // The order of triggers: id by id in the order of their first occurrence.
    let mut ids: Vec<u32> = Vec::new();
    for transfer in &transfers {
        if !ids.contains(&transfer.id) {
            ids.push(transfer.id);
        }
    }
    for id in ids {
        for transfer in transfers.iter().filter(|transfer| transfer.id == id) {
            let Descriptor { from, to, .. } = &transfer.descriptors[0];
            let source = memory[from[0].variable.index()].clone();
            for (read, write) in positions(&from[0]).into_iter().zip(positions(to)) {
                memory[to.variable.index()][write] = source[read];
            }
        }
    }
    for (id, expected) in (0..).zip(&memory) {
        assert_eq!(machine.bytes(0, VariableId(id)), Some(&expected[..]));
    }
}
