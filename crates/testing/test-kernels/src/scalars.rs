//! Synchronous kernels on scalars.

use crate::asynchronous::sleep_a_little;
use crate::failed;
use tenon_base::Result;
use tenon_executor::{
    Chain, Frame, Host, Kernel, KernelDef, RestOperands, Signature, Site, kernel,
};

pub(crate) fn kernels() -> Vec<KernelDef> {
    vec![
        kernel("tfrt_test.print_hello", |_: Chain, host: &Host| {
            host.print(format_args!("hello host executor!\n"));
            Chain
        })
        .doc("Prints a greeting."),
        kernel(
            "tfrt_test.print_bool",
            |_: Chain, value: bool, host: &Host| {
                host.print(format_args!("{value}\n"));
                Chain
            },
        )
        .doc("Prints `true` or `false`."),
        kernel("tfrt_test.count3.i32", |x: i32| {
            (x.wrapping_add(1), x.wrapping_add(2), x.wrapping_add(3))
        })
        .doc(COUNT),
        kernel("tfrt_test.count3.i64", |x: i64| {
            (x.wrapping_add(1), x.wrapping_add(2), x.wrapping_add(3))
        })
        .doc(COUNT),
        kernel("tfrt_test.sum", sum).doc("The sum of the operands, wrapping."),
        kernel("tfrt_test.copy.with_delay.i32", |x: i32| {
            sleep_a_little();
            x
        })
        .doc(SLOW_COPY),
        kernel("tfrt_test.copy.with_delay.i64", |x: i64| {
            sleep_a_little();
            x
        })
        .doc(SLOW_COPY),
        test_cost(),
    ]
}

const COUNT: &str = "x + 1, x + 2 and x + 3.";
const SLOW_COPY: &str = "The operand, after 1 to 10 ms of sleep on the calling thread.";

fn sum(values: RestOperands<'_>) -> Result<i32> {
    (0..values.len()).try_fold(0i32, |sum, index| Ok(sum.wrapping_add(values.read(index)?)))
}

/// Reads its attribute by name: besides `id` there may be `_tfrt_cost`, which BEF drops.
fn test_cost() -> KernelDef {
    let signature = Signature {
        variadic: true,
        results: vec!["i32"],
        ..Signature::default()
    };
    let bind = |site: &Site<'_>| -> Result<Box<dyn Kernel>> {
        let id = site.attributes().i64("id")?;
        if site.kernel().results.is_empty() {
            return Err(failed("the kernel has no result"));
        }
        Ok(Box::new(TestCost(id)))
    };
    KernelDef::new("tfrt_test.test_cost", signature, bind)
        .doc("Prints the attribute `id`; the result, 0, only orders.")
}

struct TestCost(i64);

impl Kernel for TestCost {
    fn run(&self, frame: &mut Frame<'_>) -> Result<()> {
        frame.host().print(format_args!("id: {}\n", self.0));
        frame.set(0, tenon_executor::Value::I32(0));
        Ok(())
    }
}
