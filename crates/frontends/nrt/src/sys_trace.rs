//! System traces: events of the runtime, kept in a ring buffer for each core and fetched as JSON.

use crate::allocations::CallerAllocations;
use crate::call::{attempt, entry};
use crate::handles::{Handle, Handles, table};
use crate::lists::{free_texts, write_texts};
use crate::process;
use crate::trace::{self, Filter, Kind, Purpose};
use std::ffi::{c_char, c_void};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tenon_base::{Error, ErrorKind, Result};
use tenon_c_callers::arguments::{check, invalid, text, write_output};

/// Configurations of traces.
static CONFIGS: Handles<Arc<Mutex<Filter>>> = table(0x72, "trace configuration");

/// Options of fetching.
static OPTIONS: Handles<Arc<Mutex<Fetch>>> = table(0x66, "fetch options");

/// JSON texts owned by callers.
static BUFFERS: CallerAllocations = CallerAllocations::new("buffer");

/// The events to fetch: of all cores, or of one.
#[derive(Debug, Clone, Copy)]
struct Fetch {
    core: Option<u32>,
    max_events: usize,
}

impl Default for Fetch {
    fn default() -> Self {
        Self {
            core: None,
            max_events: usize::MAX,
        }
    }
}

pub(crate) fn lock<T>(value: &Mutex<T>) -> MutexGuard<'_, T> {
    value.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Changes a configuration; errors are logged, since the functions return no status.
fn change(
    function: &'static str,
    config: *const c_void,
    change: impl FnOnce(&mut Filter) -> Result<()>,
) {
    let _ = attempt(function, || change(&mut lock(&*CONFIGS.find(config)?)));
}

fn change_fetch(
    function: &'static str,
    options: *const c_void,
    change: impl FnOnce(&mut Fetch) -> Result<()>,
) {
    let _ = attempt(function, || change(&mut lock(&*OPTIONS.find(options)?)));
}

/// A positive number of events.
pub(crate) fn event_count(count: u64) -> Result<usize> {
    let count = usize::try_from(count).ok().filter(|&count| count > 0);
    count.ok_or_else(|| invalid("the number of events must be positive"))
}

entry! {
    fn nrt_sys_trace_config_allocate(options: *mut Handle) {
        check(options, "options")?;
        // SAFETY: `options` is null or writable (header).
        unsafe { write_output(options, "options", CONFIGS.insert(Arc::default())?) }
    }

    fn nrt_sys_trace_config_set_defaults(options: *mut c_void) -> () {
        change("nrt_sys_trace_config_set_defaults", options, |filter| {
            *filter = Filter::default();
            Ok(())
        });
    }

    fn nrt_sys_trace_config_free(options: *mut c_void) -> () {
        let _ = attempt("nrt_sys_trace_config_free", || CONFIGS.remove(options).map(drop));
    }

    fn nrt_sys_trace_config_set_max_events_per_nc(
        options: *mut c_void, max_events_per_nc: u64,
    ) -> () {
        change("nrt_sys_trace_config_set_max_events_per_nc", options, |filter| {
            filter.max_events = event_count(max_events_per_nc)?;
            Ok(())
        });
    }

    fn nrt_sys_trace_config_set_capture_enabled_for_nc(
        options: *mut c_void, nc_idx: u32, enabled: bool,
    ) -> () {
        change("nrt_sys_trace_config_set_capture_enabled_for_nc", options, |filter| {
            filter.set_core(nc_idx, enabled);
            Ok(())
        });
    }

    fn nrt_sys_trace_config_set_capture_enabled_for_event_type(
        options: *mut c_void, event_type: *const c_char, enabled: bool,
    ) {
        let config = CONFIGS.find(options)?;
        // SAFETY: `event_type` is null or NUL-terminated (header).
        let kind = Kind::named(unsafe { text(event_type, "event_type")? })?;
        lock(&config).set_kind(kind, enabled);
        Ok(())
    }

    fn nrt_sys_trace_get_event_types(event_types: *mut *mut *mut c_char, count: *mut usize) {
        // SAFETY: `event_types` and `count` are null or writable (header).
        unsafe { write_texts(&Kind::ALL.map(Kind::name), event_types, count) }
    }

    fn nrt_sys_trace_config_get_enabled_event_types(
        options: *mut c_void, event_types: *mut *mut *mut c_char, count: *mut usize,
    ) {
        let config = CONFIGS.find(options)?;
        let enabled = Kind::ALL.into_iter().filter(|kind| !lock(&config).without_kinds.contains(kind));
        let names: Vec<&str> = enabled.map(Kind::name).collect();
        // SAFETY: `event_types` and `count` are null or writable (header).
        unsafe { write_texts(&names, event_types, count) }
    }

    fn nrt_sys_trace_free_event_types(event_types: *mut *mut c_char, _count: usize) -> () {
        let _ = attempt("nrt_sys_trace_free_event_types", || free_texts(event_types));
    }

    fn nrt_sys_trace_start(options: *mut c_void) {
        process::check()?;
        let filter = if options.is_null() {
            Filter::default()
        } else {
            lock(&*CONFIGS.find(options)?).clone()
        };
        trace::start(Purpose::System, filter)
    }

    fn nrt_sys_trace_stop() {
        process::check()?;
        trace::stop(Purpose::System).map(drop)
    }

    fn nrt_sys_trace_fetch_options_allocate(options: *mut Handle) {
        check(options, "options")?;
        // SAFETY: `options` is null or writable (header).
        unsafe { write_output(options, "options", OPTIONS.insert(Arc::default())?) }
    }

    fn nrt_sys_trace_fetch_options_set_defaults(options: *mut c_void) -> () {
        change_fetch("nrt_sys_trace_fetch_options_set_defaults", options, |fetch| {
            *fetch = Fetch::default();
            Ok(())
        });
    }

    fn nrt_sys_trace_fetch_options_free(options: *mut c_void) -> () {
        let _ = attempt("nrt_sys_trace_fetch_options_free", || OPTIONS.remove(options).map(drop));
    }

    fn nrt_sys_trace_fetch_options_set_max_events_per_nc(
        options: *mut c_void, max_events_per_nc: u64,
    ) -> () {
        change_fetch("nrt_sys_trace_fetch_options_set_max_events_per_nc", options, |fetch| {
            fetch.max_events = event_count(max_events_per_nc)?;
            Ok(())
        });
    }

    fn nrt_sys_trace_fetch_options_set_nc_idx(options: *mut c_void, nc_idx: u64) -> () {
        change_fetch("nrt_sys_trace_fetch_options_set_nc_idx", options, |fetch| {
            let core = u32::try_from(nc_idx);
            fetch.core = Some(core.map_err(|_| invalid("there is no such core").found(nc_idx))?);
            Ok(())
        });
    }

    fn nrt_sys_trace_fetch_events(
        buffer: *mut *mut c_char, written_size: *mut usize, options: *const c_void,
    ) {
        process::check()?;
        check(buffer, "buffer")?;
        check(written_size, "written_size")?;
        let fetch = if options.is_null() {
            Fetch::default()
        } else {
            *lock(&*OPTIONS.find(options)?)
        };
        let text = trace::capture(Purpose::System)?.take(fetch.core, fetch.max_events).json();
        // SAFETY: `start` has `text.len() + 1` writable bytes and is new, so it does not overlap
        // `text`; `buffer` and `written_size` are null or writable (header).
        unsafe {
            let start = libc::malloc(text.len() + 1).cast::<u8>();
            if start.is_null() {
                return Err(Error::new(ErrorKind::OutOfMemory, "cannot allocate the events"));
            }
            start.copy_from_nonoverlapping(text.as_ptr(), text.len());
            start.add(text.len()).write(0);
            BUFFERS.register(start, 0);
            write_output(buffer, "buffer", start.cast())?;
            write_output(written_size, "written_size", text.len())
        }
    }

    fn nrt_sys_trace_buffer_free(buffer: *mut c_char) -> () {
        let _ = attempt("nrt_sys_trace_buffer_free", || {
            if !buffer.is_null() {
                BUFFERS.unregister(buffer)?;
                // SAFETY: `nrt_sys_trace_fetch_events` allocated it by `malloc`; it was registered
                // until now, so it is freed once.
                unsafe { libc::free(buffer.cast()) };
            }
            Ok(())
        });
    }
}
