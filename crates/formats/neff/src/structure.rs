//! The JSON members of a package of any compiler as typed values, found by following the member
//! names in them.

use crate::finding::{Finding, Findings};
use crate::prune::Prune;
use crate::{
    ActInfo, Definition, Engine, EngineName, HLO_STATS_JSON, HloStats, INFO_JSON, Info, Kelf,
    KeyPath, NEFF_JSON, NeffGraph, Package, TensorMap, member, rule,
};
use serde::de::DeserializeOwned;
use std::collections::HashSet;
use tenon_base::Result;

/// The JSON members of a package.
#[derive(Debug, Clone, Default)]
pub struct Structure {
    /// `neff.json`.
    pub graph: Option<NeffGraph>,
    /// `info.json`.
    pub info: Option<Info>,
    /// `hlo_stats.json`.
    pub stats: Option<HloStats>,
    /// The kelfs that the graph's nodes run.
    pub kelfs: Vec<KelfMember>,
    /// Their subgraphs.
    pub subgraphs: Vec<Subgraph>,
}

/// A kelf and its member.
#[derive(Debug, Clone)]
pub struct KelfMember {
    /// The member.
    pub member: String,
    /// Its node's position in the graph.
    pub node: usize,
    /// Its content.
    pub kelf: Kelf,
}

/// A subgraph.
#[derive(Debug, Clone)]
pub struct Subgraph {
    /// Its name.
    pub name: String,
    /// The position of its kelf in [`Structure::kelfs`].
    pub kelf: usize,
    /// The member of its definition.
    pub member: String,
    /// Its definition.
    pub definition: Definition,
    /// Its engines.
    pub engines: Vec<EngineParts>,
    /// Its `tensor_map.json`.
    pub tensor_map: Option<TensorMap>,
    /// The activation engine's table of sets.
    pub act_info: Option<ActInfo>,
}

/// An engine of a subgraph.
#[derive(Debug, Clone)]
pub struct EngineParts {
    /// Which engine.
    pub name: EngineName,
    /// The member of its description.
    pub member: Option<String>,
    /// Its description.
    pub engine: Option<Engine>,
    /// The member of its program.
    pub program: Option<String>,
}

impl Subgraph {
    /// The folder of its members, with a slash at the end when it is not the top.
    pub fn folder(&self) -> &str {
        self.member
            .rfind('/')
            .map_or("", |end| &self.member[..=end])
    }

    /// The member of a name in its JSON.
    pub fn file(&self, name: &str) -> String {
        member_of(self.folder(), name)
    }
}

/// The member that `name` denotes in the JSON of `folder` (with its slash); one leading `../` is
/// resolved.
pub(crate) fn member_of(folder: &str, name: &str) -> String {
    match name.strip_prefix("../") {
        None => format!("{folder}{name}"),
        Some(rest) => {
            let outer = folder.trim_end_matches('/').rfind('/');
            format!("{}{rest}", outer.map_or("", |end| &folder[..=end]))
        }
    }
}

impl Structure {
    /// Reads all JSON members that a runtime reads. All problems are reported together.
    pub fn read(package: &Package) -> Result<Self> {
        let (structure, findings) = Self::read_lenient(package);
        match findings.error() {
            Some(error) => Err(package.locate(error)),
            None => Ok(structure),
        }
    }

    /// Reads the valid parts and reports the others as findings.
    pub fn read_lenient(package: &Package) -> (Self, Findings) {
        let mut reader = Reader {
            package,
            findings: Findings::with_limit(usize::MAX),
        };
        let structure = reader.structure();
        (structure, reader.findings)
    }
}

struct Reader<'a> {
    package: &'a Package,
    findings: Findings,
}

impl Reader<'_> {
    fn structure(&mut self) -> Structure {
        let mut structure = Structure {
            graph: self.required(NEFF_JSON, None),
            info: self.optional(INFO_JSON),
            stats: self.optional(HLO_STATS_JSON),
            ..Structure::default()
        };
        let nodes = structure
            .graph
            .iter()
            .flat_map(|graph| graph.nodes.iter().enumerate());
        let kelfs: Vec<(usize, String)> = nodes
            .filter_map(|(node, it)| Some((node, it.kelf()?.to_owned())))
            .collect();
        // A member that is named many times is read once: reading is bounded by the file's size.
        let mut read = HashSet::new();
        for (node, member) in kelfs {
            if !read.insert(member.clone()) {
                continue;
            }
            let path = KeyPath::default()
                .key("nodes")
                .index(node)
                .key("attrs")
                .key("kelf");
            if let Some(kelf) = self.required(&member, Some((NEFF_JSON, path))) {
                structure.kelfs.push(KelfMember { member, node, kelf });
            }
        }
        for (position, named) in structure.kelfs.iter().enumerate() {
            for (index, graph) in named.kelf.graphs.iter().enumerate() {
                let path = KeyPath::default()
                    .key("graphs")
                    .index(index)
                    .key("definition");
                if !read.insert(graph.definition.to_string()) {
                    let detail = format!("found '{}' twice", graph.definition);
                    let finding = Finding::new(&rule::KELF_GRAPHS, detail);
                    self.findings.add(finding.member(&named.member).path(path));
                    continue;
                }
                let reference = Some((named.member.as_str(), path));
                let Some(definition) = self.required(&graph.definition, reference) else {
                    continue;
                };
                structure.subgraphs.push(Subgraph {
                    name: graph.name.to_string(),
                    kelf: position,
                    member: graph.definition.to_string(),
                    definition,
                    engines: Vec::new(),
                    tensor_map: None,
                    act_info: None,
                });
            }
        }
        for subgraph in &mut structure.subgraphs {
            self.fill(subgraph);
        }
        structure
    }

    fn fill(&mut self, subgraph: &mut Subgraph) {
        for name in EngineName::ALL {
            let Some(files) = subgraph.definition.engine(name) else {
                continue;
            };
            let member = files.description.map(|file| subgraph.file(file));
            let program = files.program.map(|file| subgraph.file(file));
            let key = KeyPath::default().key(name.key());
            let engine = member.as_ref().and_then(|member| {
                let reference = Some((subgraph.member.as_str(), key));
                self.required_by(member, reference, Engine::from_slice)
            });
            let info = engine
                .as_ref()
                .and_then(|engine| engine.act_info.as_deref());
            if let (Some(info), Some(member)) = (info, &member) {
                let reference = Some((member.as_str(), KeyPath::default().key("act_info")));
                subgraph.act_info = self.required(&subgraph.file(info), reference);
            }
            subgraph.engines.push(EngineParts {
                name,
                member,
                engine,
                program,
            });
        }
        subgraph.tensor_map = self.optional(&subgraph.file("tensor_map.json"));
    }

    fn optional<T: Prune + DeserializeOwned>(&mut self, name: &str) -> Option<T> {
        member::read(self.package, name, &mut self.findings)
    }

    /// A required member; `reference` is the place that names it.
    fn required<T: Prune + DeserializeOwned>(
        &mut self,
        name: &str,
        reference: Option<(&str, KeyPath)>,
    ) -> Option<T> {
        self.required_by(name, reference, |bytes| serde_json::from_slice(bytes))
    }

    fn required_by<T: Prune + DeserializeOwned>(
        &mut self,
        name: &str,
        reference: Option<(&str, KeyPath)>,
        parse: impl FnOnce(&[u8]) -> serde_json::Result<T>,
    ) -> Option<T> {
        if self.package.member(name).is_none() {
            let finding = Finding::new(&rule::MEMBER_MISSING, format!("'{name}'"));
            self.findings.add(match reference {
                Some((member, path)) => finding.member(member).path(path),
                None => finding.member(name),
            });
            return None;
        }
        member::read_by(self.package, name, &mut self.findings, parse)
    }
}
