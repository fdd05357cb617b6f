use super::*;
use std::sync::Mutex;

#[test]
fn waiters_run_latest_first_and_at_once_when_available() {
    let order = Arc::new(Mutex::new(Vec::new()));
    let note = |number: i32| {
        let order = order.clone();
        move |value: &Value| {
            assert_eq!(*value, Value::I64(5));
            order.lock().unwrap().push(number);
        }
    };
    let (value, promise) = pending();
    (0..3).for_each(|number| value.when_available(note(number)));
    promise.set(Value::I64(5));
    value.when_available(note(3));
    assert_eq!(*order.lock().unwrap(), [2, 1, 0, 3]);
}

#[test]
fn a_forwarded_promise_runs_its_waiters_at_its_position() {
    let order = Arc::new(Mutex::new(Vec::new()));
    let note = |number: i32| {
        let order = order.clone();
        move |_: &Value| order.lock().unwrap().push(number)
    };
    let (outer, outer_promise) = pending();
    let (inner, inner_promise) = pending();
    inner.when_available(note(0));
    outer_promise.forward(inner.clone());
    inner.when_available(note(1));
    outer.when_available(note(2));
    outer.when_available(note(3));
    inner_promise.set(Value::Chain);
    assert_eq!(*order.lock().unwrap(), [1, 3, 2, 0]);
}

#[test]
fn a_dropped_promise_is_an_error() {
    let (value, promise) = pending();
    drop(promise);
    assert!(matches!(value.get(), Some(Value::Error(_))));
}

#[test]
fn a_million_forwards_and_waiters_use_little_stack() {
    let small = std::thread::Builder::new().stack_size(256 << 10);
    let thread = small.spawn(|| {
        let (first, first_promise) = pending();
        let mut last = first;
        for index in 0..1_000_000 {
            let (value, promise) = pending();
            if index % 2 == 0 {
                promise.forward(last);
            } else {
                last.when_available(move |value| promise.set(value.clone()));
            }
            last = value;
        }
        first_promise.set(Value::I32(1));
        assert_eq!(last.get(), Some(&Value::I32(1)));
        let (value, promise) = pending();
        (0..1_000_000).for_each(|_| value.when_available(|_| ()));
        promise.set(Value::Chain);
    });
    thread.unwrap().join().unwrap();
}

#[test]
fn concurrent_setting_and_registering_runs_each_waiter_once() {
    for _ in 0..1000 {
        let (value, promise) = pending();
        let (sum, other) = (Arc::new(Mutex::new(0)), value.clone());
        std::thread::scope(|scope| {
            scope.spawn(move || promise.set(Value::I32(3)));
            for value in [&value, &other] {
                let sum = sum.clone();
                scope.spawn(move || {
                    value.when_available(move |_| *sum.lock().unwrap() += 1);
                });
            }
        });
        assert_eq!(*sum.lock().unwrap(), 2);
    }
}
