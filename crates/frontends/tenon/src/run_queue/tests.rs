//! Order, bounds, cancellation and panics of the queue, with a hand-written executor.

use super::*;
use std::pin::pin;
use std::sync::mpsc::{Receiver, Sender, channel};
use tenon_test_data::block_on;

/// Outputs with a single element.
fn outputs(value: f32) -> Outputs {
    let tensor = Tensor::from_slice([1], &[value]).unwrap();
    Outputs::new(Arc::from(["y".to_owned()]), vec![tensor])
}

/// Occupies the only thread of a queue until the sender is used or dropped.
fn occupy(queue: &RunQueue) -> (RunFuture, Sender<()>) {
    let (release, released): (Sender<()>, Receiver<()>) = channel();
    let (started, is_started) = channel();
    let future = queue.submit(Priority::High, Control::new(), move |_| {
        started.send(()).unwrap();
        let _ = released.recv();
        Ok(outputs(0.0))
    });
    is_started.recv().unwrap();
    (future, release)
}

#[test]
fn waiting_executions_start_by_priority_then_by_arrival() {
    let queue = RunQueue::new(1, 16);
    let (first, release) = occupy(&queue);
    let order = Arc::new(Mutex::new(Vec::new()));
    let futures: Vec<RunFuture> = [
        ("low 1", Priority::Low),
        ("normal 1", Priority::Normal),
        ("high 1", Priority::High),
        ("low 2", Priority::Low),
        ("high 2", Priority::High),
        ("normal 2", Priority::Normal),
    ]
    .map(|(name, priority)| {
        let order = order.clone();
        queue.submit(priority, Control::new(), move |_| {
            order.lock().unwrap().push(name);
            Ok(outputs(1.0))
        })
    })
    .into();
    assert_eq!(queue.waiting(), 6);
    release.send(()).unwrap();
    block_on(first).unwrap();
    for future in futures {
        block_on(future).unwrap();
    }
    let expected = ["high 1", "high 2", "normal 1", "normal 2", "low 1", "low 2"];
    assert_eq!(*order.lock().unwrap(), expected);
}

#[test]
fn a_full_queue_refuses_executions() {
    let queue = RunQueue::new(1, 1);
    let (first, release) = occupy(&queue);
    let waiting = queue.submit(Priority::Normal, Control::new(), |_| Ok(outputs(1.0)));
    let refused = queue.submit(Priority::High, Control::new(), |_| Ok(outputs(2.0)));
    let error = block_on(refused).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::QueueFull);
    drop(release);
    block_on(first).unwrap();
    assert_eq!(block_on(waiting).unwrap(), outputs(1.0));
}

#[test]
fn dropping_a_future_removes_or_cancels_its_execution() {
    let queue = RunQueue::new(1, 16);
    let (first, release) = occupy(&queue);
    let ran = Arc::new(Mutex::new(false));
    let flag = ran.clone();
    let dropped = queue.submit(Priority::High, Control::new(), move |_| {
        *flag.lock().unwrap() = true;
        Ok(outputs(1.0))
    });
    drop(dropped);
    assert_eq!(queue.waiting(), 0);
    release.send(()).unwrap();
    block_on(first).unwrap();
    assert!(!*ran.lock().unwrap());

    // A running execution observes it through its control; the control of the caller is unaffected.
    let shared = Control::new();
    let (started, is_started) = channel();
    let (ended, has_ended) = channel();
    let running = queue.submit(Priority::Normal, shared.clone(), move |control| {
        started.send(()).unwrap();
        while control.check().is_ok() {
            std::thread::yield_now();
        }
        ended.send(()).unwrap();
        Ok(outputs(2.0))
    });
    is_started.recv().unwrap();
    drop(running);
    has_ended.recv().unwrap();
    assert!(!shared.is_cancelled());
}

#[test]
fn a_panic_is_an_error_and_the_thread_continues() {
    let queue = RunQueue::new(1, 16);
    let panics = queue.submit(Priority::Normal, Control::new(), |_| panic!("index 7"));
    let error = block_on(panics).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Internal);
    assert!(error.to_string().contains("index 7"), "{error}");
    let next = queue.submit(Priority::Normal, Control::new(), |_| Ok(outputs(1.0)));
    assert_eq!(block_on(next).unwrap(), outputs(1.0));
}

#[test]
fn an_execution_that_waits_past_its_deadline_does_not_start() {
    let queue = RunQueue::new(1, 16);
    let (first, release) = occupy(&queue);
    let control = Control::with_deadline(std::time::Instant::now());
    let late = queue.submit(Priority::Normal, control, |_| unreachable!());
    release.send(()).unwrap();
    block_on(first).unwrap();
    let error = block_on(late).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::DeadlineExceeded);
}

#[test]
fn dropping_the_queue_cancels_waiting_executions() {
    let queue = RunQueue::new(1, 16);
    let (first, release) = occupy(&queue);
    let waiting = queue.submit(Priority::Normal, Control::new(), |_| Ok(outputs(1.0)));
    drop(queue);
    assert_eq!(block_on(waiting).unwrap_err().kind(), ErrorKind::Cancelled);
    release.send(()).unwrap();
    block_on(first).unwrap();
}

#[test]
fn a_future_that_is_polled_again_reports_wrong_usage() {
    let queue = RunQueue::new(1, 16);
    let mut future = pin!(queue.submit(Priority::Normal, Control::new(), |_| Ok(outputs(1.0))));
    block_on(future.as_mut()).unwrap();
    let error = block_on(future.as_mut()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Usage);
}

#[test]
fn several_threads_await_on_one_queue() {
    let queue = RunQueue::new(3, 64);
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let queue = &queue;
            scope.spawn(move || {
                for round in 0..20 {
                    let value = (thread * 100 + round) as f32;
                    let future = queue.submit(Priority::Normal, Control::new(), move |_| {
                        Ok(outputs(value))
                    });
                    assert_eq!(block_on(future).unwrap(), outputs(value));
                }
            });
        }
    });
}
