//! `tenon cache`

use crate::output::{self, say};
use crate::plugin_flags::{Cache, CacheCommand};
use crate::table::{Table, bytes};
use serde_json::json;
use std::time::SystemTime;
use tenon::backends::{CACHE_VARIABLE, CacheEntry, UserCache};
use tenon::{Error, ErrorKind, Result};

pub fn run(flags: &Cache) -> Result<()> {
    let cache = UserCache::of_user().ok_or_else(|| {
        let text = "there is no cache: it is turned off, or the user has no folder for it";
        let help = format!("set {CACHE_VARIABLE} to a folder");
        Error::new(ErrorKind::NotFound, text).help(help)
    })?;
    match &flags.command {
        CacheCommand::List(flags) => list(&cache, flags.json),
        CacheCommand::Clear(flags) => clear(&cache, flags.json),
    }
}

fn list(cache: &UserCache, as_json: bool) -> Result<()> {
    let entries = cache.entries()?;
    let total: u64 = entries.iter().map(|entry| entry.bytes).sum();
    if as_json {
        let seconds = |used: SystemTime| {
            let since = used.duration_since(SystemTime::UNIX_EPOCH);
            since.unwrap_or_default().as_secs()
        };
        let entry = |entry: &CacheEntry| {
            json!({"backend": entry.backend, "interface": entry.version, "key": entry.key,
                   "bytes": entry.bytes, "used": seconds(entry.used)})
        };
        return output::json(json!({
            "folder": cache.folder(),
            "bytes": total,
            "limit": cache.limit(),
            "entries": entries.iter().map(entry).collect::<Vec<_>>(),
        }));
    }
    if !entries.is_empty() {
        let mut table = Table::new(&["backend", "size", "used", "key"]);
        for entry in &entries {
            table.row([
                entry.backend.clone(),
                bytes(entry.bytes),
                age(entry.used),
                entry.key.clone(),
            ]);
        }
        say!("{table}\n")?;
    }
    say!(
        "{}: {}, {} of at most {}",
        cache.folder().display(),
        output::count(entries.len(), "entry"),
        bytes(total),
        bytes(cache.limit())
    )
}

/// The time since a use, in its largest unit.
fn age(used: SystemTime) -> String {
    let seconds = SystemTime::now().duration_since(used);
    match seconds.unwrap_or_default().as_secs() {
        0..60 => "now".to_owned(),
        seconds @ 60..3_600 => format!("{} min ago", seconds / 60),
        seconds @ 3_600..86_400 => format!("{} h ago", seconds / 3_600),
        seconds => format!("{} d ago", seconds / 86_400),
    }
}

fn clear(cache: &UserCache, as_json: bool) -> Result<()> {
    let (count, freed) = cache.clear()?;
    if as_json {
        return output::json(json!({"entries": count, "bytes": freed}));
    }
    say!(
        "{}: {} deleted, {}",
        cache.folder().display(),
        output::count(count, "entry"),
        bytes(freed)
    )
}
