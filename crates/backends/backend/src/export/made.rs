//! What a Rust backend makes, as structs of the header. Each struct is the first member of a box,
//! so that a pointer to it is one to the whole, and its release frees the box.

use super::backend::run;
use crate::border::{bytes, invalid, structure};
use crate::{
    Allocator, BackendContext, MemoryManager, MemorySource, NetworkId, Operands, ProfilingContext,
    RawOperand, TensorHandle, Workload, WorkloadPlan,
};
use std::ffi::c_void;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, PoisonError};
use tenon_backend_abi as abi;
use tenon_backend_abi::Outcome;
use tenon_base::stop::{self, StopToken};
use tenon_base::{Error, ErrorKind, Result};

/// A struct of the header, and what is behind it.
#[repr(C)]
struct Out<T, B> {
    table: T,
    behind: B,
}

impl<T, B> Out<T, B> {
    fn table(table: T, behind: B) -> *const T {
        Box::into_raw(Box::new(Self { table, behind })).cast()
    }

    /// # Safety
    /// `table` is from [`Out::table`] of the same types, not released yet.
    unsafe fn behind<'a>(table: *const T) -> &'a B {
        // SAFETY: the table is the first member; the caller vouches.
        unsafe { &(*table.cast::<Self>()).behind }
    }
}

/// # Safety
/// `table` is from [`Out::table`] of the same types and released once.
unsafe extern "C" fn release<T, B>(table: *const T) {
    // SAFETY: the caller vouches.
    drop(unsafe { Box::from_raw(table.cast_mut().cast::<Out<T, B>>()) });
}

/// What a plan points to.
pub(super) struct PlanOut {
    plan: WorkloadPlan,
    in_place: Vec<abi::InPlace>,
    prepared: Vec<abi::Prepared>,
    list: Vec<*const abi::Prepared>,
}

impl PlanOut {
    pub fn table(plan: WorkloadPlan) -> *const abi::Plan {
        let prepared: Vec<abi::Prepared> = plan
            .prepared
            .iter()
            .map(|one| abi::Prepared {
                size: size_of::<abi::Prepared>(),
                input: one.input as u32,
                layout: abi::Text::of(&one.layout),
                data: abi::Bytes {
                    start: one.data.as_ptr().cast(),
                    length: one.data.len(),
                    owner: std::ptr::null(),
                },
            })
            .collect();
        let place = |place: &crate::InPlace| abi::InPlace {
            input: place.input as u32,
            output: place.output as u32,
        };
        let behind = Self {
            in_place: plan.in_place.iter().map(place).collect(),
            list: prepared.iter().map(|one| &raw const *one).collect(),
            prepared,
            plan,
        };
        let table = abi::Plan {
            size: size_of::<abi::Plan>(),
            scratch_bytes: behind.plan.scratch_bytes,
            in_place_count: behind.in_place.len(),
            in_place: behind.in_place.as_ptr(),
            prepared_count: behind.prepared.len(),
            prepared: behind.list.as_ptr(),
            release: Some(release::<abi::Plan, PlanOut>),
        };
        Out::table(table, behind)
    }
}

type Boxed = Box<dyn Workload>;

pub(super) fn workload_out(workload: Boxed) -> *const abi::Workload {
    let table = abi::Workload {
        size: size_of::<abi::Workload>(),
        execute: Some(execute),
        reads: Some(reads),
        release: Some(release::<abi::Workload, Boxed>),
    };
    Out::table(table, workload)
}

unsafe extern "C" fn execute(this: *const abi::Workload, told: *const abi::Operands) -> Outcome {
    run(|| {
        // SAFETY: the header's rules for operands are those of `Operands::new`; raw operands lie as
        // the header's do.
        unsafe {
            let workload = Out::<_, Boxed>::behind(this);
            let told = structure(told, "operands")?;
            let operands = |start: *const abi::Operand, count| match count {
                0 => &[][..],
                _ => std::slice::from_raw_parts(start.cast::<RawOperand>(), count),
            };
            let scratch = RawOperand::new(told.scratch.start.cast(), told.scratch.length);
            let mut operands = Operands::new(
                operands(told.inputs, told.input_count),
                operands(told.outputs, told.output_count),
                scratch,
            );
            if told.control.is_null() {
                return workload.execute(&mut operands);
            }
            let control = ControlIn {
                table: structure(told.control, "a control")?,
                this: told.control,
            };
            stop::with_token(&control, || workload.execute(&mut operands))
        }
    })
}

/// What the host may stop an execution with.
struct ControlIn {
    table: abi::Control,
    this: *const abi::Control,
}

// SAFETY: the function of a control may be called from any thread (header).
unsafe impl Sync for ControlIn {}

impl StopToken for ControlIn {
    /// Every look is a call of the host, so that all are paced as those at a clock.
    fn is_cancelled(&self) -> bool {
        false
    }

    fn is_timed(&self) -> bool {
        true
    }

    fn check(&self) -> Result<()> {
        let Some(function) = self.table.is_stopped else {
            return Ok(());
        };
        // SAFETY: a function of the control with itself, before `execute` returns.
        match unsafe { function(self.this) } {
            0 => Ok(()),
            _ => Err(Error::new(
                ErrorKind::Cancelled,
                "the execution was stopped",
            )),
        }
    }
}

unsafe extern "C" fn reads(this: *const abi::Workload, input: u32) -> i32 {
    let mut answer = true;
    // A panic leaves the careful answer.
    drop_outcome(abi::guarded(|| {
        // SAFETY: a table of `workload_out`.
        answer = unsafe { Out::<_, Boxed>::behind(this) }.reads(input as usize);
        Ok(())
    }));
    answer.into()
}

/// Frees a failure of this side that nobody hears of.
fn drop_outcome(outcome: Outcome) {
    if !outcome.is_null() {
        // SAFETY: made by `guarded`, whose failures have a release.
        unsafe {
            if let Some(release) = (*outcome).release {
                release(outcome);
            }
        }
    }
}

/// A memory manager, which workloads made with it find again.
pub(super) struct MemoryOut(Arc<dyn MemoryManager>);

impl MemoryOut {
    pub fn table(memory: Arc<dyn MemoryManager>) -> *const abi::MemoryManager {
        let table = abi::MemoryManager {
            size: size_of::<abi::MemoryManager>(),
            acquire: Some(acquire),
            give_back: Some(give_back),
            release: Some(release::<abi::MemoryManager, MemoryOut>),
        };
        Out::table(table, MemoryOut(memory))
    }
}

/// # Safety
/// `table` is from [`MemoryOut::table`], not released yet.
pub(super) unsafe fn memory_of<'a>(table: *const abi::MemoryManager) -> &'a Arc<dyn MemoryManager> {
    // SAFETY: the caller vouches.
    unsafe { &Out::<_, MemoryOut>::behind(table).0 }
}

unsafe extern "C" fn acquire(this: *const abi::MemoryManager) -> Outcome {
    // SAFETY: a table of `MemoryOut`.
    run(|| unsafe { memory_of(this) }.acquire())
}

unsafe extern "C" fn give_back(this: *const abi::MemoryManager) {
    drop_outcome(abi::guarded(|| {
        // SAFETY: a table of `MemoryOut`.
        unsafe { memory_of(this) }.release();
        Ok(())
    }));
}

type Context = Box<dyn BackendContext>;

pub(super) fn context_out(context: Context) -> *const abi::Context {
    macro_rules! notice {
        ($name:ident) => {{
            unsafe extern "C" fn $name(this: *const abi::Context, network: u64) -> Outcome {
                // SAFETY: a table of `context_out`.
                run(|| unsafe { Out::<_, Context>::behind(this) }.$name(NetworkId(network)))
            }
            Some($name)
        }};
    }
    let table = abi::Context {
        size: size_of::<abi::Context>(),
        before_load: notice!(before_load),
        after_load: notice!(after_load),
        before_unload: notice!(before_unload),
        after_unload: notice!(after_unload),
        after_enqueue: notice!(after_enqueue),
        release: Some(release::<abi::Context, Context>),
    };
    Out::table(table, context)
}

/// Counters, and the structs that name them.
pub(super) struct CountersOut {
    profiling: Box<dyn ProfilingContext>,
    _counters: Box<[abi::Counter]>,
    list: Box<[*const abi::Counter]>,
}

impl CountersOut {
    pub fn table(profiling: Box<dyn ProfilingContext>) -> *const abi::Profiling {
        let counters: Box<[_]> = profiling
            .counters()
            .iter()
            .map(|counter| abi::Counter {
                size: size_of::<abi::Counter>(),
                name: abi::Text::of(&counter.name),
                doc: abi::Text::of(&counter.doc),
                unit: abi::Text::of(&counter.unit),
            })
            .collect();
        let behind = Self {
            list: counters.iter().map(|one| &raw const *one).collect(),
            _counters: counters,
            profiling,
        };
        let table = abi::Profiling {
            size: size_of::<abi::Profiling>(),
            counter_count: behind.list.len(),
            counters: behind.list.as_ptr(),
            enable: Some(enable),
            sample: Some(sample),
            release: Some(release::<abi::Profiling, CountersOut>),
        };
        Out::table(table, behind)
    }
}

unsafe extern "C" fn enable(this: *const abi::Profiling, on: i32) -> Outcome {
    run(|| {
        // SAFETY: a table of `CountersOut`.
        let behind = unsafe { Out::<_, CountersOut>::behind(this) };
        behind.profiling.enable(on != 0)
    })
}

unsafe extern "C" fn sample(this: *const abi::Profiling, values: *mut u64) -> Outcome {
    run(|| {
        if values.is_null() {
            return Err(invalid("there is no place for the values"));
        }
        // SAFETY: a table of `CountersOut`, and room for a value a counter (header).
        unsafe {
            let behind = Out::<_, CountersOut>::behind(this);
            let values = std::slice::from_raw_parts_mut(values, behind.list.len());
            behind.profiling.sample(values)
        }
    })
}

type Handle = Mutex<Box<dyn TensorHandle>>;

pub(super) fn handle_out(handle: Box<dyn TensorHandle>) -> *const abi::TensorHandle {
    let table = abi::TensorHandle {
        size: size_of::<abi::TensorHandle>(),
        copy_in: Some(copy_in),
        copy_out: Some(copy_out),
        start: Some(start),
        release: Some(release::<abi::TensorHandle, Handle>),
    };
    Out::table(table, Mutex::new(handle))
}

unsafe extern "C" fn copy_in(
    this: *const abi::TensorHandle,
    start: *const c_void,
    length: usize,
) -> Outcome {
    run(|| {
        let owner = std::ptr::null();
        let told = abi::Bytes {
            start,
            length,
            owner,
        };
        // SAFETY: a table of `handle_out`, and as many bytes as it says.
        unsafe {
            let handle = Out::<_, Handle>::behind(this);
            let mut handle = handle.lock().unwrap_or_else(PoisonError::into_inner);
            handle.copy_in(bytes(told, "the elements")?)
        }
    })
}

unsafe extern "C" fn copy_out(
    this: *const abi::TensorHandle,
    start: *mut c_void,
    length: usize,
) -> Outcome {
    run(|| {
        if start.is_null() && length > 0 {
            return Err(invalid("there is no place for the elements"));
        }
        // SAFETY: a table of `handle_out`, and room for as many bytes as it says.
        unsafe {
            let handle = Out::<_, Handle>::behind(this);
            let handle = handle.lock().unwrap_or_else(PoisonError::into_inner);
            match length {
                0 => handle.copy_out(&mut []),
                _ => handle.copy_out(std::slice::from_raw_parts_mut(start.cast(), length)),
            }
        }
    })
}

unsafe extern "C" fn start(this: *const abi::TensorHandle) -> *mut c_void {
    let mut start = std::ptr::null_mut();
    drop_outcome(run(|| {
        // SAFETY: a table of `handle_out`.
        let handle = unsafe { Out::<_, Handle>::behind(this) };
        let handle = handle.lock().unwrap_or_else(PoisonError::into_inner);
        start = handle.start().cast();
        Ok(())
    }));
    start
}

type Lent = Arc<dyn Allocator>;

pub(super) fn allocator_out(allocator: Lent) -> *const abi::Allocator {
    let table = abi::Allocator {
        size: size_of::<abi::Allocator>(),
        source: allocator.source().bit() as i32,
        allocate: Some(allocate),
        free: Some(free),
        release: Some(release::<abi::Allocator, Lent>),
    };
    Out::table(table, allocator)
}

unsafe extern "C" fn allocate(
    this: *const abi::Allocator,
    length: usize,
    alignment: usize,
) -> *mut c_void {
    let mut made = std::ptr::null_mut();
    drop_outcome(run(|| {
        if length == 0 || !alignment.is_power_of_two() {
            return Err(invalid("no memory of this size and alignment"));
        }
        // SAFETY: a table of `allocator_out`.
        let start = unsafe { Out::<_, Lent>::behind(this) }.allocate(length, alignment)?;
        made = start.as_ptr().cast();
        Ok(())
    }));
    made
}

unsafe extern "C" fn free(this: *const abi::Allocator, start: *mut c_void) {
    if let Some(start) = NonNull::new(start.cast()) {
        drop_outcome(run(|| {
            // SAFETY: a table of `allocator_out`, and memory from it, given back once (header).
            unsafe { Out::<_, Lent>::behind(this).free(start) };
            Ok(())
        }));
    }
}

/// An allocator of the host, which outlives what is made with it (header).
pub(super) struct GivenAllocator {
    this: *const abi::Allocator,
    table: abi::Allocator,
}

// SAFETY: every function may be called from any thread (header, "Threads").
unsafe impl Send for GivenAllocator {}
// SAFETY: as above, several at a time.
unsafe impl Sync for GivenAllocator {}

impl GivenAllocator {
    /// # Safety
    /// As the header says of `with_allocator`.
    pub unsafe fn new(this: *const abi::Allocator) -> Result<Self> {
        // SAFETY: the caller vouches.
        let table = unsafe { structure(this, "an allocator")? };
        Ok(Self { this, table })
    }
}

impl Allocator for GivenAllocator {
    fn allocate(&self, length: usize, alignment: usize) -> Result<NonNull<u8>> {
        let allocate = self.table.allocate;
        let allocate = allocate.ok_or_else(|| invalid("the allocator has no function"))?;
        // SAFETY: a function of the struct with itself.
        let start = unsafe { allocate(self.this, length, alignment) };
        NonNull::new(start.cast()).ok_or_else(|| {
            let text = format!("the allocator cannot give {length} bytes");
            Error::new(ErrorKind::OutOfMemory, text)
        })
    }

    unsafe fn free(&self, start: NonNull<u8>) {
        if let Some(free) = self.table.free {
            // SAFETY: a function of the struct with itself; the caller vouches for the memory.
            unsafe { free(self.this, start.as_ptr().cast()) }
        }
    }

    fn source(&self) -> MemorySource {
        MemorySource::of_bit(self.table.source).unwrap_or(MemorySource::Malloc)
    }
}
