//! `hlo_stats.json`: the compiler's statistics of the model (neff 2.11).

use crate::object::object;
use serde_json::Number;

/// The name of the member.
pub const HLO_STATS_JSON: &str = "hlo_stats.json";

object! {
    /// The whole member; -1 marks a statistic that is not available.
    #[derive(Default)]
    #[allow(missing_docs, reason = "the keys of the file")]
    pub struct HloStats {
        pub aliased_output_size: Option<Number> = "AliasedOutputSize",
        pub arithmetic_intensity: Option<Number> = "ArithmeticIntensity",
        pub constant_size: Option<Number> = "ConstantSize",
        pub hlo_input_count: Option<Number> = "HloInputCount",
        pub hlo_mac_count: Option<Number> = "HloMacCount",
        pub hlo_output_count: Option<Number> = "HloOutputCount",
        pub ifmap_size: Option<Number> = "IfmapSize",
        pub ofmap_size: Option<Number> = "OfmapSize",
        pub outputs_read_from_count: Option<Number> = "OutputsReadFromCount",
        pub passthrough_tensors_count: Option<Number> = "PassthroughTensorsCount",
        pub redundant_output_count: Option<Number> = "RedundantOutputCount",
        pub traffic: Option<Number> = "Traffic",
    }
}
