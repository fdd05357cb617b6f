use super::*;
use crate::{Access, Descriptor, VariableId};
use proptest::prelude::*;
use tenon_base::{Control, Result};

/// A core with variables of these sizes, filled with their own number times 16 plus the position.
fn core(bank: &mut Bank, name: &str, sizes: &[usize]) -> Core {
    let variables = sizes.iter().enumerate().map(|(number, &size)| {
        let bytes: Vec<u8> = (0..size).map(|at| (number * 16 + at) as u8).collect();
        Variable {
            id: VariableId(number as u32),
            name: format!("v{number}"),
            region: Some(bank.add(&bytes).unwrap()),
            is_writable: true,
        }
    });
    Core {
        name: name.into(),
        variables: variables.collect(),
        ..Core::default()
    }
}

fn copy(from: u32, to: u32) -> Descriptor {
    let bytes = |id| Access::bytes(VariableId(id), 0, 4);
    Descriptor::copy(bytes(from), bytes(to))
}

fn engine(name: &str, transfers: Vec<Transfer>) -> Engine {
    Engine {
        name: name.into(),
        transfers,
    }
}

fn trigger(id: u32) -> Step {
    trigger_in("", id, None)
}

fn trigger_in(function: &str, id: u32, count: Option<u32>) -> Step {
    Step::Trigger {
        function: function.into(),
        id,
        count,
    }
}

fn wait(semaphore: u64, at_least: u32) -> Step {
    Step::WaitSemaphore {
        semaphore,
        at_least,
    }
}

fn program(core: usize, engine: &str, steps: Vec<Step>) -> Program {
    Program {
        core,
        engine: engine.into(),
        steps,
    }
}

fn run(machine: &mut Machine, programs: &[Program]) -> Result<()> {
    machine.run(programs, &Control::new())
}

/// One core with four variables, a queue set of `queues` queues, and engines with transfers.
fn machine(queues: u32, engines: Vec<Engine>) -> Result<Machine> {
    let mut bank = Bank::default();
    let mut core = core(&mut bank, "sg00", &[4, 4, 4, 4]);
    core.queue_sets = vec![QueueSet::new("q", queues)];
    core.engines = engines;
    Machine::new(bank, vec![core])
}

fn bytes(machine: &Machine, variable: u32) -> &[u8] {
    machine.bytes(0, VariableId(variable)).unwrap()
}

fn refusal<T>(result: Result<T>) -> String {
    match result {
        Ok(_) => panic!("must be refused"),
        Err(error) => error.to_string(),
    }
}

#[test]
fn engines_meet_at_semaphores_that_count_queues() {
    let first = Transfer {
        semaphore: Some(9),
        event: Some(2),
        ..Transfer::new(1, "q", vec![copy(0, 1)])
    };
    let second = Transfer::new(1, "q", vec![copy(1, 2)]);
    let engines = vec![engine("act", vec![first]), engine("pool", vec![second])];
    let mut machine = machine(4, engines).unwrap();
    let programs = [
        program(0, "pool", vec![wait(9, 4), Step::WaitEvent(2), trigger(1)]),
        program(
            0,
            "act",
            vec![
                trigger(1),
                Step::AddSemaphore {
                    semaphore: 1,
                    value: 7,
                },
            ],
        ),
    ];
    run(&mut machine, &programs).unwrap();
    assert_eq!(bytes(&machine, 2), [0, 1, 2, 3]);
    assert_eq!(machine.semaphores(0).collect::<Vec<_>>(), [(1, 7), (9, 4)]);
    assert_eq!(machine.events(0).collect::<Vec<_>>(), [2]);
    assert_eq!(machine.races(), []);
}

#[test]
fn a_deadlock_report_names_the_condition_of_each_engine() {
    let transfer = Transfer {
        semaphore: Some(5),
        ..Transfer::new(3, "q", vec![copy(0, 1)])
    };
    let engines = vec![engine("act", vec![transfer]), engine("pool", vec![])];
    let mut machine = machine(2, engines).unwrap();
    let programs = [
        program(0, "act", vec![Step::WaitEvent(7), trigger(3)]),
        program(0, "pool", vec![wait(5, 2), Step::SetEvent(7)]),
        program(0, "pe", vec![wait(6, 1)]),
    ];
    assert_eq!(
        refusal(run(&mut machine, &programs)),
        "deadlock: every engine waits and no transfer is in progress: found \
         engine act of core 0, step 0, waits for event 7; only step 1 of engine pool can satisfy it, and \
         engine pool of core 0, step 0, waits for semaphore 5 to be at least 2 (it is 0); only step 1 of \
         engine act can satisfy it, and \
         engine pe of core 0, step 0, waits for semaphore 6 to be at least 1 (it is 0); no remaining step or transfer can satisfy it"
    );
}

#[test]
fn a_trigger_starts_its_count_of_descriptors() {
    let transfer = Transfer {
        semaphore: Some(0),
        ..Transfer::new(1, "q", vec![copy(0, 1), copy(0, 2), copy(0, 3)])
    };
    let mut machine = machine(2, vec![engine("act", vec![transfer])]).unwrap();
    let steps = vec![trigger_in("", 1, Some(1)), trigger_in("", 1, Some(1))];
    run(&mut machine, &[program(0, "act", steps)]).unwrap();
    assert_eq!(bytes(&machine, 2), [0, 1, 2, 3]);
    assert_eq!((bytes(&machine, 3)[0], machine.semaphore(0, 0)), (48, 0));
    let past = program(0, "act", vec![trigger_in("", 1, Some(2))]);
    assert_eq!(
        refusal(run(&mut machine, &[past])),
        "engine act, step 0: a trigger of id 1 exceeds the descriptors of its transfers: expected at most 1 \
         descriptors, found 2"
    );
    // The remaining descriptors, then all of them again.
    run(
        &mut machine,
        &[program(0, "act", vec![trigger(1), trigger(1)])],
    )
    .unwrap();
    assert_eq!((bytes(&machine, 3)[0], machine.semaphore(0, 0)), (0, 4));
    let unknown = program(0, "act", vec![trigger(8)]);
    assert_eq!(
        refusal(run(&mut machine, &[unknown])),
        "engine act, step 0: engine act has no transfer of this id in function '': found id 8"
    );
}

#[test]
fn functions_have_separate_ids_and_sections_start_at_the_first_queue() {
    let start = |function: &str, from, to| Transfer {
        function_start: Some(function.into()),
        ..Transfer::new(1, "q", vec![copy(from, to)])
    };
    let more = Transfer::new(2, "q", vec![copy(0, 3)]);
    let transfers = vec![
        Transfer::new(1, "q", vec![copy(0, 1)]),
        start("f", 0, 2),
        more,
    ];
    let mut machine = machine(3, vec![engine("act", transfers)]).unwrap();
    run(
        &mut machine,
        &[program(0, "act", vec![trigger_in("f", 1, None)])],
    )
    .unwrap();
    assert_eq!((bytes(&machine, 1)[0], bytes(&machine, 2)[0]), (16, 0));
    assert!(run(&mut machine, &[program(0, "act", vec![trigger(2)])]).is_err());
    run(
        &mut machine,
        &[program(0, "act", vec![trigger_in("f", 2, None)])],
    )
    .unwrap();
    assert_eq!(bytes(&machine, 3)[0], 0);
    let queues = |machine: &Machine| -> Vec<u32> {
        let moves = machine
            .layout
            .transfers
            .iter()
            .flat_map(|bound| &bound.moves);
        moves.map(|(queue, _)| *queue).collect()
    };
    // The function begins at the first queue.
    assert_eq!(queues(&machine), [0, 0, 1]);
    let section = Transfer {
        section_start: true,
        ..Transfer::new(3, "q", vec![copy(0, 3)])
    };
    let transfers = vec![Transfer::new(1, "q", vec![copy(0, 1), copy(0, 2)]), section];
    let machine = self::machine(3, vec![engine("act", transfers)]).unwrap();
    assert_eq!(queues(&machine), [0, 1, 0]);
}

#[test]
fn the_queues_of_a_set_have_semaphores() {
    let mut bank = Bank::default();
    let mut core = core(&mut bank, "sg00", &[4, 4, 4]);
    core.queue_sets = vec![QueueSet {
        semaphores: vec![10, 11],
        ..QueueSet::new("q", 3)
    }];
    let own = Transfer {
        semaphore: Some(1),
        ..Transfer::new(2, "q", vec![copy(0, 2)])
    };
    let transfers = vec![Transfer::new(1, "q", vec![copy(0, 1)]), own];
    core.engines = vec![engine("act", transfers)];
    let mut machine = Machine::new(bank, vec![core]).unwrap();
    run(
        &mut machine,
        &[program(0, "act", vec![trigger(1), trigger(2)])],
    )
    .unwrap();
    assert_eq!(
        machine.semaphores(0).collect::<Vec<_>>(),
        [(1, 3), (10, 2), (11, 1)]
    );
}

#[test]
fn two_cores_synchronise_with_remote_semaphores() {
    let two = |remote: Vec<u64>, cores: usize| {
        let mut bank = Bank::default();
        let mut cores: Vec<Core> = (0..cores)
            .map(|number| core(&mut bank, &format!("sg0{number}"), &[4, 4, 4]))
            .collect();
        // Both cores share the storage of variable 2.
        let shared = cores[0].variables[2].region;
        for core in &mut cores {
            core.variables[2].region = shared;
            core.queue_sets = vec![QueueSet::new("q", 2)];
        }
        cores[0].engines = vec![engine(
            "act",
            vec![Transfer {
                remote_semaphores: remote,
                ..Transfer::new(1, "q", vec![copy(1, 2)])
            }],
        )];
        if let Some(other) = cores.get_mut(1) {
            other.engines = vec![engine("sp", vec![Transfer::new(1, "q", vec![copy(2, 1)])])];
        }
        Machine::new(bank, cores)
    };
    let mut machine = two(vec![4, 5], 2).unwrap();
    let programs = [
        program(1, "sp", vec![wait(4, 2), wait(5, 2), trigger(1)]),
        program(0, "act", vec![trigger(1)]),
    ];
    run(&mut machine, &programs).unwrap();
    assert_eq!(machine.bytes(1, VariableId(1)).unwrap(), [16, 17, 18, 19]);
    assert_eq!((machine.semaphore(0, 4), machine.semaphore(1, 4)), (0, 2));
    assert_eq!(
        refusal(two(vec![4], 1)),
        "sg00: engine act: dma[0]: remote_semaphores: there is no other core: expected two cores, found 1"
    );
}

#[test]
fn only_transfers_of_the_active_instance_run() {
    let mut bank = Bank::default();
    let mut core = core(&mut bank, "sg00", &[4, 4, 4]);
    core.queue_sets = vec![QueueSet {
        instances: vec!["q0".into(), "q1".into()],
        ..QueueSet::new("q", 1)
    }];
    let on = |id, instance: &str, to| Transfer {
        queue: None,
        instance: Some(instance.into()),
        ..Transfer::new(id, "", vec![copy(0, to)])
    };
    core.engines = vec![engine("act", vec![on(1, "q0", 1), on(2, "q1", 2)])];
    let mut machine = Machine::new(bank, vec![core]).unwrap();
    let swap = |instance: &str| Step::Swap {
        queue: "q".into(),
        instance: instance.into(),
    };
    let wrong = program(0, "act", vec![trigger(2)]);
    assert_eq!(
        refusal(run(&mut machine, &[wrong])),
        "sg00: engine act: dma[1]: engine act, step 0: another instance of queue set 'q' is active: expected \
         q1, found q0"
    );
    let steps = vec![trigger(1), swap("q1"), trigger(2)];
    run(&mut machine, &[program(0, "act", steps)]).unwrap();
    assert_eq!((bytes(&machine, 1)[0], bytes(&machine, 2)[0]), (0, 0));
    assert!(run(&mut machine, &[program(0, "act", vec![swap("q2")])]).is_err());
    let all = machine.all_triggers();
    assert_eq!(
        all[0].steps,
        [swap("q0"), trigger(1), swap("q1"), trigger(2)]
    );
    run(&mut machine, &all).unwrap();
}

#[test]
fn pinned_sets_run_first_and_their_targets_are_read_only() {
    let build = |last: Descriptor| {
        let mut bank = Bank::default();
        let mut core = core(&mut bank, "sg00", &[4, 4, 4]);
        let pinned = QueueSet {
            is_pinned: true,
            ..QueueSet::new("pinned", 1)
        };
        core.queue_sets = vec![QueueSet::new("q", 1), pinned];
        let transfers = vec![
            Transfer::new(1, "q", vec![last]),
            Transfer::new(2, "pinned", vec![copy(0, 1)]),
        ];
        core.engines = vec![engine("act", transfers)];
        Machine::new(bank, vec![core])
    };
    let mut machine = build(copy(1, 2)).unwrap();
    assert_eq!(bytes(&machine, 1), [0, 1, 2, 3]);
    let all = machine.all_triggers();
    assert_eq!(all[0].steps, [trigger(1)]);
    run(&mut machine, &all).unwrap();
    assert_eq!(bytes(&machine, 2), [0, 1, 2, 3]);
    assert_eq!(
        refusal(build(copy(2, 1))),
        "sg00: engine act: dma[0]: it writes bytes that a pinned queue set has written"
    );
}

#[test]
fn a_semaphore_overflow_is_an_error() {
    let mut machine = machine(1, vec![engine("act", vec![])]).unwrap();
    let add = |value| Step::AddSemaphore {
        semaphore: 3,
        value,
    };
    let steps = vec![add(u32::MAX), add(1)];
    assert_eq!(
        refusal(run(&mut machine, &[program(0, "act", steps)])),
        "engine act, step 1: semaphore 3 overflows: expected at most 4294967295, found \
         4294967295 + 1"
    );
    let steps = vec![
        Step::SetSemaphore {
            semaphore: 3,
            value: 1,
        },
        add(1),
        wait(3, 2),
        Step::SetEvent(1),
        Step::ClearEvent(1),
        Step::WaitEvent(1),
    ];
    let error = refusal(run(&mut machine, &[program(0, "act", steps)]));
    assert!(error.contains("step 5, waits for event 1"), "{error}");
    let waiting = BlockedEngine {
        core: 0,
        engine: "act".into(),
        wait: Wait::Event(1),
    };
    assert_eq!(
        machine.deadlock(&[waiting]).to_string(),
        "deadlock: every engine waits and no transfer is in progress: found engine act of core 0 waits for event 1; no remaining step or transfer can satisfy it"
    );
}

#[test]
fn all_problems_are_reported_together() {
    let mut bank = Bank::default();
    let mut core = core(&mut bank, "sg00", &[4, 4, 4]);
    core.variables[2].is_writable = false;
    core.variables.push(Variable {
        id: VariableId(3),
        name: "table".into(),
        region: None,
        is_writable: true,
    });
    core.queue_sets = vec![
        QueueSet {
            owner: Some("pool".into()),
            ..QueueSet::new("q", 17)
        },
        QueueSet {
            kind: QueueKind::Dynamic("dynamic".into()),
            ..QueueSet::new("dyn", 1)
        },
        QueueSet::new("free", 1),
    ];
    let overlapping = Descriptor::copy(
        Access::bytes(VariableId(0), 0, 3),
        Access::bytes(VariableId(0), 1, 3),
    );
    core.engines = vec![engine(
        "act",
        vec![
            Transfer::new(1, "q", vec![copy(0, 1)]),
            Transfer::new(1, "dyn", vec![copy(0, 1)]),
            Transfer::new(1, "none", vec![copy(0, 1)]),
            Transfer::new(1, "free", vec![]),
            Transfer::new(1, "free", vec![copy(0, 2), overlapping, copy(3, 1)]),
            Transfer::new(1, "free", vec![copy(0, 1)]),
            Transfer::new(1, "free", vec![copy(0, 1), copy(0, 1)]),
        ],
    )];
    assert_eq!(
        refusal(Machine::new(bank, vec![core])),
        "sg00: queue set 'q': a wrong number of queues: expected 1 to 16, found 17\n\
         sg00: engine act: dma[0]: queue set 'q' belongs to another engine: expected pool, found act\n\
         sg00: engine act: dma[1]: queue set 'dyn' is dynamic: its descriptors are generated by the engine program, which Tenon does not execute\n\
         sg00: engine act: dma[2]: queue: the core has no queue set of this name: found 'none'\n\
         sg00: engine act: dma[3]: desc: a transfer without descriptors\n\
         sg00: engine act: dma[4].desc[0]: to: 'v2' is read-only\n\
         sg00: engine act: dma[4].desc[1]: a descriptor writes bytes that it reads\n\
         sg00: engine act: dma[4].desc[2]: from_off: the access pattern leaves its variable: expected at \
         most byte 0, found 4\n\
         sg00: engine act: dma[6]: transfers of id 1 differ in their descriptors: expected 1, found 2"
    );
}

#[test]
fn conflicting_descriptors_run_in_order_and_are_reported_as_races() {
    let transfer = Transfer::new(1, "q", vec![copy(0, 1), copy(1, 2), copy(2, 3)]);
    let mut machine = machine(3, vec![engine("act", vec![transfer])]).unwrap();
    run(&mut machine, &[program(0, "act", vec![trigger(1)])]).unwrap();
    assert_eq!(bytes(&machine, 3), [0, 1, 2, 3]);
    let races = machine.races();
    assert_eq!(races.len(), 2);
    assert_eq!(races[0].first, "sg00: engine act: dma[0].desc[0]");
    assert_eq!(races[0].second, "sg00: engine act: dma[0].desc[1]");
}

/// Variable, first byte and length of both sides of a copy of bytes.
type Ends = (u32, u32, u64, u64, u64);

fn ends() -> impl Strategy<Value = Ends> {
    (0u32..3, 0u32..3, 0u64..64, 0u64..64, 0u64..40)
}

proptest! {
    /// The result is that of sequential execution for any count of queues.
    #[test]
    fn the_result_is_that_of_the_order_of_triggers(
        list in proptest::collection::vec((ends(), 0usize..3), 1..60),
        queues in 1u32..6,
    ) {
        let mut bank = Bank::default();
        let mut core = core(&mut bank, "sg00", &[110, 110, 110]);
        core.queue_sets = (0..3).map(|set| QueueSet::new(&format!("q{set}"), queues)).collect();
        let mut expected: Vec<Vec<u8>> = (0..3)
            .map(|number| bank.bytes(&core.variables[number].region.unwrap()).unwrap().to_vec())
            .collect();
        let mut transfers = Vec::new();
        for ((from, to, read, write, len), set) in list {
            if from == to && read < write + len && write < read + len {
                continue;
            }
            let descriptor = Descriptor::copy(
                Access::bytes(VariableId(from), read, len),
                Access::bytes(VariableId(to), write, len),
            );
            let range = |start: u64| start as usize..(start + len) as usize;
            let bytes = expected[from as usize][range(read)].to_vec();
            expected[to as usize][range(write)].copy_from_slice(&bytes);
            let id = transfers.len() as u32 / 4;
            transfers.push(Transfer::new(id, &format!("q{set}"), vec![descriptor]));
        }
        core.engines = vec![engine("act", transfers)];
        let mut machine = Machine::new(bank, vec![core]).unwrap();
        let programs = machine.all_triggers();
        run(&mut machine, &programs).unwrap();
        for (number, expected) in expected.iter().enumerate() {
            prop_assert_eq!(bytes(&machine, number as u32), &expected[..]);
        }
    }
}
