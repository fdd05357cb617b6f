//! Flags of all commands that compile and run models.

use crate::package_flags::LimitFlags;
use crate::plugin_flags::{BackendFlags, DeviceFlags};
use clap::Args;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use tenon::{BackendId, Hint, MemoryStrategy, Pattern, PrecisionRule, StatePair, StateSelection};

/// How a model is opened, compiled and loaded.
#[derive(Args, Clone)]
pub struct ModelFlags {
    #[command(flatten)]
    pub limits: LimitFlags,
    #[command(flatten)]
    pub compiling: CompileFlags,
    #[command(flatten)]
    pub device: DeviceFlags,
}

/// How a model becomes a package; read when the file is an ONNX model.
#[derive(Args, Clone)]
pub struct CompileFlags {
    /// Give a symbolic dimension its size, or the range of its sizes; repeat for several. Arrays that
    /// are given for inputs (.npy, .npz) say theirs themselves.
    #[arg(long = "dim", value_name = "NAME=N|A..B", value_parser = dimension, help_heading = "Compiling")]
    pub dims: Vec<(String, DimensionSize)>,
    /// Give an input its value when compiling (needed where it decides shapes); it is no input of
    /// the package then. FILE as for --input.
    #[arg(long = "const", value_name = "NAME=FILE", value_parser = named_file, help_heading = "Compiling")]
    pub constants: Vec<(String, PathBuf)>,
    /// Backends in order of preference.
    #[arg(
        long,
        value_name = "A,B",
        value_delimiter = ',',
        help_heading = "Compiling"
    )]
    pub backends: Vec<String>,
    /// Offer the nodes of this name to a backend before all others; * matches any characters,
    /// ? for one. Repeat for several; the first one of a node's name counts.
    #[arg(long, value_name = "PATTERN=BACKEND", value_parser = hint, help_heading = "Compiling")]
    pub place: Vec<Hint>,
    /// Compute matrix products and convolutions of f32 with weights of this type: f32 (the default), f16, bf16 or
    /// fast (bf16 if the CPU has instructions for it). With PATTERN, the nodes of this name; repeat for several.
    #[arg(long, value_name = "TYPE|PATTERN=TYPE", value_parser = precision, help_heading = "Compiling")]
    pub precision: Vec<PrecisionRule>,
    /// Keep the plain copy of constants beside the form that a backend has prepared (twice the size).
    #[arg(long, help_heading = "Compiling")]
    pub keep_plain: bool,
    /// How intermediate values share memory: packed (along both axes, the default),
    /// single-axis-priority (one value at a time in each range) or constant (nothing shared).
    #[arg(long, value_name = "NAME", value_parser = memory_strategy, help_heading = "Compiling")]
    pub memory_strategy: Option<&'static dyn MemoryStrategy>,
    /// Use an output as an input of the next execution; * matches the same text in both names, as in
    /// present.*=past_key_values.*. Caches that the model appends to get the layout in which they grow in
    /// place, if the batch is 1 (--dim). Repeat for several.
    #[arg(long = "state", value_name = "OUTPUT=INPUT", help_heading = "State")]
    pub states: Vec<StatePair>,
    /// Find the states by their names, types and shapes: present.X and past.X, hn and h0.
    #[arg(long, help_heading = "State", conflicts_with = "states")]
    pub auto_state: bool,
    /// Let a function of a library compute a node, in the thread that runs the model; the library
    /// becomes part of the package (include/tenon/cpu_node.h). Repeat for several.
    #[arg(long = "cpu-node", value_name = "NODE=LIB.so:SYMBOL", value_parser = cpu_node, help_heading = "Compiling")]
    pub cpu_nodes: Vec<CpuNode>,
    /// Read external data of the model behind links into this folder, too: snapshots of model hubs
    /// link to a folder of blobs. Repeat for several.
    #[arg(long, value_name = "FOLDER", help_heading = "Compiling")]
    pub allow_links: Vec<PathBuf>,
    /// Give initialisers and inputs of the model the values of tensors of their names: .safetensors,
    /// .npz, or the .json index of several safetensors files. Repeat for several.
    #[arg(long, value_name = "FILE", help_heading = "Compiling")]
    pub weights: Vec<PathBuf>,
    /// Compile this signature of a LiteRT model, instead of its first one.
    #[arg(long, value_name = "NAME", help_heading = "Compiling")]
    pub signature: Option<String>,
    #[command(flatten)]
    pub loading: BackendFlags,
}

impl CompileFlags {
    /// Whether there are states.
    pub fn has_states(&self) -> bool {
        self.auto_state || !self.states.is_empty()
    }

    /// The states of the package.
    pub fn state_selection(&self) -> StateSelection {
        match &self.states[..] {
            [] if self.auto_state => StateSelection::Automatic,
            [] => StateSelection::None,
            pairs => StateSelection::Pairs(pairs.to_vec()),
        }
    }
}

/// The sizes at which a package with symbolic dimensions is executed.
#[derive(Args, Clone)]
pub struct BucketFlags {
    /// Execute the model only at these sizes of a symbolic dimension, ascending; libnrt prepares all of them when it
    /// loads the package. Repeat for several dimensions.
    #[arg(long = "bucket", value_name = "NAME=A,B,C", value_parser = bucket, help_heading = "Compiling")]
    pub buckets: Vec<(String, Vec<u64>)>,
    /// Pad an input with this value at the end, up to the next bucket, and cut the outputs: where a
    /// mask excludes the padding, or where it does not change the other results. Repeat for several.
    #[arg(long = "pad", value_name = "INPUT=VALUE", value_parser = padding, requires = "buckets", help_heading = "Compiling")]
    pub paddings: Vec<(String, String)>,
}

/// A node, and the library and symbol of the function that computes it.
pub type CpuNode = (String, (PathBuf, String));

/// The inputs of a run.
#[derive(Args, Clone)]
pub struct InputFlags {
    /// An input's file: .npy, .npz, .bin (raw little-endian), .csv, .json (nested lists, or an object
    /// for a map), .png or .jpg. Without NAME=, the only input that is left; an .npz names its own.
    #[arg(
        long = "input",
        short = 'i',
        value_name = "[NAME=]FILE",
        help_heading = "Inputs"
    )]
    pub inputs: Vec<String>,
    /// Fill inputs that are not given with random numbers from this seed: floats in 0..1,
    /// integers 0 or 1.
    #[arg(long, value_name = "SEED", help_heading = "Inputs")]
    pub random: Option<u64>,
    #[command(flatten)]
    pub pictures: PictureFlags,
}

/// How pictures become tensors.
#[derive(Args, Clone)]
pub struct PictureFlags {
    /// For pictures: subtracted from each value 0..255; one number or one a channel. Without it the
    /// model's own, else 0.
    #[arg(
        long,
        value_name = "M[,M,M]",
        value_delimiter = ',',
        help_heading = "Inputs",
        allow_hyphen_values = true
    )]
    pub mean: Vec<f32>,
    /// For pictures: what the difference is multiplied by; one number or one a channel. Without it
    /// the model's own, else 1.
    #[arg(
        long,
        value_name = "S[,S,S]",
        value_delimiter = ',',
        help_heading = "Inputs",
        allow_hyphen_values = true
    )]
    pub scale: Vec<f32>,
}

/// The size of a dimension on the command line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DimensionSize {
    /// One size.
    Fixed(usize),
    /// All sizes from the first to the last.
    Range(RangeInclusive<u64>),
}

/// The size or range of a dimension.
pub fn dimension(text: &str) -> Result<(String, DimensionSize), String> {
    let (name, size) = text.split_once('=').ok_or("expected NAME=N or NAME=A..B")?;
    let wrong = |text: &str| format!("'{text}' is not a size");
    let size = match size.split_once("..") {
        None => DimensionSize::Fixed(size.parse().map_err(|_| wrong(size))?),
        Some((first, last)) => {
            let last = last.trim_start_matches('=');
            let first = first.parse().map_err(|_| wrong(first))?;
            DimensionSize::Range(first..=last.parse().map_err(|_| wrong(last))?)
        }
    };
    Ok((name.to_owned(), size))
}

fn bucket(text: &str) -> Result<(String, Vec<u64>), String> {
    let (name, sizes) = text.split_once('=').ok_or("expected NAME=A,B,C")?;
    let size = |size: &str| {
        let parsed = size.trim().parse();
        parsed.map_err(|_| format!("'{size}' is not a size"))
    };
    let sizes = sizes.split(',').map(size).collect::<Result<_, _>>()?;
    Ok((name.to_owned(), sizes))
}

fn padding(text: &str) -> Result<(String, String), String> {
    // A name may hold '=', a value does not.
    let (input, value) = text.rsplit_once('=').ok_or("expected INPUT=VALUE")?;
    Ok((input.to_owned(), value.to_owned()))
}

fn cpu_node(text: &str) -> Result<CpuNode, String> {
    let parts = || {
        let (node, rest) = text.split_once('=')?;
        let (library, symbol) = rest.rsplit_once(':')?;
        Some((node.to_owned(), (library.into(), symbol.to_owned())))
    };
    parts().ok_or_else(|| "expected NODE=LIB.so:SYMBOL".into())
}

fn hint(text: &str) -> Result<Hint, String> {
    // A node's name may hold '=', a backend's hardly ever.
    let (pattern, backend) = text.rsplit_once('=').ok_or("expected PATTERN=BACKEND")?;
    Ok(Hint {
        pattern: Pattern::new(pattern),
        backend: BackendId::from(backend.to_owned()),
    })
}

fn precision(text: &str) -> Result<PrecisionRule, String> {
    text.parse()
        .map_err(|error: tenon::Error| error.to_string())
}

fn memory_strategy(name: &str) -> Result<&'static dyn MemoryStrategy, String> {
    tenon::memory_strategy(name).map_err(|error| error.to_string())
}

fn named_file(text: &str) -> Result<(String, PathBuf), String> {
    let (name, file) = text.split_once('=').ok_or("expected NAME=FILE")?;
    Ok((name.to_owned(), file.into()))
}
