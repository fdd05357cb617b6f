use super::*;

/// A tensor whose elements are their own place, as NumPy's `arange`.
fn arange(tiles: [usize; 3], tile: [usize; 2]) -> TileTensor {
    TileTensor::build(tiles, tile, |to| {
        to.iter_mut().enumerate().for_each(|(i, v)| *v = i as f32);
        Ok(())
    })
    .unwrap()
}

fn moved(from: &TileTensor, steps: &[&str]) -> TileTensor {
    let mut table = Table::new(from.tiles()).unwrap();
    steps.iter().for_each(|step| table.apply(step).unwrap());
    table.moved(from, &table.runs()).unwrap()
}

/// The element of a row-major `[t, rows, columns]` of elements.
fn at(tensor: &TileTensor, z: usize, y: usize, x: usize) -> f32 {
    let [_, rows, columns] = tensor.shape();
    tensor.values()[(z * rows + y) * columns + x]
}

/// Each TM against its definition over elements: reshape, transpose and tile of NumPy.
#[test]
fn each_step_is_what_its_definition_says() {
    let from = arange([2, 4, 6], [2, 3]);
    let (rows, columns) = (8, 18);
    type Definition = fn(usize, usize, usize) -> (usize, usize, usize);
    let steps: [(&str, [usize; 3], Definition); 9] = [
        ("broadcast_r 2", [2, 8, 6], |z, y, x| (z, y % 8, x)),
        ("broadcast_c 3", [2, 4, 18], |z, y, x| (z, y, x % 18)),
        ("broadcast_z 2", [4, 4, 6], |z, y, x| (z % 2, y, x)),
        ("transpose", [2, 6, 4], |z, y, x| (z, x, y)),
        ("hslice 3", [6, 4, 2], |z, y, x| (z / 3, y, z % 3 * 6 + x)),
        ("vslice 2", [4, 2, 6], |z, y, x| (z / 2, z % 2 * 4 + y, x)),
        ("hstack 2", [1, 4, 12], |z, y, x| {
            (2 * z + x / 18, y, x % 18)
        }),
        ("vstack 0", [1, 8, 6], |z, y, x| (2 * z + y / 8, y % 8, x)),
        ("unpad 1 2", [2, 3, 4], |z, y, x| (z, y, x)),
    ];
    for (step, tiles, definition) in steps {
        let to = moved(&from, &[step]);
        assert_eq!(to.tiles(), tiles, "{step}");
        let [t, height, width] = to.shape();
        for z in 0..t {
            for y in 0..height {
                for x in 0..width {
                    let (fz, fy, fx) = definition(z, y, x);
                    let value = ((fz * rows + fy) * columns + fx) as f32;
                    assert_eq!(at(&to, z, y, x), value, "{step} at {z} {y} {x}");
                }
            }
        }
    }
}

/// The numbers are NumPy's: `arange(48).reshape(3, 2, 8)`, its slices beside each other.
#[test]
fn slices_of_one_row_of_tiles_come_to_lie_beside_each_other() {
    let from = arange([3, 1, 2], [2, 4]);
    let to = moved(&from, &["hstack 3"]);
    assert_eq!(to.tiles(), [1, 1, 6]);
    let row = |z: usize, y: usize| (0..8).map(move |x| (16 * z + 8 * y + x) as f32);
    let wanted: Vec<f32> = (0..2)
        .flat_map(|y| (0..3).flat_map(move |z| row(z, y)))
        .collect();
    assert_eq!(to.values(), wanted);
}

#[test]
fn a_pad_fills_and_steps_follow_each_other() {
    let from = arange([1, 1, 2], [1, 2]);
    let to = moved(&from, &["pad 1 1 7.5", "transpose"]);
    assert_eq!((to.tiles(), to.tile()), ([1, 3, 2], [2, 1]));
    let pad = 7.5;
    let wanted = [0.0, pad, 1.0, pad, 2.0, pad, 3.0, pad, pad, pad, pad, pad];
    assert_eq!(to.values(), wanted);
    let back = moved(&arange([2, 4, 6], [2, 2]), &["hslice 3", "hstack 3"]);
    assert_eq!(back.values(), arange([2, 4, 6], [2, 2]).values());
}

#[test]
fn wrong_steps_are_errors() {
    for step in [
        "hslice 4",
        "hslice 0",
        "fly",
        "broadcast_r",
        "unpad 4 0",
        "broadcast_r 99999999999",
    ] {
        assert!(
            Table::new([1, 4, 6]).unwrap().apply(step).is_err(),
            "{step}"
        );
    }
}

#[test]
fn tiles_are_cut_and_filled_up() {
    let small = resized(&arange([1, 1, 2], [2, 2]), [1, 1]).unwrap();
    assert_eq!(small.values(), [0.0, 2.0]);
    let large = resized(&small, [2, 2]).unwrap();
    assert_eq!(large.values(), [0.0, 0.0, 2.0, 0.0, 0.0, 0.0, 0.0, 0.0]);
}
