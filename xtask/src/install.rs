//! `cargo xtask install`: the library, its headers and what pkg-config reads, under a prefix.

use crate::{Result, cargo, root, run, target};
use clap::Args;
use std::fs;
use std::path::{Path, PathBuf};

/// What is installed where.
#[derive(Args)]
pub struct Options {
    /// The folder that gets `lib` and `include`.
    #[arg(long)]
    prefix: PathBuf,
}

/// Builds `libnrt.so.1` and lays it out.
pub fn run_with(options: &Options) -> Result<()> {
    run(cargo().args(["build", "--release", "-p", "tenon-nrt"]))?;
    let library = target().join("release/libnrt.so");
    lay_out(&library, &options.prefix)
}

fn lay_out(library: &Path, prefix: &Path) -> Result<()> {
    let folder = prefix.join("lib");
    make(&folder.join("pkgconfig"))?;
    let prefix = fs::canonicalize(prefix).map_err(|error| told(prefix, &error))?;
    copy(library, &folder.join("libnrt.so.1"))?;
    let link = folder.join("libnrt.so");
    if link.symlink_metadata().is_ok() {
        fs::remove_file(&link).map_err(|error| told(&link, &error))?;
    }
    std::os::unix::fs::symlink("libnrt.so.1", &link).map_err(|error| told(&link, &error))?;
    let template = root().join("crates/frontends/nrt/nrt.pc.in");
    let text = fs::read_to_string(&template).map_err(|error| told(&template, &error))?;
    let text = text
        .replace("@PREFIX@", &prefix.display().to_string())
        .replace("@VERSION@", env!("CARGO_PKG_VERSION"));
    let file = folder.join("pkgconfig/nrt.pc");
    fs::write(&file, text).map_err(|error| told(&file, &error))?;
    for part in ["nrt", "ndl", "tenon"] {
        copy_folder(
            &root().join("include").join(part),
            &prefix.join("include").join(part),
        )?;
    }
    Ok(())
}

fn copy_folder(from: &Path, to: &Path) -> Result<()> {
    make(to)?;
    for entry in fs::read_dir(from).map_err(|error| told(from, &error))? {
        let entry = entry.map_err(|error| told(from, &error))?;
        copy(&entry.path(), &to.join(entry.file_name()))?;
    }
    Ok(())
}

/// Replaces a file: programs that have the old one open keep it.
fn copy(from: &Path, to: &Path) -> Result<()> {
    let aside = to.with_extension("new");
    fs::copy(from, &aside).map_err(|error| told(from, &error))?;
    fs::rename(&aside, to).map_err(|error| told(to, &error))
}

fn make(folder: &Path) -> Result<()> {
    fs::create_dir_all(folder).map_err(|error| told(folder, &error))
}

fn told(path: &Path, error: &std::io::Error) -> String {
    format!("{}: {error}", path.display())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_clients_look_for_is_there_and_can_be_replaced() {
        let folder = std::env::temp_dir().join(format!("tenon-install-{}", std::process::id()));
        let library = folder.join("built.so");
        make(&folder).unwrap();
        let prefix = folder.join("prefix");
        for text in ["one", "two"] {
            fs::write(&library, text).unwrap();
            lay_out(&library, &prefix).unwrap();
            // The link leads to the library by its own name.
            assert_eq!(
                fs::read_to_string(prefix.join("lib/libnrt.so")).unwrap(),
                text
            );
        }
        let link = fs::read_link(prefix.join("lib/libnrt.so")).unwrap();
        assert_eq!(link, Path::new("libnrt.so.1"));
        let told = fs::read_to_string(prefix.join("lib/pkgconfig/nrt.pc")).unwrap();
        let first = format!("prefix={}\n", fs::canonicalize(&prefix).unwrap().display());
        assert!(told.starts_with(&first), "{told}");
        assert!(!told.contains('@'), "{told}");
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
