//! `kelf-N.json`, the list of subgraphs of a node, and `info.json`, the origin of the package.

use crate::Name;
use crate::object::object;

/// The name of the information member.
pub const INFO_JSON: &str = "info.json";

object! {
    /// The subgraphs of a node.
    #[derive(Default)]
    pub struct Kelf {
        /// One for each physical core.
        pub graphs: Vec<KelfGraph> = "graphs",
        /// The version of this member's format.
        pub version: Option<Name> = "version",
        /// The device generation; `tenon` in packages of Tenon.
        pub target: Option<Name> = "target",
    }
}

object! {
    /// One subgraph.
    #[derive(Default)]
    pub struct KelfGraph {
        /// The member that defines it.
        pub definition: Name = "definition",
        /// Its name.
        pub name: Name = "name",
    }
}

object! {
    /// The origin of the package.
    #[derive(Default)]
    pub struct Info {
        /// The tool and its version.
        pub tool_version: Option<Name> = "tool_version",
        /// The version of the subgraphs' format.
        pub kelp_version: Option<Name> = "kelp_version",
        /// The package's name.
        pub name: Option<Name> = "name",
        /// Cores it needs.
        pub num_tpb: Option<u32> = "num_tpb",
        /// Cores requested when compiling.
        pub num_tpb_requested: Option<u32> = "num_tpb_requested",
        /// Cores of each node.
        pub num_tpb_per_node: Option<Vec<u32>> = "num_tpb_per_node",
    }
}

impl Info {
    /// The member of a package of one core that Tenon writes.
    pub fn tenon(name: &str) -> Self {
        let mut per_node = vec![0; 64];
        per_node[0] = 1;
        Self {
            tool_version: Some(concat!("tenon ", env!("CARGO_PKG_VERSION")).into()),
            name: Some(name.into()),
            num_tpb: Some(1),
            num_tpb_requested: Some(1),
            num_tpb_per_node: Some(per_node),
            ..Self::default()
        }
    }
}
