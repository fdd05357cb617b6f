//! Arguments of calls: mostly valid ones. Invalid ones are null, not aligned, of wrong sizes, lengths and values.

use crate::caller::{Caller, read_text};
use crate::memory::Address;
use crate::objects::{Argument, Handle, Kind, Origin, PortInfo};
use crate::seeds::Seed;
use std::ffi::{c_char, c_void};
use std::ptr::{null, null_mut};
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};
use tenon_c::{
    Array, BackendHint, CompileOptions, Dimension, LoadOptions, Padding, QuantizeOptions, State, SubmitOptions,
    TaskOptions,
};

/// An array of the caller.
pub struct List<T> {
    pub start: *mut T,
    pub count: usize,
}

/// Calls of `ended`.
pub static ENDS: AtomicU64 = AtomicU64::new(0);
/// Executions that must call it.
pub static EXPECTED_ENDS: AtomicU64 = AtomicU64::new(0);

static CONTEXT: u8 = 7;

fn context() -> *mut c_void {
    (&raw const CONTEXT).cast_mut().cast()
}

unsafe extern "C" fn ended(given: *mut c_void) {
    assert_eq!(given, context());
    ENDS.fetch_add(1, Ordering::SeqCst);
}

unsafe extern "C" fn progress(given: *mut c_void, step: *const c_char, _: u64, _: u64) {
    assert_eq!(given, context());
    // SAFETY: a text, valid during the call (header).
    assert!(unsafe { read_text(step) }.is_some());
}

/// Names and other texts.
const TEXTS: [&[u8]; 25] = [
    b"x",
    b"y",
    b"past",
    b"present",
    b"sum",
    b"next_sum",
    b"a",
    b"batch",
    b"n",
    b"length",
    b"*",
    b"0",
    b"-1.5",
    b"CpuRef",
    b"CpuAcc",
    b"Abacus",
    b"native",
    b"avx2",
    b"quantum",
    b"",
    b"\xff\xfe",
    b"CpuAcc.Nothing=1",
    b"no assignment",
    b"\x1b[2J\xe2\x80\xae",
    &[b'L'; 300],
];

/// Sizes of dimensions: small, or beyond any memory.
const SIZES: [u64; 8] = [1, 2, 3, 0, 5, 1 << 60, 1 << 63, u64::MAX];

/// Values of enumerations and flags.
const CODES: [i32; 6] = [0, 1, 2, 3, -1, i32::MAX];

/// The greatest size of memory that an array states and has.
const MAX_BYTES: usize = 1 << 16;

impl Caller<'_> {
    /// What is invalid in an argument: a number below `limit`, or a greater one where nothing is.
    pub fn damage(&mut self, limit: usize) -> usize {
        if self.is_careful {
            usize::MAX
        } else {
            self.choices.below(limit)
        }
    }

    /// A handle of a kind: usually one of the latest live objects.
    pub fn argument(&mut self, kind: Kind) -> Argument {
        let handle = match self.damage(12) {
            0 => null_mut(),
            1 => self
                .choices
                .pick(&[1usize, 16, usize::MAX, 1 << 63, 0x4d << 56]) as Handle,
            // Another slot, generation or kind.
            2 => match self.objects.live(kind).next() {
                Some(object) => (object.handle as usize ^ 1 << self.choices.below(64)) as Handle,
                None => null_mut(),
            },
            3 if !self.objects.0.is_empty() => {
                let at = self.choices.below(self.objects.0.len());
                self.objects.0[at].handle
            }
            _ => {
                if self.objects.live(kind).next().is_none() {
                    self.make(kind);
                }
                let count = self.objects.live(kind).count();
                let at = if count > 1 {
                    self.choices.below(count)
                } else {
                    0
                };
                self.objects
                    .live(kind)
                    .nth(at)
                    .map_or(null_mut(), |object| object.handle)
            }
        };
        self.objects.argument(kind, handle)
    }

    /// Makes an object of a kind.
    fn make(&mut self, kind: Kind) {
        match kind {
            Kind::Status => {}
            Kind::Task => self.task_create(),
            Kind::Package => self.compile_bytes(),
            Kind::Model => self.model_load_bytes(),
            Kind::Outputs => self.model_run(),
            Kind::Bindings => self.model_bind(),
            Kind::Session => self.model_session(),
            Kind::Run => self.model_submit(),
            Kind::Blob => self.package_bytes(),
        }
    }

    /// The task of a call: none, or any if the call ends without a deadline.
    pub fn task(&mut self, origin: &Origin) -> Argument {
        let any = self.argument(Kind::Task);
        let is_optional = any.handle.is_null();
        if !any.is_live && !is_optional {
            return any;
        }
        if !origin.ends {
            return self.objects.argument(Kind::Task, self.deadline);
        }
        match self.choices.one_in(2) {
            true => any,
            false => self.objects.argument(Kind::Task, null_mut()),
        }
    }

    pub fn place<T>(&mut self) -> Address<T> {
        match self.damage(16) {
            at @ (0 | 1) => self.memory.invalid_place(at == 0),
            _ => self.memory.place(),
        }
    }

    pub fn text(&mut self) -> *const c_char {
        match self.damage(16) {
            0 => null(),
            1 => {
                let bytes: Vec<u8> = (0..8).map(|_| self.choices.below(256) as u8).collect();
                self.memory.text(&bytes)
            }
            _ => {
                let text = self.choices.pick(&TEXTS);
                self.memory.text(text)
            }
        }
    }

    /// A name, usually that of a port.
    pub fn name(&mut self, ports: &[PortInfo]) -> *const c_char {
        if ports.is_empty() || self.damage(4) == 0 {
            return self.text();
        }
        let at = self.choices.below(ports.len());
        self.memory.text(ports[at].name.as_bytes())
    }

    /// A path in the folder of the case.
    pub fn path(&mut self) -> *const c_char {
        let names = [
            "model.onnx",
            "package.neff",
            "written.neff",
            "absent",
            "absent/a.neff",
            ".",
        ];
        let path = match self.damage(8) {
            0 => return null(),
            1 => Default::default(),
            _ => {
                let name = self.choices.pick(&names);
                self.folder().join(name)
            }
        };
        self.memory.text(path.as_os_str().as_encoded_bytes())
    }

    /// An empty folder, or one that does not exist.
    fn backend_folder(&mut self) -> *const c_char {
        if self.damage(4) != 0 {
            return null();
        }
        let path = self.folder().join(self.choices.pick(&["empty", "absent"]));
        self.memory.text(path.as_os_str().as_encoded_bytes())
    }

    /// An array of some values; rarely null, not aligned, or of a size beyond the address space.
    pub fn list<T: Copy>(&mut self, values: &[T]) -> List<T> {
        let count = values.len();
        match self.damage(16) {
            0 => List {
                start: null_mut(),
                count,
            },
            1 => List {
                start: null_mut(),
                count: usize::MAX,
            },
            2 => {
                let start = self
                    .memory
                    .bytes(size_of_val(values) + 1, align_of::<T>(), 0);
                List {
                    start: start.wrapping_add(1).cast(),
                    count,
                }
            }
            3 => List {
                start: self.memory.copy(values),
                count: usize::MAX / size_of::<T>(),
            },
            _ => List {
                start: self.memory.copy(values),
                count,
            },
        }
    }

    fn some<T: Copy>(&mut self, make: impl Fn(&mut Self) -> T) -> List<T> {
        if self.damage(4) != 0 {
            return List {
                start: null_mut(),
                count: 0,
            };
        }
        let values: Vec<T> = (0..self.choices.below(3)).map(|_| make(self)).collect();
        self.list(&values)
    }

    /// Bytes of a file, changed in some cases; whether executions of it end.
    pub fn bytes(&mut self, seeds: &'static [Seed]) -> (List<u8>, Origin) {
        let seed = &seeds[self.choices.below(seeds.len())];
        let mut bytes = seed.bytes.clone();
        let change = self.damage(6);
        if change == 0 {
            bytes.truncate(self.choices.below(bytes.len().min(1 << 16)));
        } else if change < 4 {
            for _ in 0..self.choices.below(4) + 1 {
                let at = self.choices.below(bytes.len().min(1 << 16));
                let value = self.choices.below(256) as u8;
                match self.choices.below(4) {
                    0 => bytes.insert(at, value),
                    1 => drop(bytes.remove(at)),
                    2 => bytes[at] = value,
                    _ => bytes[at] ^= 1 << (value % 8),
                }
            }
        }
        let origin = Origin {
            ends: seed.ends && change >= 4,
            ..Origin::default()
        };
        (self.list(&bytes), origin)
    }

    /// A size of a struct: usually its own. There is as much memory.
    fn struct_size<T>(&mut self) -> usize {
        let own = size_of::<T>();
        match self.damage(12) {
            0 => self.choices.pick(&[0, 8, own - 8, own - 1]),
            1 => self.choices.pick(&[own + 1, own + 64, 1 << 16]),
            2 => self.choices.pick(&[(1 << 16) + 1, usize::MAX]),
            _ => own,
        }
    }

    /// A struct that begins with its size.
    fn sized<T: Copy>(&mut self, make: impl Fn(&mut Self, usize) -> T) -> *mut T {
        let size = self.struct_size::<T>();
        let value = make(self, size);
        let is_read = (size_of::<T>()..=1 << 16).contains(&size);
        let len = if is_read { size } else { size_of::<T>() };
        let start = self.memory.bytes(len, align_of::<T>(), 0xEE).cast::<T>();
        // SAFETY: at least as many bytes were allocated, aligned for the type.
        unsafe { start.write(value) };
        start
    }

    /// Optional options, sometimes null or not aligned.
    fn options<T: Copy>(&mut self, make: impl Fn(&mut Self, usize) -> T) -> *const T {
        let start = self.sized(make);
        if self.damage(32) == 0 {
            start.wrapping_byte_add(1)
        } else {
            start
        }
    }

    pub fn port(&mut self) -> *mut tenon_c::Port {
        if self.damage(12) == 0 {
            return null_mut();
        }
        // SAFETY: zero is valid for integers and pointers.
        self.sized(|_, size| tenon_c::Port {
            size,
            ..unsafe { std::mem::zeroed() }
        })
    }

    pub fn task_options(&mut self) -> *const TaskOptions {
        let timeouts = [
            0.0,
            0.05,
            1e-9,
            -1.0,
            f64::NAN,
            f64::INFINITY,
            1e300,
            5e-324,
        ];
        self.options(|caller, size| TaskOptions {
            size,
            timeout_seconds: if caller.damage(2) == 0 {
                caller.choices.pick(&timeouts)
            } else {
                0.0
            },
            progress: caller.choices.one_in(2).then_some(progress as _),
            context: context(),
        })
    }

    fn dimension(&mut self, size: usize) -> Dimension {
        let buckets: &[u64] = self
            .choices
            .pick(&[&[][..], &[], &[1, 2, 4], &[3, 2], &[0]]);
        let buckets = self.list(buckets);
        let min = self.choices.pick(&SIZES);
        Dimension {
            size,
            name: self.text(),
            min,
            max: if self.choices.one_in(2) {
                min
            } else {
                self.choices.pick(&SIZES)
            },
            buckets: buckets.start,
            bucket_count: buckets.count,
        }
    }

    /// Dimensions that all have the size of the first.
    fn dimensions(&mut self) -> List<Dimension> {
        if self.damage(2) != 0 {
            return List {
                start: null_mut(),
                count: 0,
            };
        }
        let (count, size) = (self.choices.below(3), self.struct_size::<Dimension>());
        let own = size_of::<Dimension>();
        let stride = if (own..=1 << 16).contains(&size) {
            size
        } else {
            own
        };
        let start = self
            .memory
            .bytes(stride * count, align_of::<Dimension>(), 0xEE);
        for at in 0..count {
            let dimension = self.dimension(size);
            // SAFETY: `count` times `stride` bytes, at least as many as a dimension has, were allocated.
            unsafe {
                start
                    .add(stride * at)
                    .cast::<Dimension>()
                    .write_unaligned(dimension)
            };
        }
        let stated = if self.damage(16) == 0 {
            usize::MAX
        } else {
            count
        };
        List {
            start: start.cast(),
            count: stated,
        }
    }

    fn texts(&mut self) -> List<*const c_char> {
        self.some(Self::text)
    }

    /// A value of an enumeration, or a small number.
    fn code(&mut self) -> i32 {
        if self.is_careful {
            self.choices.pick(&CODES[..2])
        } else {
            self.choices.pick(&CODES)
        }
    }

    fn state(&mut self, ports: &[Rc<[PortInfo]>; 2]) -> State {
        State {
            output: self.name(&ports[1]),
            input: self.name(&ports[0]),
        }
    }

    pub fn states(&mut self, ports: &[Rc<[PortInfo]>; 2]) -> List<State> {
        let states: Vec<State> = (0..self.choices.below(3))
            .map(|_| self.state(ports))
            .collect();
        self.list(&states)
    }

    /// Options of a quantisation.
    pub fn quantize_options(&mut self, origin: &Origin) -> (*const QuantizeOptions, Argument) {
        let (compiling, task) = self.compile_options(origin);
        let options = self.options(|caller, size| {
            let samples = caller.some(|caller| caller.array(&[], 0, 2));
            let (excluded, labels) = (caller.texts(), caller.some(|caller| i64::from(caller.code())));
            QuantizeOptions {
                size,
                compiling,
                samples: samples.start,
                sample_count: samples.count,
                bits: caller.choices.pick(&[0, 4, 8, 16, 5]),
                calibration: caller.code(),
                percentile: caller.choices.pick(&[0.0, 99.0, 100.0, -1.0, f64::NAN]),
                max_node_error: caller.choices.pick(&[0.0, 0.01, f64::NAN]),
                block_size: caller.choices.pick(&[0, 16, 33, u64::MAX]),
                excluded: excluded.start.cast_const(),
                excluded_count: excluded.count,
                labels: labels.start,
                label_count: labels.count,
            }
        });
        (options, task)
    }

    /// Options of a compilation, with the task.
    pub fn compile_options(&mut self, origin: &Origin) -> (*const CompileOptions, Argument) {
        let task = self.task(origin);
        if task.handle.is_null() && self.choices.one_in(3) {
            return (null(), task);
        }
        let options = self.options(|caller, size| {
            let (dimensions, paddings) = (
                caller.dimensions(),
                caller.some(|caller| Padding {
                    input: caller.text(),
                    value: caller.text(),
                }),
            );
            let constants = caller.some(|caller| caller.array(&[], 0, 2));
            let known = caller.some(|caller| caller.array(&[], 0, 2));
            let (backends, links) = (caller.texts(), caller.texts());
            let hints = caller.some(|caller| BackendHint {
                pattern: caller.text(),
                backend: caller.text(),
            });
            let states = caller.some(|caller| caller.state(&Default::default()));
            let (backend_options, precisions) = (caller.texts(), caller.texts());
            CompileOptions {
                size,
                task: task.handle,
                dimensions: dimensions.start,
                dimension_count: dimensions.count,
                paddings: paddings.start,
                padding_count: paddings.count,
                constants: constants.start,
                constant_count: constants.count,
                known_inputs: known.start,
                known_input_count: known.count,
                backends: backends.start.cast_const(),
                backend_count: backends.count,
                hints: hints.start,
                hint_count: hints.count,
                linked_folders: links.start.cast_const(),
                linked_folder_count: links.count,
                cpu_level: if caller.damage(4) == 0 {
                    caller.text()
                } else {
                    null()
                },
                fixed_sizes: caller.code(),
                states: caller.code(),
                state_pairs: states.start,
                state_pair_count: states.count,
                backend_folder: caller.backend_folder(),
                backend_options: backend_options.start.cast_const(),
                backend_option_count: backend_options.count,
                precisions: precisions.start.cast_const(),
                precision_count: precisions.count,
            }
        });
        (options, task)
    }

    /// Options of loading, with the task. Code in packages is not allowed.
    pub fn load_options(&mut self, origin: &Origin) -> (*const LoadOptions, Argument) {
        let task = self.task(origin);
        if task.handle.is_null() && self.choices.one_in(2) {
            return (null(), task);
        }
        let options = self.options(|caller, size| {
            let backend_options = caller.texts();
            LoadOptions {
                size,
                task: task.handle,
                threads: caller.code() as u32,
                max_in_flight: caller.code() as u32,
                nan_check: caller.code(),
                check_digests: caller.code(),
                native_nodes: 0,
                reserved: caller.code(),
                backend_folder: caller.backend_folder(),
                backend_options: backend_options.start.cast_const(),
                backend_option_count: backend_options.count,
            }
        });
        (options, task)
    }

    /// Options of an asynchronous execution, with the task; whether `ended` must be called.
    pub fn submit_options(&mut self, origin: &Origin) -> (*const SubmitOptions, Argument, bool) {
        let task = self.task(origin);
        if task.handle.is_null() && self.choices.one_in(2) {
            return (null(), task, false);
        }
        let has_callback = self.choices.one_in(2);
        let options = self.options(|caller, size| SubmitOptions {
            size,
            task: task.handle,
            priority: caller.code(),
            reserved: 0,
            ended: has_callback.then_some(ended as _),
            context: context(),
        });
        (options, task, has_callback)
    }

    /// The array of a port, valid in most cases; without ports one of any type.
    pub fn array(&mut self, ports: &[PortInfo], at: usize, size: i64) -> Array {
        let (mut code, mut extents, mut name) = (1, vec![1, 2], self.text());
        if let Some(port) = ports.get(at) {
            code = port.code;
            let fixed = |&extent: &i64| if extent < 0 { size } else { extent };
            extents = port.extents.iter().map(fixed).collect();
            name = self.memory.text(port.name.as_bytes());
        }
        let damage = self.damage(16);
        match damage {
            0 => {
                code = self
                    .choices
                    .pick(&CODES)
                    .wrapping_add(self.choices.below(32) as i32)
            }
            1 => extents.push(self.choices.pick(&[1, 0, -1, i64::MAX, 1 << 40])),
            2 => extents.iter_mut().for_each(|extent| *extent += 1),
            3 => name = self.text(),
            4 => extents = vec![1; self.choices.pick(&[0, 64, 65, 100])],
            5 => name = null(),
            _ => {}
        }
        let elements = extents
            .iter()
            .try_fold(1i64, |all, &extent| all.checked_mul(extent));
        let bits = elements.and_then(|count| usize::try_from(count).ok()?.checked_mul(bits(code)));
        let mut bytes = bits.map_or(usize::MAX, |bits| bits.div_ceil(8));
        if damage == 6 {
            bytes = bytes.wrapping_add(self.choices.pick(&[1, usize::MAX, 8]));
        }
        let (align, value) =
            self.choices
                .pick(&[(64, 0x3F), (1, 0), (64, 1), (1, 0xFF), (64, 0x80)]);
        let data = match bytes <= MAX_BYTES && damage != 7 {
            true => self.memory.bytes(bytes, align, value).cast(),
            false => null_mut(),
        };
        let (start, rank) = match damage {
            8 => (null_mut(), extents.len() as u32),
            9 => (null_mut(), u32::MAX),
            10 => {
                let start = self.memory.bytes(extents.len() * 8 + 1, 8, 0);
                (start.wrapping_add(1).cast(), extents.len() as u32)
            }
            _ => (self.memory.copy(&extents), extents.len() as u32),
        };
        Array {
            name,
            dtype: code,
            rank,
            extents: start,
            data,
            bytes,
        }
    }

    /// The arrays of all ports, valid in most cases.
    pub fn arrays(&mut self, ports: &[PortInfo], size: i64) -> List<Array> {
        let mut arrays: Vec<Array> = (0..ports.len())
            .map(|at| self.array(ports, at, size))
            .collect();
        match self.damage(12) {
            0 => drop(arrays.pop()),
            1 => arrays.push(self.array(ports, 0, size)),
            2 => arrays.reverse(),
            _ => {}
        }
        self.list(&arrays)
    }

    /// The size of all dimensions that are not fixed.
    pub fn size(&mut self) -> i64 {
        self.choices.pick(&[2, 1, 3, 0, 5, 2, 7, 1])
    }

    /// Sizes of symbolic dimensions.
    pub fn extents(&mut self, ports: &[PortInfo]) -> List<tenon_c::Extent> {
        let mut symbols: Vec<&[u8]> = ports
            .iter()
            .flat_map(|port| &port.symbols)
            .map(|symbol| symbol.as_bytes())
            .collect();
        symbols.sort_unstable();
        symbols.dedup();
        if self.damage(8) == 0 {
            symbols.push(b"other");
        }
        let mut extents = Vec::new();
        for symbol in symbols {
            let extent = match self.damage(4) {
                0 => self.choices.pick(&SIZES),
                _ => self.size() as u64,
            };
            extents.push(tenon_c::Extent {
                symbol: self.memory.text(symbol),
                extent,
            });
        }
        self.list(&extents)
    }
}

/// The bits of an element; any number where there is no such type.
pub fn bits(code: i32) -> usize {
    match code {
        25 => 128,
        2 | 18 | 22 | 24 => 64,
        1 | 17 | 21 => 32,
        3 | 4 | 15 | 20 => 16,
        13 | 14 | 27 => 4,
        29 | 30 => 2,
        _ => 8,
    }
}
