//! Profiles of one model, of all models, and of the whole process.

use crate::call::entry;
use crate::handles::{Handle, Handles, table};
use crate::models::model;
use crate::process::{self, process};
use crate::sys_trace::lock;
use crate::trace::{self, Filter, Kind, Purpose};
use std::ffi::{c_char, c_void};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use tenon_base::{Error, Result};
use tenon_c_callers::arguments::{check, invalid, path, write_output};

/// Output folders of profiles of all models.
static OPTIONS: Handles<Arc<Mutex<PathBuf>>> = table(0x6f, "profile options");

/// The output file of the profile of one model.
static FILE: Mutex<Option<PathBuf>> = Mutex::new(None);

/// The default folder of profiles.
pub(crate) const FOLDER: &str = "./output";

/// Events kept for each core while all models are profiled.
const CONTINUOUS_EVENTS: usize = 1 << 16;

/// Whether events of a kind belong to the profile of a device.
pub(crate) fn is_of_device(kind: Kind) -> bool {
    kind == Kind::Execute || kind.is_inside_execution()
}

pub(crate) fn write(path: &Path, text: &str) -> Result<()> {
    std::fs::write(path, text).map_err(|error| Error::io(path, "write", error))
}

/// Creates a folder and its parents.
pub(crate) fn make_folder(path: &Path) -> Result<()> {
    std::fs::create_dir_all(path).map_err(|error| Error::io(path, "make", error))
}

entry! {
    fn nrt_profile_start(model: *mut c_void, filename: *const c_char) {
        let model = self::model(model)?;
        // SAFETY: `filename` is null or NUL-terminated (header).
        let path = unsafe { path(filename, "filename")? };
        // Fails now rather than at the end of profiling.
        File::create(path).map_err(|error| Error::io(path, "write", error))?;
        trace::start(Purpose::Profile, Filter { model: Some(model.id()), ..Filter::default() })?;
        *lock(&FILE) = Some(path.to_owned());
        Ok(())
    }

    fn nrt_profile_stop(filename: *const c_char) {
        process::check()?;
        // SAFETY: `filename` is null or NUL-terminated (header).
        let path = unsafe { path(filename, "filename")? };
        let mut file = lock(&FILE);
        match &*file {
            Some(started) if started == path => {}
            Some(started) => {
                return Err(invalid("the profile was started with another file")
                    .expected(started.display())
                    .found(path.display()));
            }
            None => return Err(invalid("no profile was started")),
        }
        *file = None;
        drop(file);
        let events = trace::stop(Purpose::Profile)?.take(None, usize::MAX);
        write(path, &events.perfetto(|_| true))
    }

    fn nrt_trace_start(_trace_mem: bool) {
        process::check()?;
        trace::start(Purpose::Whole, Filter::default())
    }

    fn nrt_trace_stop(filename: *const c_char) {
        process::check()?;
        // SAFETY: `filename` is null or NUL-terminated (header).
        let path = unsafe { path(filename, "filename")? };
        let events = trace::stop(Purpose::Whole)?.take(None, usize::MAX);
        write(path, &events.perfetto(|_| true))
    }

    fn nrt_profile_continuous_options_allocate(options: *mut Handle) {
        check(options, "options")?;
        let folder = Arc::new(Mutex::new(PathBuf::from(FOLDER)));
        // SAFETY: `options` is null or writable (header).
        unsafe { write_output(options, "options", OPTIONS.insert(folder)?) }
    }

    fn nrt_profile_continuous_options_free(options: *mut c_void) {
        OPTIONS.remove(options).map(drop)
    }

    fn nrt_profile_continuous_options_set_output_dir(
        options: *mut c_void, output_dir: *const c_char,
    ) {
        let folder = OPTIONS.find(options)?;
        // SAFETY: `output_dir` is null or NUL-terminated (header).
        *lock(&folder) = unsafe { path(output_dir, "output_dir")? }.to_owned();
        Ok(())
    }

    fn nrt_profile_continuous_start(options: *mut c_void) {
        process::check()?;
        OPTIONS.find(options)?;
        trace::start(Purpose::Continuous, Filter { max_events: CONTINUOUS_EVENTS, ..Filter::default() })
    }

    fn nrt_profile_continuous_save(vnc: u32, options: *mut c_void) {
        process()?.cores.core(vnc)?;
        let folder = lock(&*OPTIONS.find(options)?).clone();
        let events = trace::capture(Purpose::Continuous)?.take(Some(vnc), usize::MAX);
        make_folder(&folder)?;
        let number = std::process::id();
        // The first unused name: a process may save several profiles.
        let name = |time: u32| folder.join(format!("profile_nc_{vnc}_pid_{number}_{time}.json"));
        let path = (0..u32::MAX).map(name).find(|path| !path.exists());
        write(&path.unwrap_or_else(|| name(0)), &events.perfetto(is_of_device))
    }

    fn nrt_profile_continuous_stop() {
        process::check()?;
        trace::stop(Purpose::Continuous).map(drop)
    }
}
