//! The words that only netlists have: types of queues and ops, memories, math fidelity.

use tenon_tile::words;

words! {
    /// Whether an IO node has flow control (facts 2, queues).
    QueueKind, "type of queue", exact case true;
    /// A FIFO with pointers that wait.
    Queue "queue";
    /// Memory without flow control.
    Ram "ram";
}

words! {
    /// Where a queue lies.
    Memory, "location", exact case true;
    /// In the device's memory.
    Dram "dram";
    /// In the host's memory.
    Host "host";
}

words! {
    /// How exactly a device multiplies; without effect on numbers here (facts 3).
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
    /// What an op computes (facts 3.1).
    OpKind, "type of op", exact case true;
    /// Its input.
    Nop "nop";
    /// Its input.
    Datacopy "datacopy";
    /// Its input, on another device.
    EthernetDatacopy "ethernet_datacopy";
    /// a + b.
    Add "add";
    /// a - b.
    Subtract "subtract";
    /// a * b.
    Multiply "multiply";
    /// The larger of two.
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
    /// The magnitude.
    Abs "abs";
    /// x * x.
    Square "square";
    /// The Gaussian error linear unit, its tanh form.
    Gelu "gelu";
    /// Its derivative.
    GeluDerivative "gelu_derivative";
    /// x, or slope * x where that is negative.
    Lrelu "lrelu";
    /// x to an integer power.
    Power "power";
    /// Zeros at random.
    Dropout "dropout";
    /// The matrix product.
    Matmul "matmul";
    /// The product channel by channel.
    Depthwise "depthwise";
    /// The maximum along a dimension.
    Reduce "reduce";
    /// Parts of its inputs, one after the other.
    Splice "splice";
    /// Rows of a table.
    Embedding "embedding";
    /// Row-major to tiles.
    Tilizer "tilizer";
    /// The largest k of each row.
    Topk "topk";
    /// A schedule of ops.
    FusedOp "fused_op";
    /// Known to the reader of the original, to nothing that runs it.
    Buffer "buffer";
    /// A measuring aid of the original.
    Drainer "drainer";
}

impl OpKind {
    /// How many inputs it takes, least and most; a fused op says so itself.
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

    /// Whether it works element by element on two inputs.
    pub fn is_binary(self) -> bool {
        use OpKind::*;
        matches!(
            self,
            Add | Subtract | Multiply | Maximum | Quantization | Requantization | Dequantization
        )
    }

    /// Whether it works element by element on one input, on the special-function unit.
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

    /// Whether its tiles pass through the registers of the math unit.
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
    fn case_counts_only_where_the_original_says_so() {
        assert_eq!(Memory::from_word("DRAM"), None);
        assert_eq!(OpKind::from_word("sub"), None);
    }

    #[test]
    fn every_type_of_op_parses_from_its_name() {
        for &kind in OpKind::ALL {
            assert_eq!(OpKind::from_word(kind.name()), Some(kind));
        }
    }
}
