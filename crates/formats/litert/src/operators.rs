//! The operators that are converted, one row each.

mod bits;
mod detection;
mod elementwise;
mod gather;
mod image;
mod matmul;
mod movement;
mod normalization;
mod pooling;
mod quantize;
mod recurrent;
mod reduction;
mod resize;
mod selection;
mod shape;
mod slice;
mod suppression;
mod update;

use crate::control;
use crate::node::Operation;
use crate::schema::tflite::BuiltinOperator as Builtin;
use tenon_base::Result;

/// Adds the nodes of an operator, and sets its outputs.
pub(crate) type Converter = fn(&mut Operation<'_, '_>) -> Result<()>;

/// The converter of an operator, with the name of a custom one; `None` for one that is refused.
pub(crate) fn converter(operator: Builtin, custom: Option<&str>) -> Option<Converter> {
    if operator == Builtin::CUSTOM {
        let row = CUSTOM.iter().find(|row| Some(row.0) == custom);
        return row.map(|row| row.1);
    }
    let row = OPERATORS.iter().find(|row| row.0 == operator);
    row.map(|row| row.1)
}

/// Operators of other libraries.
#[rustfmt::skip]
const CUSTOM: &[(&str, Converter)] = &[
    ("AveragePool3D",                |op| pooling::of_volumes(op, "AveragePool")),
    ("MaxPool3D",                    |op| pooling::of_volumes(op, "MaxPool")),
    ("TFLite_Detection_PostProcess", detection::post_process),
];

#[rustfmt::skip]
const OPERATORS: &[(Builtin, Converter)] = &[
    (Builtin::ABS,                          |op| elementwise::unary(op, "Abs")),
    (Builtin::ADD,                          |op| elementwise::binary(op, "Add")),
    (Builtin::ADD_N,                        elementwise::sum),
    (Builtin::ARG_MAX,                      |op| selection::arg(op, "ArgMax")),
    (Builtin::ARG_MIN,                      |op| selection::arg(op, "ArgMin")),
    (Builtin::ATAN2,                        elementwise::angle),
    (Builtin::AVERAGE_POOL_2D,              pooling::average),
    (Builtin::BATCH_MATMUL,                 matmul::batch),
    (Builtin::BATCH_TO_SPACE_ND,            image::batch_to_space),
    (Builtin::BIDIRECTIONAL_SEQUENCE_LSTM,  recurrent::bidirectional_lstm),
    (Builtin::BIDIRECTIONAL_SEQUENCE_RNN,   recurrent::bidirectional_rnn),
    (Builtin::BITCAST,                      bits::bit_cast),
    (Builtin::BITWISE_XOR,                  bits::xor),
    (Builtin::BROADCAST_ARGS,               shape::broadcast_args),
    (Builtin::BROADCAST_TO,                 shape::broadcast),
    (Builtin::CALL,                         control::call),
    (Builtin::CALL_ONCE,                    control::call_once),
    (Builtin::CAST,                         quantize::cast),
    (Builtin::CEIL,                         |op| elementwise::unary(op, "Ceil")),
    (Builtin::CONCATENATION,                movement::concatenation),
    (Builtin::CONV_2D,                      image::conv_2d),
    (Builtin::CONV_3D,                      image::conv_3d),
    (Builtin::COS,                          |op| elementwise::unary(op, "Cos")),
    (Builtin::CUMSUM,                       reduction::cumulative_sum),
    (Builtin::DENSIFY,                      quantize::densify),
    (Builtin::DEPTHWISE_CONV_2D,            image::depthwise),
    (Builtin::DEPTH_TO_SPACE,               image::depth_to_space),
    (Builtin::DEQUANTIZE,                   quantize::dequantize),
    (Builtin::DIV,                          |op| elementwise::binary(op, "Div")),
    (Builtin::DYNAMIC_UPDATE_SLICE,         update::update_slice),
    (Builtin::ELU,                          |op| elementwise::unary(op, "Elu")),
    (Builtin::EMBEDDING_LOOKUP,             gather::embedding),
    (Builtin::EQUAL,                        |op| elementwise::comparison(op, "Equal")),
    (Builtin::EXP,                          |op| elementwise::unary(op, "Exp")),
    (Builtin::EXPAND_DIMS,                  shape::expand_dims),
    (Builtin::FAKE_QUANT,                   quantize::fake_quantize),
    (Builtin::FILL,                         shape::fill),
    (Builtin::FLOOR,                        |op| elementwise::unary(op, "Floor")),
    (Builtin::FLOOR_DIV,                    elementwise::floor_div),
    (Builtin::FLOOR_MOD,                    elementwise::floor_mod),
    (Builtin::FULLY_CONNECTED,              matmul::fully_connected),
    (Builtin::GATHER,                       gather::gather),
    (Builtin::GATHER_ND,                    gather::gather_nd),
    (Builtin::GELU,                         elementwise::gelu),
    (Builtin::GREATER,                      |op| elementwise::comparison(op, "Greater")),
    (Builtin::GREATER_EQUAL,                |op| elementwise::comparison(op, "GreaterOrEqual")),
    (Builtin::HARD_SWISH,                   |op| elementwise::unary(op, "HardSwish")),
    (Builtin::IF,                           control::branch),
    (Builtin::L2_NORMALIZATION,             normalization::l2),
    (Builtin::L2_POOL_2D,                   pooling::l2),
    (Builtin::LEAKY_RELU,                   elementwise::leaky_relu),
    (Builtin::LESS,                         |op| elementwise::comparison(op, "Less")),
    (Builtin::LESS_EQUAL,                   |op| elementwise::comparison(op, "LessOrEqual")),
    (Builtin::LOCAL_RESPONSE_NORMALIZATION, normalization::local_response),
    (Builtin::LOG,                          |op| elementwise::unary(op, "Log")),
    (Builtin::LOGICAL_AND,                  |op| elementwise::binary(op, "And")),
    (Builtin::LOGICAL_NOT,                  |op| elementwise::unary(op, "Not")),
    (Builtin::LOGICAL_OR,                   |op| elementwise::binary(op, "Or")),
    (Builtin::LOGISTIC,                     |op| elementwise::unary(op, "Sigmoid")),
    (Builtin::LOG_SOFTMAX,                  normalization::log_softmax),
    (Builtin::LSTM,                         recurrent::lstm),
    (Builtin::MAXIMUM,                      |op| elementwise::binary(op, "Max")),
    (Builtin::MAX_POOL_2D,                  pooling::max),
    (Builtin::MEAN,                         |op| reduction::reduction(op, "ReduceMean")),
    (Builtin::MINIMUM,                      |op| elementwise::binary(op, "Min")),
    (Builtin::MIRROR_PAD,                   movement::mirror_pad),
    (Builtin::MUL,                          |op| elementwise::binary(op, "Mul")),
    (Builtin::NEG,                          |op| elementwise::unary(op, "Neg")),
    (Builtin::NON_MAX_SUPPRESSION_V4,       suppression::hard),
    (Builtin::NON_MAX_SUPPRESSION_V5,       suppression::soft),
    (Builtin::NOT_EQUAL,                    elementwise::not_equal),
    (Builtin::ONE_HOT,                      gather::one_hot),
    (Builtin::PACK,                         movement::pack),
    (Builtin::PAD,                          movement::pad),
    (Builtin::PADV2,                        movement::pad),
    (Builtin::POW,                          |op| elementwise::binary(op, "Pow")),
    (Builtin::PRELU,                        elementwise::prelu),
    (Builtin::QUANTIZE,                     quantize::quantize),
    (Builtin::RANGE,                        shape::range),
    (Builtin::RANK,                         shape::rank),
    (Builtin::REDUCE_ALL,                   |op| reduction::of_bools(op, "ReduceMin")),
    (Builtin::REDUCE_ANY,                   |op| reduction::of_bools(op, "ReduceMax")),
    (Builtin::REDUCE_MAX,                   |op| reduction::reduction(op, "ReduceMax")),
    (Builtin::REDUCE_MIN,                   |op| reduction::reduction(op, "ReduceMin")),
    (Builtin::REDUCE_PROD,                  |op| reduction::reduction(op, "ReduceProd")),
    (Builtin::RELU,                         |op| elementwise::limited(op, 0.0, f32::INFINITY)),
    (Builtin::RELU6,                        |op| elementwise::limited(op, 0.0, 6.0)),
    (Builtin::RELU_0_TO_1,                  |op| elementwise::limited(op, 0.0, 1.0)),
    (Builtin::RELU_N1_TO_1,                 |op| elementwise::limited(op, -1.0, 1.0)),
    (Builtin::RESHAPE,                      shape::reshape),
    (Builtin::RESIZE_BILINEAR,              resize::bilinear),
    (Builtin::RESIZE_NEAREST_NEIGHBOR,      resize::nearest),
    (Builtin::REVERSE_SEQUENCE,             movement::reverse_sequence),
    (Builtin::REVERSE_V2,                   slice::reverse),
    (Builtin::RIGHT_SHIFT,                  bits::right_shift),
    (Builtin::RNN,                          recurrent::rnn),
    (Builtin::ROUND,                        |op| elementwise::unary(op, "Round")),
    (Builtin::RSQRT,                        elementwise::rsqrt),
    (Builtin::SCATTER_ND,                   gather::scatter_nd),
    (Builtin::SELECT,                       |op| selection::select(op, true)),
    (Builtin::SELECT_V2,                    |op| selection::select(op, false)),
    (Builtin::SHAPE,                        shape::shape),
    (Builtin::SIGN,                         |op| elementwise::unary(op, "Sign")),
    (Builtin::SIN,                          |op| elementwise::unary(op, "Sin")),
    (Builtin::SLICE,                        slice::slice),
    (Builtin::SOFTMAX,                      normalization::softmax),
    (Builtin::SPACE_TO_BATCH_ND,            image::space_to_batch),
    (Builtin::SPACE_TO_DEPTH,               image::space_to_depth),
    (Builtin::SPLIT,                        movement::split),
    (Builtin::SPLIT_V,                      movement::split_v),
    (Builtin::SQRT,                         |op| elementwise::unary(op, "Sqrt")),
    (Builtin::SQUARE,                       elementwise::square),
    (Builtin::SQUARED_DIFFERENCE,           elementwise::squared_difference),
    (Builtin::SQUEEZE,                      shape::squeeze),
    (Builtin::STRIDED_SLICE,                slice::strided_slice),
    (Builtin::SUB,                          |op| elementwise::binary(op, "Sub")),
    (Builtin::SUM,                          |op| reduction::reduction(op, "ReduceSum")),
    (Builtin::SVDF,                         recurrent::svdf),
    (Builtin::TANH,                         |op| elementwise::unary(op, "Tanh")),
    (Builtin::TILE,                         shape::tile),
    (Builtin::TOPK_V2,                      selection::top_k),
    (Builtin::TRANSPOSE,                    movement::transpose),
    (Builtin::TRANSPOSE_CONV,               image::transpose_conv),
    (Builtin::UNIDIRECTIONAL_SEQUENCE_LSTM, recurrent::sequence_lstm),
    (Builtin::UNIDIRECTIONAL_SEQUENCE_RNN,  recurrent::sequence_rnn),
    (Builtin::UNPACK,                       movement::unpack),
    (Builtin::WHERE,                        selection::positions),
    (Builtin::WHILE,                        control::repeat),
    (Builtin::ZEROS_LIKE,                   shape::zeros),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_sorted_and_unique() {
        let names = OPERATORS.iter().map(|row| row.0.variant_name().unwrap());
        let names: Vec<&str> = names.collect();
        assert!(names.is_sorted_by(|a, b| a < b), "{names:?}");
    }
}
