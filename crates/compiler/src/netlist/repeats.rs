//! Products whose rows or columns come again and again: an input that is broadcast last makes a
//! result that is, and each part of it is computed once.

use tenon_netlist::{AttributeKey, Input, Op, OpKind, Tm};

/// What is left out before a product and made up for behind it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Repeats {
    /// Of input 0: how often its rows come.
    rows: Repeat,
    /// Of input 1: how often its columns come.
    columns: Repeat,
}

/// The last TMs of an input that only repeat it, and how often altogether.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Repeat {
    pub steps: usize,
    pub times: usize,
}

impl Repeat {
    /// Nothing is repeated.
    const NONE: Repeat = Repeat { steps: 0, times: 1 };

    fn of(input: &Input, times: impl Fn(Tm) -> Option<u32>) -> Self {
        let mut repeat = Self::NONE;
        if input.pad.is_some() {
            return repeat;
        }
        for tm in input.tms.iter().rev() {
            let Some(n) = times(tm.value).filter(|&n| n > 0) else {
                break;
            };
            repeat.steps += 1;
            repeat.times = repeat.times.saturating_mul(n as usize);
        }
        repeat
    }
}

impl Repeats {
    /// Those of an op: a product without bias and scale, which have a row for each of its rows.
    pub(super) fn of(op: &Op) -> Self {
        let mut repeats = Self {
            rows: Repeat::NONE,
            columns: Repeat::NONE,
        };
        if let (OpKind::Matmul, [a, b]) = (op.kind.value, &op.inputs[..])
            && !op.attributes.is(AttributeKey::Identity)
        {
            repeats.rows = Repeat::of(a, |tm| match tm {
                Tm::BroadcastRows(n) => Some(n),
                _ => None,
            });
            repeats.columns = Repeat::of(b, |tm| match tm {
                Tm::BroadcastColumns(n) => Some(n),
                _ => None,
            });
        }
        repeats
    }

    /// What is left out of an input, and by how much its rows and columns are fewer then.
    pub(super) fn of_input(&self, index: usize) -> (usize, [usize; 2]) {
        match index {
            0 => (self.rows.steps, [self.rows.times, 1]),
            1 => (self.columns.steps, [1, self.columns.times]),
            _ => (0, [1, 1]),
        }
    }

    /// What makes up for it, as TMs in words, and by how much rows and columns are more then.
    pub(super) fn made_up(&self) -> (Vec<String>, [usize; 2]) {
        let (rows, columns) = (self.rows.times, self.columns.times);
        let steps = [("broadcast_r", rows), ("broadcast_c", columns)];
        let steps = steps.iter().filter(|(_, times)| *times > 1);
        let steps = steps.map(|(name, times)| format!("{name} {times}"));
        (steps.collect(), [rows, columns])
    }
}
