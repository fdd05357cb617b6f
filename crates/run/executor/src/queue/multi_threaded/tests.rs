use super::*;
use crate::{Value, pending};
use std::sync::atomic::AtomicU64;
use std::sync::mpsc;
use std::thread::ThreadId;

fn queue(threads: usize) -> Arc<MultiThreaded> {
    Arc::new(MultiThreaded::new(threads, 4).unwrap())
}

/// Adds `width` tasks that each add `width` more, `depth` levels deep, counting all.
fn tree(queue: &Arc<MultiThreaded>, count: &Arc<AtomicU64>, width: u32, depth: u32) {
    for _ in 0..width {
        let (inner, counter) = (queue.clone(), count.clone());
        queue.add(Task::new(move || {
            counter.fetch_add(1, Ordering::Relaxed);
            if depth > 1 {
                tree(&inner, &counter, width, depth - 1);
            }
        }));
    }
}

#[test]
fn quiesce_waits_for_tasks_of_tasks() {
    for threads in [1, 2, 3, 7] {
        let queue = queue(threads);
        for _ in 0..20 {
            let count = Arc::new(AtomicU64::new(0));
            tree(&queue, &count, 6, 5);
            queue.quiesce();
            let all: u64 = (1..=5).map(|level| 6u64.pow(level)).sum();
            assert_eq!(count.load(Ordering::Relaxed), all);
        }
    }
}

#[test]
fn tasks_may_quiesce() {
    for threads in [1, 2, 3] {
        let queue = queue(threads);
        let count = Arc::new(AtomicU64::new(0));
        for _ in 0..2 {
            let (inner, counter) = (queue.clone(), count.clone());
            queue.add(Task::new(move || {
                tree(&inner, &counter, 5, 3);
                let blocking = counter.clone();
                let slow = Task::new(move || {
                    std::thread::sleep(std::time::Duration::from_millis(1));
                    blocking.fetch_add(1, Ordering::Relaxed);
                });
                assert!(inner.add_blocking(slow, true));
                inner.quiesce();
                // 5 + 25 + 125 and the slow one, and perhaps those of the other task.
                assert!(counter.fetch_add(1, Ordering::Relaxed) >= 156);
            }));
        }
        queue.quiesce();
        assert_eq!(count.load(Ordering::Relaxed), 2 * 157);
    }
}

#[test]
fn more_tasks_than_slots_all_run() {
    let queue = queue(2);
    let count = Arc::new(AtomicU64::new(0));
    tree(&queue, &count, 20_000, 1);
    tree(&queue, &count, 1, 1);
    let (inner, counter) = (queue.clone(), count.clone());
    queue.add(Task::new(move || tree(&inner, &counter, 20_000, 1)));
    queue.quiesce();
    assert_eq!(count.load(Ordering::Relaxed), 40_001);
}

#[test]
fn a_full_deque_nests_tasks_to_a_bounded_depth() {
    /// With the deque full, each task would run inside the one that adds it.
    fn next(queue: &Arc<MultiThreaded>, left: u32) {
        if left > 0 {
            let inner = queue.clone();
            queue.add(Task::new(move || next(&inner, left - 1)));
        }
    }
    let queue = queue(1);
    let inner = queue.clone();
    // Runs on the worker or on the thread that quiesces.
    queue.add(Task::new(move || {
        (0..SLOTS).for_each(|_| inner.add(Task::new(|| ())));
        next(&inner, 200_000);
    }));
    queue.quiesce();
    (0..SLOTS).for_each(|_| queue.add(Task::new(|| ())));
    next(&queue, 200_000);
    queue.quiesce();
}

#[test]
fn several_tasks_added_at_once_all_run() {
    let queue = queue(3);
    let count = Arc::new(AtomicU64::new(0));
    let counting = |_| {
        let count = count.clone();
        Task::new(move || _ = count.fetch_add(1, Ordering::Relaxed))
    };
    queue.add_all(&mut (0..3000).map(counting));
    queue.quiesce();
    assert_eq!(count.load(Ordering::Relaxed), 3000);
}

#[test]
fn a_lone_worker_runs_its_newest_task_first() {
    let queue = queue(1);
    let (sender, receiver) = mpsc::channel();
    let inner = queue.clone();
    queue.add(Task::new(move || {
        for number in 0..5 {
            let sender = sender.clone();
            inner.add(Task::new(move || sender.send(number).unwrap()));
        }
    }));
    // Awaiting does not steal, so that the order is the worker's.
    assert_eq!(receiver.iter().collect::<Vec<i32>>(), [4, 3, 2, 1, 0]);
}

#[test]
fn all_workers_run_tasks_concurrently() {
    let queue = queue(4);
    let gate = Arc::new(std::sync::Barrier::new(5));
    for _ in 0..4 {
        let gate = gate.clone();
        queue.add(Task::new(move || _ = gate.wait()));
    }
    gate.wait();
    queue.quiesce();
}

#[test]
fn values_can_be_awaited_outside_and_inside_a_task() {
    for threads in [1, 2] {
        let queue = queue(threads);
        let (inner_value, inner_promise) = pending();
        let (value, promise) = pending();
        let inner = queue.clone();
        queue.add(Task::new(move || {
            inner.add(Task::new(move || inner_promise.set(Value::Chain)));
            inner.await_all(std::slice::from_ref(&inner_value));
            promise.set(Value::Chain);
        }));
        queue.await_all(&[value]);
    }
}

#[test]
fn blocking_tasks_run_on_separate_threads_and_quiesce_waits_for_them() {
    let queue = queue(1);
    let (sender, receiver) = mpsc::channel::<ThreadId>();
    let worker = sender.clone();
    queue.add(Task::new(move || {
        worker.send(std::thread::current().id()).unwrap()
    }));
    for may_queue in [true, false] {
        let sender = sender.clone();
        let task = Task::new(move || sender.send(std::thread::current().id()).unwrap());
        assert!(queue.add_blocking(task, may_queue));
    }
    queue.quiesce();
    drop(sender);
    let mut threads: Vec<ThreadId> = receiver.iter().collect();
    threads.dedup();
    assert_eq!(threads.len(), 3);
}

#[test]
fn a_panic_is_resumed_in_the_waiting_thread_and_the_queue_keeps_running() {
    let queue = queue(2);
    let (value, promise) = pending();
    queue.add(Task::new(|| panic!("a kernel's defect")));
    let waiting = catch_unwind(AssertUnwindSafe(|| {
        queue.await_all(std::slice::from_ref(&value))
    }));
    assert!(waiting.is_err());
    queue.add(Task::new(move || promise.set(Value::Chain)));
    queue.await_all(&[value]);
}

#[test]
fn dropping_the_queue_runs_the_remaining_tasks() {
    let count = Arc::new(AtomicU64::new(0));
    let queue = queue(2);
    tree(&queue, &count, 10, 3);
    drop(queue);
    // The tasks hold references to the queue; the last task drops it, perhaps on a worker.
    while Arc::strong_count(&count) > 1 {
        std::thread::yield_now();
    }
    assert_eq!(count.load(Ordering::Relaxed), 1110);
}
