//! `tenon disasm`

use crate::flags::Disasm;
use crate::output;
use tenon::{Error, ErrorKind, Location, ModelFile, OpenOptions, Result};

pub fn run(flags: &Disasm) -> Result<()> {
    let options = OpenOptions::new().limits(flags.limits.limits());
    let ModelFile::Package(package) = options.open(&flags.file)? else {
        return Err(
            Error::new(ErrorKind::Usage, "this is a model, not a package")
                .help("compile it first: tenon compile MODEL.onnx")
                .at(Location::file(&flags.file)),
        );
    };
    let text =
        tenon::inspect::program_text(&package).map_err(|e| e.at(Location::file(&flags.file)))?;
    output::text(&text)
}
