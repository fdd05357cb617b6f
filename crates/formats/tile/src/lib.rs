//! The binary formats of netlist data: element formats, blocks with a shared exponent (block floating
//! point), tiles, and the buffers of queues. Encoding and decoding are exact except for the rounding of
//! a format.
//!
//! * [`encode_scalar`] and [`decode_scalar`] convert one element, [`encode_block`] and [`decode_block`]
//!   a block of sixteen.
//! * [`TileLayout`] is the layout of one tile, [`QueueLayout`] of a queue's whole memory.
//! * The words of formats, architectures and programs are enumerations with a table of spellings
//!   ([`Word`]).
//! * [`TensorMovement`] is one step between a stored tensor and an op's operand, [`MovementList`]
//!   all of them; both have a canonical text.
//!
//! ```
//! use tenon_tile::{Arch, DataFormat, TileLayout};
//!
//! let tile = TileLayout::new(DataFormat::Bfp8, [32, 32], Arch::Grayskull);
//! // Header, shared exponents, codes, padding to 32 bytes.
//! assert_eq!(tile.bytes(), 16 + 64 + 1024 + 16);
//! ```
#![forbid(unsafe_code)]

mod block;
mod layout;
mod movement;
mod scalar;
mod tile;
mod words;

pub use block::{BLOCK, decode_block, encode_block};
pub use layout::{QueueLayout, TensorBlocking};
pub use movement::{MovementList, MovementProblem, ParseMovementError, TensorMovement};
pub use scalar::{decode_scalar, encode_scalar, truncate_to_tf32};
pub use tile::TileLayout;
pub use words::{
    Arch, DataFormat, Layout, Operation, SettingKey, TileBroadcast, UblockOrder, Word,
};
