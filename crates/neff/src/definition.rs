//! `sgNN/def.json`: engines, queue sets and variables of a subgraph (seed, "def.json").

use crate::Table;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// The whole member. Unknown keys are kept, here and in all parts.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Definition {
    /// Always `definition` in known files.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The version of this member's form.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Engine descriptions and programs by key: `pe`, `pe_instr`, `pe_dbg`, `pe_asm_dbg` and so
    /// on; see [`Definition::engine`]. Keys unknown here are kept among them.
    #[serde(flatten)]
    pub other: Map<String, Value>,
    /// Queue sets by name.
    pub dma_queue: Table<QueueSet>,
    /// Features a loader must know.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub neff_features: Option<Vec<String>>,
    /// How float8 types convert.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fp8_conversion_config: Option<Fp8ConversionConfig>,
    /// Events the runtime keeps for itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub runtime_event_count: Option<u64>,
    /// Semaphores the runtime keeps for itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub runtime_semaphore_count: Option<u64>,
    /// Variables by name.
    pub var: Table<Variable>,
}

/// An engine of a core.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "named after the files of the seed")]
pub enum EngineName {
    Pe,
    Act,
    Pool,
    Dve,
    Sp,
}

impl EngineName {
    /// All of them.
    pub const ALL: [EngineName; 5] = [
        EngineName::Pe,
        EngineName::Act,
        EngineName::Pool,
        EngineName::Dve,
        EngineName::Sp,
    ];

    /// The key in def.json.
    pub fn key(self) -> &'static str {
        match self {
            EngineName::Pe => "pe",
            EngineName::Act => "act",
            EngineName::Pool => "pool",
            EngineName::Dve => "dve",
            EngineName::Sp => "sp",
        }
    }
}

/// The members of one engine, relative to the subgraph's folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EngineFiles<'a> {
    /// Which engine.
    pub engine: EngineName,
    /// Its description.
    pub description: Option<&'a str>,
    /// Its program.
    pub program: Option<&'a str>,
}

impl Definition {
    /// The members of an engine; `None` when the subgraph does not use it.
    pub fn engine(&self, engine: EngineName) -> Option<EngineFiles<'_>> {
        let text = |key: &str| self.other.get(key).and_then(Value::as_str);
        let description = text(engine.key());
        let program = text(&format!("{}_instr", engine.key()));
        let used = description.is_some() || program.is_some();
        used.then_some(EngineFiles {
            engine,
            description,
            program,
        })
    }

    /// Names the members of an engine.
    pub fn set_engine(&mut self, engine: EngineName, description: &str, program: &str) {
        self.other.insert(
            engine.key().to_owned(),
            Value::String(description.to_owned()),
        );
        let key = format!("{}_instr", engine.key());
        self.other.insert(key, Value::String(program.to_owned()));
    }

    /// The size of the scratchpad: the largest end of a `virtual` variable.
    pub fn scratchpad_bytes(&self) -> u64 {
        let end = |variable: &Variable| match variable.kind {
            VariableKind::Virtual => {
                let offset = variable.backing_variable_off.unwrap_or(0);
                offset.saturating_add(variable.size.unwrap_or(0))
            }
            _ => 0,
        };
        self.var
            .iter()
            .map(|(_, variable)| end(variable))
            .max()
            .unwrap_or(0)
    }
}

/// Queues that move data (seed, "Queue Sets").
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct QueueSet {
    /// `in`, `out`, `data`, `embedding_update` or `dynamic`.
    #[serde(rename = "type")]
    pub kind: String,
    /// The engine that triggers it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    /// Hardware queues, 1 when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub num_queues: Option<u64>,
    /// Whether it fills the state buffer once at the start.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pinned: Option<bool>,
    /// Rings that are swapped in and out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue_instances: Option<Vec<String>>,
    /// Semaphores that tell the end of a movement.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub semaphore_set: Option<Vec<u64>>,
    /// The semaphore of a single queue.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub semaphore: Option<u64>,
    /// `main` (when absent) or `alt`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fabric_path: Option<String>,
    /// Keys unknown here.
    #[serde(flatten)]
    pub other: Map<String, Value>,
}

/// How float8 types convert (facts, neuron.md 2.6).
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
#[allow(missing_docs, reason = "the keys of the file")]
pub struct Fp8ConversionConfig {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub emax_fp8_e4m3: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub emax_fp8_e5m2: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fp8_range_extension: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ocp_sat: Option<bool>,
    /// Keys unknown here.
    #[serde(flatten)]
    pub other: Map<String, Value>,
}

/// What type of data a variable holds (seed, "Variables").
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum VariableKind {
    /// On-chip memory.
    StateBuffer,
    /// Memory of the caller, read.
    Input,
    /// Memory of the caller, written.
    Output,
    /// A constant from a file.
    File,
    /// Scratch memory of the package alone.
    TmpBuf,
    /// A range of the shared scratchpad.
    Virtual,
    /// The place of another variable.
    Pointer,
    /// A table of variables for dynamic movements.
    DgeTable,
}

/// A variable.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Variable {
    /// What it holds.
    #[serde(rename = "type")]
    pub kind: VariableKind,
    /// Its number, unique.
    pub var_id: u32,
    /// Bytes; state buffers and tables have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<u64>,
    /// Alignment in bytes, a power of two.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alignment: Option<u64>,
    /// `main` (when absent) or `alt`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fabric_path: Option<String>,
    /// The member of a `file`: `.npy`, or raw bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file_name: Option<String>,
    /// Where a `virtual` starts in the scratchpad.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backing_variable_off: Option<u64>,
    /// What a `pointer` points to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub referenced_var_id: Option<u32>,
    /// The variables of a `dge-table`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub list: Option<Vec<u32>>,
    /// Keys unknown here.
    #[serde(flatten)]
    pub other: Map<String, Value>,
}

impl Variable {
    /// A variable of that type, number and size.
    pub fn new(kind: VariableKind, var_id: u32, size: u64) -> Self {
        Self {
            kind,
            var_id,
            size: Some(size),
            alignment: None,
            fabric_path: None,
            file_name: None,
            backing_variable_off: None,
            referenced_var_id: None,
            list: None,
            other: Map::new(),
        }
    }
}
