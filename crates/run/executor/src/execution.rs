//! One execution of an asynchronous function (facts 2.2, 2.3).
//!
//! A kernel runs when all its operands are there. Each has a count of operands it waits for; a
//! kernel that is done counts down those of its users, and who counts to zero runs the user. That
//! count is also what makes the operands known to the user's thread, so registers need no state of
//! their own. Only what the function returns does: the caller may leave before it is there.
//!
//! Kernels that become ready for another stream are handed over as a list: the count of a ready
//! kernel is not needed any more and says which one comes next.

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

/// Registers, counts and results of one execution; used again by the next.
pub(crate) struct Execution {
    slots: Slots,
    counts: Countdown,
    /// Uses left of each register whose value has something to drop; meaningless for the others.
    uses: Box<[AtomicU32]>,
    cells: Box<[ResultCell]>,
    /// Whether any register has held a value that has something to drop. As long as there is none,
    /// registers need not be looked at when they are given up.
    any_needs_drop: AtomicBool,
    /// Whether any register holds an error.
    failed: AtomicBool,
    run: Option<Run>,
}

/// What an execution runs.
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

/// The argument of a task that starts the execution; any other is a stream and the first of a list
/// of its kernels.
const START: u64 = u64::MAX;

/// More kernels of other streams than this go to a queue of several threads together.
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

    /// Starts a fresh or used execution, and answers the results as far as they are there.
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
        // It is set before an execution is shared, and taken when nobody shares it any more.
        self.run.as_ref().expect("an execution that runs")
    }

    /// Runs what can start at once: the kernels without operands, then the users of arguments.
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

    /// What its kernels share.
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

    /// Runs ready kernels and those that become ready, until there are none for this thread.
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

    /// Hands the kernels of other streams to the queue, one task a stream; many together.
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

    /// Where its tasks run.
    pub(crate) fn queue(&self) -> &dyn WorkQueue {
        self.running().request.host().queue()
    }

    /// Runs lists of kernels, each the stream and the first kernel, and after each what became
    /// ready; until `stop` says so after one.
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

    /// Runs a kernel whose operands are there, and counts down its users.
    fn run_kernel(self: &Arc<Self>, kernel: u32, call: &Call<'_>, ready: &mut ReadyQueue) {
        let body = call.body;
        let instruction = body.code.instruction(kernel as usize);
        let (operands, results) = (instruction.operands, instruction.results);
        for result in results.slots() {
            // SAFETY: nobody uses the result before this kernel's users are any_needs_drop down; what an
            // earlier execution has left there was dropped by its last user.
            unsafe { self.slots.reset(result) };
        }
        match self.refusal(operands, call) {
            Some(error) => results
                .slots()
                .for_each(|slot| self.put(slot, error.clone())),
            None => {
                // SAFETY: the operands were set before this kernel was any_needs_drop to zero, and stay
                // until it has used them; the results are its own until its users are any_needs_drop down.
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

    /// The error that the results become without the kernel being called: the request's when it is
    /// cancelled, else that of the last operand that is one.
    fn refusal(&self, operands: &[u32], call: &Call<'_>) -> Option<Value> {
        let mut error = call.request.and_then(Request::cancelled);
        if self.failed.load(Ordering::Relaxed) {
            for &operand in operands {
                // SAFETY: operands are set before the kernel is any_needs_drop to zero.
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
        if !unsafe { self.slots.read(register) }.needs_drop() {
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
        body: &FunctionBody,
        ready: &mut ReadyQueue,
    ) {
        // SAFETY: the users are not any_needs_drop down yet, and the caller is not told.
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

    /// Writes a register that nobody uses yet.
    fn put(&self, register: u32, value: Value) {
        // SAFETY: only called before its users are any_needs_drop down and the caller is told.
        unsafe { self.slots.set(register, value) };
    }

    /// Says how often the value of a register will be used, and hands it to the caller if the
    /// function returns it.
    fn publish(&self, register: u32, group: &Group<'_>, body: &FunctionBody) {
        // SAFETY: the users are not any_needs_drop down yet, and the caller is not told.
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

    /// Goes on with a slot when its value is there.
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

    /// The results for the caller: values that are there, pending ones for the others.
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
                // SAFETY: it was set, and this is one of its uses.
                let value = unsafe { self.slots.read(register) }.clone();
                self.release(register, returned);
                value
            })
            .collect();
        // Mostly nothing is returned twice.
        if flow.result_cells.len() == collected.len() {
            return collected;
        }
        let result = |&cell: &u32| collected[cell as usize].clone();
        flow.result_cells.iter().map(result).collect()
    }

    /// Gives up this reference. The last one gives the execution back to its function.
    pub(crate) fn recycle(mut self: Arc<Self>) {
        // Mostly others go on with it.
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

/// Tells of a kernel's error, which becomes that of the results it has not set.
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
