use super::*;
use std::sync::mpsc;
use std::time::Duration;

fn readable(event: &OwnedFd, patience: Duration) -> bool {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let patience = Timespec::try_from(patience).unwrap();
    let mut polled = [PollFd::new(event, PollFlags::IN)];
    poll(&mut polled, Some(&patience)).unwrap() == 1
}

fn waiting(receiver: mpsc::Receiver<()>) -> RequestWork {
    Box::new(move || {
        receiver
            .recv()
            .map_err(|_| Error::new(ErrorKind::OutOfBounds, "left alone"))
    })
}

#[test]
fn requests_complete_in_order() {
    let queues = RequestQueues::new(2, 3);
    let (first_sender, receiver) = mpsc::channel();
    let put = |work, tracker| queues.put(1, ExecutionUnit::TensorOperation, 1, work, tracker, None);
    let first = put(waiting(receiver), None).unwrap();
    let (second_sender, receiver) = mpsc::channel();
    let tracker = Arc::new(ErrorTracker::new());
    let second = put(waiting(receiver), Some(tracker.clone())).unwrap();
    assert_eq!(second.0 - first.0, 1);
    assert_eq!(first.position(), 1);
    assert_eq!(
        second.to_string(),
        "request 2 of queue 1, tensor operation, core 1"
    );
    assert!(!queues.is_completed(first).unwrap());
    let events = [first, second].map(|sequence| queues.completion(sequence).unwrap());
    assert!(!readable(&events[0], Duration::ZERO));
    first_sender.send(()).unwrap();
    assert!(readable(&events[0], Duration::from_secs(60)));
    assert!(queues.is_completed(first).unwrap() && !queues.is_completed(second).unwrap());
    let last = queues
        .last_completed(1, ExecutionUnit::TensorOperation, 1)
        .unwrap();
    assert_eq!(last, first);
    assert!(readable(&queues.completion(first).unwrap(), Duration::ZERO));
    // The second fails: it is complete too, and its tracker has the failure.
    drop(second_sender);
    queues.drain(1, ExecutionUnit::TensorOperation).unwrap();
    assert!(readable(&events[1], Duration::ZERO));
    assert_eq!(tracker.failures(), [(second, 1006)]);
}

#[test]
fn eventfds_of_callers_are_signalled() {
    use rustix::event::{EventfdFlags, eventfd};
    let new = || eventfd(0, EventfdFlags::CLOEXEC).unwrap();
    let copy = |event: &OwnedFd| Some(event.try_clone().unwrap());
    let count = |event: &OwnedFd| {
        let mut bytes = [0; 8];
        rustix::io::read(event, &mut bytes).unwrap();
        u64::from_ne_bytes(bytes)
    };
    let queues = RequestQueues::new(1, 9);
    let (each, replaced, ended, one) = (new(), new(), new(), new());
    let signal_each = |event| {
        queues
            .signal_each(0, ExecutionUnit::TensorOperation, 0, event)
            .unwrap()
    };
    let put = |work| {
        queues
            .put(0, ExecutionUnit::TensorOperation, 0, work, None, None)
            .unwrap()
    };
    signal_each(copy(&replaced));
    signal_each(copy(&each));
    let (sender, receiver) = mpsc::channel();
    let first = put(waiting(receiver));
    let second = put(Box::new(|| Ok(())));
    queues.signal_one(first, copy(&replaced)).unwrap();
    queues.signal_one(first, copy(&one)).unwrap();
    queues.signal_one(second, copy(&ended)).unwrap();
    queues.signal_one(second, None).unwrap();
    assert!(!readable(&one, Duration::ZERO) && !readable(&each, Duration::ZERO));
    sender.send(()).unwrap();
    queues.drain(0, ExecutionUnit::TensorOperation).unwrap();
    assert_eq!((count(&each), count(&one)), (2, 1));
    assert!(!readable(&replaced, Duration::ZERO) && !readable(&ended, Duration::ZERO));
    // Immediately for a complete request; not after the eventfd was removed.
    queues.signal_one(first, copy(&one)).unwrap();
    assert_eq!(count(&one), 1);
    signal_each(None);
    put(Box::new(|| Ok(())));
    queues.drain(0, ExecutionUnit::TensorOperation).unwrap();
    assert!(!readable(&each, Duration::ZERO));
    let unknown = Sequence(second.0 + 9);
    assert!(queues.signal_one(unknown, copy(&one)).is_err());
}

#[test]
fn a_full_queue_rejects_requests() {
    let queues = RequestQueues::new(1, 2);
    let (sender, receiver) = mpsc::channel();
    let put = |work| queues.put(0, ExecutionUnit::Compute, 0, work, None, None);
    put(waiting(receiver)).unwrap();
    put(Box::new(|| panic!("caught"))).unwrap();
    let error = put(Box::new(|| Ok(()))).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::QueueFull);
    sender.send(()).unwrap();
    queues.drain(0, ExecutionUnit::Compute).unwrap();
    put(Box::new(|| Ok(()))).unwrap();
    queues.close();
    let error = put(Box::new(|| Ok(()))).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Closed);
}

#[test]
fn callbacks_receive_the_results_of_requests() {
    let queues = RequestQueues::new(1, 8);
    let (sender, results) = mpsc::channel();
    for fails in [false, true] {
        let sender = sender.clone();
        let work: RequestWork = Box::new(move || {
            if fails {
                Err(Error::new(ErrorKind::BadInput, "bad"))
            } else {
                Ok(())
            }
        });
        let ended: CompletionCallback = Box::new(move |sequence, done| {
            sender.send((sequence.position(), done.is_ok())).unwrap();
        });
        queues
            .put(0, ExecutionUnit::TensorRead, 0, work, None, Some(ended))
            .unwrap();
    }
    drop(queues);
    drop(sender);
    assert_eq!(results.iter().collect::<Vec<_>>(), [(1, true), (2, false)]);
}

#[test]
fn unknown_sequence_numbers_and_queues_are_rejected() {
    let queues = RequestQueues::new(1, 8);
    let put = |core, unit, queue| queues.put(core, unit, queue, Box::new(|| Ok(())), None, None);
    assert!(put(1, ExecutionUnit::Compute, 0).is_err());
    assert!(put(0, ExecutionUnit::Compute, 1).is_err());
    assert!(put(0, ExecutionUnit::Collectives, 3).is_err());
    let sequence = put(0, ExecutionUnit::Collectives, 2).unwrap();
    queues.is_completed(sequence).unwrap();
    for wrong in [0, 1, sequence.0 + 1, sequence.0 ^ 1 << 48, u64::MAX] {
        let error = queues.is_completed(Sequence(wrong)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        assert!(queues.completion(Sequence(wrong)).is_err());
    }
}
