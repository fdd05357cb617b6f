//! Flags of the commands that unpack, pack and verify packages.

use crate::plugin_flags::BackendFlags;
use clap::Args;
use std::path::PathBuf;

/// The size limit of unpacking.
#[derive(Args, Clone)]
pub struct LimitFlags {
    /// Refuse a compressed package that unpacks to more bytes; K, M, G and T may follow the
    /// number. Without it 2G, or 8 times the file where that is more.
    #[arg(long, value_name = "BYTES", value_parser = byte_count)]
    pub max_unpacked: Option<u64>,
}

/// Write the members of a package into a folder, and its header as neff.header.
#[derive(Args)]
#[command(after_help = "\
Examples:
  tenon unpack model.neff                  into the folder model
  tenon unpack model.neff -o parts && ls parts/sg00")]
pub struct Unpack {
    /// The package; - is standard input.
    pub file: PathBuf,
    /// The folder; it must not exist or be empty. Default: the package's name without .neff.
    #[arg(long, short, value_name = "DIR")]
    pub output: Option<PathBuf>,
    #[command(flatten)]
    pub limits: LimitFlags,
}

/// Pack a folder of members into a package.
#[derive(Args)]
#[command(after_help = "\
Examples:
  tenon pack -i parts -o model.neff        a plain package
  tenon pack -i parts -o small.neff -r 2   compressed, for shipping
  tenon pack -i parts -o model.neff -n resnet -k 0.4 -t 1 -e bin-weights")]
pub struct Pack {
    /// The folder.
    #[arg(long, short, value_name = "DIR")]
    pub input: PathBuf,
    /// The package; replaced as a whole or not at all; - is standard output. Default: DIR.neff.
    #[arg(long, short, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// The header version: 1 plain, 2 compressed.
    #[arg(long, short = 'r', value_name = "1|2", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=2))]
    pub header_version: u64,
    /// The NEFF version; without it the folder's own, else 0.4.
    #[arg(long, short = 'k', value_name = "MAJOR.MINOR", value_parser = version)]
    pub neff_version: Option<(u64, u64)>,
    /// The version of the tool that made the members.
    #[arg(long, short = 'v', value_name = "TEXT")]
    pub tool_version: Option<String>,
    /// The name of the network; without it the folder's own, else the folder's name.
    #[arg(long, short, value_name = "NAME")]
    pub name: Option<String>,
    /// The number of cores that it needs.
    #[arg(long, short = 't', value_name = "N")]
    pub num_nc: Option<u32>,
    /// A feature that a loader must know; repeat for several.
    #[arg(long = "feature", short = 'e', value_name = "FEATURE", value_parser = feature)]
    pub features: Vec<tenon::neff::FeatureBits>,
}

/// Write a package without debug members, as a plain archive.
#[derive(Args)]
#[command(
    visible_alias = "optimize",
    after_help = "\
Examples:
  tenon strip model.neff -o small.neff
  tenon strip shipped.neff -o plain.neff --keep-debug   only unpack the payload"
)]
pub struct Strip {
    /// The package; - is standard input.
    pub file: PathBuf,
    /// The new package; replaced as a whole or not at all; - is standard output.
    #[arg(long, short, value_name = "FILE")]
    pub output: PathBuf,
    /// Keep the members for debuggers.
    #[arg(long)]
    pub keep_debug: bool,
    #[command(flatten)]
    pub limits: LimitFlags,
}

/// Verify a package against every rule, and whether it can be loaded here. All findings are printed,
/// each with its location.
#[derive(Args)]
#[command(after_help = "\
Examples:
  tenon verify model.neff
  tenon verify model.neff --hash --json
  tenon verify other.neff --arch trn2
  tenon verify --rules                     the rules

Exit status: 0 no errors, 1 errors, 2 wrong usage.")]
pub struct Verify {
    /// The package; - is standard input.
    #[arg(required_unless_present = "rules")]
    pub file: Option<PathBuf>,
    /// Check for this device generation; without it the package's own.
    #[arg(long, value_name = "inf1|trn1|trn2|trn3")]
    pub arch: Option<tenon::neff::Architecture>,
    /// Compare the header's hash too.
    #[arg(long)]
    pub hash: bool,
    /// Do not compare the digests of members.
    #[arg(long)]
    pub no_digests: bool,
    /// List the rules.
    #[arg(long, conflicts_with = "file")]
    pub rules: bool,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub limits: LimitFlags,
    #[command(flatten)]
    pub backends: BackendFlags,
}

/// Show the differences between two packages.
#[derive(Args)]
#[command(after_help = "\
Examples:
  tenon diff old.neff new.neff
  tenon diff old.neff new.neff --json

Exit status: 0 nothing differs, 1 something does or a package cannot be read, 2 wrong usage.")]
pub struct Diff {
    /// The one; - is standard input.
    pub a: PathBuf,
    /// The other; - is standard input.
    pub b: PathBuf,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub limits: LimitFlags,
}

/// List the members of a package.
#[derive(Args)]
#[command(after_help = "Examples:\n  tenon ls model.neff\n  tenon ls model.neff --json")]
pub struct Ls {
    /// The package; - is standard input.
    pub file: PathBuf,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub limits: LimitFlags,
}

/// Print one member of a package as it is.
#[derive(Args)]
#[command(after_help = "\
Examples:
  tenon cat model.neff neff.json
  tenon cat model.neff sg00/def.json | jq .var")]
pub struct Cat {
    /// The package; - is standard input.
    pub file: PathBuf,
    /// The member, as `tenon ls` names it.
    pub member: String,
    #[command(flatten)]
    pub limits: LimitFlags,
}

/// Show the DMA descriptors of a package as a table, or run them on given variables.
#[derive(Args)]
#[command(after_help = "\
Examples:
  tenon dma model.neff
  tenon dma model.neff --engine act --json
  tenon dma model.neff --run --variables in.npz --output out.npz
  tenon dma model.neff --run --engine act

With --run every transfer is triggered once, engine by engine in the order of its list. Arrays \
of --variables are taken as bytes, by the variable's name or CORE/NAME; variables \
that are not given are zero, constants have their data. The output has each variable as bytes, CORE/NAME.")]
pub struct Dma {
    /// The package; - is standard input.
    pub file: PathBuf,
    /// Only those of these engines: pe, act, pool, dve, sp.
    #[arg(long, value_name = "A,B", value_delimiter = ',')]
    pub engine: Vec<String>,
    /// Run them.
    #[arg(long)]
    pub run: bool,
    /// Contents of variables.
    #[arg(long, value_name = "FILE.npz", requires = "run")]
    pub variables: Option<PathBuf>,
    /// Where all variables go after the run; - is standard output.
    #[arg(long, short, value_name = "FILE.npz", requires = "run")]
    pub output: Option<PathBuf>,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub limits: LimitFlags,
}

/// A number of bytes with a unit.
pub fn byte_count(text: &str) -> Result<u64, String> {
    let split = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    let number: u64 = number
        .parse()
        .map_err(|_| format!("'{text}' is not a byte count"))?;
    let unit: u64 = match unit.to_ascii_uppercase().trim_end_matches(['B', 'I']) {
        "" => 1,
        "K" => 1 << 10,
        "M" => 1 << 20,
        "G" => 1 << 30,
        "T" => 1 << 40,
        _ => return Err(format!("'{unit}' is no unit: K, M, G or T")),
    };
    number
        .checked_mul(unit)
        .ok_or_else(|| format!("'{text}' is too large"))
}

fn version(text: &str) -> Result<(u64, u64), String> {
    let (major, minor) = text.split_once('.').ok_or("expected MAJOR.MINOR")?;
    let number = |text: &str| {
        text.parse()
            .map_err(|_| format!("'{text}' is not a number"))
    };
    Ok((number(major)?, number(minor)?))
}

fn feature(text: &str) -> Result<tenon::neff::FeatureBits, String> {
    tenon::neff::FeatureBits::named(text).ok_or_else(|| {
        format!(
            "'{text}' is no feature: bin-weights, collectives-offset, custom-ops or coalesced-cc"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn byte_counts_have_units() {
        assert_eq!(byte_count("16G"), Ok(16 << 30));
        assert_eq!(byte_count("1KiB"), Ok(1024));
        assert_eq!(byte_count("7"), Ok(7));
        assert!(byte_count("x").is_err());
        assert!(byte_count("99999999999T").is_err());
    }

    #[test]
    fn versions_have_a_major_and_a_minor_part() {
        assert_eq!(version("2.0"), Ok((2, 0)));
        assert!(version("2").is_err());
    }
}
