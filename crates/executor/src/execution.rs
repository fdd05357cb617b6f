//! One execution of an asynchronous function (facts 2.2, 2.3).
//!
//! A kernel runs when all its operands are there. Each has a count of operands it waits for; a
//! kernel that is done counts down those of its users, and who counts to zero runs the user. That
//! count is also what makes the operands known to the user's thread, so registers need no state of
//! their own. Only what the function returns does: the caller may leave before it is there.
//!
//! The users of a result stand in the function's numbers as a *group*: the register, how many users,
//! the cell of the function's result (0 for none, else one more than its position), and the users.
//! A user that waits for nothing else is marked [`ALONE`].

use crate::function::{BoundFunction, BoundKernel};
use crate::kernel::{Call, Frame};
use crate::program::Inner;
use crate::queue::{Runnable, Task};
use crate::ready::Ready;
use crate::slots::{Slots, View};
use crate::{AsyncValue, Diagnostic, Promise, Request, Value, depth, pending};
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use tenon_base::{Error, ErrorKind};

/// Marks a user whose only operand this is: it is ready without counting.
pub(crate) const ALONE: u32 = 1 << 31;

/// Registers, counts and results of one execution; used again by the next.
pub(crate) struct Execution {
    slots: Slots,
    /// Operands that each kernel still waits for.
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

/// What a task of an execution does: the two top bits of its argument. Below are the stream (30
/// bits) and a kernel or group (32 bits).
const START: u64 = 0;
const RUN: u64 = 1;
const RESUME: u64 = 2;

impl Execution {
    pub(crate) fn new(function: &BoundFunction) -> Self {
        let zeros = |count| (0..count).map(|_| AtomicU32::new(0)).collect();
        Self {
            slots: Slots::new(function.registers.len()),
            counts: zeros(function.kernels.len()),
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
            ready.push(kernel, &function.kernels);
        }
        for &group in &function.flow.argument_groups {
            self.finish(group as usize, function, &mut ready);
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
            ready.switch_stream(&function.kernels);
            if ready.has_others() {
                self.enqueue(&mut ready, &function.kernels);
            }
            let Some(kernel) = ready.pop() else { break };
            self.run_kernel(kernel, &call, &mut ready);
        }
    }

    /// Hands the kernels of other streams to the queue, one task a stream.
    fn enqueue(self: &Arc<Self>, ready: &mut Ready, kernels: &[BoundKernel]) {
        let stream = |kernel: u32| kernels[kernel as usize].stream;
        let groups = ready
            .others(kernels)
            .chunk_by(|&a, &b| stream(a) == stream(b));
        let mut tasks = groups.map(|group| {
            let this = self.clone();
            let stream = stream(group[0]);
            match group {
                [kernel] => Task::Shared(this, argument(RUN, stream, *kernel)),
                _ => {
                    let kernels = group.to_vec();
                    Task::new(move || this.run_kernels(stream, &kernels))
                }
            }
        });
        self.running().request.host().queue().add_all(&mut tasks);
        ready.clear_others();
    }

    /// Runs kernels of one stream and those that become ready.
    fn run_kernels(self: Arc<Self>, stream: u32, kernels: &[u32]) {
        let mut ready = Ready::new(stream);
        ready.extend(kernels);
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
        let bound = &function.kernels[kernel as usize];
        let start = bound.start as usize;
        let numbers = &function.numbers[start..];
        let (operands, numbers) = numbers.split_at(bound.operands as usize);
        let (results, _) = numbers.split_at(bound.results as usize);
        for &result in results {
            // SAFETY: nobody uses the result before this kernel's users are counted down.
            drop(unsafe { self.slots.replace(result, Value::Empty) });
        }
        match self.refusal(operands, call) {
            Some(error) => {
                for &result in results {
                    // SAFETY: as above.
                    drop(unsafe { self.slots.replace(result, error.clone()) });
                }
            }
            None => {
                // SAFETY: the operands were set before this kernel was counted to zero, and stay
                // until it has used them; the results are its own until its users are counted down.
                let view = unsafe { View::new(&self.slots, operands, results) };
                let mut frame = Frame {
                    view,
                    call,
                    kernel: kernel as usize,
                };
                if let Err(error) = bound.kernel.run(&mut frame) {
                    fail(&mut frame, error);
                }
            }
        }
        for &operand in operands {
            self.release(operand, 1);
        }
        let mut group = start + operands.len() + results.len();
        for _ in results {
            group = self.finish(group, function, ready);
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
            drop(unsafe { self.slots.replace(register, Value::Empty) });
        }
    }

    /// Hands on what a kernel has left in the register of a group: to the caller if the function
    /// returns it, and to its users. Answers where the next group starts.
    fn finish(
        self: &Arc<Self>,
        group: usize,
        function: &BoundFunction,
        ready: &mut Ready,
    ) -> usize {
        let [register, count, cell] = [0, 1, 2].map(|index| function.numbers[group + index]);
        let users = &function.numbers[group + 3..][..count as usize];
        let end = group + 3 + users.len();
        // SAFETY: the users are not counted down yet, and the caller is not told.
        let value = unsafe { self.slots.read(register) };
        match value {
            Value::Empty => {
                let error = Error::new(ErrorKind::Internal, "a kernel did not set its result");
                self.put(register, Value::error(error));
            }
            Value::Pending(value) => match value.get() {
                Some(value) => {
                    let value = value.clone();
                    self.put(register, value);
                }
                None if users.is_empty() => {}
                None => {
                    self.resume_later(value.clone(), group, ready.stream());
                    return end;
                }
            },
            _ => {}
        }
        self.publish(register, users.len() as u32, cell, function);
        for &user in users {
            let kernel = user & !ALONE;
            if user & ALONE != 0 || self.count_down(kernel) {
                ready.push(kernel, &function.kernels);
            }
        }
        end
    }

    /// Writes a register that nobody uses yet.
    fn put(&self, register: u32, value: Value) {
        // SAFETY: only called before its users are counted down and the caller is told.
        drop(unsafe { self.slots.replace(register, value) });
    }

    /// Says how often the value of a register will be used, and hands it to the caller if the
    /// function returns it.
    fn publish(&self, register: u32, users: u32, cell: u32, function: &BoundFunction) {
        // SAFETY: the users are not counted down yet, and the caller is not told.
        let value = unsafe { self.slots.read(register) };
        let returned = match cell {
            0 => 0,
            cell => function.flow.cells[cell as usize - 1].1,
        };
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
        if cell == 0 {
            return;
        }
        let cell = &self.cells[cell as usize - 1];
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

    /// Goes on with a group when its value is there.
    fn resume_later(self: &Arc<Self>, value: AsyncValue, group: usize, stream: u32) {
        let this = self.clone();
        value.resume(move |value| {
            let run = this.running();
            let register = run.program.functions[run.function as usize].numbers[group];
            this.put(register, value.clone());
            if depth::is_deep() {
                let argument = argument(RESUME, stream, group as u32);
                let queue = run.request.clone();
                queue.host().queue().add(Task::Shared(this, argument));
            } else {
                this.resume(stream, group);
            }
        });
    }

    fn resume(self: Arc<Self>, stream: u32, group: usize) {
        let run = self.running();
        let function = &run.program.functions[run.function as usize];
        let mut ready = Ready::new(stream);
        self.finish(group, function, &mut ready);
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
        if let Some(execution) = Arc::get_mut(&mut self)
            && let Some(run) = execution.run.take()
        {
            run.program.functions[run.function as usize].keep(self);
        }
    }
}

impl Runnable for Execution {
    fn run(self: Arc<Self>, argument: u64) {
        let stream = (argument >> 32) as u32 & ((1 << 30) - 1);
        let index = argument as u32;
        match argument >> 62 {
            START => {
                self.begin();
                self.leave();
            }
            RUN => self.run_kernels(stream, &[index]),
            _ => self.resume(stream, index as usize),
        }
    }
}

/// The argument of a task.
fn argument(what: u64, stream: u32, index: u32) -> u64 {
    what << 62 | u64::from(stream) << 32 | u64::from(index)
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
