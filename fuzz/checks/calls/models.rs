//! Calls that compile and load models, and read what they are.

use crate::call;
use crate::caller::{Caller, read_text};
use crate::objects::{Argument, Handle, Kind, Origin, PortInfo};
use std::ffi::{CString, c_char, c_void};
use std::ptr::{null, null_mut};
use std::rc::Rc;
use tenon_c::{Functions, Port};

/// Compilations of a case.
const MAX_COMPILED: usize = 2;

/// The ports of a model, which has just been made.
fn ports(api: &Functions, model: Handle, is_output: bool) -> Rc<[PortInfo]> {
    let mut count = 0;
    let status = match is_output {
        false => call!(api, model_input_count, model, &mut count),
        true => call!(api, model_output_count, model, &mut count),
    };
    assert!(status.is_null());
    let port = |index| {
        // SAFETY: zero is valid for integers and pointers.
        let mut port = Port {
            size: size_of::<Port>(),
            ..unsafe { std::mem::zeroed() }
        };
        let status = match is_output {
            false => call!(api, model_input, model, index, &mut port),
            true => call!(api, model_output, model, index, &mut port),
        };
        assert!(status.is_null());
        // SAFETY: texts and arrays that are valid until the model is freed (header).
        let (name, extents, symbols) = unsafe {
            let rank = port.rank as usize;
            let symbols = std::slice::from_raw_parts(port.symbols, rank).iter();
            let symbols: Vec<_> = symbols.filter_map(|&symbol| read_text(symbol)).collect();
            let extents = std::slice::from_raw_parts(port.extents, rank);
            (
                read_text(port.name).expect("a name"),
                extents.to_vec(),
                symbols,
            )
        };
        assert_eq!(
            symbols.len(),
            extents.iter().filter(|&&extent| extent == -1).count()
        );
        let text = |text: &str| CString::new(text).expect("without NUL");
        PortInfo {
            name: text(name),
            code: port.dtype,
            extents,
            symbols: symbols.into_iter().map(text).collect(),
        }
    };
    (0..count).map(port).collect()
}

impl Caller<'_> {
    /// Loads a package, with which later calls execute.
    pub fn first_model(&mut self) {
        let at = self.choices.below(self.seeds.packages.len() + 1);
        let Some(package) = self.seeds.packages.get(at) else {
            return;
        };
        let (start, length) = (package.bytes.as_ptr().cast::<c_void>(), package.bytes.len());
        let mut model = null_mut();
        let status = call!(
            self.api,
            model_load_bytes,
            start,
            length,
            null(),
            &mut model
        );
        assert!(status.is_null());
        self.add_model(model, package.ends);
    }

    fn add_model(&mut self, model: Handle, ends: bool) {
        let ports = [false, true].map(|is_output| ports(self.api, model, is_output));
        self.objects.add(Kind::Model, model, Origin { ends, ports });
    }

    /// The argument of functions without a handle.
    fn no_handle() -> Argument {
        Argument {
            handle: null_mut(),
            is_live: true,
            origin: Origin::default(),
        }
    }

    pub fn versions(&mut self) {
        let version = call!(self.api, version);
        // SAFETY: a constant of the library.
        assert!(unsafe { read_text(version) }.is_some());
        let (major, minor) = (self.choices.below(3) as u32, self.choices.below(3) as u32);
        assert_eq!(
            tenon_c::tenon_api(major, minor).is_null(),
            major != 1 || minor > 1
        );
        self.check_no_status(null_mut());
        let other = self.argument(Kind::Status);
        if !other.is_live {
            self.check_no_status(other.handle);
        }
    }

    pub fn task_create(&mut self) {
        let (options, place) = (self.task_options(), self.place());
        let status = call!(self.api, task_create, options, place.pointer);
        let first = Self::no_handle();
        self.made(Kind::Task, status, (&first, &[]), &place, Origin::default());
    }

    pub fn task_cancel(&mut self) {
        let task = self.argument(Kind::Task);
        if task.handle != self.deadline {
            let status = call!(self.api, task_cancel, task.handle);
            assert_eq!(self.succeeded(status, &task, &[]), task.is_live);
        }
    }

    pub fn compile_file(&mut self) {
        self.compiled += 1;
        if self.compiled > MAX_COMPILED {
            return;
        }
        let origin = Origin {
            ends: true,
            ..Origin::default()
        };
        let path = self.path();
        let (options, task) = self.compile_options(&origin);
        let place = self.place();
        let status = call!(self.api, compile_file, path, options, place.pointer);
        self.made(
            Kind::Package,
            status,
            (&Self::no_handle(), &[&task]),
            &place,
            origin,
        );
    }

    pub fn compile_bytes(&mut self) {
        self.compiled += 1;
        if self.compiled > MAX_COMPILED {
            return;
        }
        let (onnx, origin) = self.bytes(&self.seeds.models);
        let (options, task) = self.compile_options(&origin);
        let place = self.place();
        let start = onnx.start.cast_const().cast();
        let status = call!(
            self.api,
            compile_bytes,
            start,
            onnx.count,
            options,
            place.pointer
        );
        self.made(
            Kind::Package,
            status,
            (&Self::no_handle(), &[&task]),
            &place,
            origin,
        );
    }

    pub fn quantize_bytes(&mut self) {
        self.compiled += 1;
        if self.compiled > MAX_COMPILED {
            return;
        }
        let (onnx, origin) = self.bytes(&self.seeds.models);
        let (options, task) = self.quantize_options(&origin);
        let place = self.place();
        let start = onnx.start.cast_const().cast();
        let status = call!(
            self.api,
            quantize_bytes,
            start,
            onnx.count,
            options,
            place.pointer,
            null_mut()
        );
        let none = Self::no_handle();
        self.made(Kind::Blob, status, (&none, &[&task]), &place, Origin::default());
    }

    pub fn package_write(&mut self) {
        let package = self.argument(Kind::Package);
        let task = self.task(&package.origin);
        let path = self.path();
        let status = call!(self.api, package_write, package.handle, path, task.handle);
        self.succeeded(status, &package, &[&task]);
    }

    pub fn package_bytes(&mut self) {
        let package = self.argument(Kind::Package);
        let (task, place) = (self.task(&package.origin), self.place());
        let status = call!(
            self.api,
            package_bytes,
            package.handle,
            task.handle,
            place.pointer
        );
        self.made(
            Kind::Blob,
            status,
            (&package, &[&task]),
            &place,
            Origin::default(),
        );
    }

    pub fn package_load(&mut self) {
        let package = self.argument(Kind::Package);
        let (options, task) = self.load_options(&package.origin);
        let place = self.place();
        let status = call!(
            self.api,
            package_load,
            package.handle,
            options,
            place.pointer
        );
        if self.succeeded(status, &package, &[&task]) {
            self.add_model(place.written(), package.origin.ends);
        } else {
            place.check_unwritten();
        }
    }

    pub fn model_load_file(&mut self) {
        let path = self.path();
        // A package that the case has written may be of any model.
        let (options, task) = self.load_options(&Origin::default());
        let place = self.place();
        let status = call!(self.api, model_load_file, path, options, place.pointer);
        if self.succeeded(status, &Self::no_handle(), &[&task]) {
            self.add_model(place.written(), false);
        } else {
            place.check_unwritten();
        }
    }

    pub fn model_load_bytes(&mut self) {
        let (package, origin) = self.bytes(&self.seeds.packages);
        let (options, task) = self.load_options(&origin);
        let (start, place) = (package.start.cast_const().cast(), self.place());
        let status = call!(
            self.api,
            model_load_bytes,
            start,
            package.count,
            options,
            place.pointer
        );
        if self.succeeded(status, &Self::no_handle(), &[&task]) {
            self.add_model(place.written(), origin.ends);
        } else {
            place.check_unwritten();
        }
    }

    /// Names, counts and JSON.
    pub fn texts_of_models(&mut self) {
        let api = self.api;
        match self.choices.below(6) {
            0 => {
                let model = self.argument(Kind::Model);
                let name: Option<*const c_char> =
                    self.query(&model, |model, to| call!(api, model_name, model, to));
                // SAFETY: a text that is valid until the model is freed (header).
                assert!(name.is_none_or(|name| unsafe { read_text(name) }.is_some()));
            }
            1 => self.query_object(Kind::Blob, Kind::Model, |model, to| {
                call!(api, model_metadata, model, to)
            }),
            2 => self.query_object(Kind::Blob, Kind::Model, |model, to| {
                call!(api, model_placement, model, to)
            }),
            3 => self.query_object(Kind::Blob, Kind::Package, |package, to| {
                call!(api, package_placement, package, to)
            }),
            other => {
                let model = self.argument(Kind::Model);
                let count = self.query(&model, |model, to| match other {
                    4 => call!(api, model_input_count, model, to),
                    _ => call!(api, model_output_count, model, to),
                });
                let expected = &model.origin.ports[usize::from(other != 4)];
                assert!(count.is_none_or(|count| count == expected.len()));
            }
        }
    }

    pub fn model_find(&mut self) {
        let (api, model, is_output) =
            (self.api, self.argument(Kind::Model), self.choices.one_in(2));
        let ports = model.origin.ports[usize::from(is_output)].clone();
        let name = self.name(&ports);
        let index = self.query(&model, |model, to| match is_output {
            false => call!(api, model_find_input, model, name, to),
            true => call!(api, model_find_output, model, name, to),
        });
        assert!(index.is_none_or(|index| index < ports.len()));
    }

    pub fn model_port(&mut self) {
        let (model, is_output) = (self.argument(Kind::Model), self.choices.one_in(2));
        let index = self.index();
        let port = self.port();
        let status = match is_output {
            false => call!(self.api, model_input, model.handle, index, port),
            true => call!(self.api, model_output, model.handle, index, port),
        };
        if self.succeeded(status, &model, &[]) {
            let ports = &model.origin.ports[usize::from(is_output)];
            // SAFETY: a port that a call has filled.
            let rank = unsafe { (*port).rank } as usize;
            assert_eq!(rank, ports[index].extents.len());
        }
    }

    /// The index of a port, state or output.
    pub fn index(&mut self) -> usize {
        if self.is_careful {
            return self.choices.below(3);
        }
        self.choices.pick(&[0, 1, 2, 5, usize::MAX, 1 << 32])
    }

    pub fn blob_get(&mut self) {
        let blob = self.argument(Kind::Blob);
        let (start, length) = (self.place::<*const c_void>(), self.place::<usize>());
        let status = call!(
            self.api,
            blob_get,
            blob.handle,
            start.pointer,
            length.pointer
        );
        if self.succeeded(status, &blob, &[]) {
            let (start, length) = (start.written().cast::<u8>(), length.written());
            // SAFETY: the bytes and a NUL are valid until the blob is freed (header).
            let bytes = unsafe { std::slice::from_raw_parts(start, length + 1) };
            assert_eq!(bytes[length], 0);
        } else {
            start.check_unwritten();
            length.check_unwritten();
        }
    }
}
