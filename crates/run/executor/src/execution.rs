//! One execution of an asynchronous function: dataflow scheduling (bef 2.2, 2.3).
//!
//! A kernel runs when all its operands are available. Each kernel has a count of missing operands;
//! a finished kernel counts down its users, and the thread that counts a user to zero runs it. The
//! count also orders the writes of the operands before the reads of the user, so registers need no
//! state. Returned values do ([`ResultCell`]): the caller may return before they are available.
//!
//! Ready kernels of another stream are queued as a linked list that reuses the counts of ready
//! kernels.

#![allow(
    unsafe_code,
    reason = "registers, results and counts that threads share"
)]

use crate::batch::BatchTask;
use crate::code::{Code, Group, SINGLE_OPERAND, group};
use crate::countdown::Countdown;
use crate::function::{BoundFunction, FunctionBody};
use crate::kernel::{Call, Frame, run_kernel};
use crate::program::Inner;
use crate::queue::{Runnable, Task, WorkQueue};
use crate::ready_queue::ReadyQueue;
use crate::result_cell::ResultCell;
use crate::slots::{Slots, View};
use crate::{AsyncValue, Diagnostic, Request, Value, depth};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use tenon_base::{Error, ErrorKind};
use tenon_bef::FunctionId;

/// Registers, counts and results of one execution; reused by the next one.
pub(crate) struct Execution {
    slots: Slots,
    counts: Countdown,
    /// Remaining uses of each register whose value needs dropping; unspecified for the others.
    uses: Box<[AtomicU32]>,
    cells: Box<[ResultCell]>,
    /// Whether any register has held a value that needs dropping. Until then uses are not counted.
    any_needs_drop: AtomicBool,
    /// Whether any register holds an error.
    failed: AtomicBool,
    run: Option<Run>,
}

/// The function and request of an execution.
pub(crate) struct Run {
    pub program: Arc<Inner>,
    pub function: FunctionId,
    pub request: Request,
}

impl Run {
    fn function(&self) -> &BoundFunction {
        &self.program.functions[self.function.0 as usize]
    }
}

/// The argument of the task that starts the execution; any other argument encodes a stream and the
/// first kernel of a list.
const START: u64 = u64::MAX;

/// More kernels of other streams than this are queued as one [`BatchTask`].
const MANY: usize = 8;

impl Execution {
    pub(crate) fn new(body: &FunctionBody) -> Self {
        Self {
            slots: Slots::new(body.slots),
            counts: Countdown::new(body.code.len()),
            uses: (0..body.slots).map(|_| AtomicU32::new(0)).collect(),
            cells: body.flow.cells.iter().map(|_| ResultCell::new()).collect(),
            any_needs_drop: AtomicBool::new(false),
            failed: AtomicBool::new(false),
            run: None,
        }
    }

    /// Starts a new or reused execution; results that are not available yet are pending.
    pub(crate) fn start(
        mut this: Arc<Self>,
        run: Run,
        body: &FunctionBody,
        arguments: Vec<Value>,
    ) -> Vec<Value> {
        let Some(execution) = Arc::get_mut(&mut this) else {
            let error = Error::new(ErrorKind::Internal, "an execution is used twice");
            return vec![Value::error(error); body.results.len()];
        };
        execution.counts.reset(&body.flow.counts);
        execution.cells.iter_mut().for_each(ResultCell::reset);
        *execution.any_needs_drop.get_mut() = false;
        *execution.failed.get_mut() = false;
        let run = execution.run.insert(run);
        let later = depth::is_at_limit().then(|| run.request.clone());
        for (slot, argument) in (0u32..).zip(arguments) {
            execution.put(slot, argument);
        }
        match later {
            Some(request) => {
                let start = Task::Shared(this.clone(), START);
                request.host().queue().add(start);
            }
            None => this.begin(),
        }
        let results = this.collect(body);
        this.recycle();
        results
    }

    fn running(&self) -> &Run {
        // It is set before the execution is shared, and taken when the last reference is dropped.
        self.run.as_ref().expect("an execution that runs")
    }

    /// Runs the kernels that are ready first: those without operands, then the users of arguments.
    fn begin(self: &Arc<Self>) {
        let function = self.running().function();
        let body = function.running();
        let mut ready = ReadyQueue::new(body.flow.root);
        for &kernel in &body.flow.entry {
            ready.push(kernel, &body.code);
        }
        for (slot, &position) in (0u32..).zip(&body.flow.argument_groups) {
            let group = group(&mut body.code.words(position));
            self.finish(slot, &group, position, body, &mut ready);
        }
        self.process(&mut ready, &self.call(function));
    }

    /// The context that the kernels share.
    fn call<'a>(&'a self, function: &'a BoundFunction) -> Call<'a> {
        let request = &self.running().request;
        Call {
            function,
            body: function.running(),
            context: &(),
            control: request.control(),
            request: Some(request),
            trace: request.host().kernel_trace(),
        }
    }

    /// Runs ready kernels, and those that become ready, until none is left for this thread.
    fn process(self: &Arc<Self>, ready: &mut ReadyQueue, call: &Call<'_>) {
        let _level = depth::enter();
        let code = &call.body.code;
        loop {
            ready.switch_stream(code);
            if ready.has_others() {
                self.enqueue(ready, code);
            }
            let Some(kernel) = ready.pop() else { break };
            self.run_kernel(kernel, call, ready);
        }
    }

    /// Queues the kernels of other streams, one task per stream, or as one batch when there are
    /// many.
    fn enqueue(self: &Arc<Self>, ready: &mut ReadyQueue, code: &Code) {
        let others = ready.others(code);
        let many = others.len() > MANY;
        let lists = others
            .chunk_by(|&a, &b| code.stream(a) == code.stream(b))
            .map(|group| (code.stream(group[0]), self.counts.link(group)));
        let queue = self.queue();
        if many {
            BatchTask::enqueue(self.clone(), lists.collect(), queue);
        } else {
            queue.add_all(&mut lists.map(|(stream, first)| {
                Task::Shared(self.clone(), u64::from(stream) << 32 | u64::from(first))
            }));
        }
        ready.clear_others();
    }

    /// The work queue of the host.
    pub(crate) fn queue(&self) -> &dyn WorkQueue {
        self.running().request.host().queue()
    }

    /// Runs lists of kernels (each a stream and its first kernel) and the kernels that become
    /// ready, until `stop` returns true after a list.
    pub(crate) fn run_lists(
        self: &Arc<Self>,
        lists: impl IntoIterator<Item = (u32, u32)>,
        stop: &mut dyn FnMut() -> bool,
    ) {
        let call = self.call(self.running().function());
        let mut ready = ReadyQueue::new(0);
        for (stream, first) in lists {
            ready.start(stream, self.counts.list(first));
            self.process(&mut ready, &call);
            if stop() {
                break;
            }
        }
    }

    /// Runs a kernel whose operands are available, and counts down its users.
    fn run_kernel(self: &Arc<Self>, kernel: u32, call: &Call<'_>, ready: &mut ReadyQueue) {
        let body = call.body;
        let instruction = body.code.instruction(kernel as usize);
        let (operands, results) = (instruction.operands, instruction.results);
        for result in results.slots() {
            // SAFETY: no thread accesses the result before this kernel's users are counted down (in
            // `finish`, below); the value of an earlier execution was dropped by its last user, so
            // nothing is leaked.
            unsafe { self.slots.reset(result) };
        }
        match self.refusal(operands, call) {
            Some(error) => results
                .slots()
                .for_each(|slot| self.put(slot, error.clone())),
            None => {
                // SAFETY: the operands were written before this kernel was counted to zero, and are
                // not overwritten before `release` below; no other thread accesses the results
                // until the users are counted down in `finish`.
                let view = unsafe { View::new(&self.slots, operands, results) };
                let mut frame = Frame {
                    view,
                    call,
                    kernel: kernel as usize,
                };
                if let Err(error) = run_kernel(instruction.kernel, &mut frame) {
                    fail(&mut frame, error);
                }
            }
        }
        if self.any_needs_drop.load(Ordering::Relaxed) {
            for &operand in operands {
                self.release(operand, 1);
            }
        }
        let mut words = instruction.rest;
        for slot in results.slots() {
            let before = words;
            let group = group(&mut words);
            self.finish(slot, &group, body.code.position(before), body, ready);
        }
    }

    /// The error that the results become without a call of the kernel: that of a cancelled request,
    /// else that of the last operand that is an error.
    fn refusal(&self, operands: &[u32], call: &Call<'_>) -> Option<Value> {
        let mut error = call.request.and_then(Request::cancelled);
        if self.failed.load(Ordering::Relaxed) {
            for &operand in operands {
                // SAFETY: operands are written before the kernel is counted to zero, and dropped
                // after it ran.
                let operand = unsafe { self.slots.read(operand) };
                if matches!(operand, Value::Error(_)) {
                    error = Some(operand.clone());
                }
            }
        }
        error
    }

    /// Releases uses of a register's value; the last release drops it.
    fn release(&self, register: u32, uses: u32) {
        // SAFETY: the caller still holds its uses, and a register is written only when none are
        // left.
        if !unsafe { self.slots.read(register) }.needs_drop() {
            return;
        }
        let left = &self.uses[register as usize];
        if left.load(Ordering::Acquire) == uses || left.fetch_sub(uses, Ordering::AcqRel) == uses {
            // SAFETY: this was the last use, so no other thread accesses the register.
            unsafe { self.slots.set(register, Value::Empty) };
        }
    }

    /// Publishes the value that a kernel has left in a slot: to the caller if the function returns
    /// it, and to its users, whose group is at `position` of the code.
    fn finish(
        self: &Arc<Self>,
        slot: u32,
        group: &Group<'_>,
        position: u32,
        body: &FunctionBody,
        ready: &mut ReadyQueue,
    ) {
        // SAFETY: the slot is not published yet: its users are not counted down and its cell is not
        // set.
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
        self.publish(slot, group, body);
        for &user in group.users {
            let kernel = user & !SINGLE_OPERAND;
            if user & SINGLE_OPERAND != 0 || self.counts.count_down(kernel) {
                ready.push(kernel, &body.code);
            }
        }
    }

    /// Writes a register that is not published yet.
    fn put(&self, register: u32, value: Value) {
        // SAFETY: called only before the register's users are counted down and its cell is set, so
        // no other thread accesses it.
        unsafe { self.slots.set(register, value) };
    }

    /// Sets the number of uses of a register's value, and sets its cell if the function returns it.
    fn publish(&self, register: u32, group: &Group<'_>, body: &FunctionBody) {
        // SAFETY: the register is not published yet: its users are not counted down and its cell is
        // not set.
        let value = unsafe { self.slots.read(register) };
        let users = group.users.len() as u32;
        let returned = group
            .cell
            .map_or(0, |cell| body.flow.cells[cell as usize].1);
        if value.needs_drop() {
            self.any_needs_drop.store(true, Ordering::Relaxed);
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
        if let Some(promise) = self.cells[cell as usize].set() {
            let value = value.clone();
            self.release(register, returned);
            promise.set(value);
        }
    }

    /// Publishes a slot when its value becomes available.
    fn resume_later(self: &Arc<Self>, value: AsyncValue, slot: u32, position: u32, stream: u32) {
        let this = self.clone();
        value.resume(move |value| {
            this.put(slot, value.clone());
            if depth::is_at_limit() {
                let request = this.running().request.clone();
                let resume = move || this.resume(slot, position, stream);
                request.host().queue().add(Task::new(resume));
            } else {
                this.resume(slot, position, stream);
            }
        });
    }

    fn resume(self: Arc<Self>, slot: u32, position: u32, stream: u32) {
        let function = self.running().function();
        let body = function.running();
        let mut ready = ReadyQueue::new(stream);
        let group = group(&mut body.code.words(position));
        self.finish(slot, &group, position, body, &mut ready);
        self.process(&mut ready, &self.call(function));
        self.recycle();
    }

    /// The results for the caller: the available values, pending values for the others.
    fn collect(&self, body: &FunctionBody) -> Vec<Value> {
        let flow = &body.flow;
        let collected: Vec<Value> = self
            .cells
            .iter()
            .zip(&flow.cells)
            .map(|(cell, &(register, returned))| {
                if let Some(value) = cell.detach() {
                    return Value::Pending(value);
                }
                // SAFETY: `detach` returned `None`, so the value was set before; this use is
                // released below.
                let value = unsafe { self.slots.read(register) }.clone();
                self.release(register, returned);
                value
            })
            .collect();
        // Rarely is a register returned twice.
        if flow.result_cells.len() == collected.len() {
            return collected;
        }
        let result = |&cell: &u32| collected[cell as usize].clone();
        flow.result_cells.iter().map(result).collect()
    }

    /// Drops this reference. The last one returns the execution to its function for reuse.
    pub(crate) fn recycle(mut self: Arc<Self>) {
        // Usually other threads still run it.
        if Arc::strong_count(&self) == 1
            && let Some(execution) = Arc::get_mut(&mut self)
            && let Some(run) = execution.run.take()
        {
            run.function().recycle(self);
        }
    }
}

impl Runnable for Execution {
    fn run(self: Arc<Self>, argument: u64) {
        if argument == START {
            self.begin();
        } else {
            let list = ((argument >> 32) as u32, argument as u32);
            self.run_lists([list], &mut || true);
        }
        self.recycle();
    }
}

/// Reports a kernel's error, which becomes the value of all results that it has not set.
#[cold]
fn fail(frame: &mut Frame<'_>, error: Error) {
    let error = Arc::new(error);
    frame.host().diagnose(&Diagnostic {
        location: frame.location(),
        kernel: &frame.detail().name,
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
