//! Files that a command writes.

use std::io::Write;
use std::path::Path;
use tenon_base::{Error, Result};
use tenon_tensor::whole_file::WholeFile;

/// Writes a file as a whole or not at all: beside its name first, then renamed. `-` is standard
/// output; a device or pipe is written to as it stands.
pub fn write_output(path: impl AsRef<Path>, bytes: &[u8]) -> Result<()> {
    let path = path.as_ref();
    if path == Path::new("-") {
        let mut out = std::io::stdout().lock();
        let written = out.write_all(bytes).and_then(|()| out.flush());
        return written.map_err(|error| Error::io("standard output", "write", error));
    }
    let written = || {
        let mut file = WholeFile::beside(path)?;
        file.file().write_all(bytes)?;
        file.done()
    };
    written().map_err(|error| Error::io(path, "write", error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_replaced_and_nothing_is_left_beside_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.bef");
        write_output(&path, b"one").unwrap();
        write_output(&path, b"two").unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"two");
        assert_eq!(folder.path().read_dir().unwrap().count(), 1);
        let missing = folder.path().join("none/x.bef");
        let error = write_output(missing, b"").unwrap_err().to_string();
        assert!(error.contains("cannot write: "), "{error}");
    }
}
