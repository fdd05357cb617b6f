//! `cargo xtask install`: the libraries, their headers, and the files by which builds find them, under a prefix.

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

/// A library of a C interface.
pub struct Library {
    /// Its crate.
    pub package: &'static str,
    /// The file in the folder of the build.
    pub built: &'static str,
    /// The name that programs load.
    pub soname: &'static str,
    /// The name that linkers look for.
    pub link: &'static str,
    /// Templates of its crate, and the files below `lib` that are made from them.
    templates: &'static [(&'static str, &'static str)],
}

/// All libraries.
pub const LIBRARIES: [Library; 2] = [
    Library {
        package: "tenon-nrt",
        built: "libnrt.so",
        soname: "libnrt.so.1",
        link: "libnrt.so",
        templates: &[("crates/frontends/nrt/nrt.pc.in", "pkgconfig/nrt.pc")],
    },
    Library {
        package: "tenon-c",
        built: "libtenon_c.so",
        soname: "libtenon.so.1",
        link: "libtenon.so",
        templates: &[
            ("crates/frontends/c/tenon.pc.in", "pkgconfig/tenon.pc"),
            (
                "crates/frontends/c/tenon-config.cmake.in",
                "cmake/tenon/tenon-config.cmake",
            ),
            (
                "crates/frontends/c/tenon-config-version.cmake.in",
                "cmake/tenon/tenon-config-version.cmake",
            ),
        ],
    },
];

/// The folders of headers, below `include`.
pub const HEADERS: [&str; 3] = ["nrt", "ndl", "tenon"];

/// Builds the libraries and installs them.
pub fn install(options: &Options) -> Result<()> {
    let packages = LIBRARIES.iter().flat_map(|library| ["-p", library.package]);
    run(cargo().args(["build", "--release"]).args(packages))?;
    install_files(&target().join("release"), &options.prefix)
}

/// Installs the libraries of a folder.
fn install_files(built: &Path, prefix: &Path) -> Result<()> {
    let folder = prefix.join("lib");
    create_folder(&folder)?;
    let prefix = fs::canonicalize(prefix).map_err(|error| path_error(prefix, &error))?;
    for library in &LIBRARIES {
        copy(&built.join(library.built), &folder.join(library.soname))?;
        let link = folder.join(library.link);
        if link.symlink_metadata().is_ok() {
            fs::remove_file(&link).map_err(|error| path_error(&link, &error))?;
        }
        std::os::unix::fs::symlink(library.soname, &link)
            .map_err(|error| path_error(&link, &error))?;
        for (template, file) in library.templates {
            let template = root().join(template);
            let text =
                fs::read_to_string(&template).map_err(|error| path_error(&template, &error))?;
            let text = text
                .replace("@PREFIX@", &prefix.display().to_string())
                .replace("@VERSION@", env!("CARGO_PKG_VERSION"));
            let file = folder.join(file);
            file.parent().map_or(Ok(()), create_folder)?;
            fs::write(&file, text).map_err(|error| path_error(&file, &error))?;
        }
    }
    for part in HEADERS {
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
        let built = folder.join("built");
        create_folder(&built).unwrap();
        let prefix = folder.join("prefix");
        let read = |file: &str| fs::read_to_string(prefix.join(file)).unwrap();
        for text in ["one", "two"] {
            for library in &LIBRARIES {
                fs::write(built.join(library.built), text).unwrap();
            }
            install_files(&built, &prefix).unwrap();
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
