//! The files of an installation: the command, the libraries with their headers, completions and the manual.

use crate::{Result, output, root};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

/// A library of a C interface.
pub struct Library {
    /// Its crate.
    pub package: &'static str,
    /// The file in the folder of the build.
    built: &'static str,
    /// The name that programs load.
    soname: &'static str,
    /// The name that linkers look for.
    link: &'static str,
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
const HEADERS: [&str; 3] = ["nrt", "ndl", "tenon"];

/// Completions: the shell, and the file.
const COMPLETIONS: [(&str, &str); 3] = [
    ("bash", "share/bash-completion/completions/tenon"),
    ("zsh", "share/zsh/site-functions/_tenon"),
    ("fish", "share/fish/vendor_completions.d/tenon.fish"),
];

/// Files by their path below the prefix, which is also their order.
#[derive(Default)]
pub struct Files {
    pub members: BTreeMap<String, Member>,
}

/// A file or link.
pub enum Member {
    File { bytes: Vec<u8>, mode: u32 },
    Link(String),
}

impl Files {
    /// Adds a file.
    pub fn file(&mut self, path: &str, bytes: Vec<u8>) {
        let file = Member::File { bytes, mode: 0o644 };
        self.members.insert(path.to_owned(), file);
    }

    /// Adds a program or a shared library.
    pub fn program(&mut self, path: &str, bytes: Vec<u8>) {
        let file = Member::File { bytes, mode: 0o755 };
        self.members.insert(path.to_owned(), file);
    }

    /// Adds a symbolic link to a file in the same folder.
    pub fn link(&mut self, path: &str, name: &str) {
        self.members
            .insert(path.to_owned(), Member::Link(name.to_owned()));
    }

    /// The libraries of a build and their headers. `prefix` is the folder in files of pkg-config, absolute, or relative to
    /// them.
    pub fn add_libraries(&mut self, release: &Path, prefix: &str) -> Result<()> {
        for library in &LIBRARIES {
            let file = read(&release.join(library.built))?;
            self.program(&format!("lib/{}", library.soname), file);
            self.link(&format!("lib/{}", library.link), library.soname);
            for (template, file) in library.templates {
                let text = String::from_utf8_lossy(&read(&root().join(template))?)
                    .replace("@PREFIX@", prefix)
                    .replace("@VERSION@", env!("CARGO_PKG_VERSION"));
                self.file(&format!("lib/{file}"), text.into_bytes());
            }
        }
        for part in HEADERS {
            let folder = root().join("include").join(part);
            let entries = fs::read_dir(&folder).map_err(|error| path_error(&folder, &error))?;
            for entry in entries.flatten() {
                let name = format!("include/{part}/{}", entry.file_name().to_string_lossy());
                self.file(&name, read(&entry.path())?);
            }
        }
        Ok(())
    }

    /// The command of a build, its completions and its manual.
    pub fn add_command(&mut self, release: &Path) -> Result<()> {
        let command = release.join("tenon");
        self.program("bin/tenon", read(&command)?);
        for (shell, path) in COMPLETIONS {
            let text = output(Command::new(&command).args(["completions", shell]))?;
            self.file(path, text.into_bytes());
        }
        let manual = output(Command::new(&command).arg("man"))?;
        self.file("share/man/man1/tenon.1", manual.into_bytes());
        Ok(())
    }
}

pub fn read(path: &Path) -> Result<Vec<u8>> {
    fs::read(path).map_err(|error| path_error(path, &error))
}

pub fn path_error(path: &Path, error: &std::io::Error) -> String {
    format!("{}: {error}", path.display())
}
