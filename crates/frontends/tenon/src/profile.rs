//! Profiles of executions beside the measured peaks of the machine.
//!
//! ```
//! use tenon::machine::Ceiling;
//! use tenon::{Compiler, LoadOptions, RunOptions, Tensor};
//!
//! # let onnx = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../models/digits/digits.onnx");
//! # let model = Compiler::new().compile_file(onnx)?.load(&LoadOptions::new())?;
//! # let image = Tensor::from_slice([1, 1, 8, 8], &[0.0f32; 64])?;
//! let mut profile = model.profile();
//! model.run_with(&[("image", &image)], RunOptions::new().profile(&mut profile))?;
//! let ceiling = Ceiling { gflops: 100.0, gigabytes: 20.0 }; // or Ceiling::measure(1)
//! for row in tenon::profile::rows(&profile, &ceiling) {
//!     println!("{:?} {} {}", row.time, row.operator, row.node);
//! }
//! # Ok::<(), tenon::Error>(())
//! ```

use crate::machine::Ceiling;
use serde_json::{Value, json};
use std::time::Duration;

pub use tenon_base::trace::{Recording, TraceSink};
pub use tenon_runtime::{CounterProfile, KernelProfile, PartProfile, Profile};

/// A kernel of the model: means of one execution.
#[derive(Debug, Clone, PartialEq)]
pub struct ProfileRow {
    /// The graph node.
    pub node: String,
    /// The operator; empty for data movement.
    pub operator: String,
    /// The backend.
    pub backend: String,
    /// Mean time of an execution.
    pub time: Duration,
    /// Mean number of runs in an execution; other than 1 in branches and loops.
    pub runs: f64,
    /// The share of the time of all rows, 0 to 1.
    pub share: f64,
    /// Arithmetic operations.
    pub flops: u64,
    /// Bytes read and written.
    pub bytes: u64,
    /// Operations in GFLOP/s.
    pub gflops: f64,
    /// Bytes in GB/s.
    pub gigabytes: f64,
    /// The least time that the [`Ceiling`] allows, divided by the time; above 1 where data came from
    /// caches. `None` where the package has no operation and byte counts of the kernel.
    pub of_ceiling: Option<f64>,
    /// The parts of the kernel, if its backend times them.
    pub parts: Vec<PartRow>,
}

/// A part of a kernel: means of one execution, by the backend's clock.
#[derive(Debug, Clone, PartialEq)]
pub struct PartRow {
    /// Its name.
    pub name: String,
    /// The nodes that it computes, as far as they are known.
    pub nodes: Vec<String>,
    /// Mean time of an execution.
    pub time: Duration,
    /// The share of the time of all rows, 0 to 1.
    pub share: f64,
}

impl ProfileRow {
    /// Whether the package has operation and byte counts of the kernel; not for sizes that are not fixed.
    pub fn is_counted(&self) -> bool {
        self.of_ceiling.is_some()
    }
}

/// The rows of a profile, in the program's order.
pub fn rows(profile: &Profile, ceiling: &Ceiling) -> Vec<ProfileRow> {
    let executions = profile.executions.max(1) as f64;
    let total = profile.total().as_secs_f64().max(f64::MIN_POSITIVE);
    let part = |part: &PartProfile| {
        let all = part.time.as_secs_f64();
        PartRow {
            name: part.name.clone(),
            nodes: part.nodes.clone(),
            time: Duration::from_secs_f64(all / executions),
            share: all / total,
        }
    };
    let row = |kernel: &KernelProfile| {
        let all = kernel.time.as_secs_f64();
        let seconds = (all / executions).max(1e-9);
        let bytes = kernel.read.saturating_add(kernel.bytes);
        let is_counted = kernel.read > 0 || kernel.flops > 0;
        ProfileRow {
            node: kernel.node.clone(),
            operator: kernel.operator.clone(),
            backend: kernel.backend.clone(),
            time: Duration::from_secs_f64(all / executions),
            runs: kernel.runs as f64 / executions,
            share: all / total,
            flops: kernel.flops,
            bytes,
            gflops: kernel.flops as f64 / seconds / 1e9,
            gigabytes: bytes as f64 / seconds / 1e9,
            of_ceiling: is_counted.then(|| ceiling.least_seconds(kernel.flops, bytes) / seconds),
            parts: kernel.parts.iter().map(part).collect(),
        }
    };
    profile.kernels.iter().map(row).collect()
}

/// A profile as JSON: the rows in the program's order, times in microseconds. Without a ceiling, shares of it are null.
pub fn json(profile: &Profile, ceiling: Option<&Ceiling>) -> Value {
    let micros = |time: Duration| time.as_secs_f64() * 1e6;
    let part = |part: &PartRow| {
        json!({"name": part.name, "nodes": part.nodes, "us": micros(part.time),
               "share": part.share})
    };
    let row = |row: &ProfileRow| {
        let counted = |value: Value| if row.is_counted() { value } else { Value::Null };
        json!({
            "node": row.node, "operator": row.operator, "backend": row.backend,
            "us": micros(row.time), "runs": row.runs, "share": row.share,
            "flops": counted(row.flops.into()), "bytes": row.bytes,
            "gflops": counted(row.gflops.into()), "gigabytes": counted(row.gigabytes.into()),
            "of_ceiling": row.of_ceiling.filter(|_| ceiling.is_some()),
            "parts": row.parts.iter().map(part).collect::<Vec<_>>(),
        })
    };
    let counter = |counter: &CounterProfile| {
        json!({
            "backend": counter.backend, "name": counter.name, "unit": counter.unit,
            "doc": counter.doc, "change": counter.change, "value": counter.value,
        })
    };
    let peaks =
        |ceiling: &Ceiling| json!({"gflops": ceiling.gflops, "gigabytes": ceiling.gigabytes});
    let unlimited = Ceiling {
        gflops: f64::INFINITY,
        gigabytes: f64::INFINITY,
    };
    let rows = rows(profile, ceiling.unwrap_or(&unlimited));
    json!({
        "executions": profile.executions,
        "execution_us": micros(profile.elapsed) / profile.executions.max(1) as f64,
        "ceiling": ceiling.map(peaks),
        "nodes": rows.iter().map(row).collect::<Vec<_>>(),
        "counters": profile.counters.iter().map(counter).collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_rates_of_one_execution() {
        let kernel = |node: &str, flops, read, millis| KernelProfile {
            kernel: "tenon.workload".into(),
            node: node.into(),
            operator: "MatMul".into(),
            backend: "CpuAcc".into(),
            bytes: 1_000_000,
            read,
            flops,
            time: Duration::from_millis(millis),
            runs: 2,
            parts: vec![PartProfile {
                name: "copy".into(),
                nodes: vec![node.into()],
                time: Duration::from_millis(4),
            }],
            ..KernelProfile::default()
        };
        let profile = Profile {
            kernels: vec![kernel("a", 40_000_000, 3_000_000, 6), kernel("b", 0, 0, 2)],
            executions: 2,
            elapsed: Duration::from_millis(9),
            ..Profile::default()
        };
        let ceiling = Ceiling {
            gflops: 20.0,
            gigabytes: 8.0,
        };
        let rows = rows(&profile, &ceiling);
        assert_eq!(rows[0].parts[0].time, Duration::from_millis(2));
        assert_eq!(rows[0].parts[0].share, 0.5);
        // 3 ms an execution: 40 million operations, 4 million bytes; the ceiling allows 2 ms.
        assert_eq!(rows[0].time, Duration::from_millis(3));
        assert_eq!(rows[0].runs, 1.0);
        let close =
            |found: f64, expected: f64| assert!((found / expected - 1.0).abs() < 1e-9, "{found}");
        close(rows[0].share, 0.75);
        close(rows[0].gflops, 40.0 / 3.0);
        close(rows[0].gigabytes, 4.0 / 3.0);
        close(rows[0].of_ceiling.unwrap(), 2.0 / 3.0);
        assert_eq!(rows[1].of_ceiling, None);
        // Where memory is the limit: 4 million bytes take 0.5 ms.
        close(ceiling.least_seconds(1000, 4_000_000), 0.0005);
    }
}
