//! `verify`: checks every rule of a package and reports all findings together.

mod constants;
mod container;
mod definition;
mod descriptor;
mod digests;
mod engine;
mod graph;

pub use container::open_failure;

use crate::finding::{Finding, Findings};
use crate::structure::Subgraph;
use crate::{KeyPath, Limits, NodeGraph, Package, Structure, locate};
use foldhash::{HashMap, HashMapExt};
use std::fmt;
use std::path::Path;
use std::str::FromStr;
use tenon_base::{Control, Error, ErrorKind, Result};

/// The device generations that rules depend on, in their order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[allow(missing_docs, reason = "product names")]
pub enum Architecture {
    Inf1,
    Trn1,
    Trn2,
    Trn3,
}

impl Architecture {
    /// Known names, those of kelf files among them (neff 2.2).
    const NAMES: [(&'static str, Architecture); 6] = [
        ("inf1", Architecture::Inf1),
        ("trn1", Architecture::Trn1),
        ("inf2", Architecture::Trn1),
        ("trn2", Architecture::Trn2),
        ("cayman", Architecture::Trn2),
        ("trn3", Architecture::Trn3),
    ];
}

impl FromStr for Architecture {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        let found = Self::NAMES.iter().find(|(known, _)| *known == name);
        found.map(|&(_, architecture)| architecture).ok_or_else(|| {
            let error = Error::new(ErrorKind::InvalidArgument, "an unknown device generation");
            error.expected("inf1, inf2, trn1, trn2 or trn3").found(name)
        })
    }
}

impl fmt::Display for Architecture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Architecture::Inf1 => "inf1",
            Architecture::Trn1 => "trn1",
            Architecture::Trn2 => "trn2",
            Architecture::Trn3 => "trn3",
        })
    }
}

/// Options of a verification.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VerifyOptions {
    /// The device generation; the kelf's when none is given. Rules that depend on it are skipped
    /// when neither is known.
    pub architecture: Option<Architecture>,
    /// Whether to compare the header's hash, which reads the payload on one core.
    pub hash: bool,
    /// Whether to compare the digests of all members, where the package has them; on all cores.
    pub digests: bool,
    /// The number of findings that are kept; further ones are counted.
    pub findings: usize,
    /// Limits of opening a file.
    pub limits: Limits,
}

impl Default for VerifyOptions {
    /// Structure and digests, 10 000 findings.
    fn default() -> Self {
        Self {
            architecture: None,
            hash: false,
            digests: true,
            findings: 10_000,
            limits: Limits::default(),
        }
    }
}

/// Checks a file. A reason why it does not open is a finding as well; errors are a file that cannot
/// be read, and cancellation.
pub fn verify_file(
    path: impl AsRef<Path>,
    options: &VerifyOptions,
    control: &Control,
) -> Result<Findings> {
    match Package::open_with(path, &options.limits, control) {
        Ok(package) => verify(&package, options, control),
        Err(error) => container::open_failure(error, options),
    }
}

/// Checks an open package.
///
/// ```
/// use tenon_base::Control;
/// use tenon_neff::{Header, Limits, Package, PackageWriter, VerifyOptions, verify};
/// use tenon_tensor::BufferMut;
/// let writer = PackageWriter::in_memory(Header::tenon("empty", 1))?;
/// let (bytes, _) = writer.finish()?;
/// let bytes = BufferMut::copy_of(&bytes)?.freeze();
/// let package = Package::from_buffer(bytes, &Limits::default(), &Control::new())?;
/// let findings = verify(&package, &VerifyOptions::default(), &Control::new())?;
/// assert_eq!(findings.list[0].rule.id, "member.missing");
/// # Ok::<(), tenon_base::Error>(())
/// ```
pub fn verify(package: &Package, options: &VerifyOptions, control: &Control) -> Result<Findings> {
    let (structure, read) = Structure::read_lenient(package);
    let mut check = Check {
        package,
        options,
        control,
        structure: &structure,
        findings: Findings::with_limit(options.findings),
    };
    container::header(&mut check)?;
    container::folders(&mut check);
    read.list
        .into_iter()
        .for_each(|finding| check.findings.add(finding));
    graph::graph(&mut check);
    graph::kelfs(&mut check);
    for subgraph in &structure.subgraphs {
        let mut part = Part::new(&structure, subgraph, options);
        definition::definition(&mut check, &part);
        for (index, engine) in subgraph.engines.iter().enumerate() {
            part.engine = index;
            engine::engine(&mut check, &part, engine)?;
        }
        constants::constants(&mut check, &part)?;
        definition::tensor_map(&mut check, &part);
    }
    if options.digests {
        digests::digests(&mut check)?;
    }
    let mut findings = check.findings;
    if package.header().is_tenon() && findings.is_good() {
        container::contents(NodeGraph::read(package), &mut findings);
    }
    add_offsets(package, &mut findings);
    free(structure);
    Ok(findings)
}

/// Frees a structure, a large one in a background thread: freeing a million descriptors takes 0.4 s,
/// almost as long as checking them.
fn free(structure: Structure) {
    let engines = structure
        .subgraphs
        .iter()
        .flat_map(|subgraph| &subgraph.engines);
    let lists = engines.flat_map(|parts| &parts.engine);
    if lists.map(|engine| engine.dma.len()).sum::<usize>() > engine::STEP {
        // If no thread can be started, `spawn` frees it in this one.
        let _ = std::thread::Builder::new().spawn(move || drop(structure));
    }
}

/// The state of a verification.
struct Check<'a> {
    package: &'a Package,
    options: &'a VerifyOptions,
    control: &'a Control,
    structure: &'a Structure,
    findings: Findings,
}

impl Check<'_> {
    /// The state of a part that is checked concurrently with others; its findings are added later.
    fn part(&self) -> Check<'_> {
        Check {
            findings: Findings::with_limit(self.options.findings),
            ..*self
        }
    }

    /// Reports a violated rule in a JSON member; its offset is added at the end.
    fn report(
        &mut self,
        rule: &'static crate::Rule,
        member: &str,
        path: KeyPath,
        detail: impl Into<String>,
    ) {
        self.findings
            .add(Finding::new(rule, detail).member(member).path(path));
    }
}

/// A subgraph under verification, with tables of its names.
struct Part<'a> {
    subgraph: &'a Subgraph,
    architecture: Option<Architecture>,
    /// The engine under verification, as an index into those of the subgraph.
    engine: usize,
    /// Position in `var` and size of each variable; `u64::MAX` where it has no size.
    variables: HashMap<&'a str, (u32, u64)>,
    /// The sizes by position.
    sizes: Vec<u64>,
}

impl<'a> Part<'a> {
    fn new(structure: &Structure, subgraph: &'a Subgraph, options: &VerifyOptions) -> Self {
        let kelf = structure.kelfs.get(subgraph.kelf);
        let target = kelf.and_then(|named| named.kelf.target.as_deref());
        let declared = target.and_then(|target| target.parse().ok());
        let variables = subgraph.definition.var.iter();
        let sizes: Vec<u64> = variables
            .map(|(_, it)| it.size.unwrap_or(u64::MAX))
            .collect();
        let names = subgraph.definition.var.iter().zip(&sizes).enumerate();
        let variables = names
            .map(|(at, ((name, _), &size))| (name, (at as u32, size)))
            .collect();
        Self {
            subgraph,
            architecture: options.architecture.or(declared),
            engine: 0,
            variables,
            sizes,
        }
    }

    fn is_inf1(&self) -> bool {
        self.architecture == Some(Architecture::Inf1)
    }
}

/// Adds the byte offsets of the findings, in one pass over each member.
fn add_offsets(package: &Package, findings: &mut Findings) {
    let mut by_member: HashMap<String, Vec<usize>> = HashMap::new();
    for (position, finding) in findings.list.iter().enumerate() {
        if let (Some(member), None) = (&finding.member, finding.offset)
            && !finding.path.is_empty()
        {
            by_member.entry(member.clone()).or_default().push(position);
        }
    }
    for (member, positions) in by_member {
        let Some(text) = package.member(&member) else {
            continue;
        };
        let paths = positions
            .iter()
            .map(|&position| &findings.list[position].path);
        let offsets = locate::offsets(&text, paths);
        for (position, offset) in positions.into_iter().zip(offsets) {
            findings.list[position].offset = offset;
        }
    }
}

#[cfg(test)]
mod tests;
