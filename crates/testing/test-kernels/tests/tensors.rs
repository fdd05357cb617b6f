//! Shapes and host tensors.

mod program;

use program::{Output, refusal, run, run_on};
use tenon_executor::{AllocatorKind, Host, HostAllocator, Log};

const TENSOR: &str = "!tfrt_tensor.tensor";

/// Runs `body`, which has a chain `%ch`, and compares its output. `T` is replaced by the type of
/// tensors, `C` for that of chains.
#[track_caller]
fn prints(body: &str, expected: &str) {
    assert_eq!(run(&main(body)), expected);
}

fn main(body: &str) -> String {
    let body = body
        .replace(" T)", &format!(" {TENSOR})"))
        .replace("(T)", &format!("({TENSOR})"))
        .replace("(T,", &format!("({TENSOR},"))
        .replace(" T,", &format!(" {TENSOR},"))
        .replace("-> T", &format!("-> {TENSOR}"))
        .replace(" C)", " !tfrt.chain)")
        .replace("(C,", "(!tfrt.chain,")
        .replace(" C,", " !tfrt.chain,")
        .replace("-> C", "-> !tfrt.chain");
    format!("func.func @main() {{\n  %ch = tfrt.new.chain\n{body}\n  tfrt.return\n}}\n")
}

/// A tensor `%name` of a shape, with all elements `value`, after chain `%name_c`.
fn filled(name: &str, ty: &str, shape: &[i64], value: &str) -> String {
    let (rank, shape) = (shape.len(), format!("{shape:?}"));
    format!(
        "  %{name} = \"tfrt_dht.create_uninitialized_tensor.{ty}.{rank}\"() {{shape = {shape}}} : () -> T
           %{name}_c = \"tfrt_dht.fill_tensor_with_constant.{ty}\"(%{name}, %ch) {{value = {value}}} : (T, C) -> C\n"
    )
}

fn print(name: &str) -> String {
    format!("  %{name}_p = \"tfrt_dht.print_tensor\"(%{name}, %{name}_c) : (T, C) -> C\n")
}

#[test]
fn shapes_print_and_compare() {
    prints(
        "  %a = \"ts.build_shape\"() {value = [1, 57, 92]} : () -> !ts.shape
           %c0 = \"ts.print_shape\"(%a, %ch) : (!ts.shape, C) -> C
           %b = \"ts.build_shape\"() {value = []} : () -> !ts.shape
           %c1 = \"ts.print_shape\"(%b, %c0) : (!ts.shape, C) -> C
           %same = \"ts.equal_shape\"(%a, %a) : (!ts.shape, !ts.shape) -> i1
           %other = \"ts.equal_shape\"(%a, %b) : (!ts.shape, !ts.shape) -> i1
           %c2 = tfrt.print.i1 %same, %c1
           %c3 = tfrt.print.i1 %other, %c2
           %n = \"ts.get_num_elements\"(%a) : (!ts.shape) -> i64
           %c4 = tfrt.print.i64 %n, %c3
           %i = tfrt.constant.i32 1
           %d = \"ts.get_dimension\"(%a, %i) : (!ts.shape, i32) -> i64
           %c5 = tfrt.print.i64 %d, %c4",
        "shape = [1, 57, 92]\nshape = []\nint1 = 1\nint1 = 0\nint64 = 5244\nint64 = 57\n",
    );
}

#[test]
fn shapes_convert_to_fixed_rank() {
    for (rank, shape) in [(1, "[7]"), (2, "[7, 8]"), (3, "[7, 8, 9]")] {
        let build = format!(
            "  %a = \"ts.build_shape\"() {{value = {shape}}} : () -> !ts.shape
               %b = \"ts.as_fixed_rank_shape.RANK\"(%a) : (!ts.shape) -> !ts.fixed_rank_shape.RANK
               %c = \"ts.print_fixed_rank_shape.RANK\"(%b, %ch) : (!ts.fixed_rank_shape.RANK, C) -> C"
        );
        prints(
            &build.replace("RANK", &rank.to_string()),
            &format!("fixed_rank_shape = {shape}\n"),
        );
        let other = (rank % 3) + 1;
        prints(
            &build.replace("RANK", &other.to_string()),
            &format!("error: shape {shape} has the wrong rank\n"),
        );
    }
}

#[test]
fn partial_shapes_print_and_convert() {
    prints(
        "  %a = \"ts.build_partial_shape\"() {value = [-1, 57, -1]} : () -> !ts.partial_shape
           %c0 = \"ts.print_partial_shape\"(%a, %ch) : (!ts.partial_shape, C) -> C
           %u = \"ts.build_unranked_partial_shape\"() : () -> !ts.partial_shape
           %c1 = \"ts.print_partial_shape\"(%u, %c0) : (!ts.partial_shape, C) -> C
           %k = \"ts.build_shape\"() {value = [1, 57]} : () -> !ts.shape
           %p = \"ts.to_partial_shape\"(%k) : (!ts.shape) -> !ts.partial_shape
           %c2 = \"ts.print_partial_shape\"(%p, %c1) : (!ts.partial_shape, C) -> C
           %s = \"ts.to_shape\"(%p) : (!ts.partial_shape) -> !ts.shape
           %c3 = \"ts.print_shape\"(%s, %c2) : (!ts.shape, C) -> C
           %a2 = \"tfrt.alias.value\"(%c3, %a) : (C, !ts.partial_shape) -> !ts.partial_shape
           %x = \"ts.to_shape\"(%a2) : (!ts.partial_shape) -> !ts.shape
           %x_c = \"tfrt_test.as_chain\"(%x) : (!ts.shape) -> C",
        "partial_tensor_shape = [-1, 57, -1]\npartial_tensor_shape = Unknown rank\n\
         partial_tensor_shape = [1, 57]\nshape = [1, 57]\n\
         error: Unknown dimensions at following indices = [0, 2]\n",
    );
    prints(
        "  %u = \"ts.build_unranked_partial_shape\"() : () -> !ts.partial_shape
           %s = \"ts.to_shape\"(%u) : (!ts.partial_shape) -> !ts.shape",
        "error: Unknown rank\n",
    );
}

/// Every type of dense tensors: its ending, its name when printed, a value, and how that prints.
const TYPES: &[(&str, &str, &str, &str)] = &[
    ("ui8", "u8", "200 : ui8", "200"),
    ("ui32", "u32", "4294967295 : ui32", "4294967295"),
    ("ui64", "u64", "7 : ui64", "7"),
    ("i8", "i8", "-7 : i8", "-7"),
    ("i32", "i32", "-7 : i32", "-7"),
    ("i64", "i64", "-7 : i64", "-7"),
    ("f32", "f32", "1.5 : f32", "1.500000e+00"),
    ("f64", "f64", "-0.25 : f64", "-2.500000e-01"),
    ("bool", "i1", "true", "1"),
    (
        "complex64",
        "complex64",
        "[1.0 : f32, -2.0 : f32]",
        "(1.000000e+00,-2.000000e+00)",
    ),
    (
        "complex128",
        "complex128",
        "[1.0 : f64, -2.0 : f64]",
        "(1.000000e+00,-2.000000e+00)",
    ),
    ("f16", "f16", "1.0 : f16", "fp16(15360)"),
    ("bf16", "bf16", "1.0 : bf16", "bf16(16256)"),
];

#[test]
fn every_type_and_rank_fills_and_prints() {
    for (ty, name, value, printed) in TYPES {
        for rank in 0..=5 {
            let shape = vec![1; rank];
            prints(
                &(filled("a", ty, &shape, value) + &print("a")),
                &format!(
                    "DenseHostTensor dtype = {name}, shape = {shape:?}, values = [{printed}]\n"
                ),
            );
        }
    }
}

#[test]
fn every_type_is_set_from_a_list_and_made_over_a_buffer() {
    for (ty, name, value, printed) in TYPES {
        let list = value.trim_matches(['[', ']']);
        let body = filled("a", ty, &[2], value)
            + &format!(
                "  %set = \"tfrt_dht.set_tensor_with_constant_values.{ty}\"(%a, %a_c) {{values = [{list}, {list}]}} : (T, C) -> C
                   %buffer, %c1 = \"tfrt_dht.get_buffer\"(%a, %set) : (T, C) -> (!ht.host_buffer, C)
                   %shape = \"ts.build_shape\"() {{value = [2, 1]}} : () -> !ts.shape
                   %b, %b_c = \"tfrt_dht.make_tensor.{ty}\"(%buffer, %shape, %c1) : (!ht.host_buffer, !ts.shape, C) -> (T, C)\n"
            )
            + &print("b");
        prints(
            &body,
            &format!(
                "DenseHostTensor dtype = {name}, shape = [2, 1], values = [{printed}, {printed}]\n"
            ),
        );
    }
}

#[test]
fn tensors_are_set_from_registers() {
    for (ty, register) in [
        ("i32", "i32"),
        ("i64", "i64"),
        ("f32", "f32"),
        ("f64", "f64"),
        ("bool", "i1"),
        ("ui32", "ui32"),
        ("ui64", "ui64"),
    ] {
        let (value, zero) = match register {
            "i1" => ("true", "false"),
            "f32" => ("1.0", "0.0 : f32"),
            "f64" => ("1.0", "0.0 : f64"),
            "ui32" => ("1", "0 : ui32"),
            "ui64" => ("1", "0 : ui64"),
            "i32" => ("1", "0 : i32"),
            _ => ("1", "0 : i64"),
        };
        let body = filled("a", ty, &[2], zero)
            + &filled("b", ty, &[2], zero)
            + &format!(
                "  %x = tfrt.constant.{register} {value}
                   %c1 = \"tfrt_dht.set_tensor_with_values.{ty}\"(%a, %a_c, %x, %x) : (T, C, {register}, {register}) -> C
                   %c2 = \"tfrt_dht.set_tensor_with_values.{ty}\"(%b, %b_c, %x) : (T, C, {register}) -> C
                   %same, %c3 = \"tfrt_dht.tensor_equal.{ty}\"(%a, %b, %c1) : (T, T, C) -> (i1, C)
                   %c4 = tfrt.print.i1 %same, %c3"
            );
        prints(
            &body,
            "error: Incorrect number of values for the tensor: 1, but expected 2\nint1 = 0\n",
        );
    }
}

#[test]
fn a_list_of_another_length_is_an_error() {
    let body = filled("a", "i32", &[2], "0 : i32")
        + "  %c = \"tfrt_dht.set_tensor_with_constant_values.i32\"(%a, %a_c) {values = [1 : i32]} : (T, C) -> C";
    prints(
        &body,
        "error: Incorrect number of values for the tensor: 1, but expected 2\n",
    );
    let refused = refusal(&main(
        "  %a = \"tfrt_dht.create_uninitialized_tensor.i32.1\"() {shape = [2]} : () -> T
           %c = \"tfrt_dht.fill_tensor_with_constant.i32\"(%a, %ch) {value = 1.0 : f32} : (T, C) -> C",
    ));
    assert!(refused.contains("an element of the tensor"), "{refused}");
    prints(
        "  %a = \"tfrt_dht.create_uninitialized_tensor.i32.1\"() {shape = [2, 2]} : () -> T",
        "error: the shape has the wrong rank\n",
    );
}

#[test]
fn tensors_compare() {
    for (ty, _, value, _) in TYPES.iter().filter(|(ty, ..)| !ty.ends_with("f16")) {
        let zero = match *ty {
            "bool" => "false".to_owned(),
            "complex64" => "[0.0 : f32, 0.0 : f32]".to_owned(),
            "complex128" => "[0.0 : f64, 0.0 : f64]".to_owned(),
            ty if ty.starts_with('f') => format!("0.0 : {ty}"),
            ty => format!("0 : {ty}"),
        };
        for kernel in [
            "tensor_equal",
            "tensor_allclose",
            "tensor_allclose.3ulp",
            "tensor_allclose.1000ulp",
            "tensor_allclose.2000ulp",
            "tensor_allclose.100000ulp",
        ] {
            let body = filled("a", ty, &[2], value)
                + &filled("b", ty, &[2], &zero)
                + &format!(
                    "  %both = tfrt.merge.chains %a_c, %b_c : !tfrt.chain, !tfrt.chain
                       %same, %c1 = \"tfrt_dht.{kernel}.{ty}\"(%a, %a, %both) : (T, T, C) -> (i1, C)
                       %c2 = tfrt.print.i1 %same, %c1
                       %other, %c3 = \"tfrt_dht.{kernel}.{ty}\"(%a, %b, %c2) : (T, T, C) -> (i1, C)
                       %c4 = tfrt.print.i1 %other, %c3"
                );
            prints(&body, "int1 = 1\nint1 = 0\n");
        }
    }
}

#[test]
fn closeness_counts_units_in_the_last_place() {
    // 1 + 2^-18 is 32 steps of 2^-23 above 1; an ulp of the kernels is epsilon times |a + b|.
    for (kernel, close) in [
        ("tensor_allclose", 0),
        ("tensor_allclose.3ulp", 0),
        ("tensor_allclose.1000ulp", 1),
    ] {
        let body = filled("a", "f32", &[], "1.0 : f32")
            + &filled("b", "f32", &[], "1.000003814697265625 : f32")
            + &format!(
                "  %both = tfrt.merge.chains %a_c, %b_c : !tfrt.chain, !tfrt.chain
                   %r, %c1 = \"tfrt_dht.{kernel}.f32\"(%a, %b, %both) : (T, T, C) -> (i1, C)
                   %c2 = tfrt.print.i1 %r, %c1"
            );
        prints(&body, &format!("int1 = {close}\n"));
    }
}

#[test]
fn slices_share_a_buffer() {
    let slice = |name: &str, offset: i64, shape: &str, size: i64, value: &str| {
        format!(
            "  %{name}_offset = tfrt.constant.i64 {offset}
               %{name}_size = tfrt.constant.i64 {size}
               %{name}_shape = \"ts.build_shape\"() {{value = {shape}}} : () -> !ts.shape
               %{name}_buffer = \"tfrt_dht.get_buffer_slice\"(%buffer, %{name}_offset, %{name}_size) : (!ht.host_buffer, i64, i64) -> !ht.host_buffer
               %{name}, %{name}_0 = \"tfrt_dht.make_tensor.f32\"(%{name}_buffer, %{name}_shape, %ch) : (!ht.host_buffer, !ts.shape, C) -> (T, C)
               %{name}_f = \"tfrt_dht.fill_tensor_with_constant.f32\"(%{name}, %ORDER) {{value = {value} : f32}} : (T, C) -> C\n"
        )
    };
    let body = "  %size = tfrt.constant.i64 16
                  %alignment = tfrt.constant.i64 4
                  %buffer = \"tfrt_dht.allocate_buffer\"(%size, %alignment) : (i64, i64) -> !ht.host_buffer\n"
        .to_owned()
        + &slice("a", 0, "[2, 1]", 8, "1.0").replace("ORDER", "ch")
        + &slice("b", 8, "[2, 1]", 8, "2.0").replace("ORDER", "a_f")
        + &slice("c", 4, "[1, 1]", 4, "3.0").replace("ORDER", "b_f")
        + "  %p0 = \"tfrt_dht.print_tensor\"(%a, %c_f) : (T, C) -> C
             %p1 = \"tfrt_dht.print_tensor\"(%b, %p0) : (T, C) -> C
             %p2 = \"tfrt_dht.print_tensor\"(%c, %p1) : (T, C) -> C
             %shape = \"tfrt_dht.get_tensor_shape\"(%c) : (T) -> !ts.shape
             %p3 = \"ts.print_shape\"(%shape, %p2) : (!ts.shape, C) -> C
             %p4 = \"tfrt_dht.print_tensor_shape\"(%a, %p3) : (T, C) -> C";
    prints(
        &body,
        "DenseHostTensor dtype = f32, shape = [2, 1], values = [1.000000e+00, 3.000000e+00]\n\
         DenseHostTensor dtype = f32, shape = [2, 1], values = [2.000000e+00, 2.000000e+00]\n\
         DenseHostTensor dtype = f32, shape = [1, 1], values = [3.000000e+00]\n\
         shape = [1, 1]\n[2, 1]\n",
    );
}

#[test]
fn buffers_print_and_reject_invalid_sizes() {
    let body = |size: i64, alignment: i64| {
        main(&format!(
            "  %size = tfrt.constant.i64 {size}
               %alignment = tfrt.constant.i64 {alignment}
               %buffer = \"tfrt_dht.allocate_buffer\"(%size, %alignment) : (i64, i64) -> !ht.host_buffer
               %c = \"tfrt_dht.print_buffer\"(%buffer, %ch) : (!ht.host_buffer, C) -> C"
        ))
    };
    let text = run(&body(24, 8));
    let pointer = text.strip_prefix("HostBuffer<pointer=0x").unwrap();
    let (digits, rest) = pointer.split_once(", ").unwrap();
    assert!(
        u64::from_str_radix(digits, 16).is_ok() && rest == "size=24>\n",
        "{text}"
    );
    for (size, alignment) in [(-1, 8), (8, 0), (8, 3), (i64::MAX, 8)] {
        assert_eq!(
            run(&body(size, alignment)),
            "error: Cannot allocate host buffer\n"
        );
    }
    prints(
        "  %n = tfrt.constant.i64 8
           %buffer = \"tfrt_dht.allocate_buffer\"(%n, %n) : (i64, i64) -> !ht.host_buffer
           %part = \"tfrt_dht.get_buffer_slice\"(%buffer, %n, %n) : (!ht.host_buffer, i64, i64) -> !ht.host_buffer",
        "error: a slice exceeds its buffer\n",
    );
    prints(
        "  %n = tfrt.constant.i64 8
           %buffer = \"tfrt_dht.allocate_buffer\"(%n, %n) : (i64, i64) -> !ht.host_buffer
           %shape = \"ts.build_shape\"() {value = [3]} : () -> !ts.shape
           %a, %c = \"tfrt_dht.make_tensor.f32\"(%buffer, %shape, %ch) : (!ht.host_buffer, !ts.shape, C) -> (T, C)",
        "error: dht.make_tensor failed: buffer_size (8) is not equal to the number of elements in \
         shape ([3]) times element size (4)\n",
    );
}

#[test]
fn an_exhausted_allocator_is_an_error() {
    let log = Output::default();
    let sink = log.clone();
    let sink = Log::new(move |severity, text| {
        sink.add(format!("{} {text}\n", severity.letter()).as_bytes());
    });
    let allocator = HostAllocator::new(AllocatorKind::TestFixedSize1k, sink);
    let text = main(
        "  %a = \"tfrt_dht.create_uninitialized_tensor.f32.1\"() {shape = [32]} : () -> T
           %b = \"tfrt_dht.create_uninitialized_tensor.f32.1\"() {shape = [1024]} : () -> T",
    );
    let printed = run_on(Host::builder().allocator(allocator.clone()), &text);
    assert_eq!(printed, "error: Cannot allocate tensor\n");
    let log = log.text();
    assert!(log.contains("I Allocating 192 bytes."), "{log}");
    assert!(log.contains("E Attempted to allocate 4160 bytes."), "{log}");
    assert_eq!(allocator.statistics().bytes, 0, "all bytes were freed");
}

#[test]
fn string_tensors_print() {
    prints(
        "  %a = \"tfrt_sht.create_tensor\"() {shape = [2], values = [\"string\", \"tensor\"]} : () -> T
           %p = \"tfrt_dht.print_tensor\"(%a, %ch) : (T, C) -> C",
        "StringHostTensor shape = [2], values = [\"string\", \"tensor\"]\n",
    );
    prints(
        "  %a = \"tfrt_sht.create_tensor\"() {shape = [3], values = [\"string\"]} : () -> T",
        "error: Shape mismatch\n",
    );
}

#[test]
fn sparse_tensors_convert_and_compare() {
    let convert = |ty: &str, rank: usize, value: &str| {
        filled("a", ty, &vec![2; rank], value)
            + &format!(
                "  %s, %s_c = \"coo.convert_dht_to_coo.{ty}.{rank}\"(%a, %a_c) : (T, C) -> (T, C)
                   %s_p = \"tfrt_dht.print_tensor\"(%s, %s_c) : (T, C) -> C
                   %d, %d_c = \"coo.convert_coo_to_dht.{ty}.{rank}\"(%s, %s_p) : (T, C) -> (T, C)
                   %same, %c1 = \"tfrt_dht.tensor_equal.{ty}\"(%a, %d, %d_c) : (T, T, C) -> (i1, C)
                   %c2 = tfrt.print.i1 %same, %c1
                   %equal, %c3 = \"coo.tensor_equal.{ty}.{rank}\"(%s, %s, %c2) : (T, T, C) -> (i1, C)
                   %c4 = tfrt.print.i1 %equal, %c3"
            )
    };
    for (ty, value, one) in [
        ("i32", "4 : i32", "4"),
        ("f32", "1.0 : f32", "1.000000e+00"),
    ] {
        for (rank, indices) in [
            (0, ""),
            (1, "0, 1"),
            (2, "0, 0, 0, 1, 1, 0, 1, 1"),
            (
                3,
                "0, 0, 0, 0, 0, 1, 0, 1, 0, 0, 1, 1, 1, 0, 0, 1, 0, 1, 1, 1, 0, 1, 1, 1",
            ),
        ] {
            let shape = vec![2; rank];
            let values = vec![one; 1 << rank].join(", ");
            prints(
                &convert(ty, rank, value),
                &format!(
                    "CooHostTensor dtype = {ty}, shape = {shape:?}, indices = [{indices}], \
                     values = [{values}]\n\nint1 = 1\nint1 = 1\n"
                ),
            );
        }
    }
}

#[test]
fn a_dense_attribute_is_a_tensor() {
    prints(
        "  %a = \"tfrt_test.const_dense_attr\"() {value = dense<[[1, 1], [2, 2]]> : tensor<2x2xi32>} : () -> T
           %p = \"tfrt_dht.print_tensor\"(%a, %ch) : (T, C) -> C",
        "DenseHostTensor dtype = i32, shape = [2, 2], values = [1, 1, 2, 2]\n",
    );
}
