//! No code: the manifest states the features of outside crates for all crates of the project (`Cargo.toml`).

#![forbid(unsafe_code)]
