//! The names under which kernels hold function references.
//!
//! BEF keeps the references but not their names, and the original reads every one back as
//! `callee` (facts 1.8). Here the names are guessed from the kernel, and where the guess would be
//! wrong they are kept in a section of our own.

use crate::Name;

/// The names of the references of a kernel called `kernel`, each given whether it is a region.
pub(crate) fn guessed_names(kernel: &str, regions: &[bool]) -> Vec<Name> {
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
    fn names_are_those_of_the_dialect() {
        assert_eq!(
            guessed_names("tfrt.cond", &[false, false]),
            ["a_true_fn", "b_false_fn"]
        );
        assert_eq!(guessed_names("tfrt.case", &[false; 3]), ["branches[]"; 3]);
        assert_eq!(guessed_names("tfrt.call", &[false]), ["callee"]);
        assert_eq!(guessed_names("tfrt.if", &[true, true]), ["", ""]);
    }
}
