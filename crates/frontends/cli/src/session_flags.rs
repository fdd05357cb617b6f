//! Flags of models with state, besides those of compiling (`--state`, `--auto-state`).

use clap::Args;

/// How often a model is executed, and the text of a decoder.
#[derive(Args, Clone)]
pub struct SessionFlags {
    /// Execute N times. A decoder reads the prompt, then one token at a time: the largest of its logits; positions
    /// and masks follow. Other models get the same inputs each time. States are found as by --auto-state unless
    /// --state gives them.
    #[arg(long, value_name = "N", help_heading = "State", conflicts_with_all = ["tap", "profile"])]
    pub steps: Option<usize>,
    /// The token ids of the prompt, instead of a file.
    #[arg(
        long,
        value_name = "ID[,ID]",
        value_delimiter = ',',
        help_heading = "State",
        requires = "steps"
    )]
    pub prompt: Vec<i64>,
    /// End when this token is the next one of all sequences.
    #[arg(long, value_name = "ID", help_heading = "State", requires = "steps")]
    pub end_token: Option<i64>,
}
