//! Shapes of the inputs of a node: related by a pattern of its operator, or at random.

use crate::Choices;
use std::collections::HashMap;

/// The shapes of the inputs, separated by spaces. A lower-case letter is an extent, the same in all
/// inputs; its upper-case form that extent times the groups (`g`). A digit multiplies the next letter,
/// or is an extent. `S` is one to three extents of an image, `K` for as many of a kernel, `*` for
/// up to two leading extents, `_` for no dimension.
const PATTERNS: &[(&str, &str)] = &[
    ("Conv", "nCS McK M"),
    ("Conv", "nCS McK"),
    ("ConvInteger", "nCS McK"),
    ("ConvInteger", "nCS McK _ M"),
    ("QLinearConv", "nCS _ _ McK _ _ _ _ M"),
    ("QLinearConv", "nCS _ _ McK M M _ _"),
    ("DeformConv", "nChw Mc11 n21hw M n11hw"),
    ("ConvTranspose", "nCS CmK M"),
    ("tenon.Conv", "nhwC Mckk M"),
    ("tenon.QuantizedConv", "nhwC _ _ Mckk _ _ M _ _"),
    ("tenon.QuantizedConv", "nhwC _ _ Mckk M M M"),
    ("tenon.MaxPool", "nhwc"),
    ("tenon.AveragePool", "nhwc"),
    ("MaxPool", "nCS"),
    ("AveragePool", "nCS"),
    ("LpPool", "nCS"),
    ("GlobalMaxPool", "nCS"),
    ("GlobalAveragePool", "nCS"),
    ("GlobalLpPool", "nCS"),
    ("MatMul", "*ab *bc"),
    ("MatMul", "*ab bc"),
    ("MatMul", "b bc"),
    ("MatMul", "*ab b"),
    ("MatMulInteger", "*ab bc"),
    ("MatMulInteger", "*ab bc a c"),
    ("QLinearMatMul", "*ab _ _ bc _ _ _ _"),
    ("QLinearMatMul", "*ab a a bc c c _ _"),
    ("tenon.MatMul", "*ab bc c"),
    ("tenon.QuantizedMatMul", "*ab _ _ bc _ _ c _ _"),
    ("tenon.QuantizedMatMul", "*ab _ _ bc c c"),
    ("tenon.QuantizedMatMul", "ab _ _ bc _ _ c _ _ ac _ _ _ _"),
    ("tenon.WeightOnlyMatMul", "*ab bc c c c"),
    ("tenon.WeightOnlyMatMul", "*ab bc _ _ c"),
    ("tenon.TreeEnsemble", "nc a a a a2 b c d d"),
    ("tenon.LookUp", "*a b b _"),
    ("tenon.CoupleProbabilities", "n3"),
    ("Gemm", "ab bc c"),
    ("Gemm", "ab cb ac"),
    ("Gemm", "ba bc 1"),
    ("Det", "*aa"),
    ("tenon.Inverse", "*aa"),
    ("BatchNormalization", "nCS C C C C"),
    ("InstanceNormalization", "nCS C C"),
    ("GroupNormalization", "nCS C C"),
    ("LayerNormalization", "*a a a"),
    ("RMSNormalization", "*a a"),
    ("LRN", "nCS"),
    ("LSTM", "tnx d4hx d4hh d8h n dnh dnh d3h"),
    ("LSTM", "tnx d4hx d4hh"),
    ("GRU", "tnx d3hx d3hh d6h n dnh"),
    ("GRU", "tnx d3hx d3hh"),
    ("RNN", "tnx dhx dhh d2h n dnh"),
    ("RNN", "tnx dhx dhh"),
    ("Attention", "nBqe nbke nbkv qk"),
    ("Attention", "nBqe nbke nbkv"),
    ("RotaryEmbedding", "nhs2f pf pf ns"),
    ("GatherND", "abc d2"),
    ("ScatterElements", "abc dbc dbc"),
    ("ScatterND", "abc d1 dbc"),
    ("TensorScatter", "nhsc nhtc n"),
    ("TopK", "*a 1"),
    ("GridSample", "nchw nij2"),
    ("GridSample", "ncdhw nijk3"),
    ("RoiAlign", "nchw r4 r"),
    ("MaxRoiPool", "nchw r5"),
    ("Clip", "* _ _"),
    ("OneHot", "* _ 2"),
    ("CumSum", "*a _"),
    ("CumProd", "*a _"),
    ("Trilu", "*ab _"),
    ("ReverseSequence", "tnab n"),
    ("NegativeLogLikelihoodLoss", "nc n c"),
    ("NegativeLogLikelihoodLoss", "ncd nd c"),
    ("SoftmaxCrossEntropyLoss", "ncd nd c"),
    ("DFT", "nt1"),
    ("DFT", "nt2"),
    ("QuantizeLinear", "*a _ _"),
    ("DequantizeLinear", "*a _ _"),
    ("Range", "_ _ _"),
    ("PRelu", "nCS"),
    ("Softmax", "*abc"),
    ("Resize", "nCS"),
];

/// The shapes of the inputs, and the extents of the letters.
pub(crate) struct Shapes {
    pub(crate) inputs: Vec<Vec<usize>>,
    extents: HashMap<char, usize>,
}

impl Shapes {
    /// The extent of a letter, if the pattern has it.
    pub(crate) fn extent(&self, letter: char) -> Option<usize> {
        self.extents.get(&letter).copied()
    }

    /// Shapes for an operator with `count` inputs.
    pub(crate) fn new(operator: &str, count: usize, choices: &mut Choices<'_>) -> Self {
        let known: Vec<&str> = PATTERNS
            .iter()
            .filter(|(name, _)| *name == operator)
            .map(|(_, pattern)| *pattern)
            .collect();
        if known.is_empty() || choices.one_in(8) {
            return Self::unrelated(count, choices);
        }
        Self::of_pattern(choices.pick(&known), choices)
    }

    fn of_pattern(pattern: &str, choices: &mut Choices<'_>) -> Self {
        let spatial = 1 + choices.below(3);
        let leading: Vec<usize> = (0..choices.below(3)).map(|_| small(choices)).collect();
        let image: Vec<usize> = (0..spatial).map(|_| extent(choices)).collect();
        let kernel: Vec<usize> = (0..spatial).map(|_| small(choices)).collect();
        let groups = choices.pick(&[1, 1, 2, 3]);
        let mut extents = HashMap::from([('g', groups), ('d', 1 + choices.below(2))]);
        let mut inputs = Vec::new();
        for part in pattern.split(' ') {
            let mut shape = Vec::new();
            let mut factor = None;
            for token in part.chars() {
                match token {
                    '*' => shape.extend(&leading),
                    'S' => shape.extend(&image),
                    'K' => shape.extend(&kernel),
                    '_' => {}
                    '0'..='9' => {
                        shape.extend(factor.take());
                        factor = token.to_digit(10).map(|digit| digit as usize);
                    }
                    _ => {
                        let letter = token.to_ascii_lowercase();
                        let base = *extents.entry(letter).or_insert_with(|| extent(choices));
                        let times = if token.is_uppercase() { groups } else { 1 };
                        shape.push(base * times * factor.take().unwrap_or(1));
                    }
                }
            }
            shape.extend(factor);
            inputs.push(shape);
        }
        Self { inputs, extents }
    }

    /// The first shape is arbitrary; the others are equal to it, broadcast to it, or small.
    fn unrelated(count: usize, choices: &mut Choices<'_>) -> Self {
        let first: Vec<usize> = (0..choices.below(6)).map(|_| extent(choices)).collect();
        let mut inputs = vec![first.clone()];
        while inputs.len() < count {
            let shape = match choices.below(8) {
                0..=2 => first.clone(),
                3 | 4 => {
                    let kept = first.iter().skip(choices.below(first.len() + 1));
                    kept.map(|&extent| choices.pick(&[1, extent])).collect()
                }
                5 => Vec::new(),
                6 => vec![1 + choices.below(3)],
                _ => (0..choices.below(4)).map(|_| extent(choices)).collect(),
            };
            inputs.push(shape);
        }
        Self {
            inputs,
            extents: HashMap::new(),
        }
    }
}

/// An extent: mostly small, sometimes beyond the lanes of a vector.
fn extent(choices: &mut Choices<'_>) -> usize {
    choices.pick(&[1, 2, 3, 4, 5, 6, 7, 8, 9, 16, 17, 33, 1, 2, 3, 4])
}

/// An extent of at most 4.
fn small(choices: &mut Choices<'_>) -> usize {
    1 + choices.below(4)
}
