//! Tests of rejected bindings and of the caller's memory in executions.

use super::*;
use crate::{Storage, Variable};
use tenon_backend::OperandPair;

/// Variables of 64 bytes: 0 input, 1 output, 2 constant, 3 to 5 arena, 6 overlapping 3 and 4,
/// 7 a view of the input.
fn table() -> Arc<Variables> {
    let constant = BufferMut::copy_of(&[7; 64]).unwrap().freeze();
    let storages = [
        Storage::Input(0),
        Storage::Output(0),
        Storage::Constant(constant),
        Storage::Arena { offset: 0 },
        Storage::Arena { offset: 64 },
        Storage::Arena { offset: 128 },
        Storage::Arena { offset: 0 },
        Storage::View(VariableId(0)),
    ];
    let variable = |(index, storage)| Variable {
        name: format!("v{index}").into(),
        size: if index == 6 { 128 } else { 64 },
        storage,
        ty: None,
        prepared: None,
    };
    Arc::new(Variables::new(storages.into_iter().enumerate().map(variable).collect()).unwrap())
}

fn ids(ids: &[u32]) -> Vec<Option<VariableId>> {
    ids.iter().map(|&id| Some(VariableId(id))).collect()
}

fn bind(inputs: &[u32], outputs: &[u32], scratch: Option<u32>) -> Result<WorkloadBinding> {
    WorkloadBinding::new(
        &table(),
        &ids(inputs),
        &ids(outputs),
        scratch.map(VariableId),
    )
}

#[test]
fn operands_may_overlap_only_in_place() {
    bind(&[0, 2], &[3], Some(4)).unwrap();
    bind(&[3, 4], &[3], Some(5)).unwrap();
    bind(&[1], &[1], None).unwrap();
    bind(&[0, 0, 7], &[1], None).unwrap();
    let refusal = |inputs: &[u32], outputs: &[u32], scratch| {
        bind(inputs, outputs, scratch)
            .expect_err("must be refused")
            .to_string()
    };
    let read_only = "a kernel writes it, but it is read-only";
    assert_eq!(
        refusal(&[], &[0], None),
        format!("variable 'v0': {read_only}")
    );
    assert_eq!(
        refusal(&[], &[7], None),
        format!("variable 'v7': {read_only}")
    );
    assert_eq!(
        refusal(&[], &[], Some(2)),
        format!("variable 'v2': {read_only}")
    );
    let twice = "a kernel writes the same bytes twice";
    assert_eq!(
        refusal(&[], &[3, 3], None),
        format!("variable 'v3': {twice}")
    );
    assert_eq!(
        refusal(&[], &[4], Some(6)),
        format!("variable 'v4': {twice}")
    );
    let reads = "a kernel writes bytes that it reads";
    assert_eq!(refusal(&[6], &[4], None), format!("variable 'v4': {reads}"));
    assert_eq!(
        refusal(&[3, 3], &[3], None),
        format!("variable 'v3': {reads}")
    );
    assert_eq!(
        refusal(&[3, 6], &[3], None),
        format!("variable 'v3': {reads}")
    );
    assert_eq!(
        refusal(&[3], &[4], Some(3)),
        format!("variable 'v3': {reads}")
    );
    assert!(refusal(&[99], &[], None).contains("no variable has the id 99"));
}

/// Adds one to each byte of variable `from`, into `to`.
fn increment(memory: &Memory, table: &Arc<Variables>, from: u32, to: u32) -> Result<()> {
    let binding = WorkloadBinding::new(table, &ids(&[from]), &ids(&[to]), None)?;
    memory.operands(&binding, |operands| {
        match operands.pair::<u8>(0, 0)? {
            OperandPair::InPlace(bytes) => bytes.iter_mut().for_each(|byte| *byte += 1),
            OperandPair::Apart(from, to) => {
                from.iter().zip(to).for_each(|(from, to)| *to = from + 1);
            }
        }
        Ok(())
    })
}

#[test]
fn the_callers_memory_is_used_in_place_or_copied() {
    let table = table();
    let mut memory = Memory::new(table.clone()).unwrap();
    assert_eq!(memory.bytes(), 192);
    let mut input = BufferMut::zeroed(65).unwrap();
    let mut output = BufferMut::zeroed(65).unwrap();
    for shift in [0, 1, 0, 1] {
        input.fill(10 + shift as u8);
        output.fill(0);
        memory
            .with(
                [&input[shift..shift + 64]],
                [&mut output[shift..shift + 64]],
                |memory| {
                    increment(memory, &table, 7, 3)?;
                    increment(memory, &table, 3, 3)?;
                    increment(memory, &table, 3, 1)
                },
            )
            .unwrap();
        assert!(
            output[shift..shift + 64]
                .iter()
                .all(|&byte| byte == 13 + shift as u8)
        );
        assert_eq!(output[if shift == 0 { 64 } else { 0 }], 0);
        assert!(input.iter().all(|&byte| byte == 10 + shift as u8));
    }
    // The aligned buffers for both were allocated once.
    assert_eq!(memory.bytes(), 192 + 128);
}

#[test]
fn constants_are_readable_and_memory_of_other_programs_is_rejected() {
    let table = table();
    let mut memory = Memory::new(table.clone()).unwrap();
    let mut output = BufferMut::zeroed(64).unwrap();
    memory
        .with([&[0; 64][..]], [&mut output[..]], |memory| {
            increment(memory, &table, 2, 1)
        })
        .unwrap();
    assert!(output.iter().all(|&byte| byte == 8));
    let outside = increment(&memory, &table, 0, 3).unwrap_err();
    assert_eq!(outside.to_string(), "a kernel runs outside of an execution");
    let other = increment(&memory, &super::tests::table(), 3, 4).unwrap_err();
    assert_eq!(
        other.to_string(),
        "a kernel runs on the memory of another program"
    );
}

#[test]
fn wrong_counts_and_lengths_are_errors_and_reset_the_memory() {
    let table = table();
    let mut memory = Memory::new(table.clone()).unwrap();
    let mut output = [0; 64];
    let mut run = |inputs: &[&[u8]], outputs: Vec<&mut [u8]>| {
        memory
            .with(inputs.iter().copied(), outputs, |_| Ok(()))
            .unwrap_err()
            .to_string()
    };
    assert_eq!(run(&[], vec![]), "input 0 is missing");
    assert_eq!(run(&[&[0; 64]], vec![]), "output 0 is missing");
    assert_eq!(
        run(&[&[0; 63]], vec![&mut output]),
        "input 0 has a wrong number of bytes: expected 64, found 63"
    );
    assert_eq!(
        run(&[&[0; 64], &[]], vec![&mut output]),
        "too many inputs or outputs"
    );
    assert!(increment(&memory, &table, 0, 3).is_err());
}

#[test]
fn a_kernel_inside_another_is_an_error() {
    let table = table();
    let memory = Memory::new(table.clone()).unwrap();
    let binding = WorkloadBinding::new(&table, &ids(&[3]), &ids(&[4]), None).unwrap();
    let error = memory
        .operands(&binding, |_| increment(&memory, &table, 3, 4))
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Internal);
}

#[test]
fn a_movement_may_not_overlap_its_target() {
    let table = table();
    let span = |id, start, end| {
        table
            .span(VariableId(id))
            .unwrap()
            .part(start, end)
            .unwrap()
    };
    let mut memory = Memory::new(table.clone()).unwrap();
    let binding =
        MoveBinding::new(&table, vec![span(2, 0, 4), span(0, 8, 12)], span(1, 4, 8)).unwrap();
    let input: Vec<u8> = (0..64).collect();
    let mut output = [0; 64];
    memory
        .with([&input[..]], [&mut output[..]], |memory| {
            memory.movement(&binding, |sources, target| {
                let sums = sources[0].iter().zip(sources[1]).map(|(a, b)| a + b);
                target
                    .iter_mut()
                    .zip(sums)
                    .for_each(|(target, sum)| *target = sum);
                Ok(())
            })
        })
        .unwrap();
    assert_eq!(output[..10], [0, 0, 0, 0, 15, 16, 17, 18, 0, 0]);
    let apart = MoveBinding::new(&table, vec![span(3, 0, 4)], span(3, 4, 8));
    apart.unwrap();
    let overlap = MoveBinding::new(&table, vec![span(3, 0, 5)], span(6, 4, 8));
    assert_eq!(
        overlap.unwrap_err().to_string(),
        "a descriptor writes bytes that it reads"
    );
    assert!(MoveBinding::new(&table, vec![], span(2, 0, 1)).is_err());
}
