//! Classifies a picture: `cargo run -p tenon --example classify [MODEL.onnx PICTURE]`.
//!
//! The default is the digits model of the repository. Labels and the scaling of pictures come from
//! the model's metadata.

#![allow(clippy::print_stdout, reason = "an example prints its results")]

use std::path::{Path, PathBuf};
use tenon::inputs::{ImageOptions, read_image};
use tenon::outputs::{Class, class_labels, top_classes};
use tenon::{Compiler, Error, ErrorKind, LoadOptions, Result};

/// The three classes with the highest scores.
pub fn classify(onnx: &Path, picture: &Path) -> Result<Vec<Class>> {
    let model = Compiler::new()
        .compile_file(onnx)?
        .load(&LoadOptions::new())?;
    let input = &model.inputs()[0];
    let options = ImageOptions::from_metadata(model.metadata())?;
    let image = read_image(picture, &input.ty, &options)?;
    let outputs = model.run(&[(&input.name, &image)])?;
    let labels = class_labels(model.metadata());
    top_classes(&outputs[0], labels.as_deref(), 3)?.ok_or_else(|| {
        Error::new(ErrorKind::Unsupported, "the output is no vector of scores")
            .found(outputs[0].ty())
    })
}

fn main() -> Result<()> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../models/digits");
    let mut arguments = std::env::args_os().skip(1).map(PathBuf::from);
    let onnx = arguments.next();
    let picture = arguments.next();
    let onnx = onnx.unwrap_or_else(|| folder.join("digits.onnx"));
    let picture = picture.unwrap_or_else(|| folder.join("seven.png"));
    for class in classify(&onnx, &picture)? {
        println!("{:8} {}", class.label, class.value);
    }
    Ok(())
}
