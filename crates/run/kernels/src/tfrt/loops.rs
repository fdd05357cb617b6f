//! Loops with carried values: each call of the body takes the results of the last one.
//!
//! Calls are not nested: an iteration starts after the last one has returned, or in the callback of
//! a pending value. So the stack depth is independent of the number of iterations.

use super::pending::Promises;
use tenon_executor::{
    Attr, FunctionHandle, KernelDef, Request, RestOperands, Value, kernel, when_all_available,
};

/// The number of iterations that `tfrt.repeat.i32` starts before it waits for the first carried
/// value.
const BLOCK: i32 = 32;

pub(super) fn kernels() -> Vec<KernelDef> {
    vec![
        kernel("tfrt.repeat.i32", repeat).doc(
            "Calls the region the given number of times, first with the operands, then with its last results.",
        ),
        kernel("tfrt.while", r#while).doc(
            "Calls the function while the condition holds: its last result is the next condition, \
             the others are its next arguments. With `parallel_iterations` above 1 each call is a \
             task.",
        ),
    ]
}

fn repeat(
    count: i32,
    carried: RestOperands<'_>,
    body: FunctionHandle,
    request: &Request,
) -> Vec<Value> {
    let (results, promises) = Promises::new(carried.len());
    let repeat = Repeat {
        left: count.max(0),
        body,
        request: request.clone(),
        promises,
    };
    repeat.run(carried.iter().cloned().collect());
    results
}

struct Repeat {
    left: i32,
    body: FunctionHandle,
    request: Request,
    promises: Promises,
}

impl Repeat {
    fn run(mut self, mut carried: Vec<Value>) {
        while self.left > 0 {
            if let Some(Value::Pending(first)) = carried.first()
                && !first.is_available()
            {
                let first = first.clone();
                first.when_available(move |_| self.run(carried));
                return;
            }
            // Without carried values there is nothing to wait for.
            let block = if carried.is_empty() {
                self.left
            } else {
                self.left.min(BLOCK)
            };
            self.left -= block;
            for _ in 0..block {
                if let Some(cancelled) = self.request.cancelled() {
                    self.promises.set_all(&cancelled);
                    return;
                }
                carried = self.body.execute(&self.request, carried);
            }
        }
        self.promises.set(carried);
    }
}

fn r#while(
    condition: bool,
    carried: RestOperands<'_>,
    parallel_iterations: Attr<i64>,
    body: FunctionHandle,
    request: &Request,
) -> Vec<Value> {
    let (results, promises) = Promises::new(carried.len());
    let r#while = While {
        parallel: parallel_iterations.0 > 1,
        body,
        request: request.clone(),
        promises,
    };
    r#while.run(Value::I1(condition), carried.iter().cloned().collect());
    results
}

struct While {
    parallel: bool,
    body: FunctionHandle,
    request: Request,
    promises: Promises,
}

impl While {
    /// Continues from an available condition.
    fn run(self, mut condition: Value, mut carried: Vec<Value>) {
        while condition == Value::I1(true) {
            carried = match self.request.cancelled() {
                Some(cancelled) => return self.fail(cancelled, carried),
                None => self.iterate(carried),
            };
            condition = carried.pop().unwrap_or_default().resolved();
            if let Value::Pending(next) = condition {
                next.when_available(move |condition| self.resume(condition.clone(), carried));
                return;
            }
        }
        match condition {
            Value::Error(_) => self.fail(condition, carried),
            _ => self.promises.set(carried),
        }
    }

    /// One call of the body; in a separate task if iterations may overlap.
    fn iterate(&self, carried: Vec<Value>) -> Vec<Value> {
        if !self.parallel {
            return self.body.execute(&self.request, carried);
        }
        let (results, promises) = Promises::new(carried.len() + 1);
        let (body, request) = (self.body.clone(), self.request.clone());
        let host = self.request.host();
        host.spawn(move || promises.set(body.execute(&request, carried)));
        results
    }

    /// Continues when a pending condition is set; in a task, because the current stack is that of
    /// the setter, unless the next iteration is a task anyway.
    fn resume(self, condition: Value, carried: Vec<Value>) {
        if self.parallel {
            return self.run(condition, carried);
        }
        let request = self.request.clone();
        request.host().spawn(move || self.run(condition, carried));
    }

    /// Ends with an error, once all started iterations have completed.
    fn fail(self, error: Value, carried: Vec<Value>) {
        when_all_available(&carried, move || self.promises.set_all(&error));
    }
}
