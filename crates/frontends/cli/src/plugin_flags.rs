//! Flags of backends that are loaded from libraries.

use crate::package_flags::byte_count;
use clap::{Args, Subcommand};
use std::ffi::OsString;
use std::path::PathBuf;
use tenon::BackendId;
use tenon::backends::{BackendSetup, CpuLevel, OptionAssignment};

/// The backends in addition to the built-in ones.
#[derive(Args, Clone)]
pub struct BackendFlags {
    /// Look for backends (VENDOR_NAME_backend.so) in this folder alone, an absolute path; without
    /// it in the folders of TENON_BACKEND_PATH, separated by colons.
    #[arg(long, value_name = "DIR", help_heading = "Backends")]
    pub backend_path: Option<PathBuf>,
    /// Give a backend an option; repeat for several. `tenon backends` lists them.
    #[arg(
        long = "backend-option",
        value_name = "BACKEND.NAME=VALUE",
        help_heading = "Backends"
    )]
    pub backend_options: Vec<OptionAssignment>,
    /// Leave out backends that cannot protect tensors from the CPU
    /// (ProtectedContentAllocation); prints a warning for each.
    #[arg(long, help_heading = "Backends")]
    pub protected_content: bool,
    /// Use vector instructions up to this level: baseline, avx2, avx512 or native, all that the CPU
    /// has, which is the default (or TENON_CPU). A package that is compiled records the level, if
    /// it is given, as what its constants may rely on.
    #[arg(long, value_name = "LEVEL", help_heading = "Backends")]
    pub cpu: Option<CpuLevel>,
}

impl BackendFlags {
    /// The setup of backends.
    pub fn setup(&self) -> BackendSetup {
        let mut setup = BackendSetup::new()
            .options(self.backend_options.clone())
            .protected_content(self.protected_content);
        setup.folder.clone_from(&self.backend_path);
        setup
    }

    /// The flags as arguments of another process.
    pub fn arguments(&self) -> Vec<OsString> {
        let mut arguments: Vec<OsString> = Vec::new();
        if let Some(folder) = &self.backend_path {
            arguments.extend(["--backend-path".into(), folder.into()]);
        }
        for option in &self.backend_options {
            arguments.extend(["--backend-option".into(), option.to_string().into()]);
        }
        if self.protected_content {
            arguments.push("--protected-content".into());
        }
        if let Some(level) = self.cpu {
            arguments.extend(["--cpu".into(), level.to_string().into()]);
        }
        arguments
    }

    /// The flags as text for a command line, each with a leading space.
    pub fn text(&self) -> String {
        let mut text = String::new();
        if let Some(folder) = &self.backend_path {
            text += &format!(" --backend-path {}", folder.display());
        }
        for option in &self.backend_options {
            text += &format!(" --backend-option {option}");
        }
        if self.protected_content {
            text += " --protected-content";
        }
        if let Some(level) = self.cpu {
            text += &format!(" --cpu {level}");
        }
        text
    }
}

/// Limits of the memory of backends.
#[derive(Args, Clone)]
pub struct DeviceFlags {
    /// Refuse a model whose workloads and values need more of the separate memory of this backend; K, M, G and
    /// T may follow the number. Repeat for several. `tenon info --memory` shows what a package needs.
    #[arg(
        long = "device-memory-limit",
        value_name = "BACKEND=BYTES",
        value_parser = device_memory_limit,
        help_heading = "Backends"
    )]
    pub device_memory_limits: Vec<(BackendId, u64)>,
}

impl DeviceFlags {
    /// The flags as arguments of another process.
    pub fn arguments(&self) -> Vec<OsString> {
        let limits = self.device_memory_limits.iter();
        let flag = |(backend, bytes): &(BackendId, u64)| {
            [
                "--device-memory-limit".into(),
                format!("{backend}={bytes}").into(),
            ]
        };
        limits.flat_map(flag).collect()
    }
}

fn device_memory_limit(text: &str) -> Result<(BackendId, u64), String> {
    let (backend, bytes) = text
        .split_once('=')
        .ok_or_else(|| format!("'{text}' is not BACKEND=BYTES"))?;
    Ok((backend.into(), byte_count(bytes)?))
}

/// List or delete what backends have made when models were loaded, to use it again.
#[derive(Args)]
pub struct Cache {
    #[command(subcommand)]
    pub command: CacheCommand,
}

#[derive(Subcommand)]
pub enum CacheCommand {
    List(CacheList),
    Clear(CacheClear),
}

/// List the entries of the cache, those used last first.
#[derive(Args)]
#[command(after_help = "\
Examples:
  tenon cache list
  tenon cache list --json
  TENON_CACHE_DIR=/var/cache/tenon tenon cache list

The cache is in tenon in XDG_CACHE_HOME or ~/.cache, or where TENON_CACHE_DIR says; it is turned off where that \
is empty. When it grows beyond its limit, the entries used least recently are deleted.")]
pub struct CacheList {
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

/// Delete all entries of the cache: the next load makes them again.
#[derive(Args)]
#[command(after_help = "Examples:\n  tenon cache clear\n  tenon cache clear --json")]
pub struct CacheClear {
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

/// Find and check backends that are loaded from libraries.
#[derive(Args)]
pub struct Plugin {
    #[command(subcommand)]
    pub command: PluginCommand,
}

#[derive(Subcommand)]
pub enum PluginCommand {
    List(PluginList),
    Check(PluginCheck),
}

/// List the libraries that would be loaded, and those that would be skipped.
#[derive(Args)]
#[command(after_help = "\
Examples:
  tenon plugin list
  tenon plugin list --backend-path /opt/backends --json

The libraries are loaded as a runtime loads them, in a separate process.")]
pub struct PluginList {
    /// The only folder to look in, an absolute path.
    #[arg(long, value_name = "DIR")]
    pub backend_path: Option<PathBuf>,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
    /// Seconds after which a library that does not answer is skipped.
    #[arg(long, value_name = "SECONDS", default_value_t = 10)]
    pub time_limit: u64,
    /// Load these libraries in this process and print a line of JSON for each.
    #[arg(long, hide = true, num_args = 1.., value_name = "LIBRARY")]
    pub in_process: Vec<PathBuf>,
}

/// Check a library with the conformance kit of the backend interface.
#[derive(Args)]
#[command(after_help = "\
Examples:
  tenon plugin check ./Acme_Npu_backend.so
  tenon plugin check ./Acme_Npu_backend.so --json

The library is checked in a separate process: a crash is a failed check, and so is one that \
takes longer than --time-limit. Its outputs are compared with those of CpuRef.

Exit status: 0 nothing failed, 1 something did, 2 wrong usage.")]
pub struct PluginCheck {
    /// The library.
    pub library: PathBuf,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
    /// Seconds that the whole check may take.
    #[arg(long, value_name = "SECONDS", default_value_t = 300)]
    pub time_limit: u64,
    /// Check it in this process.
    #[arg(long, hide = true)]
    pub in_process: bool,
}
