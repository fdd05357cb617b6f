//! What requests to load bring: parameters `file:VERSION/NAME` and `config` of the extension "model_repository".

use crate::model_files::{MODEL_EXTENSIONS, is_model_name};
use crate::status::{Refusal, Status};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use tempfile::TempDir;
use tenon::{Error, Result};

/// The files of a model, by version and name, and its configuration.
#[derive(Debug, Default)]
pub struct Upload {
    /// The greatest batch, instead of that of the settings.
    pub max_batch_size: Option<usize>,
    versions: BTreeMap<u64, BTreeMap<String, Vec<u8>>>,
}

/// Files that were written beside the models, hidden from them; dropping it removes what was not moved.
pub struct StagedUpload {
    folder: TempDir,
    /// For each version its model file.
    models: BTreeMap<u64, String>,
}

/// What a configuration may say without effect: the model describes itself.
const IGNORED: [&str; 5] = ["backend", "input", "name", "output", "platform"];

impl Upload {
    /// The start of the name of a parameter with a file.
    pub const FILE: &str = "file:";

    /// Whether there are no files.
    pub fn is_empty(&self) -> bool {
        self.versions.is_empty()
    }

    /// Adds a parameter of a request, whose value are the bytes of a file or the text of a configuration.
    ///
    /// # Errors
    /// An unknown parameter; a file without version, or whose name is no file name; a configuration with fields that
    /// are settings here.
    pub fn add(&mut self, parameter: &str, value: &[u8]) -> Result<(), Refusal> {
        if parameter == "config" {
            self.max_batch_size = max_batch_size(value)?;
            return Ok(());
        }
        let Some(path) = parameter.strip_prefix(Self::FILE) else {
            let text = format!("parameter {parameter:?}: expected config or file:VERSION/NAME");
            return Err(Refusal::new(Status::Unsupported, text));
        };
        let invalid = |expected: &str| {
            Refusal::invalid(format!("parameter {parameter:?}: expected {expected}"))
        };
        let (version, name) = path
            .split_once('/')
            // The first words are Triton's, which clients look for.
            .ok_or_else(|| invalid("file:VERSION/NAME").at("Invalid file path"))?;
        let number: Option<u64> = version.parse().ok();
        let number = number.filter(|&number| number > 0 && number.to_string() == version);
        let number = number.ok_or_else(|| invalid("a version that is a positive integer"))?;
        if !is_model_name(name) {
            return Err(invalid("the name of a file, without a folder"));
        }
        let files = self.versions.entry(number).or_default();
        files.insert(name.to_owned(), value.to_vec());
        Ok(())
    }

    /// Writes the files into a hidden folder among those of models.
    ///
    /// # Errors
    /// A version without a model file or with several; a folder that cannot be written.
    pub fn stage(&self, folder: &Path) -> Result<StagedUpload, Refusal> {
        let mut models = BTreeMap::new();
        for (&version, files) in &self.versions {
            let is_model = |name: &&String| {
                let extension = Path::new(name).extension().and_then(|it| it.to_str());
                extension.is_some_and(|extension| MODEL_EXTENSIONS.contains(&extension))
            };
            let found: Vec<&String> = files.keys().filter(is_model).collect();
            let [model] = found[..] else {
                let count = found.len();
                let text = format!(
                    "version {version} has {count} model files: expected one .neff, .onnx or .tflite file"
                );
                return Err(Refusal::invalid(text));
            };
            models.insert(version, model.clone());
        }
        let write = || {
            let staged = tempfile::Builder::new()
                .prefix(".upload-")
                .tempdir_in(folder)?;
            for (version, files) in &self.versions {
                let folder = staged.path().join(version.to_string());
                fs::create_dir(&folder)?;
                for (name, bytes) in files {
                    fs::write(folder.join(name), bytes)?;
                }
            }
            Ok(staged)
        };
        let folder = write().map_err(|error| unwritable("write", error))?;
        Ok(StagedUpload { folder, models })
    }
}

impl StagedUpload {
    /// The versions with the paths of their model files.
    pub fn models(&self) -> impl Iterator<Item = (u64, std::path::PathBuf)> {
        let models = self.models.iter();
        models.map(|(&version, name)| (version, self.version(version).join(name)))
    }

    /// Moves the versions into the folder of the model, in place of those of the same number.
    ///
    /// # Errors
    /// A folder that cannot be written; the version before is in place then.
    pub fn move_to(&self, model: &Path) -> Result<(), Refusal> {
        let failed = |error| unwritable("replace", error);
        fs::create_dir_all(model).map_err(failed)?;
        for &version in self.models.keys() {
            let target = model.join(version.to_string());
            let before = self.folder.path().join(format!("before-{version}"));
            let had_one = target.exists();
            if had_one {
                fs::rename(&target, &before).map_err(failed)?;
            }
            if let Err(error) = fs::rename(self.version(version), &target) {
                if had_one {
                    let _ = fs::rename(&before, &target);
                }
                return Err(failed(error));
            }
        }
        Ok(())
    }

    fn version(&self, version: u64) -> std::path::PathBuf {
        self.folder.path().join(version.to_string())
    }
}

fn unwritable(action: &'static str, error: std::io::Error) -> Refusal {
    let error = Error::io("the model folder", action, error);
    Refusal::new(Status::Internal, error.to_string())
}

/// The greatest batch of a configuration in JSON; it may be a string, as an integer in the JSON of Protocol Buffers.
fn max_batch_size(text: &[u8]) -> Result<Option<usize>, Refusal> {
    let fields: Result<BTreeMap<String, Value>, _> = serde_json::from_slice(text);
    let mut fields = fields.map_err(|error| {
        Refusal::invalid(format!("parameter \"config\" is no JSON object: {error}"))
    })?;
    let found = fields.remove("max_batch_size");
    let mut names = fields.keys();
    if let Some(field) = names.find(|field| !IGNORED.contains(&field.as_str())) {
        let text = format!(
            "parameter \"config\": {field:?} is not read; settings are in NAME/model.toml of the model folder"
        );
        return Err(Refusal::new(Status::Unsupported, text));
    }
    let Some(found) = found else { return Ok(None) };
    let number: Option<i32> = match &found {
        Value::String(digits) => digits.parse().ok(),
        other => other.as_i64().and_then(|number| number.try_into().ok()),
    };
    let number = number.and_then(|number| usize::try_from(number).ok());
    number.map(Some).ok_or_else(|| {
        let most = i32::MAX;
        Refusal::invalid(format!(
            "parameter \"config\": max_batch_size: expected an integer from 0 to {most}, found {found}"
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_leave_the_folder_are_refused() {
        let refused = |parameter: &str| {
            let refusal = Upload::default().add(parameter, b"").unwrap_err();
            refusal.text
        };
        for parameter in [
            "file:1",
            "file:/model.onnx",
            "file:0/model.onnx",
            "file:01/model.onnx",
            "file:-1/model.onnx",
            "file:1/../model.onnx",
            "file:1/a/model.onnx",
            "file:1/.model.onnx",
            "file:1/..",
            "file:1/",
            "file:1/a\0.onnx",
            "file:../1/model.onnx",
            "file:99999999999999999999/m.onnx",
        ] {
            assert!(refused(parameter).contains("expected"), "{parameter}");
        }
        assert!(refused("other").contains("file:VERSION/NAME"));
    }

    #[test]
    fn a_version_has_one_model() {
        let folder = tempfile::tempdir().unwrap();
        let mut upload = Upload::default();
        assert!(upload.is_empty());
        upload.add("file:2/model.onnx.data", b"weights").unwrap();
        let refusal = upload.stage(folder.path()).err().unwrap();
        assert!(refusal.text.contains("version 2 has 0 model files"));
        upload.add("file:2/model.onnx", b"model").unwrap();
        let staged = upload.stage(folder.path()).unwrap();
        let model = folder.path().join("m");
        staged.move_to(&model).unwrap();
        assert_eq!(fs::read(model.join("2/model.onnx")).unwrap(), b"model");
        assert_eq!(
            fs::read(model.join("2/model.onnx.data")).unwrap(),
            b"weights"
        );
        upload.add("file:2/model.onnx", b"other").unwrap();
        upload
            .stage(folder.path())
            .unwrap()
            .move_to(&model)
            .unwrap();
        assert_eq!(fs::read(model.join("2/model.onnx")).unwrap(), b"other");
        drop(staged);
        // Nothing is left beside the model.
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
        upload.add("file:2/b.neff", b"").unwrap();
        assert!(upload.stage(folder.path()).is_err());
    }

    #[test]
    fn configurations_say_what_the_model_says() {
        let add = |text: &str| {
            let mut upload = Upload::default();
            upload
                .add("config", text.as_bytes())
                .map(|()| upload.max_batch_size)
        };
        let of = |text: &str| add(text).unwrap();
        assert_eq!(of(r#"{"backend": "tenon", "max_batch_size": 8}"#), Some(8));
        assert_eq!(of(r#"{"max_batch_size": "16"}"#), Some(16));
        assert_eq!(of("{}"), None);
        for bad in ["-1", "\"x\"", "1.5", "3000000000", "null", "[1]"] {
            let text = format!("{{\"max_batch_size\": {bad}}}");
            assert!(add(&text).unwrap_err().text.contains("integer"), "{bad}");
        }
        assert!(
            add(r#"{"dynamic_batching": {}}"#)
                .unwrap_err()
                .text
                .contains("model.toml")
        );
        assert!(add("[]").unwrap_err().text.contains("JSON"));
    }
}
