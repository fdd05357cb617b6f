//! A caller of the C interface, and what holds for every call.

use crate::arguments::{ENDS, EXPECTED_ENDS};
use crate::memory::{Address, Memory};
use crate::objects::{Argument, Handle, Kind, Objects, Origin};
use crate::seeds::{Seeds, seeds};
use std::ffi::{CStr, c_char};
use std::path::PathBuf;
use std::ptr::null_mut;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use tempfile::TempDir;
use tenon_c::{Functions, TaskOptions};
use tenon_random_nodes::Choices;

/// `TENON_INVALID_HANDLE` and `TENON_INTERNAL`.
const INVALID_HANDLE: i32 = 12;
const INTERNAL: i32 = 21;
/// Seconds after which an execution must stop that may be without end.
const DEADLINE: f64 = 0.005;

/// A case: the table, what it has made, and the choices that are left.
pub struct Caller<'a> {
    pub api: &'static Functions,
    pub seeds: &'static Seeds,
    pub choices: Choices<'a>,
    pub objects: Objects,
    pub memory: Memory,
    /// A task with a deadline, for executions that may be without end.
    pub deadline: Handle,
    /// The arguments of the call are valid.
    pub is_careful: bool,
    /// Compilations, of which a case has few, since they take long.
    pub compiled: usize,
    folder: Option<TempDir>,
}

/// Calls a function of the table.
#[macro_export]
macro_rules! call {
    ($api:expr, $name:ident $(, $argument:expr)*) => {{
        let function = $api.$name;
        // SAFETY: pointers lead to as much memory as the header requires, or are null or not aligned.
        unsafe { function($($argument),*) }
    }};
}

/// A text that the library returned; `None` for NULL.
///
/// # Safety
/// `text` is null or a text that ends with NUL, which is valid for `'a`.
pub unsafe fn read_text<'a>(text: *const c_char) -> Option<&'a str> {
    // SAFETY: not null, a text (requirement).
    let text = (!text.is_null()).then(|| unsafe { CStr::from_ptr(text) });
    text.map(|text| text.to_str().expect("texts of the library are UTF-8"))
}

impl<'a> Caller<'a> {
    pub fn new(bytes: &'a [u8]) -> Self {
        // SAFETY: null, or the table, which is never freed.
        let api = unsafe { tenon_c::tenon_api(1, 0).as_ref() }.expect("the table");
        let mut caller = Self {
            api,
            seeds: seeds(),
            choices: Choices::new(bytes),
            objects: Objects::default(),
            memory: Memory::default(),
            deadline: null_mut(),
            is_careful: true,
            compiled: 0,
            folder: None,
        };
        let options = TaskOptions {
            size: size_of::<TaskOptions>(),
            timeout_seconds: DEADLINE,
            progress: None,
            context: null_mut(),
        };
        assert!(call!(api, task_create, &options, &mut caller.deadline).is_null());
        caller
            .objects
            .add(Kind::Task, caller.deadline, Origin::default());
        caller
    }

    /// The folder of the case, with a model and a package.
    pub fn folder(&mut self) -> PathBuf {
        let folder = self.folder.get_or_insert_with(|| {
            let folder = tempfile::tempdir().expect("a folder");
            let write = |name: &str, bytes: &[u8]| {
                std::fs::write(folder.path().join(name), bytes).expect("a file");
            };
            write("model.onnx", &self.seeds.models[0].bytes);
            write("package.neff", &self.seeds.packages[0].bytes);
            std::fs::create_dir(folder.path().join("empty")).expect("a folder");
            folder
        });
        folder.path().to_owned()
    }

    /// Checks the status of a call; whether it succeeded.
    pub fn succeeded(&mut self, status: Handle, first: &Argument, others: &[&Argument]) -> bool {
        if status.is_null() {
            let live = |argument: &&Argument| argument.is_live || argument.handle.is_null();
            assert!(
                first.is_live,
                "an invalid handle was accepted: {:?}",
                first.handle
            );
            assert!(others.iter().all(live), "an invalid handle was accepted");
            return true;
        }
        let code = self.failed(status);
        assert!(
            first.is_live || code == INVALID_HANDLE,
            "an invalid handle gave code {code}"
        );
        false
    }

    /// The code of a status, which is checked, and in most cases freed.
    pub fn failed(&mut self, status: Handle) -> i32 {
        let api = self.api;
        let code = call!(api, status_code, status);
        let text = call!(api, status_text, status);
        // SAFETY: a text of a live status.
        let text = unsafe { read_text(text) }.unwrap_or_default();
        assert!((1..INTERNAL).contains(&code), "code {code}: {text}");
        assert!(!text.is_empty());
        let count = call!(api, status_problem_count, status);
        assert!(count > 0);
        for problem in (0..count.min(4)).chain([count, usize::MAX]) {
            for part in [1, 2, 3, 4, 5, 0, -1, 6, i32::MIN, i32::MAX] {
                let text = call!(api, status_part, status, problem, part);
                // SAFETY: as above.
                let text = unsafe { read_text(text) };
                let is_a_part = problem < count && (1..=5).contains(&part);
                assert!(is_a_part || text.is_none());
                assert!(!is_a_part || part != 2 || text.is_some_and(|text| !text.is_empty()));
            }
        }
        if self.choices.one_in(8) {
            self.objects.add(Kind::Status, status, Origin::default());
        } else {
            call!(api, status_free, status);
            self.check_no_status(status);
        }
        code
    }

    /// A value that is no status, or was freed.
    pub fn check_no_status(&self, status: Handle) {
        let api = self.api;
        let expected = if status.is_null() { 0 } else { INVALID_HANDLE };
        assert_eq!(call!(api, status_code, status), expected);
        let text = call!(api, status_text, status);
        // SAFETY: a constant of the library.
        assert!(unsafe { read_text(text) }.is_some());
        assert_eq!(call!(api, status_problem_count, status), 0);
        assert!(call!(api, status_part, status, 0, 2).is_null());
    }

    /// Records the object that a call has made.
    pub fn made(
        &mut self,
        kind: Kind,
        status: Handle,
        arguments: (&Argument, &[&Argument]),
        place: &Address<Handle>,
        origin: Origin,
    ) -> bool {
        let is_made = self.succeeded(status, arguments.0, arguments.1);
        match is_made {
            true => self.objects.add(kind, place.written(), origin),
            false => place.check_unwritten(),
        }
        is_made
    }

    /// Calls a function that returns a value of an object.
    pub fn query<T: Copy>(
        &mut self,
        object: &Argument,
        call: impl FnOnce(Handle, *mut T) -> Handle,
    ) -> Option<T> {
        let place = self.place();
        let status = call(object.handle, place.pointer);
        if self.succeeded(status, object, &[]) {
            return Some(place.written());
        }
        place.check_unwritten();
        None
    }

    /// Calls a function that makes an object of another one.
    pub fn query_object(
        &mut self,
        kind: Kind,
        of: Kind,
        call: impl FnOnce(Handle, *mut Handle) -> Handle,
    ) {
        let object = self.argument(of);
        if let Some(handle) = self.query(&object, call) {
            self.objects.add(kind, handle, object.origin);
        }
    }

    /// Frees an object, or tries to free what is none.
    pub fn free(&mut self, kind: Kind, argument: &Argument) {
        let api = self.api;
        if kind == Kind::Status {
            call!(api, status_free, argument.handle);
            self.check_no_status(argument.handle);
        } else {
            let function = match kind {
                Kind::Status | Kind::Task => api.task_free,
                Kind::Package => api.package_free,
                Kind::Model => api.model_free,
                Kind::Outputs => api.outputs_free,
                Kind::Bindings => api.bindings_free,
                Kind::Session => api.session_free,
                Kind::Run => api.run_free,
                Kind::Blob => api.blob_free,
            };
            // SAFETY: it takes any value.
            let status = unsafe { function(argument.handle) };
            if argument.handle.is_null() {
                assert!(status.is_null(), "NULL is freed");
            } else if !self.succeeded(status, argument, &[]) {
                assert!(!argument.is_live, "a live object is freed");
            }
        }
        if argument.is_live {
            self.objects.freed(argument.handle);
        }
    }

    /// Frees everything, and waits for the ends of executions.
    pub fn end(mut self) {
        self.choices = Choices::new(&[]);
        while let Some(object) = self.objects.0.iter().find(|object| object.is_live) {
            let argument = self.objects.argument(object.kind, object.handle);
            self.free(object.kind, &argument);
        }
        let limit = Instant::now() + Duration::from_secs(8);
        while ENDS.load(Ordering::SeqCst) < EXPECTED_ENDS.load(Ordering::SeqCst) {
            assert!(Instant::now() < limit, "`ended` was not called");
            std::thread::sleep(Duration::from_micros(50));
        }
        assert_eq!(
            ENDS.load(Ordering::SeqCst),
            EXPECTED_ENDS.load(Ordering::SeqCst)
        );
    }
}
