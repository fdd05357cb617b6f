//! The fixture of the tests, built wherever they run.

use std::path::{Path, PathBuf};

/// The backend of `tests/fixtures/variant.c` with these definitions, as `name` in `folder`.
pub fn variant(folder: &Path, name: &str, definitions: &[&str]) -> PathBuf {
    let source =
        tenon_test_libraries::repository("crates/backends/backend/tests/fixtures/variant.c");
    tenon_test_libraries::compiled(&source, &folder.join(name), definitions)
}
