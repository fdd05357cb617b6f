//! A package as a folder of its members: unpack and pack.

use crate::error::collect;
use crate::{
    DIGESTS_JSON, FeatureBits, HEADER_BYTES, Header, INFO_JSON, Info, Package, PackageWriter,
    parallel,
};
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use tenon_base::{Control, Error, ErrorKind, Location, Result, UnfinishedFile};
use tenon_tensor::{Buffer, BufferMut};

/// The file with the header in a folder of members; it is not packed as a member.
pub const HEADER_FILE: &str = "neff.header";

/// Files from this length on are mapped instead of read.
const MAPPED: u64 = 1 << 16;

impl Package {
    /// Writes all members as files into `folder`, which must not exist or be empty, and the header
    /// as [`HEADER_FILE`], all or nothing: into a temporary folder that is renamed. Opening a
    /// package refuses links, duplicate names and names outside of the folder.
    pub fn unpack(&self, folder: impl AsRef<Path>, control: &Control) -> Result<()> {
        let folder = folder.as_ref();
        let failed = |error| Error::io(folder, "write", error);
        let is_free = match fs::read_dir(folder) {
            Ok(mut entries) => entries.next().is_none(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => true,
            Err(error) => return Err(failed(error)),
        };
        if !is_free {
            let error = Error::new(ErrorKind::InvalidArgument, "the folder is not empty");
            return Err(error.at(Location::file(folder)));
        }
        let parent = parent(folder);
        fs::create_dir_all(parent).map_err(|error| Error::io(parent, "write", error))?;
        let mut builder = tempfile::Builder::new();
        builder.prefix(".tenon-").suffix(".part");
        builder.permissions(fs::Permissions::from_mode(0o777));
        let created = UnfinishedFile::create(|| {
            let aside = builder.tempdir_in(parent)?;
            let path = aside.path().to_owned();
            Ok((aside, path))
        });
        let (aside, unfinished) = created.map_err(failed)?;
        self.write_files(aside.path(), control)?;
        let renamed = unfinished.finish(|| fs::rename(aside.path(), folder));
        renamed.map_err(failed)?;
        // The renamed folder must not be removed.
        drop(aside.keep());
        Ok(())
    }

    fn write_files(&self, folder: &Path, control: &Control) -> Result<()> {
        let members: Vec<(&str, usize)> = self.members().collect();
        for (name, _) in &members {
            create_folders(folder, name).map_err(|error| collision(name, error))?;
        }
        let written = parallel::map(members, |(name, _)| {
            control.check()?;
            let bytes = self.require(name)?;
            File::create_new(folder.join(name))
                .and_then(|mut file| file.write_all(&bytes))
                .map_err(|error| collision(name, error))
        });
        collect(written).map_err(|error| self.locate(error))?;
        if self.member(HEADER_FILE).is_none() {
            let path = folder.join(HEADER_FILE);
            let written = fs::write(&path, self.header().encode());
            written.map_err(|error| Error::io(&path, "write", error))?;
        }
        Ok(())
    }
}

/// Creates the folders in the name of a member. `folder` exists: it is not created again after a
/// signal has removed it.
fn create_folders(folder: &Path, name: &str) -> io::Result<()> {
    for (end, _) in name.match_indices('/') {
        match fs::create_dir(folder.join(&name[..end])) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

/// The error of a member that cannot be a file: its name is a folder or too long for the system.
fn collision(name: &str, error: io::Error) -> Error {
    Error::io("", "write", error).at(Location::member(name))
}

/// Fields of the header of a packed folder. The default of each is its value in [`HEADER_FILE`], or
/// without that file, in `info.json`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PackOptions {
    /// 1: a plain archive (the default); 2: compressed.
    pub pkg_version: Option<u64>,
    /// The NEFF version, major and minor; 0.4 without a header file.
    pub version: Option<(u64, u64)>,
    /// The tool that built it.
    pub build_version: Option<String>,
    /// Its name; the folder's name if none is known.
    pub name: Option<String>,
    /// Physical cores it needs.
    pub num_tpb: Option<u32>,
    /// Features that a loader must support.
    pub feature_bits: Option<FeatureBits>,
}

/// Packs the files of `folder`, in the order of their names, into the package `path`. A
/// `digests.json` among them is recomputed.
pub fn pack(
    folder: impl AsRef<Path>,
    path: impl AsRef<Path>,
    options: &PackOptions,
    control: &Control,
) -> Result<Header> {
    let (folder, path) = (folder.as_ref(), path.as_ref());
    let target = path.canonicalize().ok();
    let mut files = Vec::new();
    let mut problems = Vec::new();
    list(folder, "", &mut files, &mut problems)?;
    if let Some(error) = Error::from_all(problems) {
        return Err(error);
    }
    // The package may be written into the packed folder.
    files.retain(|file| target.is_none() || file.path.canonicalize().ok() != target);
    let digested = files.iter().any(|file| file.name == DIGESTS_JSON);
    files.retain(|file| file.name != HEADER_FILE && file.name != DIGESTS_JSON);
    files.sort_by(|a, b| a.name.cmp(&b.name));
    let header = header(folder, options)?;
    let mut writer = PackageWriter::create(path, header)?;
    if digested {
        writer = writer.with_digests();
    }
    let total = files.iter().map(|file| file.size).sum();
    let mut done = 0;
    for file in &files {
        control.progress("pack", done, total)?;
        writer.add(&file.name, &file.read()?)?;
        done += file.size;
    }
    control.progress("pack", done, total)?;
    Ok(writer.finish()?.1)
}

/// A file to be packed as a member.
struct MemberFile {
    name: String,
    path: PathBuf,
    size: u64,
}

impl MemberFile {
    fn read(&self) -> Result<Buffer> {
        let failed = |error| Error::io(&self.path, "read", error);
        if self.size < MAPPED {
            let bytes = fs::read(&self.path).map_err(failed)?;
            return Ok(BufferMut::copy_of(&bytes)?.freeze());
        }
        Buffer::map(&File::open(&self.path).map_err(failed)?).map_err(failed)
    }
}

/// Lists all files below a folder. Links and special files are problems.
fn list(
    folder: &Path,
    prefix: &str,
    files: &mut Vec<MemberFile>,
    problems: &mut Vec<Error>,
) -> Result<()> {
    let failed = |error| Error::io(folder, "read", error);
    for entry in fs::read_dir(folder).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let path = entry.path();
        let mut refuse = |text: &str| {
            let error = Error::new(ErrorKind::InvalidArgument, text);
            problems.push(error.at(Location::file(&path)));
        };
        let data = fs::symlink_metadata(&path).map_err(failed)?;
        let name = entry.file_name();
        let Some(name) = name.to_str().filter(|name| !name.contains('\\')) else {
            refuse("not a valid member name");
            continue;
        };
        let name = format!("{prefix}{name}");
        if data.is_dir() {
            list(&path, &format!("{name}/"), files, problems)?;
        } else if data.is_file() {
            files.push(MemberFile {
                name,
                size: data.len(),
                path,
            });
        } else {
            refuse("a link or special file cannot be a member");
        }
    }
    Ok(())
}

fn header(folder: &Path, options: &PackOptions) -> Result<Header> {
    let path = folder.join(HEADER_FILE);
    let mut header = match fs::read(&path) {
        Ok(bytes) => Header::decode(&bytes).map_err(|error| error.at(Location::file(&path)))?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => fresh_header(folder),
        Err(error) => return Err(Error::io(&path, "read", error)),
    };
    header.header_size = HEADER_BYTES as u64;
    header.pkg_version = options.pkg_version.unwrap_or(1);
    if !matches!(header.pkg_version, 1 | 2) {
        let error = Error::new(ErrorKind::InvalidArgument, "unknown package version");
        return Err(error.expected("1 or 2").found(header.pkg_version));
    }
    if let Some((major, minor)) = options.version {
        (header.version_major, header.version_minor) = (major, minor);
    }
    if let Some(text) = &options.build_version {
        header.set_build_version(text);
    }
    if let Some(name) = &options.name {
        header.set_name(name);
    }
    if let Some(count) = options.num_tpb {
        header.num_tpb = count;
        header.requested_tpb_count = count;
        header.tpb_per_node = [0; 64];
        header.tpb_per_node[0] = u8::try_from(count).unwrap_or(u8::MAX);
    }
    if let Some(bits) = options.feature_bits {
        header.feature_bits = bits;
    }
    if header.is_tenon() {
        // Derived from the content, which may have changed.
        header.uuid = [0; 16];
    }
    // Decoding checks the changed fields.
    Header::decode(&header.encode())
}

/// The header of a folder without one, from `info.json`.
fn fresh_header(folder: &Path) -> Header {
    let info = fs::read(folder.join(INFO_JSON)).unwrap_or_default();
    let info: Info = serde_json::from_slice(&info).unwrap_or_default();
    let from_folder = folder
        .file_name()
        .map(|name| name.to_string_lossy().into_owned());
    let name = info
        .name
        .as_deref()
        .map(str::to_owned)
        .or(from_folder)
        .unwrap_or_default();
    let mut header = Header::tenon(&name, 1);
    (header.version_major, header.version_minor) = (0, 4);
    header.feature_bits = FeatureBits::default();
    header.set_build_version(info.tool_version.as_deref().unwrap_or_default());
    let count = info.num_tpb.unwrap_or(1);
    header.num_tpb = count;
    header.requested_tpb_count = info.num_tpb_requested.unwrap_or(count);
    if let Some(list) = &info.num_tpb_per_node {
        header.tpb_per_node = [0; 64];
        for (to, &count) in header.tpb_per_node.iter_mut().zip(list) {
            *to = u8::try_from(count).unwrap_or(u8::MAX);
        }
    }
    header
}

/// The parent folder of `path`.
fn parent(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_removed_folder_is_not_created_again() {
        let outer = tempfile::tempdir().unwrap();
        let folder = outer.path().join("removed");
        for name in ["member", "a/b/member"] {
            let error = create_folders(&folder, name).err();
            let expected = name.contains('/').then_some(io::ErrorKind::NotFound);
            assert_eq!(error.map(|error| error.kind()), expected, "{name}");
            assert!(!folder.exists(), "{name}");
        }
        create_folders(outer.path(), "a/b/member").unwrap();
        create_folders(outer.path(), "a/b/other").unwrap();
        assert!(outer.path().join("a/b").is_dir());
    }
}
