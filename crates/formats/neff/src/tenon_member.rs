//! `sg00/tenon.json`: Tenon's data in addition to NEFF's members (docs/package.md).

use crate::extent::{Extent, PortShape};
use crate::json::{cpu_level, dtype, optional_variable, variable};
use crate::{BucketInfo, PaddingInfo, PlacementReport};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use tenon_base::{CpuLevel, Error, Result};
use tenon_dma::VariableId;
use tenon_tensor::DataType;
use tenon_tensor::size::{Symbol, Symbols};

/// The newest `format` that this build reads: that of packages with buckets.
pub const TENON_FORMAT: u32 = 3;

/// The `format` of packages with symbols and without buckets.
const SYMBOLIC_FORMAT: u32 = 2;

/// The `format` of packages without symbols.
const FIXED_FORMAT: u32 = 1;

/// The whole member. Keys of later versions are ignored.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TenonMember {
    /// 1, 2 if there are symbols, or 3 if they have buckets.
    pub format: u32,
    /// The version of Tenon that wrote it, `X.Y.Z`.
    pub tenon_version: String,
    /// The model.
    pub model: ModelInfo,
    /// The CPU level that prepared constants may require.
    #[serde(with = "cpu_level")]
    pub cpu: CpuLevel,
    /// The device that a backend compiled for, by backend; backends that state none are absent.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub targets: BTreeMap<String, String>,
    /// The dimensions of the inputs that are known only when the model runs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub symbols: Vec<SymbolInfo>,
    /// The sizes of symbols for which there are instances.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub buckets: Vec<BucketInfo>,
    /// The inputs that are padded up to the size of a bucket.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub paddings: Vec<PaddingInfo>,
    /// The model's inputs, in its order.
    pub inputs: Vec<Port>,
    /// The model's outputs, in its order.
    pub outputs: Vec<Port>,
    /// Outputs that are inputs of the next execution, as declared when compiling.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub states: Vec<StateInfo>,
    /// The type of every variable that a workload names as an input or output, views included.
    #[serde(default)]
    pub variables: Vec<VariableInfo>,
    /// Variables of integers that are known once the symbols have values.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sizes: Vec<SizesInfo>,
    /// The constants.
    pub constants: Vec<ConstantInfo>,
    /// The placement report.
    pub placement: PlacementReport,
    /// The memory plan.
    pub plan: MemoryPlan,
    /// The costs of the executed nodes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub costs: Vec<NodeCost>,
}

impl TenonMember {
    /// An empty member of this version.
    pub fn new(model: ModelInfo) -> Self {
        Self {
            format: FIXED_FORMAT,
            tenon_version: env!("CARGO_PKG_VERSION").to_owned(),
            model,
            cpu: CpuLevel::Baseline,
            targets: BTreeMap::new(),
            symbols: Vec::new(),
            buckets: Vec::new(),
            paddings: Vec::new(),
            inputs: Vec::new(),
            outputs: Vec::new(),
            states: Vec::new(),
            variables: Vec::new(),
            sizes: Vec::new(),
            constants: Vec::new(),
            placement: PlacementReport::default(),
            plan: MemoryPlan::default(),
            costs: Vec::new(),
        }
    }
}

impl TenonMember {
    /// Makes the package one with symbols.
    pub fn set_symbols(&mut self, symbols: &Symbols) {
        self.symbols = SymbolInfo::list(symbols);
        self.format = self.least_format();
    }

    /// Gives symbols buckets, and inputs their paddings.
    pub fn set_buckets(&mut self, buckets: Vec<BucketInfo>, paddings: Vec<PaddingInfo>) {
        self.buckets = buckets;
        self.paddings = paddings;
        self.format = self.least_format();
    }

    /// The `format` that a reader of this member needs.
    pub(crate) fn least_format(&self) -> u32 {
        match (
            self.buckets.is_empty() && self.paddings.is_empty(),
            self.is_symbolic(),
        ) {
            (false, _) => TENON_FORMAT,
            (true, true) => SYMBOLIC_FORMAT,
            (true, false) => FIXED_FORMAT,
        }
    }

    /// Whether some dimensions are known only when the model runs.
    pub fn is_symbolic(&self) -> bool {
        !self.symbols.is_empty()
    }

    /// The symbols of the package.
    ///
    /// # Errors
    /// Names and ranges that are not allowed; all together.
    pub fn symbol_table(&self) -> Result<Symbols> {
        SymbolInfo::table(&self.symbols)
    }
}

/// A dimension that is known only when the model runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SymbolInfo {
    /// Its name in expressions.
    pub name: String,
    /// Its smallest size.
    pub min: u64,
    /// Its greatest size.
    pub max: u64,
}

impl SymbolInfo {
    /// All symbols of a table.
    pub fn list(symbols: &Symbols) -> Vec<Self> {
        let info = |(_, symbol): (_, &Symbol)| Self {
            name: symbol.name.clone(),
            min: symbol.min,
            max: symbol.max,
        };
        symbols.iter().map(info).collect()
    }

    /// The table of a list; all problems together.
    pub(crate) fn table(list: &[Self]) -> Result<Symbols> {
        let mut symbols = Symbols::default();
        let add = |info: &Self| symbols.add(&info.name, info.min..=info.max).err();
        let errors: Vec<Error> = list.iter().filter_map(add).collect();
        Error::from_all(errors).map_or(Ok(symbols), Err)
    }
}

/// A variable whose elements are sizes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SizesInfo {
    /// The variable, of type `virtual`.
    #[serde(with = "variable")]
    pub var_id: VariableId,
    /// Its data type: i64, i32, f32, f64 or bool.
    #[serde(with = "dtype")]
    pub dtype: DataType,
    /// Its shape, outermost first.
    pub shape: Vec<usize>,
    /// Its elements in row-major order.
    pub elements: Vec<Extent>,
}

/// The model of a package.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ModelInfo {
    /// Its name.
    pub name: String,
    /// Its metadata, text to text.
    #[serde(default)]
    pub metadata: BTreeMap<String, String>,
}

/// An input or output of the model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Port {
    /// Its name.
    pub name: String,
    /// The variable of type `input` or `output`.
    #[serde(with = "variable")]
    pub var_id: VariableId,
    /// Its data type.
    #[serde(with = "dtype")]
    pub dtype: DataType,
    /// Its shape, outermost first.
    pub shape: PortShape,
}

/// A state: an output whose value is an input of the next execution.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StateInfo {
    /// The output's name.
    pub output: String,
    /// The input's name.
    pub input: String,
}

/// The type of a variable that a workload reads or writes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct VariableInfo {
    /// The variable.
    #[serde(with = "variable")]
    pub var_id: VariableId,
    /// Its data type.
    #[serde(with = "dtype")]
    pub dtype: DataType,
    /// Its shape, outermost first.
    pub shape: PortShape,
    /// For a view, the variable whose memory it uses; never a view.
    #[serde(
        with = "optional_variable",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    pub view_of: Option<VariableId>,
}

/// Name and type of a constant.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConstantInfo {
    /// The variable of type `file`.
    #[serde(with = "variable")]
    pub var_id: VariableId,
    /// Its name in the model.
    pub name: String,
    /// Its data type.
    #[serde(with = "dtype")]
    pub dtype: DataType,
    /// Its shape, outermost first.
    pub shape: Vec<usize>,
    /// Set when it is the prepared form of another constant.
    #[serde(flatten, default, skip_serializing_if = "Option::is_none")]
    pub prepared: Option<PreparedForm>,
}

/// A constant in the layout of a backend's kernels.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PreparedForm {
    /// The plain constant.
    #[serde(with = "variable")]
    pub of: VariableId,
    /// The backend that reads it.
    pub backend: String,
    /// The layout's tag.
    pub layout: String,
}

/// The cost of executing a node once.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeCost {
    /// The node's name.
    pub node: String,
    /// Arithmetic operations; a multiply-add is two.
    pub flops: u64,
    /// Bytes read.
    pub read: u64,
    /// Bytes written.
    pub written: u64,
}

/// Offsets of variables in the arena, and their live ranges in kernels.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct MemoryPlan {
    /// The planning strategy; empty if not recorded.
    #[serde(default)]
    pub strategy: String,
    /// The arena's size.
    pub arena_bytes: u64,
    /// Its variables.
    pub variables: Vec<LiveRange>,
}

/// One variable of the memory plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct LiveRange {
    /// The variable.
    #[serde(with = "variable")]
    pub var_id: VariableId,
    /// Its first byte in the arena.
    pub offset: u64,
    /// Its bytes.
    pub size: u64,
    /// The first kernel that uses it.
    pub first: u64,
    /// The last kernel that uses it.
    pub last: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prepared_constant_has_three_more_keys() {
        let plain = ConstantInfo {
            var_id: VariableId(3),
            name: "w".into(),
            dtype: DataType::F32,
            shape: vec![2, 3],
            prepared: None,
        };
        let text = r#"{"var_id":3,"name":"w","dtype":"f32","shape":[2,3]}"#;
        assert_eq!(serde_json::to_string(&plain).unwrap(), text);
        assert_eq!(serde_json::from_str::<ConstantInfo>(text).unwrap(), plain);
        let prepared = ConstantInfo {
            prepared: Some(PreparedForm {
                of: VariableId(1),
                backend: "CpuAcc".into(),
                layout: "panels16:f32".into(),
            }),
            ..plain
        };
        let text = serde_json::to_string(&prepared).unwrap();
        assert!(
            text.ends_with(r#""of":1,"backend":"CpuAcc","layout":"panels16:f32"}"#),
            "{text}"
        );
        assert_eq!(
            serde_json::from_str::<ConstantInfo>(&text).unwrap(),
            prepared
        );
    }
}
