//! How large a file and what it describes may be. Everything that a file says is checked against these before memory
//! is taken for it.

/// Bytes of a file.
pub const MAX_FILE_BYTES: u64 = 2 << 30;
/// Nodes of a graph.
pub const MAX_NODES: usize = 100_000;
/// Initializers, inputs and outputs of a graph, together.
pub const MAX_VALUES: usize = 200_000;
/// Names of inputs and outputs of all nodes.
pub const MAX_NAMES: usize = 1_000_000;
/// Attributes of all nodes.
pub const MAX_ATTRIBUTES: usize = 400_000;
/// Bytes of the texts beside a graph that are kept.
pub const MAX_METADATA_BYTES: usize = 4 << 20;
/// Dimensions of all inputs and outputs of a graph.
pub const MAX_DIMENSIONS: usize = 1_000_000;
/// Dimensions of one tensor.
pub const MAX_RANK: usize = 8;
/// Elements of one tensor, and the size of any of its dimensions.
pub const MAX_ELEMENTS: usize = 1 << 31;
/// Elements of all weights of a file.
pub const MAX_WEIGHTS: usize = 1 << 31;
/// Layers of a network, with those of loops as often as they run.
pub const MAX_LAYERS: usize = 100_000;
/// Nodes that are walked, with those of loops as often as they run, and rounds of loops. Large nodes count as several.
pub const MAX_STEPS: usize = 200_000;
/// Entries of all lists of tensors that nodes make.
pub const MAX_LISTED: usize = 1 << 24;
/// Bytes that the uses of a file's functions come to.
pub const MAX_FUNCTION_BYTES: usize = 128 << 20;
/// How often the weights of a model may read all of another file.
pub const MAX_EXTERNAL_READS: u64 = 4;
/// How often the host looks at values in one run of a model, to decide what comes next.
pub const MAX_LOOKS: usize = 10_000;
/// Elements that the host reads in one run of a model, to decide what comes next.
pub const MAX_READ: usize = 1 << 24;
/// Elements of the outputs of all layers.
pub const MAX_ACTIVATIONS: u64 = 1 << 36;
/// Elements computed on the host while resolving, however large the file is.
pub const MAX_ON_HOST: usize = 64 << 20;
/// Elements that may be computed on the host however small the file is.
pub const MIN_ON_HOST: usize = 2 << 20;
/// Characters of the names of nodes and values that are kept: each round of a loop has them again.
pub const KEPT_CHARACTERS: usize = 256;
/// Characters of a name that an error shows.
pub const SHOWN_CHARACTERS: usize = 80;
