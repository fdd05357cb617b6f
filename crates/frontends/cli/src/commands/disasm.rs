//! `tenon disasm`

use crate::flags::Disasm;
use crate::output;
use tenon::{Control, Error, ErrorKind, Location, Result, Source};

pub fn run(flags: &Disasm) -> Result<()> {
    let Source::Package(package) =
        Source::open(&flags.file, &flags.limits.limits(), &Control::new())?
    else {
        return Err(
            Error::new(ErrorKind::Usage, "this is a model, not a package")
                .help("compile it first: tenon compile MODEL.onnx")
                .at(Location::file(&flags.file)),
        );
    };
    let text = tenon::program_text(&package).map_err(|e| e.at(Location::file(&flags.file)))?;
    output::text(&text)
}
