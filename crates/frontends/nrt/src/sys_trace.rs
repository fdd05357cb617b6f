//! Events of the runtime itself, kept in a ring for each core and fetched as JSON.

use crate::arguments::{check, give, invalid, text};
use crate::call::{attempt, entry};
use crate::given::Given;
use crate::handles::{Handle, Handles};
use crate::lists::{free_texts, give_texts};
use crate::process;
use crate::trace::{self, Filter, Kind, Purpose};
use std::ffi::{c_char, c_void};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tenon_base::{Error, ErrorKind, Result};

/// What will be recorded.
static CONFIGS: Handles<Arc<Mutex<Filter>>> = Handles::new(0x72, "trace configuration");

/// What will be fetched.
static OPTIONS: Handles<Arc<Mutex<Fetch>>> = Handles::new(0x66, "fetch options");

/// Texts of events that callers have.
static BUFFERS: Given = Given::new("buffer");

/// What is fetched: of all cores, or of one.
#[derive(Debug, Clone, Copy)]
struct Fetch {
    core: Option<u32>,
    most: usize,
}

impl Default for Fetch {
    fn default() -> Self {
        Self {
            core: None,
            most: usize::MAX,
        }
    }
}

pub(crate) fn lock<T>(value: &Mutex<T>) -> MutexGuard<'_, T> {
    value.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Changes a configuration; what cannot be answered is told in the log.
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

/// A number of events.
pub(crate) fn events(count: u64) -> Result<usize> {
    let count = usize::try_from(count).ok().filter(|&count| count > 0);
    count.ok_or_else(|| invalid("a core keeps at least one event"))
}

entry! {
    fn nrt_sys_trace_config_allocate(options: *mut Handle) {
        check(options, "options")?;
        // SAFETY: the caller's place for a handle.
        unsafe { give(options, "options", CONFIGS.insert(Arc::default())?) }
    }

    fn nrt_sys_trace_config_set_defaults(options: *mut c_void) -> () {
        change("nrt_sys_trace_config_set_defaults", options, |filter| {
            *filter = Filter::default();
            Ok(())
        });
    }

    fn nrt_sys_trace_config_free(options: *mut c_void) -> () {
        let _ = attempt("nrt_sys_trace_config_free", || CONFIGS.take(options).map(drop));
    }

    fn nrt_sys_trace_config_set_max_events_per_nc(
        options: *mut c_void, max_events_per_nc: u64,
    ) -> () {
        change("nrt_sys_trace_config_set_max_events_per_nc", options, |filter| {
            filter.most = events(max_events_per_nc)?;
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
        // SAFETY: the caller's text.
        let kind = Kind::named(unsafe { text(event_type, "event_type")? })?;
        lock(&config).set_kind(kind, enabled);
        Ok(())
    }

    fn nrt_sys_trace_get_event_types(event_types: *mut *mut *mut c_char, count: *mut usize) {
        // SAFETY: the caller's places for a list and its length, here and below.
        unsafe { give_texts(&Kind::ALL.map(Kind::name), event_types, count) }
    }

    fn nrt_sys_trace_config_get_enabled_event_types(
        options: *mut c_void, event_types: *mut *mut *mut c_char, count: *mut usize,
    ) {
        let config = CONFIGS.find(options)?;
        let wanted = Kind::ALL.into_iter().filter(|kind| !lock(&config).without_kinds.contains(kind));
        let names: Vec<&str> = wanted.map(Kind::name).collect();
        // SAFETY: as above.
        unsafe { give_texts(&names, event_types, count) }
    }

    fn nrt_sys_trace_free_event_types(event_types: *mut *mut c_char, _count: usize) -> () {
        let _ = attempt("nrt_sys_trace_free_event_types", || free_texts(event_types));
    }

    fn nrt_sys_trace_start(options: *mut c_void) {
        process::check()?;
        let filter = match options.is_null() {
            true => Filter::default(),
            false => lock(&*CONFIGS.find(options)?).clone(),
        };
        trace::start(Purpose::System, filter)
    }

    fn nrt_sys_trace_stop() {
        process::check()?;
        trace::stop(Purpose::System).map(drop)
    }

    fn nrt_sys_trace_fetch_options_allocate(options: *mut Handle) {
        check(options, "options")?;
        // SAFETY: the caller's place for a handle.
        unsafe { give(options, "options", OPTIONS.insert(Arc::default())?) }
    }

    fn nrt_sys_trace_fetch_options_set_defaults(options: *mut c_void) -> () {
        change_fetch("nrt_sys_trace_fetch_options_set_defaults", options, |fetch| {
            *fetch = Fetch::default();
            Ok(())
        });
    }

    fn nrt_sys_trace_fetch_options_free(options: *mut c_void) -> () {
        let _ = attempt("nrt_sys_trace_fetch_options_free", || OPTIONS.take(options).map(drop));
    }

    fn nrt_sys_trace_fetch_options_set_max_events_per_nc(
        options: *mut c_void, max_events_per_nc: u64,
    ) -> () {
        change_fetch("nrt_sys_trace_fetch_options_set_max_events_per_nc", options, |fetch| {
            fetch.most = events(max_events_per_nc)?;
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
        let fetch = match options.is_null() {
            true => Fetch::default(),
            false => *lock(&*OPTIONS.find(options)?),
        };
        let text = trace::capture(Purpose::System)?.take(fetch.core, fetch.most).json();
        // SAFETY: as many bytes as the text has and a NUL; the caller's places.
        unsafe {
            let start = libc::malloc(text.len() + 1).cast::<u8>();
            if start.is_null() {
                return Err(Error::new(ErrorKind::OutOfMemory, "cannot allocate the events"));
            }
            start.copy_from_nonoverlapping(text.as_ptr(), text.len());
            start.add(text.len()).write(0);
            BUFFERS.note(start, 0);
            give(buffer, "buffer", start.cast())?;
            give(written_size, "written_size", text.len())
        }
    }

    fn nrt_sys_trace_buffer_free(buffer: *mut c_char) -> () {
        let _ = attempt("nrt_sys_trace_buffer_free", || {
            if !buffer.is_null() {
                BUFFERS.take(buffer)?;
                // SAFETY: made by `malloc` above, and just taken back.
                unsafe { libc::free(buffer.cast()) };
            }
            Ok(())
        });
    }
}
