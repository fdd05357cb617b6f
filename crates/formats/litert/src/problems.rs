//! The problems of a model, collected for one report.

use crate::model::{invalid, unsupported};
use tenon_base::{Error, Location};

/// The maximum number of listed problems; further ones are counted.
const LISTED: usize = 64;

/// The maximum length of a message, in bytes.
const LENGTH: usize = 512;

/// Problems, and what is not supported, with the number of nodes.
#[derive(Default)]
pub(crate) struct Problems {
    errors: Vec<Error>,
    unsupported: Vec<Unsupported>,
    not_listed: usize,
}

/// What several nodes need and is not supported.
struct Unsupported {
    message: String,
    count: usize,
    first: String,
}

impl Problems {
    /// Adds a problem.
    pub fn add(&mut self, error: Error) {
        if self.errors.len() < LISTED {
            self.errors.push(error);
        } else {
            self.not_listed += 1;
        }
    }

    /// Adds a node that is not supported.
    pub fn refuse(&mut self, mut message: String, node: &str) {
        // A name in it may have characters of several bytes.
        message.truncate(message.floor_char_boundary(LENGTH));
        let known = self.unsupported.iter_mut().find(|it| it.message == message);
        if let Some(row) = known {
            row.count += 1;
        } else if self.unsupported.len() < LISTED {
            self.unsupported.push(Unsupported {
                message,
                count: 1,
                first: node.to_owned(),
            });
        } else {
            self.not_listed += 1;
        }
    }

    /// All problems as one error.
    pub fn into_error(self) -> Option<Error> {
        let mut errors = self.errors;
        errors.extend(self.unsupported.iter().map(|row| {
            let nodes = match row.count {
                1 => String::new(),
                count => format!(" ({count} nodes, this first)"),
            };
            unsupported(format!("{}{nodes}", row.message)).at(Location::node(&row.first))
        }));
        if self.not_listed > 0 {
            let count = self.not_listed;
            errors.push(invalid(format!("{count} more problems are not listed")));
        }
        Error::from_all(errors)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_messages_are_cut_between_characters() {
        let mut problems = Problems::default();
        for name in ["é".repeat(400), format!("a{}", "é".repeat(400))] {
            problems.refuse(name, "node");
        }
        let text = problems.into_error().unwrap().to_string();
        assert_eq!(text.matches('é').count(), 256 + 255, "{text}");
    }
}
