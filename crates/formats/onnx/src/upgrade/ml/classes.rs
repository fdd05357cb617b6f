//! The labels of classes, and the scores of two classes of which one score is known.

use super::post_transform::PostTransform;
use super::{Composition, invalid, unsupported};
use tenon_base::Result;
use tenon_graph::{Attribute, Attributes, ValueId};
use tenon_tensor::Tensor;

/// The labels of classes.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum ClassLabels {
    Ints(Vec<i64>),
    Strings(Vec<String>),
}

impl ClassLabels {
    /// Those of attribute `ints` or `classlabels_strings`.
    pub(super) fn of(attributes: &Attributes, ints: &str) -> Result<Self> {
        let integers = attributes.ints(ints)?.filter(|list| !list.is_empty());
        let strings = attributes.strings("classlabels_strings")?;
        match (integers, strings.filter(|list| !list.is_empty())) {
            (Some(_), Some(_)) => Err(invalid(format!(
                "attributes '{ints}' and 'classlabels_strings' are both given"
            ))),
            (Some(integers), None) => Ok(Self::Ints(integers.to_vec())),
            (None, Some(strings)) => Ok(Self::Strings(strings.to_vec())),
            (None, None) => Err(invalid(format!(
                "neither attribute '{ints}' nor 'classlabels_strings' is given"
            ))),
        }
    }

    /// The attribute that they are read from, where that of integers is `ints`.
    pub(super) fn attribute<'a>(&self, ints: &'a str) -> &'a str {
        match self {
            Self::Ints(_) => ints,
            Self::Strings(_) => "classlabels_strings",
        }
    }

    pub(super) fn len(&self) -> usize {
        match self {
            Self::Ints(labels) => labels.len(),
            Self::Strings(labels) => labels.len(),
        }
    }

    /// The labels 0 and 1, where a classifier of one score has no two labels.
    pub(super) fn zero_and_one(&self) -> Self {
        match self {
            Self::Ints(_) => Self::Ints(vec![0, 1]),
            Self::Strings(_) => Self::Strings(vec!["0".into(), "1".into()]),
        }
    }

    fn tensor(&self) -> Result<Tensor> {
        match self {
            Self::Ints(labels) => Tensor::from_slice([labels.len()], labels),
            Self::Strings(labels) => Tensor::from_strings([labels.len()], labels),
        }
    }
}

/// The two scores that are made of one score.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SecondScore {
    /// The first is 1 minus the score.
    Complement,
    /// The first is minus the score.
    Opposite,
}

impl Composition<'_> {
    /// The labels of classes by their position.
    pub(super) fn labels(&mut self, labels: &ClassLabels, positions: ValueId) -> Result<ValueId> {
        let table = self.constant("labels", labels.tensor()?);
        Ok(self.op("Gather", &[table, positions]))
    }

    /// The position of the first greatest score of each row.
    pub(super) fn greatest(&mut self, scores: ValueId) -> ValueId {
        let attributes = Attributes::new()
            .with("axis", Attribute::Int(1))
            .with("keepdims", Attribute::Int(0));
        self.op_with("ArgMax", attributes, &[scores])
    }

    /// 1 where a score is greater than a threshold, otherwise 0.
    pub(super) fn exceeds(&mut self, scores: ValueId, threshold: f32) -> Result<ValueId> {
        let threshold = self.scalar("threshold", threshold)?;
        let exceeds = self.op("Greater", &[scores, threshold]);
        Ok(self.cast(exceeds, tenon_tensor::DataType::I64))
    }

    /// The transformed scores of two classes, from one column. LOGISTIC is applied to the score and its opposite.
    pub(super) fn both_scores(
        &mut self,
        score: ValueId,
        second: SecondScore,
        transform: PostTransform,
    ) -> Result<ValueId> {
        let opposite = self.op("Neg", &[score]);
        match (transform, second) {
            (PostTransform::Probit, _) => Err(unsupported(
                "post_transform PROBIT of a classifier with one score of two classes",
            )),
            (PostTransform::Logistic, _) => {
                let both = self.concat(&[opposite, score]);
                Ok(self.op("Sigmoid", &[both]))
            }
            (_, SecondScore::Opposite) => Ok(self.concat(&[opposite, score])),
            (_, SecondScore::Complement) => {
                let one = self.scalar("one", 1.0)?;
                let complement = self.op("Sub", &[one, score]);
                Ok(self.concat(&[complement, score]))
            }
        }
    }
}
