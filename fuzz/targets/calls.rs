//! Calls of the C interface in any order, with handles of all kinds and with invalid arguments: each returns a status of
//! the enumeration with its text, and an invalid handle is found. Pointers lead to as much memory as the header requires.
#![no_main]

#[path = "../checks/calls/arguments.rs"]
mod arguments;
#[path = "../../crates/formats/onnx/tests/onnx/build.rs"]
#[allow(dead_code, reason = "a builder of tests")]
mod build;
#[path = "../checks/calls/caller.rs"]
mod caller;
#[path = "../checks/calls/dlpack.rs"]
mod dlpack;
#[path = "../checks/calls/executions.rs"]
mod executions;
#[path = "../checks/calls/memory.rs"]
mod memory;
#[path = "../checks/calls/models.rs"]
mod models;
#[path = "../checks/calls/objects.rs"]
mod objects;
#[path = "../checks/calls/seeds.rs"]
mod seeds;

use caller::Caller;
use objects::Kind;

/// Calls of a case.
const MAX_CALLS: usize = 24;

const KINDS: [Kind; 9] = [
    Kind::Status,
    Kind::Task,
    Kind::Package,
    Kind::Model,
    Kind::Outputs,
    Kind::Bindings,
    Kind::Session,
    Kind::Run,
    Kind::Blob,
];

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let mut caller = Caller::new(bytes);
    caller.first_model();
    for _ in 0..MAX_CALLS {
        if caller.choices.is_empty() {
            break;
        }
        call(&mut caller);
    }
    caller.end();
});

/// One call.
fn call(caller: &mut Caller<'_>) {
    caller.is_careful = !caller.choices.one_in(3);
    match caller.choices.below(41) {
        0 => {
            let kind = caller.choices.pick(&KINDS);
            let object = caller.argument(kind);
            if object.handle != caller.deadline {
                caller.free(kind, &object);
            }
        }
        1 => caller.versions(),
        2 => caller.task_create(),
        3 => caller.task_cancel(),
        4 => caller.compile_file(),
        5 => caller.compile_bytes(),
        6 => caller.package_write(),
        7 => caller.package_bytes(),
        8 => caller.package_load(),
        9 => caller.model_load_file(),
        10 => caller.model_load_bytes(),
        11 => caller.texts_of_models(),
        12 => caller.model_find(),
        13 => caller.model_port(),
        14 => caller.blob_get(),
        15..18 => caller.model_run(),
        18 | 19 => caller.model_execute(),
        20 => caller.model_run_dlpack(),
        21 => caller.model_profile(),
        22 | 23 => caller.outputs_get(),
        24 => caller.outputs_find(),
        25 => caller.model_bind(),
        26 => caller.bindings_port(),
        27 => caller.bindings_run(),
        28 => caller.model_session(),
        29 | 30 => caller.session_run(),
        31 => caller.session_states(),
        32 => caller.session_value(),
        33 => caller.session_set_value(),
        34 => caller.session_steps(),
        35 => caller.session_fork(),
        36 => caller.model_submit(),
        37 => caller.run_wait(),
        38 => caller.run_outputs(),
        39 => caller.quantize_bytes(),
        _ => caller.run_cancel(),
    }
}
