//! A scan of the protobuf wire format of a model, before it is decoded.
//!
//! Two bytes of protobuf can encode an empty message with hundreds of bytes of memory. The scan
//! allocates nothing: it checks the framing, locates the first violation, and refuses a file whose
//! messages would take far more memory than any real model of its length.

use crate::proto::*;
use tenon_base::{Error, ErrorKind, Location, Result};

/// The limit of memory for messages, in bytes for each byte of the file. Dense real models (many small
/// attributes, no weights) take less than 20.
const MEMORY_PER_BYTE: usize = 32;

/// The limit of nested messages, that of the decoder.
const DEPTH: usize = 100;

/// The layout of a message: its memory, and its fields of messages or lists of strings.
struct MessageLayout {
    size: usize,
    fields: &'static [(u64, &'static str, Inner)],
}

#[derive(Clone, Copy)]
enum Inner {
    Message(&'static MessageLayout),
    /// An item of a list of strings or bytes, with its memory.
    Text(usize),
}

use Inner::Text;

const STRING: Inner = Text(size_of::<String>());
const BYTES: Inner = Text(size_of::<bytes::Bytes>());

macro_rules! messages {
    ($($name:ident: $proto:ty, [$($tag:literal $field:literal $inner:expr),* $(,)?];)*) => {$(
        static $name: MessageLayout = MessageLayout {
            size: size_of::<$proto>(),
            fields: &[$(($tag, $field, $inner)),*],
        };
    )*};
}

/// A field of messages.
const fn of(message: &'static MessageLayout) -> Inner {
    Inner::Message(message)
}

messages! {
    MODEL: ModelProto, [
        7 "graph" of(&GRAPH), 8 "opset_import" of(&OPERATOR_SET), 14 "metadata_props" of(&ENTRY),
        25 "functions" of(&FUNCTION),
    ];
    OPERATOR_SET: OperatorSetIdProto, [];
    ENTRY: StringStringEntryProto, [];
    GRAPH: GraphProto, [
        1 "node" of(&NODE), 5 "initializer" of(&TENSOR), 15 "sparse_initializer" of(&SPARSE_TENSOR),
        11 "input" of(&VALUE_INFO), 12 "output" of(&VALUE_INFO), 13 "value_info" of(&VALUE_INFO),
    ];
    FUNCTION: FunctionProto, [
        4 "input" STRING, 5 "output" STRING, 6 "attribute" STRING,
        11 "attribute_proto" of(&ATTRIBUTE), 7 "node" of(&NODE), 9 "opset_import" of(&OPERATOR_SET),
    ];
    NODE: NodeProto, [1 "input" STRING, 2 "output" STRING, 5 "attribute" of(&ATTRIBUTE)];
    ATTRIBUTE: AttributeProto, [5 "t" of(&TENSOR), 6 "g" of(&GRAPH), 9 "strings" BYTES, 14 "tp" of(&TYPE)];
    TENSOR: TensorProto, [
        3 "segment" of(&SEGMENT), 6 "string_data" BYTES, 13 "external_data" of(&ENTRY),
    ];
    SEGMENT: SegmentProto, [];
    SPARSE_TENSOR: SparseTensorProto, [1 "values" of(&TENSOR), 2 "indices" of(&TENSOR)];
    VALUE_INFO: ValueInfoProto, [2 "type" of(&TYPE)];
    TYPE: TypeProto, [
        1 "tensor_type" of(&TENSOR_TYPE), 4 "sequence_type" of(&ELEMENT_TYPE),
        9 "optional_type" of(&ELEMENT_TYPE),
    ];
    ELEMENT_TYPE: ElementTypeProto, [1 "elem_type" of(&TYPE)];
    TENSOR_TYPE: TensorTypeProto, [2 "shape" of(&SHAPE)];
    SHAPE: TensorShapeProto, [1 "dim" of(&DIMENSION)];
    DIMENSION: DimensionProto, [];
}

/// Checks the framing and the memory of the model in `bytes`.
pub(crate) fn check(bytes: &[u8]) -> Result<()> {
    let budget = bytes
        .len()
        .saturating_mul(MEMORY_PER_BYTE)
        .saturating_add(1 << 20);
    let mut walk = WireScan {
        bytes,
        at: 0,
        budget,
        path: Vec::new(),
    };
    walk.message(&MODEL, bytes.len())
}

/// The state of the scan.
struct WireScan<'a> {
    bytes: &'a [u8],
    at: usize,
    budget: usize,
    /// The path of fields to the current message, each with its index.
    path: Vec<(&'static str, usize)>,
}

impl WireScan<'_> {
    /// Scans the fields of `message`, which ends before byte `end`.
    fn message(&mut self, message: &'static MessageLayout, end: usize) -> Result<()> {
        self.spend(message.size)?;
        if self.path.len() > DEPTH {
            return Err(self.broken("messages are nested too deeply"));
        }
        let mut counts = vec![0usize; message.fields.len()];
        while self.at < end {
            let key = self.varint(end)?;
            let length = match key & 7 {
                0 => {
                    self.varint(end)?;
                    continue;
                }
                1 => 8,
                2 => self.varint(end)?,
                5 => 4,
                _ => return Err(self.broken("a field of an unknown kind")),
            };
            let left = (end - self.at) as u64;
            if length > left {
                return Err(self
                    .broken("a field is longer than what holds it")
                    .expected(format_args!("at most {left} bytes"))
                    .found(length));
            }
            let field_end = self.at + length as usize;
            let position = message.fields.iter().position(|&(tag, ..)| tag == key >> 3);
            if let Some(position) = position.filter(|_| key & 7 == 2) {
                let (_, name, inner) = message.fields[position];
                let index = counts[position];
                counts[position] += 1;
                match inner {
                    Inner::Text(size) => self.spend(size)?,
                    Inner::Message(inner) => {
                        self.path.push((name, index));
                        self.message(inner, field_end)?;
                        self.path.pop();
                    }
                }
            }
            self.at = field_end;
        }
        Ok(())
    }

    fn varint(&mut self, end: usize) -> Result<u64> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            if self.at >= end {
                return Err(self.broken("a number is cut short"));
            }
            let byte = self.bytes[self.at];
            self.at += 1;
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(self.broken("a number has more than 64 bits"))
    }

    fn spend(&mut self, size: usize) -> Result<()> {
        match self.budget.checked_sub(size) {
            Some(left) => self.budget = left,
            None => {
                return Err(self.broken("far more messages than a file of this length can need"));
            }
        }
        Ok(())
    }

    fn broken(&self, what: &str) -> Error {
        let field = self
            .path
            .iter()
            .map(|(name, index)| format!("{name}[{index}]"));
        let mut location = Location::offset(self.at as u64);
        location.field = (!self.path.is_empty()).then(|| field.collect::<Vec<_>>().join("."));
        Error::new(
            ErrorKind::InvalidModel,
            format!("not an ONNX model: {what}"),
        )
        .at(location)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use prost::Message as _;

    #[test]
    fn a_violation_is_located() {
        let info = ValueInfoProto {
            name: "x".into(),
            r#type: None,
        };
        let graph = GraphProto {
            input: vec![info.clone(), info],
            ..Default::default()
        };
        let model = ModelProto {
            graph: Some(Box::new(graph)),
            ..Default::default()
        };
        let mut bytes = model.encode_to_vec();
        check(&bytes).unwrap();
        // The length of the second name.
        let last = bytes.len() - 2;
        bytes[last] = 9;
        assert_eq!(
            check(&bytes).unwrap_err().to_string(),
            format!(
                "graph[0].input[1]: byte {}: not an ONNX model: a field is longer than what holds \
                 it: expected at most 1 bytes, found 9",
                last + 1
            )
        );
    }

    #[test]
    fn a_flood_of_empty_messages_is_refused() {
        let node = NodeProto {
            attribute: vec![AttributeProto::default(); 60_000],
            ..Default::default()
        };
        let graph = GraphProto {
            node: vec![node],
            ..Default::default()
        };
        let model = ModelProto {
            graph: Some(Box::new(graph)),
            ..Default::default()
        };
        let error = check(&model.encode_to_vec()).unwrap_err();
        assert!(error.to_string().contains("far more messages"), "{error}");
    }

    #[test]
    fn no_varint_is_read_past_the_end() {
        assert!(
            check(&[0x80])
                .unwrap_err()
                .to_string()
                .contains("cut short")
        );
        assert!(
            check(&[0xff; 12])
                .unwrap_err()
                .to_string()
                .contains("more than 64 bits")
        );
        assert!(
            check(&[0x3b])
                .unwrap_err()
                .to_string()
                .contains("unknown kind")
        );
        check(&[]).unwrap();
    }
}
