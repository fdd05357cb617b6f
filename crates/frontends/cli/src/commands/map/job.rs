//! The work on one file, and the messages between the command and its workers: lines of JSON.

use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use tenon::Error;

/// The line after which a worker cancels its work and ends; so does the end of the socket.
pub const END: &[u8] = b"end\n";

/// The files of arrays for one output file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Job {
    /// The output's path below the output folder, without the extension; unique.
    pub name: String,
    pub sources: Vec<ArrayFile>,
    pub output: PathBuf,
}

/// A file of arrays.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ArrayFile {
    /// The input that the only array of the file is for; without it an `.npz` names its own.
    pub input: Option<String>,
    pub file: PathBuf,
}

impl Job {
    /// The files as text, for messages.
    pub fn text(&self) -> String {
        let files = self.sources.iter().map(|source| source.file.display());
        let files: Vec<String> = files.map(|file| file.to_string()).collect();
        files.join(", ")
    }
}

/// What a worker reports.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WorkerMessage {
    /// The model is loaded.
    Ready {
        /// The number of its inputs.
        inputs: usize,
        warnings: Vec<String>,
    },
    /// The model cannot be loaded.
    Unusable {
        problems: Vec<String>,
        /// Whether the command line is wrong.
        is_usage: bool,
    },
    /// Rows of the current file that were executed since the last message.
    Rows(u64),
    /// The output of the current file is complete.
    Done { rows: u64 },
    /// The current file has no output.
    Failed { problems: Vec<String> },
}

/// The lines of an error.
pub fn problems(error: &Error) -> Vec<String> {
    error.all().map(|one| one.single().to_string()).collect()
}
