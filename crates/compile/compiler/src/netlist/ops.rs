//! One op: its kernel and the kernel's attributes (facts 3).

use super::NumericMode;
use super::epoch::{EpochBuilder, TENSOR};
use super::value::{Value, size, sizes, tiles_of};
use tenon_base::{Error, ErrorKind, Result};
use tenon_bef::{Attribute, Dictionary};
use tenon_netlist::{AttributeKey, AttributeValue, Attributes, DataFormat, Op, OpKind, Span};

/// What a kernel is given.
pub(super) struct Call<'a> {
    pub node: &'a str,
    pub span: Span,
    pub kernel: String,
    pub attributes: Dictionary,
}

impl EpochBuilder<'_> {
    /// Emits a kernel; its result is of the given shape.
    pub(super) fn call(
        &mut self,
        call: Call<'_>,
        operands: &[&Value],
        tiles: [usize; 3],
        tile: [usize; 2],
    ) -> Value {
        let location = self.location(call.span);
        let register = self
            .function
            .kernel(call.kernel)
            .operands(operands.iter().map(|value| value.register))
            .attributes(call.attributes)
            .attribute("node", call.node)
            .location(location)
            .result(TENSOR);
        Value {
            register,
            tiles,
            tile,
            rounded: None,
            constant: false,
            way: None,
        }
    }

    /// The kernel of an op.
    pub(super) fn compute(&mut self, op: &Op, inputs: &[Value]) -> Result<Value> {
        use OpKind::*;
        let kind = op.kind.value;
        match kind {
            FusedOp => self.fused(op, inputs),
            Matmul if op.attributes.is(AttributeKey::Identity) => Ok(self.sparse(op, inputs)),
            Matmul | Depthwise => self.product(op, inputs),
            Splice => Ok(self.splice(op, inputs)),
            Embedding | Topk => Ok(self.lookup(op, inputs)),
            Reduce => Ok(self.reduce(op.name.value.as_str(), op.name.span, &op.attributes, inputs)),
            Buffer | Drainer => {
                let text = format!("ops of type {kind} are known to the reader only");
                Err(self.unsupported(op.kind.span, text))
            }
            _ => self.elementwise(op, inputs),
        }
    }

    /// Element by element. Tiles of different sizes have in common what the smallest has; the
    /// rest is zeros (facts 3.8).
    fn elementwise(&mut self, op: &Op, inputs: &[Value]) -> Result<Value> {
        let (node, span, kind) = (op.name.value.as_str(), op.name.span, op.kind.value);
        let own = op.blocking.tile().map(|side| side as usize);
        let common = inputs.iter().fold(own, |tile, value| {
            [tile[0].min(value.tile[0]), tile[1].min(value.tile[1])]
        });
        let inputs: Vec<Value> = inputs
            .iter()
            .map(|value| match value.tile == common && kind.is_binary() {
                true => value.clone(),
                false => {
                    let whole = self.arrived(node, span, value.clone());
                    self.resized(node, span, whole, common)
                }
            })
            .collect();
        let attributes = match kind.is_sfpu() {
            // Golden computes whole tiles where they are tiny (facts 3.2).
            true if common[0] <= 16 || common[1] <= 16 => curve(kind, &op.attributes, false),
            true => curve(kind, &op.attributes, true),
            false => scale(kind, &op.attributes),
        };
        let kernel = match kind.is_copy() || kind == OpKind::Tilizer {
            true => "netlist.nop".to_owned(),
            false => format!("netlist.{kind}"),
        };
        let call = Call {
            node,
            span,
            kernel,
            attributes,
        };
        let first = inputs
            .first()
            .ok_or_else(|| self.unsupported(span, "an op without inputs"))?;
        if kind.is_binary() {
            return Ok(self.binary(call, &inputs));
        }
        let mut made = self.call(
            call,
            &inputs.iter().collect::<Vec<_>>(),
            first.tiles,
            common,
        );
        if kind.is_copy() {
            made.rounded = first.rounded;
        }
        Ok(made)
    }

    /// An op of two tensors, one of which it may see through TMs.
    pub(super) fn binary(&mut self, mut call: Call<'_>, inputs: &[Value]) -> Value {
        let seen = inputs.iter().rposition(|value| value.way.is_some());
        let mut operands = Vec::with_capacity(inputs.len());
        for (index, value) in inputs.iter().enumerate() {
            if let Some(way) = value.way.as_ref().filter(|_| seen == Some(index)) {
                let given = &mut call.attributes;
                given.push(("seen".into(), Attribute::I32(index as i32)));
                given.push(("tiles".into(), sizes(&way.from)));
                given.push(("steps".into(), way.steps.join("; ").into()));
                given.extend(way.spread().map(|spread| ("spread".into(), spread.into())));
                operands.push(value.clone());
            } else {
                operands.push(self.arrived(call.node, call.span, value.clone()));
            }
        }
        let (tiles, tile) = (operands[0].tiles, operands[0].tile);
        self.call(call, &operands.iter().collect::<Vec<_>>(), tiles, tile)
    }

    fn product(&mut self, op: &Op, inputs: &[Value]) -> Result<Value> {
        let [a, b, ..] = inputs else {
            return Err(self.unsupported(op.kind.span, "a product of fewer than two inputs"));
        };
        let attributes = &op.attributes;
        let count = |key| usize::try_from(attributes.integer(key)).unwrap_or(0);
        let mut given: Dictionary = vec![
            ("m_k".into(), size(count(AttributeKey::MK))),
            ("integer".into(), Attribute::I1(is_integer(op))),
        ];
        let switches = [
            ("bias", AttributeKey::Bias),
            ("requant", AttributeKey::Requant),
            ("dequant", AttributeKey::Dequant),
        ];
        for (name, key) in switches {
            given.push((name.into(), Attribute::I1(attributes.is(key))));
        }
        let zero_point = attributes.number(AttributeKey::ZeroPoint).unwrap_or(0.0);
        given.push(("zero_point".into(), Attribute::F32(zero_point as f32)));
        let z = match attributes.is(AttributeKey::Accumulate) {
            true => count(AttributeKey::Z).max(1),
            false => 1,
        };
        given.push(("z".into(), size(z)));
        // The original takes "invalid" for no op.
        let curve = attributes
            .word(AttributeKey::SfpuOp)
            .filter(|word| *word != "invalid");
        given.extend(curve.map(|word| ("sfpu_op".into(), word.into())));
        if self.scope.mode == NumericMode::Formats {
            let accumulate = op.acc_df.map_or(DataFormat::Float32, |format| format.value);
            given.push(("accumulate".into(), accumulate.name().into()));
            given.push(("intermediate".into(), op.intermed_df.value.name().into()));
        }
        let depthwise = op.kind.value == OpKind::Depthwise;
        if !depthwise {
            let sums = op.gradient_op.is_some_and(|gradient| gradient.value);
            given.push(("sums".into(), Attribute::I1(sums)));
            given.extend(factors(a, b));
        }
        let tiles = [a.tiles[0] / z, a.tiles[1], b.tiles[2]];
        let call = Call {
            node: op.name.value.as_str(),
            span: op.name.span,
            kernel: if depthwise {
                "netlist.depthwise"
            } else {
                "netlist.matmul"
            }
            .to_owned(),
            attributes: given,
        };
        let tile = [a.tile[0], b.tile[1]];
        Ok(self.call(call, &inputs.iter().collect::<Vec<_>>(), tiles, tile))
    }

    /// The product with a sparse matrix (facts 3.3).
    fn sparse(&mut self, op: &Op, inputs: &[Value]) -> Value {
        use AttributeKey::*;
        let mut given = self.placed(op);
        let keys = [UKt, SparseTilePtrBits, SparseUblockIdxBits, FractureFactor];
        for key in keys {
            if op.attributes.find(key).is_some() {
                given.push((
                    key.name().into(),
                    Attribute::I64(op.attributes.integer(key)),
                ));
            }
        }
        let encoding = op
            .inputs
            .get(2)
            .map_or(DataFormat::RawUInt32, |input| input.df.value);
        given.push(("encoding".into(), encoding.name().into()));
        given.push(("bias".into(), Attribute::I1(op.attributes.is(Bias))));
        let width = inputs.get(1).map_or(32, |value| value.tile[1]);
        self.whole(op, "netlist.sparse_matmul", given, inputs, [32, width])
    }

    fn splice(&mut self, op: &Op, inputs: &[Value]) -> Value {
        let mut given = self.placed(op);
        let mut takings = Vec::new();
        for input in 0..inputs.len() {
            let taking = op.attributes.splice_input(input).map(|found| &found.value);
            if let Some(AttributeValue::List(numbers)) = taking {
                let number = |&n: &i64| Attribute::I32(i32::try_from(n).unwrap_or(-1));
                takings.extend(numbers.iter().map(number));
            }
        }
        given.push(("takings".into(), Attribute::Array(takings)));
        let granularity = op
            .attributes
            .word(AttributeKey::Granularity)
            .unwrap_or("ublock");
        given.push(("granularity".into(), granularity.into()));
        given.push(("order".into(), op.blocking.order().name().into()));
        let tile = inputs.first().map_or([32, 32], |value| value.tile);
        self.whole(op, "netlist.splice", given, inputs, tile)
    }

    fn lookup(&mut self, op: &Op, inputs: &[Value]) -> Value {
        use AttributeKey::*;
        let mut given = self.placed(op);
        for key in [NumIndices, K] {
            given.push((
                key.name().into(),
                Attribute::I64(op.attributes.integer(key)),
            ));
        }
        let sort = op.attributes.word(Sort).unwrap_or("none");
        given.push((Sort.name().into(), sort.into()));
        given.push((
            Kreduce.name().into(),
            Attribute::I1(op.attributes.is(Kreduce)),
        ));
        self.whole(
            op,
            &format!("netlist.{}", op.kind.value),
            given,
            inputs,
            [32, 32],
        )
    }

    /// An op whose kernel makes the declared shape.
    fn whole(
        &mut self,
        op: &Op,
        kernel: &str,
        attributes: Dictionary,
        inputs: &[Value],
        tile: [usize; 2],
    ) -> Value {
        let call = Call {
            node: op.name.value.as_str(),
            span: op.name.span,
            kernel: kernel.to_owned(),
            attributes,
        };
        let operands: Vec<&Value> = inputs.iter().collect();
        self.call(call, &operands, tiles_of(&op.blocking), tile)
    }

    /// The blocking of the output.
    fn placed(&self, op: &Op) -> Dictionary {
        let pair = |pair: [u32; 2]| sizes(&pair.map(|size| size as usize));
        vec![
            ("tiles".into(), sizes(&tiles_of(&op.blocking))),
            ("grid".into(), pair(op.blocking.grid_size.value)),
            ("mblock".into(), pair(op.blocking.mblock.value)),
            ("ublock".into(), pair(op.blocking.ublock.value)),
        ]
    }

    /// A maximum; also inside fused ops.
    pub(super) fn reduce(
        &mut self,
        node: &str,
        span: Span,
        attributes: &Attributes,
        inputs: &[Value],
    ) -> Value {
        let dim = attributes.word(AttributeKey::Dim).unwrap_or("");
        let z = usize::try_from(attributes.integer(AttributeKey::Z))
            .unwrap_or(0)
            .max(1);
        let from = &inputs[0];
        let [t, rows, columns] = from.tiles;
        let tiles = match dim {
            "r" => [t, 1, columns],
            "c" => [t, rows, 1],
            "rc" => [t, 1, 1],
            _ => [t / z, rows, columns],
        };
        let call = Call {
            node,
            span,
            kernel: "netlist.reduce".to_owned(),
            attributes: vec![("dim".into(), dim.into()), ("z".into(), size(z))],
        };
        self.call(call, &[from], tiles, from.tile)
    }
}

/// The attributes of an op of the special-function unit.
pub(super) fn curve(kind: OpKind, attributes: &Attributes, parts: bool) -> Dictionary {
    let mut given: Dictionary = Vec::new();
    let number = |key: AttributeKey, absent: f64| {
        let value = attributes.number(key).unwrap_or(absent);
        (key.name().into(), Attribute::F32(value as f32))
    };
    match kind {
        OpKind::Lrelu => given.push(number(AttributeKey::Slope, 0.01)),
        OpKind::Dropout => given.push(number(AttributeKey::P, 0.0)),
        OpKind::Power => {
            let exponent = attributes.integer(AttributeKey::Exp);
            given.push((AttributeKey::Exp.name().into(), Attribute::I64(exponent)));
        }
        _ => {}
    }
    let vector = attributes.word(AttributeKey::Vector).filter(|_| parts);
    given.extend(vector.map(|vector| ("vector".into(), vector.into())));
    given
}

/// The attributes of an op of two tensors.
pub(super) fn scale(kind: OpKind, attributes: &Attributes) -> Dictionary {
    use OpKind::{Dequantization, Quantization, Requantization};
    match kind {
        Quantization | Requantization | Dequantization => {
            let zero_point = attributes.number(AttributeKey::ZeroPoint).unwrap_or(0.0);
            vec![("zero_point".into(), Attribute::F32(zero_point as f32))]
        }
        _ => Vec::new(),
    }
}

/// Whether an op is a product of dense matrices.
pub(super) fn is_product(op: &Op) -> bool {
    op.kind.value == OpKind::Matmul && !op.attributes.is(AttributeKey::Identity)
}

/// Whether an op sees its inputs through their TMs.
pub(super) fn sees(op: &Op) -> bool {
    op.kind.value.is_binary() || op.kind.value == OpKind::FusedOp
}

/// Whether a product is one of integers.
pub(super) fn is_integer(op: &Op) -> bool {
    let format = op.inputs.first().map(|input| input.df.value);
    use DataFormat::{Int8, Int32, UInt8};
    matches!(format, Some(Int8 | UInt8 | Int32))
}

/// How the two tensors of a product come to it, and which of them come again.
pub(super) fn factors(a: &Value, b: &Value) -> Dictionary {
    let mut given = Dictionary::new();
    for (index, value) in [a, b].into_iter().enumerate() {
        let from = value.way.as_ref().map_or(value.tiles, |way| way.from);
        given.push((format!("tiles_{index}").into(), sizes(&from)));
        if let Some(way) = &value.way {
            given.push((format!("steps_{index}").into(), way.steps.join("; ").into()));
        }
        if value.constant {
            given.push((format!("constant_{index}").into(), Attribute::I1(true)));
        }
    }
    given
}

/// What is wrong with the netlist at a place.
pub(super) fn invalid(text: impl Into<String>) -> Error {
    Error::new(ErrorKind::InvalidModel, text)
}
