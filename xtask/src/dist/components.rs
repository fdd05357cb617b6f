//! The crates that released files contain: their licences, and the list in the form of CycloneDX.

use crate::{Result, cargo, output, root};
use serde::Deserialize;
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::path::{Path, PathBuf};

/// Beginnings of the names of files with a licence.
const LICENCE_FILES: [&str; 5] = ["LICENSE", "LICENCE", "COPYING", "NOTICE", "UNLICENSE"];

/// The crates, sorted.
pub struct Components {
    crates: Vec<Package>,
    /// SHA-256 by name and version, of Cargo.lock.
    checksums: BTreeMap<(String, String), String>,
}

#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
}

#[derive(Deserialize)]
struct Package {
    name: String,
    version: String,
    license: Option<String>,
    description: Option<String>,
    repository: Option<String>,
    /// The registry; none for crates of the project.
    source: Option<String>,
    manifest_path: PathBuf,
    dependencies: Vec<Dependency>,
}

#[derive(Deserialize)]
struct Dependency {
    name: String,
    kind: Option<String>,
}

impl Package {
    fn reference(&self) -> String {
        format!("pkg:cargo/{}@{}", self.name, self.version)
    }

    fn licence(&self) -> &str {
        self.license.as_deref().unwrap_or("no licence")
    }
}

impl Components {
    /// The crates that these packages of the workspace are compiled from.
    pub fn of_release(packages: &[&str]) -> Result<Self> {
        let mut tree = cargo();
        tree.args(["tree", "--locked", "--edges", "normal", "--prefix", "none"]);
        tree.args(["--format", "{p}"]);
        let text = output(tree.args(packages.iter().flat_map(|name| ["--package", name])))?;
        let compiled: BTreeSet<(&str, &str)> = text.lines().filter_map(name_and_version).collect();
        let mut metadata = cargo();
        metadata.args(["metadata", "--locked", "--format-version", "1"]);
        let text = output(&mut metadata)?;
        let metadata: Metadata =
            serde_json::from_str(&text).map_err(|error| format!("cargo metadata: {error}"))?;
        let mut crates = metadata.packages;
        crates.retain(|package| compiled.contains(&(&package.name, &package.version)));
        crates.sort_by(|a, b| (&a.name, &a.version).cmp(&(&b.name, &b.version)));
        if crates.len() != compiled.len() {
            return Err(format!(
                "cargo tree lists {} crates, cargo metadata describes {} of them",
                compiled.len(),
                crates.len()
            ));
        }
        let lock = root().join("Cargo.lock");
        let lock = std::fs::read_to_string(&lock)
            .map_err(|error| format!("{}: {error}", lock.display()))?;
        Ok(Self {
            crates,
            checksums: checksums(&lock),
        })
    }

    fn third_party(&self) -> impl Iterator<Item = &Package> {
        self.crates
            .iter()
            .filter(|package| package.source.is_some())
    }

    /// The licences of crates of others: a list, then each text once.
    pub fn licences(&self) -> Result<String> {
        let mut page = String::from(
            "Tenon contains these crates of others, under the licences named.\nThe texts of the licences follow.\n\n",
        );
        let mut texts: BTreeMap<String, Vec<&str>> = BTreeMap::new();
        for package in self.third_party() {
            let (name, version) = (&package.name, &package.version);
            let _ = writeln!(page, "{name} {version}: {}", package.licence());
            for text in licence_texts(package.manifest_path.parent().unwrap_or(Path::new(".")))? {
                texts.entry(text).or_default().push(name);
            }
        }
        let mut texts: Vec<(String, Vec<&str>)> = texts.into_iter().collect();
        texts.sort_by(|a, b| a.1.cmp(&b.1));
        for (text, mut names) in texts {
            names.dedup();
            let line = "-".repeat(80);
            let _ = write!(
                page,
                "\n{line}\n{}:\n\n{}\n",
                names.join(", "),
                text.trim_end()
            );
        }
        Ok(page)
    }

    /// The list in the form of CycloneDX 1.6, with the time of the release.
    pub fn cyclone_dx(&self, seconds: u64) -> Result<String> {
        let component = |package: &Package| {
            let mut component = json!({
                "type": "library",
                "bom-ref": package.reference(),
                "name": package.name,
                "version": package.version,
                "purl": package.reference(),
                "licenses": [{ "expression": package.licence().replace('/', " OR ") }],
            });
            if let Some(text) = &package.description {
                component["description"] = json!(text.trim());
            }
            if let Some(address) = &package.repository {
                component["externalReferences"] = json!([{ "type": "vcs", "url": address }]);
            }
            let key = (package.name.clone(), package.version.clone());
            if let Some(checksum) = self.checksums.get(&key) {
                component["hashes"] = json!([{ "alg": "SHA-256", "content": checksum }]);
            }
            component
        };
        let dependencies = |package: &Package| {
            let normal = package.dependencies.iter().filter(|d| d.kind.is_none());
            let names: BTreeSet<&str> = normal.map(|dependency| &dependency.name[..]).collect();
            let used = self
                .crates
                .iter()
                .filter(|other| names.contains(&other.name[..]));
            json!({
                "ref": package.reference(),
                "dependsOn": used.map(Package::reference).collect::<Vec<_>>(),
            })
        };
        let list = json!({
            "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
            "bomFormat": "CycloneDX",
            "specVersion": "1.6",
            "version": 1,
            "metadata": {
                "timestamp": timestamp(seconds)?,
                "component": {
                    "type": "application",
                    "bom-ref": "tenon",
                    "name": "tenon",
                    "version": env!("CARGO_PKG_VERSION"),
                    "licenses": [{ "license": { "id": "Apache-2.0" } }],
                },
            },
            "components": self.crates.iter().map(component).collect::<Vec<_>>(),
            "dependencies": self.crates.iter().map(dependencies).collect::<Vec<_>>(),
        });
        let text = serde_json::to_string_pretty(&list).map_err(|error| error.to_string())?;
        Ok(text + "\n")
    }
}

/// `serde v1.0.228 (proc-macro)` of `cargo tree`.
fn name_and_version(line: &str) -> Option<(&str, &str)> {
    let mut words = line.split_whitespace();
    Some((words.next()?, words.next()?.strip_prefix('v')?))
}

/// The checksums of a lock file.
fn checksums(lock: &str) -> BTreeMap<(String, String), String> {
    let packages = lock.split("[[package]]").skip(1);
    let entries = packages.filter_map(|package| {
        let value = |key: &str| {
            let line = package.lines().find_map(|line| line.strip_prefix(key))?;
            Some(line.strip_prefix(" = ")?.trim_matches('"').to_owned())
        };
        Some(((value("name")?, value("version")?), value("checksum")?))
    });
    entries.collect()
}

/// The texts of the licences in a crate's folder.
fn licence_texts(folder: &Path) -> Result<Vec<String>> {
    let entries = std::fs::read_dir(folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    let mut files: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    files.sort();
    let mut texts = Vec::new();
    for file in files {
        let name = file
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .to_uppercase();
        if file.is_file() && LICENCE_FILES.iter().any(|start| name.starts_with(start)) {
            let bytes = std::fs::read(&file).map_err(|e| format!("{}: {e}", file.display()))?;
            texts.push(String::from_utf8_lossy(&bytes).replace("\r\n", "\n"));
        }
    }
    Ok(texts)
}

/// Seconds since 1970 in the form of RFC 3339.
fn timestamp(seconds: u64) -> Result<String> {
    let mut date = std::process::Command::new("date");
    date.args(["--utc", "+%Y-%m-%dT%H:%M:%SZ"]);
    let text = output(date.arg(format!("--date=@{seconds}")))?;
    Ok(text.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_crates_are_those_that_are_compiled() {
        let found = Components::of_release(&["tenon-cli", "tenon-nrt", "tenon-python"]).unwrap();
        let has = |name: &str| found.crates.iter().any(|package| package.name == name);
        assert!(has("tenon") && has("pyo3") && has("libm") && has("clap_builder"));
        // Of tests, and of features that are not compiled.
        assert!(!has("proptest") && !has("divan") && !has("loom"));
        for package in found.third_party() {
            let name = (package.name.clone(), package.version.clone());
            assert_eq!(found.checksums[&name].len(), 64);
            assert!(package.license.is_some(), "{name:?}");
        }
        let licences = found.licences().unwrap();
        assert!(licences.contains("\nlibm 0.2") && licences.contains("Apache License"));
        assert!(!licences.contains("\ntenon 0."));
    }

    #[test]
    fn references_of_the_list_are_to_its_components() {
        let found = Components::of_release(&["tenon-cli"]).unwrap();
        let list = found.cyclone_dx(86_400).unwrap();
        let list: serde_json::Value = serde_json::from_str(&list).unwrap();
        assert_eq!(list["metadata"]["timestamp"], "1970-01-02T00:00:00Z");
        let references: BTreeSet<&str> = (list["components"].as_array().unwrap().iter())
            .map(|component| component["bom-ref"].as_str().unwrap())
            .collect();
        let dependencies = list["dependencies"].as_array().unwrap();
        assert_eq!(dependencies.len(), references.len());
        let used = dependencies
            .iter()
            .flat_map(|d| d["dependsOn"].as_array().unwrap());
        let used: BTreeSet<&str> = used.map(|reference| reference.as_str().unwrap()).collect();
        assert!(used.len() > 30 && used.is_subset(&references));
    }
}
