//! One execution of an asynchronous function (facts 2.2, 2.3).
//!
//! A kernel runs when all its operands are there. Each has a count of operands it waits for; a
//! kernel that is done counts down those of its users, and who counts to zero runs the user. That
//! count is also what makes the operands known to the user's thread, so registers need no state of
//! their own. Only what the function returns does: the caller may leave before it is there.
//!
//! Kernels that become ready for another stream are handed over as a list: the count of a ready
//! kernel is not needed any more and says which one comes next.

use crate::code::{ALONE, Code, Group, group};
use crate::function::BoundFunction;
use crate::kernel::{Call, Frame};
use crate::program::Inner;
use crate::queue::{Runnable, Task};
use crate::ready::Ready;
use crate::slots::{Slots, View};
use crate::{AsyncValue, Diagnostic, Promise, Request, Value, depth, pending};
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use tenon_base::{Error, ErrorKind};

/// Registers, counts and results of one execution; used again by the next.
pub(crate) struct Execution {
    slots: Slots,
    /// Operands that each kernel still waits for; once it is ready and handed over, the next kernel
    /// of its list, or [`LAST`].
    counts: Box<[AtomicU32]>,
    /// Uses left of each register whose value has something to drop; meaningless for the others.
    uses: Box<[AtomicU32]>,
    cells: Box<[Cell]>,
    /// Whether any register holds an error.
    failed: AtomicBool,
    run: Option<Run>,
}

/// What an execution runs.
struct Run {
    program: Arc<Inner>,
    function: u32,
    request: Request,
}

/// A register that the function returns, on its way to the caller.
#[derive(Default)]
struct Cell {
    state: AtomicU8,
    /// Set by the caller before the state becomes [`PROMISED`].
    promise: Mutex<Option<Promise>>,
}

/// Neither is the value there nor has the caller gone.
const OPEN: u8 = 0;
/// The register holds the value.
const SET: u8 = 1;
/// The caller has a pending value instead.
const PROMISED: u8 = 2;

/// Ends a list of kernels.
const LAST: u32 = u32::MAX;

/// The argument of a task that starts the execution; any other is a stream and the first of a list
/// of its kernels.
const START: u64 = u64::MAX;

impl Execution {
    pub(crate) fn new(function: &BoundFunction) -> Self {
        let zeros = |count| (0..count).map(|_| AtomicU32::new(0)).collect();
        Self {
            slots: Slots::new(function.registers.len()),
            counts: zeros(function.code.len()),
            uses: zeros(function.registers.len()),
            cells: function
                .flow
                .cells
                .iter()
                .map(|_| Cell::default())
                .collect(),
            failed: AtomicBool::new(false),
            run: None,
        }
    }

    /// Starts a fresh or used execution, and answers the results as far as they are there.
    pub(crate) fn start(
        mut this: Arc<Self>,
        program: &Arc<Inner>,
        function: &BoundFunction,
        request: &Request,
        arguments: Vec<Value>,
    ) -> Vec<Value> {
        let Some(execution) = Arc::get_mut(&mut this) else {
            let error = Error::new(ErrorKind::Internal, "an execution is used twice");
            return vec![Value::error(error); function.result_types().len()];
        };
        for (count, &initial) in execution.counts.iter_mut().zip(&function.flow.counts) {
            *count.get_mut() = initial;
        }
        for cell in &mut execution.cells {
            *cell.state.get_mut() = OPEN;
        }
        *execution.failed.get_mut() = false;
        execution.run = Some(Run {
            program: program.clone(),
            function: function.id,
            request: request.clone(),
        });
        for (register, argument) in (0u32..).zip(arguments) {
            execution.put(register, argument);
        }
        if depth::is_deep() {
            request
                .host()
                .queue()
                .add(Task::Shared(this.clone(), START));
        } else {
            this.begin();
        }
        let results = this.collect(function);
        this.leave();
        results
    }

    fn running(&self) -> &Run {
        // It is set before an execution is shared, and taken when nobody shares it any more.
        self.run.as_ref().expect("an execution that runs")
    }

    /// Runs what can start at once: the kernels without operands, then the users of arguments.
    fn begin(self: &Arc<Self>) {
        let run = self.running();
        let function = &run.program.functions[run.function as usize];
        let mut ready = Ready::new(function.flow.root);
        for &kernel in &function.flow.entry {
            ready.push(kernel, &function.code);
        }
        for (slot, &position) in (0u32..).zip(&function.flow.argument_groups) {
            let group = group(&mut function.code.words(position));
            self.finish(slot, &group, position, function, &mut ready);
        }
        self.process(ready, function);
    }

    /// Runs ready kernels and those that become ready, until there are none for this thread.
    fn process(self: &Arc<Self>, mut ready: Ready, function: &BoundFunction) {
        let _level = depth::enter();
        let run = self.running();
        let call = Call {
            function,
            context: &(),
            control: run.request.control(),
            request: Some(&run.request),
        };
        loop {
            ready.switch_stream(&function.code);
            if ready.has_others() {
                self.enqueue(&mut ready, &function.code);
            }
            let Some(kernel) = ready.pop() else { break };
            self.run_kernel(kernel, &call, &mut ready);
        }
    }

    /// Hands the kernels of other streams to the queue, one task a stream.
    fn enqueue(self: &Arc<Self>, ready: &mut Ready, code: &Code) {
        let groups = ready
            .others(code)
            .chunk_by(|&a, &b| code.stream(a) == code.stream(b));
        let mut tasks = groups.map(|group| {
            let mut next = LAST;
            for &kernel in group.iter().rev() {
                self.counts[kernel as usize].store(next, Ordering::Relaxed);
                next = kernel;
            }
            let stream = code.stream(group[0]);
            Task::Shared(self.clone(), u64::from(stream) << 32 | u64::from(next))
        });
        self.running().request.host().queue().add_all(&mut tasks);
        ready.clear_others();
    }

    /// Runs a list of kernels of one stream, and those that become ready.
    fn run_list(self: Arc<Self>, stream: u32, first: u32) {
        let mut ready = Ready::new(stream);
        let mut kernel = first;
        while kernel != LAST {
            ready.push_own(kernel);
            // Whoever made the list has handed it over through the queue.
            kernel = self.counts[kernel as usize].load(Ordering::Relaxed);
        }
        self.continue_with(ready);
        self.leave();
    }

    fn continue_with(self: &Arc<Self>, ready: Ready) {
        let run = self.running();
        self.process(ready, &run.program.functions[run.function as usize]);
    }

    /// Runs a kernel whose operands are there, and counts down its users.
    fn run_kernel(self: &Arc<Self>, kernel: u32, call: &Call<'_>, ready: &mut Ready) {
        let function = call.function;
        let instruction = function.code.instruction(kernel as usize);
        let (operands, results) = (instruction.operands, instruction.results);
        for result in results.slots() {
            // SAFETY: nobody uses the result before this kernel's users are counted down; what an
            // earlier execution has left there was dropped by its last user.
            unsafe { self.slots.reset(result) };
        }
        match self.refusal(operands, call) {
            Some(error) => results
                .slots()
                .for_each(|slot| self.put(slot, error.clone())),
            None => {
                // SAFETY: the operands were set before this kernel was counted to zero, and stay
                // until it has used them; the results are its own until its users are counted down.
                let view = unsafe { View::new(&self.slots, operands, results) };
                let mut frame = Frame {
                    view,
                    call,
                    kernel: kernel as usize,
                };
                if let Err(error) = instruction.kernel.run(&mut frame) {
                    fail(&mut frame, error);
                }
            }
        }
        for &operand in operands {
            self.release(operand, 1);
        }
        let mut words = instruction.rest;
        for slot in results.slots() {
            let before = words;
            let group = group(&mut words);
            self.finish(
                slot,
                &group,
                function.code.position(before),
                function,
                ready,
            );
        }
    }

    /// The error that the results become without the kernel being called: the request's when it is
    /// cancelled, else that of the last operand that is one.
    fn refusal(&self, operands: &[u32], call: &Call<'_>) -> Option<Value> {
        let mut error = call.request.and_then(Request::cancelled);
        if self.failed.load(Ordering::Relaxed) {
            for &operand in operands {
                // SAFETY: operands are set before the kernel is counted to zero.
                let operand = unsafe { self.slots.read(operand) };
                if matches!(operand, Value::Error(_)) {
                    error = Some(operand.clone());
                }
            }
        }
        error
    }

    /// Gives up uses of a register's value; the last one drops it.
    fn release(&self, register: u32, uses: u32) {
        // SAFETY: the caller has not given up its use yet, so nobody writes the register.
        if !unsafe { self.slots.read(register) }.is_counted() {
            return;
        }
        let left = &self.uses[register as usize];
        if left.load(Ordering::Acquire) == uses || left.fetch_sub(uses, Ordering::AcqRel) == uses {
            // SAFETY: that was the last use.
            unsafe { self.slots.set(register, Value::Empty) };
        }
    }

    /// Hands on what a kernel has left in a slot: to the caller if the function returns it, and to
    /// its users, which stand in the code at `position`.
    fn finish(
        self: &Arc<Self>,
        slot: u32,
        group: &Group<'_>,
        position: u32,
        function: &BoundFunction,
        ready: &mut Ready,
    ) {
        // SAFETY: the users are not counted down yet, and the caller is not told.
        match unsafe { self.slots.read(slot) } {
            Value::Empty => {
                let error = Error::new(ErrorKind::Internal, "a kernel did not set its result");
                self.put(slot, Value::error(error));
            }
            Value::Pending(value) => match value.get() {
                Some(value) => {
                    let value = value.clone();
                    self.put(slot, value);
                }
                None if group.users.is_empty() => {}
                None => return self.resume_later(value.clone(), slot, position, ready.stream()),
            },
            _ => {}
        }
        self.publish(slot, group, function);
        for &user in group.users {
            let kernel = user & !ALONE;
            if user & ALONE != 0 || self.count_down(kernel) {
                ready.push(kernel, &function.code);
            }
        }
    }

    /// Writes a register that nobody uses yet.
    fn put(&self, register: u32, value: Value) {
        // SAFETY: only called before its users are counted down and the caller is told.
        unsafe { self.slots.set(register, value) };
    }

    /// Says how often the value of a register will be used, and hands it to the caller if the
    /// function returns it.
    fn publish(&self, register: u32, group: &Group<'_>, function: &BoundFunction) {
        // SAFETY: the users are not counted down yet, and the caller is not told.
        let value = unsafe { self.slots.read(register) };
        let users = group.users.len() as u32;
        let returned = group
            .cell
            .map_or(0, |cell| function.flow.cells[cell as usize].1);
        if value.is_counted() {
            if matches!(value, Value::Error(_)) {
                self.failed.store(true, Ordering::Relaxed);
            }
            if users + returned == 0 {
                self.put(register, Value::Empty);
                return;
            }
            self.uses[register as usize].store(users + returned, Ordering::Relaxed);
        }
        let Some(cell) = group.cell else { return };
        let cell = &self.cells[cell as usize];
        if cell.state.swap(SET, Ordering::AcqRel) == PROMISED {
            let promise = lock(&cell.promise).take();
            let value = value.clone();
            self.release(register, returned);
            if let Some(promise) = promise {
                promise.set(value);
            }
        }
    }

    /// Counts down; answers whether the kernel waits for nothing any more.
    #[inline]
    fn count_down(&self, kernel: u32) -> bool {
        let count = &self.counts[kernel as usize];
        // The last one has nobody to race with.
        count.load(Ordering::Acquire) == 1 || count.fetch_sub(1, Ordering::AcqRel) == 1
    }

    /// Goes on with a slot when its value is there.
    fn resume_later(self: &Arc<Self>, value: AsyncValue, slot: u32, position: u32, stream: u32) {
        let this = self.clone();
        value.resume(move |value| {
            this.put(slot, value.clone());
            if depth::is_deep() {
                let request = this.running().request.clone();
                let resume = move || this.resume(slot, position, stream);
                request.host().queue().add(Task::new(resume));
            } else {
                this.resume(slot, position, stream);
            }
        });
    }

    fn resume(self: Arc<Self>, slot: u32, position: u32, stream: u32) {
        let run = self.running();
        let function = &run.program.functions[run.function as usize];
        let mut ready = Ready::new(stream);
        let group = group(&mut function.code.words(position));
        self.finish(slot, &group, position, function, &mut ready);
        self.process(ready, function);
        self.leave();
    }

    /// The results for the caller: values that are there, pending ones for the others.
    fn collect(&self, function: &BoundFunction) -> Vec<Value> {
        let flow = &function.flow;
        let collected: Vec<Value> = self
            .cells
            .iter()
            .zip(&flow.cells)
            .map(|(cell, &(register, returned))| {
                if cell.state.load(Ordering::Acquire) != SET {
                    let (value, promise) = pending();
                    *lock(&cell.promise) = Some(promise);
                    let open = cell.state.compare_exchange(
                        OPEN,
                        PROMISED,
                        Ordering::AcqRel,
                        Ordering::Acquire,
                    );
                    if open.is_ok() {
                        return Value::Pending(value);
                    }
                    // It was set meanwhile; nobody knows of the promise.
                    lock(&cell.promise).take();
                }
                // SAFETY: it was set, and this is one of its uses.
                let value = unsafe { self.slots.read(register) }.clone();
                self.release(register, returned);
                value
            })
            .collect();
        let result = |&cell: &u32| collected[cell as usize].clone();
        flow.result_cells.iter().map(result).collect()
    }

    /// Gives up this reference. The last one gives the execution back to its function.
    fn leave(mut self: Arc<Self>) {
        // Mostly others go on with it.
        if Arc::strong_count(&self) == 1
            && let Some(execution) = Arc::get_mut(&mut self)
            && let Some(run) = execution.run.take()
        {
            run.program.functions[run.function as usize].keep(self);
        }
    }
}

impl Runnable for Execution {
    fn run(self: Arc<Self>, argument: u64) {
        if argument == START {
            self.begin();
            self.leave();
        } else {
            self.run_list((argument >> 32) as u32, argument as u32);
        }
    }
}

/// Tells of a kernel's error, which becomes that of the results it has not set.
#[cold]
fn fail(frame: &mut Frame<'_>, error: Error) {
    let error = Arc::new(error);
    frame.host().diagnose(&Diagnostic {
        location: frame.location(),
        kernel: frame.call.function.kernel_name(frame.kernel),
        error: &error,
    });
    for index in 0..frame.results() {
        let unset = match frame.view.result(index) {
            Some(Value::Empty) => true,
            Some(value) => !value.is_available(),
            None => false,
        };
        if unset {
            frame.set(index, Value::Error(error.clone()));
        }
    }
}

/// Locks even if a holder panicked: it holds a whole promise or none.
fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
