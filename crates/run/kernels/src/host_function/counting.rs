//! Operators that count elements, computed at once: a workload would count them first for its types.

use tenon_base::Result;
use tenon_graph::geometry::selected_boxes;
use tenon_graph::{Inference, OperatorDef};
use tenon_tensor::{DataType, Tensor};

/// The result of `op` on the constants of `node`; `None` for other operators and types.
pub(super) fn result(op: &OperatorDef, node: &Inference<'_>) -> Result<Option<Tensor>> {
    match (op.name, node.constants) {
        ("NonMaxSuppression", [Some(boxes), Some(scores), ..])
            if [boxes, scores]
                .iter()
                .all(|tensor| tensor.dtype() == DataType::F32) =>
        {
            let rows = selected_boxes(node)?;
            Tensor::from_slice([rows.len(), 3], rows.as_flattened()).map(Some)
        }
        ("NonZero", [Some(tensor)]) => non_zero(tensor),
        _ => Ok(None),
    }
}

/// The indices of elements that are not zero, one column each.
fn non_zero(tensor: &Tensor) -> Result<Option<Tensor>> {
    let found: Vec<usize> = match tensor.dtype() {
        DataType::Bool => positions(tensor.bytes(), |&byte| byte != 0),
        DataType::F32 => positions(tensor.as_slice().unwrap_or_default(), |&value: &f32| {
            value != 0.0
        }),
        DataType::I64 => positions(tensor.as_slice().unwrap_or_default(), |&value: &i64| {
            value != 0
        }),
        _ => return Ok(None),
    };
    let shape = tensor.shape();
    if shape.is_empty() {
        return Tensor::from_slice([1, found.len()], &vec![0i64; found.len()]).map(Some);
    }
    let mut indices = Vec::new();
    for (&stride, &extent) in shape.strides().iter().zip(shape.iter()) {
        indices.extend(found.iter().map(|at| (at / stride % extent) as i64));
    }
    Tensor::from_slice([shape.len(), found.len()], &indices).map(Some)
}

fn positions<T>(elements: &[T], counts: impl Fn(&T) -> bool) -> Vec<usize> {
    let elements = elements.iter().enumerate();
    let counted = elements.filter(|(_, element)| counts(element));
    counted.map(|(position, _)| position).collect()
}
