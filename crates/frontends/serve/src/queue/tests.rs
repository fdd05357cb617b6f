//! Requests are joined, ordered, bounded and cancelled.

use super::*;
use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Wake, Waker};
use tenon::{Compiler, LoadOptions, Model};

struct Unpark(std::thread::Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

fn block_on<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(output) => return output,
            Poll::Pending => std::thread::park(),
        }
    }
}

/// The digits classifier, whose batch is a symbol.
fn model() -> Model {
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../../models/digits/transformer.onnx"
    );
    let package = Compiler::new().compile_file(path).expect("a package");
    package.load(&LoadOptions::new()).expect("a model")
}

fn image(rows: usize, value: f32) -> Tensor {
    let pixels: Vec<f32> = (0..rows * 64).map(|at| value + (at % 7) as f32).collect();
    Tensor::from_slice([rows, 1, 8, 8], &pixels).expect("an image")
}

fn queue(options: BatchOptions) -> (BatchQueue, Arc<Statistics>) {
    let statistics = Arc::new(Statistics::default());
    let queue =
        BatchQueue::new(Arc::new(model().into()), options, statistics.clone()).expect("threads");
    (queue, statistics)
}

#[test]
fn requests_that_wait_are_one_execution() {
    let (queue, statistics) = queue(BatchOptions {
        delay: Duration::from_secs(20),
        max_rows: 4,
        ..BatchOptions::default()
    });
    assert!(queue.is_joining());
    let pushed: Vec<QueuedRequest> = (0..2)
        .map(|value| {
            queue
                .push(vec![image(2, value as f32)], 0, Control::new())
                .unwrap()
        })
        .collect();
    let model = model();
    for (value, request) in pushed.into_iter().enumerate() {
        // The fourth row ends the delay.
        let execution = block_on(request.finished()).unwrap();
        let alone = model.run(&[("image", &image(2, value as f32))]).unwrap();
        assert_eq!(execution.outputs[0].shape()[..], [2, 10]);
        let close = |one: &Tensor, other: &Tensor| {
            let pairs = one.as_slice::<f32>().unwrap().iter();
            let mut pairs = pairs.zip(other.as_slice::<f32>().unwrap());
            pairs.all(|(one, other)| (one - other).abs() < 1e-4)
        };
        assert!(close(&execution.outputs[0], &alone[0]));
    }
    let counts = statistics.counts();
    assert_eq!((counts.executions, counts.inferences), (1, 4));
    assert_eq!(counts.batches.keys().collect::<Vec<_>>(), [&4]);
}

#[test]
fn a_request_that_fails_fails_alone() {
    let (queue, statistics) = queue(BatchOptions {
        delay: Duration::from_secs(20),
        max_rows: 2,
        ..BatchOptions::default()
    });
    let good = queue.push(vec![image(1, 0.0)], 0, Control::new()).unwrap();
    // The queue compares shapes, the execution types.
    let integers = Tensor::zeroed("i64[1, 1, 8, 8]".parse().unwrap()).unwrap();
    let bad = queue.push(vec![integers], 0, Control::new()).unwrap();
    assert!(block_on(good.finished()).is_ok());
    assert_eq!(
        block_on(bad.finished()).unwrap_err().status,
        Status::Invalid
    );
    assert_eq!(statistics.counts().executions, 1);
}

#[test]
fn the_queue_is_bounded_and_forgets_callers_that_are_gone() {
    let (queue, statistics) = queue(BatchOptions {
        delay: Duration::from_secs(20),
        max_rows: 100,
        max_waiting: 2,
        ..BatchOptions::default()
    });
    let push = || queue.push(vec![image(1, 0.0)], 0, Control::new());
    let first = push().unwrap();
    let second = push().unwrap();
    let refusal = push().err().expect("a refusal");
    assert_eq!(refusal.status, Status::QueueFull);
    assert!(refusal.text.contains("2 requests"), "{refusal}");
    drop(first);
    let third = push().unwrap();
    drop(second);
    // Closing the queue ends the delay: what waits is executed.
    drop(queue);
    assert!(block_on(third.finished()).is_ok());
    assert_eq!(statistics.counts().inferences, 1);
}

#[test]
fn a_higher_priority_is_served_first() {
    let (queue, _) = queue(BatchOptions {
        delay: Duration::from_secs(20),
        max_rows: 2,
        ..BatchOptions::default()
    });
    let push = |rows, priority| queue.push(vec![image(rows, 0.0)], priority, Control::new());
    let low = push(1, 0).unwrap();
    // It fills an execution. In the order of arrival it would wait for the delay of the first request.
    let high = push(2, 1).unwrap();
    assert!(block_on(high.finished()).is_ok());
    assert_eq!(queue.waiting(), 1);
    drop(queue);
    assert!(block_on(low.finished()).is_ok());
}

#[test]
fn a_deadline_in_the_queue_is_reported() {
    let (queue, statistics) = queue(BatchOptions::default());
    let passed = Control::with_deadline(Instant::now());
    let request = queue.push(vec![image(1, 0.0)], 0, passed).unwrap();
    let refusal = block_on(request.finished()).unwrap_err();
    assert_eq!(refusal.status, Status::DeadlineExceeded);
    assert_eq!(statistics.counts().executions, 0);
}

#[test]
fn shapes_that_differ_are_separate_executions() {
    let (queue, statistics) = queue(BatchOptions {
        delay: Duration::from_millis(50),
        max_rows: 8,
        ..BatchOptions::default()
    });
    // The larger request does not fit the rows that are left.
    let requests = [5, 5].map(|rows| {
        queue
            .push(vec![image(rows, 0.0)], 0, Control::new())
            .unwrap()
    });
    for request in requests {
        assert_eq!(
            block_on(request.finished()).unwrap().outputs[0].shape()[0],
            5
        );
    }
    assert_eq!(statistics.counts().executions, 2);
}

/// Polls a future once.
fn poll<F: Future + Unpin>(future: &mut F) -> Poll<F::Output> {
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    pin!(future).poll(&mut Context::from_waker(&waker))
}

#[test]
fn short_executions_need_no_other_thread_and_are_joined() {
    let statistics = Arc::new(Statistics::default());
    let executor = Arc::new(model().into());
    let shared = Shared::new(executor, BatchOptions::default(), statistics.clone());
    // Without threads.
    let queue = BatchQueue {
        shared: Arc::new(shared),
    };
    let push = || queue.push(vec![image(1, 0.0)], 0, Control::new()).unwrap();
    queue.shared.lock().short_bytes = usize::MAX;
    let mut requests = [(); 3].map(|()| Box::pin(push().finished()));
    // Each lets the others come first.
    for request in &mut requests {
        assert!(poll(request).is_pending());
    }
    assert_eq!((queue.waiting(), queue.running()), (3, 0));
    for request in &mut requests {
        let Poll::Ready(execution) = poll(request) else {
            panic!("it waits for another thread");
        };
        assert_eq!(execution.unwrap().outputs[0].shape()[..], [1, 10]);
    }
    assert_eq!((queue.waiting(), queue.running()), (0, 0));
    let counts = statistics.counts();
    assert_eq!((counts.executions, counts.inferences), (1, 3));
}

#[test]
fn short_executions_are_no_more_than_the_instances() {
    let (queue, _) = queue(BatchOptions::default());
    let shared = queue.shared.clone();
    {
        let mut state = shared.lock();
        state.short_bytes = usize::MAX;
        // As when another thread has the only instance.
        state.executing = 1;
        state.running = 1;
    }
    let request = queue.push(vec![image(1, 0.0)], 0, Control::new()).unwrap();
    let mut request = Box::pin(request.finished());
    assert!(poll(&mut request).is_pending());
    assert!(poll(&mut request).is_pending());
    assert_eq!((queue.waiting(), queue.running()), (1, 1));
    shared.end_execution(1);
    assert!(block_on(request).is_ok());
}

#[test]
fn a_short_request_that_is_dropped_is_forgotten() {
    let (queue, statistics) = queue(BatchOptions::default());
    queue.shared.lock().short_bytes = usize::MAX;
    drop(queue.push(vec![image(1, 0.0)], 0, Control::new()).unwrap());
    while queue.waiting() > 0 {
        std::thread::yield_now();
    }
    assert_eq!(statistics.counts().executions, 0);
}

#[test]
fn executions_are_short_by_measurement() {
    let mut state = State::default();
    state.measured(1, 400, SHORT * 2);
    assert_eq!(state.short_bytes, 0);
    state.measured(1, 300, SHORT);
    state.measured(1, 200, SHORT);
    assert_eq!(state.short_bytes, 300);
    state.measured(1, 900, SHORT * 2);
    assert_eq!(state.short_bytes, 300);
    state.measured(1, 300, SHORT * 2);
    assert_eq!(state.short_bytes, 299);
    // An execution without inputs.
    state.measured(1, 0, SHORT * 2);
    assert_eq!(state.short_bytes, 0);
}

#[test]
fn an_execution_waits_for_the_rows_of_the_last_one() {
    let (queue, statistics) = queue(BatchOptions::default());
    let push = || queue.push(vec![image(1, 0.0)], 0, Control::new()).unwrap();
    let expect = |seconds| {
        let mut state = queue.shared.lock();
        state.expected_rows = 2;
        state.expected = Some((Instant::now(), Duration::from_secs_f64(seconds)));
    };
    expect(60.0);
    let requests = [push(), push()];
    for request in requests {
        assert!(block_on(request.finished()).is_ok());
    }
    let counts = statistics.counts();
    assert_eq!((counts.executions, counts.inferences), (1, 2));
    // The second caller sends no further request.
    expect(0.01);
    assert!(block_on(push().finished()).is_ok());
    assert_eq!(queue.shared.lock().expected_rows, 1);
}
