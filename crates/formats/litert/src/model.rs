//! A LiteRT model file.

use crate::schema::tflite as schema;
use crate::{convert, interface};
use bytes::Bytes;
use flatbuffers::VerifierOptions;
use std::fs::File;
use std::path::{Path, PathBuf};
use tenon_base::{Control, Error, ErrorKind, Location, Result};
use tenon_onnx::proto::ModelProto;
use tenon_tensor::{Buffer, BufferMut};

/// The greatest length of a flatbuffer: its offsets have 31 bits. Larger files have the data of tensors behind it.
const MAX_FLATBUFFER: usize = (1 << 31) - 1;

/// The version of the schema that models have.
const VERSION: u32 = 3;

/// A model with a valid structure; its operators are not checked yet.
#[derive(Debug)]
pub struct Model {
    /// A private copy: the verified offsets in it must not change.
    flatbuffer: Bytes,
    /// The whole file, for data of tensors outside the flatbuffer.
    file: Bytes,
    path: Option<PathBuf>,
}

/// Whether a file that starts with these bytes is a LiteRT model: bytes 4 to 7 are `TFL3`.
pub fn is_model(bytes: &[u8]) -> bool {
    bytes.get(4..8) == Some(schema::MODEL_IDENTIFIER.as_bytes())
}

impl Model {
    /// Reads the file at `path` and checks its structure.
    ///
    /// # Errors
    /// A file that cannot be read, and one that is no LiteRT model.
    pub fn open(path: impl AsRef<Path>, control: &Control) -> Result<Self> {
        let path = path.as_ref();
        let failed = |error| Error::io(path, "read", error);
        // Before `open`, which would block on a pipe.
        if !path.metadata().map_err(failed)?.is_file() {
            let error = Error::new(ErrorKind::Io, "cannot read: not a file");
            return Err(error.at(Location::file(path)));
        }
        let mapped = File::open(path)
            .and_then(|file| Buffer::map(&file))
            .map_err(failed)?;
        control.progress("read model", 0, mapped.len() as u64)?;
        let length = mapped.len().min(MAX_FLATBUFFER);
        let copy = BufferMut::copy_of(&mapped[..length])?.freeze();
        let flatbuffer = Bytes::from_owner(copy);
        let file = if length < mapped.len() {
            Bytes::from_owner(mapped)
        } else {
            flatbuffer.clone()
        };
        let model = Self {
            flatbuffer,
            file,
            path: Some(path.to_owned()),
        };
        model.root().map_err(|error| model.at_path(error))?;
        control.check()?;
        Ok(model)
    }

    /// Checks the structure of a model in memory.
    ///
    /// # Errors
    /// Bytes that are no LiteRT model.
    pub fn from_bytes(bytes: impl Into<Vec<u8>>, control: &Control) -> Result<Self> {
        let file = Bytes::from(bytes.into());
        control.progress("read model", 0, file.len() as u64)?;
        let model = Self {
            flatbuffer: file.slice(..file.len().min(MAX_FLATBUFFER)),
            file,
            path: None,
        };
        model.root()?;
        Ok(model)
    }

    /// The names of the model's signatures, in the file's order; none if it has only its main subgraph.
    pub fn signatures(&self) -> Vec<String> {
        let root = self.root().ok();
        let names = root.into_iter().flat_map(interface::names);
        names.map(str::to_owned).collect()
    }

    /// The ONNX model of the signature with this name; without a name of the first one, or of the main subgraph if the model
    /// has no signatures. Data of tensors is shared with this model.
    ///
    /// # Errors
    /// All problems of the subgraphs together: operators and types that are not supported, operands that contradict each
    /// other.
    pub fn to_onnx(&self, signature: Option<&str>, control: &Control) -> Result<ModelProto> {
        let converted = self.root().and_then(|root| {
            let file = convert::Data {
                flatbuffer: &self.flatbuffer,
                file: &self.file,
            };
            convert::model(root, file, signature, control)
        });
        converted.map_err(|error| self.at_path(error))
    }

    /// The root table, after verification of all that is reachable from it.
    fn root(&self) -> Result<schema::Model<'_>> {
        let bytes = &self.flatbuffer[..];
        if !is_model(bytes) {
            let found = bytes.get(4..8).map(<[u8]>::escape_ascii);
            let found = found.map_or("a shorter file".to_owned(), |text| format!("'{text}'"));
            return Err(invalid("not a LiteRT model: its identifier is wrong")
                .expected("'TFL3' at byte 4")
                .found(found));
        }
        // Tables that refer to the same parts are read several times; the limits keep that time linear.
        let limits = VerifierOptions {
            max_depth: 16,
            max_tables: bytes.len(),
            max_apparent_size: bytes.len().saturating_mul(8),
            ignore_missing_null_terminator: true,
        };
        let root = schema::root_as_model_with_opts(&limits, bytes)
            .map_err(|error| invalid(format!("not a LiteRT model: {}", first_line(&error))))?;
        if root.version() != VERSION {
            let text = "the version of the model's schema is not supported";
            return Err(Error::new(ErrorKind::Unsupported, text)
                .expected(VERSION)
                .found(root.version()));
        }
        Ok(root)
    }

    fn at_path(&self, error: Error) -> Error {
        match &self.path {
            Some(path) => error.at(Location::file(path)),
            None => error,
        }
    }
}

/// The first line of the verifier's report; the others are the path to it.
fn first_line(error: &flatbuffers::InvalidFlatbuffer) -> String {
    let text = error.to_string();
    let line = text.lines().next().unwrap_or_default();
    line.trim_end_matches('.').to_owned()
}

pub(crate) fn invalid(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::InvalidModel, message)
}

pub(crate) fn unsupported(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::Unsupported, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(bytes: &[u8]) -> String {
        let model = Model::from_bytes(bytes, &Control::new());
        model.unwrap_err().to_string()
    }

    #[test]
    fn other_files_are_refused() {
        let text = "not a LiteRT model: its identifier is wrong: expected 'TFL3' at byte 4";
        assert_eq!(refused(b"TFL3"), format!("{text}, found a shorter file"));
        assert_eq!(refused(b"0000TF\x013"), format!("{text}, found 'TF\\x013'"));
        assert!(refused(b"\x10\0\0\0TFL3").starts_with("not a LiteRT model: "));
    }

    #[test]
    fn only_regular_files_are_read() {
        let folder = tempfile::tempdir().unwrap();
        let error = Model::open(folder.path(), &Control::new()).unwrap_err();
        assert!(error.to_string().ends_with("cannot read: not a file"));
    }
}
