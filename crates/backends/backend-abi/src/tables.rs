//! The structs of the header, and their memory layout as data.

#![allow(unsafe_code, reason = "structs of the C interface")]
#![allow(
    missing_docs,
    reason = "include/tenon/backend.h documents every member"
)]

use std::ffi::c_void;

/// The memory layout of a struct.
pub struct Layout {
    /// Its name in the header.
    pub name: &'static str,
    pub size: usize,
    /// Each member and its offset.
    pub members: &'static [(&'static str, usize)],
}

macro_rules! structs {
    ($($name:ident, $c:literal { $($member:ident: $ty:ty,)* })*) => {
        $(
            #[repr(C)]
            #[derive(Clone, Copy)]
            pub struct $name {
                $(pub $member: $ty,)*
            }
        )*

        /// Every struct of the header.
        pub const LAYOUTS: &[Layout] = &[$(Layout {
            name: $c,
            size: size_of::<$name>(),
            members: &[$((stringify!($member), std::mem::offset_of!($name, $member)),)*],
        },)*];
    };
}

/// The return value of a function: null for success.
pub type Outcome = *const Failure;
/// The function that frees a struct, owned by the side that created it.
pub type Release<T> = Option<unsafe extern "C" fn(*const T)>;
/// A callback of a context about a network.
pub type NetworkCallback = Option<unsafe extern "C" fn(*const Context, u64) -> Outcome>;
/// An array of pointers to structs.
pub type List<T> = *const *const T;

structs! {
    Text, "tenon_text" {
        start: *const u8,
        length: usize,
    }
    Bytes, "tenon_bytes" {
        start: *const c_void,
        length: usize,
        owner: *const c_void,
    }
    Operand, "tenon_operand" {
        start: *mut c_void,
        length: usize,
    }
    InPlace, "tenon_in_place" {
        input: u32,
        output: u32,
    }
    ExtentRange, "tenon_extent_range" {
        min: u64,
        max: u64,
    }
    Ids, "tenon_ids" {
        start: *const u32,
        length: usize,
    }
    Failure, "tenon_failure" {
        size: usize,
        status: i32,
        reason: i32,
        index: i64,
        found: i64,
        name: Text,
        text: Text,
        release: Release<Failure>,
    }
    Tensor, "tenon_tensor" {
        size: usize,
        dtype: i32,
        rank: u32,
        extents: *const u64,
        data: Bytes,
        layout: Text,
        prepared: Bytes,
        ranges: *const ExtentRange,
        elements_vary: i32,
    }
    Attribute, "tenon_attribute" {
        size: usize,
        name: Text,
        kind: i32,
        count: usize,
        integers: *const i64,
        floats: *const f32,
        texts: *const Text,
        tensor: *const Tensor,
    }
    Node, "tenon_node" {
        size: usize,
        op: Text,
        name: Text,
        input_count: usize,
        inputs: List<Tensor>,
        output_count: usize,
        outputs: List<Tensor>,
        attribute_count: usize,
        attributes: List<Attribute>,
        input_values: *const u32,
        output_values: *const u32,
    }
    Graph, "tenon_graph" {
        size: usize,
        value_count: usize,
        values: List<Tensor>,
        node_count: usize,
        nodes: List<Node>,
        inputs: Ids,
        outputs: Ids,
    }
    PropertyValue, "tenon_named_value" {
        size: usize,
        name: Text,
        kind: i32,
        number: f32,
        integer: i64,
        text: Text,
    }
    BackendOption, "tenon_option" {
        size: usize,
        value: *const PropertyValue,
        scope: i32,
        doc: Text,
    }
    Prepared, "tenon_prepared" {
        size: usize,
        input: u32,
        layout: Text,
        data: Bytes,
    }
    Plan, "tenon_plan" {
        size: usize,
        scratch_bytes: usize,
        in_place_count: usize,
        in_place: *const InPlace,
        prepared_count: usize,
        prepared: List<Prepared>,
        release: Release<Plan>,
        device_bytes: u64,
    }
    Control, "tenon_control" {
        size: usize,
        is_stopped: Option<unsafe extern "C" fn(*const Control) -> i32>,
    }
    Event, "tenon_event" {
        size: usize,
        object: *mut c_void,
        release: Release<Event>,
    }
    Stream, "tenon_stream" {
        size: usize,
        finish: Option<unsafe extern "C" fn(*const Stream, *const Control) -> Outcome>,
        event_kind: Text,
        record: Option<unsafe extern "C" fn(*const Stream, *mut *const Event) -> Outcome>,
        wait: Option<unsafe extern "C" fn(*const Stream, *const Event) -> Outcome>,
        release: Release<Stream>,
    }
    Operands, "tenon_operands" {
        size: usize,
        input_count: usize,
        inputs: *const Operand,
        output_count: usize,
        outputs: *const Operand,
        scratch: Operand,
        control: *const Control,
        stream: *const Stream,
        timed: i32,
    }
    Part, "tenon_part" {
        size: usize,
        name: Text,
        node_count: usize,
        nodes: *const Text,
    }
    Workload, "tenon_workload" {
        size: usize,
        execute: Option<unsafe extern "C" fn(*const Workload, *const Operands) -> Outcome>,
        reads: Option<unsafe extern "C" fn(*const Workload, u32) -> i32>,
        release: Release<Workload>,
        part_count: usize,
        parts: List<Part>,
        part_times: Option<
            unsafe extern "C" fn(*const Workload, *const Stream, *mut u64) -> Outcome,
        >,
    }
    MemoryManager, "tenon_memory_manager" {
        size: usize,
        acquire: Option<unsafe extern "C" fn(*const MemoryManager) -> Outcome>,
        give_back: Option<unsafe extern "C" fn(*const MemoryManager)>, // words: allow
        release: Release<MemoryManager>,
    }
    Substitution, "tenon_substitution" {
        size: usize,
        nodes: Ids,
        inputs: Ids,
        outputs: Ids,
        replacement: *const Graph,
    }
    FailedPart, "tenon_failed_part" {
        size: usize,
        nodes: Ids,
        reason: Text,
    }
    Views, "tenon_views" {
        size: usize,
        substitution_count: usize,
        substitutions: List<Substitution>,
        failed_count: usize,
        failed: List<FailedPart>,
        untouched: Ids,
        deleted: Ids,
        release: Release<Views>,
    }
    Allocator, "tenon_allocator" {
        size: usize,
        source: i32,
        allocate: Option<unsafe extern "C" fn(*const Allocator, usize, usize) -> *mut c_void>,
        free: Option<unsafe extern "C" fn(*const Allocator, *mut c_void)>,
        release: Release<Allocator>,
    }
    HandleFactory, "tenon_handle_factory" {
        size: usize,
        name: Text,
        import_sources: u32,
        export_sources: u32,
        map: i32,
        padding: i32,
        device_type: i32,
        device_id: i32,
    }
    ImportedMemory, "tenon_imported_memory" {
        size: usize,
        start: *mut c_void,
        length: usize,
        source: i32,
        flags: u32,
    }
    TensorHandle, "tenon_tensor_handle" {
        size: usize,
        copy_in: Option<unsafe extern "C" fn(*const TensorHandle, *const c_void, usize) -> Outcome>,
        copy_out: Option<unsafe extern "C" fn(*const TensorHandle, *mut c_void, usize) -> Outcome>,
        start: Option<unsafe extern "C" fn(*const TensorHandle) -> *mut c_void>,
        release: Release<TensorHandle>,
        enqueue_in: Option<
            unsafe extern "C" fn(
                *const TensorHandle,
                *const Stream,
                *const c_void,
                usize,
            ) -> Outcome,
        >,
        enqueue_out: Option<
            unsafe extern "C" fn(*const TensorHandle, *const Stream, *mut c_void, usize) -> Outcome,
        >,
    }
    Tolerance, "tenon_tolerance" {
        size: usize,
        dtype: i32,
        relative: f64,
        absolute: f64,
    }
    Context, "tenon_context" {
        size: usize,
        before_load: NetworkCallback,
        after_load: NetworkCallback,
        before_unload: NetworkCallback,
        after_unload: NetworkCallback,
        after_enqueue: NetworkCallback,
        release: Release<Context>,
    }
    Counter, "tenon_counter" {
        size: usize,
        name: Text,
        doc: Text,
        unit: Text,
    }
    Profiling, "tenon_profiling" {
        size: usize,
        counter_count: usize,
        counters: List<Counter>,
        enable: Option<unsafe extern "C" fn(*const Profiling, i32) -> Outcome>,
        sample: Option<unsafe extern "C" fn(*const Profiling, *mut u64) -> Outcome>,
        release: Release<Profiling>,
    }
    Host, "tenon_host" {
        size: usize,
        major: u32,
        minor: u32,
        retain: Option<unsafe extern "C" fn(*const c_void) -> *mut c_void>,
        forget: Option<unsafe extern "C" fn(*mut c_void)>,
        cache_get: Option<unsafe extern "C" fn(*const Host, Text, *mut Bytes) -> i32>,
        cache_put: Option<unsafe extern "C" fn(*const Host, Text, *const c_void, usize)>,
    }
    Backend, "tenon_backend" {
        size: usize,
        description: Text,
        capability_count: usize,
        capabilities: List<PropertyValue>,
        option_count: usize,
        options: List<BackendOption>,
        handle_factory_count: usize,
        handle_factories: List<HandleFactory>,
        attach: Option<unsafe extern "C" fn(*const Backend, *const Host) -> Outcome>,
        supports: Option<unsafe extern "C" fn(*const Backend, *const Node) -> Outcome>,
        plan: Option<
            unsafe extern "C" fn(*const Backend, *const Node, i32, *mut *const Plan) -> Outcome,
        >,
        workload: Option<
            unsafe extern "C" fn(
                *const Backend,
                *const Node,
                *const MemoryManager,
                *mut *const Workload,
            ) -> Outcome,
        >,
        optimise: Option<
            unsafe extern "C" fn(*const Backend, *const Graph, *mut *const Views) -> Outcome,
        >,
        configured: Option<
            unsafe extern "C" fn(
                *const Backend,
                usize,
                List<PropertyValue>,
                *mut *const Backend,
            ) -> Outcome,
        >,
        memory_manager: Option<
            unsafe extern "C" fn(*const Backend, *mut *const MemoryManager) -> Outcome,
        >,
        context: Option<
            unsafe extern "C" fn(
                *const Backend,
                usize,
                List<PropertyValue>,
                i32,
                *mut *const Context,
            ) -> Outcome,
        >,
        profiling: Option<unsafe extern "C" fn(*const Backend, *mut *const Profiling) -> Outcome>,
        allocator: Option<unsafe extern "C" fn(*const Backend, *mut *const Allocator) -> Outcome>,
        with_allocator: Option<
            unsafe extern "C" fn(*const Backend, *const Allocator, *mut *const Backend) -> Outcome,
        >,
        tensor_handle: Option<
            unsafe extern "C" fn(
                *const Backend,
                Text,
                *const Tensor,
                *mut *const TensorHandle,
            ) -> Outcome,
        >,
        import_tensor: Option<
            unsafe extern "C" fn(
                *const Backend,
                Text,
                *const Tensor,
                *mut c_void,
                usize,
                i32,
                *mut *const TensorHandle,
            ) -> Outcome,
        >,
        release: Release<Backend>,
        stream: Option<
            unsafe extern "C" fn(
                *const Backend,
                *const MemoryManager,
                *mut *const Stream,
            ) -> Outcome,
        >,
        tolerance_count: usize,
        tolerances: List<Tolerance>,
        target: Text,
        import_memory: Option<
            unsafe extern "C" fn(
                *const Backend,
                Text,
                *const Tensor,
                *const ImportedMemory,
                *mut *const TensorHandle,
            ) -> Outcome,
        >,
    }
}

impl Text {
    /// The empty text.
    pub const EMPTY: Text = Text::of("");

    /// A view of a text, valid while the text is borrowed.
    pub const fn of(text: &str) -> Self {
        Self {
            start: text.as_ptr(),
            length: text.len(),
        }
    }
}

impl Bytes {
    /// No bytes.
    pub const NONE: Bytes = Bytes {
        start: std::ptr::null(),
        length: 0,
        owner: std::ptr::null(),
    };
}

impl Ids {
    /// A view of ids, valid while the slice is borrowed.
    pub const fn of(ids: &[u32]) -> Self {
        Self {
            start: ids.as_ptr(),
            length: ids.len(),
        }
    }
}
