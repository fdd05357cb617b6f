//! The text of the results of a function (bef 5.1).

use super::words;
use tenon_base::{Error, ErrorKind};
use tenon_executor::Value;
use tenon_kernels::host::float_format::Scientific;

/// All results, separated by commas: the value of common scalar types, the type's name for others;
/// `None` if there are no results.
pub(super) fn values(
    types: &[impl AsRef<str>],
    values: &[Value],
    error_codes: bool,
) -> Option<String> {
    let texts = types.iter().zip(values).map(|(ty, value)| match value {
        Value::Error(failure) => error(failure, error_codes),
        Value::I1(value) => u8::from(*value).to_string(),
        Value::I32(value) => value.to_string(),
        Value::I64(value) => value.to_string(),
        Value::F32(value) => Scientific(f64::from(*value)).to_string(),
        Value::F64(value) => Scientific(*value).to_string(),
        _ => format!("{} value", ty.as_ref()),
    });
    let texts: Vec<String> = texts.collect();
    (!texts.is_empty()).then(|| texts.join(","))
}

/// An error in place of a result.
pub(super) fn error(error: &Error, with_code: bool) -> String {
    let message = words(error);
    if with_code {
        format!("<<error: {message}, code: {}>>", code(error.kind()))
    } else {
        format!("<<error: {message}>>")
    }
}

/// The status codes of the original, in which errors of kernels are internal ones.
fn code(kind: ErrorKind) -> &'static str {
    match kind {
        ErrorKind::Cancelled => "CANCELLED",
        ErrorKind::DeadlineExceeded => "DEADLINE_EXCEEDED",
        _ => "INTERNAL",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_formatted_by_type() {
        let failed = Error::new(ErrorKind::ExecutionFailed, "no")
            .expected(1)
            .found(2);
        let all = [
            Value::I1(true),
            Value::I32(-1),
            Value::F32(0.5),
            Value::Chain,
            Value::error(failed),
        ];
        let types = ["i1", "i32", "f32", "!tfrt.chain", "i32"];
        assert_eq!(
            values(&types, &all, false).unwrap(),
            "1,-1,5.000000e-01,!tfrt.chain value,<<error: no: expected 1, found 2>>"
        );
        let cancelled = Value::error(Error::new(ErrorKind::Cancelled, "Cancelled"));
        assert_eq!(
            values(&["i32"], &[cancelled], true).unwrap(),
            "<<error: Cancelled, code: CANCELLED>>"
        );
        assert_eq!(values(&[""; 0], &[], false), None);
    }
}
