//! The record of complete outputs, beside them in the output folder: a line of JSON for each file, appended when
//! its output is in place.
//!
//! A line is valid while the package, the files and the output are those of the line. Jobs of an array append to
//! separate files, and read all of them.

use super::job::Job;
use crate::map_flags::Shard;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::fs::{self, File, Metadata};
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use tenon::{Error, Result};

/// The first part of the names of records.
const PREFIX: &str = ".tenon-map";

/// The outputs in a folder that are complete.
pub struct Record {
    path: PathBuf,
    /// Opened by the first line that is added.
    file: Option<File>,
    /// By name; several where files were processed again.
    entries: HashMap<String, Vec<RecordEntry>>,
}

/// A line of a record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordEntry {
    pub name: String,
    /// The hash of the package.
    pub model: String,
    pub inputs: Vec<FileStamp>,
    pub output: FileStamp,
    pub rows: u64,
}

/// A state of a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileStamp {
    /// The name of an input, if the file is for that one alone.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    input: Option<String>,
    file: PathBuf,
    bytes: u64,
    /// The time of the last change: seconds and nanoseconds.
    modified: (i64, i64),
}

impl FileStamp {
    fn new(input: Option<&str>, path: &Path, found: &Metadata) -> Self {
        Self {
            input: input.map(str::to_owned),
            file: path.to_owned(),
            bytes: found.len(),
            modified: (found.mtime(), found.mtime_nsec()),
        }
    }

    /// The current state of the files of a job, by their absolute paths.
    pub fn of_inputs(job: &Job) -> Result<Vec<Self>> {
        let stamp = |source: &super::job::ArrayFile| {
            let read = || {
                let path = source.file.canonicalize()?;
                let found = path.metadata()?;
                Ok(Self::new(source.input.as_deref(), &path, &found))
            };
            read().map_err(|error| Error::io(&source.file, "read", error))
        };
        job.sources.iter().map(stamp).collect()
    }

    /// The current state of an output, by its name; `None` if it does not exist.
    pub fn of_output(job: &Job) -> Option<Self> {
        let found = job.output.metadata().ok()?;
        let name = Path::new(&job.name);
        found.is_file().then(|| Self::new(None, name, &found))
    }
}

impl Record {
    /// Reads the records of a folder, which may not exist. Lines are added to that of this part of the files.
    pub fn read(folder: &Path, shard: Option<Shard>) -> Result<Self> {
        let name = match shard {
            Some(Shard { index, count }) => format!("{PREFIX}.{index}-of-{count}.jsonl"),
            None => format!("{PREFIX}.jsonl"),
        };
        let mut record = Self {
            path: folder.join(name),
            file: None,
            entries: HashMap::new(),
        };
        let failed = |error| Error::io(folder, "read", error);
        let found = match fs::read_dir(folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(record),
            found => found.map_err(failed)?,
        };
        for entry in found {
            let entry = entry.map_err(failed)?;
            let name = entry.file_name();
            let name = name.to_string_lossy();
            if name.starts_with(PREFIX) && name.ends_with(".jsonl") {
                record.add_lines(&entry.path())?;
            }
        }
        Ok(record)
    }

    /// Adds the lines of a file. One that is no entry, as the last one of a process that was killed, is left out.
    fn add_lines(&mut self, path: &Path) -> Result<()> {
        let failed = |error| Error::io(path, "read", error);
        let file = File::open(path).map_err(failed)?;
        for line in BufReader::new(file).split(b'\n') {
            let line = line.map_err(failed)?;
            if let Ok(entry) = serde_json::from_slice::<RecordEntry>(&line) {
                let entries = self.entries.entry(entry.name.clone()).or_default();
                entries.push(entry);
            }
        }
        Ok(())
    }

    /// Adds a line.
    pub fn add(&mut self, entry: &RecordEntry) -> Result<()> {
        let path = self.path.clone();
        let mut write = || {
            let file = match &mut self.file {
                Some(file) => file,
                file => file.insert(opened(&path)?),
            };
            let mut line = serde_json::to_vec(entry)?;
            line.push(b'\n');
            file.write_all(&line)
        };
        write().map_err(|error| Error::io(&path, "write", error))
    }

    /// Whether the output of a job is complete, and from this package and these inputs.
    pub fn is_complete(&self, job: &Job, model: &str, inputs: &[FileStamp]) -> bool {
        let Some(entries) = self.entries.get(&job.name) else {
            return false;
        };
        let output = FileStamp::of_output(job);
        entries.iter().any(|entry| {
            entry.model == model && entry.inputs == inputs && Some(&entry.output) == output.as_ref()
        })
    }
}

/// The record, opened to append lines.
fn opened(path: &Path) -> io::Result<File> {
    let mut file = File::options()
        .read(true)
        .append(true)
        .create(true)
        .open(path)?;
    // A process that was killed may have left a part of a line.
    if file.metadata()?.len() > 0 {
        let mut last = [0];
        file.seek(SeekFrom::End(-1))?;
        file.read_exact(&mut last)?;
        if last != *b"\n" {
            file.write_all(b"\n")?;
        }
    }
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::super::job::ArrayFile;
    use super::*;

    #[test]
    fn a_line_is_valid_for_its_package_and_files() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        let (input, output) = (folder.join("a.npy"), folder.join("a.npz"));
        fs::write(&input, "input").unwrap();
        fs::write(&output, "output").unwrap();
        let job = Job {
            name: "a".into(),
            sources: vec![ArrayFile {
                input: None,
                file: input.clone(),
            }],
            output: output.clone(),
        };
        let inputs = FileStamp::of_inputs(&job).unwrap();
        let entry = RecordEntry {
            name: "a".into(),
            model: "1".into(),
            inputs: inputs.clone(),
            output: FileStamp::of_output(&job).unwrap(),
            rows: 1,
        };
        let shard = Some(Shard { index: 1, count: 2 });
        let path = folder.join(".tenon-map.1-of-2.jsonl");
        // A line that was cut off.
        fs::write(&path, "{\"name\": \"a").unwrap();
        Record::read(folder, shard).unwrap().add(&entry).unwrap();
        // Another part reads it, too.
        let record = Record::read(folder, None).unwrap();
        assert!(record.is_complete(&job, "1", &inputs));
        assert!(!record.is_complete(&job, "2", &inputs));
        assert!(!record.is_complete(&job, "1", &[]));
        fs::write(&output, "another").unwrap();
        assert!(!record.is_complete(&job, "1", &inputs));
        fs::remove_file(&output).unwrap();
        assert!(!record.is_complete(&job, "1", &inputs));
        let missing = Record::read(&folder.join("none"), None).unwrap();
        assert!(!missing.is_complete(&job, "1", &inputs));
    }
}
