//! Flags of models with state.

use clap::Args;
use tenon::StatePair;

/// Which outputs are inputs of the next execution, and how often a model is executed.
#[derive(Args, Clone)]
pub struct SessionFlags {
    /// Use an output as an input of the next execution; * matches the same text in both names, as in
    /// present.*=past_key_values.*. Repeat for several.
    #[arg(long = "state", value_name = "OUTPUT=INPUT", help_heading = "State",
          conflicts_with_all = ["tap", "profile"])]
    pub states: Vec<StatePair>,
    /// Find the states by their names, types and shapes: present.X and past.X, hn and h0.
    #[arg(long, help_heading = "State", conflicts_with_all = ["states", "tap", "profile"])]
    pub auto_state: bool,
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

impl SessionFlags {
    /// Whether the model runs with states.
    pub fn is_used(&self) -> bool {
        !self.states.is_empty() || self.auto_state || self.steps.is_some()
    }
}
