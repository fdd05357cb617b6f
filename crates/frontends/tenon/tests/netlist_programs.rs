//! Random programs of netlists against a small interpreter: the value of a variable selects the entry of
//! a queue that an op reads.

use proptest::prelude::*;
use std::collections::HashMap;
use std::time::Duration;
use tenon::Tensor;
use tenon::netlist::Source;
use tenon::netlist::{ProgramOptions, Session, SessionOptions};

/// Entries of the queue; entry i holds i.
const ENTRIES: i64 = 16;

/// Variables `$v0`, `$v1`..; the last is static.
const VARIABLES: usize = 4;

#[derive(Debug, Clone)]
enum Step {
    Set(usize, i64),
    Add(usize, usize, i64),
    Mul(usize, usize, i64),
    Inc(usize, usize),
    IncWrap(usize, i64, i64),
    Loop(i64, Vec<Step>),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let variable = 0..VARIABLES;
    let number = -20i64..20;
    let leaf = prop_oneof![
        (variable.clone(), number.clone()).prop_map(|(a, n)| Step::Set(a, n)),
        (variable.clone(), variable.clone(), number.clone())
            .prop_map(|(a, b, n)| Step::Add(a, b, n)),
        (variable.clone(), variable.clone(), number.clone())
            .prop_map(|(a, b, n)| Step::Mul(a, b, n)),
        (variable.clone(), variable.clone()).prop_map(|(a, b)| Step::Inc(a, b)),
        (variable, number, 1i64..40).prop_map(|(a, n, w)| Step::IncWrap(a, n, w)),
    ];
    let step = leaf.prop_recursive(3, 24, 5, |step| {
        (1i64..4, proptest::collection::vec(step, 0..5)).prop_map(|(n, steps)| Step::Loop(n, steps))
    });
    proptest::collection::vec(step, 0..8)
}

/// The instructions in YAML.
fn write(steps: &[Step], text: &mut String) {
    for step in steps {
        let instruction = match step {
            Step::Set(a, n) => format!("varinst: [$v{a}, set, {n}]"),
            Step::Add(a, b, n) => format!("varinst: [$v{a}, add, $v{b}, {n}]"),
            Step::Mul(a, b, n) => format!("varinst: [$v{a}, mul, $v{b}, {n}]"),
            Step::Inc(a, b) => format!("varinst: [$v{a}, inc, $v{b}]"),
            Step::IncWrap(a, n, w) => format!("varinst: [$v{a}, incwrap, {n}, {w}]"),
            Step::Loop(n, steps) => {
                *text += &format!("    - loop: {n}\n");
                write(steps, text);
                "endloop".to_owned()
            }
        };
        *text += &format!("    - {instruction}\n");
    }
}

/// The same (netlist 6.4), in 32 bits.
fn interpret(steps: &[Step], v: &mut [i32; VARIABLES]) {
    for step in steps {
        match step {
            Step::Set(a, n) => v[*a] = *n as i32,
            Step::Add(a, b, n) => v[*a] = v[*b].wrapping_add(*n as i32),
            Step::Mul(a, b, n) => v[*a] = v[*b].wrapping_mul(*n as i32),
            Step::Inc(a, b) => v[*a] = v[*a].wrapping_add(v[*b]),
            Step::IncWrap(a, n, w) => {
                let sum = i64::from(v[*a]) + n;
                v[*a] = (((sum % w) + w) % w) as i32;
            }
            Step::Loop(n, steps) => (0..*n).for_each(|_| interpret(steps, v)),
        }
    }
}

fn netlist(steps: &[Step]) -> Source {
    let shape = "grid_size: [1, 1], t: 1, mblock: [1, 1], ublock: [1, 1]";
    let mut program = String::new();
    write(steps, &mut program);
    let reads: String = (0..VARIABLES)
        .map(|v| {
            format!(
                "    - varinst: [$v{v}, incwrap, 0, {ENTRIES}]\n    - execute: {{graph_name: g, \
                 queue_settings: {{x: {{prologue: false, epilogue: false, zero: false, \
                 rd_ptr_local: $v{v}, rd_ptr_global: $zero}}}}}}\n"
            )
        })
        .collect();
    let text = format!(
        "devices: {{arch: grayskull}}\nqueues:\n  x: {{type: queue, input: HOST, entries: {ENTRIES}, \
         {shape}, df: Float32, target_device: 0, loc: dram, dram: [[0, 0x10000000]]}}\n  y: {{type: \
         queue, input: copy, entries: {ENTRIES}, {shape}, df: Float32, target_device: 0, loc: dram, \
         dram: [[0, 0x20000000]]}}\ngraphs:\n  g:\n    target_device: 0\n    input_count: 1\n    \
         copy: {{type: nop, grid_loc: [0, 0], inputs: [x], in_df: [Float32], acc_df: Float16, \
         out_df: Float32, intermed_df: Float32, ublock_order: r, buf_size_mb: 2, math_fidelity: \
         HiFi4, {shape}}}\nprograms:\n  - run:\n    - staticvar: {{$v3: 5}}\n    - var: {{$v0: 1, \
         $v1: 2, $v2: 3, $zero: 0}}\n{program}{reads}"
    );
    Source::new("program.yaml", text)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn variables_have_the_specified_values(steps in steps()) {
        let session = Session::load(&netlist(&steps), &SessionOptions::default()).unwrap();
        session
            .feed("x", |entry| Tensor::from_slice([1, 32, 32], &[(entry as i64 % ENTRIES) as f32; 1024]))
            .unwrap();
        let mut v = [1, 2, 3, 5];
        // The static variable keeps its value; the others are initialised again.
        for _ in 0..2 {
            [v[0], v[1], v[2]] = [1, 2, 3];
            interpret(&steps, &mut v);
            v = v.map(|value| value.rem_euclid(ENTRIES as i32));
            session.run("run", &ProgramOptions::new()).unwrap();
            let popped = session.pop_batch("y", VARIABLES, Duration::ZERO).unwrap();
            let seen: Vec<i32> =
                popped.iter().map(|entry| entry.as_slice::<f32>().unwrap()[0] as i32).collect();
            prop_assert_eq!(&seen[..], &v[..]);
        }
    }
}

/// Errors of programs have their line, at load time where possible.
#[test]
fn wrong_programs_have_their_lines() {
    let load = |from: &str, to: &str| {
        let text = netlist(&[]).text().replace(from, to);
        let session = Session::load(&Source::new("p.yaml", text), &SessionOptions::default());
        let run = |session: Session| {
            session.feed("x", |_| Tensor::from_slice([1, 32, 32], &[0.0f32; 1024]))?;
            session.run("run", &ProgramOptions::new())
        };
        session.and_then(run).unwrap_err().to_string()
    };
    let wrong: HashMap<&str, (&str, &str)> = HashMap::from([
        ("is not declared", ("$v3: 5", "$v3: $nowhere")),
        ("graph", ("graph_name: g", "graph_name: other")),
    ]);
    for (message, (from, to)) in wrong {
        let text = load(from, to);
        assert!(text.contains(message) && text.contains("p.yaml:"), "{text}");
    }
}
