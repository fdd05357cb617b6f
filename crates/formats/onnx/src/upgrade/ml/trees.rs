//! Ensembles of decision trees.

mod forest;
mod nodes;
mod numbered;

use self::forest::Forest;
use super::classes::{ClassLabels, SecondScore};
use super::post_transform::PostTransform;
use super::{Composition, invalid, unsupported, wrong_length};
use tenon_base::Result;
use tenon_graph::{Attribute, Attributes, ValueId};
use tenon_tensor::{DataType, Tensor, convert};

/// The operator of version 5.
pub(super) fn ensemble(composition: &mut Composition<'_>) -> Result<Vec<ValueId>> {
    let attributes = composition.attributes();
    let transform = PostTransform::of_number(attributes)?;
    let names = ["AVERAGE", "SUM", "MIN", "MAX"];
    let number = attributes.int("aggregate_function", 1)?;
    let aggregate = usize::try_from(number)
        .ok()
        .and_then(|number| names.get(number));
    let aggregate = aggregate.ok_or_else(|| {
        invalid("attribute 'aggregate_function' has an unknown value")
            .expected("0 to 3")
            .found(number)
    })?;
    let targets = targets(attributes)?;
    let forest = numbered::forest(attributes, targets)?;
    let (x, dtype) = composition.features()?;
    let scores = composition.trees(x, dtype, &forest, aggregate, targets)?;
    let scores = composition.as_f32_for(transform, scores);
    let scores = composition.transformed(scores, targets, transform)?;
    Ok(vec![match dtype {
        DataType::F64 => composition.cast(scores, dtype),
        _ => scores,
    }])
}

pub(super) fn regressor(composition: &mut Composition<'_>) -> Result<Vec<ValueId>> {
    let attributes = composition.attributes();
    let transform = PostTransform::of(attributes)?;
    let aggregate = attributes.string("aggregate_function", "SUM")?;
    if !["SUM", "AVERAGE", "MIN", "MAX"].contains(&aggregate) {
        return Err(
            invalid("attribute 'aggregate_function' has an unknown value")
                .expected("SUM, AVERAGE, MIN or MAX")
                .found(format_args!("'{aggregate}'")),
        );
    }
    let targets = targets(attributes)?;
    let forest = nodes::forest(composition, "target", targets)?;
    let bases = composition.floats("base_values")?.unwrap_or_default();
    if !bases.is_empty() && bases.len() != targets {
        return Err(wrong_length("base_values", targets, bases.len()));
    }
    let (x, dtype) = composition.features()?;
    let mut scores = composition.trees(x, dtype, &forest, aggregate, targets)?;
    if !bases.is_empty() {
        scores = composition.plus(scores, dtype, &bases)?;
    }
    let scores = composition.as_f32(scores);
    Ok(vec![composition.transformed(scores, targets, transform)?])
}

fn targets(attributes: &Attributes) -> Result<usize> {
    let targets = attributes.int("n_targets", 1)?;
    let found = usize::try_from(targets).ok().filter(|&targets| targets > 0);
    found.ok_or_else(|| invalid("attribute 'n_targets' is not positive").found(targets))
}

pub(super) fn classifier(composition: &mut Composition<'_>) -> Result<Vec<ValueId>> {
    let attributes = composition.attributes();
    let transform = PostTransform::of(attributes)?;
    let labels = ClassLabels::of(attributes, "classlabels_int64s")?;
    let forest = nodes::forest(composition, "class", labels.len())?;
    let bases = composition.floats("base_values")?.unwrap_or_default();
    let (x, dtype) = composition.features()?;
    let scores = composition.trees(x, dtype, &forest, "SUM", labels.len())?;
    let classifier = Classifier {
        forest: &forest,
        bases: &bases,
        dtype,
        labels: &labels,
        transform,
        x,
        scores,
    };
    match labels.len() {
        1 => classifier.one(composition),
        2 => classifier.two(composition),
        _ => classifier.many(composition),
    }
}

/// The parts of a TreeEnsembleClassifier. `scores` are the sums of the weights of each class.
struct Classifier<'a> {
    forest: &'a Forest,
    bases: &'a [f64],
    dtype: DataType,
    labels: &'a ClassLabels,
    transform: PostTransform,
    x: ValueId,
    scores: ValueId,
}

/// The classes with weights in the leaves that rows reach.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Scored {
    Never,
    Sometimes,
    Always,
}

impl Classifier<'_> {
    fn expect_bases(&self, counts: &[usize]) -> Result<()> {
        if counts.contains(&self.bases.len()) {
            return Ok(());
        }
        let counts: Vec<String> = counts.iter().map(usize::to_string).collect();
        Err(
            invalid("attribute 'base_values' has the wrong number of elements")
                .expected(counts.join(" or "))
                .found(self.bases.len()),
        )
    }

    /// One class: the labels are 1 and 0.
    fn one(self, composition: &mut Composition<'_>) -> Result<Vec<ValueId>> {
        self.expect_bases(&[0, 1])?;
        let mut scores = self.scores;
        if !self.bases.is_empty() {
            scores = composition.plus(scores, self.dtype, self.bases)?;
        }
        let scores = composition.as_f32(scores);
        let score = composition.column(scores, 0)?;
        let positions = composition.exceeds(score, 0.0)?;
        let label = composition.labels(&self.labels.zero_and_one(), positions)?;
        Ok(vec![
            label,
            composition.transformed(scores, 1, self.transform)?,
        ])
    }

    /// Two classes, of which often one has weights. The cases are those of onnxruntime.
    fn two(self, composition: &mut Composition<'_>) -> Result<Vec<ValueId>> {
        self.expect_bases(&[0, 1, 2])?;
        let scored = self.forest.scored(2);
        if scored.contains(&Scored::Sometimes) {
            return Err(unsupported(
                "a classifier of two classes with a class that has weights in some leaves of each tree only",
            ));
        }
        let [first, second] = [scored[0] == Scored::Always, scored[1] == Scored::Always];
        if self.bases.len() == 2 && (second || !first) {
            return Err(unsupported(
                "two base values of a classifier whose leaves have weights of the second class",
            ));
        }
        let mut scores = self.scores;
        if !self.bases.is_empty() && first {
            scores = composition.plus(scores, self.dtype, &[self.bases[0], 0.0])?;
        }
        let scores = composition.as_f32(scores);
        let (of_second, alone) = (i64::from(second), first != second);
        let deciding = composition.column(scores, of_second)?;
        let positive = self.forest.has_no_negative_weight();
        let threshold = if alone && positive { 0.5 } else { 0.0 };
        let positions = composition.exceeds(deciding, threshold)?;
        let label = match alone {
            true => composition.labels(self.labels, positions)?,
            false => match self.labels {
                ClassLabels::Ints(_) => {
                    composition.labels(&self.labels.zero_and_one(), positions)?
                }
                ClassLabels::Strings(_) => composition.labels(self.labels, positions)?,
            },
        };
        if second || self.bases.len() == 2 {
            return Ok(vec![
                label,
                composition.transformed(scores, 2, self.transform)?,
            ]);
        }
        let last = composition.ints("last", &[-1])?;
        let score = composition.op("Unsqueeze", &[deciding, last]);
        let kind = match positive {
            true => (SecondScore::Complement, self.transform_of_complement()),
            false => (SecondScore::Opposite, self.transform),
        };
        Ok(vec![label, composition.both_scores(score, kind.0, kind.1)?])
    }

    /// Where no weight is negative, scores are probabilities: onnxruntime does not transform them.
    fn transform_of_complement(&self) -> PostTransform {
        match self.transform {
            PostTransform::Logistic => PostTransform::None,
            other => other,
        }
    }

    /// Three or more classes: the label is that of the greatest score.
    fn many(self, composition: &mut Composition<'_>) -> Result<Vec<ValueId>> {
        let count = self.labels.len();
        self.expect_bases(&[0, count])?;
        let scored = self.forest.scored(count);
        let mut scores = self.scores;
        let has_bases = !self.bases.is_empty();
        if has_bases {
            scores = composition.plus(scores, self.dtype, self.bases)?;
        }
        let mut compared = scores;
        if !has_bases && scored.iter().any(|scored| *scored != Scored::Always) {
            // A class without a weight in the leaves of a row is not its label.
            let counts = self.forest.counts();
            let found = composition.trees(self.x, self.dtype, &counts, "SUM", count)?;
            let [zero, least] = [0.0, f64::NEG_INFINITY].map(|value| real(self.dtype, &[value]));
            let zero = composition.constant("zero", zero?);
            let least = composition.constant("least", least?);
            let has_score = composition.op("Greater", &[found, zero]);
            compared = composition.op("Where", &[has_score, scores, least]);
        }
        let positions = composition.greatest(compared);
        let label = composition.labels(self.labels, positions)?;
        let scores = composition.as_f32(scores);
        Ok(vec![
            label,
            composition.transformed(scores, count, self.transform)?,
        ])
    }
}

/// A list of values of a type.
fn real(dtype: DataType, values: &[f64]) -> Result<Tensor> {
    convert(&Tensor::from_slice([values.len()], values)?, dtype)
}

impl Composition<'_> {
    /// X as a matrix in f32 or f64, and its type.
    fn features(&mut self) -> Result<(ValueId, DataType)> {
        let x = self.input(0)?;
        let x = self.as_rows(x)?;
        match self.dtype(x) {
            Some(DataType::F64) => Ok((x, DataType::F64)),
            _ => Ok((self.as_f32(x), DataType::F32)),
        }
    }

    fn as_f32_for(&mut self, transform: PostTransform, scores: ValueId) -> ValueId {
        match transform {
            PostTransform::None => scores,
            _ => self.as_f32(scores),
        }
    }

    fn plus(&mut self, scores: ValueId, dtype: DataType, bases: &[f64]) -> Result<ValueId> {
        let bases = self.constant("base_values", real(dtype, bases)?);
        Ok(self.op("Add", &[scores, bases]))
    }

    /// The aggregated weights of the leaves.
    fn trees(
        &mut self,
        x: ValueId,
        dtype: DataType,
        forest: &Forest,
        aggregate: &str,
        targets: usize,
    ) -> Result<ValueId> {
        let mut inputs = vec![x];
        for (name, tensor) in forest.constants(dtype)? {
            inputs.push(self.constant(name, tensor));
        }
        let attributes = Attributes::new()
            .with("aggregate", Attribute::String(aggregate.into()))
            .with("targets", Attribute::Int(targets as i64));
        Ok(self.op_with("tenon.TreeEnsemble", attributes, &inputs))
    }
}
