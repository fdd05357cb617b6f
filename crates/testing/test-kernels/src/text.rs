//! Kernels on strings.

use std::sync::Arc;
use tenon_bef::{Attribute, AttributeCode, Name};
use tenon_executor::{Attr, Chain, FromAttribute, Host, KernelDef, kernel};

pub(crate) fn kernels() -> Vec<KernelDef> {
    vec![
        kernel("tfrt_test.get_string", |value: Attr<Name>| {
            value.0.to_string()
        })
        .doc("The attribute `value`."),
        kernel(
            "tfrt_test.print_string",
            |text: &String, _: Chain, host: &Host| {
                host.print(format_args!("string = {text}\n"));
                Chain
            },
        )
        .doc("Prints the string."),
        kernel("tfrt_test.append_string", |a: &String, b: &String| {
            format!("{a}{b}")
        })
        .doc("The first string followed by the second."),
        kernel("tfrt_test.flat", |flat: Attr<Flat>| {
            let Flat {
                text,
                integers,
                float,
            } = flat.0;
            (text.to_string(), integers[0], integers[1], float)
        })
        .doc("The leaves of an attribute `[[\"text\", [1 : i32, 2 : i32]], [3.0 : f32]]`."),
    ]
}

/// The leaves of a nested attribute.
#[derive(Clone)]
struct Flat {
    text: Arc<str>,
    integers: [i32; 2],
    float: f32,
}

impl FromAttribute for Flat {
    const TYPE: &'static str = "[[text, [i32, i32]], [f32]]";
    const CODE: Option<AttributeCode> = Some(AttributeCode::AGGREGATE);

    fn from_attribute(attribute: &Attribute) -> Option<Self> {
        let [left, right] = attribute.as_list()? else {
            return None;
        };
        let ([text, integers], [Attribute::F32(float)]) = (left.as_list()?, right.as_list()?)
        else {
            return None;
        };
        let [Attribute::I32(first), Attribute::I32(second)] = integers.as_list()? else {
            return None;
        };
        Some(Self {
            text: text.as_str()?.into(),
            integers: [*first, *second],
            float: *float,
        })
    }
}
