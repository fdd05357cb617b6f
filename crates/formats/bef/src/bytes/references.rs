//! The attribute names of function references.
//!
//! BEF stores the references without their names, and TFRT decodes each as `callee` (bef 1.8).
//! Here the names are inferred from the kernel; where the inferred names would be wrong, they are
//! stored in Tenon's own section.

use crate::Name;

/// The inferred names of the references of a kernel called `kernel`; `true` for a region.
pub(crate) fn inferred_names(kernel: &str, regions: &[bool]) -> Vec<Name> {
    let count = regions.iter().filter(|region| !**region).count();
    let known: &[&str] = match kernel {
        "tfrt.cond" => &["a_true_fn", "b_false_fn"],
        "tfrt.case" => &["branches[]"],
        "tfrt.while" => &["body_fn"],
        "tfrt.once" => &["function"],
        _ if count > 1 => &["callee[]"],
        _ => &["callee"],
    };
    let mut references = 0;
    regions
        .iter()
        .map(|region| {
            if *region {
                return Name::default();
            }
            references += 1;
            known
                .get(references - 1)
                .or(known.last())
                .copied()
                .unwrap_or("callee")
                .into()
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inferred_names_are_those_of_the_dialect() {
        assert_eq!(
            inferred_names("tfrt.cond", &[false, false]),
            ["a_true_fn", "b_false_fn"]
        );
        assert_eq!(inferred_names("tfrt.case", &[false; 3]), ["branches[]"; 3]);
        assert_eq!(inferred_names("tfrt.call", &[false]), ["callee"]);
        assert_eq!(inferred_names("tfrt.if", &[true, true]), ["", ""]);
    }
}
