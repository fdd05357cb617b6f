use super::*;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, PermissionsExt::from_mode(mode)).unwrap();
}

#[test]
fn a_folder_that_others_could_change_is_rejected() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("shared");
    let opened = SharedFolder::open(&path).unwrap();
    assert_eq!(opened.path(), path);
    for (mode, is_used) in [
        (0o755, true),
        (0o1777, true),
        (0o1775, true),
        (0o777, false),
        (0o775, false),
        (0o702, false),
    ] {
        set_mode(&path, mode);
        let opened = SharedFolder::open(&path);
        assert_eq!(opened.is_ok(), is_used, "{mode:o}");
        if let Err(error) = opened {
            let text = error.to_string();
            assert!(text.contains("others may replace files in it"), "{text}");
            assert!(text.ends_with(&format!("found mode {mode:04o}")), "{text}");
        }
    }
}

#[test]
fn the_owner_is_root_or_the_user() {
    let place = tempfile::tempdir().unwrap();
    let found = rustix::fs::stat(place.path()).unwrap();
    for (owner, user, is_used) in [(0, 7, true), (7, 7, true), (8, 7, false), (7, 0, false)] {
        let mut folder = found;
        folder.st_uid = owner;
        let checked = check(&folder, user, place.path());
        assert_eq!(checked.is_ok(), is_used, "folder of {owner}, user {user}");
        if let Err(error) = checked {
            assert!(
                error.to_string().contains("belongs to another user"),
                "{error}"
            );
        }
    }
}

#[test]
fn a_link_to_a_folder_is_rejected() {
    let place = tempfile::tempdir().unwrap();
    let target = place.path().join("target");
    fs::create_dir(&target).unwrap();
    let link = place.path().join("link");
    symlink(&target, &link).unwrap();
    let with_separator = PathBuf::from(format!("{}/", link.display()));
    for path in [link, with_separator] {
        let error = SharedFolder::open(&path).unwrap_err().to_string();
        assert!(error.contains("a link, or no folder"), "{error}");
    }
    assert_eq!(target.read_dir().unwrap().count(), 0);
    assert_eq!(target.metadata().unwrap().mode() & 0o1000, 0);
}

#[test]
fn planted_files_are_replaced_and_never_written_through() {
    let place = tempfile::tempdir().unwrap();
    let shared = SharedFolder::open(&place.path().join("shared")).unwrap();
    let target = place.path().join("target");
    fs::write(&target, "untouched").unwrap();
    let name = |name: &str| shared.path().join(name);
    symlink(&target, name("symbolic")).unwrap();
    fs::hard_link(&target, name("hard")).unwrap();
    rustix::fs::mknodat(
        rustix::fs::CWD,
        name("pipe"),
        FileType::Fifo,
        Mode::from_raw_mode(0o666),
        0,
    )
    .unwrap();
    for planted in ["symbolic", "hard", "pipe"] {
        let flags = OFlags::RDWR | OFlags::CREATE;
        assert!(
            shared.open_file(planted, flags, 0o666).is_err(),
            "{planted}"
        );
        assert!(
            shared.open_file(planted, OFlags::RDONLY, 0).is_err(),
            "{planted}"
        );
        shared.write(planted, b"report").unwrap();
        let written = name(planted).symlink_metadata().unwrap();
        assert!(
            written.is_file() && written.mode() & 0o777 == 0o600,
            "{planted}"
        );
        assert_eq!(fs::read_to_string(name(planted)).unwrap(), "report");
    }
    assert_eq!(fs::read_to_string(&target).unwrap(), "untouched");
    // A folder cannot be replaced by a file, and no temporary file is left.
    fs::create_dir(name("folder")).unwrap();
    shared.write("folder", b"report").unwrap_err();
    assert_eq!(shared.path().read_dir().unwrap().count(), 4);
}
