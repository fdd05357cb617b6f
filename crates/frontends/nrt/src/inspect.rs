//! Inspection sessions: recordings of the process, each written to a folder.

use crate::call::{attempt, entry, log};
use crate::handles::{Handle, Handles, table};
use crate::lists::{free_texts, write_texts};
use crate::models::flag;
use crate::process;
use crate::profile::{FOLDER, is_of_device, make_folder, write};
use crate::sys_trace::{event_count, lock};
use crate::trace::{self, Filter, Kind, Purpose};
use serde_json::json;
use std::collections::BTreeSet;
use std::ffi::{c_char, c_int, c_void};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Instant;
use tenon_base::Result;
use tenon_c_callers::arguments::{check, invalid, path, text, write_output};
use tenon_runtime::Component;

/// Configurations of sessions.
static CONFIGS: Handles<Arc<Mutex<Config>>> = table(0x69, "inspect configuration");

/// The active session.
static SESSION: Mutex<Option<Session>> = Mutex::new(None);

/// Activities that can be recorded; the last name selects all others.
const ACTIVITIES: [&str; 5] = [
    "system_profile",
    "device_profile",
    "host_memory",
    "cpu_util",
    "all",
];

/// The configuration of a session.
#[derive(Debug, Clone)]
struct Config {
    session: c_int,
    folder: PathBuf,
    filter: Filter,
    /// Enabled activities by position in [`ACTIVITIES`], without the last.
    activities: [bool; ACTIVITIES.len() - 1],
    /// Whether events inside of all executions are recorded.
    executions: bool,
    /// Whether events inside of failed executions are recorded.
    failures: bool,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            session: 1,
            folder: FOLDER.into(),
            filter: Filter::default(),
            activities: [true, true, false, false],
            executions: false,
            failures: false,
        }
    }
}

impl Config {
    /// The defaults, changed by the environment.
    fn from_environment() -> Result<Self> {
        let mut config = Self::default();
        if let Some(folder) = std::env::var_os("NEURON_RT_INSPECT_OUTPUT_DIR") {
            config.folder = folder.into();
        }
        for (at, name) in ["SYSTEM_PROFILE", "DEVICE_PROFILE"].iter().enumerate() {
            let name = format!("NEURON_RT_INSPECT_{name}");
            if std::env::var_os(&name).is_some() {
                config.activities[at] = flag(&name)?;
            }
        }
        config.executions = flag("NEURON_RT_INSPECT_ENABLE")?;
        config.failures = flag("NEURON_RT_INSPECT_ON_FAIL")?;
        if let Ok(list) = std::env::var("NEURON_RT_INSPECT_EVENT_FILTER_NC") {
            let number = |text: &str| text.trim().parse::<u32>().ok();
            let enabled: Option<Vec<u32>> = list.split(',').map(number).collect();
            let enabled = enabled.ok_or_else(|| {
                invalid("NEURON_RT_INSPECT_EVENT_FILTER_NC is not a list of cores").found(&list)
            })?;
            let others = (0..tenon_runtime::MAX_CORES).filter(|core| !enabled.contains(core));
            config.filter.without_cores = others.collect();
        }
        if let Ok(list) = std::env::var("NEURON_RT_INSPECT_EVENT_FILTER_TYPE") {
            config.filter.without_kinds = excluded_kinds(&list);
        }
        Ok(config)
    }

    fn enabled(&self) -> Vec<&'static str> {
        let all = ACTIVITIES.iter().zip(self.activities);
        all.filter(|(_, on)| *on).map(|(name, _)| *name).collect()
    }
}

/// The kinds of events that a filter list excludes. An entry is a kind, `hardware` (executions on
/// their core and events inside) or `software` (all other kinds); a prefix `^` excludes it. Unknown
/// entries, as in lists for other runtimes, are logged and ignored.
fn excluded_kinds(list: &str) -> BTreeSet<Kind> {
    let mut excluded = BTreeSet::new();
    let mut is_first = true;
    for word in list
        .split(',')
        .map(str::trim)
        .filter(|word| !word.is_empty())
    {
        let (name, enabled) = match word.strip_prefix('^') {
            Some(name) => (name.trim(), false),
            None => (word, true),
        };
        let is_of_core = |kind: &Kind| kind.is_inside_execution() || *kind == Kind::Running;
        let is_selected = |kind: &Kind| match name {
            "hardware" => is_of_core(kind),
            "software" => !is_of_core(kind),
            _ => kind.name() == name,
        };
        let kinds: Vec<Kind> = Kind::ALL.into_iter().filter(is_selected).collect();
        if kinds.is_empty() {
            log().warning(Component::Nrt, "nrt_inspect", format_args!(
                "NEURON_RT_INSPECT_EVENT_FILTER_TYPE: unknown event type '{name}' is ignored; expected {}, hardware or software",
                Kind::ALL.map(Kind::name).join(", ")
            ));
            continue;
        }
        // A list whose first entry includes a kind excludes all kinds that it does not include.
        if is_first && enabled {
            excluded = Kind::ALL.into_iter().collect();
        }
        is_first = false;
        for kind in kinds {
            if enabled {
                excluded.remove(&kind);
            } else {
                excluded.insert(kind);
            }
        }
    }
    excluded
}

struct Session {
    config: Config,
    started: Instant,
    /// The usage of the process at the start.
    usage: Usage,
}

/// Resource usage of a process: processor time and resident memory.
#[derive(Debug, Clone, Copy, Default)]
struct Usage {
    cpu_ticks: u64,
    resident_pages: u64,
}

impl Usage {
    /// The current usage from `/proc`; zero where that is unavailable.
    fn now() -> Self {
        let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
        // The name in parentheses may contain any characters; fields 14 and 15 are user and system
        // ticks.
        let after_name = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
        let field = |at: usize| {
            let field = after_name.split_whitespace().nth(at);
            field.and_then(|text| text.parse::<u64>().ok()).unwrap_or(0)
        };
        let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
        let resident = statm.split_whitespace().nth(1);
        Self {
            cpu_ticks: field(11) + field(12),
            resident_pages: resident.and_then(|text| text.parse().ok()).unwrap_or(0),
        }
    }
}

fn begin(config: Config) -> Result<()> {
    process::check()?;
    let mut session = lock(&SESSION);
    let mut filter = config.filter.clone();
    filter.succeeded = config.executions;
    filter.failed = config.executions || config.failures;
    trace::start(Purpose::Inspect, filter)?;
    *session = Some(Session {
        config,
        started: Instant::now(),
        usage: Usage::now(),
    });
    Ok(())
}

/// Ends the session and writes its recordings.
fn end() -> Result<()> {
    let session = lock(&SESSION).take();
    let Session {
        config,
        started,
        usage,
    } = session.ok_or_else(|| invalid("no session was started"))?;
    let events = trace::stop(Purpose::Inspect)?.take(None, usize::MAX);
    let (session, process) = (config.session, std::process::id());
    let folder = config
        .folder
        .join(format!("session_{session}_pid_{process}"));
    make_folder(&folder)?;
    let [system, device, memory, cpu] = config.activities;
    if system {
        let text = events.perfetto(|kind| !kind.is_inside_execution());
        write(&folder.join("system_profile.json"), &text)?;
    }
    if device {
        let text = events.perfetto(is_of_device);
        write(&folder.join("device_profile.json"), &text)?;
    }
    let now = Usage::now();
    if memory {
        let text = json!({
            "page_bytes": rustix::param::page_size(),
            "resident_pages": {"begin": usage.resident_pages, "end": now.resident_pages},
        });
        write(&folder.join("host_memory.json"), &text.to_string())?;
    }
    if cpu {
        let text = json!({
            "ticks_per_second": rustix::param::clock_ticks_per_second(),
            "cpu_ticks": now.cpu_ticks.saturating_sub(usage.cpu_ticks),
            "seconds": started.elapsed().as_secs_f64(),
        });
        write(&folder.join("cpu_util.json"), &text.to_string())?;
    }
    Ok(())
}

/// Starts a session with the runtime if the environment enables one.
pub(crate) fn begin_with_process() -> Result<()> {
    if flag("NEURON_RT_INSPECT_ENABLE")? || flag("NEURON_RT_INSPECT_ON_FAIL")? {
        begin(Config::from_environment()?)
    } else {
        Ok(())
    }
}

/// Ends an active session when the runtime is closed.
pub(crate) fn end_with_process() -> Result<()> {
    // The lock must be released before `end` acquires it.
    let is_active = lock(&SESSION).is_some();
    if is_active { end() } else { Ok(()) }
}

/// Changes a configuration.
fn change(config: *const c_void, change: impl FnOnce(&mut Config) -> Result<()>) -> Result<()> {
    change(&mut lock(&*CONFIGS.find(config)?))
}

entry! {
    fn nrt_inspect_begin() {
        begin(Config::from_environment()?)
    }

    fn nrt_inspect_begin_with_options(options: *mut c_void) {
        let config = if options.is_null() {
            Config::default()
        } else {
            lock(&*CONFIGS.find(options)?).clone()
        };
        begin(config)
    }

    fn nrt_inspect_stop() {
        process::check()?;
        end()
    }

    fn nrt_inspect_config_allocate(options: *mut Handle) {
        check(options, "options")?;
        // SAFETY: `options` is null or writable (header).
        unsafe { write_output(options, "options", CONFIGS.insert(Arc::default())?) }
    }

    fn nrt_inspect_config_set_defaults(options: *mut c_void) {
        change(options, |config| {
            *config = Config::default();
            Ok(())
        })
    }

    fn nrt_inspect_config_free(options: *mut c_void) {
        CONFIGS.remove(options).map(drop)
    }

    fn nrt_inspect_config_set_session_id(options: *mut c_void, session_id: c_int) {
        change(options, |config| {
            config.session = session_id;
            Ok(())
        })
    }

    fn nrt_inspect_config_set_output_dir(options: *mut c_void, output_dir: *const c_char) {
        // SAFETY: `output_dir` is null or NUL-terminated (header).
        let folder = unsafe { path(output_dir, "output_dir")? };
        change(options, |config| {
            config.folder = folder.to_owned();
            Ok(())
        })
    }

    fn nrt_inspect_config_set_sys_trace_max_events_per_nc(
        options: *mut c_void, sys_trace_max_events_per_nc: u64,
    ) {
        change(options, |config| {
            config.filter.max_events = event_count(sys_trace_max_events_per_nc)?;
            Ok(())
        })
    }

    fn nrt_inspect_config_set_capture_enabled_for_nc(
        options: *mut c_void, nc_idx: u32, enabled: bool,
    ) {
        change(options, |config| {
            config.filter.set_core(nc_idx, enabled);
            Ok(())
        })
    }

    fn nrt_inspect_config_set_capture_enabled_for_event_type_string(
        options: *mut c_void, event_type: *const c_char, enabled: bool,
    ) {
        // SAFETY: `event_type` is null or NUL-terminated (header).
        let kind = Kind::named(unsafe { text(event_type, "event_type")? })?;
        change(options, |config| {
            config.filter.set_kind(kind, enabled);
            Ok(())
        })
    }

    fn nrt_inspect_config_set_enable_inspect(options: *mut c_void, enable_inspect: bool) {
        change(options, |config| {
            config.executions = enable_inspect;
            Ok(())
        })
    }

    fn nrt_inspect_config_set_enable_inspect_on_fail(
        options: *mut c_void, enable_inspect_on_fail: bool,
    ) {
        change(options, |config| {
            config.failures = enable_inspect_on_fail;
            Ok(())
        })
    }

    fn nrt_inspect_config_get_all_activity_types(
        activity_types: *mut *mut *mut c_char, count: *mut usize,
    ) {
        // SAFETY: `activity_types` and `count` are null or writable (header).
        unsafe { write_texts(&ACTIVITIES, activity_types, count) }
    }

    fn nrt_inspect_config_get_enabled_activity_types(
        options: *mut c_void, activity_types: *mut *mut *mut c_char, count: *mut usize,
    ) {
        let enabled = lock(&*CONFIGS.find(options)?).enabled();
        // SAFETY: `activity_types` and `count` are null or writable (header).
        unsafe { write_texts(&enabled, activity_types, count) }
    }

    fn nrt_inspect_config_free_activity_types(
        activity_types: *mut *mut c_char, _count: usize,
    ) -> () {
        let _ = attempt("nrt_inspect_config_free_activity_types", || free_texts(activity_types));
    }

    fn nrt_inspect_config_set_activity(
        options: *mut c_void, activity_type: *const c_char, enabled: bool,
    ) {
        // SAFETY: `activity_type` is null or NUL-terminated (header).
        let name = unsafe { text(activity_type, "activity_type")? };
        let at = ACTIVITIES.iter().position(|known| *known == name);
        let at = at.ok_or_else(|| {
            invalid("unknown activity").expected(ACTIVITIES.join(", ")).found(name)
        })?;
        change(options, |config| {
            match config.activities.get_mut(at) {
                Some(activity) => *activity = enabled,
                None => config.activities.fill(enabled),
            }
            Ok(())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filter_lists_include_and_exclude_kinds_and_groups() {
        let enabled = |list: &str| -> Vec<&str> {
            let excluded = excluded_kinds(list);
            let enabled = Kind::ALL
                .into_iter()
                .filter(|kind| !excluded.contains(kind));
            enabled.map(Kind::name).collect()
        };
        let all = Kind::ALL.map(Kind::name);
        let inside = [
            "function",
            "kernel",
            "dma",
            "cpu_node",
            "loop",
            "counter",
            "nc_exec_running",
        ];
        assert_eq!(enabled("kernel, dma"), ["kernel", "dma"]);
        assert_eq!(enabled("hardware"), inside);
        let without = enabled("hardware,^loop,^counter,^nc_exec_running");
        assert_eq!(without, inside[..4]);
        assert_eq!(
            enabled("software,kernel").len(),
            all.len() - inside.len() + 1
        );
        assert_eq!(enabled("^hardware"), enabled("software"));
        assert_eq!(enabled("^kernel").len(), all.len() - 1);
        for ignored in ["", ",", "nc_model_switch", "^"] {
            assert_eq!(enabled(ignored), all, "{ignored}");
        }
        assert_eq!(enabled("nc_model_switch,kernel"), ["kernel"]);
    }
}
