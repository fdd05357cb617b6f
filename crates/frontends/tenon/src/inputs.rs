//! Inputs from files: pictures, NumPy arrays, raw bytes, tables and JSON; random tensors.
//!
//! ```
//! use tenon::inputs::{ImageOptions, random_tensor, read_input};
//! use tenon::{Compiler, LoadOptions};
//!
//! # let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../models/digits");
//! # let onnx = format!("{folder}/digits.onnx");
//! # let picture = format!("{folder}/seven.png");
//! let model = Compiler::new().compile_file(onnx)?.load(&LoadOptions::new())?;
//! let options = ImageOptions::from_metadata(model.metadata())?;
//! let image = read_input(picture.as_ref(), &model.inputs()[0].ty, &options)?;
//! let noise = random_tensor(&model.inputs()[0].ty, 7)?;
//! assert_eq!(image.ty(), noise.ty());
//! # Ok::<(), tenon::Error>(())
//! ```

mod array;
mod image;
mod json;
mod picture;

pub(crate) use array::extension;
pub use array::{
    random_tensor, read_array, read_input, read_npz_inputs, read_npz_outputs, reshape_to_input,
};
pub use image::{ImageLayout, ImageOptions, read_image};
pub use json::read_json;
