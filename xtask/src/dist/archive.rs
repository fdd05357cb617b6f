//! A tar archive with the same bytes for the same files.

use crate::Result;
use crate::installed::{Files, Member};
use flate2::{Compression, GzBuilder};
use tar::{Builder, EntryType, Header};

/// The bytes of a compressed archive, with the files in a folder.
pub fn written(files: &Files, folder: &str, seconds: u64) -> Result<Vec<u8>> {
    let write = || -> std::io::Result<Vec<u8>> {
        let gzip = GzBuilder::new().write(Vec::new(), Compression::best());
        let mut builder = Builder::new(gzip);
        for (path, member) in &files.members {
            let mut header = Header::new_gnu();
            header.set_mtime(seconds);
            header.set_uid(0);
            header.set_gid(0);
            let path = format!("{folder}/{path}");
            match member {
                Member::File { bytes, mode } => {
                    header.set_mode(*mode);
                    header.set_size(bytes.len() as u64);
                    builder.append_data(&mut header, path, &bytes[..])?;
                }
                Member::Link(name) => {
                    header.set_mode(0o777);
                    header.set_size(0);
                    header.set_entry_type(EntryType::Symlink);
                    builder.append_link(&mut header, path, name)?;
                }
            }
        }
        builder.into_inner()?.finish()
    };
    write().map_err(|error| format!("cannot write the archive: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::process::{Command, Stdio};

    #[test]
    fn tar_lists_what_was_added_in_one_order() {
        let archive = |names: [&str; 2]| {
            let mut archive = Files::default();
            for name in names {
                archive.file(name, name.as_bytes().to_vec());
            }
            archive.program("bin/run", b"program".to_vec());
            archive.link("lib/a.so", "a.so.1");
            written(&archive, "made", 86_400).unwrap()
        };
        let bytes = archive(["b", "a"]);
        assert!(bytes == archive(["a", "b"]));
        let mut list = Command::new("tar")
            .args(["-tzv", "--numeric-owner", "--utc"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        list.stdin.take().unwrap().write_all(&bytes).unwrap();
        let listed = String::from_utf8(list.wait_with_output().unwrap().stdout).unwrap();
        let words = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
        let listed: Vec<String> = listed.lines().map(words).collect();
        let expected = [
            "-rw-r--r-- 0/0 1 1970-01-02 00:00 made/a",
            "-rw-r--r-- 0/0 1 1970-01-02 00:00 made/b",
            "-rwxr-xr-x 0/0 7 1970-01-02 00:00 made/bin/run",
            "lrwxrwxrwx 0/0 0 1970-01-02 00:00 made/lib/a.so -> a.so.1",
        ];
        assert_eq!(listed, expected);
    }
}
