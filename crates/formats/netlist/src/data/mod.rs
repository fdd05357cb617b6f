//! The bytes of numbers (facts 5): scalars, blocks that share an exponent, tiles, and the buffers
//! of queues. Exact both ways.

mod block;
mod layout;
mod scalar;
mod tile;

pub use block::{BLOCK, decode_block, encode_block};
pub use layout::QueueLayout;
pub use scalar::{decode, encode, tf32};
pub use tile::TileLayout;
