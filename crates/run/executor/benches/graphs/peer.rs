//! oneTBB's flow graph on the same graphs, if it is installed (Debian's libtbb-dev and g++).

use super::graph::Graph;
use std::path::PathBuf;
use std::process::Command;
use tenon_base::Error;

/// The built program tbb_graph.cc, if it could be built.
pub struct Peer(Option<PathBuf>);

impl Peer {
    /// Builds the program; prints the reason if that fails.
    pub fn build() -> Self {
        let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
        let program = folder.join("tbb_graph");
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/benches/graphs/tbb_graph.cc");
        let built = Command::new("g++")
            .args(["-O2", "-std=c++17", source, "-o"])
            .arg(&program)
            .arg("-ltbb")
            .output();
        match built {
            Ok(output) if output.status.success() => Self(Some(program)),
            Ok(output) => {
                eprintln!(
                    "without oneTBB: {}",
                    String::from_utf8_lossy(&output.stderr)
                );
                Self(None)
            }
            Err(error) => {
                eprintln!("without oneTBB: g++: {error}");
                Self(None)
            }
        }
    }

    /// Nanoseconds per node, the minimum of `runs`.
    ///
    /// # Panics
    /// If the built program fails to run the graph.
    pub fn measure(&self, graph: &Graph, threads: usize, rounds: u64, runs: usize) -> Option<f64> {
        let program = self.0.as_ref()?;
        let path = program.with_extension("graph");
        graph.write(&path).expect("a temporary file");
        let output = Command::new(program)
            .arg(&path)
            .args([threads.to_string(), rounds.to_string(), runs.to_string()])
            .output()
            .expect("the program was just built");
        assert!(output.status.success(), "{output:?}");
        let text = String::from_utf8_lossy(&output.stdout);
        Some(text.trim().parse().expect("one number"))
    }
}

/// Converts an I/O error.
pub fn io(error: std::io::Error) -> Error {
    Error::io("the work queue", "start", error)
}
