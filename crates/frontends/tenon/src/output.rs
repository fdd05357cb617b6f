//! Files that a command writes.

use crate::is_standard;
use std::borrow::Cow;
use std::fs::File;
use std::io::{IsTerminal, Write};
use std::path::Path;
use tenon_base::{Error, Result, escape_controls};
use tenon_tensor::Buffer;
use tenon_tensor::atomic_file::AtomicFile;

/// Writes a file as a whole or not at all: beside its name first, then renamed. `-` is standard
/// output; a device or pipe is written to as it stands.
pub fn write_output(path: impl AsRef<Path>, bytes: &[u8]) -> Result<()> {
    let path = path.as_ref();
    if is_standard(path) {
        return to_standard_output(bytes);
    }
    let written = || {
        let mut file = AtomicFile::create(path)?;
        file.file().write_all(bytes)?;
        file.commit()
    };
    written().map_err(|error| Error::io(path, "write", error))
}

/// Calls `write` with a path for a file: `path` itself, or where that is `-` one whose bytes go to
/// standard output then.
pub fn write_through<T>(path: &Path, write: impl FnOnce(&Path) -> Result<T>) -> Result<T> {
    if !is_standard(path) {
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

/// Text of several lines with control characters escaped ([`escape_controls`]), but for the ends of
/// lines and tabs.
pub fn escape_text(text: &str) -> Cow<'_, str> {
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

/// Bytes are exact, but on a terminal, which control characters in them would drive.
fn to_standard_output(bytes: &[u8]) -> Result<()> {
    let mut out = std::io::stdout().lock();
    let shown;
    let bytes = match out.is_terminal() {
        true => {
            shown = escape_text(&String::from_utf8_lossy(bytes)).into_owned();
            shown.as_bytes()
        }
        false => bytes,
    };
    let written = out.write_all(bytes).and_then(|()| out.flush());
    written.map_err(|error| Error::io("standard output", "write", error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_of_lines_are_escaped() {
        assert!(matches!(escape_text("a\tb\n\nc"), Cow::Borrowed(_)));
        assert_eq!(
            escape_text("a\t\u{1b}[2J\nb\r\n"),
            "a\t\\u{1b}[2J\nb\\u{d}\n"
        );
    }

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
