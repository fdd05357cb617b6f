//! The folder of the cache: entries, limits, damage, other processes.

use super::*;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};

fn cache(folder: &Path, limit: u64) -> (Arc<UserCache>, Arc<dyn Cache>) {
    let user = Arc::new(UserCache::new(folder.join("cache"), limit));
    let own = user.for_backend("Npu".into());
    (user, own)
}

/// Makes the uses of files that are one after the other differ.
fn set_age(user: &UserCache, key: &str, seconds: u64) {
    let file = CacheFile {
        backend: "Npu",
        version: "1.3",
        key,
        bytes: &[],
    };
    let file = fs::File::open(user.folder.join(file.name())).unwrap();
    let used = SystemTime::now() - Duration::from_secs(seconds);
    file.set_modified(used).unwrap();
}

#[test]
fn entries_are_those_of_their_backend() {
    let folder = tempfile::tempdir().unwrap();
    let (user, own) = cache(folder.path(), CACHE_BYTES);
    assert!(own.get("a").is_none() && user.entries().unwrap().is_empty());
    own.put("a", b"first");
    own.put("a", b"second");
    own.put("empty", b"");
    assert_eq!(own.get("a").as_deref(), Some(&b"second"[..]));
    assert_eq!(own.get("empty").as_deref(), Some(&b""[..]));
    let other = user.for_backend("Gpu".into());
    assert!(other.get("a").is_none());
    other.put("a", b"third");
    assert_eq!(own.get("a").as_deref(), Some(&b"second"[..]));

    let entries = user.entries().unwrap();
    assert_eq!(entries.len(), 3);
    assert!(entries.iter().all(|entry| entry.version == "1.3"));
    let total: u64 = entries.iter().map(|entry| entry.bytes).sum();
    fs::write(user.folder.join("note.txt"), "not of the cache").unwrap();
    assert_eq!(user.clear().unwrap(), (3, total));
    assert!(own.get("a").is_none() && user.folder.join("note.txt").exists());
}

#[test]
fn a_damaged_entry_is_absent_and_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let (user, own) = cache(folder.path(), CACHE_BYTES);
    own.put("a", &[7; 1000]);
    let path = user.files().unwrap()[0].path.clone();
    let whole = fs::read(&path).unwrap();
    for damaged in [
        &whole[..500],
        &whole[..0],
        &[&whole[..999], &[0; 200]].concat(),
    ] {
        fs::write(&path, damaged).unwrap();
        assert!(own.get("a").is_none());
    }
    // The entry of another key under this name.
    own.put("b", b"other");
    let other = CacheFile {
        backend: "Npu",
        version: "1.3",
        key: "b",
        bytes: &[],
    };
    fs::copy(user.folder.join(other.name()), &path).unwrap();
    assert!(own.get("a").is_none());
    own.put("a", b"again");
    assert_eq!(own.get("a").as_deref(), Some(&b"again"[..]));
}

#[test]
fn entries_used_least_recently_are_deleted() {
    let folder = tempfile::tempdir().unwrap();
    let (user, own) = cache(folder.path(), 5000);
    for (key, age) in [("a", 30), ("b", 20), ("c", 10)] {
        own.put(key, &[0; 1000]);
        set_age(&user, key, age);
    }
    let abandoned = user.folder.join(format!("{UNFINISHED}x"));
    fs::write(&abandoned, "half").unwrap();
    let old = SystemTime::now() - 2 * ABANDONED;
    fs::File::open(&abandoned)
        .unwrap()
        .set_modified(old)
        .unwrap();
    // A use.
    assert!(own.get("a").is_some());
    own.put("d", &[0; 3200]);
    let entries = user.entries().unwrap().into_iter();
    let keys: BTreeSet<String> = entries.map(|entry| entry.key).collect();
    assert!(keys.iter().eq(["a", "d"]), "{keys:?}");
    assert!(!abandoned.exists());
    // More than the whole cache, and too long a key.
    own.put("e", &[0; 5000]);
    own.put(&"k".repeat(MAX_KEY + 1), b"x");
    assert_eq!(user.entries().unwrap().len(), 2);
    assert!(user.problem().is_none());
}

#[test]
fn a_folder_that_cannot_be_written_is_one_problem() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("cache"), "a file").unwrap();
    let (user, own) = cache(folder.path(), CACHE_BYTES);
    own.put("a", b"x");
    own.put("b", b"x");
    assert!(own.get("a").is_none());
    let problem = user.problem().unwrap().to_string();
    assert!(
        problem.contains("cache") && problem.contains(CACHE_VARIABLE),
        "{problem}"
    );
}

/// As several processes would use one folder: each thread has a separate cache.
#[test]
fn several_users_of_a_folder_read_whole_entries() {
    let folder = tempfile::tempdir().unwrap();
    let found = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                // About half of the entries fit.
                let (_, own) = cache(folder.path(), 20_000);
                for round in 0..200u32 {
                    let key = (round % 8).to_string();
                    let expected = vec![round as u8 % 8; 4000];
                    if let Some(entry) = own.get(&key) {
                        assert_eq!(*entry, *expected);
                        found.fetch_add(1, Ordering::Relaxed);
                    }
                    own.put(&key, &expected);
                }
            });
        }
    });
    assert!(found.into_inner() > 0);
    let (user, _) = cache(folder.path(), 20_000);
    user.delete_oldest();
    let total: u64 = user
        .entries()
        .unwrap()
        .iter()
        .map(|entry| entry.bytes)
        .sum();
    assert!(total <= 20_000, "{total}");
}
