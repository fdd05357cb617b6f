use super::tiles::{ReadTiles, WriteTiles};
use super::*;
use crate::activation::Activation;
use std::time::Instant;

/// Values in -1..1.
fn random_values(count: usize, seed: u32) -> Vec<f32> {
    let mut state = seed.wrapping_mul(2).wrapping_add(1);
    let mut next = || {
        state = state.wrapping_mul(747_796_405).wrapping_add(2_891_336_453);
        let mixed = (state >> ((state >> 28) + 4) ^ state).wrapping_mul(277_803_737);
        (mixed >> 8) as f32 / (1 << 23) as f32 - 1.0
    };
    (0..count).map(|_| next()).collect()
}

/// A convolution, its algorithm for tiles of `outputs` pixels, and operands.
struct Case {
    conv: Conv,
    winograd: Winograd,
    input: Vec<f32>,
    weights: Vec<f32>,
    panels: Vec<f32>,
}

impl Case {
    /// Of images, height, width, channels and filters, and the padding at the top, left, bottom and right.
    fn new(
        level: CpuLevel,
        outputs: usize,
        [images, height, width, channels, filters]: [usize; 5],
        [top, left, bottom, right]: [usize; 4],
    ) -> Self {
        let shape = Geometry {
            images,
            size: [1, height, width],
            channels,
            kernel: [1, 3, 3],
            strides: [1; 3],
            dilations: [1; 3],
            before: [0, top, left],
            after: [0, bottom, right],
            output: [1, height + top + bottom - 2, width + left + right - 2],
        };
        let conv = Conv {
            level: Level::detect(level),
            float: FloatType::F32,
            weights: FloatType::F32,
            shape,
            transposed: false,
            groups: 1,
            filters,
            direct: false,
            activation: Activation::NONE,
            constant: true,
            bias: false,
            addend: false,
        };
        let weights = random_values(9 * channels * filters, 1);
        let mut panels = vec![0.0; packed_len(9 * channels, filters)];
        conv.fill(&weights, &mut panels);
        let winograd = Winograd::each(&conv).into_iter().flatten();
        let mut winograd = winograd.filter(|it| it.outputs == outputs);
        Self {
            winograd: winograd.next().expect("the algorithm applies"),
            input: random_values(shape.input_len(), 2),
            weights,
            panels,
            conv,
        }
    }

    fn operands(&self) -> ConvOperands<'_, f32> {
        ConvOperands {
            input: &self.input,
            bias: None,
            addend: None,
        }
    }

    fn run(&self, operands: &ConvOperands<'_, f32>) -> Vec<f32> {
        let weights = self
            .winograd
            .transform_weights(self.conv.level, &self.panels);
        let weights = weights.expect("memory");
        let mut memory = vec![f32::NAN; self.winograd.scratch()];
        let mut output = vec![f32::NAN; self.conv.shape.pixels() * self.conv.filters];
        let weights = weights.elements();
        self.winograd
            .run(&self.conv, weights, operands, &mut memory, &mut output);
        output
    }

    /// The sum of products of an output element, and of their magnitudes.
    fn exact(&self, image: usize, [y, x]: [usize; 2], filter: usize) -> [f64; 2] {
        let shape = &self.conv.shape;
        let [_, height, width] = shape.size;
        let mut sums = [0.0; 2];
        for position in 0..9 {
            let row = (y + position / 3).wrapping_sub(shape.before[1]);
            let column = (x + position % 3).wrapping_sub(shape.before[2]);
            if row >= height || column >= width {
                continue;
            }
            let pixel = ((image * height + row) * width + column) * shape.channels;
            for channel in 0..shape.channels {
                let weight = self.weights[(filter * shape.channels + channel) * 9 + position];
                let product = f64::from(weight) * f64::from(self.input[pixel + channel]);
                sums[0] += product;
                sums[1] += product.abs();
            }
        }
        sums
    }
}

/// The largest error that each algorithm may have, in units of 2^-24 of the largest sum of magnitudes of products.
const ERROR_BOUNDS: [(usize, f64); 2] = [(2, 4.0), (4, 40.0)];

#[test]
fn results_are_those_of_f64_within_a_bound() {
    let shapes = [
        ([1, 1, 1, 16, 16], [1; 4]),
        ([1, 3, 3, 16, 32], [0; 4]),
        ([3, 7, 9, 32, 16], [1; 4]),
        ([2, 12, 6, 48, 80], [0, 2, 1, 5]),
        ([1, 37, 33, 16, 16], [1; 4]),
        ([5, 4, 5, 128, 128], [1; 4]),
        ([1, 8, 70, 96, 64], [2, 0, 0, 2]),
        // A row of tiles is too long for the memory of a thread.
        ([2, 5, 600, 64, 64], [1; 4]),
    ];
    for level in CpuLevel::ALL {
        for (outputs, bound) in ERROR_BOUNDS {
            for (shape, padding) in shapes {
                let case = Case::new(level, outputs, shape, padding);
                let found = case.run(&case.operands());
                let alone = pool::with_thread_limit(1, || case.run(&case.operands()));
                let (geometry, filters) = (&case.conv.shape, case.conv.filters);
                let [_, height, width] = geometry.output;
                let (mut error, mut largest): (f64, f64) = (0.0, 0.0);
                for (index, (&found, &alone)) in found.iter().zip(&alone).enumerate() {
                    assert_eq!(
                        found, alone,
                        "{shape:?}: the threads change element {index}"
                    );
                    let (pixel, filter) = (index / filters, index % filters);
                    let at = [pixel / width % height, pixel % width];
                    let [exact, magnitude] = case.exact(pixel / width / height, at, filter);
                    error = error.max((f64::from(found) - exact).abs());
                    largest = largest.max(magnitude);
                }
                let found = error / largest * 2f64.powi(24);
                assert!(found <= bound, "{level:?}, {outputs}: {shape:?}: {found}");
            }
        }
    }
}

#[test]
fn workloads_of_the_same_weights_share_them() {
    let case = Case::new(CpuLevel::Baseline, 4, [1, 9, 9, 16, 16], [1; 4]);
    let weights = |plain: &Weights| case.winograd.weights(&case.conv, plain).expect("memory");
    let fill = |to: &mut [f32]| to.copy_from_slice(&case.panels);
    let [plain, other] =
        [(); 2].map(|()| Weights::new(panels::buffer(case.panels.len(), fill).expect("memory")));
    let first = weights(&plain);
    assert!(Arc::ptr_eq(&first, &weights(&plain.clone())));
    assert!(!Arc::ptr_eq(&first, &weights(&other)));
    assert_eq!(first.elements(), weights(&other).elements());
}

#[test]
fn the_epilogue_follows_the_sums() {
    for level in CpuLevel::ALL {
        for outputs in [2, 4] {
            let shape = [2, 6, 5, 16, 32];
            let mut case = Case::new(level, outputs, shape, [1; 4]);
            let plain = case.run(&case.operands());
            let (bias, addend) = (random_values(32, 3), random_values(plain.len(), 4));
            let input = case.input.clone();
            let operands = ConvOperands {
                input: &input,
                bias: Some(&bias),
                addend: Some(&addend),
            };
            let sum = |index: usize| plain[index] + bias[index % 32] + addend[index];
            case.conv.activation.limits = [-0.5, 1.5];
            for (index, found) in case.run(&operands).into_iter().enumerate() {
                assert_eq!(found, sum(index).clamp(-0.5, 1.5));
            }
            case.conv.activation = Activation {
                function: Some(crate::simd::math::UnaryFunction::LeakyRelu { alpha: 0.5 }),
                ..Activation::NONE
            };
            for (index, found) in case.run(&operands).into_iter().enumerate() {
                let sum = sum(index);
                assert_eq!(found, if sum < 0.0 { sum * 0.5 } else { sum });
            }
        }
    }
}

/// The least time in seconds of some calls.
fn time(mut call: impl FnMut()) -> f64 {
    let times = (0..15).map(|_| {
        let start = Instant::now();
        call();
        start.elapsed().as_secs_f64()
    });
    times.fold(f64::INFINITY, f64::min)
}

#[test]
#[allow(clippy::print_stdout, reason = "what it is for")]
#[ignore = "prints the table of `Costs::of`, measured on one thread"]
fn costs_of_this_machine() {
    pool::with_thread_limit(1, || {
        for level in CpuLevel::ALL {
            for outputs in [2, 4] {
                println!("{level:?}, {outputs}: {:.1?}", costs(level, outputs));
            }
        }
    });
}

/// The costs of input, output and weights.
fn costs(level: CpuLevel, outputs: usize) -> [f64; 3] {
    match outputs {
        2 => costs_of::<F2, 4, 2>(level),
        _ => costs_of::<F4, 6, 4>(level),
    }
}

fn costs_of<F: Transform<TILE, OUTPUTS>, const TILE: usize, const OUTPUTS: usize>(
    level: CpuLevel,
) -> [f64; 3] {
    let case = Case::new(level, OUTPUTS, [1, 28, 28, 128, 128], [1; 4]);
    let (plan, operands, level) = (&case.winograd, case.operands(), case.conv.level);
    let mut output = vec![0.0; case.conv.shape.pixels() * case.conv.filters];
    let plain = time(|| case.conv.run(&case.panels, &operands, &mut [], &mut output));
    let unit = plain / f64::from(plan.plain_cost());
    let task = Task::<F, TILE, OUTPUTS> {
        plan,
        conv: &case.conv,
        weights: &[],
        operands: &operands,
        transform: PhantomData,
    };
    let [mut input, products] = plan.elements(1).map(|count| vec![0.5; count]);
    let rows = plan.tile_rows();
    let elements = (rows * plan.tile_columns() * plan.positions() * 128) as f64;
    let read = time(|| {
        for row in 0..rows {
            let (task, to) = (&task, &mut input[..]);
            level.run(ReadTiles { task, row, to });
        }
    });
    let write = time(|| {
        for _ in 0..rows {
            level.run(WriteTiles {
                task: &task,
                products: &products,
                first: 0,
                to: &mut output[..OUTPUTS * 28 * 128],
            });
        }
    });
    // Weights that do not fit the caches, each read once.
    let case = Case::new(level.cpu(), OUTPUTS, [1, 7, 7, 512, 512], [1; 4]);
    let (plan, operands) = (&case.winograd, case.operands());
    let weights: Vec<_> = (0..if OUTPUTS == 2 { 8 } else { 4 })
        .map(|_| plan.transform_weights(level, &case.panels).expect("memory"))
        .collect();
    let mut memory = vec![0.0; plan.scratch()];
    let mut output = vec![0.0; case.conv.shape.pixels() * case.conv.filters];
    let whole = time(|| {
        for weights in &weights {
            plan.run(
                &case.conv,
                weights.elements(),
                &operands,
                &mut memory,
                &mut output,
            );
        }
    }) / weights.len() as f64;
    let [input, output] = [read, write].map(|time| time / unit / elements);
    let costs = Costs {
        input: input as f32,
        output: output as f32,
        weights: 0.0,
    };
    let elements = (plan.positions() * 512 * 512) as f64;
    let weights = (whole / unit - f64::from(plan.cost(&costs))) / elements;
    [input, output, weights]
}
