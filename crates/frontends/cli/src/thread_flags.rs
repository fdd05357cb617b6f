//! The flag `--threads`, and counts of at least 1.

use clap::Args;

/// How many threads a command uses.
#[derive(Args, Clone, Copy)]
pub struct ThreadFlags {
    /// Threads to use; all CPUs by default.
    #[arg(long, value_name = "N", value_parser = threads)]
    pub threads: Option<usize>,
}

fn threads(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(0) => Err("at least one thread is needed".into()),
        Ok(count) => Ok(count),
        Err(_) => Err(format!("'{text}' is not a thread count")),
    }
}

/// A count of at least 1.
pub fn positive(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(0) => Err("at least 1 is needed".into()),
        Ok(count) => Ok(count),
        Err(_) => Err(format!("'{text}' is no count")),
    }
}
