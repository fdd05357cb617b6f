//! Netlists and device descriptions from files.

use crate::files::{is_standard_stream, read_standard_input};
use std::path::Path;
use tenon_base::{Error, ErrorKind, Location, Result};
use tenon_netlist::{Arch, Device, Netlist, Source, Word};

/// The text of the netlist in a file; `-` is standard input.
pub fn read_source(path: impl AsRef<Path>) -> Result<Source> {
    let mut path = path.as_ref();
    let bytes = if is_standard_stream(path) {
        let (bytes, name) = read_standard_input()?;
        path = Path::new(name);
        bytes
    } else {
        std::fs::read(path).map_err(|error| Error::io(path, "read", error))?
    };
    let text = String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to() as u64;
        Error::new(ErrorKind::InvalidModel, "this is no text")
            .expected("UTF-8")
            .at(Location {
                offset: Some(at),
                ..Location::file(path)
            })
    })?;
    Ok(Source::new(path, text))
}

/// The architecture that a netlist runs on: the one given, else of several the one that the variable
/// `ARCH_NAME` names (netlist 2.1); `None` for the netlist's first.
pub fn choose_arch(netlist: &Netlist, given: Option<Arch>) -> Result<Option<Arch>> {
    let named = std::env::var_os("ARCH_NAME").filter(|name| !name.is_empty());
    let named = named.filter(|_| given.is_none() && netlist.arch.len() > 1);
    let Some(name) = named else {
        return Ok(given);
    };
    let unknown = || {
        Error::new(
            ErrorKind::Usage,
            "the variable ARCH_NAME names no architecture",
        )
        .expected(Arch::choices())
        .found(name.to_string_lossy())
    };
    let arch = name.to_str().and_then(Arch::from_word);
    arch.map(Some).ok_or_else(unknown)
}

/// The device of a name, or the one that a file describes.
pub fn find_device(name: &str) -> Result<Device> {
    if let Some(device) = Device::find(name) {
        return Ok(device);
    }
    let known: Vec<String> = Device::built_in()
        .into_iter()
        .map(|device| device.name)
        .collect();
    if !Path::new(name).is_file() {
        let expected = format!("a file that describes one, or one of {}", known.join(", "));
        return Err(Error::new(ErrorKind::Usage, "unknown device")
            .expected(expected)
            .found(name));
    }
    let source = read_source(name)?;
    Device::read(&source).map_err(|finding| finding.to_error(&source))
}
