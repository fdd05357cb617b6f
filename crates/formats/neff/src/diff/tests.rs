use super::*;
use crate::contents::tests::sample;
use crate::{Contents, Limits, Package, Role, WriteOptions};
use tenon_base::Control;
use tenon_tensor::{BufferMut, DataType};

fn package(contents: &Contents) -> Package {
    let bytes = contents
        .to_bytes(WriteOptions::default(), &Control::new())
        .unwrap();
    let buffer = BufferMut::copy_of(&bytes).unwrap().freeze();
    Package::from_buffer(buffer, &Limits::default(), &Control::new()).unwrap()
}

fn compare(a: &Contents, b: &Contents) -> Diff {
    diff(&package(a), &package(b), &Control::new()).unwrap()
}

#[test]
fn a_package_does_not_differ_from_itself() {
    let same = compare(&sample(), &sample());
    assert!(same.is_empty(), "{same}");
    assert_eq!(same.to_string(), "");
}

#[test]
fn every_part_is_reported() {
    let a = sample();
    let mut b = sample();
    let values = [1.0f32, 2.0, 3.0, f32::NAN];
    let bytes: Vec<u8> = values
        .iter()
        .flat_map(|number| number.to_le_bytes())
        .collect();
    b.variables[2].role = Role::Constant(BufferMut::copy_of(&bytes).unwrap().freeze());
    b.variables[1].name = "z".into();
    b.movements[1].descriptors[0].to.offset = 0;
    b.movements[0].descriptors.pop();
    b.program = BufferMut::copy_of(b"other").unwrap().freeze();
    let found = compare(&a, &b);
    let text = found.to_string();
    for part in [
        "sg00/program.bef: byte 0: ",
        "sg00/def.json: var.y: -{",
        "sg00/def.json: var.z: +{",
        "sg00/SP.json: dma[0].desc: [",
        "  w f32[4]: 4 of 4 differ, at most by NaN",
    ] {
        assert!(text.contains(part), "{part} is not in\n{text}");
    }
    assert!(found.placement.is_empty());
    let json = serde_json::to_value(&found).unwrap();
    assert_eq!(json["constants"][0]["variable"], "w");
}

#[test]
fn statistics_are_those_of_the_elements() {
    // By hand: differences 0, 1, 3.
    let bytes_of = |list: [f32; 3]| -> Vec<u8> {
        list.iter()
            .flat_map(|number| number.to_le_bytes())
            .collect()
    };
    let (a, b) = (bytes_of([1.0, 2.0, 3.0]), bytes_of([1.0, 3.0, 6.0]));
    let found = Statistics::of(DataType::F32, &a, &b).unwrap();
    assert_eq!((found.count, found.differing), (3, 2));
    assert_eq!(found.max_difference, 3.0);
    assert_eq!(found.rms_difference, (10.0f64 / 3.0).sqrt());
    assert_eq!(found.mean, (2.0, 10.0 / 3.0));
    assert!(Statistics::of(DataType::C64, &a, &b).is_none());
    // More than are converted at a time.
    let many: Vec<u8> = (0..10_000u16).flat_map(u16::to_le_bytes).collect();
    let mut other = many.clone();
    other[19_998] ^= 1;
    let found = Statistics::of(DataType::U16, &many, &other).unwrap();
    assert_eq!(
        (found.count, found.differing, found.max_difference),
        (10_000, 1, 1.0)
    );
}
