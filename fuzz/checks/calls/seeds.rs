//! Models of a few operators and their packages, made once.

use crate::build::{info, int, model, node};
use std::sync::OnceLock;
use tenon::{Compiler, StateSelection};

/// Sizes that are fixed, symbolic or depend on data; types; errors; the last one executes without end.
const MODELS: [&[u8]; 7] = [
    include_bytes!("../../../crates/frontends/cli/tests/data/chain.onnx"),
    include_bytes!("../../../crates/frontends/cli/tests/data/dims.onnx"),
    include_bytes!("../../../crates/frontends/cli/tests/data/formats.onnx"),
    include_bytes!("../../../crates/frontends/cli/tests/data/positive.onnx"),
    include_bytes!("../../../crates/frontends/cli/tests/data/types.onnx"),
    include_bytes!("../../../crates/frontends/cli/tests/data/unknown.onnx"),
    include_bytes!("../../../crates/frontends/cli/tests/data/endless.onnx"),
];

/// A file.
pub struct Seed {
    pub bytes: Vec<u8>,
    /// Its executions end.
    pub ends: bool,
}

/// All files.
pub struct Seeds {
    pub models: Vec<Seed>,
    pub packages: Vec<Seed>,
}

/// The files.
pub fn seeds() -> &'static Seeds {
    static SEEDS: OnceLock<Seeds> = OnceLock::new();
    SEEDS.get_or_init(|| {
        let committed = MODELS.iter().enumerate().map(|(at, bytes)| Seed {
            bytes: bytes.to_vec(),
            ends: at + 1 < MODELS.len(),
        });
        let cache = Seed {
            bytes: cache(),
            ends: true,
        };
        let models: Vec<Seed> = std::iter::once(cache).chain(committed).collect();
        let package = |model: &Seed| {
            let compiler = Compiler::new().states(StateSelection::Automatic);
            let package = compiler.compile_bytes(model.bytes.clone()).ok()?;
            Some(Seed {
                bytes: package.to_bytes().ok()?,
                ends: model.ends,
            })
        };
        let packages = models.iter().filter_map(package).collect();
        Seeds { models, packages }
    })
}

/// A model with a state that grows, and one that does not.
fn cache() -> Vec<u8> {
    let mut cache = model(17)
        .input("x", &["1", "2"])
        .input("past", &["n", "2"])
        .input("sum", &["1", "2"])
        .node(node(
            "Concat",
            &["past", "x"],
            &["present"],
            &[int("axis", 0)],
        ))
        .node(node("Add", &["sum", "x"], &["next_sum"], &[]))
        .node(node("Neg", &["x"], &["y"], &[]));
    let float = tenon_onnx::proto::data_type::FLOAT;
    let outputs = [
        ("y", ["1", "2"]),
        ("present", ["n + 1", "2"]),
        ("next_sum", ["1", "2"]),
    ];
    let outputs = outputs.map(|(name, dims)| info(name, float, &dims));
    cache.graph().output.extend(outputs);
    cache.bytes()
}
