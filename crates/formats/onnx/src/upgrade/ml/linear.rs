//! Linear models.

use super::classes::{ClassLabels, SecondScore};
use super::post_transform::PostTransform;
use super::{Composition, invalid, wrong_length};
use tenon_base::Result;
use tenon_graph::{Attribute, Attributes, ValueId};
use tenon_tensor::Tensor;

pub(super) fn regressor(composition: &mut Composition<'_>) -> Result<Vec<ValueId>> {
    let attributes = composition.attributes();
    let targets = attributes.int("targets", 1)?;
    let targets = usize::try_from(targets).ok().filter(|&targets| targets > 0);
    let targets = targets.ok_or_else(|| invalid("attribute 'targets' is not positive"))?;
    let transform = PostTransform::of(attributes)?;
    let intercepts = attributes.floats("intercepts")?;
    if let Some(found) = intercepts.filter(|list| list.len() != targets) {
        return Err(wrong_length("intercepts", targets, found.len()));
    }
    let scores = composition.scores(targets, intercepts)?;
    Ok(vec![composition.transformed(scores, targets, transform)?])
}

pub(super) fn classifier(composition: &mut Composition<'_>) -> Result<Vec<ValueId>> {
    let attributes = composition.attributes();
    let intercepts = attributes.floats("intercepts")?.unwrap_or_default();
    let labels = ClassLabels::of(attributes, "classlabels_ints")?;
    let transform = PostTransform::of(attributes)?;
    let count = intercepts.len();
    if count == 0 {
        return Err(invalid("attribute 'intercepts' is missing or empty"));
    }
    if labels.len() != count.max(2) {
        let name = labels.attribute("classlabels_ints");
        return Err(wrong_length(name, count.max(2), labels.len()));
    }
    let scores = composition.scores(count, Some(intercepts))?;
    if count > 1 {
        let positions = composition.greatest(scores);
        let label = composition.labels(&labels, positions)?;
        return Ok(vec![
            label,
            composition.transformed(scores, count, transform)?,
        ]);
    }
    let score = composition.column(scores, 0)?;
    let positions = composition.exceeds(score, 0.0)?;
    let label = composition.labels(&labels, positions)?;
    let both = composition.both_scores(scores, SecondScore::Complement, transform)?;
    Ok(vec![label, both])
}

impl Composition<'_> {
    /// X times the transposed coefficients of `rows` rows, plus the intercepts.
    fn scores(&mut self, rows: usize, intercepts: Option<&[f32]>) -> Result<ValueId> {
        let coefficients = self
            .attributes()
            .floats("coefficients")?
            .unwrap_or_default();
        if coefficients.is_empty() || coefficients.len() % rows != 0 {
            return Err(
                invalid("attribute 'coefficients' has the wrong number of elements")
                    .expected(format_args!("a multiple of {rows}"))
                    .found(coefficients.len()),
            );
        }
        let input = self.input(0)?;
        let x = self.as_rows(input)?;
        let x = self.as_f32(x);
        self.affine(
            x,
            [rows, coefficients.len() / rows],
            coefficients,
            intercepts,
        )
    }

    /// X times a transposed constant matrix, plus a constant row.
    pub(super) fn affine(
        &mut self,
        x: ValueId,
        shape: [usize; 2],
        weights: &[f32],
        bias: Option<&[f32]>,
    ) -> Result<ValueId> {
        let mut inputs = vec![
            x,
            self.constant("weights", Tensor::from_slice(shape, weights)?),
        ];
        if let Some(bias) = bias {
            inputs.push(self.constant("bias", Tensor::from_slice([bias.len()], bias)?));
        }
        let transposed = Attributes::new().with("transB", Attribute::Int(1));
        Ok(self.op_with("Gemm", transposed, &inputs))
    }
}
