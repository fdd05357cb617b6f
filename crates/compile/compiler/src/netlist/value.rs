//! Tensors in registers, and the kernels around an op: movement, rounding, resizing, relu.

use super::epoch::{EpochBuilder, TENSOR};
use super::movements::tile_after;
use super::ops::Call;
use tenon_bef::{Attribute, Dictionary, RegisterId};
use tenon_netlist::{AttributeKey, Attributes, Blocking, DataFormat, Span};
use tenon_tile::{MovementList, TileBroadcast};

/// A tensor in a register.
#[derive(Debug, Clone)]
pub(super) struct Value {
    pub register: RegisterId,
    /// Slices, rows and columns of tiles.
    pub tiles: [usize; 3],
    /// Height and width of a tile.
    pub tile: [usize; 2],
    /// A format in which all its elements are exact.
    pub rounded: Option<DataFormat>,
    /// Whether it is the same in most runs, as parameters are.
    pub constant: bool,
    /// The view through which the op reads it; `tiles` and `tile` are those of the view.
    pub view: Option<TensorView>,
}

/// TMs that an op applies while it reads its operand: the moved tensor is never stored.
#[derive(Debug, Clone)]
pub(super) struct TensorView {
    /// Slices, rows and columns of tiles of the tensor in the register.
    pub stored: [usize; 3],
    /// Movements of tiles.
    pub movements: MovementList,
    /// The broadcast inside each tile, after the movements.
    pub broadcast: Option<TileBroadcast>,
}

/// The tiles of a blocking. Allocation reports a tensor that exceeds the memory.
pub(super) fn tiles_of(blocking: &Blocking) -> [usize; 3] {
    let size = |size: u64| usize::try_from(size).unwrap_or(usize::MAX);
    [
        blocking.t.value as usize,
        size(blocking.rows()),
        size(blocking.columns()),
    ]
}

/// Sizes as an attribute.
pub(super) fn sizes(sizes: &[usize]) -> Attribute {
    let size = |&size: &usize| Attribute::I32(i32::try_from(size).unwrap_or(i32::MAX));
    Attribute::Array(sizes.iter().map(size).collect())
}

/// A size as an attribute.
pub(super) fn size(size: usize) -> Attribute {
    Attribute::I64(i64::try_from(size).unwrap_or(i64::MAX))
}

/// The attribute of a kernel whose operand is the same in most runs.
pub(super) fn constant(value: &Value) -> Dictionary {
    let attribute = ("constant".into(), Attribute::I1(true));
    let attribute = value.constant.then_some(attribute);
    attribute.into_iter().collect()
}

impl EpochBuilder<'_> {
    /// Emits a kernel of one operand without attributes.
    pub(super) fn simple(&mut self, name: &str, node: &str, span: Span, value: Value) -> Value {
        let location = self.location(span);
        let register = self
            .function
            .kernel(name)
            .operands([value.register])
            .attributes(constant(&value))
            .attribute("node", node)
            .location(location)
            .result(TENSOR);
        Value {
            register,
            rounded: None,
            ..value
        }
    }

    /// Emits the movements of a tensor, which then has `after` tiles.
    pub(super) fn moved(
        &mut self,
        node: &str,
        span: Span,
        value: &Value,
        movements: &MovementList,
        after: [usize; 3],
    ) -> Value {
        let location = self.location(span);
        let register = self
            .function
            .kernel("netlist.move")
            .operands([value.register])
            .attributes(constant(value))
            .attribute("node", node)
            .attribute("tiles", sizes(&value.tiles))
            .attribute("steps", movements.to_string())
            .location(location)
            .result(TENSOR);
        // Blocks of sixteen elements keep their shared exponent unless they are transposed or padded.
        let kept = !movements.transposes_tiles() && !movements.pads();
        Value {
            register,
            tiles: after,
            tile: tile_after(movements, value.tile),
            rounded: value.rounded.filter(|_| kept),
            constant: value.constant,
            view: None,
        }
    }

    /// Stores the view of a tensor: for ops that do not read through views.
    pub(super) fn materialized(&mut self, node: &str, span: Span, mut value: Value) -> Value {
        let Some(view) = value.view.take() else {
            return value;
        };
        if !view.movements.is_empty() {
            let after = std::mem::replace(&mut value.tiles, view.stored);
            value = self.moved(node, span, &value, &view.movements, after);
        }
        let Some(broadcast) = view.broadcast else {
            return value;
        };
        let call = Call {
            node,
            span,
            kernel: "netlist.tile_broadcast".to_owned(),
            attributes: vec![("dim".into(), broadcast.name().into())],
        };
        self.call(call, &[&value], value.tiles, value.tile)
    }

    /// Emits the rounding to a format.
    pub(super) fn round(
        &mut self,
        node: &str,
        span: Span,
        value: Value,
        format: DataFormat,
    ) -> Value {
        if format == DataFormat::Float32 || format.is_raw() {
            return value;
        }
        let location = self.location(span);
        let register = self
            .function
            .kernel("netlist.round")
            .operands([value.register])
            .attributes(constant(&value))
            .attribute("node", node)
            .attribute("format", format.name())
            .location(location)
            .result(TENSOR);
        Value {
            register,
            rounded: Some(format),
            ..value
        }
    }

    /// Emits the change of the tile size (netlist 3.8).
    pub(super) fn resized(
        &mut self,
        node: &str,
        span: Span,
        value: Value,
        tile: [usize; 2],
    ) -> Value {
        if value.tile == tile {
            return value;
        }
        let location = self.location(span);
        let register = self
            .function
            .kernel("netlist.resize")
            .operands([value.register])
            .attributes(constant(&value))
            .attribute("node", node)
            .attribute("tile", sizes(&tile))
            .location(location)
            .result(TENSOR);
        Value {
            register,
            tile,
            ..value
        }
    }

    /// Emits the relu that an op's attributes enable.
    pub(super) fn relu(
        &mut self,
        node: &str,
        span: Span,
        attributes: &Attributes,
        value: Value,
    ) -> Value {
        if !attributes.is(AttributeKey::ReluEn) {
            return value;
        }
        // Every mode but `max`, an absent one included, clears the values below the threshold
        // (netlist 3.8).
        let mode = match attributes.word(AttributeKey::ReluMode) {
            Some(mode) if mode.eq_ignore_ascii_case("max") => "max",
            _ => "min",
        };
        let threshold = attributes
            .number(AttributeKey::ReluThreshold)
            .unwrap_or(0.0);
        let location = self.location(span);
        let register = self
            .function
            .kernel("netlist.relu")
            .operands([value.register])
            .attribute("node", node)
            .attribute("mode", mode)
            .attribute("threshold", threshold as f32)
            .location(location)
            .result(TENSOR);
        Value { register, ..value }
    }
}
