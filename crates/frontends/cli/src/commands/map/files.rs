//! From the arguments of `--input` to the files of arrays and their outputs.

use super::job::{ArrayFile, Job};
use std::collections::{BTreeMap, HashSet};
use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf};
use tenon::{Error, ErrorKind, Location, Pattern, Result};

/// The extensions of files of arrays.
const EXTENSIONS: [&str; 2] = ["npz", "npy"];

/// A search for files of arrays.
struct Search<'a> {
    /// The input that the files are for.
    input: Option<&'a str>,
    /// The folder below which names are relative.
    base: PathBuf,
    /// The output folder, which is not searched.
    excluded: Option<&'a Path>,
    found: Vec<FoundFile>,
}

/// A file with its name below the output folder.
struct FoundFile {
    source: ArrayFile,
    /// Without the extension.
    name: PathBuf,
}

/// The jobs of the arguments, sorted by name.
///
/// # Errors
/// Arguments without files, files of other kinds, two inputs with one output, and an output that would replace an input;
/// all together.
pub fn jobs(inputs: &[String], output: &Path) -> Result<Vec<Job>> {
    let excluded = output.canonicalize().ok();
    let mut found = Vec::new();
    let mut problems = Vec::new();
    for text in inputs {
        // A path may contain '=', a name hardly ever a '/'.
        let named = text.split_once('=').filter(|(name, _)| !name.contains('/'));
        let (input, path) = match named {
            Some((name, path)) => (Some(name), path),
            None => (None, text.as_str()),
        };
        let search = Search {
            input,
            base: PathBuf::new(),
            excluded: excluded.as_deref(),
            found: Vec::new(),
        };
        match search.run(Path::new(path)) {
            Ok(files) => found.extend(files),
            Err(error) => problems.push(error),
        }
    }
    if let Some(error) = Error::from_all(std::mem::take(&mut problems)) {
        return Err(error);
    }
    let mut groups: BTreeMap<PathBuf, Vec<ArrayFile>> = BTreeMap::new();
    for FoundFile { source, name } in found {
        groups.entry(name).or_default().push(source);
    }
    let mut jobs = Vec::with_capacity(groups.len());
    for (name, sources) in groups {
        match job(&name, sources, output) {
            Ok(job) => jobs.push(job),
            Err(error) => problems.push(error),
        }
    }
    Error::from_all(problems).map_or(Ok(jobs), Err)
}

impl Search<'_> {
    fn run(mut self, path: &Path) -> Result<Vec<FoundFile>> {
        let usage = |text: &str| Error::new(ErrorKind::Usage, text).at(Location::file(path));
        if tenon::files::is_standard_stream(path) {
            return Err(usage("files of arrays cannot be standard input (-)"));
        }
        match path.metadata() {
            Ok(found) if found.is_dir() => {
                if self.is_excluded(path) {
                    let error = usage("the output folder has inputs");
                    return Err(error.help("give another folder with --output"));
                }
                self.base = path.to_owned();
                self.walk(path)?;
                if self.found.is_empty() {
                    return Err(usage("the folder has no file of arrays").expected(".npz or .npy"));
                }
            }
            Ok(_) if !is_array_file(path) => {
                return Err(usage("a file of unknown kind").expected(".npz or .npy"));
            }
            Ok(_) => {
                self.base = path.parent().unwrap_or(Path::new("")).to_owned();
                self.add(path);
            }
            Err(_) if has_pattern(path) => {
                let is_fixed = |part: &Component<'_>| !has_pattern(Path::new(part));
                self.base = path.components().take_while(is_fixed).collect();
                let rest: Vec<_> = path.components().skip_while(is_fixed).collect();
                self.expand(&self.base.clone(), &rest)?;
                if self.found.is_empty() {
                    return Err(usage("no file matches the pattern").expected(".npz or .npy"));
                }
            }
            Err(error) => return Err(Error::io(path, "read", error)),
        }
        Ok(self.found)
    }

    /// Adds the files that the components of a pattern match, and the contents of folders that the whole pattern
    /// matches.
    fn expand(&mut self, folder: &Path, pattern: &[Component<'_>]) -> Result<()> {
        let Some((first, rest)) = pattern.split_first() else {
            return match folder.metadata() {
                Ok(found) if found.is_dir() => self.walk(folder),
                Ok(_) if is_array_file(folder) => {
                    self.add(folder);
                    Ok(())
                }
                _ => Ok(()),
            };
        };
        if !has_pattern(Path::new(first)) {
            return self.expand(&folder.join(first), rest);
        }
        let pattern = Pattern::new(first.as_os_str().to_string_lossy());
        for (path, name) in entries(folder)? {
            // As in a shell, a pattern matches no hidden file.
            if pattern.matches(&name)
                && (!name.starts_with('.') || pattern.as_str().starts_with('.'))
            {
                self.expand(&path, rest)?;
            }
        }
        Ok(())
    }

    /// Adds all files below a folder, except hidden ones. Links to folders are not followed.
    fn walk(&mut self, folder: &Path) -> Result<()> {
        if self.is_excluded(folder) {
            return Ok(());
        }
        for (path, name) in entries(folder)? {
            if name.starts_with('.') {
                continue;
            }
            let failed = |error| Error::io(&path, "read", error);
            if path.symlink_metadata().map_err(failed)?.is_dir() {
                self.walk(&path)?;
            } else if is_array_file(&path) && path.metadata().is_ok_and(|found| found.is_file()) {
                self.add(&path);
            }
        }
        Ok(())
    }

    fn is_excluded(&self, folder: &Path) -> bool {
        self.excluded.is_some() && folder.canonicalize().ok().as_deref() == self.excluded
    }

    fn add(&mut self, path: &Path) {
        let name = path.strip_prefix(&self.base).unwrap_or(path);
        self.found.push(FoundFile {
            source: ArrayFile {
                input: self.input.map(str::to_owned),
                file: path.to_owned(),
            },
            name: name.with_extension(""),
        });
    }
}

/// The job of the files of one name.
fn job(name: &Path, mut sources: Vec<ArrayFile>, output: &Path) -> Result<Job> {
    let mut seen = HashSet::new();
    // The same file may be in several arguments.
    sources.retain(|source| {
        let path = source.file.canonicalize().unwrap_or(source.file.clone());
        seen.insert((source.input.clone(), path))
    });
    let mut target = output.join(name).into_os_string();
    target.push(".npz");
    let job = Job {
        name: name.to_string_lossy().into_owned(),
        output: target.into(),
        sources,
    };
    let paths = job.sources.iter().map(|source| &source.file);
    if let Some(path) = paths.clone().find(|path| path.to_str().is_none()) {
        let error = Error::new(ErrorKind::Unsupported, "the name is not UTF-8");
        return Err(error.at(Location::file(path)));
    }
    let inputs: HashSet<_> = job.sources.iter().map(|source| &source.input).collect();
    if job.sources.len() > 1 && (inputs.contains(&None) || inputs.len() < job.sources.len()) {
        return Err(
            Error::new(ErrorKind::Usage, "several inputs have one output")
                .expected("names that differ")
                .found(job.text())
                .help(
                    "give the folder that they have in common, or run the command for each folder",
                )
                .at(Location::file(&job.output)),
        );
    }
    let replaced = job.output.canonicalize().ok();
    if replaced.is_some()
        && paths
            .clone()
            .any(|path| path.canonicalize().ok() == replaced)
    {
        return Err(
            Error::new(ErrorKind::Usage, "the output would replace an input")
                .help("give another folder with --output")
                .at(Location::file(&job.output)),
        );
    }
    Ok(job)
}

/// Paths and names in a folder, sorted.
fn entries(folder: &Path) -> Result<Vec<(PathBuf, String)>> {
    let current = Path::new(".");
    let listed = match folder.as_os_str().is_empty() {
        true => current,
        false => folder,
    };
    let read = || -> io::Result<Vec<(PathBuf, String)>> {
        let mut found = Vec::new();
        for entry in fs::read_dir(listed)? {
            let name = entry?.file_name();
            found.push((folder.join(&name), name.to_string_lossy().into_owned()));
        }
        found.sort();
        Ok(found)
    };
    match read() {
        // A pattern may lead through files.
        Err(error) if error.kind() == io::ErrorKind::NotADirectory => Ok(Vec::new()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        read => read.map_err(|error| Error::io(listed, "read", error)),
    }
}

fn has_pattern(path: &Path) -> bool {
    path.to_string_lossy().contains(['*', '?'])
}

fn is_array_file(path: &Path) -> bool {
    let extension = path.extension();
    extension.is_some_and(|found| {
        EXTENSIONS
            .iter()
            .any(|known| found.eq_ignore_ascii_case(known))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(files: &[&str]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for file in files {
            let path = folder.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "").unwrap();
        }
        folder
    }

    /// The names of the jobs of arguments, whose paths are below a folder.
    fn names(folder: &Path, inputs: &[&str], output: &str) -> Result<Vec<String>> {
        let inputs = inputs.iter().map(|text| match text.split_once('=') {
            Some((name, path)) => format!("{name}={}/{path}", folder.display()),
            None => format!("{}/{text}", folder.display()),
        });
        let jobs = jobs(&inputs.collect::<Vec<_>>(), &folder.join(output))?;
        Ok(jobs.into_iter().map(|job| job.name).collect())
    }

    #[test]
    fn folders_patterns_and_files() {
        let folder = folder(&[
            "data/b.npz",
            "data/a.NPY",
            "data/deep/c.npz",
            "data/.hidden.npz",
            "data/readme.txt",
            "data/out/a.npz",
        ]);
        let names = |inputs: &[&str]| names(folder.path(), inputs, "data/out").unwrap();
        assert_eq!(names(&["data"]), ["a", "b", "deep/c"]);
        assert_eq!(names(&["data/*.npz"]), ["b"]);
        assert_eq!(names(&["data/?.*"]), ["a", "b"]);
        assert_eq!(names(&["*/*/c.npz"]), ["data/deep/c"]);
        assert_eq!(names(&["data/deep/c.npz", "data/b.npz"]), ["b", "c"]);
        // A file that is given twice.
        assert_eq!(names(&["data/*", "data/b.npz"]), ["a", "b", "deep/c"]);
    }

    #[test]
    fn files_of_several_inputs_belong_together() {
        let folder = folder(&["x/1.npy", "x/2.npy", "y/1.npy", "y/2.npy"]);
        let inputs = ["x=x/*.npy", "y=y/*.npy"];
        assert_eq!(names(folder.path(), &inputs, "out").unwrap(), ["1", "2"]);
        for inputs in [["x", "y"], ["x=x", "x=y"], ["x=x", "y"]] {
            let error = names(folder.path(), &inputs, "out").unwrap_err();
            assert_eq!(error.all().count(), 2, "{error}");
            let part = "out/1.npz: several inputs have one output: expected names that differ";
            assert!(error.to_string().contains(part), "{error}");
        }
    }

    #[test]
    fn mistakes_are_named() {
        let folder = folder(&["a.npz", "a.txt", "empty/x.txt"]);
        for (input, part) in [
            (
                "a.txt",
                "a.txt: a file of unknown kind: expected .npz or .npy",
            ),
            ("none.npz", "none.npz: cannot read"),
            ("none/*.npz", "no file matches the pattern"),
            ("empty", "empty: the folder has no file of arrays"),
        ] {
            let error = names(folder.path(), &[input], "out").unwrap_err();
            assert!(error.to_string().contains(part), "{error}");
        }
        let error = names(folder.path(), &["a.npz"], "").unwrap_err();
        let part = "a.npz: the output would replace an input";
        assert!(error.to_string().contains(part), "{error}");
    }
}
