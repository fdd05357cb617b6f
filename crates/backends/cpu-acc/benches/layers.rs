//! The layers of ResNet-50, MobileNetV2 and BERT-base, in GFLOP/s, on one thread and on two:
//! `cargo bench -p tenon-cpu-acc --bench layers`. Divan counts operations as items, so that its
//! item throughput is FLOP/s. Read the best sample: other load on the machine lowers the mean.

#[path = "../tests/common/mod.rs"]
mod common;

use common::{Case, Random};
use divan::Bencher;
use divan::counter::ItemsCount;
use std::fmt;
use tenon_backend::CpuLevel;
use tenon_base::pool;

fn main() {
    divan::main();
}

/// A convolution: square image, channels, filters, square kernel, stride, groups.
#[derive(Clone, Copy)]
struct Conv(usize, usize, usize, usize, usize, usize);

impl fmt::Display for Conv {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Conv(image, channels, filters, kernel, stride, groups) = *self;
        write!(f, "{image}x{image}x{channels}-{filters} {kernel}x{kernel}")?;
        if stride > 1 {
            write!(f, " /{stride}")?;
        }
        if groups > 1 {
            write!(f, " dw")?;
        }
        Ok(())
    }
}

/// Every convolution of ResNet-50.
const RESNET: &[Conv] = &[
    Conv(224, 3, 64, 7, 2, 1),
    Conv(56, 64, 64, 1, 1, 1),
    Conv(56, 64, 64, 3, 1, 1),
    Conv(56, 64, 256, 1, 1, 1),
    Conv(56, 256, 64, 1, 1, 1),
    Conv(56, 256, 128, 1, 1, 1),
    Conv(56, 128, 128, 3, 2, 1),
    Conv(28, 128, 512, 1, 1, 1),
    Conv(56, 256, 512, 1, 2, 1),
    Conv(28, 512, 128, 1, 1, 1),
    Conv(28, 128, 128, 3, 1, 1),
    Conv(28, 512, 256, 1, 1, 1),
    Conv(28, 256, 256, 3, 2, 1),
    Conv(14, 256, 1024, 1, 1, 1),
    Conv(28, 512, 1024, 1, 2, 1),
    Conv(14, 1024, 256, 1, 1, 1),
    Conv(14, 256, 256, 3, 1, 1),
    Conv(14, 1024, 512, 1, 1, 1),
    Conv(14, 512, 512, 3, 2, 1),
    Conv(7, 512, 2048, 1, 1, 1),
    Conv(14, 1024, 2048, 1, 2, 1),
    Conv(7, 2048, 512, 1, 1, 1),
    Conv(7, 512, 512, 3, 1, 1),
];

/// Layers of MobileNetV2 of every kind.
const MOBILENET: &[Conv] = &[
    Conv(224, 3, 32, 3, 2, 1),
    Conv(112, 32, 32, 3, 1, 32),
    Conv(112, 32, 16, 1, 1, 1),
    Conv(112, 16, 96, 1, 1, 1),
    Conv(112, 96, 96, 3, 2, 96),
    Conv(56, 96, 24, 1, 1, 1),
    Conv(56, 24, 144, 1, 1, 1),
    Conv(56, 144, 144, 3, 1, 144),
    Conv(28, 32, 192, 1, 1, 1),
    Conv(28, 192, 192, 3, 1, 192),
    Conv(14, 384, 384, 3, 1, 384),
    Conv(14, 384, 64, 1, 1, 1),
    Conv(14, 96, 576, 1, 1, 1),
    Conv(7, 960, 960, 3, 1, 960),
    Conv(7, 160, 960, 1, 1, 1),
    Conv(7, 320, 1280, 1, 1, 1),
];

/// A product: rows, depth, columns.
#[derive(Clone, Copy)]
struct Product(usize, usize, usize);

impl fmt::Display for Product {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}x{}x{}", self.0, self.1, self.2)
    }
}

/// The products of BERT-base for 128 tokens, and of a small network for one row.
const PRODUCTS: &[Product] = &[
    Product(128, 768, 768),
    Product(128, 768, 3072),
    Product(128, 3072, 768),
    Product(1, 784, 256),
    Product(1, 256, 128),
    Product(1, 128, 10),
    Product(1, 2048, 1000),
];

fn bench(bencher: Bencher<'_, '_>, case: &Case, threads: usize, operations: usize) {
    let mut bound = case.bind(CpuLevel::Avx512);
    bound.repeat(|execute| {
        pool::with_thread_limit(threads, || {
            bencher
                .counter(ItemsCount::new(operations))
                .bench_local(&mut *execute);
        });
    });
}

fn convolution(bencher: Bencher<'_, '_>, conv: Conv, threads: usize) {
    let Conv(image, channels, filters, kernel, stride, groups) = conv;
    let out = (image + 2 * (kernel / 2) - kernel) / stride + 1;
    let mut random = Random::new(1);
    let depth = channels / groups;
    let case = Case::new("tenon.Conv")
        .input(
            &[1, image, image, channels],
            &random.values(image * image * channels),
        )
        .constant(
            &[filters, depth, kernel, kernel],
            &random.values(filters * depth * kernel * kernel),
        )
        .constant(&[filters], &random.values(filters))
        .f32_output(&[1, out, out, filters])
        .ints("strides", &[stride; 2])
        .ints("pads", &[kernel / 2; 4])
        .ints("dilations", &[1; 2])
        .int("group", groups as i64)
        .string("activation", "relu");
    bench(
        bencher,
        &case,
        threads,
        2 * out * out * filters * depth * kernel * kernel,
    );
}

fn product(bencher: Bencher<'_, '_>, Product(rows, depth, columns): Product, threads: usize) {
    let mut random = Random::new(1);
    let case = Case::new("tenon.MatMul")
        .input(&[rows, depth], &random.values(rows * depth))
        .constant(&[depth, columns], &random.values(depth * columns))
        .constant(&[columns], &random.values(columns))
        .f32_output(&[rows, columns]);
    bench(bencher, &case, threads, 2 * rows * depth * columns);
}

#[divan::bench(args = RESNET, consts = [1, 2])]
fn resnet50<const THREADS: usize>(bencher: Bencher<'_, '_>, conv: &Conv) {
    convolution(bencher, *conv, THREADS);
}

#[divan::bench(args = MOBILENET, consts = [1, 2])]
fn mobilenet_v2<const THREADS: usize>(bencher: Bencher<'_, '_>, conv: &Conv) {
    convolution(bencher, *conv, THREADS);
}

#[divan::bench(args = PRODUCTS, consts = [1, 2])]
fn products<const THREADS: usize>(bencher: Bencher<'_, '_>, shape: &Product) {
    product(bencher, *shape, THREADS);
}

/// The attention of BERT-base, for 128 tokens.
#[divan::bench(consts = [1, 2])]
fn attention<const THREADS: usize>(bencher: Bencher<'_, '_>) {
    let mut random = Random::new(1);
    let shape = [1, 128, 12, 64];
    let mut values = || random.values(128 * 768);
    let case = Case::new("tenon.Attention")
        .input(&shape, &values())
        .input(&shape, &values())
        .input(&shape, &values())
        .input(&[1, 1, 1, 128], &[0f32; 128])
        .f32_output(&shape)
        .float("scale", 0.125);
    bench(bencher, &case, THREADS, 4 * 12 * 128 * 128 * 64);
}

/// Elements a second, not operations.
#[divan::bench(args = ["Gelu", "Softmax", "Tanh", "Exp"], consts = [1, 2])]
fn elementwise<const THREADS: usize>(bencher: Bencher<'_, '_>, name: &str) {
    let shape = [128, 3072];
    let values = Random::new(1).values(128 * 3072);
    let case = Case::new(name).input(&shape, &values).f32_output(&shape);
    bench(bencher, &case, THREADS, values.len());
}

/// Elements a second.
#[divan::bench(consts = [1, 2])]
fn layer_normalization<const THREADS: usize>(bencher: Bencher<'_, '_>) {
    let values = Random::new(1).values(128 * 768);
    let case = Case::new("LayerNormalization")
        .input(&[128, 768], &values)
        .constant(&[768], &values[..768])
        .constant(&[768], &values[..768])
        .f32_output(&[128, 768]);
    bench(bencher, &case, THREADS, values.len());
}

/// One sequence of 64 steps of a layer of 256 features: operations of its products a second.
#[divan::bench(consts = [1, 2])]
fn lstm<const THREADS: usize>(bencher: Bencher<'_, '_>) {
    let mut random = Random::new(1);
    let (steps, hidden) = (64, 256);
    let case = Case::new("LSTM")
        .input(&[steps, 1, hidden], &random.values(steps * hidden))
        .constant(
            &[1, 4 * hidden, hidden],
            &random.values(4 * hidden * hidden),
        )
        .constant(
            &[1, 4 * hidden, hidden],
            &random.values(4 * hidden * hidden),
        )
        .constant(&[1, 8 * hidden], &random.values(8 * hidden))
        .f32_output(&[steps, 1, 1, hidden])
        .f32_output(&[1, 1, hidden])
        .int("hidden_size", hidden as i64);
    bench(bencher, &case, THREADS, steps * 2 * 2 * 4 * hidden * hidden);
}
