//! The errors of this crate.

use serde::Serialize;
use tenon_base::{Error, ErrorKind, Result};

/// An invalid package.
pub(crate) fn invalid(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::InvalidPackage, message)
}

/// The values, or all errors as one.
pub(crate) fn collect<T>(results: impl IntoIterator<Item = Result<T>>) -> Result<Vec<T>> {
    let mut problems = Vec::new();
    let good = |result: Result<T>| result.map_err(|error| problems.push(error)).ok();
    let values = results.into_iter().filter_map(good).collect();
    Error::from_all(problems).map_or(Ok(values), Err)
}

/// The text of an error of JSON without its position, which serde_json appends.
pub(crate) fn json_text(error: &serde_json::Error) -> String {
    let text = error.to_string();
    text.split(" at line ")
        .next()
        .unwrap_or_default()
        .to_owned()
}

/// A value as JSON.
pub(crate) fn encode<T: Serialize>(value: &T) -> Result<Vec<u8>> {
    serde_json::to_vec(value).map_err(|error| {
        let text = format!("cannot write as JSON: {error}");
        Error::new(ErrorKind::Internal, text).source(error)
    })
}
