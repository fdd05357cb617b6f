//! Fused ops: every scheduled op becomes a kernel on whole tensors (netlist 3.7).

use super::NumericMode;
use super::epoch::EpochBuilder;
use super::movements;
use super::ops::{Call, binary_attributes, matmul_operands, sfpu_attributes};
use super::value::{TensorView, Value, size};
use std::collections::HashMap;
use tenon_base::Result;
use tenon_bef::{Attribute, Dictionary};
use tenon_netlist::{
    AttributeKey, Buffer, DataFormat, Op, OpKind, ScheduledOp, Spanned, TileShape, Tm,
};
use tenon_tile::MovementList;

impl EpochBuilder<'_> {
    /// The ops of all schedules, in order.
    pub(super) fn fused(&mut self, op: &Op, inputs: &[Value]) -> Result<Value> {
        let netlist = self.scope.netlist;
        let id = op.attributes.word(AttributeKey::FusedOpId).unwrap_or("");
        let Some(fused) = netlist.fused_op(id) else {
            return Err(self.unsupported(op.kind.span, format!("there is no fused op '{id}'")));
        };
        if let Some(path) = &fused.custom_kernel_path {
            let text = format!(
                "fused op '{id}' is a kernel in the kernel language of the original, '{}'",
                path.value
            );
            return Err(self
                .unsupported(path.span, text)
                .help("give the schedules without custom_kernel_path"));
        }
        let mut buffers: HashMap<Buffer, Value> = HashMap::new();
        for (index, input) in (0u32..).zip(inputs) {
            buffers.insert(Buffer::Input(index), input.clone());
        }
        for scheduled in fused.schedules.iter().flatten() {
            let value = self.scheduled(op, scheduled, &buffers)?;
            buffers.insert(scheduled.output.value, value);
        }
        let no_output = || self.unsupported(fused.id.span, "a fused op that writes no output");
        buffers.remove(&Buffer::Output).ok_or_else(no_output)
    }

    fn scheduled(
        &mut self,
        op: &Op,
        scheduled: &ScheduledOp,
        buffers: &HashMap<Buffer, Value>,
    ) -> Result<Value> {
        let mut inputs = Vec::with_capacity(scheduled.inputs.len());
        for (buffer, tms) in &scheduled.inputs {
            let Some(value) = buffers.get(&buffer.value) else {
                let text = format!("'{}' is read before it is written", buffer.value);
                return Err(self.unsupported(buffer.span, text));
            };
            inputs.push(self.viewed(op, value.clone(), tms)?);
        }
        if scheduled.kind.value == OpKind::Dequantization
            && scheduled
                .inputs
                .get(1)
                .is_some_and(|(buffer, _)| buffer.value == Buffer::Dest)
        {
            inputs.swap(0, 1);
        }
        let value = self.applied(op, scheduled, inputs)?;
        let (node, span) = (op.name.value.as_str(), scheduled.name.span);
        // The base op's relu applies to the scheduled op that writes the output.
        let has_relu = scheduled.attributes.is(AttributeKey::ReluEn);
        let attributes = if scheduled.output.value == Buffer::Output && !has_relu {
            &op.attributes
        } else {
            &scheduled.attributes
        };
        let value = self.relu(node, span, attributes, value);
        Ok(self.stored(op, scheduled, value))
    }

    /// A buffer's tensor after TMs: a view, except for transposes and pads, which are stored.
    fn viewed(&mut self, op: &Op, mut value: Value, tms: &[Spanned<Tm>]) -> Result<Value> {
        for tm in tms {
            let movements = movements::of_tms(std::slice::from_ref(tm));
            let [t, rows, columns] = value.tiles.map(|size| size as u64);
            let after = TileShape { t, rows, columns }
                .after_tm(tm.value, tm.span)
                .map_err(|finding| finding.to_error(self.scope.source))?;
            let after = [after.t, after.rows, after.columns].map(|size| size as usize);
            if movements.transposes_tiles() || movements.pads() {
                let node = op.name.value.as_str();
                value = self.materialized(node, tm.span, value);
                value = self.moved(node, tm.span, &value, &movements, after);
                continue;
            }
            let stored = value.tiles;
            let view = value.view.get_or_insert_with(|| TensorView {
                stored,
                movements: MovementList::default(),
                broadcast: None,
            });
            view.movements.extend(movements);
            if let Tm::TileBroadcast(next) = tm.value {
                let broadcast = view.broadcast.map_or(next, |first| first.then(next));
                view.broadcast = Some(broadcast);
            }
            value.tiles = after;
        }
        Ok(value)
    }

    fn applied(&mut self, op: &Op, scheduled: &ScheduledOp, inputs: Vec<Value>) -> Result<Value> {
        let (node, span) = (op.name.value.as_str(), scheduled.name.span);
        let kind = scheduled.kind.value;
        let call = |kernel: String, attributes: Dictionary| Call {
            node,
            span,
            kernel,
            attributes,
        };
        if kind.is_binary() && !inputs.is_empty() {
            let attributes = binary_attributes(kind, &scheduled.attributes);
            return Ok(self.binary(call(format!("netlist.{kind}"), attributes), &inputs));
        }
        let inputs = inputs.into_iter();
        let inputs: Vec<Value> = inputs
            .map(|value| self.materialized(node, span, value))
            .collect();
        let Some(first) = inputs.first() else {
            return Err(self.unsupported(span, "an op without inputs"));
        };
        let (tiles, tile) = (first.tiles, first.tile);
        if kind == OpKind::Reduce {
            return Ok(self.reduce(node, span, &scheduled.attributes, &inputs));
        }
        if kind == OpKind::Matmul {
            let Some(right) = inputs.get(1) else {
                return Err(self.unsupported(span, "a matmul of fewer than two inputs"));
            };
            let mut attributes = matmul_operands(first, right);
            let blocks = scheduled.attributes.integer(AttributeKey::MK);
            if self.scope.mode == NumericMode::Formats {
                attributes.push(("m_k".into(), size(usize::try_from(blocks).unwrap_or(1))));
                let accumulate = op.acc_df.map_or(DataFormat::Float32, |format| format.value);
                attributes.push(("accumulate".into(), accumulate.name().into()));
                attributes.push(("intermediate".into(), op.intermed_df.value.name().into()));
            }
            let tiles = [tiles[0], tiles[1], right.tiles[2]];
            let tile = [tile[0], right.tile[1]];
            let operands: Vec<&Value> = inputs.iter().collect();
            return Ok(self.call(
                call("netlist.matmul".to_owned(), attributes),
                &operands,
                tiles,
                tile,
            ));
        }
        if kind.is_copy() {
            return Ok(self.call(
                call("netlist.nop".to_owned(), Vec::new()),
                &[first],
                tiles,
                tile,
            ));
        }
        if !kind.is_sfpu() {
            let text = format!("ops of type {kind} are not part of fused ops");
            return Err(self.unsupported(scheduled.kind.span, text));
        }
        let with_vector = tile[0] > 16 && tile[1] > 16;
        let mut attributes = sfpu_attributes(kind, &scheduled.attributes, with_vector);
        // Elements outside of the computed vector keep the value of the buffer where the op reads
        // and writes the same one (netlist 3.7).
        let (read, _) = &scheduled.inputs[0];
        let keeps = read.value == scheduled.output.value;
        attributes.push(("keeps".into(), Attribute::I1(keeps)));
        let operands: &[&Value] = if keeps { &[first, first] } else { &[first] };
        Ok(self.call(
            call(format!("netlist.{kind}"), attributes),
            operands,
            tiles,
            tile,
        ))
    }

    /// Rounds to the format of the buffer that is written: to integers always, to others in the mode
    /// `formats`.
    fn stored(&mut self, op: &Op, scheduled: &ScheduledOp, value: Value) -> Value {
        let format = match scheduled.output.value {
            Buffer::Intermediate(_) => Some(op.intermed_df.value),
            Buffer::Dest => op.acc_df.map(|format| format.value),
            Buffer::Output => Some(op.out_df.value),
            Buffer::Input(_) => None,
        };
        let is_integer = |format| matches!(format, DataFormat::Int8 | DataFormat::Int32);
        let dest = scheduled.output.value == Buffer::Dest;
        let formats = self.scope.mode == NumericMode::Formats;
        match format.filter(|&format| formats || !dest && is_integer(format)) {
            // An integer register holds floats after a dequantization.
            Some(format) if dest && is_integer(format) => value,
            Some(format) => self.round(&op.name.value, scheduled.name.span, value, format),
            None => value,
        }
    }
}
