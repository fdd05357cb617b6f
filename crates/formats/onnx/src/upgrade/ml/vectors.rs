//! Support vector machines.

use super::classes::{ClassLabels, SecondScore};
use super::post_transform::PostTransform;
use super::{Composition, checked, invalid, wrong_length};
use std::ops::Range;
use tenon_base::{Result, bounded};
use tenon_graph::{Attribute, Attributes, ValueId};
use tenon_tensor::{DataType, Tensor};

/// The least probability of a class of a pair, as in LIBSVM.
const LEAST_PROBABILITY: f32 = 1e-7;

pub(super) fn regressor(composition: &mut Composition<'_>) -> Result<Vec<ValueId>> {
    let attributes = composition.attributes();
    // onnxruntime does not apply it.
    PostTransform::of(attributes)?;
    let count = size(attributes, "n_supports")?;
    let coefficients = attributes.floats("coefficients")?.unwrap_or_default();
    let rho = rho(attributes, 1)?;
    let input = composition.input(0)?;
    let x = composition.as_rows(input)?;
    let x = composition.as_f32(x);
    let scores = if count == 0 {
        composition.affine(x, [1, coefficients.len()], coefficients, Some(&rho[..1]))?
    } else {
        if coefficients.len() != count {
            return Err(wrong_length("coefficients", count, coefficients.len()));
        }
        let kernels = composition.kernels(x, count)?;
        composition.affine(kernels, [1, count], coefficients, Some(&rho[..1]))?
    };
    if !attributes.flag("one_class", false)? {
        return Ok(vec![scores]);
    }
    let zero = composition.scalar("zero", 0.0)?;
    let (one, minus_one) = (
        composition.scalar("one", 1.0)?,
        composition.scalar("minus_one", -1.0)?,
    );
    let is_inside = composition.op("Greater", &[scores, zero]);
    Ok(vec![composition.op("Where", &[is_inside, one, minus_one])])
}

pub(super) fn classifier(composition: &mut Composition<'_>) -> Result<Vec<ValueId>> {
    let attributes = composition.attributes();
    let transform = PostTransform::of(attributes)?;
    let labels = ClassLabels::of(attributes, "classlabels_ints")?;
    let per_class = attributes.ints("vectors_per_class")?.unwrap_or_default();
    let per_class: Option<Vec<usize>> = per_class
        .iter()
        .map(|&count| usize::try_from(count).ok())
        .collect();
    let per_class =
        per_class.ok_or_else(|| invalid("attribute 'vectors_per_class' has a negative element"))?;
    let count = per_class
        .iter()
        .fold(0usize, |sum, &count| sum.saturating_add(count));
    let input = composition.input(0)?;
    let x = composition.as_rows(input)?;
    let x = composition.as_f32(x);
    if count == 0 {
        return linear(composition, x, &labels, transform);
    }
    if per_class.len() != labels.len() {
        return Err(wrong_length(
            "vectors_per_class",
            labels.len(),
            per_class.len(),
        ));
    }
    // Before the pairs are listed: their number is bounded by that of constants in the file.
    let rho = rho(attributes, Pairs::count(per_class.len()))?;
    let pairs = Pairs::new(&per_class);
    let coefficients = pairs.coefficients(attributes, count)?;
    let kernels = composition.kernels(x, count)?;
    let scores = composition.affine(kernels, [pairs.0.len(), count], &coefficients, Some(rho))?;
    let votes = pairs.votes(composition, scores, labels.len())?;
    let positions = composition.greatest(votes);
    let label = composition.labels(&labels, positions)?;
    let scores = if let Some(factors) = attributes.floats("prob_a")?.filter(|a| !a.is_empty()) {
        let probabilities = composition.probabilities(scores, factors, labels.len())?;
        composition.transformed(probabilities, labels.len(), transform)?
    } else if labels.len() == 2 {
        let second = match transform {
            PostTransform::None => SecondScore::Opposite,
            _ => SecondScore::Complement,
        };
        composition.both_scores(scores, second, transform)?
    } else {
        composition.transformed(scores, pairs.0.len(), transform)?
    };
    Ok(vec![label, scores])
}

/// A row of coefficients for each class.
fn linear(
    composition: &mut Composition<'_>,
    x: ValueId,
    labels: &ClassLabels,
    transform: PostTransform,
) -> Result<Vec<ValueId>> {
    let attributes = composition.attributes();
    let (count, coefficients) = (
        labels.len(),
        attributes.floats("coefficients")?.unwrap_or_default(),
    );
    if coefficients.is_empty() || coefficients.len() % count != 0 {
        return Err(
            invalid("attribute 'coefficients' has the wrong number of elements")
                .expected(format_args!("a multiple of {count}"))
                .found(coefficients.len()),
        );
    }
    let rho = vec![rho(attributes, 1)?[0]; count];
    let shape = [count, coefficients.len() / count];
    let scores = composition.affine(x, shape, coefficients, Some(&rho))?;
    let mut positions = composition.greatest(scores);
    if count == 2 {
        // The second class if the greatest score exceeds a threshold.
        let is_positive = coefficients.iter().all(|&value| value >= 0.0);
        let axes = composition.ints("axes", &[1])?;
        let keep = Attributes::new().with("keepdims", Attribute::Int(0));
        let most = composition.op_with("ReduceMax", keep, &[scores, axes]);
        let exceeds = match is_positive {
            true => {
                let half = composition.scalar("threshold", 0.5)?;
                composition.op("GreaterOrEqual", &[most, half])
            }
            false => {
                let zero = composition.scalar("threshold", 0.0)?;
                composition.op("Greater", &[most, zero])
            }
        };
        let one = composition.constant("second", Tensor::scalar(1i64)?);
        positions = composition.op("Where", &[exceeds, one, positions]);
    }
    let label = composition.labels(labels, positions)?;
    Ok(vec![
        label,
        composition.transformed(scores, count, transform)?,
    ])
}

fn size(attributes: &Attributes, name: &str) -> Result<usize> {
    let found = attributes.int(name, 0)?;
    usize::try_from(found)
        .map_err(|_| invalid(format!("attribute '{name}' is negative")).found(found))
}

/// The constants of the scores, at least `count`.
fn rho(attributes: &Attributes, count: usize) -> Result<&[f32]> {
    let rho = attributes.floats("rho")?.unwrap_or_default();
    rho.get(..count)
        .ok_or_else(|| wrong_length("rho", count, rho.len()))
}

/// The pairs of classes, each decided by a score: the positions of both, and of their support vectors.
struct Pairs(Vec<[(usize, Range<usize>); 2]>);

impl Pairs {
    fn count(classes: usize) -> usize {
        classes.saturating_mul(classes.saturating_sub(1)) / 2
    }

    fn new(per_class: &[usize]) -> Self {
        let mut end = 0;
        let ranges: Vec<Range<usize>> = per_class
            .iter()
            .map(|count| {
                end += count;
                end - count..end
            })
            .collect();
        let classes = 0..ranges.len();
        let pairs = classes
            .clone()
            .flat_map(|i| (i + 1..ranges.len()).map(move |j| (i, j)));
        let of = |class: usize| (class, ranges[class].clone());
        Self(pairs.map(|(i, j)| [of(i), of(j)]).collect())
    }

    /// The factors of the kernels in the score of each pair, from rows for all classes but one.
    fn coefficients(&self, attributes: &Attributes, vectors: usize) -> Result<Vec<f32>> {
        let rows = attributes.floats("coefficients")?.unwrap_or_default();
        let classes = self.0.iter().map(|pair| pair[1].0).max().unwrap_or(0);
        let expected = classes.saturating_mul(vectors);
        if rows.len() != expected {
            return Err(wrong_length("coefficients", expected, rows.len()));
        }
        let count = self.0.len().saturating_mul(vectors);
        let mut all = bounded::with_capacity("coefficients", count)?;
        all.resize(count, 0.0);
        for (pair, to) in self.0.iter().zip(all.chunks_exact_mut(vectors.max(1))) {
            let [(i, of_i), (j, of_j)] = pair;
            to[of_i.clone()].copy_from_slice(&rows[(j - 1) * vectors..][of_i.clone()]);
            to[of_j.clone()].copy_from_slice(&rows[i * vectors..][of_j.clone()]);
        }
        Ok(all)
    }

    /// The pairs that each class wins.
    fn votes(
        &self,
        composition: &mut Composition<'_>,
        scores: ValueId,
        classes: usize,
    ) -> Result<ValueId> {
        // A positive score is a vote for the first class of the pair, otherwise for the second.
        let count = classes.saturating_mul(self.0.len());
        let mut changes: Vec<f32> = bounded::with_capacity("votes", count)?;
        changes.resize(count, 0.0);
        let mut seconds = vec![0.0f32; classes];
        for (at, [(i, _), (j, _)]) in self.0.iter().enumerate() {
            changes[i * self.0.len() + at] = 1.0;
            changes[j * self.0.len() + at] = -1.0;
            seconds[*j] += 1.0;
        }
        let zero = composition.scalar("zero", 0.0)?;
        let is_first = composition.op("Greater", &[scores, zero]);
        let is_first = composition.cast(is_first, DataType::F32);
        composition.affine(is_first, [classes, self.0.len()], &changes, Some(&seconds))
    }
}

impl Composition<'_> {
    /// The probabilities of classes from the scores of their pairs: 1 - sigmoid(a score + b) is that of the first class.
    fn probabilities(
        &mut self,
        scores: ValueId,
        factors: &[f32],
        classes: usize,
    ) -> Result<ValueId> {
        let terms = self.attributes().floats("prob_b")?.unwrap_or_default();
        let pairs = Pairs::count(classes);
        for (name, found) in [("prob_a", factors.len()), ("prob_b", terms.len())] {
            if found != pairs {
                return Err(wrong_length(name, pairs, found));
            }
        }
        let mut opposite = |name: &str, values: &[f32]| -> Result<ValueId> {
            let values: Vec<f32> = values.iter().map(|value| -value).collect();
            Ok(self.constant(name, Tensor::from_slice([1, pairs], &values)?))
        };
        let (factors, terms) = (opposite("prob_a", factors)?, opposite("prob_b", terms)?);
        let scaled = self.op("Mul", &[scores, factors]);
        let sums = self.op("Add", &[scaled, terms]);
        let first = self.op("Sigmoid", &[sums]);
        let least = self.scalar("least", LEAST_PROBABILITY)?;
        let most = self.scalar("most", 1.0 - LEAST_PROBABILITY)?;
        let first = self.op("Clip", &[first, least, most]);
        let attributes = Attributes::new().with("classes", Attribute::Int(classes as i64));
        Ok(self.op_with("tenon.CoupleProbabilities", attributes, &[first]))
    }

    /// The kernel function of each row and each of `count` support vectors.
    fn kernels(&mut self, x: ValueId, count: usize) -> Result<ValueId> {
        let attributes = self.attributes();
        let vectors = attributes.floats("support_vectors")?.unwrap_or_default();
        let parameters = attributes.floats("kernel_params")?.unwrap_or_default();
        let kind = attributes.string("kernel_type", "LINEAR")?;
        let mut problems = Vec::new();
        if vectors.is_empty() || vectors.len() % count != 0 {
            problems.push(
                invalid("attribute 'support_vectors' has the wrong number of elements")
                    .expected(format_args!("a multiple of {count}"))
                    .found(vectors.len()),
            );
        }
        let known = ["LINEAR", "POLY", "RBF", "SIGMOID"];
        if !known.contains(&kind) {
            problems.push(
                invalid("attribute 'kernel_type' has an unknown value")
                    .expected(known.join(", "))
                    .found(format_args!("'{kind}'")),
            );
        }
        if !matches!(parameters, [] | [_, _, _]) {
            problems.push(wrong_length("kernel_params", 3, parameters.len()));
        }
        checked(problems)?;
        let [gamma, coef0, degree] = match parameters {
            &[gamma, coef0, degree] => [gamma, coef0, degree],
            _ => [0.0; 3],
        };
        let features = vectors.len() / count;
        if kind == "RBF" {
            return self.radial(x, vectors, features, gamma);
        }
        let products = self.affine(x, [count, features], vectors, None)?;
        if kind == "LINEAR" {
            return Ok(products);
        }
        let (gamma, coef0) = (self.scalar("gamma", gamma)?, self.scalar("coef0", coef0)?);
        let scaled = self.op("Mul", &[products, gamma]);
        let sum = self.op("Add", &[scaled, coef0]);
        if kind == "SIGMOID" {
            return Ok(self.op("Tanh", &[sum]));
        }
        let degree = self.scalar("degree", degree)?;
        Ok(self.op("Pow", &[sum, degree]))
    }

    /// exp(-gamma |x - v|^2), where |x - v|^2 = |x|^2 - 2 x v + |v|^2.
    fn radial(
        &mut self,
        x: ValueId,
        vectors: &[f32],
        features: usize,
        gamma: f32,
    ) -> Result<ValueId> {
        let rows = vectors.chunks_exact(features);
        let squares: Vec<f32> = rows.map(|row| row.iter().map(|v| v * v).sum()).collect();
        let factors: Vec<f32> = vectors.iter().map(|v| -2.0 * v).collect();
        let shape = [squares.len(), features];
        let products = self.affine(x, shape, &factors, Some(&squares))?;
        let axes = self.ints("axes", &[1])?;
        let lengths = self.op("ReduceSumSquare", &[x, axes]);
        let distances = self.op("Add", &[products, lengths]);
        let gamma = self.scalar("gamma", -gamma)?;
        let exponents = self.op("Mul", &[distances, gamma]);
        Ok(self.op("Exp", &[exponents]))
    }
}
