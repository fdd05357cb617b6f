//! Operators of `com.microsoft` that exporters and the optimiser of onnxruntime commonly write, and that
//! are ONNX operators of another name, or short sequences of them.

use crate::draft::{Draft, DraftNode};
use crate::import::invalid;
use tenon_base::{Error, ErrorKind, Result};
use tenon_graph::{Attribute, Attributes, ValueId};
use tenon_tensor::Tensor;

pub(super) const DOMAIN: &str = "com.microsoft";

#[rustfmt::skip]
const ADAPTERS: &[(&str, super::Adapter)] = &[
    ("Attention",                        super::attention::with_projection),
    ("BeamSearch",                       search),
    ("BiasGelu",                         bias_gelu),
    ("BiasSplitGelu",                    bias_split_gelu),
    ("DequantizeLinear",                 same),
    ("DynamicQuantizeLSTM",              super::recurrent::lstm),
    ("DynamicQuantizeMatMul",            super::integers::dynamic_matmul),
    ("EmbedLayerNormalization",          super::embedding::normalized),
    ("FastGelu",                         fast_gelu),
    ("FusedConv",                        fused_conv),
    ("FusedGemm",                        fused_gemm),
    ("FusedMatMul",                      fused_matmul),
    ("GatherBlockQuantized",             super::gather::gather),
    ("Gelu",                             same),
    ("GreedySearch",                     search),
    ("GroupQueryAttention",              super::grouped::attention),
    ("Inverse",                          inverse),
    ("MatMulIntegerToFloat",             super::integers::matmul_to_float),
    ("MatMulNBits",                      super::weights::matmul),
    ("MultiHeadAttention",               super::attention::multi_head),
    ("NhwcFusedConv",                    |draft, node| channels_last(draft, node, fused_conv)),
    ("NhwcMaxPool",                      |draft, node| channels_last(draft, node, max_pool)),
    ("PackedAttention",                  super::grouped::packed),
    ("PackedMultiHeadAttention",         super::grouped::packed),
    ("QAttention",                       super::attention::quantised),
    ("QEmbedLayerNormalization",         super::embedding::quantised),
    ("QuantizeLinear",                   same),
    ("QuickGelu",                        quick_gelu),
    ("RotaryEmbedding",                  super::attention::rotary),
    ("Sampling",                         search),
    ("SkipLayerNormalization",           skip_layer_normalization),
    ("SkipSimplifiedLayerNormalization", skip_simplified_layer_normalization),
    ("Tokenizer",                        tokenizer),
    ("TransposeMatMul",                  fused_matmul),
    ("Trilu",                            same),
    ("Unique",                           unique),
];

/// The attributes of operators whose adapters read them. Those of others are kept, and checked with the operator that the
/// node becomes.
#[rustfmt::skip]
const ATTRIBUTES: &[(&str, &[&str])] = &[
    ("Attention", &[
        "do_rotary", "mask_filter_value", "num_heads", "past_present_share_buffer", "qkv_hidden_sizes",
        "rotary_embedding_dim", "scale", "unidirectional",
    ]),
    ("BiasGelu", &[]),
    ("BiasSplitGelu", &[]),
    ("DynamicQuantizeLSTM", &[
        "activation_alpha", "activation_beta", "activations", "clip", "direction", "hidden_size", "input_forget",
    ]),
    ("DynamicQuantizeMatMul", &[]),
    ("EmbedLayerNormalization", &["epsilon", "mask_index_type"]),
    ("FastGelu", &[]),
    ("GatherBlockQuantized", &["bits", "block_size", "gather_axis", "quantize_axis"]),
    ("GroupQueryAttention", &[
        "do_rotary", "k_quant_type", "kv_cache_bit_width", "kv_num_heads", "local_window_size", "num_heads", "qk_output",
        "rotary_interleaved", "scale", "smooth_softmax", "softcap", "v_quant_type",
    ]),
    ("MatMulIntegerToFloat", &[]),
    ("MatMulNBits", &["K", "N", "accuracy_level", "bits", "block_size"]),
    ("MultiHeadAttention", &["mask_filter_value", "num_heads", "scale", "unidirectional"]),
    ("QAttention", &[
        "do_rotary", "mask_filter_value", "num_heads", "past_present_share_buffer", "scale", "unidirectional",
    ]),
    ("QEmbedLayerNormalization", &["epsilon"]),
    ("QuickGelu", &["alpha"]),
    ("SkipLayerNormalization", &["epsilon"]),
    ("SkipSimplifiedLayerNormalization", &["epsilon"]),
];

/// Refuses an attribute that the adapter does not know, with its value.
fn check_attributes(node: &DraftNode) -> Result<()> {
    let known = ATTRIBUTES.iter().find(|row| row.0 == node.operator);
    let Some((_, known)) = known else {
        return Ok(());
    };
    let mut attributes = node.attributes.iter();
    let unknown = attributes.find(|(name, _)| !known.contains(name));
    let Some((name, value)) = unknown else {
        return Ok(());
    };
    Err(Error::new(ErrorKind::Unsupported, value.to_string()).at(crate::attribute::place(name)))
}

/// The node with operators of ONNX or Tenon; unchanged for other operators.
pub(super) fn newest(draft: &mut Draft, node: DraftNode) -> Result<DraftNode> {
    check_attributes(&node)?;
    let mut adapters = ADAPTERS.iter().chain(super::quantized::ADAPTERS);
    match adapters.find(|row| row.0 == node.operator) {
        Some((_, adapter)) => Ok(DraftNode {
            domain: String::new(),
            version: super::NEWEST,
            ..adapter(draft, node)?
        }),
        None => Ok(node),
    }
}

/// The operator of ONNX with the same name.
fn same(_: &mut Draft, node: DraftNode) -> Result<DraftNode> {
    Ok(node)
}

fn inverse(_: &mut Draft, node: DraftNode) -> Result<DraftNode> {
    Ok(DraftNode {
        operator: "tenon.Inverse".into(),
        ..node
    })
}

fn tokenizer(_: &mut Draft, node: DraftNode) -> Result<DraftNode> {
    Ok(DraftNode {
        operator: "tenon.Tokenizer".into(),
        ..node
    })
}

pub(super) fn operand(node: &DraftNode, index: usize) -> Option<ValueId> {
    node.inputs.get(index).copied().flatten()
}

/// The elements of input `index`, which must be a constant.
pub(super) fn constant<'a>(
    draft: &'a Draft,
    node: &DraftNode,
    index: usize,
    name: &str,
) -> Result<&'a Tensor> {
    draft.constant(operand(node, index)).ok_or_else(|| {
        let text = format!("input '{name}' is not a constant");
        Error::new(ErrorKind::Unsupported, text)
    })
}

/// Removes attributes that are supported as 0 alone.
pub(super) fn remove_flags(node: &mut DraftNode, names: &[&str]) -> Result<()> {
    for name in names {
        if node.attributes.flag(name, false)? {
            return Err(Error::new(ErrorKind::Unsupported, "1").at(crate::attribute::place(name)));
        }
        node.attributes.remove(name);
    }
    Ok(())
}

/// `node` as an operator of another name over other inputs.
pub(super) fn renamed(
    node: DraftNode,
    operator: &str,
    attributes: Attributes,
    inputs: Vec<Option<ValueId>>,
) -> DraftNode {
    DraftNode {
        operator: operator.into(),
        attributes,
        inputs,
        ..node
    }
}

/// Gelu(X + bias).
fn bias_gelu(draft: &mut Draft, node: DraftNode) -> Result<DraftNode> {
    let sum = draft.step(
        &node,
        "Add",
        Attributes::new(),
        &[operand(&node, 0), operand(&node, 1)],
    );
    Ok(renamed(node, "Gelu", Attributes::new(), vec![Some(sum)]))
}

/// Gelu by tanh of X, or of X + bias.
fn fast_gelu(draft: &mut Draft, node: DraftNode) -> Result<DraftNode> {
    let (mut x, bias) = (operand(&node, 0), operand(&node, 1));
    if bias.is_some() {
        x = Some(draft.step(&node, "Add", Attributes::new(), &[x, bias]));
    }
    let attributes = Attributes::new().with("approximate", Attribute::String("tanh".into()));
    Ok(renamed(node, "Gelu", attributes, vec![x]))
}

/// Of X + bias, the first half times Gelu of the second.
fn bias_split_gelu(draft: &mut Draft, node: DraftNode) -> Result<DraftNode> {
    let inputs = [operand(&node, 0), operand(&node, 1)];
    let sum = draft.step(&node, "Add", Attributes::new(), &inputs);
    let halves = Attributes::new()
        .with("axis", Attribute::Int(-1))
        .with("num_outputs", Attribute::Int(2));
    let [value, gate] = draft.step_outputs(&node, "Split", halves, &[Some(sum)]);
    let gate = draft.step(&node, "Gelu", Attributes::new(), &[Some(gate)]);
    let inputs = vec![Some(value), Some(gate)];
    Ok(renamed(node, "Mul", Attributes::new(), inputs))
}

/// Unique elements in the order of their first occurrence, the position of each element among them, and their counts.
fn unique(_: &mut Draft, mut node: DraftNode) -> Result<DraftNode> {
    node.attributes.set("sorted", Attribute::Int(0));
    node.outputs.resize(3, None);
    // The first occurrences are no output.
    node.outputs.insert(1, None);
    Ok(node)
}

/// The searches of onnxruntime run a decoder in a loop: an application does that with a session.
fn search(_: &mut Draft, _: DraftNode) -> Result<DraftNode> {
    Err(Error::new(
        ErrorKind::Unsupported,
        "a search over the outputs of a decoder; compile the decoder (attribute 'decoder') as a separate model, and \
         choose tokens in the application, with a session that keeps its states",
    ))
}

/// MaxPool.
fn max_pool(_: &mut Draft, node: DraftNode) -> Result<DraftNode> {
    Ok(DraftNode {
        operator: "MaxPool".into(),
        ..node
    })
}

/// An operator of images whose channels are last, as one whose channels follow the batch.
fn channels_last(
    draft: &mut Draft,
    mut node: DraftNode,
    adapter: super::Adapter,
) -> Result<DraftNode> {
    let order = |perm: [i64; 4]| Attributes::new().with("perm", Attribute::Ints(perm.to_vec()));
    // An image, and the addend of a convolution, which is the fourth input.
    for index in [0, 3] {
        if let Some(image) = operand(&node, index) {
            let first = draft.step(&node, "Transpose", order([0, 3, 1, 2]), &[Some(image)]);
            node.inputs[index] = Some(first);
        }
    }
    let step = adapter(draft, node.clone())?;
    let result = draft.step(&node, &step.operator, step.attributes, &step.inputs);
    Ok(renamed(
        node,
        "Transpose",
        order([0, 2, 3, 1]),
        vec![Some(result)],
    ))
}

/// X sigmoid(alpha X).
fn quick_gelu(_: &mut Draft, node: DraftNode) -> Result<DraftNode> {
    let alpha = node.attributes.float("alpha", 1.702)?;
    let inputs = vec![operand(&node, 0)];
    let attributes = Attributes::new().with("alpha", Attribute::Float(alpha));
    Ok(renamed(node, "Swish", attributes, inputs))
}

/// alpha A' B', the last two dimensions of A and B swapped or not.
fn fused_matmul(_: &mut Draft, mut node: DraftNode) -> Result<DraftNode> {
    remove_flags(&mut node, &["transBatchA", "transBatchB"])?;
    for (name, ours) in [
        ("transA", "trans_a"),
        ("transB", "trans_b"),
        ("alpha", "scale"),
    ] {
        if let Some(value) = node.attributes.remove(name) {
            node.attributes.set(ours, value);
        }
    }
    node.operator = "tenon.MatMul".into();
    Ok(node)
}

/// Conv, plus a fourth input, then an activation.
pub(super) fn fused_conv(draft: &mut Draft, mut node: DraftNode) -> Result<DraftNode> {
    let name = node.attributes.remove("activation");
    let parameters = match node.attributes.remove("activation_params") {
        Some(Attribute::Floats(parameters)) => parameters,
        _ => Vec::new(),
    };
    let (inputs, residual) = (
        node.inputs.iter().take(3).copied().collect(),
        operand(&node, 3),
    );
    let conv = DraftNode { inputs, ..node };
    if let Some(residual) = residual {
        let attributes = conv.attributes.clone();
        let sum = draft.step(&conv, "Conv", attributes, &conv.inputs.clone());
        let add = renamed(
            conv,
            "Add",
            Attributes::new(),
            vec![Some(sum), Some(residual)],
        );
        return activated(draft, add, name, &parameters);
    }
    let attributes = conv.attributes.clone();
    let inputs = conv.inputs.clone();
    activated(
        draft,
        renamed(conv, "Conv", attributes, inputs),
        name,
        &parameters,
    )
}

/// Gemm, then an activation.
fn fused_gemm(draft: &mut Draft, mut node: DraftNode) -> Result<DraftNode> {
    let name = node.attributes.remove("activation");
    let mut parameters = Vec::new();
    for parameter in ["activation_alpha", "activation_beta", "activation_gamma"] {
        if let Some(Attribute::Float(value)) = node.attributes.remove(parameter) {
            parameters.push(value);
        }
    }
    node.operator = "Gemm".into();
    activated(draft, node, name, &parameters)
}

/// `node` followed by the activation `name`.
fn activated(
    draft: &mut Draft,
    node: DraftNode,
    name: Option<Attribute>,
    parameters: &[f32],
) -> Result<DraftNode> {
    let name = match name {
        None => return Ok(node),
        Some(Attribute::String(name)) if name.is_empty() => return Ok(node),
        Some(Attribute::String(name)) => name,
        Some(_) => return Err(invalid("attribute 'activation' is no text")),
    };
    let names: &[&str] = match name.as_str() {
        "Clip" => return clipped(draft, node, parameters),
        "Relu" | "Sigmoid" | "Tanh" => &[],
        "LeakyRelu" => &["alpha"],
        "HardSigmoid" => &["alpha", "beta"],
        _ => {
            return Err(Error::new(ErrorKind::Unsupported, format!("'{name}'"))
                .at(crate::attribute::place("activation")));
        }
    };
    let pairs = names.iter().zip(parameters);
    let attributes = pairs.map(|(name, &value)| (name.to_string(), Attribute::Float(value)));
    let result = draft.step(&node, &node.operator, node.attributes.clone(), &node.inputs);
    Ok(renamed(
        node,
        &name,
        attributes.collect(),
        vec![Some(result)],
    ))
}

/// `node` followed by Clip, whose bounds are parameters.
fn clipped(draft: &mut Draft, node: DraftNode, parameters: &[f32]) -> Result<DraftNode> {
    let &[least, most] = parameters else {
        return Err(
            invalid("the parameters of activation Clip are not two bounds").found(parameters.len()),
        );
    };
    let mut inputs = vec![Some(draft.step(
        &node,
        &node.operator,
        node.attributes.clone(),
        &node.inputs,
    ))];
    for (name, bound) in [("least", least), ("most", most)] {
        inputs.push(Some(draft.constant_for(
            &node,
            name,
            Tensor::scalar(bound)?,
        )));
    }
    Ok(renamed(node, "Clip", Attributes::new(), inputs))
}

/// LayerNormalization of input + skip (+ bias); the fourth output is that sum.
fn skip_layer_normalization(draft: &mut Draft, node: DraftNode) -> Result<DraftNode> {
    let bias = operand(&node, 4);
    let (gamma, beta) = (operand(&node, 2), operand(&node, 3));
    Ok(skip(draft, node, bias)?.into_normalization("LayerNormalization", vec![gamma, beta]))
}

/// The same with RMSNormalization, which has no beta.
fn skip_simplified_layer_normalization(draft: &mut Draft, node: DraftNode) -> Result<DraftNode> {
    let (gamma, bias) = (operand(&node, 2), operand(&node, 3));
    Ok(skip(draft, node, bias)?.into_normalization("RMSNormalization", vec![gamma]))
}

/// A node after the emission of its sum, its epsilon, and the sum.
struct SkipSum(DraftNode, f32, ValueId);

impl SkipSum {
    fn into_normalization(self, operator: &str, parameters: Vec<Option<ValueId>>) -> DraftNode {
        let SkipSum(mut node, epsilon, sum) = self;
        node.outputs.truncate(3);
        let attributes = Attributes::new()
            .with("axis", Attribute::Int(-1))
            .with("epsilon", Attribute::Float(epsilon));
        let inputs = [Some(sum)].into_iter().chain(parameters).collect();
        renamed(node, operator, attributes, inputs)
    }
}

fn skip(draft: &mut Draft, node: DraftNode, bias: Option<ValueId>) -> Result<SkipSum> {
    let epsilon = node.attributes.float("epsilon", 1e-12)?;
    let add =
        |draft: &mut Draft, inputs: [Option<ValueId>; 2], output: Option<ValueId>| match output {
            Some(output) => {
                draft.step_into(&node, "Add", Attributes::new(), &inputs, output);
                output
            }
            None => draft.step(&node, "Add", Attributes::new(), &inputs),
        };
    let sum_output = node.outputs.get(3).copied().flatten();
    let inputs = [operand(&node, 0), operand(&node, 1)];
    let sum = match bias {
        None => add(draft, inputs, sum_output),
        Some(_) => {
            let sum = add(draft, inputs, None);
            add(draft, [Some(sum), bias], sum_output)
        }
    };
    Ok(SkipSum(node, epsilon, sum))
}
