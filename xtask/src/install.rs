//! `cargo xtask install`: the library, its headers and its pkg-config file, under a prefix.

use crate::{Result, cargo, root, run, target};
use clap::Args;
use std::fs;
use std::path::{Path, PathBuf};

/// Options of `cargo xtask install`.
#[derive(Args)]
pub struct Options {
    /// The folder that contains `lib` and `include` after the installation.
    #[arg(long)]
    prefix: PathBuf,
}

/// Builds `libnrt.so.1` and installs it.
pub fn install(options: &Options) -> Result<()> {
    run(cargo().args(["build", "--release", "-p", "tenon-nrt"]))?;
    let library = target().join("release/libnrt.so");
    install_files(&library, &options.prefix)
}

fn install_files(library: &Path, prefix: &Path) -> Result<()> {
    let folder = prefix.join("lib");
    create_folder(&folder.join("pkgconfig"))?;
    let prefix = fs::canonicalize(prefix).map_err(|error| path_error(prefix, &error))?;
    copy(library, &folder.join("libnrt.so.1"))?;
    let link = folder.join("libnrt.so");
    if link.symlink_metadata().is_ok() {
        fs::remove_file(&link).map_err(|error| path_error(&link, &error))?;
    }
    std::os::unix::fs::symlink("libnrt.so.1", &link).map_err(|error| path_error(&link, &error))?;
    let template = root().join("crates/frontends/nrt/nrt.pc.in");
    let text = fs::read_to_string(&template).map_err(|error| path_error(&template, &error))?;
    let text = text
        .replace("@PREFIX@", &prefix.display().to_string())
        .replace("@VERSION@", env!("CARGO_PKG_VERSION"));
    let file = folder.join("pkgconfig/nrt.pc");
    fs::write(&file, text).map_err(|error| path_error(&file, &error))?;
    for part in ["nrt", "ndl", "tenon"] {
        copy_folder(
            &root().join("include").join(part),
            &prefix.join("include").join(part),
        )?;
    }
    Ok(())
}

fn copy_folder(from: &Path, to: &Path) -> Result<()> {
    create_folder(to)?;
    for entry in fs::read_dir(from).map_err(|error| path_error(from, &error))? {
        let entry = entry.map_err(|error| path_error(from, &error))?;
        copy(&entry.path(), &to.join(entry.file_name()))?;
    }
    Ok(())
}

/// Replaces a file by rename, so that programs that have the old file open keep it.
fn copy(from: &Path, to: &Path) -> Result<()> {
    let temporary = to.with_extension("new");
    fs::copy(from, &temporary).map_err(|error| path_error(from, &error))?;
    fs::rename(&temporary, to).map_err(|error| path_error(to, &error))
}

fn create_folder(folder: &Path) -> Result<()> {
    fs::create_dir_all(folder).map_err(|error| path_error(folder, &error))
}

fn path_error(path: &Path, error: &std::io::Error) -> String {
    format!("{}: {error}", path.display())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn installation_is_complete_and_replaces_an_earlier_one() {
        let folder = std::env::temp_dir().join(format!("tenon-install-{}", std::process::id()));
        let library = folder.join("built.so");
        create_folder(&folder).unwrap();
        let prefix = folder.join("prefix");
        for text in ["one", "two"] {
            fs::write(&library, text).unwrap();
            install_files(&library, &prefix).unwrap();
            // The link refers to the library by its relative name.
            assert_eq!(
                fs::read_to_string(prefix.join("lib/libnrt.so")).unwrap(),
                text
            );
        }
        let link = fs::read_link(prefix.join("lib/libnrt.so")).unwrap();
        assert_eq!(link, Path::new("libnrt.so.1"));
        let config = fs::read_to_string(prefix.join("lib/pkgconfig/nrt.pc")).unwrap();
        let first = format!("prefix={}\n", fs::canonicalize(&prefix).unwrap().display());
        assert!(config.starts_with(&first), "{config}");
        assert!(!config.contains('@'), "{config}");
        for header in [
            "nrt/nrt.h",
            "ndl/neuron_driver_shared_tensor_batch_op.h",
            "tenon/nrt.h",
        ] {
            assert!(prefix.join("include").join(header).exists(), "{header}");
        }
        let names: Vec<_> = fs::read_dir(prefix.join("lib"))
            .unwrap()
            .map(|entry| entry.unwrap().file_name())
            .collect();
        assert_eq!(names.len(), 3, "{names:?}");
        fs::remove_dir_all(&folder).unwrap();
    }
}
