//! Files that a command writes and reads: whole or not at all, `-` for standard input and output,
//! names that every file system accepts.

mod name;
mod standard_stream;
mod write;

pub use name::{file_name, file_names};
pub use standard_stream::{is_standard_stream, read_standard_input};
pub use write::{escape_lines, write, write_through};

pub use tenon_base::{escape_controls, remove_unfinished_files};
