//! The `tfrt_tutorial` dialect: kernels of a user-defined type.

use tenon_executor::{Chain, Host, KernelDef, Opaque, kernel};

struct Coordinate {
    x: i32,
    y: i32,
}

impl Opaque for Coordinate {
    const TYPE: &'static str = "!my.coordinate";
}

pub(crate) fn kernels() -> Vec<KernelDef> {
    vec![
        kernel("tfrt_tutorial.create_coordinate", |x: i32, y: i32| {
            Coordinate { x, y }
        })
        .doc("The coordinate (x, y)."),
        kernel(
            "tfrt_tutorial.print_coordinate",
            |at: &Coordinate, _: Chain, host: &Host| {
                host.print(format_args!("({}, {})\n", at.x, at.y));
                Chain
            },
        )
        .doc("Prints a coordinate."),
    ]
}
