use super::*;

fn queue(entries: usize, is_ram: bool, host: bool) -> Queue {
    Queue::new(QueueSpec {
        name: "q".into(),
        is_ram,
        entries,
        tiles: [1, 1, 1],
        tile: [1, 1],
        format: DataFormat::Float32,
        source: (!host).then(|| "op".into()),
        view_of: None,
        layout: None,
    })
    .unwrap()
}

fn scalar(value: f32) -> TileTensor {
    TileTensor::build([1, 1, 1], [1, 1], |to| {
        to[0] = value;
        Ok(())
    })
    .unwrap()
}

fn with_source(entries: usize) -> Queue {
    let mut queue = queue(entries, false, true);
    queue.entry_source = Some(Arc::new(|index| Ok(scalar(index as f32))));
    queue.refill();
    queue
}

fn read(queue: &Queue) -> Option<f32> {
    let slot = queue.next_slot().unwrap()?;
    let entry = queue.content(slot).into_entry().unwrap();
    entry.map(|entry| entry.values()[0])
}

fn streaming(local: i64, global: i64) -> QueueSetting {
    QueueSetting {
        rd_local: Some(local),
        rd_global: Some(global),
        ..QueueSetting::default()
    }
}

/// The comments of the original's program test: pointers 0, 4, 8, 12, then 16 or 0.
#[test]
fn a_pointer_may_wrap_at_the_entries_or_at_twice_as_many() {
    for wrap in [16, 32] {
        let mut queue = with_source(16);
        for round in 0..9 {
            let pointer = round * 4 % wrap;
            queue
                .apply(streaming(pointer, pointer), round == 0)
                .unwrap();
            assert_eq!(read(&queue), Some((round * 4) as f32), "wrap {wrap}");
            queue.execute_done();
        }
    }
}

#[test]
fn an_execute_advances_the_local_pointer_and_resets_it() {
    let mut queue = with_source(4);
    queue.apply(streaming(0, 0), true).unwrap();
    assert_eq!(read(&queue), Some(0.0));
    queue.input_done();
    assert_eq!(read(&queue), Some(1.0));
    queue.execute_done();
    assert_eq!(read(&queue), Some(0.0));
    queue.set_rd(2, false);
    queue.apply(streaming(2, 2), false).unwrap();
    assert_eq!(read(&queue), Some(2.0));
}

#[test]
fn an_empty_queue_has_no_entry_and_pointers_may_move_anywhere() {
    let mut queue = queue(2, false, false);
    queue.apply(streaming(0, 0), true).unwrap();
    assert_eq!(read(&queue), None);
    queue.set_rd(3, false);
    assert_eq!(queue.occupancy(), 0);
    queue.push(scalar(7.0)).unwrap();
    queue.set_local(3);
    assert_eq!(read(&queue), Some(7.0));
    assert!(!queue.is_full());
    queue.push(scalar(8.0)).unwrap();
    assert!(queue.is_full());
    assert_eq!(
        queue
            .pop()
            .unwrap()
            .unwrap()
            .into_entry()
            .unwrap()
            .unwrap()
            .values(),
        [7.0]
    );
}

#[test]
fn the_pointers_of_a_ram_are_bounded() {
    let mut ram = queue(2, true, false);
    assert_eq!(read(&ram), Some(0.0));
    let setting = QueueSetting {
        rd_global: Some(1),
        wr_global: Some(1),
        ..QueueSetting::default()
    };
    ram.apply(setting, true).unwrap();
    ram.push(scalar(5.0)).unwrap();
    assert_eq!(read(&ram), Some(5.0));
    ram.set_rd(2, false);
    assert!(ram.next_slot().is_err());
    assert!(ram.pop().is_err());
}

#[test]
fn a_drained_queue_is_never_full() {
    let mut queue = queue(1, false, false);
    queue.drained = true;
    (0..3).for_each(|i| queue.push(scalar(i as f32)).unwrap());
    assert!(!queue.is_full());
    assert_eq!(queue.outputs.len(), 3);
}

#[test]
fn entries_of_ops_are_freed_when_popped() {
    let mut queue = queue(4, false, false);
    let stored = |queue: &Queue| {
        let stored = queue
            .slots
            .iter()
            .filter(|slot| matches!(slot, Slot::Stored(_)));
        stored.count()
    };
    (0..3).for_each(|i| queue.push(scalar(i as f32)).unwrap());
    queue.apply(streaming(0, 0), true).unwrap();
    queue.set_rd(1, false);
    assert_eq!(stored(&queue), 2);
    // The first setting of another run pops too, and may set the pointer back.
    queue.apply(streaming(2, 2), true).unwrap();
    assert_eq!((stored(&queue), read(&queue)), (1, Some(2.0)));
    queue.apply(streaming(0, 0), true).unwrap();
    assert_eq!((stored(&queue), read(&queue)), (1, None));
    queue.set_rd(3, false);
    assert_eq!(stored(&queue), 0);
    // Entries of the host may be read by another program.
    let mut queue = with_source(4);
    queue.push(scalar(9.0)).unwrap();
    queue.set_rd(3, false);
    assert_eq!(stored(&queue), 1);
}
