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
    /// Its source: the key and section of the format's documents, or Tenon's page.
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
        "facts 2.1";
    HEADER_PKG_VERSION, "header.pkg-version", Error,
        "pkg_version is 1 or 2",
        "facts 2.8";
    HEADER_VERSION, "header.version", Error,
        "the NEFF version is 0.x to 2.x",
        "facts 2.8";
    HEADER_SIZE, "header.size", Error,
        "header_size is at least 1024 and inside the file",
        "facts 2.8";
    HEADER_DATA_SIZE, "header.data-size", Error,
        "the file has data_size bytes after the header",
        "facts 2.8";
    HEADER_HASH, "header.hash", Error,
        "hash is that of the payload in a package of Tenon",
        "facts 2.4";
    HEADER_HASH_FOREIGN, "header.hash-foreign", Note,
        "the hash of another compiler's package cannot be compared",
        "facts 2.4";
    HEADER_FEATURES, "header.features", Note,
        "every bit of feature_bits has a documented name",
        "facts 2.5";
    HEADER_FEATURE_NAMES, "header.feature-names", Warning,
        "neff_features and feature_bits name the same features",
        "facts 2.5";
    HEADER_CORES, "header.cores", Warning,
        "num_tpb is the sum of tpb_per_node",
        "seed, NEFF Header";
    HEADER_LNC, "header.lnc", Warning,
        "a kelf has as many subgraphs as lnc_size",
        "facts 2.9";
    HEADER_PAD, "header.pad", Note,
        "the rest of the header is zero",
        "facts 2.1";
    PAYLOAD_GZIP, "payload.gzip", Error,
        "a compressed payload unpacks, and only zeros follow it",
        "facts 2.2";
    PAYLOAD_LIMIT, "payload.limit", Error,
        "a payload unpacks to no more than the limit",
        "docs/neff.md";
    PAYLOAD_VERSION, "payload.version", Note,
        "pkg_version 1 is plain, 2 is compressed",
        "facts 2.1, 2.2";
    ARCHIVE_ENTRY, "archive.entry", Error,
        "an archive has complete regular files with distinct names inside the package",
        "facts 2.2";
    ARCHIVE_FOLDER, "archive.folder", Error,
        "no member has the name of a folder of another",
        "facts 2.2";
    DIGEST_NONE, "digest.none", Warning,
        "a package of Tenon has digests.json; without it damage to constants is not detected",
        "docs/package.md";
    DIGEST_TABLE, "digest.table", Error,
        "digests.json is valid and complete",
        "docs/package.md";
    DIGEST_MEMBER, "digest.member", Error,
        "a member has the digest recorded in digests.json",
        "docs/package.md";
    DIGEST_LOST, "digest.lost", Error,
        "a member listed in digests.json exists",
        "docs/package.md";
    DIGEST_UNLISTED, "digest.unlisted", Error,
        "a member is listed in digests.json",
        "docs/package.md";
    MEMBER_MISSING, "member.missing", Error,
        "a named member exists",
        "facts 2.8";
    JSON_SYNTAX, "json.syntax", Error,
        "a JSON member is JSON, at most 127 levels deep",
        "docs/neff.md";
    JSON_TYPE, "json.type", Error,
        "a value has the type of its key",
        "seed, Type";
    JSON_MISSING, "json.missing", Error,
        "a required key is present",
        "seed, (required)";
    JSON_TWICE, "json.twice", Error,
        "a key occurs once in its object",
        "docs/neff.md";
    GRAPH_KELF, "graph.kelf", Error,
        "a node runs a kelf",
        "facts 2.6";
    GRAPH_OP, "graph.op", Warning,
        "op is null or tvm_op",
        "facts 2.6";
    GRAPH_INPUTS, "graph.inputs", Error,
        "a node reads outputs of nodes before it",
        "facts 2.6";
    GRAPH_ARG_NODES, "graph.arg-nodes", Error,
        "arg_nodes are the nodes with op null",
        "facts 2.6";
    GRAPH_HEADS, "graph.heads", Error,
        "heads are outputs of nodes",
        "facts 2.6";
    GRAPH_ROW_PTR, "graph.row-ptr", Error,
        "node_row_ptr is the running sum of the nodes' outputs",
        "facts 2.6";
    GRAPH_ATTRS, "graph.attrs", Error,
        "shape, storage_id and dltype have an entry for each output",
        "facts 2.6";
    GRAPH_COUNTS, "graph.counts", Warning,
        "num_inputs and num_outputs count the node's inputs and outputs",
        "facts 2.6";
    GRAPH_OUTPUTS, "graph.outputs", Warning,
        "an output's name occurs once a physical core, with one type",
        "facts 2.9";
    GRAPH_SIGNATURE, "graph.signature", Warning,
        "the default signature has the inputs of the graph, with their types",
        "facts 2.6";
    KELF_GRAPHS, "kelf.graphs", Error,
        "a kelf has subgraphs, each with its own name and definition",
        "facts 2.6";
    KELF_TARGET, "kelf.target", Note,
        "target names a known device generation",
        "facts 2.6";
    INFO_CORES, "info.cores", Warning,
        "info.json and the header have the same core counts",
        "facts 2.6";
    QUEUE_TYPE, "queue.type", Error,
        "type is in, out, data, embedding_update or dynamic",
        "seed, Queue Sets, type";
    QUEUE_NUM_QUEUES, "queue.num-queues", Error,
        "num_queues is 1 to 16, on INF1 1",
        "seed, Queue Sets, num_queues";
    QUEUE_OWNER, "queue.owner", Error,
        "owner is an engine of the subgraph",
        "seed, Queue Sets, owner";
    QUEUE_PINNED, "queue.pinned", Error,
        "pinned is for INF1",
        "seed, Queue Sets, pinned";
    QUEUE_INSTANCES, "queue.instances", Error,
        "queue_instances is not for INF1",
        "seed, Queue Sets, queue_instances";
    QUEUE_INSTANCE_NAMES, "queue.instance-names", Error,
        "an instance's name is that of no other instance or queue set",
        "seed, Queue Sets, queue_instances";
    QUEUE_SEMAPHORE_SET, "queue.semaphore-set", Warning,
        "semaphore_set has one semaphore for each queue, none twice",
        "seed, Queue Sets, semaphore_set";
    QUEUE_SEMAPHORE, "queue.semaphore", Warning,
        "semaphore is for a set of a single queue",
        "seed, Queue Sets, semaphore";
    QUEUE_FABRIC_PATH, "queue.fabric-path", Error,
        "fabric_path is main or alt",
        "seed, Queue Sets, fabric_path";
    VAR_TYPE, "var.type", Error,
        "type is state-buffer, input, output, file, tmp-buf, virtual, pointer or dge-table",
        "seed, Variables, type";
    VAR_ID, "var.id", Error,
        "var_id is unique",
        "seed, Variables, var_id";
    VAR_SIZE, "var.size", Error,
        "size is present, except for state buffers and tables",
        "seed, Variables, size; facts 8.6";
    VAR_ALIGNMENT, "var.alignment", Error,
        "alignment is 0 or a power of two",
        "seed, Variables, alignment";
    VAR_FABRIC_PATH, "var.fabric-path", Error,
        "fabric_path is main or alt",
        "seed, Variables, fabric_path";
    VAR_FILE_NAME, "var.file-name", Error,
        "file_name is for type file",
        "seed, Variables, file_name";
    VAR_FILE, "var.file", Warning,
        "a variable of type file names its file",
        "seed, Variables, file_name";
    VAR_FILE_SIZE, "var.file-size", Error,
        "a file fills its variable",
        "seed, Constants";
    VAR_NPY, "var.npy", Error,
        "a .npy file is a valid array",
        "seed, Constants";
    VAR_BACKING, "var.backing", Error,
        "backing_variable_off is for type virtual",
        "seed, Variables, backing_variable_off";
    VAR_BACKING_RANGE, "var.backing-range", Error,
        "backing_variable_off and size add up below 2^64",
        "seed, Variables, backing_variable_off";
    VAR_REFERENCE, "var.reference", Error,
        "referenced_var_id is for type pointer",
        "seed, Variables, referenced_var_id";
    VAR_REFERENCE_ID, "var.reference-id", Error,
        "referenced_var_id is the id of another variable",
        "seed, Variables, referenced_var_id";
    VAR_LIST, "var.list", Error,
        "list is for type dge-table",
        "seed, Variables, list";
    VAR_LIST_ID, "var.list-id", Error,
        "list has ids of variables",
        "seed, Variables, list";
    ENGINE_FILES, "engine.files", Warning,
        "an engine has a description and a program, of which the description's instr is the name",
        "facts 2.6";
    ENGINE_PROGRAM, "engine.program", Warning,
        "an engine program is a whole number of 64-byte slots",
        "facts 2.7";
    ENGINE_ACTIVATION, "engine.activation", Error,
        "activation_function_sets are sets of the activation engine's table",
        "seed, Activation.json";
    ENGINE_DVE_TABLES, "engine.dve-tables", Error,
        "a DVE table has an opcode table, a datapath table, and one control table or a fast and a slow one",
        "seed, DVE.json; facts 8.6";
    DMA_QUEUE, "dma.queue", Error,
        "queue or instance_name is present",
        "seed, DMA Descriptors, queue";
    DMA_QUEUE_NAME, "dma.queue-name", Error,
        "queue is a queue set, instance_name an instance of one",
        "seed, DMA Descriptors, queue";
    DMA_OWNER, "dma.owner", Warning,
        "the engine owns the queue set it triggers",
        "seed, Queue Sets, owner";
    DMA_INSTANCE, "dma.instance", Error,
        "instance_name is not for INF1",
        "seed, DMA Descriptors, instance_name";
    DMA_FUNCTION_START, "dma.function-start", Error,
        "function_start is not for INF1",
        "seed, DMA Descriptors, function_start";
    DMA_SECTION_START, "dma.section-start", Error,
        "section_start_desc is not for INF1",
        "seed, DMA Descriptors, section_start_desc";
    DMA_REMOTE, "dma.remote-semaphores", Error,
        "remote_semaphores is for Trn2 and above",
        "seed, DMA Descriptors, remote_semaphores";
    DMA_REMOTE_LNC, "dma.remote-lnc", Warning,
        "remote_semaphores is for lnc_size 2",
        "seed, DMA Descriptors, remote_semaphores";
    DMA_AMOUNT, "dma.amount", Warning,
        "descriptors of one id in one function have the same amount on every queue set",
        "seed, DMA Descriptors, id";
    DMA_DYNAMIC, "dma.dynamic", Warning,
        "a dynamic queue set has no descriptors in the file",
        "facts 2.6";
    DESC_OP, "desc.op", Error,
        "op is copy, cast, add, min, max, fma or transpose",
        "seed, desc, op";
    DESC_OP_INF1, "desc.op-inf1", Error,
        "operations other than copy, and their keys, are not for INF1",
        "seed, desc, op";
    DESC_FROM, "desc.from", Error,
        "copy, cast and transpose have a source in from",
        "seed, desc, from";
    DESC_FROM_ARR, "desc.from-arr", Error,
        "add, min, max and fma have their sources in from_arr, which replaces from",
        "seed, desc, from_arr";
    DESC_SOURCES, "desc.sources", Error,
        "from_arr has 1 to 16 sources",
        "seed, desc, from_arr";
    DESC_VARIABLE, "desc.variable", Error,
        "from and to are variables",
        "seed, desc, from/to";
    DESC_OFFSET, "desc.offset", Error,
        "from_off and to_off are present",
        "seed, desc, from_off";
    DESC_DIMENSIONS, "desc.dimensions", Error,
        "an access pattern has 1 to 4 sizes",
        "seed, desc, from_sizes";
    DESC_LENGTHS, "desc.lengths", Error,
        "an access pattern has as many steps as sizes",
        "seed, desc, from_steps";
    DESC_STEPS, "desc.steps", Error,
        "steps keep the bytes of an element contiguous",
        "docs/dma.md, Access patterns";
    DESC_SIZES, "desc.sizes", Error,
        "sizes are multiples of the element size, and sources fill the target",
        "docs/dma.md, Access patterns";
    DESC_BOUNDS, "desc.bounds", Error,
        "an access stays inside its variable",
        "seed, desc, from_off";
    DESC_DTYPE, "desc.dtype", Error,
        "from_dtype and to_dtype are data types",
        "seed, desc, from_dtype";
    DESC_TILING, "desc.tiling", Warning,
        "num_tiling_dimensions is at most the number of dimensions",
        "seed, desc, num_tiling_dimensions";
    DESC_SCALE, "desc.scale", Error,
        "scale and scale_dtype are for fma",
        "seed, desc, scale";
    DESC_SCALE_DTYPE, "desc.scale-dtype", Error,
        "scale_dtype is float32",
        "seed, desc, scale_dtype";
    DESC_SCALE_DTYPE_MISSING, "desc.scale-dtype-missing", Warning,
        "fma has a scale_dtype",
        "seed, desc, scale_dtype";
    DESC_CONSTANT, "desc.constant", Error,
        "constant and constant_dtype are for min and max",
        "seed, desc, constant";
    DESC_CONSTANT_DTYPE, "desc.constant-dtype", Error,
        "constant_dtype is float32, int32 or uint32",
        "seed, desc, constant_dtype";
    DESC_CONSTANT_VALUE, "desc.constant-value", Error,
        "with constant_dtype, a constant is present and fits its type",
        "seed, desc, constant";
    DESC_CONSTANT_IGNORED, "desc.constant-ignored", Warning,
        "a constant without constant_dtype is ignored",
        "seed, desc, constant";
    DESC_TRANSPOSE, "desc.transpose", Error,
        "transpose_shape and transpose_element_size are for transpose",
        "seed, desc, transpose_shape";
    DESC_TRANSPOSE_SHAPE, "desc.transpose-shape", Error,
        "transpose_shape has 4 extents",
        "seed, desc, transpose_shape";
    DESC_TRANSPOSE_RUNS, "desc.transpose-runs", Warning,
        "an executable transpose has a shape and an element size that agree with its accesses",
        "docs/dma.md";
    TENSOR_MAP_DTYPE, "tensor-map.dtype", Warning,
        "dtype is a data type",
        "facts 2.6";
    TENSOR_MAP_PORT, "tensor-map.port", Warning,
        "an input or output is a variable of that type",
        "facts 2.6";
    TENON_CONTENTS, "tenon.contents", Error,
        "a package of Tenon obeys the rules of Tenon's members",
        "docs/package.md";
    TENON_LOAD, "tenon.load", Error,
        "a runtime loads a package of Tenon",
        "docs/package.md";
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
