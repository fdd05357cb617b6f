//! A recording of the whole process, in a folder for each session.

use crate::arguments::{check, give, invalid, path, text};
use crate::call::{attempt, entry, log};
use crate::handles::{Handle, Handles};
use crate::lists::{free_texts, give_texts};
use crate::models::flag;
use crate::process;
use crate::profile::{FOLDER, is_of_device, make_folder, write};
use crate::sys_trace::{events, lock};
use crate::trace::{self, Filter, Kind, Purpose};
use serde_json::json;
use std::collections::BTreeSet;
use std::ffi::{c_char, c_int, c_void};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Instant;
use tenon_base::Result;
use tenon_runtime::Component;

/// What sessions record.
static CONFIGS: Handles<Arc<Mutex<Config>>> = Handles::new(0x69, "inspect configuration");

/// The session that runs.
static SESSION: Mutex<Option<Session>> = Mutex::new(None);

/// What can be recorded; the last stands for all others.
const ACTIVITIES: [&str; 5] = [
    "system_profile",
    "device_profile",
    "host_memory",
    "cpu_util",
    "all",
];

/// What a session records.
#[derive(Debug, Clone)]
struct Config {
    session: c_int,
    folder: PathBuf,
    filter: Filter,
    /// By position in [`ACTIVITIES`], without the last.
    activities: [bool; ACTIVITIES.len() - 1],
    /// Whether the insides of all executions are recorded.
    executions: bool,
    /// Whether those of executions that fail are.
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
            let wanted: Option<Vec<u32>> = list.split(',').map(number).collect();
            let wanted = wanted.ok_or_else(|| {
                invalid("NEURON_RT_INSPECT_EVENT_FILTER_NC is no list of cores").found(&list)
            })?;
            let others = (0..tenon_runtime::MAX_CORES).filter(|core| !wanted.contains(core));
            config.filter.without_cores = others.collect();
        }
        if let Ok(list) = std::env::var("NEURON_RT_INSPECT_EVENT_FILTER_TYPE") {
            config.filter.without_kinds = kinds_left_out(&list);
        }
        Ok(config)
    }

    fn enabled(&self) -> Vec<&'static str> {
        let all = ACTIVITIES.iter().zip(self.activities);
        all.filter(|(_, on)| *on).map(|(name, _)| *name).collect()
    }
}

/// The kinds of events that a list leaves out: words are kinds, `hardware` (executions on
/// their core, and what happens inside) or `software` (all else), and `^` before a word leaves it out. A list of other
/// runtimes has words that mean nothing here: they are named in the log and change nothing.
fn kinds_left_out(list: &str) -> BTreeSet<Kind> {
    let mut left_out = BTreeSet::new();
    let mut is_first = true;
    for word in list
        .split(',')
        .map(str::trim)
        .filter(|word| !word.is_empty())
    {
        let (name, wanted) = match word.strip_prefix('^') {
            Some(name) => (name.trim(), false),
            None => (word, true),
        };
        let is_of_core = |kind: &Kind| kind.is_inside_execution() || *kind == Kind::Running;
        let meant = |kind: &Kind| match name {
            "hardware" => is_of_core(kind),
            "software" => !is_of_core(kind),
            _ => kind.name() == name,
        };
        let kinds: Vec<Kind> = Kind::ALL.into_iter().filter(meant).collect();
        if kinds.is_empty() {
            log().warning(Component::Nrt, "nrt_inspect", format_args!(
                "NEURON_RT_INSPECT_EVENT_FILTER_TYPE: no event type is called '{name}': it is left \
                 aside; expected {}, hardware or software",
                Kind::ALL.map(Kind::name).join(", ")
            ));
            continue;
        }
        // A list that begins with what is wanted wants nothing else.
        if is_first && wanted {
            left_out = Kind::ALL.into_iter().collect();
        }
        is_first = false;
        for kind in kinds {
            match wanted {
                true => left_out.remove(&kind),
                false => left_out.insert(kind),
            };
        }
    }
    left_out
}

struct Session {
    config: Config,
    started: Instant,
    /// Of the process, when it started.
    usage: Usage,
}

/// What a process has used: seconds of its threads, pages of memory.
#[derive(Debug, Clone, Copy, Default)]
struct Usage {
    cpu_ticks: u64,
    resident_pages: u64,
}

impl Usage {
    /// Of now, from `/proc`; zero where that is not to be had.
    fn now() -> Self {
        let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
        // Behind the name, which may hold anything; fields 14 and 15 are user and system ticks.
        let behind = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
        let field = |at: usize| {
            let field = behind.split_whitespace().nth(at);
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

/// Ends a session and writes what it recorded.
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

/// Starts a session with the runtime, when the environment wants one.
pub(crate) fn begin_with_process() -> Result<()> {
    match flag("NEURON_RT_INSPECT_ENABLE")? || flag("NEURON_RT_INSPECT_ON_FAIL")? {
        true => begin(Config::from_environment()?),
        false => Ok(()),
    }
}

/// Ends a session that still runs when the runtime ends.
pub(crate) fn end_with_process() -> Result<()> {
    // The lock must be free again: ending takes it.
    let runs = lock(&SESSION).is_some();
    match runs {
        true => end(),
        false => Ok(()),
    }
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
        let config = match options.is_null() {
            true => Config::default(),
            false => lock(&*CONFIGS.find(options)?).clone(),
        };
        begin(config)
    }

    fn nrt_inspect_stop() {
        process::check()?;
        end()
    }

    fn nrt_inspect_config_allocate(options: *mut Handle) {
        check(options, "options")?;
        // SAFETY: the caller's place for a handle.
        unsafe { give(options, "options", CONFIGS.insert(Arc::default())?) }
    }

    fn nrt_inspect_config_set_defaults(options: *mut c_void) {
        change(options, |config| {
            *config = Config::default();
            Ok(())
        })
    }

    fn nrt_inspect_config_free(options: *mut c_void) {
        CONFIGS.take(options).map(drop)
    }

    fn nrt_inspect_config_set_session_id(options: *mut c_void, session_id: c_int) {
        change(options, |config| {
            config.session = session_id;
            Ok(())
        })
    }

    fn nrt_inspect_config_set_output_dir(options: *mut c_void, output_dir: *const c_char) {
        // SAFETY: the caller's path.
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
            config.filter.most = events(sys_trace_max_events_per_nc)?;
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
        // SAFETY: the caller's text.
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
        // SAFETY: the caller's places for a list and its length, here and below.
        unsafe { give_texts(&ACTIVITIES, activity_types, count) }
    }

    fn nrt_inspect_config_get_enabled_activity_types(
        options: *mut c_void, activity_types: *mut *mut *mut c_char, count: *mut usize,
    ) {
        let enabled = lock(&*CONFIGS.find(options)?).enabled();
        // SAFETY: as above.
        unsafe { give_texts(&enabled, activity_types, count) }
    }

    fn nrt_inspect_config_free_activity_types(
        activity_types: *mut *mut c_char, _count: usize,
    ) -> () {
        let _ = attempt("nrt_inspect_config_free_activity_types", || free_texts(activity_types));
    }

    fn nrt_inspect_config_set_activity(
        options: *mut c_void, activity_type: *const c_char, enabled: bool,
    ) {
        // SAFETY: the caller's text.
        let name = unsafe { text(activity_type, "activity_type")? };
        let at = ACTIVITIES.iter().position(|known| *known == name);
        let at = at.ok_or_else(|| {
            invalid("there is no such activity").expected(ACTIVITIES.join(", ")).found(name)
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
    fn a_list_has_kinds_groups_and_exceptions() {
        let wanted = |list: &str| -> Vec<&str> {
            let left_out = kinds_left_out(list);
            let wanted = Kind::ALL
                .into_iter()
                .filter(|kind| !left_out.contains(kind));
            wanted.map(Kind::name).collect()
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
        assert_eq!(wanted("kernel, dma"), ["kernel", "dma"]);
        assert_eq!(wanted("hardware"), inside);
        let without = wanted("hardware,^loop,^counter,^nc_exec_running");
        assert_eq!(without, inside[..4]);
        assert_eq!(
            wanted("software,kernel").len(),
            all.len() - inside.len() + 1
        );
        assert_eq!(wanted("^hardware"), wanted("software"));
        assert_eq!(wanted("^kernel").len(), all.len() - 1);
        for meaningless in ["", ",", "nc_model_switch", "^"] {
            assert_eq!(wanted(meaningless), all, "{meaningless}");
        }
        assert_eq!(wanted("nc_model_switch,kernel"), ["kernel"]);
    }
}
