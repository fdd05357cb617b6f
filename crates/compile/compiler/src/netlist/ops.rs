//! One op: its kernel and the kernel's attributes (netlist 3.1).

use super::NumericMode;
use super::epoch::{EpochBuilder, TENSOR};
use super::value::{Value, size, sizes, tiles_of};
use tenon_base::{Error, ErrorKind, Result};
use tenon_bef::{Attribute, Dictionary};
use tenon_netlist::{AttributeKey, AttributeValue, Attributes, DataFormat, Op, OpKind, Span};

/// A kernel to emit.
pub(super) struct Call<'a> {
    pub node: &'a str,
    pub span: Span,
    pub kernel: String,
    pub attributes: Dictionary,
}

impl EpochBuilder<'_> {
    /// Emits a kernel; its result has `tiles` tiles of size `tile`.
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
            view: None,
        }
    }

    /// Emits the kernels of an op.
    pub(super) fn compute(&mut self, op: &Op, inputs: &[Value]) -> Result<Value> {
        use OpKind::*;
        let kind = op.kind.value;
        match kind {
            FusedOp => self.fused(op, inputs),
            Matmul if op.attributes.is(AttributeKey::Identity) => Ok(self.sparse(op, inputs)),
            Matmul | Depthwise => self.matmul(op, inputs),
            Splice => Ok(self.splice(op, inputs)),
            Embedding | Topk => Ok(self.lookup(op, inputs)),
            Reduce => Ok(self.reduce(op.name.value.as_str(), op.name.span, &op.attributes, inputs)),
            Buffer | Drainer => {
                let text = format!("ops of type {kind} cannot be lowered");
                Err(self.unsupported(op.kind.span, text))
            }
            _ => self.elementwise(op, inputs),
        }
    }

    /// An elementwise op. It runs on tiles of the smallest height and width among its operands; the
    /// other elements are zeros (netlist 3.8).
    fn elementwise(&mut self, op: &Op, inputs: &[Value]) -> Result<Value> {
        let (node, span, kind) = (op.name.value.as_str(), op.name.span, op.kind.value);
        let declared = op.blocking.tile().map(|side| side as usize);
        let common = inputs.iter().fold(declared, |tile, value| {
            [tile[0].min(value.tile[0]), tile[1].min(value.tile[1])]
        });
        let inputs: Vec<Value> = inputs
            .iter()
            .map(|value| {
                if value.tile == common && kind.is_binary() {
                    return value.clone();
                }
                let stored = self.materialized(node, span, value.clone());
                self.resized(node, span, stored, common)
            })
            .collect();
        let attributes = if kind.is_sfpu() {
            // The golden model ignores `vector` for tiny tiles (netlist 3.2).
            let with_vector = common[0] > 16 && common[1] > 16;
            sfpu_attributes(kind, &op.attributes, with_vector)
        } else {
            binary_attributes(kind, &op.attributes)
        };
        let kernel = if kind.is_copy() || kind == OpKind::Tilizer {
            "netlist.nop".to_owned()
        } else {
            format!("netlist.{kind}")
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
        let mut result = self.call(
            call,
            &inputs.iter().collect::<Vec<_>>(),
            first.tiles,
            common,
        );
        if kind.is_copy() {
            result.rounded = first.rounded;
        }
        Ok(result)
    }

    /// A binary op, which reads at most one operand through a view: the last that has one.
    pub(super) fn binary(&mut self, mut call: Call<'_>, inputs: &[Value]) -> Value {
        let viewed = inputs.iter().rposition(|value| value.view.is_some());
        let mut operands = Vec::with_capacity(inputs.len());
        for (index, value) in inputs.iter().enumerate() {
            if let Some(view) = value.view.as_ref().filter(|_| viewed == Some(index)) {
                let attributes = &mut call.attributes;
                attributes.push(("seen".into(), Attribute::I32(index as i32)));
                attributes.push(("tiles".into(), sizes(&view.stored)));
                attributes.push(("steps".into(), view.movements.to_string().into()));
                let broadcast = view.broadcast.map(|broadcast| broadcast.name());
                attributes.extend(broadcast.map(|name| ("spread".into(), name.into())));
                operands.push(value.clone());
            } else {
                operands.push(self.materialized(call.node, call.span, value.clone()));
            }
        }
        let (tiles, tile) = (operands[0].tiles, operands[0].tile);
        self.call(call, &operands.iter().collect::<Vec<_>>(), tiles, tile)
    }

    /// A dense matmul, or a depthwise one.
    fn matmul(&mut self, op: &Op, inputs: &[Value]) -> Result<Value> {
        let [a, b, ..] = inputs else {
            return Err(self.unsupported(op.kind.span, "a matmul of fewer than two inputs"));
        };
        let declared = &op.attributes;
        let count = |key| usize::try_from(declared.integer(key)).unwrap_or(0);
        let mut attributes: Dictionary = vec![
            ("m_k".into(), size(count(AttributeKey::MK))),
            ("integer".into(), Attribute::I1(is_integer(op))),
        ];
        let switches = [
            ("bias", AttributeKey::Bias),
            ("requant", AttributeKey::Requant),
            ("dequant", AttributeKey::Dequant),
        ];
        for (name, key) in switches {
            attributes.push((name.into(), Attribute::I1(declared.is(key))));
        }
        let zero_point = declared.number(AttributeKey::ZeroPoint).unwrap_or(0.0);
        attributes.push(("zero_point".into(), Attribute::F32(zero_point as f32)));
        let z = if declared.is(AttributeKey::Accumulate) {
            count(AttributeKey::Z).max(1)
        } else {
            1
        };
        attributes.push(("z".into(), size(z)));
        // "invalid" is the original's word for no op.
        let activation = declared
            .word(AttributeKey::SfpuOp)
            .filter(|word| *word != "invalid");
        attributes.extend(activation.map(|word| ("sfpu_op".into(), word.into())));
        if self.scope.mode == NumericMode::Formats {
            let accumulate = op.acc_df.map_or(DataFormat::Float32, |format| format.value);
            attributes.push(("accumulate".into(), accumulate.name().into()));
            attributes.push(("intermediate".into(), op.intermed_df.value.name().into()));
        }
        let depthwise = op.kind.value == OpKind::Depthwise;
        if !depthwise {
            let sums = op.gradient_op.is_some_and(|gradient| gradient.value);
            attributes.push(("sums".into(), Attribute::I1(sums)));
            attributes.extend(matmul_operands(a, b));
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
            attributes,
        };
        let tile = [a.tile[0], b.tile[1]];
        Ok(self.call(call, &inputs.iter().collect::<Vec<_>>(), tiles, tile))
    }

    /// A matmul with a sparse matrix as operand A (netlist 3.3).
    fn sparse(&mut self, op: &Op, inputs: &[Value]) -> Value {
        use AttributeKey::*;
        let mut attributes = self.blocking_attributes(op);
        let keys = [UKt, SparseTilePtrBits, SparseUblockIdxBits, FractureFactor]; // words: allow
        for key in keys {
            if op.attributes.find(key).is_some() {
                attributes.push((
                    key.name().into(),
                    Attribute::I64(op.attributes.integer(key)),
                ));
            }
        }
        let encoding = op
            .inputs
            .get(2)
            .map_or(DataFormat::RawUInt32, |input| input.df.value);
        attributes.push(("encoding".into(), encoding.name().into()));
        attributes.push(("bias".into(), Attribute::I1(op.attributes.is(Bias))));
        let width = inputs.get(1).map_or(32, |value| value.tile[1]);
        self.declared_shape(op, "netlist.sparse_matmul", attributes, inputs, [32, width])
    }

    fn splice(&mut self, op: &Op, inputs: &[Value]) -> Value {
        let mut attributes = self.blocking_attributes(op);
        let mut takings = Vec::new();
        for input in 0..inputs.len() {
            let taking = op.attributes.splice_input(input).map(|found| &found.value);
            if let Some(AttributeValue::List(values)) = taking {
                let value = |&n: &i64| Attribute::I32(i32::try_from(n).unwrap_or(-1));
                takings.extend(values.iter().map(value));
            }
        }
        attributes.push(("takings".into(), Attribute::Array(takings)));
        let granularity = op
            .attributes
            .word(AttributeKey::Granularity)
            .unwrap_or("ublock");
        attributes.push(("granularity".into(), granularity.into()));
        attributes.push(("order".into(), op.blocking.order().name().into()));
        let tile = inputs.first().map_or([32, 32], |value| value.tile);
        self.declared_shape(op, "netlist.splice", attributes, inputs, tile)
    }

    fn lookup(&mut self, op: &Op, inputs: &[Value]) -> Value {
        use AttributeKey::*;
        let mut attributes = self.blocking_attributes(op);
        for key in [NumIndices, K] {
            attributes.push((
                key.name().into(),
                Attribute::I64(op.attributes.integer(key)),
            ));
        }
        let sort = op.attributes.word(Sort).unwrap_or("none");
        attributes.push((Sort.name().into(), sort.into()));
        attributes.push((
            Kreduce.name().into(),
            Attribute::I1(op.attributes.is(Kreduce)),
        ));
        self.declared_shape(
            op,
            &format!("netlist.{}", op.kind.value),
            attributes,
            inputs,
            [32, 32],
        )
    }

    /// An op whose result has the shape that its blocking declares.
    fn declared_shape(
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

    /// The attributes for the blocking of the output.
    fn blocking_attributes(&self, op: &Op) -> Dictionary {
        let pair = |pair: [u32; 2]| sizes(&pair.map(|size| size as usize));
        vec![
            ("tiles".into(), sizes(&tiles_of(&op.blocking))),
            ("grid".into(), pair(op.blocking.grid_size.value)),
            ("mblock".into(), pair(op.blocking.mblock.value)),
            ("ublock".into(), pair(op.blocking.ublock.value)),
        ]
    }

    /// A maximum along a dimension, of an op or of a scheduled op of a fused op.
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

/// The kernel attributes of an op of the special-function unit (SFPU); `with_vector` keeps the
/// restriction to a vector of each tile.
pub(super) fn sfpu_attributes(
    kind: OpKind,
    declared: &Attributes,
    with_vector: bool,
) -> Dictionary {
    let mut attributes = Dictionary::new();
    let value = |key: AttributeKey, default: f64| {
        let value = declared.number(key).unwrap_or(default);
        (key.name().into(), Attribute::F32(value as f32))
    };
    match kind {
        OpKind::Lrelu => attributes.push(value(AttributeKey::Slope, 0.01)),
        OpKind::Dropout => attributes.push(value(AttributeKey::P, 0.0)),
        OpKind::Power => {
            let exponent = declared.integer(AttributeKey::Exp);
            attributes.push((AttributeKey::Exp.name().into(), Attribute::I64(exponent)));
        }
        _ => {}
    }
    let vector = declared.word(AttributeKey::Vector).filter(|_| with_vector);
    attributes.extend(vector.map(|vector| ("vector".into(), vector.into())));
    attributes
}

/// The kernel attributes of a binary op.
pub(super) fn binary_attributes(kind: OpKind, attributes: &Attributes) -> Dictionary {
    use OpKind::{Dequantization, Quantization, Requantization};
    match kind {
        Quantization | Requantization | Dequantization => {
            let zero_point = attributes.number(AttributeKey::ZeroPoint).unwrap_or(0.0);
            vec![("zero_point".into(), Attribute::F32(zero_point as f32))]
        }
        _ => Vec::new(),
    }
}

/// Whether an op is a matmul of dense matrices.
pub(super) fn is_dense_matmul(op: &Op) -> bool {
    op.kind.value == OpKind::Matmul && !op.attributes.is(AttributeKey::Identity)
}

/// Whether an op reads its inputs through views.
pub(super) fn reads_views(op: &Op) -> bool {
    op.kind.value.is_binary() || op.kind.value == OpKind::FusedOp
}

/// Whether a matmul is one of integers.
pub(super) fn is_integer(op: &Op) -> bool {
    let format = op.inputs.first().map(|input| input.df.value);
    use DataFormat::{Int8, Int32, UInt8};
    matches!(format, Some(Int8 | UInt8 | Int32))
}

/// The attributes for operands A and B of a matmul: their stored tiles, the movements of their views,
/// and which of them is the same in most runs.
pub(super) fn matmul_operands(a: &Value, b: &Value) -> Dictionary {
    let mut attributes = Dictionary::new();
    for (index, value) in [a, b].into_iter().enumerate() {
        let view = value.view.as_ref();
        let stored = view.map_or(value.tiles, |view| view.stored);
        attributes.push((format!("tiles_{index}").into(), sizes(&stored)));
        if let Some(view) = view {
            let movements = view.movements.to_string();
            attributes.push((format!("steps_{index}").into(), movements.into()));
        }
        if value.constant {
            attributes.push((format!("constant_{index}").into(), Attribute::I1(true)));
        }
    }
    attributes
}

/// An error about the netlist.
pub(super) fn invalid(text: impl Into<String>) -> Error {
    Error::new(ErrorKind::InvalidModel, text)
}
