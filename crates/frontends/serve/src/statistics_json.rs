//! The extension "statistics" in JSON.

use crate::served_model::ServedModel;
use crate::statistics::Total;
use serde_json::{Value, json};
use std::sync::Arc;

/// The statistics of models.
pub fn of(models: &[Arc<ServedModel>]) -> Value {
    let rows: Vec<Value> = models.iter().map(|model| row(model)).collect();
    json!({"model_stats": rows})
}

fn row(model: &ServedModel) -> Value {
    let counts = model.statistics().counts();
    let total = |total: &Total| json!({"count": total.count, "ns": total.nanos});
    let none = || json!({"count": 0, "ns": 0});
    let batches = counts.batches.iter().map(|(rows, times)| {
        json!({
            "batch_size": rows,
            "compute_input": none(),
            "compute_infer": total(times),
            "compute_output": none(),
        })
    });
    json!({
        "name": model.name(),
        "version": model.version().to_string(),
        "last_inference": counts.last_inference_millis,
        "inference_count": counts.inferences,
        "execution_count": counts.executions,
        "inference_stats": {
            "success": total(&counts.success),
            "fail": total(&counts.fail),
            "queue": total(&counts.queue),
            "compute_input": total(&counts.input),
            "compute_infer": total(&counts.compute),
            "compute_output": total(&counts.output),
            "cache_hit": total(&counts.found),
            "cache_miss": total(&counts.kept),
        },
        "batch_stats": batches.collect::<Vec<_>>(),
        "memory_usage": [],
        "response_stats": {},
    })
}
