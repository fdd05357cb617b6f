//! `tenon exec --shared_libs`: kernels of libraries that use only `tenon/kernels.h`.

mod common;

use common::{repository, tenon};
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// Compiles C into a library in `folder`.
fn library(folder: &Path, name: &str, source: &str) -> PathBuf {
    let file = folder.join(format!("{name}.c"));
    std::fs::write(&file, source).unwrap();
    let made = folder.join(format!("lib{name}.so"));
    tenon_test_libraries::compiled(&file, &made, &[])
}

/// The example in the header's comment.
fn example() -> (String, String) {
    let header = std::fs::read_to_string(repository("include/tenon/kernels.h")).unwrap();
    let comment = header.split("*/").next().unwrap();
    let lines = comment
        .lines()
        .filter_map(|line| line.strip_prefix(" *     "));
    let lines: Vec<&str> = lines.collect();
    let command = lines
        .iter()
        .position(|line| line.starts_with("cc "))
        .unwrap();
    (lines[..command].join("\n"), lines[command + 1..].join("\n"))
}

fn exec(folder: &TempDir, libraries: &str, program: &str) -> common::Answer {
    std::fs::write(folder.path().join("p.mlir"), program).unwrap();
    tenon(
        folder.path(),
        &["exec", "--shared_libs", libraries, "p.mlir"],
    )
}

#[test]
fn the_example_of_the_header_runs() {
    let folder = tempfile::tempdir().unwrap();
    let (source, program) = example();
    library(folder.path(), "mine", &source);
    let answer = exec(&folder, "./libmine.so", &program);
    assert_eq!(answer.status, Some(0), "{}", answer.err);
    assert!(
        answer.out.contains("'main' returned 42\n"),
        "{}",
        answer.out
    );
}

const EVERY_TYPE: &str = r#"
#include <stdio.h>
#include <string.h>
#include <tenon/kernels.h>

static int32_t first(const tenon_kernel_call *call)
{
    call->results[0] = call->operands[0];
    return 0;
}

static int32_t attributes(const tenon_kernel_call *call)
{
    const tenon_kernel_attribute *a = call->attributes;
    snprintf(call->message, call->message_size, "%s: %.*s %lld %g %g", call->kernel,
             (int)a[3].length, a[3].text, (long long)a[2].value.i, (double)a[0].value.f32,
             a[1].value.f64);
    return 7;
}

static int32_t silent(const tenon_kernel_call *call)
{
    (void)call;
    return 9;
}

static const tenon_kernel kernels[] = {
    {"t.i1", "i1", "i1", "", first, NULL},
    {"t.i8", "i8", "i8", NULL, first, NULL},
    {"t.i64", "i64", "i64", "", first, "The same."},
    {"t.f32", "f32, !tfrt.chain", "f32,!tfrt.chain", "", first, ""},
    {"t.f64", "f64", "f64", "", first, ""},
    {"t.attributes", "", "i32", "f32, f64, i32, string", attributes, ""},
    {"t.silent", "", "i32", "", silent, ""},
};

const tenon_kernel_library *tenon_kernels(void)
{
    static const tenon_kernel_library library = {TENON_KERNELS_VERSION, sizeof *kernels, kernels, 7};
    return &library;
}
"#;

#[test]
fn values_attributes_and_failures_go_across() {
    let folder = tempfile::tempdir().unwrap();
    library(folder.path(), "all", EVERY_TYPE);
    let program = r#"
func.func @main() -> (i1, i64, f32, f64) {
  %c = tfrt.new.chain
  %0 = tfrt.constant.i1 true
  %1 = tfrt.constant.i64 -5
  %2 = tfrt.constant.f32 0.25
  %3 = tfrt.constant.f64 -1.5
  %4 = "t.i1"(%0) : (i1) -> i1
  %5 = "t.i64"(%1) : (i64) -> i64
  %6, %d = "t.f32"(%2, %c) : (f32, !tfrt.chain) -> (f32, !tfrt.chain)
  %7 = "t.f64"(%3) : (f64) -> f64
  tfrt.return %4, %5, %6, %7 : i1, i64, f32, f64
}
func.func @attributes() -> i32 {
  // expected-error @+1 {{runtime error: t.attributes: here -3 5.000000e-01 2}}
  %0 = "t.attributes"() {a = 0.5 : f32, b = 2.0 : f64, c = -3 : i32, d = "here"} : () -> i32
  tfrt.return %0 : i32
}
func.func @silent() -> i32 {
  // expected-error @+1 {{runtime error: the kernel failed with 9}}
  %0 = "t.silent"() : () -> i32
  tfrt.return %0 : i32
}
"#;
    let program = program.replace("5.000000e-01", "0.5");
    let answer = exec(&folder, "./liball.so", &program);
    assert_eq!(answer.status, Some(0), "{}{}", answer.out, answer.err);
    let expected = "'main' returned 1,-5,2.500000e-01,-1.500000e+00\n";
    assert!(answer.out.contains(expected), "{}", answer.out);
    let wrong = "func.func @f() -> i32 {\n  %0 = \"t.attributes\"() {a = 1 : i32} : () -> i32\n  \
                 tfrt.return %0 : i32\n}\n";
    let answer = exec(&folder, "./liball.so", wrong);
    assert_eq!(answer.status, Some(1));
    assert!(
        answer.err.contains("wrong number of attributes"),
        "{}",
        answer.err
    );
}

#[test]
fn a_file_that_is_no_kernel_library_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    std::fs::write(here.join("text.so"), "no library").unwrap();
    library(
        here,
        "none",
        "int nothing(void);\nint nothing(void) { return 0; }\n",
    );
    let entry = |body: &str| {
        format!(
            "#include <tenon/kernels.h>\n\
             const tenon_kernel_library *tenon_kernels(void)\n{{\n{body}\n}}\n"
        )
    };
    library(here, "null", &entry("return NULL;"));
    let list = |library: &str, kernels: &str| {
        entry(&format!(
            "static const tenon_kernel kernels[] = {{{kernels}}};\n\
             static const tenon_kernel_library library = {{{library}}};\nreturn &library;"
        ))
    };
    let one = r#"{"t.a", "i32", "", "", NULL, ""}"#;
    library(
        here,
        "version",
        &list("2, sizeof *kernels, kernels, 1", one),
    );
    library(here, "size", &list("1, 8, kernels, 1", one));
    let wrong = format!(r#"{one}, {{"t.b", "i32", "int", "", NULL, ""}}"#);
    library(
        here,
        "wrong",
        &list("1, sizeof *kernels, kernels, 2", &wrong),
    );
    let cases = [
        ("missing.so", "cannot be opened"),
        ("./text.so", "cannot be opened"),
        (
            "./libnone.so",
            "expected a function tenon_kernels, see tenon/kernels.h",
        ),
        ("./libnull.so", "tenon_kernels returned null"),
        (
            "./libversion.so",
            "another version of tenon/kernels.h: expected 1, found 2",
        ),
        (
            "./libsize.so",
            "another size of tenon_kernel: expected 48, found 8",
        ),
        ("./libwrong.so", "no function"),
    ];
    for (library, expected) in cases {
        let answer = exec(&folder, library, "func.func @f() {\n  tfrt.return\n}\n");
        assert_eq!(answer.status, Some(1), "{library}: {}", answer.out);
        assert!(answer.err.contains(expected), "{library}: {}", answer.err);
        assert!(
            answer.err.contains(library.trim_start_matches("./")),
            "{}",
            answer.err
        );
    }
}

/// The header compiles alone, in C and in C++, and has the sizes that the loader assumes.
#[test]
fn the_header_is_enough() {
    for (language, standard) in [("c", "c99"), ("c++", "c++11")] {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("only.c");
        let source = "#include <tenon/kernels.h>\n\
            typedef char attribute[sizeof(tenon_kernel_attribute) == 24 ? 1 : -1];\n\
            typedef char call[sizeof(tenon_kernel_call) == 80 ? 1 : -1];\n\
            typedef char kernel[sizeof(tenon_kernel) == 48 ? 1 : -1];\n\
            typedef char library[sizeof(tenon_kernel_library) == 32 ? 1 : -1];\n";
        std::fs::write(&file, source).unwrap();
        tenon_test_libraries::check_syntax(&file, language, standard);
    }
}
