//! The `vt` dialect: values that print when they are constructed and destroyed.

use tenon_executor::{Attr, Chain, Host, KernelDef, Opaque, kernel};

/// An integer that prints its construction and destruction.
struct Tracked {
    number: i32,
    host: Host,
}

impl Opaque for Tracked {
    const TYPE: &'static str = "!vt.value";
}

impl Tracked {
    /// In the original a kernel constructs the value and moves it into its result, and both print;
    /// the moved-from value is destroyed silently (bef 4.2).
    fn new(number: i32, host: &Host) -> Self {
        host.print(format_args!("constructed vt.value({number})\n"));
        host.print(format_args!("move constructed vt.value({number})\n"));
        Self {
            number,
            host: host.clone(),
        }
    }
}

impl Drop for Tracked {
    fn drop(&mut self) {
        let number = self.number;
        // In the original -1 marks a moved-from value.
        if number != -1 {
            self.host
                .print(format_args!("destroyed vt.value({number})\n"));
        }
    }
}

pub(crate) fn kernels() -> Vec<KernelDef> {
    vec![
        kernel("vt.constant", |value: Attr<i32>, host: &Host| {
            Tracked::new(value.0, host)
        })
        .doc("The attribute `value`."),
        kernel("vt.add", |a: &Tracked, b: &Tracked, host: &Host| {
            Tracked::new(a.number.wrapping_add(b.number), host)
        })
        .doc("a + b, wrapping."),
        kernel("vt.print", |value: &Tracked, _: Chain, host: &Host| {
            host.print(format_args!("print vt_value({})\n", value.number));
            Chain
        })
        .doc("Prints the value."),
    ]
}
