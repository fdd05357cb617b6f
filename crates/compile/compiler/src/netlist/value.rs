//! Tensors in registers, and the small kernels that every op may need around it.

use super::epoch::{EpochBuilder, TENSOR};
use super::ops::Call;
use tenon_bef::{Attribute, Dictionary, RegisterId};
use tenon_netlist::{AttributeKey, Attributes, Blocking, DataFormat, Span};

/// A tensor in a register.
#[derive(Debug, Clone)]
pub(super) struct Value {
    pub register: RegisterId,
    /// Slices, rows and columns of tiles.
    pub tiles: [usize; 3],
    /// Height and width of a tile.
    pub tile: [usize; 2],
    /// A format that all its elements fit.
    pub rounded: Option<DataFormat>,
    /// Whether it is the same in most runs, as parameters are.
    pub constant: bool,
    /// What its op does to it itself on the way; `tiles` and `tile` are what comes of it.
    pub way: Option<Way>,
}

/// The steps between the tensor in a register and an op.
#[derive(Debug, Clone)]
pub(super) struct Way {
    /// Tiles of the tensor in the register.
    pub from: [usize; 3],
    /// In the words of `netlist.move`.
    pub steps: Vec<String>,
    /// Whether the first row and the first column of each tile then stand for all of it.
    pub spread: [bool; 2],
}

impl Way {
    /// In the word of `netlist.tile_broadcast`.
    pub fn spread(&self) -> Option<&'static str> {
        match self.spread {
            [true, true] => Some("rc"),
            [true, false] => Some("r"),
            [false, true] => Some("c"),
            [false, false] => None,
        }
    }
}

/// The tiles of a blocking. What does not fit memory is refused where it is allocated.
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

/// What tells a kernel that its operand comes again.
pub(super) fn constant(value: &Value) -> Dictionary {
    let told = value
        .constant
        .then(|| ("constant".into(), Attribute::I1(true)));
    told.into_iter().collect()
}

impl EpochBuilder<'_> {
    /// A kernel of one operand and no attributes.
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

    /// Unpad, TMs, pad.
    pub(super) fn moved(
        &mut self,
        node: &str,
        span: Span,
        value: &Value,
        steps: &[String],
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
            .attribute("steps", steps.join("; "))
            .location(location)
            .result(TENSOR);
        // Blocks of sixteen stay together unless they are turned or something is added.
        let kept = !super::steps::flips(steps) && !super::steps::pads(steps);
        Value {
            register,
            tiles: after,
            tile: super::steps::tile(steps, value.tile),
            rounded: value.rounded.filter(|_| kept),
            constant: value.constant,
            way: None,
        }
    }

    /// The tensor that an op would see, in a register.
    pub(super) fn arrived(&mut self, node: &str, span: Span, mut value: Value) -> Value {
        let Some(way) = value.way.take() else {
            return value;
        };
        let spread = way.spread();
        if !way.steps.is_empty() {
            let after = std::mem::replace(&mut value.tiles, way.from);
            value = self.moved(node, span, &value, &way.steps, after);
        }
        let Some(spread) = spread else {
            return value;
        };
        let call = Call {
            node,
            span,
            kernel: "netlist.tile_broadcast".to_owned(),
            attributes: vec![("dim".into(), spread.into())],
        };
        self.call(call, &[&value], value.tiles, value.tile)
    }

    /// Rounds to a format.
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

    /// Tiles of another size (facts 3.8).
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

    /// The relu of an op's attributes.
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
        // Without a mode, and with none, numbers below the threshold are cut (facts 3.8).
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
