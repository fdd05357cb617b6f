//! Models built from the messages themselves, imported, and compared as text.

mod attention;
mod build;
mod functions;
mod hostile;
mod known;
mod loops;
mod maps;
mod older_forms;
mod python;
mod signature;
mod structure;
mod trees;
