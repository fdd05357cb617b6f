//! Flags of `tenon map`.

use crate::model_flags::ModelFlags;
use crate::thread_flags::{ThreadFlags, positive};
use clap::Args;
use std::path::PathBuf;

/// Run a model over files of arrays, in processes that share its weights.
#[derive(Args)]
#[command(
    mut_arg("threads", |threads| threads
        .help("Threads of each process [default: the CPUs divided by --processes]")),
    after_help = "\
Examples:
  tenon map model.neff --input 'data/*.npz' --output out
  tenon map model.neff -i data -o out --processes 4 --threads 2
  tenon map model.onnx -i ids='ids/*.npy' -i mask='mask/*.npy' -o out
  tenon map model.neff -i data -o out --shard 3/16     the third of 16 machines
  tenon map model.neff -i data -o out --dry-run        what would run

Each input file becomes an .npz of its name in the output folder. Its arrays have the model's shape, or \
any count of rows where the model has its batch, the first dimension: rows are executed in batches, and \
the last batch of a fixed size is padded with zeros.

The same command continues after an interruption: a file is skipped if its output is there, and the \
model and the file are the same as before. docs/map.md has the details.

Exit status: 0 done, 1 files failed, 2 wrong usage; SIGINT and SIGTERM end it by the signal."
)]
pub struct Map {
    /// The ONNX or LiteRT model, which is compiled once, or package.
    pub file: PathBuf,
    /// Files of arrays, folders that are searched for them, or patterns in quotes (* matches any characters of a
    /// name, ? one): .npz with arrays named as the inputs, .npy for the only input. With NAME= the files are for
    /// this input, and those of several inputs belong together by their names. Repeat for several.
    #[arg(
        long = "input",
        short = 'i',
        value_name = "[NAME=]FILES",
        num_args = 1..,
        required_unless_present = "worker",
        help_heading = "Inputs"
    )]
    pub inputs: Vec<String>,
    /// Where the outputs go, each as DIR/FILE.npz; files below a folder keep their relative names.
    #[arg(long, short, value_name = "DIR", required_unless_present = "worker")]
    pub output: Option<PathBuf>,
    /// The most rows of one execution, in models whose batch is symbolic.
    #[arg(long, value_name = "ROWS", default_value_t = 32, value_parser = positive)]
    pub batch: usize,
    /// Processes that execute the model; they map the same package.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = positive)]
    pub processes: usize,
    #[command(flatten)]
    pub threading: ThreadFlags,
    /// Process only the I-th of N parts of the files, from 1: one part for each job of an array.
    #[arg(long, value_name = "I/N", value_parser = shard)]
    pub shard: Option<Shard>,
    /// Process files again whose outputs are complete.
    #[arg(long)]
    pub force: bool,
    /// End at the first file that fails; without it the others are processed.
    #[arg(long)]
    pub stop: bool,
    /// List what would be processed and skipped, and end.
    #[arg(long)]
    pub dry_run: bool,
    /// Print the summary as JSON.
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub model: ModelFlags,
    /// Process the files that are sent over the socket at standard input.
    #[arg(long, hide = true)]
    pub worker: bool,
}

/// One of several parts of the files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shard {
    /// From 1.
    pub index: usize,
    /// The number of parts.
    pub count: usize,
}

impl Shard {
    /// Whether the file at this position of the sorted list belongs to the part.
    pub fn contains(self, position: usize) -> bool {
        position % self.count == self.index - 1
    }
}

fn shard(text: &str) -> Result<Shard, String> {
    let parse = || {
        let (index, count) = text.split_once('/')?;
        let (index, count) = (index.parse().ok()?, count.parse().ok()?);
        (1..=count)
            .contains(&index)
            .then_some(Shard { index, count })
    };
    parse().ok_or_else(|| format!("'{text}' is not I/N with I from 1 to N"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_is_in_one_shard() {
        let shards: Vec<Shard> = (1..=3)
            .map(|index| shard(&format!("{index}/3")).unwrap())
            .collect();
        for position in 0..10 {
            let holders = shards.iter().filter(|shard| shard.contains(position));
            assert_eq!(holders.count(), 1);
        }
        for text in ["0/3", "4/3", "1", "1/0", "a/b", ""] {
            assert!(shard(text).is_err(), "{text}");
        }
    }
}
