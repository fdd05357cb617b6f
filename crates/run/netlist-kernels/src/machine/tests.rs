use super::super::tensor::added_to;
use super::*;
use tenon_tile::{DataFormat, UblockOrder};
use tenon_tile::{QueueLayout, TensorBlocking};

fn spec(name: &str, is_ram: bool, entries: usize, t: usize, of: Option<&str>) -> QueueSpec {
    QueueSpec {
        name: name.into(),
        is_ram,
        entries,
        tiles: [t, 1, 1],
        tile: [1, 1],
        format: DataFormat::Float32,
        source: None,
        view_of: of.map(str::to_owned),
        layout: None,
    }
}

fn entry(values: &[f32]) -> TileTensor {
    TileTensor::build([values.len(), 1, 1], [1, 1], |to| {
        to.copy_from_slice(values);
        Ok(())
    })
    .unwrap()
}

#[test]
fn a_host_waits_for_another_thread() {
    let machine = Machine::new(MachineLimits::default());
    machine.declare(spec("q", false, 1, 1, None)).unwrap();
    assert!(machine.pop("q", Duration::ZERO).is_err());
    std::thread::scope(|scope| {
        let popper = scope.spawn(|| machine.pop("q", Duration::from_secs(60)).unwrap());
        machine
            .push("q", entry(&[7.0]), Duration::from_secs(60))
            .unwrap();
        assert_eq!(popper.join().unwrap().values(), [7.0]);
    });
    machine.push("q", entry(&[1.0]), Duration::ZERO).unwrap();
    let error = machine
        .push("q", entry(&[2.0]), Duration::ZERO)
        .unwrap_err();
    assert_eq!(error.to_string(), "queue 'q' is full");
    assert_eq!(
        machine.peek("q", 0, Duration::ZERO).unwrap().values(),
        [1.0]
    );
}

#[test]
fn views_share_the_memory_of_the_ram_with_most_entries() {
    let machine = Machine::new(MachineLimits::default());
    machine.declare(spec("whole", true, 1, 4, None)).unwrap();
    machine
        .declare(spec("parts", true, 2, 2, Some("whole")))
        .unwrap();
    let control = Control::new();
    machine
        .write("whole", entry(&[1.0, 2.0, 3.0, 4.0]), &control)
        .unwrap();
    assert_eq!(
        machine.slot("parts", 1).unwrap().unwrap().values(),
        [3.0, 4.0]
    );
    machine.put("parts", 0, entry(&[8.0, 9.0])).unwrap();
    let whole = machine.read("whole", &control).unwrap();
    assert_eq!(whole.values(), [8.0, 9.0, 3.0, 4.0]);
}

/// Memory of 4 tiles: one column of them, and two rows in the view.
#[test]
fn a_view_of_another_shape_has_the_same_tiles_of_memory() {
    let machine = Machine::new(MachineLimits::default());
    let shaped = |name: &str, rows: usize, columns: usize, of: Option<&str>| {
        let blocking = TensorBlocking {
            grid: [1, 1],
            t: 1,
            mblock: [rows, columns],
            ublock: [1, 1],
            tile: [1, 2],
            order: UblockOrder::Row,
        };
        machine
            .declare(QueueSpec {
                tiles: [1, rows, columns],
                tile: [1, 2],
                layout: Some(QueueLayout::of_tiles(blocking)),
                ..spec(name, true, 1, 1, of)
            })
            .unwrap();
    };
    shaped("tall", 4, 1, None);
    shaped("wide", 2, 2, Some("tall"));
    let values: Vec<f32> = (0..8u8).map(f32::from).collect();
    let tall = TileTensor::build([1, 4, 1], [1, 2], |to| {
        to.copy_from_slice(&values);
        Ok(())
    });
    machine.put("tall", 0, tall.unwrap()).unwrap();
    // Tiles of two elements in a row: both have the same order in memory.
    let wide = machine.slot("wide", 0).unwrap().unwrap();
    assert_eq!((wide.tiles(), wide.values()), ([1, 2, 2], &values[..]));
    let wider = TileTensor::build([1, 2, 2], [1, 2], |to| {
        to.copy_from_slice(&[9.0; 8]);
        Ok(())
    });
    machine
        .write("wide", wider.unwrap(), &Control::new())
        .unwrap();
    let tall = machine.read("tall", &Control::new()).unwrap();
    assert_eq!((tall.tiles(), tall.values()), ([1, 4, 1], &[9.0; 8][..]));
}

#[test]
fn clearing_a_ram_resets_its_accumulator() {
    let machine = Machine::new(MachineLimits::default());
    let mut ram = spec("sum", true, 1, 1, None);
    ram.source = Some("op".into());
    machine.declare(ram).unwrap();
    let accumulate = |value| {
        let sum = added_to(machine.sum("op").as_ref(), entry(&[value])).unwrap();
        machine.set_sum("op", &sum);
        sum
    };
    accumulate(2.0);
    assert_eq!(accumulate(3.0).values(), [5.0]);
    let zero = QueueSetting {
        zero: true,
        prologue: true,
        ..QueueSetting::default()
    };
    machine.apply("sum", zero, true).unwrap();
    assert_eq!(accumulate(3.0).values(), [3.0]);
}
