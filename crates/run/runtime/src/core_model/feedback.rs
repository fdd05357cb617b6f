//! Feedback of outputs to inputs in repeated executions.

use crate::Signature;
use tenon_base::{Error, ErrorKind, Result};

/// Pairs of an output and the input that it feeds: of the same name, else in order.
pub(super) fn feedback_pairs(
    inputs: &[Signature],
    outputs: &[Signature],
) -> Result<Vec<(usize, usize)>> {
    let by_name = |(output, port): (usize, &Signature)| {
        let same = |input: &Signature| input.name == port.name;
        Some((output, inputs.iter().position(same)?))
    };
    let all = outputs.iter().enumerate();
    let mut pairs: Vec<(usize, usize)> = all.filter_map(by_name).collect();
    if pairs.is_empty() {
        let count = outputs.len().min(inputs.len());
        pairs = (0..count).map(|index| (index, index)).collect();
    }
    let fits = |&(output, input): &(usize, usize)| outputs[output].ty == inputs[input].ty;
    if pairs.is_empty() || !pairs.iter().all(fits) {
        let types = |ports: &[Signature]| {
            let types: Vec<String> = ports
                .iter()
                .map(|port| format!("{} {}", port.name, port.ty))
                .collect();
            types.join(", ")
        };
        return Err(Error::new(
            ErrorKind::InvalidArgument,
            "the outputs of the model do not match its inputs",
        )
        .expected(format_args!("inputs {}", types(inputs)))
        .found(format_args!("outputs {}", types(outputs))));
    }
    Ok(pairs)
}
