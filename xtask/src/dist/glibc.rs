//! The version of glibc that an ELF file needs: the highest one of the symbols that it links.

use crate::Result;
use object::elf::{FileHeader64, SHT_DYNSYM};
use object::read::elf::{FileHeader, Sym};
use object::{Endianness, SymbolIndex};

/// The newest version that released files may need: that of RHEL 9.
pub const NEWEST: Version = Version(2, 34);

/// A version of glibc.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version(u32, u32);

impl Version {
    /// The version of a symbol: `GLIBC_2.34`, `GLIBC_2.2.5`. `GLIBC_PRIVATE` and those of other libraries have none.
    fn of_symbol(name: &str) -> Option<Self> {
        let mut parts = name.strip_prefix("GLIBC_")?.split('.').map(str::parse);
        Some(Self(parts.next()?.ok()?, parts.next()?.ok()?))
    }
}

impl std::fmt::Display for Version {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}", self.0, self.1)
    }
}

/// Returns the version that a file needs; one that is newer than `newest` is an error with its symbols.
pub fn check(name: &str, file: &[u8], newest: Version) -> Result<Version> {
    let linked = linked_symbols(file).map_err(|error| format!("{name}: {error}"))?;
    let needed = linked.iter().map(|(version, _)| *version).max();
    let needed = needed.ok_or_else(|| format!("{name}: links no symbol of glibc"))?;
    if needed <= newest {
        return Ok(needed);
    }
    let symbols = linked.iter().filter(|(version, _)| *version > newest);
    let symbols = symbols.map(|(version, symbol)| format!("{symbol} ({version})"));
    Err(format!(
        "{name} needs glibc {needed}: expected at most {newest}, found {}; call other functions, or build on a system \
         with an older glibc",
        symbols.collect::<Vec<_>>().join(", ")
    ))
}

/// The symbols of glibc that a file links, with their versions.
fn linked_symbols(file: &[u8]) -> object::Result<Vec<(Version, String)>> {
    let header = FileHeader64::<Endianness>::parse(file)?;
    let endian = header.endian()?;
    let sections = header.sections(endian, file)?;
    let symbols = sections.symbols(endian, file, SHT_DYNSYM)?;
    let Some(versions) = sections.versions(endian, file)? else {
        return Ok(Vec::new());
    };
    let mut linked = Vec::new();
    for at in 1..symbols.len() {
        let symbol = symbols.symbol(SymbolIndex(at))?;
        if !symbol.is_undefined(endian) {
            continue;
        }
        let version = versions.version(versions.version_index(endian, SymbolIndex(at)))?;
        let version = version.and_then(|v| Version::of_symbol(&String::from_utf8_lossy(v.name())));
        if let Some(version) = version {
            let name = symbol.name(endian, symbols.strings())?;
            linked.push((version, String::from_utf8_lossy(name).into_owned()));
        }
    }
    Ok(linked)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;
    use std::process::Command;

    /// A library that links `answer` in a version of a made libc.
    fn library(folder: &Path, version: &str) -> Vec<u8> {
        let file = |name: &str| folder.join(name).display().to_string();
        std::fs::write(file("libc.c"), "int answer(void) { return 42; }").unwrap();
        std::fs::write(
            file("libc.map"),
            format!("{version} {{ global: answer; }};"),
        )
        .unwrap();
        let user = "int answer(void); int question(void) { return answer(); }";
        std::fs::write(file("user.c"), user).unwrap();
        let compile = |output: &str, parts: &[&str]| {
            let mut command = Command::new("cc");
            command.args(["-shared", "-fPIC", "-nostdlib", "-o", &file(output)]);
            assert!(command.args(parts).status().unwrap().success());
        };
        let script = format!("-Wl,--version-script={}", file("libc.map"));
        compile("libmade.so", &[&file("libc.c"), &script]);
        compile("user.so", &[&file("user.c"), &file("libmade.so")]);
        std::fs::read(file("user.so")).unwrap()
    }

    #[test]
    fn newer_versions_are_named_with_their_symbols() {
        let folder = tempfile::tempdir().unwrap();
        for version in ["GLIBC_2.35", "GLIBC_2.100", "GLIBC_3.0"] {
            let error = check("user.so", &library(folder.path(), version), NEWEST).unwrap_err();
            let number = version.strip_prefix("GLIBC_").unwrap();
            let expected = format!(
                "user.so needs glibc {number}: expected at most 2.34, found answer ({number});"
            );
            assert!(error.starts_with(&expected), "{error}");
        }
        for version in ["GLIBC_2.34", "GLIBC_2.2.5"] {
            let needed = check("user.so", &library(folder.path(), version), NEWEST).unwrap();
            assert_eq!(Version::of_symbol(version), Some(needed));
        }
        for version in ["GLIBC_PRIVATE", "MADE_9.9"] {
            assert!(check("user.so", &library(folder.path(), version), NEWEST).is_err());
        }
    }

    #[test]
    fn versions_are_those_that_objdump_prints() {
        let program = std::env::current_exe().unwrap();
        let printed = Command::new("objdump").arg("-T").arg(&program).output();
        let printed = String::from_utf8(printed.unwrap().stdout).unwrap();
        let words = printed.split(|c: char| c.is_whitespace() || "()".contains(c));
        let expected = words.filter_map(Version::of_symbol).max().unwrap();
        let file = std::fs::read(&program).unwrap();
        assert_eq!(check("test", &file, Version(9, 9)), Ok(expected));
    }

    #[test]
    fn other_files_are_errors() {
        for file in [&b""[..], b"\x7fELF", &[0; 200]] {
            assert!(check("file", file, NEWEST).is_err());
        }
    }
}
