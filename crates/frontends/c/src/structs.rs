//! The structs of the header. A test compares their layout with that of a C compiler.

use std::ffi::{c_char, c_void};
use tenon::{Error, ErrorKind, Result};
use tenon_backend_abi::Prefixed;
use tenon_c_callers::arguments::{check, invalid};
use tenon_c_callers::handles::Handle;

/// Declares structs of the header, with a table of their layout for tests.
macro_rules! structs {
    ($($(#[$doc:meta])* struct $name:ident = $c:literal { $($member:ident: $type:ty,)* })*) => {
        $(
            $(#[$doc])*
            #[repr(C)]
            #[derive(Clone, Copy)]
            #[allow(missing_docs, reason = "documented in the header")]
            pub struct $name {
                $(pub $member: $type,)*
            }
        )*

        /// Name in C, size and members of each struct.
        #[cfg(test)]
        pub const LAYOUTS: &[(&str, usize, &[(&str, usize)])] = &[
            $(($c, size_of::<$name>(), &[
                $((stringify!($member), std::mem::offset_of!($name, $member)),)*
            ]),)*
        ];
    };
}

structs! {
    /// A tensor in memory of the caller or the library.
    struct Array = "tenon_array" {
        name: *const c_char,
        dtype: i32,
        rank: u32,
        extents: *const i64,
        data: *mut c_void,
        bytes: usize,
    }

    /// An input or output of a model.
    struct Port = "tenon_port" {
        size: usize,
        name: *const c_char,
        kind: i32,
        dtype: i32,
        rank: u32,
        extents: *const i64,
        symbols: *const *const c_char,
        bytes: u64,
    }

    /// Progress and deadline.
    struct TaskOptions = "tenon_task_options" {
        size: usize,
        timeout_seconds: f64,
        progress: Option<unsafe extern "C" fn(*mut c_void, *const c_char, u64, u64)>,
        context: *mut c_void,
    }

    /// A symbolic dimension.
    struct Dimension = "tenon_dimension" {
        size: usize,
        name: *const c_char,
        min: u64,
        max: u64,
        buckets: *const u64,
        bucket_count: usize,
    }

    /// The padding of an input.
    struct Padding = "tenon_padding" {
        input: *const c_char,
        value: *const c_char,
    }

    /// A backend for the nodes of a name.
    struct BackendHint = "tenon_hint" {
        pattern: *const c_char,
        backend: *const c_char,
    }

    /// An output that is the next input.
    struct State = "tenon_state" {
        output: *const c_char,
        input: *const c_char,
    }

    /// How a model is compiled.
    struct CompileOptions = "tenon_compile_options" {
        size: usize,
        task: Handle,
        dimensions: *const Dimension,
        dimension_count: usize,
        paddings: *const Padding,
        padding_count: usize,
        constants: *const Array,
        constant_count: usize,
        known_inputs: *const Array,
        known_input_count: usize,
        backends: *const *const c_char,
        backend_count: usize,
        hints: *const BackendHint,
        hint_count: usize,
        linked_folders: *const *const c_char,
        linked_folder_count: usize,
        cpu_level: *const c_char,
        fixed_sizes: i32,
        states: i32,
        state_pairs: *const State,
        state_pair_count: usize,
        backend_folder: *const c_char,
        backend_options: *const *const c_char,
        backend_option_count: usize,
        precisions: *const *const c_char,
        precision_count: usize,
        signature: *const c_char,
        weights: *const *const c_char,
        weight_count: usize,
    }

    /// How a package is loaded.
    struct LoadOptions = "tenon_load_options" {
        size: usize,
        task: Handle,
        threads: u32,
        max_in_flight: u32,
        nan_check: i32,
        check_digests: i32,
        native_nodes: i32,
        reserved: i32,
        backend_folder: *const c_char,
        backend_options: *const *const c_char,
        backend_option_count: usize,
    }

    /// How an asynchronous execution runs.
    struct SubmitOptions = "tenon_submit_options" {
        size: usize,
        task: Handle,
        priority: i32,
        reserved: i32,
        ended: Option<unsafe extern "C" fn(*mut c_void)>,
        context: *mut c_void,
    }

    /// A size of a symbolic dimension.
    struct Extent = "tenon_extent" {
        symbol: *const c_char,
        extent: u64,
    }

    /// How a model is quantised.
    struct QuantizeOptions = "tenon_quantize_options" {
        size: usize,
        compiling: *const CompileOptions,
        samples: *const Array,
        sample_count: usize,
        bits: i32,
        calibration: i32,
        percentile: f64,
        max_node_error: f64,
        block_size: u64,
        excluded: *const *const c_char,
        excluded_count: usize,
        labels: *const i64,
        label_count: usize,
    }
}

macro_rules! sized {
    ($($name:ident)*) => {$(
        // SAFETY: `structs!` declares it `#[repr(C)]` with `size` first; the other members are integers, floats, raw
        // pointers and optional functions, for which zero is valid.
        unsafe impl Prefixed for $name {
            const MIN_SIZE: usize = size_of::<$name>();
        }
    )*};
}

// All members are of the version that introduced the struct; those of later versions are beyond `MIN_SIZE`.
sized! { Port TaskOptions Dimension CompileOptions LoadOptions QuantizeOptions SubmitOptions }

/// A struct with a size, of any version.
///
/// # Safety
/// `from` is null, or points to such a struct that is not written during the call.
pub unsafe fn sized<T: Prefixed>(from: *const T, name: &str) -> Result<T> {
    // SAFETY: the condition of `read` is this function's.
    unsafe { tenon_backend_abi::read(from) }.map_err(|error| {
        let error = Error::new(ErrorKind::InvalidArgument, format!("{name} {error}"));
        error.help("initialise it with TENON_INIT, which sets its size")
    })
}

/// Options of a call; all zero for NULL.
///
/// # Safety
/// As for [`sized`].
pub unsafe fn options<T: Prefixed>(from: *const T, name: &str) -> Result<T> {
    if from.is_null() {
        // SAFETY: all bytes zero are valid (`Prefixed`).
        return Ok(unsafe { std::mem::zeroed() });
    }
    // SAFETY: the condition of `sized` is this function's.
    unsafe { sized(from, name) }
}

/// Most elements of an array of structs.
const MOST: usize = 1 << 20;

/// An array of structs with a size, of any version: all have the size of the first.
///
/// # Safety
/// `start` is null, or points to an array of `count` structs that is not written during the call.
pub unsafe fn sized_array<T: Prefixed>(
    start: *const T,
    count: usize,
    name: &str,
) -> Result<Vec<T>> {
    if count == 0 {
        return Ok(Vec::new());
    }
    if count > MOST {
        let text = format!("{name} has too many elements");
        return Err(invalid(text)
            .expected(format_args!("at most {MOST}"))
            .found(count));
    }
    check(start, name)?;
    // SAFETY: not null and aligned (checked above), a struct that begins with its size (requirement).
    let stride = unsafe { start.cast::<usize>().read() };
    let element = |at: usize| {
        let name = format!("{name}[{at}]");
        // The first is read first: its size is checked before it is used as a distance.
        let element = start.wrapping_byte_add(stride.wrapping_mul(at));
        // SAFETY: an element of the array (requirement).
        unsafe { sized(element, &name) }
    };
    (0..count).map(element).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrays_of_later_versions_are_read_by_their_size() {
        #[repr(C)]
        struct Later {
            dimension: Dimension,
            added: u64,
        }
        let later = |min| Later {
            dimension: Dimension {
                size: size_of::<Later>(),
                name: std::ptr::null(),
                min,
                max: min,
                buckets: std::ptr::null(),
                bucket_count: 0,
            },
            added: 7,
        };
        let array = [later(1), later(2)];
        // SAFETY: an array of two structs of the size that they say.
        let read = unsafe { sized_array(&raw const array[0].dimension, 2, "dimensions") };
        let sizes: Vec<u64> = read
            .unwrap()
            .iter()
            .map(|dimension| dimension.min)
            .collect();
        assert_eq!(sizes, [1, 2]);
        let earlier = Dimension {
            size: 8,
            ..array[0].dimension
        };
        // SAFETY: a struct with a size.
        let error = unsafe { sized(&raw const earlier, "dimension") }
            .err()
            .unwrap();
        assert!(error.to_string().contains("has size 8"), "{error}");
        assert_eq!(array[1].added, 7);
    }
}
