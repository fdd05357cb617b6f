//! The rules of packages in one table: id, severity, sentence, source.

use std::fmt;

/// The severity of a violated rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Severity {
    /// Information.
    Note,
    /// Suspicious; a loader may refuse it.
    Warning,
    /// The package is invalid.
    Error,
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Severity::Note => "note",
            Severity::Warning => "warning",
            Severity::Error => "error",
        })
    }
}

/// One rule. The meaning of an id never changes.
#[derive(Debug, PartialEq, Eq)]
pub struct Rule {
    /// `part.property`, stable.
    pub id: &'static str,
    /// The severity of a violation.
    pub severity: Severity,
    /// The rule.
    pub sentence: &'static str,
    /// Its source: sections of docs/neff.md (`neff 2.5`) or of another page, a text that `tenon_base::Citation` reads.
    pub source: &'static str,
}

macro_rules! rules {
    ($($name:ident, $id:literal, $severity:ident, $sentence:literal, $source:literal;)*) => {
        $(pub(crate) static $name: Rule = Rule {
            id: $id,
            severity: Severity::$severity,
            sentence: $sentence,
            source: $source,
        };)*

        impl Rule {
            /// All rules.
            pub const ALL: &'static [&'static Rule] = &[$(&$name,)*];
        }
    };
}

impl Rule {
    /// The rule of that id.
    pub fn find(id: &str) -> Option<&'static Rule> {
        Self::ALL.iter().copied().find(|rule| rule.id == id)
    }
}

rules! {
    HEADER_LENGTH, "header.length", Error,
        "a file begins with a header of 1024 bytes",
        "neff 1.1";
    HEADER_PKG_VERSION, "header.pkg-version", Error,
        "pkg_version is 1 or 2",
        "neff 3.1";
    HEADER_VERSION, "header.version", Error,
        "the NEFF version is 0.x to 2.x",
        "neff 3.1";
    HEADER_SIZE, "header.size", Error,
        "header_size is at least 1024 and inside the file",
        "neff 3.1";
    HEADER_DATA_SIZE, "header.data-size", Error,
        "the file has data_size bytes after the header",
        "neff 3.1";
    HEADER_HASH, "header.hash", Error,
        "hash is that of the payload in a package of Tenon",
        "neff 1.3";
    HEADER_HASH_FOREIGN, "header.hash-foreign", Note,
        "the hash of another compiler's package cannot be compared",
        "neff 1.3";
    HEADER_FEATURES, "header.features", Note,
        "every bit of feature_bits has a documented name",
        "neff 1.4";
    HEADER_FEATURE_NAMES, "header.feature-names", Warning,
        "neff_features and feature_bits name the same features",
        "neff 1.4";
    HEADER_CORES, "header.cores", Warning,
        "num_tpb is the sum of tpb_per_node",
        "neff 1.1";
    HEADER_LNC, "header.lnc", Warning,
        "a kelf has as many subgraphs as lnc_size",
        "neff 1.5";
    HEADER_PAD, "header.pad", Note,
        "the rest of the header is zero",
        "neff 1.1";
    PAYLOAD_GZIP, "payload.gzip", Error,
        "a compressed payload unpacks, and only zeros follow it",
        "neff 1.2";
    PAYLOAD_LIMIT, "payload.limit", Error,
        "a payload unpacks to no more than the limit",
        "neff reading-a-package";
    PAYLOAD_VERSION, "payload.version", Note,
        "pkg_version 1 is plain, 2 is compressed",
        "neff 1.1, 1.2";
    ARCHIVE_ENTRY, "archive.entry", Error,
        "an archive has complete regular files with distinct names inside the package",
        "neff 1.2";
    ARCHIVE_FOLDER, "archive.folder", Error,
        "no member has the name of a folder of another",
        "neff 1.2";
    DIGEST_NONE, "digest.none", Warning,
        "a package of Tenon has digests.json; without it damage to constants is not detected",
        "package digestsjson";
    DIGEST_TABLE, "digest.table", Error,
        "digests.json is valid and complete",
        "package digestsjson";
    DIGEST_MEMBER, "digest.member", Error,
        "a member has the digest recorded in digests.json",
        "package digestsjson";
    DIGEST_LOST, "digest.lost", Error,
        "a member listed in digests.json exists",
        "package digestsjson";
    DIGEST_UNLISTED, "digest.unlisted", Error,
        "a member is listed in digests.json",
        "package digestsjson";
    MEMBER_MISSING, "member.missing", Error,
        "a named member exists",
        "neff 3.1";
    JSON_SYNTAX, "json.syntax", Error,
        "a JSON member is JSON, at most 127 levels deep",
        "neff reading-a-package";
    JSON_TYPE, "json.type", Error,
        "a value has the type of its key",
        "neff 2.12";
    JSON_MISSING, "json.missing", Error,
        "a required key is present",
        "neff 2.12";
    JSON_TWICE, "json.twice", Error,
        "a key occurs once in its object",
        "neff every-json-member";
    GRAPH_KELF, "graph.kelf", Error,
        "a node runs a kelf",
        "neff 2.1";
    GRAPH_OP, "graph.op", Warning,
        "op is null or tvm_op",
        "neff 2.1";
    GRAPH_INPUTS, "graph.inputs", Error,
        "a node reads outputs of nodes before it",
        "neff 2.1";
    GRAPH_ARG_NODES, "graph.arg-nodes", Error,
        "arg_nodes are the nodes with op null",
        "neff 2.1";
    GRAPH_HEADS, "graph.heads", Error,
        "heads are outputs of nodes",
        "neff 2.1";
    GRAPH_ROW_PTR, "graph.row-ptr", Error,
        "node_row_ptr is the running sum of the nodes' outputs",
        "neff 2.1";
    GRAPH_ATTRS, "graph.attrs", Error,
        "shape, storage_id and dltype have an entry for each output",
        "neff 2.1";
    GRAPH_COUNTS, "graph.counts", Warning,
        "num_inputs and num_outputs count the node's inputs and outputs",
        "neff 2.1";
    GRAPH_OUTPUTS, "graph.outputs", Warning,
        "an output's name occurs once a physical core, with one type",
        "neff 1.5";
    GRAPH_SIGNATURE, "graph.signature", Warning,
        "the default signature has the inputs of the graph, with their types",
        "neff 2.1";
    KELF_GRAPHS, "kelf.graphs", Error,
        "a kelf has subgraphs, each with its own name and definition",
        "neff 2.2";
    KELF_TARGET, "kelf.target", Note,
        "target names a known device generation",
        "neff 2.2";
    INFO_CORES, "info.cores", Warning,
        "info.json and the header have the same core counts",
        "neff 2.3";
    QUEUE_TYPE, "queue.type", Error,
        "type is in, out, data, embedding_update or dynamic",
        "neff 2.5";
    QUEUE_NUM_QUEUES, "queue.num-queues", Error,
        "num_queues is 1 to 16, on INF1 1",
        "neff 2.5";
    QUEUE_OWNER, "queue.owner", Error,
        "owner is an engine of the subgraph",
        "neff 2.5";
    QUEUE_PINNED, "queue.pinned", Error,
        "pinned is for INF1",
        "neff 2.5";
    QUEUE_INSTANCES, "queue.instances", Error,
        "queue_instances is not for INF1",
        "neff 2.5";
    QUEUE_INSTANCE_NAMES, "queue.instance-names", Error,
        "an instance's name is that of no other instance or queue set",
        "neff 2.5";
    QUEUE_SEMAPHORE_SET, "queue.semaphore-set", Warning,
        "semaphore_set has one semaphore for each queue, none twice",
        "neff 2.5";
    QUEUE_SEMAPHORE, "queue.semaphore", Warning,
        "semaphore is for a set of a single queue",
        "neff 2.5";
    QUEUE_FABRIC_PATH, "queue.fabric-path", Error,
        "fabric_path is main or alt",
        "neff 2.5";
    VAR_TYPE, "var.type", Error,
        "type is state-buffer, input, output, file, tmp-buf, virtual, pointer or dge-table",
        "neff 2.6";
    VAR_ID, "var.id", Error,
        "var_id is unique",
        "neff 2.6";
    VAR_SIZE, "var.size", Error,
        "size is present, except for state buffers and tables",
        "neff 2.6";
    VAR_ALIGNMENT, "var.alignment", Error,
        "alignment is 0 or a power of two",
        "neff 2.6";
    VAR_FABRIC_PATH, "var.fabric-path", Error,
        "fabric_path is main or alt",
        "neff 2.6";
    VAR_FILE_NAME, "var.file-name", Error,
        "file_name is for type file",
        "neff 2.6";
    VAR_FILE, "var.file", Warning,
        "a variable of type file names its file",
        "neff 2.6";
    VAR_FILE_SIZE, "var.file-size", Error,
        "a file fills its variable",
        "neff 2.17";
    VAR_NPY, "var.npy", Error,
        "a .npy file is a valid array",
        "neff 2.17";
    VAR_BACKING, "var.backing", Error,
        "backing_variable_off is for type virtual",
        "neff 2.6";
    VAR_BACKING_RANGE, "var.backing-range", Error,
        "backing_variable_off and size add up below 2^64",
        "neff 2.6";
    VAR_REFERENCE, "var.reference", Error,
        "referenced_var_id is for type pointer",
        "neff 2.6";
    VAR_REFERENCE_ID, "var.reference-id", Error,
        "referenced_var_id is the id of another variable",
        "neff 2.6";
    VAR_LIST, "var.list", Error,
        "list is for type dge-table",
        "neff 2.6";
    VAR_LIST_ID, "var.list-id", Error,
        "list has ids of variables",
        "neff 2.6";
    ENGINE_FILES, "engine.files", Warning,
        "an engine has a description and a program, of which the description's instr is the name",
        "neff 2.4, 2.7";
    ENGINE_PROGRAM, "engine.program", Warning,
        "an engine program is a whole number of 64-byte slots",
        "neff 2.8";
    ENGINE_ACTIVATION, "engine.activation", Error,
        "activation_function_sets are sets of the activation engine's table",
        "neff 2.7, 2.9";
    ENGINE_DVE_TABLES, "engine.dve-tables", Error,
        "a DVE table has an opcode table, a datapath table, and one control table or a fast and a slow one",
        "neff 2.7";
    DMA_QUEUE, "dma.queue", Error,
        "queue or instance_name is present",
        "neff 2.13";
    DMA_QUEUE_NAME, "dma.queue-name", Error,
        "queue is a queue set, instance_name an instance of one",
        "neff 2.13";
    DMA_OWNER, "dma.owner", Warning,
        "the engine owns the queue set it triggers",
        "neff 2.5, 2.13";
    DMA_INSTANCE, "dma.instance", Error,
        "instance_name is not for INF1",
        "neff 2.13";
    DMA_FUNCTION_START, "dma.function-start", Error,
        "function_start is not for INF1",
        "neff 2.13";
    DMA_SECTION_START, "dma.section-start", Error,
        "section_start_desc is not for INF1",
        "neff 2.13";
    DMA_REMOTE, "dma.remote-semaphores", Error,
        "remote_semaphores is for Trn2 and above",
        "neff 2.13";
    DMA_REMOTE_LNC, "dma.remote-lnc", Warning,
        "remote_semaphores is for lnc_size 2",
        "neff 2.13";
    DMA_AMOUNT, "dma.amount", Warning,
        "descriptors of one id in one function have the same amount on every queue set",
        "neff 2.13";
    DMA_DYNAMIC, "dma.dynamic", Warning,
        "a dynamic queue set has no descriptors in the file",
        "neff 2.5";
    DESC_OP, "desc.op", Error,
        "op is copy, cast, add, min, max, fma or transpose",
        "neff 2.14";
    DESC_OP_INF1, "desc.op-inf1", Error,
        "operations other than copy, and their keys, are not for INF1",
        "neff 2.14";
    DESC_FROM, "desc.from", Error,
        "copy, cast and transpose have a source in from",
        "neff 2.14";
    DESC_FROM_ARR, "desc.from-arr", Error,
        "add, min, max and fma have their sources in from_arr, which replaces from",
        "neff 2.14";
    DESC_SOURCES, "desc.sources", Error,
        "from_arr has 1 to 16 sources",
        "neff 2.14";
    DESC_VARIABLE, "desc.variable", Error,
        "from and to are variables",
        "neff 2.15";
    DESC_OFFSET, "desc.offset", Error,
        "from_off and to_off are present",
        "neff 2.15";
    DESC_DIMENSIONS, "desc.dimensions", Error,
        "an access pattern has 1 to 4 sizes",
        "neff 2.15";
    DESC_LENGTHS, "desc.lengths", Error,
        "an access pattern has as many steps as sizes",
        "neff 2.15";
    DESC_STEPS, "desc.steps", Error,
        "steps keep the bytes of an element contiguous",
        "dma access-patterns";
    DESC_SIZES, "desc.sizes", Error,
        "sizes are multiples of the element size, and sources fill the target",
        "dma access-patterns";
    DESC_BOUNDS, "desc.bounds", Error,
        "an access stays inside its variable",
        "neff 2.15";
    DESC_DTYPE, "desc.dtype", Error,
        "from_dtype and to_dtype are data types",
        "neff 2.16";
    DESC_TILING, "desc.tiling", Warning,
        "num_tiling_dimensions is at most the number of dimensions",
        "neff 2.14";
    DESC_SCALE, "desc.scale", Error,
        "scale and scale_dtype are for fma",
        "neff 2.14";
    DESC_SCALE_DTYPE, "desc.scale-dtype", Error,
        "scale_dtype is float32",
        "neff 2.14";
    DESC_SCALE_DTYPE_MISSING, "desc.scale-dtype-missing", Warning,
        "fma has a scale_dtype",
        "neff 2.14";
    DESC_CONSTANT, "desc.constant", Error,
        "constant and constant_dtype are for min and max",
        "neff 2.14";
    DESC_CONSTANT_DTYPE, "desc.constant-dtype", Error,
        "constant_dtype is float32, int32 or uint32",
        "neff 2.14";
    DESC_CONSTANT_VALUE, "desc.constant-value", Error,
        "with constant_dtype, a constant is present and fits its type",
        "neff 2.14";
    DESC_CONSTANT_IGNORED, "desc.constant-ignored", Warning,
        "a constant without constant_dtype is ignored",
        "neff 2.14";
    DESC_TRANSPOSE, "desc.transpose", Error,
        "transpose_shape and transpose_element_size are for transpose",
        "neff 2.14";
    DESC_TRANSPOSE_SHAPE, "desc.transpose-shape", Error,
        "transpose_shape has 4 extents",
        "neff 2.14";
    DESC_TRANSPOSE_RUNS, "desc.transpose-runs", Warning,
        "an executable transpose has a shape and an element size that agree with its accesses",
        "dma transpose";
    TENSOR_MAP_DTYPE, "tensor-map.dtype", Warning,
        "dtype is a data type",
        "neff 2.10";
    TENSOR_MAP_PORT, "tensor-map.port", Warning,
        "an input or output is a variable of that type",
        "neff 2.10";
    TENON_CONTENTS, "tenon.contents", Error,
        "a package of Tenon obeys the rules of Tenon's members",
        "package";
    TENON_LOAD, "tenon.load", Error,
        "a runtime loads a package of Tenon",
        "neff findings";
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn ids_are_unique() {
        let ids: HashSet<_> = Rule::ALL.iter().map(|rule| rule.id).collect();
        assert_eq!(ids.len(), Rule::ALL.len());
        assert_eq!(Rule::find("var.id"), Some(&VAR_ID));
        assert_eq!(Rule::find("var"), None);
    }
}
