//! Transforms of scores.

use super::{Composition, invalid};
use tenon_base::Result;
use tenon_graph::{Attribute, Attributes, ValueId};

/// A transform of scores.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PostTransform {
    None,
    Softmax,
    Logistic,
    SoftmaxZero,
    Probit,
}

/// The names of attribute `post_transform`, at the index that TreeEnsemble has for it.
const NAMES: [(&str, PostTransform); 5] = [
    ("NONE", PostTransform::None),
    ("SOFTMAX", PostTransform::Softmax),
    ("LOGISTIC", PostTransform::Logistic),
    ("SOFTMAX_ZERO", PostTransform::SoftmaxZero),
    ("PROBIT", PostTransform::Probit),
];

/// A magnitude at which SOFTMAX_ZERO takes a score for 0.
const NEARLY_ZERO: f32 = 1e-7;

impl PostTransform {
    pub(super) fn of(attributes: &Attributes) -> Result<Self> {
        let name = attributes.string("post_transform", "NONE")?;
        let found = NAMES.iter().find(|row| row.0 == name);
        found
            .map(|row| row.1)
            .ok_or_else(|| unknown(format_args!("'{name}'")))
    }

    /// That of a number.
    pub(super) fn of_number(attributes: &Attributes) -> Result<Self> {
        let number = attributes.int("post_transform", 0)?;
        let row = usize::try_from(number)
            .ok()
            .and_then(|number| NAMES.get(number));
        row.map(|row| row.1)
            .ok_or_else(|| unknown(format_args!("{number}")))
    }
}

fn unknown(found: std::fmt::Arguments<'_>) -> tenon_base::Error {
    let names: Vec<_> = NAMES.iter().map(|row| row.0).collect();
    invalid("attribute 'post_transform' has an unknown value")
        .expected(names.join(", "))
        .found(found)
}

impl Composition<'_> {
    /// The transform of f32 scores of `columns` columns. Of one column only PROBIT is applied, as in onnxruntime.
    pub(super) fn transformed(
        &mut self,
        scores: ValueId,
        columns: usize,
        transform: PostTransform,
    ) -> Result<ValueId> {
        match transform {
            PostTransform::Probit => self.probit(scores),
            _ if columns == 1 => Ok(scores),
            PostTransform::None => Ok(scores),
            PostTransform::Logistic => Ok(self.op("Sigmoid", &[scores])),
            PostTransform::Softmax => {
                let axis = Attributes::new().with("axis", Attribute::Int(1));
                Ok(self.op_with("Softmax", axis, &[scores]))
            }
            PostTransform::SoftmaxZero => self.softmax_zero(scores),
        }
    }

    /// The softmax of the scores that are not zero; the others stay zero.
    fn softmax_zero(&mut self, scores: ValueId) -> Result<ValueId> {
        let axes = self.ints("axes", &[1])?;
        let largest = self.op("ReduceMax", &[scores, axes]);
        let difference = self.op("Sub", &[scores, largest]);
        let power = self.op("Exp", &[difference]);
        let magnitude = self.op("Abs", &[scores]);
        let least = self.scalar("nearly_zero", NEARLY_ZERO)?;
        let counts = self.op("Greater", &[magnitude, least]);
        let zero = self.scalar("zero", 0.0)?;
        let counted = self.op("Where", &[counts, power, zero]);
        let sum = self.op("ReduceSum", &[counted, axes]);
        let factor = self.op("Neg", &[largest]);
        let factor = self.op("Exp", &[factor]);
        let scaled = self.op("Mul", &[scores, factor]);
        let chosen = self.op("Where", &[counts, power, scaled]);
        Ok(self.op("Div", &[chosen, sum]))
    }

    /// The quantile function of the normal distribution, by the approximation of the inverse error function in Winitzki,
    /// "A handy approximation for the error function and its inverse" (2008), with a = 0.147.
    fn probit(&mut self, scores: ValueId) -> Result<ValueId> {
        const A: f32 = 0.147;
        let one = self.scalar("one", 1.0)?;
        let half = self.scalar("half", 0.5)?;
        let double = self.op("Add", &[scores, scores]);
        let x = self.op("Sub", &[double, one]);
        let below = self.op("Sub", &[one, x]);
        let above = self.op("Add", &[one, x]);
        let product = self.op("Mul", &[below, above]);
        let log = self.op("Log", &[product]);
        let halved = self.op("Mul", &[log, half]);
        let first = self.scalar("first", 2.0 / (std::f32::consts::PI * A))?;
        let v = self.op("Add", &[first, halved]);
        let second = self.scalar("second", 1.0 / A)?;
        let scaled = self.op("Mul", &[log, second]);
        let square = self.op("Mul", &[v, v]);
        let inner = self.op("Sub", &[square, scaled]);
        let root = self.op("Sqrt", &[inner]);
        let inner = self.op("Sub", &[root, v]);
        let magnitude = self.op("Sqrt", &[inner]);
        let zero = self.scalar("zero", 0.0)?;
        let is_negative = self.op("Less", &[x, zero]);
        let opposite = self.op("Neg", &[magnitude]);
        let inverse = self.op("Where", &[is_negative, opposite, magnitude]);
        let factor = self.scalar("sqrt_2", std::f32::consts::SQRT_2)?;
        Ok(self.op("Mul", &[inverse, factor]))
    }
}
