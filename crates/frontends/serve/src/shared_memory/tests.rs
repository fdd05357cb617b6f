//! Regions, and what is refused.

use super::*;
use tempfile::NamedTempFile;

fn memory() -> SharedMemory {
    SharedMemory::new(true, 64, BodyMemory::new(1024))
}

fn object(bytes: &[u8]) -> (NamedTempFile, String) {
    let file = tempfile::Builder::new()
        .prefix("tenon-test-")
        .tempfile_in(FOLDER)
        .unwrap();
    fs::write(file.path(), bytes).unwrap();
    let key = format!("/{}", file.path().file_name().unwrap().to_str().unwrap());
    (file, key)
}

fn source(key: &str, offset: u64, byte_size: u64) -> RegionSource {
    RegionSource {
        key: key.into(),
        offset,
        byte_size,
    }
}

fn parameters(name: &str, offset: u64, bytes: u64) -> Parameters {
    let json = format!(r#"{{"{REGION}": "{name}", "{OFFSET}": {offset}, "{BYTE_SIZE}": {bytes}}}"#);
    serde_json::from_str(&json).unwrap()
}

#[test]
fn regions_are_read_and_written() {
    let (file, key) = object(&[0, 1, 2, 3, 4, 5, 6, 7]);
    let shared = memory();
    shared.register("r", source(&key, 1, 6)).unwrap();
    let again = shared.register("r", source(&key, 1, 6)).unwrap_err();
    assert_eq!(again.status, Status::Exists);
    let mut regions = RequestRegions::new(&shared);
    let ty: TensorType = "u8[2]".parse().unwrap();
    let tensor = regions.input(&parameters("r", 3, 2), &ty).unwrap().unwrap();
    assert_eq!(tensor.bytes(), [4, 5]);
    let part = regions.output(&parameters("r", 4, 2)).unwrap().unwrap();
    part.write(&[9, 9]).unwrap();
    assert_eq!(fs::read(file.path()).unwrap(), [0, 1, 2, 3, 4, 9, 9, 7]);
    let refusal = part.write(&[1, 2, 3]).unwrap_err();
    assert!(
        refusal
            .text
            .contains("has 3 bytes, its part of the region 2"),
        "{refusal}"
    );
    // A file that became shorter is an error, and is not made longer.
    file.as_file().set_len(5).unwrap();
    assert!(part.write(&[1, 2]).is_err());
    assert!(regions.input(&parameters("r", 3, 2), &ty).is_err());
    assert_eq!(file.as_file().metadata().unwrap().len(), 5);
    shared.unregister(Some("other"));
    assert_eq!(
        shared.status(None).unwrap(),
        [("r".into(), source(&key, 1, 6))]
    );
    shared.unregister(None);
    let refusal = shared.status(Some("r")).unwrap_err();
    assert!(
        refusal
            .text
            .starts_with("Unable to find system shared memory region: 'r'")
    );
    let refusal = regions.output(&parameters("r", 0, 1)).unwrap_err();
    assert!(
        refusal
            .text
            .starts_with("Unable to find shared memory region: 'r'")
    );
}

#[test]
fn keys_are_regular_files_of_the_folder() {
    let shared = memory();
    let (_file, key) = object(&[0; 8]);
    let long = "x".repeat(256);
    let linked = Path::new(FOLDER).join(format!("tenon-link-{}", std::process::id()));
    std::os::unix::fs::symlink("/etc/passwd", &linked).unwrap();
    let link = linked.file_name().unwrap().to_str().unwrap().to_owned();
    for bad in [
        "",
        "/",
        "..",
        "/..",
        "//x",
        "/a/b",
        "../etc/passwd",
        "a\0",
        &long,
        &link,
        "/absent-of-tenon",
    ] {
        let refusal = shared.register("r", source(bad, 0, 1)).unwrap_err();
        assert_eq!(refusal.status, Status::Invalid, "{bad:?}: {refusal}");
    }
    fs::remove_file(linked).unwrap();
    for (offset, bytes) in [(0, 0), (0, 9), (8, 1), (u64::MAX, 1), (1, u64::MAX)] {
        let refusal = shared
            .register("r", source(&key, offset, bytes))
            .unwrap_err();
        let text = "Invalid offset + byte size for shared memory region: 'r'";
        assert!(refusal.text.starts_with(text), "{refusal}");
    }
    assert!(shared.register("", source(&key, 0, 8)).is_err());
    shared.register("r", source(&key, 0, 8)).unwrap();
    let regions = RequestRegions::new(&shared);
    for (offset, bytes) in [(0, 9), (8, 1), (u64::MAX, 1), (1, u64::MAX)] {
        assert!(regions.output(&parameters("r", offset, bytes)).is_err());
    }
}

#[test]
fn inputs_of_a_request_are_bounded() {
    let (_file, key) = object(&[0; 48]);
    let shared = memory();
    shared.register("r", source(&key, 0, 48)).unwrap();
    let mut regions = RequestRegions::new(&shared);
    let ty: TensorType = "u8[48]".parse().unwrap();
    assert!(regions.input(&parameters("r", 0, 48), &ty).is_ok());
    let refusal = regions.input(&parameters("r", 0, 48), &ty).unwrap_err();
    assert_eq!(refusal.status, Status::TooLarge);
    assert_eq!(shared.memory.used(), 48);
    drop(regions.into_reservation());
    assert_eq!(shared.memory.used(), 0);
    let off = SharedMemory::new(false, 64, BodyMemory::new(1024));
    assert!(off.register("r", source(&key, 0, 48)).is_err());
    let off = RequestRegions::new(&off).output(&parameters("r", 0, 1));
    assert_eq!(off.unwrap_err().status, Status::Forbidden);
}
