//! The functions of the interface, called from C and C++.
#![allow(clippy::print_stderr, reason = "it says what it skips and measures")]

mod common;

use common::{Place, source};
use std::process::Stdio;

const DIGITS: &str = "models/digits/digits.onnx";

/// Builds and runs `tests/c/NAME.c` on the package of the digits model.
fn on_digits(name: &str, environment: &[(&str, &str)]) -> common::Ran {
    let place = Place::new();
    let package = place.package(DIGITS, "digits.neff");
    let program = place.build(name);
    place
        .run(&program, &[package.to_str().unwrap()], environment)
        .done()
}

fn alone(name: &str, environment: &[(&str, &str)]) -> common::Ran {
    let place = Place::new();
    let program = place.build(name);
    place.run(&program, &[], environment).done()
}

#[test]
fn layouts_and_names_of_statuses() {
    alone("layout", &[]);
    let place = Place::new();
    let flags = ["-std=c11", "-DTENON_NRT_NEW_DTYPES", "-lnrt"];
    place.build_with("cc", &[&source("layout.c")], "layout", &flags);
}

#[test]
fn the_runtime_is_started_ended_and_not_carried_over_a_fork() {
    let ran = on_digits(
        "lifecycle",
        &[
            ("NEURON_RT_VISIBLE_CORES", "2-3"),
            ("NEURON_RT_NUM_CORES", "1"),
        ],
    );
    assert!(ran.err.contains("nrt_init was not called"), "{}", ran.err);
    assert!(
        ran.err.contains("the runtime was ended by nrt_close"),
        "{}",
        ran.err
    );
    assert!(ran.err.contains("fork before nrt_init"), "{}", ran.err);
}

#[test]
fn tensors_and_sets() {
    let place = Place::new();
    let program = place.build("tensors");
    let ran = place
        .run(&program, &[], &[("TENON_CORE_MEMORY", "67108864")])
        .done();
    assert!(
        ran.err
            .contains("NRT:nrt_tensor_read  the tensor was freed before"),
        "{}",
        ran.err
    );
    assert!(
        ran.err.contains("core 0 has not enough memory"),
        "{}",
        ran.err
    );
    let log = std::fs::read_to_string(place.path().join("memlog.csv")).unwrap();
    assert!(log.starts_with("seconds,core,event,bytes,used\n"), "{log}");
    assert!(log.contains(",1,allocate,1048576,"), "{log}");
}

#[test]
fn models_are_loaded_and_executed_by_threads() {
    on_digits("models", &[]);
}

#[test]
fn requests_are_queued() {
    on_digits("requests", &[]);
    on_digits(
        "requests",
        &[("NEURON_RT_ASYNC_EXEC_MAX_INFLIGHT_REQUESTS", "4")],
    );
}

#[test]
fn executions_are_queued_and_heard_of() {
    on_digits(
        "asynchronous",
        &[("NEURON_RT_ASYNC_EXEC_MAX_INFLIGHT_REQUESTS", "3")],
    );
}

#[test]
fn what_happens_is_recorded() {
    on_digits("tracing", &[]);
}

#[test]
fn what_executions_make_is_shown() {
    on_digits(
        "debug_stream",
        &[("NEURON_RT_DEBUG_STREAM_BUFFER_SIZE", "3")],
    );
}

#[test]
fn executions_say_how_they_end() {
    let place = Place::new();
    let program = place.build("statuses");
    let check = [("TENON_CHECK_NAN", "1")];
    // All ones are NaN as floats; 0x7F in every byte is no index of anything.
    for (model, byte, status, environment, says) in [
        (DIGITS, "255", "1003", &check[..], "holds NaN"),
        (DIGITS, "255", "0", &[][..], ""),
        (
            "models/small/gpt2.onnx",
            "127",
            "1006",
            &[][..],
            "NRT:nrt_execute",
        ),
    ] {
        let package = place.package(model, "model.neff");
        let arguments = [package.to_str().unwrap(), byte, status];
        let ran = place.run(&program, &arguments, environment).done();
        assert!(ran.err.contains(says), "{}", ran.err);
    }
}

#[test]
fn one_worker_is_a_world() {
    let ran = alone("collectives", &[]);
    assert!(ran.err.contains("needs a network provider"), "{}", ran.err);
}

#[test]
fn what_is_absent_is_answered() {
    alone("absent", &[]);
}

#[test]
fn types_have_two_numberings() {
    on_digits("dtypes", &[]);
}

#[test]
fn a_client_in_cpp() {
    let place = Place::new();
    let program = place.build_with(
        "c++",
        &[&source("client.cpp")],
        "client",
        &["-std=c++17", "-lnrt", "-pthread"],
    );
    place.run(&program, &[], &[]).done();
}

#[test]
fn every_header_stands_by_itself() {
    let place = Place::new();
    let include = common::repository().join("include");
    for folder in ["nrt", "ndl", "tenon/nrt.h"] {
        let path = include.join(folder);
        let headers: Vec<_> = match path.is_dir() {
            true => std::fs::read_dir(path)
                .unwrap()
                .map(|entry| entry.unwrap().path())
                .collect(),
            false => vec![path],
        };
        assert!(!headers.is_empty());
        for header in headers {
            let header = header.strip_prefix(&include).unwrap().to_str().unwrap();
            for (compiler, standard) in [
                ("cc", "-std=c99"),
                ("cc", "-std=c11"),
                ("c++", "-std=c++11"),
            ] {
                let source = place
                    .path()
                    .join(if compiler == "cc" { "one.c" } else { "one.cpp" });
                std::fs::write(&source, format!("#include <{header}>\nint one;\n")).unwrap();
                let flags = [standard, "-Wextra", "-c"];
                place.build_with(compiler, &[&source], "one.o", &flags);
            }
        }
    }
}

#[test]
fn cores_have_one_owner_however_it_ends() {
    let place = Place::new();
    let source = place.path().join("holder.c");
    std::fs::write(
        &source,
        "#include <nrt/nrt.h>\n#include <stdio.h>\n#include <unistd.h>\n\
         int main(void) { int status = nrt_init(NRT_FRAMEWORK_TYPE_NO_FW, 0, 0);\n\
         printf(\"%d\\n\", status); fflush(stdout); char c; while (read(0, &c, 1) > 0) {}\n\
         return 0; }\n",
    )
    .unwrap();
    let program = place.build_with("cc", &[&source], "holder", &["-lnrt"]);
    let start = |cores: &str| {
        let mut command = place.command(&program);
        command.env("NEURON_RT_VISIBLE_CORES", cores);
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        let mut line = String::new();
        let mut out = std::io::BufReader::new(child.stdout.take().unwrap());
        std::io::BufRead::read_line(&mut out, &mut line).unwrap();
        (child, line.trim().parse::<i32>().unwrap())
    };
    let end = |mut child: std::process::Child| {
        drop(child.stdin.take());
        child.wait().unwrap();
    };
    let (mut holder, status) = start("1-2");
    assert_eq!(status, 0);
    // Core 2 is taken: NRT_RESOURCE; core 4 is not there: NRT_LOAD_NOT_ENOUGH_NC.
    for (cores, expected) in [("2-3", 4), ("3-4", 9), ("1,3", 2), ("3", 0), ("0", 0)] {
        let (child, status) = start(cores);
        assert_eq!(status, expected, "{cores}");
        end(child);
    }
    // Killed, it has given nothing back, and yet its cores are free.
    holder.kill().unwrap();
    holder.wait().unwrap();
    let (child, status) = start("0-3");
    assert_eq!(status, 0);
    end(child);
}

/// `TENON_SOAK=1000000` makes it a soak.
#[test]
fn nothing_grows_and_nothing_is_lost() {
    let place = Place::new();
    let package = place.package(DIGITS, "digits.neff");
    let program = place.build("soak");
    let executions = std::env::var("TENON_SOAK").unwrap_or_else(|_| "16000".into());
    let ran = place
        .run(&program, &[package.to_str().unwrap(), &executions], &[])
        .done();
    eprint!("{}", ran.out);
}

#[test]
fn memory_is_used_as_it_should_be() {
    if std::process::Command::new("valgrind")
        .arg("--version")
        .output()
        .is_err()
    {
        eprintln!("skipped: valgrind is not there");
        return;
    }
    let place = Place::new();
    for name in ["tensors", "collectives", "absent"] {
        let program = place.build(name);
        let arguments = ["--quiet", "--error-exitcode=9", "--leak-check=full"];
        let kinds = [
            "--errors-for-leak-kinds=definite",
            program.to_str().unwrap(),
        ];
        let limit = [("TENON_CORE_MEMORY", "67108864")];
        let arguments = [&arguments[..], &kinds[..]].concat();
        place.run("valgrind".as_ref(), &arguments, &limit).done();
    }
}
