use super::*;
use tenon_dma::engine::{Bank, Core, QueueSet, Transfer, Variable};
use tenon_dma::{Access, Descriptor, VariableId};
use tenon_executor::{Program, Registry, Services};

/// Two cores with the variables `x`, `y` and `z` of four bytes; `z` is shared by both, `x` is
/// 1, 2, 3, 4.
fn machine() -> Machine {
    let mut bank = Bank::default();
    let shared = bank.add(&[0; 4]).unwrap();
    let core = |name: &str, bank: &mut Bank, transfers: [(&str, Transfer); 2]| Core {
        name: name.into(),
        variables: ["x", "y", "z"]
            .iter()
            .zip(0..)
            .map(|(name, id)| Variable {
                id: VariableId(id),
                name: (*name).into(),
                region: Some(match id {
                    0 => bank.add(&[1, 2, 3, 4]).unwrap(),
                    1 => bank.add(&[0; 4]).unwrap(),
                    _ => shared,
                }),
                is_writable: true,
            })
            .collect(),
        queue_sets: vec![QueueSet::new("q", 2)],
        engines: transfers
            .into_iter()
            .map(|(name, transfer)| tenon_dma::engine::Engine {
                name: name.into(),
                transfers: vec![transfer],
            })
            .collect(),
    };
    let copy = |from, to| {
        let bytes = |id| Access::bytes(VariableId(id), 0, 4);
        vec![Descriptor::copy(bytes(from), bytes(to))]
    };
    let first = [
        (
            "act",
            Transfer {
                semaphore: Some(3),
                ..Transfer::new(1, "q", copy(0, 1))
            },
        ),
        (
            "pool",
            Transfer {
                remote_semaphores: vec![4],
                event: Some(0),
                ..Transfer::new(1, "q", copy(1, 2))
            },
        ),
    ];
    let second = [
        ("act", Transfer::new(1, "q", copy(2, 1))),
        ("pool", Transfer::new(2, "q", copy(0, 2))),
    ];
    let cores = vec![
        core("sg00", &mut bank, first),
        core("sg01", &mut bank, second),
    ];
    Machine::new(bank, cores).unwrap()
}

const PROGRAM: &str = r#"
func.func @act(%engine: !tenon.engine, %c0: !tfrt.chain) -> !tfrt.chain {
  %c1 = "tenon.dma.trigger"(%engine, %c0) {count = 0 : ui32, function = "", id = 1 : ui32} : (!tenon.engine, !tfrt.chain) -> (!tfrt.chain)
  tfrt.return %c1 : !tfrt.chain
}
func.func @pool(%engine: !tenon.engine, %c0: !tfrt.chain) -> !tfrt.chain {
  %c1 = "tenon.semaphore.wait"(%engine, %c0) {at_least = 2 : ui32, semaphore = 3 : ui64} : (!tenon.engine, !tfrt.chain) -> (!tfrt.chain)
  %c2 = "tenon.dma.trigger"(%engine, %c1) {count = 1 : ui32, function = "", id = 1 : ui32} : (!tenon.engine, !tfrt.chain) -> (!tfrt.chain)
  %c3 = "tenon.event.wait"(%engine, %c2) {event = 0 : ui64} : (!tenon.engine, !tfrt.chain) -> (!tfrt.chain)
  %c4 = "tenon.event.clear"(%engine, %c3) {event = 0 : ui64} : (!tenon.engine, !tfrt.chain) -> (!tfrt.chain)
  %c5 = "tenon.semaphore.set"(%engine, %c4) {semaphore = 3 : ui64, value = 9 : ui32} : (!tenon.engine, !tfrt.chain) -> (!tfrt.chain)
  tfrt.return %c5 : !tfrt.chain
}
func.func @other(%engine: !tenon.engine, %c0: !tfrt.chain) -> !tfrt.chain {
  %c1 = "tenon.semaphore.wait"(%engine, %c0) {at_least = 2 : ui32, semaphore = 4 : ui64} : (!tenon.engine, !tfrt.chain) -> (!tfrt.chain)
  %c2 = "tenon.dma.trigger"(%engine, %c1) {count = 0 : ui32, function = "", id = 1 : ui32} : (!tenon.engine, !tfrt.chain) -> (!tfrt.chain)
  %c3 = "tenon.semaphore.add"(%engine, %c2) {semaphore = 1 : ui64, value = 5 : ui32} : (!tenon.engine, !tfrt.chain) -> (!tfrt.chain)
  tfrt.return %c3 : !tfrt.chain
}
"#;

fn run(engines: &Engines, list: &[(usize, &str, &str)]) -> Result<()> {
    let module = tenon_bef::parse(PROGRAM, "engines.mlir").unwrap();
    let mut registry = Registry::new();
    registry.register_all(engine_library()).unwrap();
    let program = Program::decode(&module, &registry, &Services::new()).unwrap();
    let programs: Vec<EngineProgram> = list
        .iter()
        .map(|&(core, engine, function)| EngineProgram {
            core,
            engine: engine.into(),
            function: program.handle(function).unwrap(),
        })
        .collect();
    engines.run(&programs, &Request::new(&Host::new()))
}

#[test]
fn engines_of_two_cores_synchronise() {
    let engines = Engines::new(machine());
    run(
        &engines,
        &[(1, "act", "other"), (0, "pool", "pool"), (0, "act", "act")],
    )
    .unwrap();
    engines.with(|machine| {
        assert_eq!(machine.bytes(1, VariableId(1)).unwrap(), [1, 2, 3, 4]);
        assert_eq!(machine.semaphore(0, 3), 9);
        assert_eq!(machine.semaphores(1).collect::<Vec<_>>(), [(1, 5), (4, 2)]);
        assert_eq!(machine.events(0).count(), 0);
        assert_eq!(machine.races(), []);
    });
}

#[test]
fn a_deadlock_is_an_error() {
    let engines = Engines::new(machine());
    let error = run(&engines, &[(1, "act", "other"), (0, "pool", "pool")]).unwrap_err();
    assert_eq!(
        error.to_string(),
        "deadlock: every engine waits and no transfer is in progress: found \
         engine act of core 1 waits for semaphore 4 to be at least 2 (it is 0); a trigger of id 1 of \
         engine pool can satisfy it, and \
         engine pool of core 0 waits for semaphore 3 to be at least 2 (it is 0); a trigger of id 1 of \
         engine act can satisfy it"
    );
}

#[test]
fn a_wrong_trigger_ends_the_run() {
    let engines = Engines::new(machine());
    let error = run(&engines, &[(0, "pool", "pool"), (1, "pool", "act")]).unwrap_err();
    assert!(
        error.to_string().contains("no transfer of this id"),
        "{error}"
    );
}
