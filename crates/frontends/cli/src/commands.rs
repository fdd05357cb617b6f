//! The commands, one file each.

pub mod backends;
pub mod bench;
pub mod cache;
pub mod compare;
pub mod compile;
pub mod disasm;
pub mod dma;
pub mod exec;
pub mod info;
pub mod manual;
pub mod map;
pub mod netlist;
pub mod netlist_run;
pub mod netlist_show;
pub mod netlist_test;
pub mod opt;
mod own_command;
pub mod package;
pub mod plugin;
pub mod profile;
pub mod quantize;
pub mod run;
pub mod run_session;
#[cfg(feature = "serve")]
pub mod serve;
pub mod translate;
pub mod watch;

mod input_files;
mod load;
mod placement;
mod rules;
mod runner;
