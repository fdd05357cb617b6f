//! Kernels on values of any type, and on asynchronous values.

use crate::failed;
use tenon_base::Result;
use tenon_executor::{Chain, KernelDef, RestOperands, Value, kernel, pending};

pub(crate) fn kernels() -> Vec<KernelDef> {
    vec![
        kernel(
            "tfrt_test.identity",
            |_: Chain, values: RestOperands<'_>| all(values),
        )
        .doc("The operands after the chain."),
        kernel("tfrt_test.multi_arg_result", all).doc("The operands."),
        kernel("tfrt_test.share_to_two", |value: Value| {
            (value.clone(), value)
        })
        .doc("The operand twice, shared."),
        kernel("tfrt_test.as_chain", |_: RestOperands<'_>| Chain)
            .doc("A chain after all operands, of any types."),
        kernel(
            "tfrt_test.get_uniqueness",
            |values: RestOperands<'_>| -> Vec<Value> {
                values
                    .iter()
                    .map(|value| Value::I1(is_unique(value)))
                    .collect()
            },
        )
        .doc("For each operand, whether it has no other reference; registers hold references."),
        kernel(
            "tfrt_test.make_indirect",
            |values: RestOperands<'_>| -> Vec<Value> {
                values.iter().cloned().map(through_pending).collect()
            },
        )
        .doc("The operands, each through an available asynchronous value."),
        kernel("tfrt_test.async_value_get", async_value_get)
            .doc("The contents of asynchronous values: strings of three types, and an integer."),
        kernel("tfrt_test.async_value_ref", async_value_ref)
            .doc("The states of an asynchronous value before and after it is set."),
    ]
}

fn all(values: RestOperands<'_>) -> Vec<Value> {
    values.iter().cloned().collect()
}

/// Whether the value is an object with a single reference; scalars have no references.
fn is_unique(value: &Value) -> bool {
    match value {
        Value::Opaque(object) => object.is_unique(),
        _ => false,
    }
}

/// The value, through an available asynchronous value.
fn through_pending(value: Value) -> Value {
    let (later, promise) = pending();
    promise.set(value);
    Value::Pending(later)
}

fn async_value_get() -> Result<String> {
    let texts = ["base1", "base2", "final_class"];
    let mut parts = Vec::new();
    for text in texts {
        let value = through_pending(Value::opaque(text.to_owned())).resolved();
        let text = value.downcast::<String>().cloned();
        parts.push(text.ok_or_else(|| failed("the text is lost"))?);
    }
    let number: Option<i32> = through_pending(Value::I32(3)).resolved().read();
    parts.push(
        number
            .ok_or_else(|| failed("the number is lost"))?
            .to_string(),
    );
    Ok(parts.join(":"))
}

fn async_value_ref() -> String {
    let show = |value: &Value| match value.clone().resolved() {
        Value::I32(number) => format!("available:{number}"),
        _ => "unavailable".to_owned(),
    };
    let two = through_pending(Value::I32(2));
    let mut parts = vec![show(&two)];
    let (three, promise) = pending();
    parts.push(show(&Value::Pending(three.clone())));
    let (sender, receiver) = std::sync::mpsc::channel();
    three.when_available(move |value| {
        let number: Option<i32> = value.read();
        // The receiver outlives the promise.
        let _ = sender.send(format!("({})", number.unwrap_or_default()));
    });
    promise.set(Value::I32(3));
    parts.extend(receiver.try_iter());
    parts.push(show(&Value::Pending(three)));
    let (four, promise) = pending();
    parts.push(show(&Value::Pending(four.clone())));
    let set = move || promise.set(Value::I32(4));
    set();
    parts.push(show(&Value::Pending(four)));
    parts.join(";")
}
