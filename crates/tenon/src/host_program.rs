//! Host programs by themselves, as BEF bytes or MLIR text: translated, rewritten and run.

mod input;
mod output;
mod translate;

pub use input::ProgramInput;
pub use output::write_output;
pub use translate::{Direction, TranslateOptions, Translation, translate};
