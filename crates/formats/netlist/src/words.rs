//! The keywords of netlists: types of queues and ops, memories, math fidelity.

use tenon_tile::words;

words! {
    /// The type of an IO node (netlist 2.2).
    QueueKind, "type of queue", exact case true;
    /// A FIFO with flow control.
    Queue "queue";
    /// Memory without flow control.
    Ram "ram";
}

words! {
    /// The memory of a queue.
    Memory, "location", exact case true;
    /// Device memory.
    Dram "dram";
    /// Host memory.
    Host "host";
}

words! {
    /// The precision of multiplications on a device; no effect on values in Tenon (netlist 3.2).
    MathFidelity, "math fidelity", exact case true;
    /// One pass.
    LoFi "LoFi";
    /// Two passes.
    HiFi2 "HiFi2";
    /// Three passes.
    HiFi3 "HiFi3";
    /// Four passes.
    HiFi4 "HiFi4";
    /// Two passes, the low bits of the first operand.
    HiFi2A "HiFi2_A";
    /// Two passes, the low bits of the second operand.
    HiFi2B "HiFi2_B";
}

words! {
    /// The type of an op (netlist 3.1).
    OpKind, "type of op", exact case true;
    /// Copies its input.
    Nop "nop";
    /// Copies its input.
    Datacopy "datacopy";
    /// Copies its input to another device.
    EthernetDatacopy "ethernet_datacopy";
    /// a + b.
    Add "add";
    /// a - b.
    Subtract "subtract";
    /// a * b.
    Multiply "multiply";
    /// max(a, b).
    Maximum "maximum";
    /// Float to Int8 with a scale.
    Quantization "quantization";
    /// Int32 to Int8 with a scale.
    Requantization "requantization";
    /// Int32 to float with a scale.
    Dequantization "dequantization";
    /// e to the x.
    Exp "exp";
    /// The natural logarithm.
    Log "log";
    /// The square root.
    Sqrt "sqrt";
    /// 1 / x.
    Reciprocal "reciprocal";
    /// 1 / (1 + e to the -x).
    Sigmoid "sigmoid";
    /// The hyperbolic tangent.
    Tanh "tanh";
    /// The sine.
    Sine "sine";
    /// The cosine.
    Cosine "cosine";
    /// The absolute value.
    Abs "abs";
    /// x * x.
    Square "square";
    /// The Gaussian error linear unit, in the tanh approximation.
    Gelu "gelu";
    /// Its derivative.
    GeluDerivative "gelu_derivative";
    /// x, or slope * x where that is negative.
    Lrelu "lrelu";
    /// x to an integer power.
    Power "power";
    /// Dropout.
    Dropout "dropout";
    /// The matrix product.
    Matmul "matmul";
    /// The depthwise product.
    Depthwise "depthwise";
    /// The maximum along a dimension.
    Reduce "reduce";
    /// Interleaves parts of its inputs.
    Splice "splice";
    /// Gathers rows of a table.
    Embedding "embedding";
    /// Converts row-major data to tiles.
    Tilizer "tilizer";
    /// The k largest values of each row.
    Topk "topk";
    /// A schedule of ops.
    FusedOp "fused_op";
    /// Accepted by the parser of the original, without an implementation.
    Buffer "buffer";
    /// A performance test aid of the original.
    Drainer "drainer";
}

impl OpKind {
    /// Minimal and maximal number of inputs; a fused op declares its number.
    pub fn inputs(self) -> (usize, usize) {
        use OpKind::*;
        match self {
            Add | Subtract | Multiply | Maximum | Quantization | Requantization
            | Dequantization | Embedding | Topk => (2, 2),
            Matmul => (2, 4),
            Depthwise => (2, 3),
            Splice => (1, 8),
            FusedOp => (1, 16),
            _ => (1, 1),
        }
    }

    /// Whether it is an elementwise binary op.
    pub fn is_binary(self) -> bool {
        use OpKind::*;
        matches!(
            self,
            Add | Subtract | Multiply | Maximum | Quantization | Requantization | Dequantization
        )
    }

    /// Whether it is an elementwise unary op of the special-function unit.
    pub fn is_sfpu(self) -> bool {
        use OpKind::*;
        matches!(
            self,
            Exp | Log
                | Sqrt
                | Reciprocal
                | Sigmoid
                | Tanh
                | Sine
                | Cosine
                | Abs
                | Square
                | Gelu
                | GeluDerivative
                | Lrelu
                | Power
                | Dropout
        )
    }

    /// Whether it uses the destination registers of the math unit.
    pub fn uses_registers(self) -> bool {
        !matches!(self, OpKind::EthernetDatacopy | OpKind::Embedding)
    }

    /// Whether it copies its one input.
    pub fn is_copy(self) -> bool {
        matches!(
            self,
            OpKind::Nop | OpKind::Datacopy | OpKind::EthernetDatacopy
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tenon_tile::Word;

    #[test]
    fn keywords_are_case_sensitive_where_the_original_is() {
        assert_eq!(Memory::from_word("DRAM"), None);
        assert_eq!(OpKind::from_word("sub"), None);
    }

    #[test]
    fn every_op_type_parses_from_its_name() {
        for &kind in OpKind::ALL {
            assert_eq!(OpKind::from_word(kind.name()), Some(kind));
        }
    }
}
