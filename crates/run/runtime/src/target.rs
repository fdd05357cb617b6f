//! The devices that a package was compiled for, compared with those of the runtime.

use std::collections::BTreeMap;
use tenon_backend::Registry;
use tenon_base::{Error, ErrorKind, Result, escape_controls};

/// Checks that available backends have the devices of `targets`, by backend. All that differ are reported together.
/// Nodes of an unavailable backend become those of another one, which prepares nothing.
pub(crate) fn check_targets(targets: &BTreeMap<String, String>, backends: &Registry) -> Result<()> {
    let problems = targets.iter().filter_map(|(id, of_package)| {
        let backend = backends.find(&id.clone().into())?;
        let of_device = backend.target();
        if of_device.as_ref() == Some(of_package) {
            return None;
        }
        let of_device = match &of_device {
            Some(target) => format!("'{}'", escape_controls(target)),
            None => "none, since this version of the backend states no target".to_owned(),
        };
        let of_package = escape_controls(of_package);
        let text = format!("the package was compiled for another device of backend {id}");
        let help = format!(
            "compile the model again on this machine, or run the package where {id} has the target '{of_package}'"
        );
        let error = Error::new(ErrorKind::Unsupported, text)
            .expected(format_args!("target '{of_package}', as in the package"))
            .found(of_device)
            .help(help);
        Some(error)
    });
    Error::from_all(problems.collect::<Vec<_>>()).map_or(Ok(()), Err)
}
