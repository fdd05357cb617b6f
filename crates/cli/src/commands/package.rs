//! `tenon unpack`, `pack`, `strip`, `verify`, `diff`, `ls` and `cat`

use super::load::{backends, runtime};
use crate::output::{self, say};
use crate::package_flags::{Cat, Diff, LimitFlags, Ls, Pack, Strip, Unpack, Verify};
use crate::progress;
use crate::table::{Table, bytes};
use serde_json::{Value, json};
use std::path::Path;
use std::process::ExitCode;
use tenon::neff::{self, Limits, PackOptions, Package, Rule, Severity, VerifyOptions};
use tenon::{Control, Error, ErrorKind, Location, Result};

impl LimitFlags {
    /// What opening accepts.
    pub fn limits(&self) -> Limits {
        Limits {
            unpacked_bytes: self.max_unpacked,
        }
    }
}

/// Opens a package.
pub fn open(file: &Path, limits: &LimitFlags, control: &Control) -> Result<Package> {
    Package::open_with(file, &limits.limits(), control)
}

pub fn unpack(flags: &Unpack) -> Result<()> {
    let control = progress::control();
    let package = open(&flags.file, &flags.limits, &control)?;
    let folder = flags
        .output
        .clone()
        .unwrap_or_else(|| flags.file.with_extension(""));
    if folder == flags.file {
        let error = Error::new(
            ErrorKind::Usage,
            "the folder would have the package's own name",
        );
        return Err(error
            .help("name a folder with --output")
            .at(Location::file(&folder)));
    }
    say!("Unpacking NEFF in \"{}\" directory...", folder.display())?;
    package.unpack(&folder, &control)
}

pub fn pack(flags: &Pack) -> Result<()> {
    let output = flags
        .output
        .clone()
        .unwrap_or_else(|| flags.input.with_extension("neff"));
    let features = flags.features.iter().copied().reduce(|all, one| all | one);
    let options = PackOptions {
        pkg_version: Some(flags.header_version),
        version: flags.neff_version,
        build_version: flags.tool_version.clone(),
        name: flags.name.clone(),
        num_tpb: flags.num_nc,
        feature_bits: features,
    };
    let header = neff::pack(&flags.input, &output, &options, &progress::control())?;
    let size = header.header_size + header.data_size;
    say!(
        "{}: {}, pkg_version {}",
        output.display(),
        bytes(size),
        header.pkg_version
    )
}

pub fn strip(flags: &Strip) -> Result<()> {
    let control = progress::control();
    let package = open(&flags.file, &flags.limits, &control)?;
    let stripped = neff::strip(&package, &flags.output, flags.keep_debug, &control)?;
    let gone: usize = stripped.removed.iter().map(|(_, size)| size).sum();
    let size = stripped.header.header_size + stripped.header.data_size;
    say!(
        "{}: {}; {} members left out, {}",
        flags.output.display(),
        bytes(size),
        stripped.removed.len(),
        bytes(gone as u64)
    )
}

pub fn verify(flags: &Verify) -> Result<ExitCode> {
    let Some(file) = &flags.file else {
        return rules(flags.json);
    };
    let options = VerifyOptions {
        architecture: flags.arch,
        hash: flags.hash,
        digests: !flags.no_digests,
        limits: flags.limits.limits(),
        ..VerifyOptions::default()
    };
    let runtime = runtime(backends(&flags.backends)?, &flags.backends);
    let findings = tenon::verify_file(file, &runtime, &options, &progress::control())?;
    let (errors, warnings) = (
        findings.count(Severity::Error),
        findings.count(Severity::Warning),
    );
    if flags.json {
        say!(
            "{}",
            json!({"file": file, "errors": errors, "warnings": warnings,
                   "findings": findings.list, "left_out": findings.left_out})
        )?;
    } else {
        for finding in &findings.list {
            say!(
                "{}",
                output::severity(finding.severity(), &finding.to_string())
            )?;
        }
        if findings.left_out > 0 {
            say!("… and {} more", findings.left_out)?;
        }
        say!("{}: {errors} errors, {warnings} warnings", file.display())?;
    }
    Ok(if findings.is_good() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

fn rules(as_json: bool) -> Result<ExitCode> {
    if as_json {
        let rule = |rule: &&Rule| {
            json!({"id": rule.id, "severity": rule.severity.to_string(),
                   "rule": rule.sentence, "source": rule.source})
        };
        say!("{}", Value::from_iter(Rule::ALL.iter().map(rule)))?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut table = Table::new(&["id", "severity", "rule"]);
    for rule in Rule::ALL {
        table.row([
            rule.id.into(),
            rule.severity.to_string(),
            rule.sentence.into(),
        ]);
    }
    say!("{table}")?;
    Ok(ExitCode::SUCCESS)
}

pub fn diff(flags: &Diff) -> Result<ExitCode> {
    let control = progress::control();
    let a = open(&flags.a, &flags.limits, &control)?;
    let b = open(&flags.b, &flags.limits, &control)?;
    let diff = neff::diff(&a, &b, &control)?;
    if flags.json {
        say!("{}", json!(diff))?;
    } else if !diff.is_empty() {
        output::bytes(output::changes(&diff.to_string()).as_bytes())?;
    }
    Ok(if diff.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

pub fn ls(flags: &Ls) -> Result<()> {
    let package = open(&flags.file, &flags.limits, &progress::control())?;
    if flags.json {
        let member = |(name, size): (&str, usize)| json!({"name": name, "bytes": size});
        return say!("{}", Value::from_iter(package.members().map(member)));
    }
    let width = package
        .members()
        .map(|(_, size)| size.to_string().len())
        .max()
        .unwrap_or(0);
    package
        .members()
        .try_for_each(|(name, size)| say!("{size:>width$}  {name}"))
}

pub fn cat(flags: &Cat) -> Result<()> {
    let package = open(&flags.file, &flags.limits, &progress::control())?;
    output::bytes(&package.require(&flags.member)?)
}
