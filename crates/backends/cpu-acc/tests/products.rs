//! Matrix products of all types, batches and vectors, compared with the reference backend.

mod common;

use common::{Case, Random};
use tenon_tensor::Element;

/// Shapes of A and B: odd sizes, broadcast batches, vectors.
const SHAPES: [(&[usize], &[usize]); 9] = [
    (&[7, 33], &[33, 19]),
    (&[1, 1], &[1, 1]),
    (&[2, 1, 13, 5], &[3, 5, 40]),
    (&[4, 6, 8], &[8, 16]),
    (&[5], &[5, 17]),
    (&[3, 4, 5], &[5]),
    (&[9], &[9]),
    (&[6], &[2, 6, 3]),
    (&[64, 70], &[70, 130]),
];

fn compare<T: Element>(tolerance: f64, value: impl Fn(&mut Random) -> T) {
    let mut random = Random::new(31);
    for (a, b) in SHAPES {
        let mut values = |shape: &[usize]| -> Vec<T> {
            (0..shape.iter().product())
                .map(|_| value(&mut random))
                .collect()
        };
        let case = Case::new("MatMul")
            .input(a, &values(a))
            .input(b, &values(b));
        case.outputs(1).agrees_with_reference(tolerance);
    }
}

#[test]
fn products_of_every_type() {
    compare(1e-4, |random| random.value());
    compare(1e-12, |random| f64::from(random.value()));
    // Products that wrap.
    compare(0.0, |random| random.next() as i32);
    compare(0.0, |random| random.next() as u32);
    compare(0.0, |random| random.next() as i64);
    compare(0.0, |random| random.next());
}
