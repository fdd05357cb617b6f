//! `sgNN/def.json`: engines, queue sets and variables of a subgraph (neff 2.4).

use crate::object::{Field, object};
use crate::prune::{Problem, Prune, report_mismatch};
use crate::{KeyPath, Name, Table};
use serde::{Deserialize, Serialize};
use serde_json::Value;

object! {
    /// The whole member. Unknown keys are kept, here and in all parts.
    #[derive(Default)]
    pub struct Definition {
        /// Always `definition` in known files.
        pub name: Option<Name> = "name",
        /// The version of this member's format.
        pub version: Option<Name> = "version",
        /// Description of the PE engine.
        pub pe: Option<Name> = "pe",
        /// Program of the PE engine.
        pub pe_instr: Option<Name> = "pe_instr",
        /// Debug members of the PE engine.
        pub pe_dbg: Option<Vec<Name>> = "pe_dbg",
        /// Debug members of the PE engine's assembly.
        pub pe_asm_dbg: Option<Vec<Name>> = "pe_asm_dbg",
        /// Description of the Activation engine.
        pub act: Option<Name> = "act",
        /// Program of the Activation engine.
        pub act_instr: Option<Name> = "act_instr",
        /// Debug members of the Activation engine.
        pub act_dbg: Option<Vec<Name>> = "act_dbg",
        /// Debug members of the Activation engine's assembly.
        pub act_asm_dbg: Option<Vec<Name>> = "act_asm_dbg",
        /// Description of the Pool engine.
        pub pool: Option<Name> = "pool",
        /// Program of the Pool engine.
        pub pool_instr: Option<Name> = "pool_instr",
        /// Debug members of the Pool engine.
        pub pool_dbg: Option<Vec<Name>> = "pool_dbg",
        /// Debug members of the Pool engine's assembly.
        pub pool_asm_dbg: Option<Vec<Name>> = "pool_asm_dbg",
        /// Description of the DVE engine.
        pub dve: Option<Name> = "dve",
        /// Program of the DVE engine.
        pub dve_instr: Option<Name> = "dve_instr",
        /// Debug members of the DVE engine.
        pub dve_dbg: Option<Vec<Name>> = "dve_dbg",
        /// Debug members of the DVE engine's assembly.
        pub dve_asm_dbg: Option<Vec<Name>> = "dve_asm_dbg",
        /// Description of the SP engine.
        pub sp: Option<Name> = "sp",
        /// Program of the SP engine.
        pub sp_instr: Option<Name> = "sp_instr",
        /// Debug members of the SP engine.
        pub sp_dbg: Option<Vec<Name>> = "sp_dbg",
        /// Debug members of the SP engine's assembly.
        pub sp_asm_dbg: Option<Vec<Name>> = "sp_asm_dbg",
        /// Debug members of the data movement.
        pub dma_dbg: Option<Vec<Name>> = "dma_dbg",
        /// Queue sets by name.
        pub dma_queue: Table<QueueSet> = "dma_queue",
        /// Features a loader must know.
        pub neff_features: Option<Vec<Name>> = "neff_features",
        /// How float8 types convert.
        pub fp8_conversion_config: Option<Fp8ConversionConfig> = "fp8_conversion_config",
        /// Ranks of the whole computation; 0 for one.
        pub rank_world_size: Option<u64> = "#rank_world_size",
        /// Streams of collective communication.
        pub cc_streams: Option<CcStreams> = "cc_streams",
        /// For debuggers.
        pub debug_info: Option<Value> = "debug_info",
        /// Events reserved for the runtime.
        pub runtime_event_count: Option<u64> = "runtime_event_count",
        /// Semaphores reserved for the runtime.
        pub runtime_semaphore_count: Option<u64> = "runtime_semaphore_count",
        /// Parts of the state buffer reserved for the runtime.
        pub runtime_statebuffer_reservation: Option<Vec<StateBufferReservation>>
            = "runtime_statebuffer_reservation",
        /// Variables by name.
        pub var: Table<Variable> = "var",
    }
}

/// An engine of a core.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[allow(missing_docs, reason = "named after the keys of neff 2.4")]
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
        let (description, program) = match engine {
            EngineName::Pe => (&self.pe, &self.pe_instr),
            EngineName::Act => (&self.act, &self.act_instr),
            EngineName::Pool => (&self.pool, &self.pool_instr),
            EngineName::Dve => (&self.dve, &self.dve_instr),
            EngineName::Sp => (&self.sp, &self.sp_instr),
        };
        (description.is_some() || program.is_some()).then_some(EngineFiles {
            engine,
            description: description.as_deref(),
            program: program.as_deref(),
        })
    }

    /// Sets the member names of an engine.
    pub fn set_engine(&mut self, engine: EngineName, description: &str, program: &str) {
        let (to_description, to_program) = match engine {
            EngineName::Pe => (&mut self.pe, &mut self.pe_instr),
            EngineName::Act => (&mut self.act, &mut self.act_instr),
            EngineName::Pool => (&mut self.pool, &mut self.pool_instr),
            EngineName::Dve => (&mut self.dve, &mut self.dve_instr),
            EngineName::Sp => (&mut self.sp, &mut self.sp_instr),
        };
        *to_description = Some(description.into());
        *to_program = Some(program.into());
    }

    /// The lists of members that only debuggers need, by key.
    pub fn debug_lists(&mut self) -> [(&'static str, &mut Option<Vec<Name>>); 11] {
        [
            ("pe_dbg", &mut self.pe_dbg),
            ("pe_asm_dbg", &mut self.pe_asm_dbg),
            ("act_dbg", &mut self.act_dbg),
            ("act_asm_dbg", &mut self.act_asm_dbg),
            ("pool_dbg", &mut self.pool_dbg),
            ("pool_asm_dbg", &mut self.pool_asm_dbg),
            ("dve_dbg", &mut self.dve_dbg),
            ("dve_asm_dbg", &mut self.dve_asm_dbg),
            ("sp_dbg", &mut self.sp_dbg),
            ("sp_asm_dbg", &mut self.sp_asm_dbg),
            ("dma_dbg", &mut self.dma_dbg),
        ]
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

object! {
    /// Queues that move data (neff 2.5).
    #[derive(Default)]
    pub struct QueueSet {
        /// `in`, `out`, `data`, `embedding_update` or `dynamic`.
        pub kind: Name = "type",
        /// The engine that triggers it.
        pub owner: Option<Name> = "owner",
        /// Hardware queues, 1 when absent.
        pub num_queues: Option<u64> = "num_queues",
        /// Whether it fills the state buffer once at the start.
        pub pinned: Option<bool> = "pinned",
        /// Instances: rings that a runtime swaps.
        pub queue_instances: Option<Vec<Name>> = "queue_instances",
        /// Semaphores that signal the end of a movement.
        pub semaphore_set: Option<Vec<u64>> = "semaphore_set",
        /// The semaphore of a single queue.
        pub semaphore: Option<u64> = "semaphore",
        /// `main` (when absent) or `alt`.
        pub fabric_path: Option<Name> = "fabric_path",
        /// Of a `dynamic` set: the memory of generated descriptors.
        pub dynamic_dma: Option<DynamicDma> = "dynamic_dma",
    }
}

impl QueueSet {
    /// Hardware queues.
    pub fn queues(&self) -> u64 {
        self.num_queues.unwrap_or(1)
    }

    /// Whether its descriptors are generated at run time; the file has none.
    pub fn is_dynamic(&self) -> bool {
        matches!(&*self.kind, "dynamic" | "embedding_update")
    }
}

object! {
    /// Scratch memory of a dynamic queue set (neff 2.5).
    #[derive(Default)]
    pub struct DynamicDma {
        /// First byte of each partition of the state buffer.
        pub offset: Option<u64> = "SB_scratch_partition_offset",
        /// Bytes of each partition.
        pub size: Option<u64> = "SB_scratch_partition_size",
    }
}

object! {
    /// How float8 types convert (neff 2.4).
    #[derive(Default)]
    #[allow(missing_docs, reason = "the keys of the file")]
    pub struct Fp8ConversionConfig {
        pub emax_fp8_e4m3: Option<i64> = "emax_fp8_e4m3",
        pub emax_fp8_e5m2: Option<i64> = "emax_fp8_e5m2",
        pub fp8_range_extension: Option<bool> = "fp8_range_extension",
        pub fp8_sis: Option<bool> = "fp8_sis",
        pub fp8_sns: Option<bool> = "fp8_sns",
        pub ocp_sat: Option<bool> = "ocp_sat",
    }
}

object! {
    /// Streams of collective communication.
    #[derive(Default)]
    pub struct CcStreams {
        /// Their number.
        pub num_streams: Option<u64> = "num_streams",
    }
}

object! {
    /// A part of the state buffer reserved for the runtime.
    #[derive(Default)]
    pub struct StateBufferReservation {
        /// Its purpose.
        pub kind: Option<Name> = "type",
        /// The first partition.
        pub base_partition: Option<u64> = "base_partition",
        /// The number of partitions.
        pub partitions: Option<u64> = "partitions",
        /// The first byte of each.
        pub offset: Option<u64> = "offset",
        /// Bytes of each.
        pub size: Option<u64> = "size",
    }
}

/// The type of a variable (neff 2.6).
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
    /// The memory of another variable.
    Pointer,
    /// A table of variables for dynamic movements.
    DgeTable,
}

impl VariableKind {
    /// All of them.
    pub const ALL: [VariableKind; 8] = [
        VariableKind::StateBuffer,
        VariableKind::Input,
        VariableKind::Output,
        VariableKind::File,
        VariableKind::TmpBuf,
        VariableKind::Virtual,
        VariableKind::Pointer,
        VariableKind::DgeTable,
    ];

    /// Its name in def.json.
    pub fn name(self) -> &'static str {
        match self {
            VariableKind::StateBuffer => "state-buffer",
            VariableKind::Input => "input",
            VariableKind::Output => "output",
            VariableKind::File => "file",
            VariableKind::TmpBuf => "tmp-buf",
            VariableKind::Virtual => "virtual",
            VariableKind::Pointer => "pointer",
            VariableKind::DgeTable => "dge-table",
        }
    }
}

impl Field for VariableKind {}

impl Prune for VariableKind {
    fn prune(value: &mut Value, place: &mut KeyPath, problems: &mut Vec<Problem>) -> bool {
        let known = |text: &str| VariableKind::ALL.iter().any(|kind| kind.name() == text);
        let expected = "state-buffer, input, output, file, tmp-buf, virtual, pointer or dge-table";
        value.as_str().is_some_and(known) || report_mismatch(value, place, problems, expected)
    }
}

object! {
    /// A variable.
    pub struct Variable {
        /// Its type.
        pub kind: VariableKind = "type",
        /// Its id, unique.
        pub var_id: u32 = "var_id",
        /// Bytes; state buffers and tables have none.
        pub size: Option<u64> = "size",
        /// Alignment in bytes, a power of two.
        pub alignment: Option<u64> = "alignment",
        /// `main` (when absent) or `alt`.
        pub fabric_path: Option<Name> = "fabric_path",
        /// The member of a `file`: `.npy`, or raw bytes.
        pub file_name: Option<Name> = "file_name",
        /// The offset of a `virtual` in the scratchpad.
        pub backing_variable_off: Option<u64> = "backing_variable_off",
        /// The target of a `pointer`.
        pub referenced_var_id: Option<u32> = "referenced_var_id",
        /// The variables of a `dge-table`.
        pub list: Option<Vec<u32>> = "list",
        /// Operators it belongs to; empty in known files.
        pub ops: Option<Vec<Value>> = "ops",
    }
}

impl Variable {
    /// A variable of that type, id and size.
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
            ops: None,
            other: Default::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variable_types_serialize_as_their_names() {
        for kind in VariableKind::ALL {
            assert_eq!(serde_json::to_value(kind).unwrap(), kind.name());
        }
    }
}
