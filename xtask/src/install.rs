//! `cargo xtask install`: the command, the libraries and their headers, and the files by which builds find them, under a prefix.

use crate::installed::{Files, LIBRARIES, Member, path_error};
use crate::{Result, cargo, run, target};
use clap::Args;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

/// Options of `cargo xtask install`.
#[derive(Args)]
#[command(after_help = "Examples:
  cargo xtask install --prefix ~/.local
  export PKG_CONFIG_PATH=~/.local/lib/pkgconfig LD_LIBRARY_PATH=~/.local/lib
  cc program.c -o program $(pkg-config --cflags --libs tenon)")]
pub struct Options {
    /// The folder that contains `bin`, `lib`, `include` and `share` after the installation.
    #[arg(long)]
    prefix: PathBuf,
}

/// Builds and installs.
pub fn install(options: &Options) -> Result<()> {
    let packages = LIBRARIES.iter().flat_map(|library| ["-p", library.package]);
    run(cargo()
        .args(["build", "--release", "-p", "tenon-cli"])
        .args(packages))?;
    let release = target().join("release");
    let prefix = &options.prefix;
    fs::create_dir_all(prefix).map_err(|error| path_error(prefix, &error))?;
    let prefix = fs::canonicalize(prefix).map_err(|error| path_error(prefix, &error))?;
    let mut files = Files::default();
    files.add_command(&release)?;
    files.add_libraries(&release, &prefix.display().to_string())?;
    write(&files, &prefix)
}

/// Writes the files below a folder. Each replaces an earlier one by rename, so that programs that have the old file open
/// keep it.
fn write(files: &Files, prefix: &Path) -> Result<()> {
    for (path, member) in &files.members {
        let path = prefix.join(path);
        let folder = path.parent().unwrap_or(prefix);
        fs::create_dir_all(folder).map_err(|error| path_error(folder, &error))?;
        let mut name = path.file_name().unwrap_or_default().to_owned();
        name.push(".new");
        let temporary = path.with_file_name(name);
        let written = match member {
            Member::File { bytes, mode } => fs::write(&temporary, bytes)
                .and_then(|()| fs::set_permissions(&temporary, fs::Permissions::from_mode(*mode))),
            Member::Link(name) => {
                // Of an installation that was interrupted.
                let _ = fs::remove_file(&temporary);
                symlink(name, &temporary)
            }
        };
        written.map_err(|error| path_error(&temporary, &error))?;
        fs::rename(&temporary, &path).map_err(|error| path_error(&path, &error))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn installation_is_complete_and_replaces_an_earlier_one() {
        let folder = std::env::temp_dir().join(format!("tenon-install-{}", std::process::id()));
        let built = folder.join("built");
        fs::create_dir_all(&built).unwrap();
        let prefix = folder.join("prefix");
        let read = |file: &str| fs::read_to_string(prefix.join(file)).unwrap();
        for text in ["one", "two"] {
            for library in ["libnrt.so", "libtenon_c.so"] {
                fs::write(built.join(library), text).unwrap();
            }
            let mut files = Files::default();
            fs::create_dir_all(&prefix).unwrap();
            let absolute = fs::canonicalize(&prefix).unwrap();
            let prefix = absolute.to_str().unwrap();
            files.add_libraries(&built, prefix).unwrap();
            write(&files, &absolute).unwrap();
            // The links refer to the libraries by their relative names.
            assert_eq!(read("lib/libnrt.so"), text);
            assert_eq!(read("lib/libtenon.so"), text);
        }
        let link = fs::read_link(prefix.join("lib/libtenon.so")).unwrap();
        assert_eq!(link, Path::new("libtenon.so.1"));
        let first = format!("prefix={}\n", fs::canonicalize(&prefix).unwrap().display());
        for file in ["lib/pkgconfig/nrt.pc", "lib/pkgconfig/tenon.pc"] {
            let config = read(file);
            assert!(config.starts_with(&first), "{config}");
            assert!(!config.contains('@'), "{config}");
        }
        let version = read("lib/cmake/tenon/tenon-config-version.cmake");
        let expected = concat!("PACKAGE_VERSION \"", env!("CARGO_PKG_VERSION"), "\"");
        assert!(version.contains(expected), "{version}");
        for header in [
            "nrt/nrt.h",
            "ndl/neuron_driver_shared_tensor_batch_op.h",
            "tenon/nrt.h",
            "tenon/tenon.h",
            "tenon/tenon.hpp",
        ] {
            assert!(prefix.join("include").join(header).exists(), "{header}");
        }
        let mut names: Vec<_> = fs::read_dir(prefix.join("lib"))
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        let expected = [
            "cmake",
            "libnrt.so",
            "libnrt.so.1",
            "libtenon.so",
            "libtenon.so.1",
            "pkgconfig",
        ];
        assert_eq!(names, expected);
        fs::remove_dir_all(&folder).unwrap();
    }
}
