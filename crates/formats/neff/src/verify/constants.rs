//! The rules of constants, the members of `file` variables.

use super::{Check, Part};
use crate::{Constant, KeyPath, VariableKind, rule};
use tenon_base::Result;

/// The rules of constants.
pub(super) fn constants(check: &mut Check<'_>, part: &Part<'_>) -> Result<()> {
    let member = &*part.subgraph.member;
    for (name, stored) in part.subgraph.definition.var.iter() {
        let (VariableKind::File, Some(file)) = (stored.kind, &stored.file_name) else {
            continue;
        };
        check.control.check()?;
        let place = KeyPath::default().key("var").key(name).key("file_name");
        let file = part.subgraph.file(file);
        let Some(bytes) = check.package.member(&file) else {
            check.report(&rule::MEMBER_MISSING, member, place, format!("'{file}'"));
            continue;
        };
        let constant = match Constant::read(&file, &bytes) {
            Ok(constant) => constant,
            Err(error) => {
                let detail = error.without_location().to_string();
                check.report(&rule::VAR_NPY, &file, KeyPath::default(), detail);
                continue;
            }
        };
        let found = constant.bytes().len() as u64;
        if let Some(size) = stored.size.filter(|&size| size != found) {
            let detail = format!("expected {size} bytes, found {found} in '{file}'");
            check.report(&rule::VAR_FILE_SIZE, member, place, detail);
        }
    }
    Ok(())
}
