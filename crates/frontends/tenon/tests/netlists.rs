//! Running netlists: results against plain arithmetic and NumPy, wrong programs, real netlists.
use std::time::{Duration, Instant};
use tenon::netlist::Source;
use tenon::netlist::{
    Job, MachineLimits, NumericMode, ProgramOptions, SelfTest, Session, SessionOptions,
};
use tenon::tensor::npy;
use tenon::{Control, ErrorKind, LoadOptions, Tensor};
use tenon_test_data::{Answer, good_netlists, python};

/// A queue of one buffer; `rest` has further keys.
fn queue(name: &str, input: &str, entries: u32, shape: &str, rest: &str) -> String {
    let place = name.bytes().map(u32::from).sum::<u32>() * 0x10_0000;
    format!(
        "  {name}: {{type: queue, input: {input}, entries: {entries}, grid_size: [1, 1], {shape}, \
         df: Float32, target_device: 0, loc: dram, dram: [[0, {place:#x}]]{rest}}}\n"
    )
}

/// An op on one core, the one with index `at`.
fn op(name: &str, kind: &str, inputs: &str, shape: &str, at: usize, rest: &str) -> String {
    let count = inputs.split(',').count();
    let formats = vec!["Float32"; count].join(", ");
    format!(
        "    {name}: {{type: {kind}, grid_loc: [{}, {}], grid_size: [1, 1], inputs: [{inputs}], \
         in_df: [{formats}], acc_df: Float16, out_df: Float32, intermed_df: Float32, \
         ublock_order: r, buf_size_mb: 2, math_fidelity: HiFi4, {shape}{rest}}}\n",
        at / 8,
        at % 8
    )
}

const TILE: &str = "t: 1, mblock: [1, 1], ublock: [1, 1]";

/// Two rounds of `(a x w + b)`, in a loop that moves the pointers.
fn product_and_sum(program: &str) -> Source {
    let wide = "t: 1, mblock: [1, 2], ublock: [1, 1]";
    let weights = "t: 1, mblock: [1, 2], ublock: [1, 1]";
    let text = format!(
        "devices: {{arch: grayskull}}\nqueues:\n{}{}{}{}graphs:\n  sums:\n    target_device: 0\n    \
         input_count: 2\n{}{}programs:\n{program}",
        queue("a", "HOST", 4, TILE, ""),
        queue("w", "HOST", 1, weights, ""),
        queue("b", "HOST", 4, wide, ""),
        queue("y", "sum", 4, wide, ""),
        op(
            "product",
            "matmul",
            "a, w",
            wide,
            0,
            ", attributes: {m_k: 1, u_kt: 1}"
        ),
        op("sum", "add", "product, b", wide, 1, ""),
    );
    Source::new("sums.yaml", text)
}

const LOOP: &str = "  - run:
    - param: [$p_loop_count]
    - var: {$at: 0, $zero: 0}
    - loop: $p_loop_count
    - execute: {graph_name: sums, queue_settings: {
        a: {prologue: false, epilogue: false, zero: false, rd_ptr_local: $at, rd_ptr_global: $at},
        b: {prologue: false, epilogue: false, zero: false, rd_ptr_local: $at, rd_ptr_global: $at},
        w: {prologue: true, epilogue: false, zero: false, rd_ptr_local: $zero, rd_ptr_global: $zero}}}
    - varinst: [$at, incwrap, 2, 8]
    - endloop
";

/// `[n, 1, rows, columns]` whose element `i` is `value(i)`.
fn array(n: usize, rows: usize, columns: usize, value: impl Fn(usize) -> f32) -> Tensor {
    let values: Vec<f32> = (0..n * rows * columns).map(value).collect();
    Tensor::from_slice([n, 1, rows, columns], &values).unwrap()
}

fn job(inputs: Vec<(&str, Tensor)>, loops: i32) -> Job {
    let inputs = inputs.into_iter();
    Job::new()
        .inputs(inputs.map(|(name, array)| (name.to_owned(), array)))
        .param("$p_loop_count", loops)
}

/// Small integers, so that every order of summation gives the same result.
fn sums_inputs() -> Vec<(&'static str, Tensor)> {
    vec![
        ("a", array(4, 32, 32, |i| (i % 5) as f32 - 2.0)),
        ("w", array(1, 32, 64, |i| (i % 3) as f32)),
        ("b", array(4, 32, 64, |i| (i % 7) as f32)),
    ]
}

/// The same sums by definition.
fn sums(inputs: &[(&str, Tensor)]) -> Vec<f32> {
    let values = |index: usize| inputs[index].1.as_slice::<f32>().unwrap();
    let (a, w, b) = (values(0), values(1), values(2));
    let element = |i: usize| {
        let (entry, y, x) = (i / 2048, i / 64 % 32, i % 64);
        let products = (0..32).map(|k| a[entry * 1024 + y * 32 + k] * w[k * 64 + x]);
        products.sum::<f32>() + b[i]
    };
    (0..4 * 2048).map(element).collect()
}

#[test]
fn a_loop_of_matmuls_and_sums_equals_the_definition() {
    let inputs = sums_inputs();
    let expected = sums(&inputs);
    let outcome = job(inputs, 2).run(&product_and_sum(LOOP)).unwrap();
    let y = &outcome.outputs["y"];
    assert_eq!(y.shape()[..], [4, 1, 32, 64]);
    assert_eq!(y.as_slice::<f32>().unwrap(), expected);
    let rows = outcome.session.op_rows();
    let runs: Vec<(&str, u64)> = rows.iter().map(|row| (&*row.op, row.runs)).collect();
    assert_eq!(runs, [("product", 4), ("sum", 4)]);
    assert_eq!(rows[0].flops, 2 * 32 * 32 * 64);
}

/// A repeated matmul operand is packed, and packed again when it changes.
#[test]
fn changed_matmul_operands_are_used() {
    let program = LOOP.replace(
        "w: {prologue: true, epilogue: false, zero: false, rd_ptr_local: $zero,",
        "w: {prologue: true, epilogue: false, zero: false, wr_ptr_global: $zero,",
    );
    let text = product_and_sum(&program).text().to_owned();
    let text = text.replace("w: {type: queue,", "w: {type: ram,");
    let source = Source::new("rams.yaml", text);
    let session = Session::load(&source, &SessionOptions::default()).unwrap();
    let entry = |rows, columns, value| array(1, rows, columns, |_| value);
    let (a, b) = (entry(32, 32, 1.0), entry(32, 64, 0.0));
    session.feed("a", move |_| Ok(a.clone())).unwrap();
    session.feed("b", move |_| Ok(b.clone())).unwrap();
    let options = ProgramOptions::new().param("$p_loop_count", 2);
    for value in [1.0, 1.0, 3.0, 1.0] {
        session.put("w", 0, &entry(32, 64, value)).unwrap();
        session.run("run", &options).unwrap();
        for y in session.pop_batch("y", 4, Duration::ZERO).unwrap() {
            assert_eq!(y.as_slice::<f32>().unwrap(), [32.0 * value; 2048]);
        }
    }
}

#[test]
fn a_package_runs_like_the_netlist_it_was_made_from() {
    let inputs = sums_inputs();
    let source = product_and_sum(LOOP);
    let compiled = job(inputs.clone(), 2).compile(&source).unwrap();
    let model = compiled.load(&LoadOptions::new()).unwrap();
    let given: Vec<(&str, &Tensor)> = inputs.iter().map(|(name, array)| (*name, array)).collect();
    // Each execution starts from fresh queues.
    for _ in 0..2 {
        let outputs = model.run(&given).unwrap();
        assert_eq!(outputs[0].as_slice::<f32>().unwrap(), sums(&inputs));
    }
}

#[test]
fn starvation_is_reported_with_op_queue_and_line() {
    let source = product_and_sum(LOOP);
    let session = Session::load(&source, &SessionOptions::default()).unwrap();
    for name in ["b", "w"] {
        let entry = Tensor::zeroed(session.entry_type(name).unwrap()).unwrap();
        session.feed(name, move |_| Ok(entry.clone())).unwrap();
    }
    let options = ProgramOptions::new().param("$p_loop_count", 1);
    let error = session.run("run", &options).unwrap_err();
    let text = error.to_string();
    assert!(text.contains("queue 'a' starves"), "{text}");
    assert!(
        text.contains("sums.yaml:11:") && text.contains("'product'"),
        "{text}"
    );
}

#[test]
fn programs_without_end_are_stopped() {
    let endless = LOOP.replace("loop: $p_loop_count", "loop: 2000000000");
    let source = product_and_sum(&endless);
    let limits = MachineLimits {
        steps: 100,
        ..MachineLimits::default()
    };
    let mut job = job(sums_inputs(), 1);
    job.session.limits = limits;
    let error = job.run(&source).err().unwrap();
    assert!(
        error.to_string().contains("program 'run' does not end"),
        "{error}"
    );
    job.session.limits = MachineLimits::default();
    let soon = Control::with_deadline(Instant::now() + Duration::from_millis(50));
    let error = job.control(soon).run(&source).err().unwrap();
    assert_eq!(error.kind(), ErrorKind::DeadlineExceeded, "{error}");
}

#[test]
fn a_host_on_another_thread_feeds_a_program_that_waits() {
    let source = product_and_sum(LOOP);
    let load = SessionOptions::new().limits(MachineLimits {
        wait: Duration::from_secs(60),
        ..MachineLimits::default()
    });
    let session = Session::load(&source, &load).unwrap();
    let entry = |rows, columns, value| array(1, rows, columns, |_| value);
    let options = ProgramOptions::new().param("$p_loop_count", 1);
    std::thread::scope(|scope| {
        let running = scope.spawn(|| session.run("run", &options));
        let wait = Duration::from_secs(60);
        session.push("w", &entry(32, 64, 1.0), wait).unwrap();
        for value in [1.0, 2.0] {
            session.push("b", &entry(32, 64, value), wait).unwrap();
            session.push("a", &entry(32, 32, 1.0), wait).unwrap();
        }
        running.join().unwrap().unwrap();
    });
    let popped = session.pop_batch("y", 2, Duration::ZERO).unwrap();
    let first = |tensor: &Tensor| tensor.as_slice::<f32>().unwrap()[0];
    assert_eq!(popped.iter().map(first).collect::<Vec<_>>(), [33.0, 34.0]);
    assert!(session.pop("y", Duration::ZERO).is_err());
}

#[test]
fn entries_are_pushed_peeked_and_popped_together() {
    let session = Session::load(&product_and_sum(LOOP), &SessionOptions::default()).unwrap();
    let entry = |rows, columns, value| array(1, rows, columns, |_| value);
    let now = Duration::ZERO;
    let a = [1.0, 2.0].map(|value| entry(32, 32, value));
    let b = [0.0, 1.0].map(|value| entry(32, 64, value));
    session.push_batch("a", &a, now).unwrap();
    session.push_batch("b", &b, now).unwrap();
    session.push("w", &entry(32, 64, 1.0), now).unwrap();
    let first = |tensors: Vec<Tensor>| -> Vec<f32> {
        let firsts = tensors
            .iter()
            .map(|tensor| tensor.as_slice::<f32>().unwrap()[0]);
        firsts.collect()
    };
    assert_eq!(first(session.peek_batch("a", 2, now).unwrap()), [1.0, 2.0]);
    let error = session.peek_batch("a", 3, now).unwrap_err();
    assert!(
        error.to_string().contains("does not have 3 entries"),
        "{error}"
    );
    let options = ProgramOptions::new().param("$p_loop_count", 1);
    session.run("run", &options).unwrap();
    let expected = [32.0, 65.0];
    assert_eq!(first(session.peek_batch("y", 2, now).unwrap()), expected);
    assert_eq!(first(session.pop_batch("y", 2, now).unwrap()), expected);
    assert!(session.peek("y", now).is_err());
}

#[test]
fn kernels_in_the_originals_own_language_are_refused() {
    let schedule = "schedules: [[{copy: {type: nop, inputs: [input0], mblock: [1, 2], ublock: [1, 1], \
                    output: output}}]]";
    let text = product_and_sum(LOOP).text().to_owned();
    let text = text.replace(
        "type: add,",
        "type: fused_op, attributes: {fused_op_id: 0},",
    );
    let text = text.replace(
        "programs:\n",
        &format!(
            "fused_ops: {{0: {{inputs: 2, intermediates: 0, custom_kernel_path: kernel.cpp, {schedule}}}}}\n\
             programs:\n"
        ),
    );
    let source = Source::new("custom.yaml", text);
    let error = Session::load(&source, &SessionOptions::default())
        .err()
        .unwrap();
    let text = error.to_string();
    assert!(
        text.contains("custom.yaml:") && text.contains("kernel.cpp"),
        "{text}"
    );
}

#[test]
fn a_graph_runs_without_a_program() {
    let session = Session::load(&product_and_sum(LOOP), &SessionOptions::default()).unwrap();
    let entry = |rows, columns, value| array(1, rows, columns, |_| value);
    for value in [1.0, 2.0] {
        session
            .push("a", &entry(32, 32, 1.0), Duration::ZERO)
            .unwrap();
        session
            .push("b", &entry(32, 64, value), Duration::ZERO)
            .unwrap();
    }
    let w = entry(32, 64, 0.5);
    session.feed("w", move |_| Ok(w.clone())).unwrap();
    session.run_graph("sums", &ProgramOptions::new()).unwrap();
    let popped = session.pop_batch("y", 2, Duration::ZERO).unwrap();
    let first = |tensor: &Tensor| tensor.as_slice::<f32>().unwrap()[0];
    assert_eq!(popped.iter().map(first).collect::<Vec<_>>(), [17.0, 18.0]);
    assert!(session.run_graph("other", &ProgramOptions::new()).is_err());
}

#[test]
fn formats_round_what_is_stored() {
    let source = product_and_sum(LOOP);
    let text = source.text().replace("out_df: Float32", "out_df: Bfp8_b");
    let text = text.replace(
        "y: {type: queue, input: sum, entries: 4, grid_size: [1, 1], t: 1, \
                             mblock: [1, 2], ublock: [1, 1], df: Float32",
        "y: {type: queue, \
                             input: sum, entries: 4, grid_size: [1, 1], t: 1, mblock: [1, 2], \
                             ublock: [1, 1], df: Bfp8_b",
    );
    let text = text.replace(
        "in_df: [Float32, Float32], acc_df: Float16, out_df: Bfp8_b, \
                             intermed_df: Float32, ublock_order: r, buf_size_mb: 2, \
                             math_fidelity: HiFi4, t: 1, mblock: [1, 2], ublock: [1, 1]}",
        "in_df: [Bfp8_b, Float32], acc_df: Float16, out_df: Bfp8_b, \
                             intermed_df: Float32, ublock_order: r, buf_size_mb: 2, \
                             math_fidelity: HiFi4, t: 1, mblock: [1, 2], ublock: [1, 1]}",
    );
    let source = Source::new("rounded.yaml", text);
    // The matmul is 0, so that the sums are the entries of the second queue: the vector of netlist 5.2.
    let vector = [
        100.0, 1.0, -0.5, 0.3, 3.999, -2.75, 7.0, 2.5, 1.5, -3.5, 64.4,
    ];
    let rounded = [100.0, 1.0, -1.0, 0.0, 4.0, -3.0, 7.0, 3.0, 2.0, -4.0, 64.0];
    let inputs = vec![
        ("a", array(4, 32, 32, |_| 0.0)),
        (
            "b",
            array(4, 32, 64, |i| vector.get(i % 16).copied().unwrap_or(0.0)),
        ),
    ];
    let mut job = job(inputs, 1);
    for (mode, expected) in [
        (NumericMode::Golden, vector),
        (NumericMode::Formats, rounded),
    ] {
        job.session.mode = mode;
        let outcome = job.run(&source).unwrap();
        let y = outcome.outputs["y"].as_slice::<f32>().unwrap();
        assert_eq!(y[..11], expected, "{mode:?}");
    }
}

/// A netlist of one op on `x` that fills `y`.
fn one_op(kind: &str, inputs: &str, rest: &str) -> Source {
    let text = format!(
        "devices: {{arch: grayskull}}\nqueues:\n{}{}graphs:\n  g:\n    target_device: 0\n    \
         input_count: 1\n{}programs:\n  - run:\n    - var: {{$at: 0}}\n    - execute: {{graph_name: g, \
         queue_settings: {{x: {{rd_ptr_local: $at, rd_ptr_global: $at}}}}}}\n",
        queue("x", "HOST", 1, TILE, ""),
        queue("y", "made", 1, TILE, ""),
        op("made", kind, inputs, TILE, 0, rest),
    );
    Source::new("one.yaml", text)
}

/// In mode `formats`, intermediate results are in registers of the format of acc_df.
#[test]
fn the_accumulation_format_rounds_intermediate_results() {
    // x + x is 2 + 2^-10: a half has 10 bits of mantissa, so that this last one is cut.
    let x = 1.0 + f32::EPSILON * 4096.0;
    let run = |mode, rest: &str| {
        let mut job = job(vec![("x", array(1, 32, 32, |_| x))], 1);
        job.params.clear();
        job.session.mode = mode;
        let outcome = job.run(&one_op("add", "x, x", rest)).unwrap();
        outcome.outputs["y"].as_slice::<f32>().unwrap()[0]
    };
    assert_eq!(run(NumericMode::Golden, ""), x + x);
    assert_eq!(run(NumericMode::Formats, ""), 2.0);
    let relu = ", attributes: {relu_en: true, relu_threshold: 3}";
    assert_eq!(run(NumericMode::Formats, relu), 0.0);
}

/// A relu without a mode sets elements below its threshold to 0, as mode min does.
#[test]
fn relu_mode_none_is_min() {
    let source = |mode: &str| {
        let relu = format!(", attributes: {{relu_en: true, relu_threshold: 2, relu_mode: {mode}}}");
        one_op("nop", "x", &relu)
    };
    let run = |mode: &str| {
        let mut job = job(vec![("x", array(1, 32, 32, |i| (i % 4) as f32))], 1);
        job.params.clear();
        let outcome = job.run(&source(mode)).unwrap();
        outcome.outputs["y"].as_slice::<f32>().unwrap()[..4].to_vec()
    };
    assert_eq!(run("none"), [0.0, 0.0, 2.0, 3.0]);
    assert_eq!(run("none"), run("min"));
    assert_ne!(run("none"), run("max"));
    let test = SelfTest::new().run(&source("none")).unwrap();
    assert!(test.iter().all(tenon::netlist::QueueAgreement::passed));
}

/// Every op of one or two tensors, TMs, reduce, splice: against NumPy.
#[test]
fn ops_agree_with_numpy() {
    let Some(mut python) = python("crates/frontends/tenon/tests/netlist_ops.py") else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let paths = ["in.npz", "out.npz"].map(|name| folder.path().join(name));
    Answer::text(python.args(&paths));
    let inputs = npy::read_npz(&paths[0]).unwrap();
    let expected = npy::read_npz(&paths[1]).unwrap();
    let job = Job::new().inputs(inputs);
    let outcome = job.run(&many_ops()).unwrap();
    assert_eq!(outcome.outputs.len(), expected.len());
    for (name, expected) in expected {
        let found = &outcome.outputs[&name];
        assert_eq!(found.shape(), expected.shape(), "{name}");
        let pairs = found
            .as_slice::<f32>()
            .unwrap()
            .iter()
            .zip(expected.as_slice::<f32>().unwrap());
        for (index, (found, expected)) in pairs.enumerate() {
            let close = (found - expected).abs() <= 2e-5 * expected.abs().max(1.0);
            assert!(close, "{name}[{index}]: {found}, NumPy has {expected}");
        }
    }
}

/// The netlist of `netlist_ops.py`: queues p (positive) and q of [2, 2, 4] tiles.
fn many_ops() -> Source {
    let shape = "t: 2, mblock: [2, 4], ublock: [1, 1]";
    let unary = [
        "exp",
        "log",
        "sqrt",
        "reciprocal",
        "sigmoid",
        "tanh",
        "sine",
        "cosine",
        "abs",
        "square",
        "gelu",
        "gelu_derivative",
        "lrelu",
        "nop",
    ];
    let mut queues = queue("p", "HOST", 2, shape, "") + &queue("q", "HOST", 2, shape, "");
    let mut ops = String::new();
    let mut at = 0;
    let mut add = |name: &str, kind: &str, inputs: &str, shape: &str, rest: &str| {
        let output = format!("o_{name}");
        queues += &queue(&output, name, 2, shape, "");
        ops += &op(name, kind, inputs, shape, at, rest);
        at += 1;
    };
    for kind in unary {
        add(&format!("u_{kind}"), kind, "p", shape, "");
    }
    add("u_power", "power", "q", shape, ", attributes: {exp: 3}");
    for kind in ["add", "subtract", "multiply", "maximum"] {
        add(&format!("b_{kind}"), kind, "p, q", shape, "");
    }
    let relu = ", attributes: {relu_en: true, relu_threshold: 0.25, relu_mode: max}";
    add("relu_max", "nop", "q", shape, relu);
    let relu = ", attributes: {relu_en: true, relu_threshold: 0.25, relu_mode: min}";
    add("relu_min", "nop", "q", shape, relu);
    let square = "t: 2, mblock: [2, 2], ublock: [1, 1]";
    add(
        "product",
        "matmul",
        "p, q",
        square,
        ", input_1_tms: [transpose], attributes: {m_k: 4, u_kt: 1}",
    );
    let across = "t: 2, mblock: [2, 1], ublock: [1, 1]";
    let maximum =
        |dim: &str, k: u32| format!(", attributes: {{type: max, dim: {dim}, m_k: {k}, u_kt: 1}}");
    add("max_c", "reduce", "q", across, &maximum("c", 4));
    let down = "t: 2, mblock: [1, 4], ublock: [1, 1]";
    add("max_r", "reduce", "q", down, &maximum("r", 2));
    let sliced = "t: 4, mblock: [2, 2], ublock: [1, 1]";
    add("hslice", "nop", "q", sliced, ", input_0_tms: [hslice: 2]");
    let stacked = "t: 1, mblock: [2, 8], ublock: [1, 1]";
    add("hstack", "nop", "q", stacked, ", input_0_tms: [hstack: 2]");
    let turned = "t: 2, mblock: [4, 2], ublock: [1, 1]";
    add("turned", "nop", "q", turned, ", input_0_tms: [transpose]");
    let wide = "t: 2, mblock: [2, 8], ublock: [1, 1]";
    add(
        "splice",
        "splice",
        "p, q",
        wide,
        ", attributes: {input0: [0, 4, 4], input1: [0, 4, 4]}",
    );
    let text = format!(
        "devices: {{arch: grayskull}}\nqueues:\n{queues}graphs:\n  all:\n    target_device: 0\n    \
         input_count: 2\n{ops}programs:\n  - run:\n    - var: {{$zero: 0}}\n    - execute: \
         {{graph_name: all, queue_settings: {{\n        p: {{prologue: false, epilogue: false, \
         zero: false, rd_ptr_local: $zero, rd_ptr_global: $zero}},\n        q: {{prologue: false, \
         epilogue: false, zero: false, rd_ptr_local: $zero, rd_ptr_global: $zero}}}}}}\n"
    );
    Source::new("ops.yaml", text)
}

/// The size of real netlists in bytes up to which they run by default; larger ones are run with `--ignored`.
const SMALL: u64 = 3_000;

#[test]
fn small_samples_run() {
    run_samples(|size| size <= SMALL);
}

#[test]
#[ignore = "takes minutes"]
fn large_samples_run() {
    run_samples(|size| size > SMALL);
}

/// Samples that do not run, with the reason.
const KNOWN: &[(&str, &str)] = &[];

fn run_samples(is_selected: impl Fn(u64) -> bool) {
    let mut failures = Vec::new();
    for path in good_netlists() {
        let size = path.metadata().unwrap().len();
        if !is_selected(size) {
            continue;
        }
        let source = Source::new(&path, std::fs::read_to_string(&path).unwrap());
        // The largest takes a quarter of an hour without optimisation.
        let soon = Control::with_deadline(Instant::now() + Duration::from_secs(3600));
        let known = KNOWN.iter().find(|(name, _)| path.ends_with(name));
        match (Job::new().control(soon.clone()).run(&source), known) {
            (Ok(_), None) => {}
            (Err(error), Some((_, reason))) if error.to_string().contains(reason) => {}
            (Err(error), _) => failures.push(error.to_string()),
            (Ok(_), Some(_)) => failures.push(format!("{}: runs now", path.display())),
        }
    }
    assert!(
        failures.is_empty(),
        "{} failures\n{}",
        failures.len(),
        failures.join("\n")
    );
}
