//! `cargo xtask dist`: the files of a release, the same bytes for the same commit and toolchain.

mod archive;
mod components;
pub mod glibc;

use crate::installed::{Files, LIBRARIES, Member, path_error, read};
use crate::wheel::{Maturin, check, source_date};
use crate::{Result, cargo, python, root, run, target};
use components::Components;
use sha2::{Digest, Sha256};
use std::path::{Path, PathBuf};

/// Options of `cargo xtask dist`.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  cargo xtask dist                       into target/dist
  cargo xtask dist --out /tmp/release
  (cd target/dist && sha256sum --check SHA256SUMS)
  tar -xzf target/dist/tenon-*-linux.tar.gz --strip-components=1 -C ~/.local

SOURCE_DATE_EPOCH is the time of the files in archives; without it, that of the last commit.")]
pub struct Options {
    /// The folder that is written when all is built, in place of one of an earlier call.
    #[arg(long, value_name = "FOLDER")]
    out: Option<PathBuf>,
}

/// Builds and writes the files.
pub fn dist(options: &Options) -> Result<()> {
    let absolute = |path: PathBuf| std::path::absolute(&path).unwrap_or(path);
    let out = absolute(options.out.clone().unwrap_or_else(|| target().join("dist")));
    // A separate target folder: these flags compile every crate.
    let target = absolute(target().join("dist-build"));
    check_replaceable(&out)?;
    // Of this name in each call, so that nothing is left of one that was interrupted.
    let folder = beside(&out, ".unfinished");
    remove(&folder)?;
    std::fs::create_dir_all(&folder).map_err(|error| path_error(&folder, &error))?;
    let environment = environment(&target)?;
    let mut build = cargo();
    build.args(["build", "--release", "--locked", "--package", "tenon-cli"]);
    build.args(
        LIBRARIES
            .iter()
            .flat_map(|library| ["--package", library.package]),
    );
    run(build.envs(environment.clone()))?;
    let components =
        Components::of_release(&["tenon-cli", "tenon-nrt", "tenon-c", "tenon-python"])?;
    let name = format!(
        "tenon-{}-{}-linux",
        env!("CARGO_PKG_VERSION"),
        std::env::consts::ARCH
    );
    let list = folder.join(format!("tenon-{}.cdx.json", env!("CARGO_PKG_VERSION")));
    write(&list, components.cyclone_dx(source_date()?)?.as_bytes())?;
    let tools = python::for_wheels()?;
    let maturin = Maturin {
        python: &tools,
        out: &folder,
        components: Some(&list),
        environment: &environment,
    };
    check(&tools, &maturin.wheel()?)?;
    maturin.sdist()?;
    let archive = contents(&target.join("release"), &components)?;
    let archive = archive::written(&archive, &name, source_date()?)?;
    write(&folder.join(format!("{name}.tar.gz")), &archive)?;
    let sums = checksums(&folder)?;
    write(&folder.join(CHECKSUMS), sums.as_bytes())?;
    replace(&out, &folder)?;
    print!("{sums}");
    Ok(())
}

const CHECKSUMS: &str = "SHA256SUMS";

/// Checks that a folder can be replaced: it does not exist, is empty, or has the files of an earlier call and no others.
fn check_replaceable(out: &Path) -> Result<()> {
    let Ok(entries) = std::fs::read_dir(out) else {
        return match out.exists() {
            false => Ok(()),
            true => Err(format!("{}: expected a folder", out.display())),
        };
    };
    let sums = std::fs::read_to_string(out.join(CHECKSUMS)).unwrap_or_default();
    let names = sums.lines().filter_map(|line| line.split_once("  "));
    let written: Vec<&str> = names.map(|(_, name)| name).chain([CHECKSUMS]).collect();
    let mut names = entries.flatten().map(|entry| entry.file_name());
    let other = names.find(|name| !written.iter().any(|written| *written == &**name));
    match other {
        None => Ok(()),
        Some(name) => Err(format!(
            "{}: expected an empty folder, or one of an earlier call, found {}",
            out.display(),
            name.display()
        )),
    }
}

/// A folder beside another one.
fn beside(folder: &Path, ending: &str) -> PathBuf {
    let mut name = folder.file_name().unwrap_or_default().to_owned();
    name.push(ending);
    folder.with_file_name(name)
}

/// Removes a folder, if it exists.
fn remove(folder: &Path) -> Result<()> {
    match std::fs::remove_dir_all(folder) {
        Err(error) if folder.exists() => Err(path_error(folder, &error)),
        _ => Ok(()),
    }
}

/// Renames a folder to `out`, in place of one of an earlier call.
fn replace(out: &Path, folder: &Path) -> Result<()> {
    check_replaceable(out)?;
    let earlier = beside(out, ".earlier");
    remove(&earlier)?;
    if out.exists() {
        std::fs::rename(out, &earlier).map_err(|error| path_error(out, &error))?;
    }
    std::fs::rename(folder, out).map_err(|error| path_error(out, &error))?;
    remove(&earlier)
}

/// The environment of a build whose result does not depend on the folders of this machine.
fn environment(target: &Path) -> Result<Vec<(String, String)>> {
    let home = std::env::var("HOME").unwrap_or_default();
    let cargo = std::env::var("CARGO_HOME").unwrap_or_else(|_| format!("{home}/.cargo"));
    let root = std::fs::canonicalize(root()).map_err(|error| path_error(root(), &error))?;
    // Not by the profile's `strip`: packages with separate options in Cargo.toml would keep their symbols.
    let flags = format!(
        "-Cstrip=symbols --remap-path-prefix={cargo}=cargo --remap-path-prefix={}=tenon",
        root.display()
    );
    let pair = |name: &str, value: String| (name.to_owned(), value);
    Ok(vec![
        pair("CARGO_TARGET_DIR", target.display().to_string()),
        pair("CARGO_INCREMENTAL", "0".into()),
        pair("RUSTFLAGS", flags),
        pair("SOURCE_DATE_EPOCH", source_date()?.to_string()),
    ])
}

/// The files of the archive.
fn contents(release: &Path, components: &Components) -> Result<Files> {
    let mut files = Files::default();
    files.add_command(release)?;
    // Relative to the files of pkg-config, so that the archive can be unpacked into any folder.
    files.add_libraries(release, "${pcfiledir}/../..")?;
    for (path, member) in &files.members {
        if let Member::File { bytes, mode: 0o755 } = member {
            let needed = glibc::check(path, bytes, glibc::NEWEST)?;
            println!("{path}: glibc {needed}");
        }
    }
    for page in ["README.md", "CHANGELOG.md", "SECURITY.md"] {
        files.file(
            &format!("share/doc/tenon/{page}"),
            read(&root().join(page))?,
        );
    }
    let licences = components.licences()?;
    files.file(
        "share/doc/tenon/THIRD-PARTY-LICENCES.txt",
        licences.into_bytes(),
    );
    Ok(files)
}

/// The SHA-256 of each file of a folder, in the form of `sha256sum`.
fn checksums(folder: &Path) -> Result<String> {
    let entries = std::fs::read_dir(folder).map_err(|error| path_error(folder, &error))?;
    let mut names: Vec<_> = entries.flatten().map(|entry| entry.file_name()).collect();
    names.sort();
    names
        .iter()
        .map(|name| {
            let digest = Sha256::digest(read(&folder.join(name))?);
            let hex: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
            Ok(format!("{hex}  {}\n", name.to_string_lossy()))
        })
        .collect()
}

fn write(path: &Path, bytes: &[u8]) -> Result<()> {
    std::fs::write(path, bytes).map_err(|error| path_error(path, &error))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn checksums_are_those_of_sha256sum() {
        let folder = tempfile::tempdir().unwrap();
        write(&folder.path().join("b"), b"abc").unwrap();
        write(&folder.path().join("a"), b"").unwrap();
        let sums = checksums(folder.path()).unwrap();
        let check = |sums: &str| {
            write(&folder.path().join(CHECKSUMS), sums.as_bytes()).unwrap();
            let mut command = Command::new("sha256sum");
            command.current_dir(folder.path());
            command.args(["--check", "--strict", "--quiet", CHECKSUMS]);
            command.output().unwrap().status.success()
        };
        assert!(check(&sums) && sums.lines().count() == 2);
        assert!(sums.lines().next().unwrap().ends_with("  a"));
        assert!(!check(&sums.replace('b', "c")));
    }

    #[test]
    fn only_a_folder_of_an_earlier_call_is_replaced() {
        let base = tempfile::tempdir().unwrap();
        let out = base.path().join("dist");
        let made = |text: &str| {
            let folder = beside(&out, ".unfinished");
            remove(&folder).unwrap();
            std::fs::create_dir(&folder).unwrap();
            write(&folder.join(text), text.as_bytes()).unwrap();
            write(
                &folder.join(CHECKSUMS),
                checksums(&folder).unwrap().as_bytes(),
            )
            .unwrap();
            folder
        };
        let names = |folder: &Path| {
            let entries = std::fs::read_dir(folder).unwrap().flatten();
            let mut names: Vec<_> = entries.map(|entry| entry.file_name()).collect();
            names.sort();
            names
        };
        // The files of a call that was interrupted are replaced too.
        made("interrupted");
        for text in ["first", "second"] {
            replace(&out, &made(text)).unwrap();
            assert_eq!(names(&out), [CHECKSUMS, text]);
            assert_eq!(names(base.path()), ["dist"]);
        }
        write(&out.join("notes"), b"text").unwrap();
        let error = replace(&out, &made("third")).unwrap_err();
        assert!(error.contains("an empty folder, or one of an earlier call, found notes"));
        assert_eq!(names(&out), [CHECKSUMS, "notes", "second"]);
        assert!(check_replaceable(&out.join("notes")).is_err());
    }
}
