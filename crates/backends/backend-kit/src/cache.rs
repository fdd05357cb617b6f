//! The cache: an entry depends on its key alone, and results with entries are those without.

use crate::lifetime::execute;
use crate::report::Report;
use crate::samples::samples;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tenon_backend::{Backend, Cache, MAX_KEY};
use tenon_base::{Error, ErrorKind, Result};
use tenon_tensor::{Buffer, BufferMut, Tensor};

const NAME: &str = "entries of the cache";

/// Entries in memory, and what the backend did with them.
#[derive(Default)]
struct MemoryCache(Mutex<Entries>);

#[derive(Default)]
struct Entries {
    by_key: BTreeMap<String, Vec<u8>>,
    found: usize,
    problem: Option<String>,
}

impl MemoryCache {
    fn lock(&self) -> MutexGuard<'_, Entries> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Cache for MemoryCache {
    fn get(&self, key: &str) -> Option<Buffer> {
        let mut entries = self.lock();
        let entry = BufferMut::copy_of(entries.by_key.get(key)?).ok()?.freeze();
        entries.found += 1;
        Some(entry)
    }

    fn put(&self, key: &str, bytes: &[u8]) {
        let mut entries = self.lock();
        if key.len() > MAX_KEY {
            entries.problem = Some(format!("a key has more than {MAX_KEY} bytes"));
            return;
        }
        let old = entries.by_key.insert(key.to_owned(), bytes.to_vec());
        if old.is_some_and(|old| old != bytes) {
            entries.problem = Some(format!("the entry '{key}' is made again with other bytes"));
        }
    }
}

pub(crate) fn check(report: &mut Report, create: &impl Fn() -> Option<Arc<dyn Backend>>) {
    let (Some(first), Some(second)) = (create(), create()) else {
        return report.skipped(NAME, "it cannot be created again");
    };
    let cache = Arc::new(MemoryCache::default());
    let results = |backend: Arc<dyn Backend>| {
        backend.set_cache(cache.clone());
        results(&*backend)
    };
    let without = results(first);
    if cache.lock().by_key.is_empty() {
        return report.skipped(NAME, "it makes none");
    }
    let checked = without.and_then(|without| {
        let is_same = results(second)? == without;
        let entries = cache.lock();
        let problem = match (&entries.problem, is_same) {
            (Some(problem), _) => problem.as_str(),
            (None, false) => "with its entries the backend computes another result",
            (None, true) => {
                let (count, found) = (entries.by_key.len(), entries.found);
                return Ok(format!("{count} made, {found} found"));
            }
        };
        Err(Error::new(ErrorKind::ExecutionFailed, problem))
    });
    report.result(NAME, checked);
}

/// The results of all samples that the backend supports.
fn results(backend: &dyn Backend) -> Result<Vec<Vec<Option<Tensor>>>> {
    let supported = samples().into_iter();
    let supported = supported.filter(|sample| sample.is_supported(backend));
    supported.map(|sample| execute(backend, &sample)).collect()
}
