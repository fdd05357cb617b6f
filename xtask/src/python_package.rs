//! The Python package `tenon` in a folder, with which Python runs it without an installation.

use std::fs;
use std::path::Path;

/// Copies the Python modules below `root` and the built extension module into the package of a folder, with the name, version
/// and entry points of the manifest.
pub fn stage(root: &Path, library: &Path, packages: &Path) -> Result<(), String> {
    let write = || -> std::io::Result<()> {
        // Of an earlier call.
        let _ = fs::remove_dir_all(packages);
        let metadata = packages.join("tenon.dist-info");
        fs::create_dir_all(&metadata)?;
        let name = format!("Name: tenon\nVersion: {}\n", env!("CARGO_PKG_VERSION"));
        fs::write(metadata.join("METADATA"), name)?;
        let manifest = fs::read_to_string(root.join("python/pyproject.toml"))?;
        fs::write(metadata.join("entry_points.txt"), entry_points(&manifest))?;
        let folder = packages.join("tenon");
        fs::create_dir_all(&folder)?;
        for file in fs::read_dir(root.join("python/python/tenon"))? {
            let file = file?;
            if file.file_type()?.is_file() {
                fs::copy(file.path(), folder.join(file.file_name()))?;
            }
        }
        fs::copy(library, folder.join("_tenon.abi3.so")).map(drop)
    };
    write().map_err(|error| format!("{}: {error}", packages.display()))
}

/// The tables `[project.entry-points.GROUP]` of a manifest, in the form of `entry_points.txt`.
fn entry_points(manifest: &str) -> String {
    let tables = manifest.split("[project.entry-points.").skip(1);
    let tables = tables.map(|table| table.split("\n\n").next().unwrap_or_default());
    tables
        .map(|table| format!("[{}\n", table.replace('"', "")))
        .collect()
}
