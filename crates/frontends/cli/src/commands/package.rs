//! `tenon unpack`, `pack`, `strip`, `verify`, `diff`, `ls` and `cat`

use super::load::{backends, runtime};
use super::rules::{self, ListedRule};
use crate::output::{self, say};
use crate::package_flags::{Cat, Diff, LimitFlags, Ls, Pack, Strip, Unpack, Verify};
use crate::progress;
use crate::table::{Table, bytes};
use serde_json::{Value, json};
use std::path::Path;
use std::process::ExitCode;
use tenon::files::write_through;
use tenon::inspect::{PackageCheck, verify_opened};
use tenon::neff::{self, Limits, PackOptions, Package, Rule, Severity, VerifyOptions};
use tenon::{Control, Error, ErrorKind, Location, OpenOptions, Result};

impl LimitFlags {
    /// The limits of opening a package.
    pub fn limits(&self) -> Limits {
        self.max_unpacked
            .map_or(Limits::default(), Limits::of_bytes)
    }
}

/// Opens a package.
pub fn open(file: &Path, limits: &LimitFlags, control: &Control) -> Result<Package> {
    let options = OpenOptions::new().limits(limits.limits());
    options.control(control.clone()).open_package(file)
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
    output::folder(&folder)?;
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
    output::reserve(&output, false)?;
    let control = progress::control();
    let header = write_through(&output, |output| {
        neff::pack(&flags.input, output, &options, &control)
    })?;
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
    output::reserve(&flags.output, false)?;
    let stripped = write_through(&flags.output, |output| {
        neff::strip(&package, output, flags.keep_debug, &control)
    })?;
    let gone: usize = stripped.removed.iter().map(|(_, size)| size).sum();
    let size = stripped.header.header_size + stripped.header.data_size;
    say!(
        "{}: {}; {} left out, {}",
        flags.output.display(),
        bytes(size),
        output::count(stripped.removed.len(), "member"),
        bytes(gone as u64)
    )
}

pub fn verify(flags: &Verify) -> Result<ExitCode> {
    let Some(file) = &flags.file else {
        rules::print(Rule::ALL.iter().map(|rule| listed(rule)), flags.json)?;
        return Ok(ExitCode::SUCCESS);
    };
    let options = VerifyOptions {
        architecture: flags.arch,
        hash: flags.hash,
        digests: !flags.no_digests,
        limits: flags.limits.limits(),
        ..VerifyOptions::default()
    };
    let runtime = runtime(backends(&flags.backends)?, &flags.backends);
    let control = progress::control();
    let opened = open(file, &flags.limits, &control);
    let check = PackageCheck::new()
        .rules(options)
        .runtime(runtime)
        .control(control);
    let findings = verify_opened(opened, &check)?;
    let (errors, warnings) = (
        findings.count(Severity::Error),
        findings.count(Severity::Warning),
    );
    if flags.json {
        output::json(json!({"file": file, "errors": errors, "warnings": warnings,
                   "findings": findings.list, "left_out": findings.left_out}))?;
    } else {
        for finding in &findings.list {
            output::finding(finding.severity(), finding)?;
        }
        if findings.left_out > 0 {
            say!("… and {} more", findings.left_out)?;
        }
        say!(
            "{}: {}, {}",
            file.display(),
            output::count(errors, "error"),
            output::count(warnings, "warning")
        )?;
    }
    Ok(if findings.is_good() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

fn listed(rule: &Rule) -> ListedRule {
    ListedRule {
        id: rule.id,
        severity: rule.severity.to_string(),
        sentence: rule.sentence,
        source: rule.source,
    }
}

pub fn diff(flags: &Diff) -> Result<ExitCode> {
    let control = progress::control();
    let a = open(&flags.a, &flags.limits, &control)?;
    let b = open(&flags.b, &flags.limits, &control)?;
    let diff = neff::diff(&a, &b, &control)?;
    if flags.json {
        output::json(json!(diff))?;
    } else if !diff.is_empty() {
        output::changes(&diff.to_string())?;
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
        return output::json(Value::from_iter(package.members().map(member)));
    }
    let mut table = Table::of_counts();
    for (name, size) in package.members() {
        table.row([size.to_string(), name.to_owned()]);
    }
    table.lines().iter().try_for_each(|line| say!("{line}"))
}

pub fn cat(flags: &Cat) -> Result<()> {
    let package = open(&flags.file, &flags.limits, &progress::control())?;
    output::bytes(&package.require(&flags.member)?)
}
