//! Output files: replaced as a whole, or standard output.

use super::is_standard_stream;
use std::borrow::Cow;
use std::fs::File;
use std::io::{IsTerminal, Write};
use std::path::Path;
use tenon_base::{Error, Result, escape_controls};
use tenon_tensor::Buffer;
use tenon_tensor::atomic_file::AtomicFile;

/// Writes a file as a whole or not at all: under a temporary name that is then renamed. `-` is standard
/// output; a device or pipe is written directly.
pub fn write(path: impl AsRef<Path>, bytes: &[u8]) -> Result<()> {
    let path = path.as_ref();
    if is_standard_stream(path) {
        return to_standard_output(bytes);
    }
    let written = || {
        let mut file = AtomicFile::create(path)?;
        file.file().write_all(bytes)?;
        file.commit()
    };
    written().map_err(|error| Error::io(path, "write", error))
}

/// Calls `write` with the path of the file to write: `path` itself, or for `-` a temporary file, which
/// is then copied to standard output.
pub fn write_through<T>(path: &Path, write: impl FnOnce(&Path) -> Result<T>) -> Result<T> {
    if !is_standard_stream(path) {
        return write(path);
    }
    let folder = std::env::temp_dir();
    let aside = tempfile::tempdir().map_err(|error| Error::io(folder, "write", error))?;
    let aside = aside.path().join("output");
    let done = write(&aside)?;
    let file = File::open(&aside).and_then(|file| Buffer::map(&file));
    to_standard_output(&file.map_err(|error| Error::io(&aside, "read", error))?)?;
    Ok(done)
}

/// Text with control characters escaped ([`escape_controls`]), except line feeds and tabs.
pub fn escape_lines(text: &str) -> Cow<'_, str> {
    let is_end = ['\n', '\t'];
    if text
        .split(is_end)
        .all(|part| matches!(escape_controls(part), Cow::Borrowed(_)))
    {
        return Cow::Borrowed(text);
    }
    let escaped = |part: &str| {
        let plain = part.strip_suffix(is_end).unwrap_or(part);
        escape_controls(plain).into_owned() + &part[plain.len()..]
    };
    let parts = text.split_inclusive(is_end);
    parts.map(escaped).collect::<String>().into()
}

/// Writes bytes unchanged, except to a terminal, which would interpret control characters.
fn to_standard_output(bytes: &[u8]) -> Result<()> {
    let mut out = std::io::stdout().lock();
    let escaped;
    let bytes = if out.is_terminal() {
        escaped = escape_lines(&String::from_utf8_lossy(bytes)).into_owned();
        escaped.as_bytes()
    } else {
        bytes
    };
    let written = out.write_all(bytes).and_then(|()| out.flush());
    written.map_err(|error| Error::io("standard output", "write", error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_of_lines_are_escaped() {
        assert!(matches!(escape_lines("a\tb\n\nc"), Cow::Borrowed(_)));
        assert_eq!(
            escape_lines("a\t\u{1b}[2J\nb\r\n"),
            "a\t\\u{1b}[2J\nb\\u{d}\n"
        );
    }

    #[test]
    fn a_file_is_replaced_and_nothing_is_left_beside_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.bef");
        write(&path, b"one").unwrap();
        write(&path, b"two").unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"two");
        assert_eq!(folder.path().read_dir().unwrap().count(), 1);
        let missing = folder.path().join("none/x.bef");
        let error = write(missing, b"").unwrap_err().to_string();
        assert!(error.contains("cannot write: "), "{error}");
    }
}
