//! `kelf-N.json`, the list of subgraphs of a node, and `info.json`, what made the package.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// The name of the information member.
pub const INFO_JSON: &str = "info.json";

/// The subgraphs of a node.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Kelf {
    /// One a physical core.
    pub graphs: Vec<KelfGraph>,
    /// The version of this member's form.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// What it runs on; `tenon` for ours.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
    /// Keys unknown here.
    #[serde(flatten)]
    pub other: Map<String, Value>,
}

/// One subgraph.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct KelfGraph {
    /// The member that defines it.
    pub definition: String,
    /// Its name.
    pub name: String,
    /// Keys unknown here.
    #[serde(flatten)]
    pub other: Map<String, Value>,
}

/// What made the package.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Info {
    /// The tool and its version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_version: Option<String>,
    /// The package's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Cores it needs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub num_tpb: Option<u32>,
    /// Cores asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub num_tpb_requested: Option<u32>,
    /// Cores of each node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub num_tpb_per_node: Option<Vec<u32>>,
    /// Keys unknown here.
    #[serde(flatten)]
    pub other: Map<String, Value>,
}

impl Info {
    /// That of a package of one core that Tenon writes.
    pub fn tenon(name: &str) -> Self {
        let mut per_node = vec![0; 64];
        per_node[0] = 1;
        Self {
            tool_version: Some(concat!("tenon ", env!("CARGO_PKG_VERSION")).to_owned()),
            name: Some(name.to_owned()),
            num_tpb: Some(1),
            num_tpb_requested: Some(1),
            num_tpb_per_node: Some(per_node),
            other: Map::new(),
        }
    }
}
