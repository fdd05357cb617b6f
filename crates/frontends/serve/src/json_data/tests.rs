//! Elements in JSON become tensors.

use super::*;

fn tensor_of(json: &str, ty: &str) -> Result<Tensor, String> {
    let data: JsonData<'_> = serde_json::from_str(json).map_err(|error| error.to_string())?;
    let ty = ty
        .parse()
        .map_err(|error: tenon::Error| error.to_string())?;
    data.to_tensor(ty).map_err(|refusal| refusal.text)
}

fn refused(json: &str, ty: &str) -> String {
    tensor_of(json, ty).expect_err(json)
}

#[test]
fn nested_and_flat_arrays_are_equal() {
    let flat = tensor_of("[1, 2.5, -3, 4, 5, 6]", "f32[2, 3]").unwrap();
    let nested = tensor_of("[[1, 2.5, -3], [4, 5, 6]]", "f32[2, 3]").unwrap();
    assert_eq!(flat, nested);
    assert_eq!(
        flat.as_slice::<f32>().unwrap(),
        [1.0, 2.5, -3.0, 4.0, 5.0, 6.0]
    );
    let scalar = tensor_of("[7]", "i64[]").unwrap();
    assert_eq!(scalar.as_slice::<i64>().unwrap(), [7]);
}

#[test]
fn nested_arrays_have_the_declared_shape() {
    assert!(refused("[[1, 2, 3], [4, 5, 6]]", "f32[3, 2]").contains("[2, 3]"));
    assert!(refused("[1, 2]", "f32[3]").contains("[2]"));
    assert!(refused("[[1, 2], [3]]", "f32[3]").contains("several lengths"));
    assert!(refused("[1, [2]]", "f32[2]").contains("depth"));
    assert!(refused("[[1], 2]", "f32[2]").contains("depth"));
    assert!(refused("[[], 1]", "f32[1]").contains("depth"));
    assert!(refused("[[[]], [1]]", "f32[2]").contains("depth"));
    assert!(refused("3", "f32[1]").contains("array"));
    assert!(refused("{}", "f32[1]").contains("array"));
    assert!(refused("[null]", "f32[1]").contains("null"));
    assert!(refused("[{\"a\": [1, 2]}]", "f32[1]").contains("element 0"));
    let nested = |depth| "[".repeat(depth) + &"]".repeat(depth);
    assert!(refused(&nested(33), "f32[1]").contains("deep"));
    assert!(refused("[1, 2", "f32[2]").contains("EOF"));
}

#[test]
fn arrays_without_elements() {
    assert!(tensor_of("[]", "f32[0]").is_ok());
    assert!(tensor_of("[]", "string[0, 3]").is_ok());
    assert!(tensor_of("[[], []]", "f32[2, 0]").is_ok());
    assert!(tensor_of("[[], []]", "f32[3, 0]").is_err());
    assert!(tensor_of("[]", "f32[1]").is_err());
}

#[test]
fn integers_are_within_their_type() {
    let bytes = tensor_of("[0, 255]", "u8[2]").unwrap();
    assert_eq!(bytes.bytes(), [0, 255]);
    assert!(refused("[0, 256]", "u8[2]").contains("element 1, 256"));
    assert!(refused("[-1]", "u8[1]").contains("-1"));
    assert!(refused("[1.0]", "i32[1]").contains("element 0 is 1.0"));
    assert!(refused("[1e3]", "i32[1]").contains("INT32 has integers"));
    let extremes = tensor_of("[-9223372036854775808, 9223372036854775807]", "i64[2]").unwrap();
    assert_eq!(extremes.as_slice::<i64>().unwrap(), [i64::MIN, i64::MAX]);
    let largest = tensor_of("[18446744073709551615]", "u64[1]").unwrap();
    assert_eq!(largest.as_slice::<u64>().unwrap(), [u64::MAX]);
    assert!(refused("[-1, 18446744073709551615]", "i64[2]").contains("outside of INT64"));
    assert!(refused(&format!("[{}]", "9".repeat(99)), "i64[1]").contains("999..."));
}

#[test]
fn floats_are_the_nearest_of_their_type() {
    // Just above the middle between two values of f32, to which it would be rounded in f64.
    let near = tensor_of("[1.00000005960464477540]", "f32[1]").unwrap();
    assert_eq!(near.as_slice::<f32>().unwrap(), [1.0 + f32::EPSILON]);
    let small = tensor_of("[-1e-320, 1E400]", "f64[2]");
    assert!(small.unwrap_err().contains("1E400, is outside of FP64"));
    assert!(refused("[1e39]", "f32[1]").contains("outside of FP32"));
    let tiny = tensor_of("[1e-50, -0]", "f32[2]").unwrap();
    assert_eq!(tiny.as_slice::<f32>().unwrap(), [0.0, 0.0]);
}

#[test]
fn kinds_are_not_mixed() {
    assert!(refused("[1, true]", "f32[2]").contains("element 1 is true: FP32 has numeric"));
    assert!(refused("[\"a\", 1]", "string[2]").contains("BYTES has strings"));
    assert!(refused("[\"a\"]", "f32[1]").contains("\"a\""));
    assert!(refused("[\"1\"]", "i64[1]").contains("integers"));
    assert!(refused("[2]", "bool[1]").contains("true"));
    assert_eq!(
        tensor_of("[true, false]", "bool[2]").unwrap().bytes(),
        [1, 0]
    );
    assert_eq!(tensor_of("[1, 0]", "bool[2]").unwrap().bytes(), [1, 0]);
}

#[test]
fn half_floats_are_binary_only() {
    assert!(refused("[1]", "f16[1]").contains("binary"));
    assert!(refused("[1]", "bf16[1]").contains("BF16"));
}

#[test]
fn texts_are_kept() {
    let json = r#"[["a", "é]"], ["", "\n\",\u00e9\\"]]"#;
    let texts = tensor_of(json, "string[2, 2]").unwrap();
    let found: Vec<&str> = texts.strings().unwrap().collect();
    assert_eq!(found, ["a", "é]", "", "\n\",é\\"]);
}
