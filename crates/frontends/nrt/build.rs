//! Sets the soname that clients load (nrt 1.5) and records the commit.

use std::process::Command;

fn main() {
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libnrt.so.1");
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=TENON_GIT_HASH");
    println!("cargo::rustc-env=TENON_GIT_HASH={}", commit());
}

/// The commit: `TENON_GIT_HASH` (for builds outside of a repository), else the repository's HEAD, else
/// `unknown`.
fn commit() -> String {
    let from_environment = std::env::var("TENON_GIT_HASH").ok();
    if let Some(hash) = from_environment.filter(|text| !text.is_empty()) {
        return hash;
    }
    // HEAD changes with the branch, its log with each commit.
    for file in ["HEAD", "logs/HEAD"] {
        if let Some(path) = git(&["rev-parse", "--path-format=absolute", "--git-path", file]) {
            println!("cargo::rerun-if-changed={path}");
        }
    }
    git(&["rev-parse", "HEAD"]).unwrap_or_else(|| "unknown".to_owned())
}

fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_owned())
}
