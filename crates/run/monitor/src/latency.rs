//! Latency percentiles in the format of the accelerator's monitor.

use serde_json::{Value, json};
use tenon_runtime::Latencies;

/// The reported percentiles.
pub const PERCENTILES: [(&str, f64); 7] = [
    ("p0", 0.0),
    ("p1", 0.01),
    ("p25", 0.25),
    ("p50", 0.5),
    ("p75", 0.75),
    ("p99", 0.99),
    ("p100", 1.0),
];

/// Seconds by percentile; `null` without executions.
pub fn json(latencies: &Latencies) -> Value {
    if latencies.count() == 0 {
        return Value::Null;
    }
    let percentiles =
        PERCENTILES.map(|(name, share)| (name.to_owned(), json!(latencies.percentile(share))));
    Value::Object(percentiles.into_iter().collect())
}
