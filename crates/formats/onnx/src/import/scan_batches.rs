//! Scan of operator set 8, whose inputs and outputs have a batch as first dimension: a Scan for each of its
//! elements.

use super::unroll::{MAX_UNROLLED, ScanAxis, Values, expect_body, named, state_count};
use super::{Import, invalid};
use crate::draft::DraftNode;
use crate::proto::{GraphProto, NodeProto};
use crate::scope::Scope;
use tenon_base::{Error, ErrorKind, Result};
use tenon_graph::ValueId;

impl<'m> Import<'m> {
    /// Unrolls a Scan over a batch and a sequence of known extents; its first input is the lengths of the sequences.
    pub(super) fn scan_batches(
        &mut self,
        node: &'m NodeProto,
        body: &'m GraphProto,
        inputs: &[Option<ValueId>],
        step: &DraftNode,
        label: &str,
        scope: &mut Scope<'m, '_>,
    ) -> Result<()> {
        let Some((lengths, inputs)) = inputs.split_first() else {
            return Err(invalid("a Scan without inputs"));
        };
        if lengths.is_some() {
            let error = Error::new(
                ErrorKind::Unsupported,
                "a Scan with lengths of sequences (version 8)",
            );
            return self.refuse(&step.origin, error);
        }
        let states = state_count(node, inputs.len(), scope)?;
        expect_body(body, inputs.len(), states, node.output.len())?;
        let directions = named(node, scope, "directions")?;
        let directions = directions.map_or(&[][..], |attribute| attribute.ints.as_slice());
        // In the parts of one element of the batch, the sequence is the first dimension.
        let along: Vec<ScanAxis> = (states..inputs.len())
            .map(|at| ScanAxis {
                axis: 0,
                backwards: directions.get(at - states) == Some(&1),
            })
            .collect();
        let ty = inputs.get(states).copied().flatten();
        let ty = ty.and_then(|scanned| self.known_type(scanned));
        let short = |extent: usize| (1..=MAX_UNROLLED as usize).contains(&extent);
        let (batch, count) = match ty.as_ref().map(|ty| ty.shape().to_vec()).as_deref() {
            Some(&[batch, count, ..]) if short(batch) && short(count) => (batch, count),
            _ => {
                let text = format!(
                    "a Scan (version 8) over a batch and a sequence of unknown extents or of more than {MAX_UNROLLED}"
                );
                return self.refuse(&step.origin, Error::new(ErrorKind::Unsupported, text));
            }
        };
        let first = ScanAxis {
            axis: 0,
            backwards: false,
        };
        let mut results = vec![Vec::with_capacity(batch); body.output.len()];
        for element in 0..batch {
            let mut given: Values = Vec::with_capacity(inputs.len());
            for &input in inputs {
                given.push(Some(self.part(step, input, 0, element)?));
            }
            let label = format!("{label}/{element}");
            let operands = given.split_at(states);
            let (state, rows) =
                self.scan_steps(body, operands, (&along, count), step, &label, scope)?;
            let mut made: Vec<ValueId> = state.into_iter().flatten().collect();
            for row in rows {
                made.push(self.stacked(step, row, &first)?);
            }
            for (result, value) in results.iter_mut().zip(made) {
                result.push(value);
            }
        }
        let axes = vec![first; results.len()];
        self.bind_results(node, step, Values::new(), results, &axes, scope)
    }
}
