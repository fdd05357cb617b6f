//! Errors as data: kind, location, message, expected, found, help.
//!
//! `Display` starts with the location and is lower case; each part has an accessor.

use std::fmt;
use std::path::{Path, PathBuf};

/// The result of everything that can fail in Tenon.
pub type Result<T, E = Error> = std::result::Result<T, E>;

macro_rules! kinds {
    ($($(#[$doc:meta])* $name:ident, $text:literal, status $status:literal, exit $exit:literal;)*) => {
        /// The kind of an error. This table defines the statuses of the C interface and the exit
        /// statuses of the command line.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum ErrorKind {
            $($(#[$doc])* $name,)*
        }

        impl ErrorKind {
            /// Every kind, in table order.
            pub const ALL: &'static [ErrorKind] = &[$(ErrorKind::$name,)*];

            /// The description of the kind, lower case.
            pub fn description(self) -> &'static str {
                match self { $(ErrorKind::$name => $text,)* }
            }

            /// The `NRT_STATUS` that the C interface returns (nrt 1.3).
            pub fn nrt_status(self) -> i32 {
                match self { $(ErrorKind::$name => $status,)* }
            }

            /// The exit status of the `tenon` command: 1 failed, 2 wrong usage.
            pub fn exit_status(self) -> u8 {
                match self { $(ErrorKind::$name => $exit,)* }
            }
        }
    };
}

kinds! {
    /// The command line or a call is wrong: no file needs to change.
    Usage, "wrong usage", status 2, exit 2;
    /// An argument has a wrong type, shape, range or name.
    InvalidArgument, "invalid argument", status 2, exit 1;
    /// A source model (ONNX, netlist) is malformed.
    InvalidModel, "invalid model", status 2, exit 1;
    /// A package, or a member of it, is malformed.
    InvalidPackage, "invalid package", status 2, exit 1;
    /// A host program (BEF or MLIR text) is malformed.
    InvalidProgram, "invalid program", status 2, exit 1;
    /// Well-formed, but of a version or with a feature that this build does not support.
    UnsupportedVersion, "unsupported version", status 10, exit 1;
    /// Well-formed and known, but not supported here.
    Unsupported, "unsupported", status 2, exit 1;
    /// A file, member, tensor, backend or kernel of that name does not exist.
    NotFound, "not found", status 2, exit 1;
    /// A collection that the caller filled has no entry of that name.
    Absent, "absent", status 1, exit 1;
    /// An index read from data is outside of its tensor.
    OutOfBounds, "out of bounds", status 1006, exit 1;
    /// An input or output operation of the operating system failed.
    Io, "input or output failed", status 1, exit 1;
    /// Memory, or a limit on it, is exhausted.
    OutOfMemory, "out of memory", status 4, exit 1;
    /// A handle that was never issued, or that was released.
    InvalidHandle, "invalid handle", status 3, exit 1;
    /// The queue holds its maximum of requests.
    QueueFull, "queue full", status 7, exit 1;
    /// Fewer cores are free than the work needs.
    NotEnoughCores, "not enough cores", status 9, exit 1;
    /// The runtime was not started.
    Uninitialized, "not started", status 13, exit 1;
    /// The runtime was ended.
    Closed, "closed", status 14, exit 1;
    /// The queue is empty.
    QueueEmpty, "queue empty", status 15, exit 1;
    /// The inputs of an execution are unsuitable.
    BadInput, "bad input", status 1002, exit 1;
    /// A NaN check found a NaN.
    NotANumber, "not a number", status 1003, exit 1;
    /// The caller cancelled the work.
    Cancelled, "cancelled", status 1, exit 1;
    /// The caller's deadline passed.
    DeadlineExceeded, "deadline exceeded", status 5, exit 1;
    /// An executing kernel failed.
    ExecutionFailed, "execution failed", status 1004, exit 1;
    /// The device of a backend failed and computes nothing more.
    DeviceLost, "device lost", status 1202, exit 1;
    /// A defect of Tenon itself.
    Internal, "internal error", status 1, exit 1;
}

/// The location of an error: any of a file with line and column, a package member with field and
/// byte offset, and a node of a graph.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Location {
    /// Path of the file, as given by the user.
    pub file: Option<PathBuf>,
    /// Line, from 1.
    pub line: Option<u32>,
    /// Column, from 1.
    pub column: Option<u32>,
    /// Member of the package.
    pub member: Option<String>,
    /// Field inside the file or member, as a path (`nodes[3].name`).
    pub field: Option<String>,
    /// Byte offset inside the file or member.
    pub offset: Option<u64>,
    /// Node of the graph, or kernel of the program.
    pub node: Option<String>,
}

impl Location {
    /// The location of a file.
    pub fn file(path: impl AsRef<Path>) -> Self {
        Self {
            file: Some(path.as_ref().to_owned()),
            ..Self::default()
        }
    }

    /// The location of a package member.
    pub fn member(name: impl Into<String>) -> Self {
        Self {
            member: Some(name.into()),
            ..Self::default()
        }
    }

    /// The location of a node.
    pub fn node(name: impl Into<String>) -> Self {
        Self {
            node: Some(name.into()),
            ..Self::default()
        }
    }

    /// The location of a field.
    pub fn field(path: impl Into<String>) -> Self {
        Self {
            field: Some(path.into()),
            ..Self::default()
        }
    }

    /// The location of a byte offset.
    pub fn offset(offset: u64) -> Self {
        Self {
            offset: Some(offset),
            ..Self::default()
        }
    }

    /// Adds a line and column, both from 1.
    pub fn line_column(mut self, line: u32, column: u32) -> Self {
        self.line = Some(line);
        self.column = Some(column);
        self
    }

    fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Sets the parts that are absent from `outer`.
    fn within(&mut self, outer: Location) {
        self.file = self.file.take().or(outer.file);
        self.line = self.line.or(outer.line);
        self.column = self.column.or(outer.column);
        self.member = self.member.take().or(outer.member);
        self.field = self.field.take().or(outer.field);
        self.offset = self.offset.or(outer.offset);
        self.node = self.node.take().or(outer.node);
    }
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut separator = "";
        let mut part = |f: &mut fmt::Formatter<'_>, text: fmt::Arguments<'_>| {
            let result = write!(f, "{separator}{text}");
            separator = ": ";
            result
        };
        if let Some(file) = &self.file {
            match (self.line, self.column) {
                (Some(line), Some(column)) => {
                    part(f, format_args!("{}:{line}:{column}", file.display()))?
                }
                (Some(line), None) => part(f, format_args!("{}:{line}", file.display()))?,
                _ => part(f, format_args!("{}", file.display()))?,
            }
        }
        if let Some(member) = &self.member {
            part(f, format_args!("{member}"))?;
        }
        if let Some(field) = &self.field {
            part(f, format_args!("{field}"))?;
        }
        if let Some(offset) = self.offset {
            part(f, format_args!("byte {offset}"))?;
        }
        if let Some(node) = &self.node {
            part(f, format_args!("node '{node}'"))?;
        }
        if self.file.is_none()
            && let (Some(line), Some(column)) = (self.line, self.column)
        {
            part(f, format_args!("line {line}, column {column}"))?;
        }
        Ok(())
    }
}

/// An error: kind, location, message, expected and found values, help, the source error, and
/// further errors of the same input.
///
/// ```
/// use tenon_base::{Error, ErrorKind, Location};
/// let error = Error::new(ErrorKind::InvalidPackage, "the header is cut short")
///     .expected("1024 bytes")
///     .found("12")
///     .at(Location::file("model.neff"));
/// assert_eq!(
///     error.to_string(),
///     "model.neff: the header is cut short: expected 1024 bytes, found 12"
/// );
/// ```
pub struct Error(Box<Parts>);

struct Parts {
    kind: ErrorKind,
    location: Location,
    message: String,
    expected: Option<String>,
    found: Option<String>,
    help: Option<String>,
    source: Option<Box<dyn std::error::Error + Send + Sync>>,
    more: Vec<Error>,
}

impl Error {
    /// An error of `kind`; `message` is lower case and does not name the location.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self(Box::new(Parts {
            kind,
            location: Location::default(),
            message: message.into(),
            expected: None,
            found: None,
            help: None,
            source: None,
            more: Vec::new(),
        }))
    }

    /// An error of the operating system when doing `action` ("read", "write") on `path`.
    pub fn io(path: impl AsRef<Path>, action: &str, error: std::io::Error) -> Self {
        let kind = match error.kind() {
            std::io::ErrorKind::NotFound => ErrorKind::NotFound,
            std::io::ErrorKind::OutOfMemory => ErrorKind::OutOfMemory,
            _ => ErrorKind::Io,
        };
        Self::new(kind, format!("cannot {action}: {error}"))
            .at(Location::file(path))
            .source(error)
    }

    /// All errors of one input as one; `None` when there are none. Kind, location and message are
    /// those of the first.
    pub fn from_all(errors: impl IntoIterator<Item = Error>) -> Option<Self> {
        let mut errors = errors.into_iter();
        let mut first = errors.next()?;
        first.0.more.extend(errors);
        Some(first)
    }

    /// Adds the parts of `location` that are absent from this error and its further errors.
    pub fn at(mut self, location: Location) -> Self {
        for error in &mut self.0.more {
            error.0.location.within(location.clone());
        }
        self.0.location.within(location);
        self
    }

    /// Sets the expected value.
    pub fn expected(mut self, expected: impl fmt::Display) -> Self {
        self.0.expected = Some(expected.to_string());
        self
    }

    /// Sets the value found instead.
    pub fn found(mut self, found: impl fmt::Display) -> Self {
        self.0.found = Some(found.to_string());
        self
    }

    /// Sets the remedy, a full clause.
    pub fn help(mut self, help: impl Into<String>) -> Self {
        self.0.help = Some(help.into());
        self
    }

    /// Sets the underlying error.
    pub fn source(mut self, source: impl std::error::Error + Send + Sync + 'static) -> Self {
        self.0.source = Some(Box::new(source));
        self
    }

    /// The kind.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// The location.
    pub fn location(&self) -> &Location {
        &self.0.location
    }

    /// The message, without location, expected, found and help.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// The expected value.
    pub fn expected_text(&self) -> Option<&str> {
        self.0.expected.as_deref()
    }

    /// The value found instead.
    pub fn found_text(&self) -> Option<&str> {
        self.0.found.as_deref()
    }

    /// The remedy.
    pub fn help_text(&self) -> Option<&str> {
        self.0.help.as_deref()
    }

    /// This error and all further errors of the same input.
    pub fn all(&self) -> impl Iterator<Item = &Error> {
        // Depth first, so that nested collections keep their order.
        let mut stack = vec![self];
        std::iter::from_fn(move || {
            let error = stack.pop()?;
            stack.extend(error.0.more.iter().rev());
            Some(error)
        })
    }

    /// The text of this error without the further errors of [`Error::all`].
    pub fn single(&self) -> impl fmt::Display {
        struct Single<'a>(&'a Error);
        impl fmt::Display for Single<'_> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt_single(f)
            }
        }
        Single(self)
    }

    /// As [`single`](Self::single), without the location, for callers that report it separately.
    pub fn without_location(&self) -> impl fmt::Display {
        struct WithoutLocation<'a>(&'a Error);
        impl fmt::Display for WithoutLocation<'_> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt_without_location(f)
            }
        }
        WithoutLocation(self)
    }

    fn fmt_single(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.0.location.is_empty() {
            write!(f, "{}: ", self.0.location)?;
        }
        self.fmt_without_location(f)
    }

    fn fmt_without_location(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts = &*self.0;
        f.write_str(&parts.message)?;
        match (&parts.expected, &parts.found) {
            (Some(expected), Some(found)) => write!(f, ": expected {expected}, found {found}")?,
            (Some(expected), None) => write!(f, ": expected {expected}")?,
            (None, Some(found)) => write!(f, ": found {found}")?,
            (None, None) => {}
        }
        if let Some(help) = &parts.help {
            write!(f, "; {help}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, error) in self.all().enumerate() {
            if index > 0 {
                f.write_str("\n")?;
            }
            error.fmt_single(f)?;
        }
        Ok(())
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {self}", self.0.kind)
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.source.as_ref().map(|source| &**source as _)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn location_is_first_and_inner_parts_win() {
        let error = Error::new(ErrorKind::InvalidPackage, "not a number")
            .at(Location::field("nodes[3].shape"))
            .at(Location {
                field: Some("outer".into()),
                ..Location::member("neff.json")
            })
            .at(Location::file("a.neff"));
        assert_eq!(
            error.to_string(),
            "a.neff: neff.json: nodes[3].shape: not a number"
        );
        assert_eq!(error.without_location().to_string(), "not a number");
    }

    #[test]
    fn several_errors_are_lines() {
        let both = Error::from_all([
            Error::new(ErrorKind::InvalidModel, "one").at(Location::node("a")),
            Error::new(ErrorKind::Usage, "two"),
        ])
        .unwrap()
        .at(Location::file("m.onnx"));
        assert_eq!(both.kind(), ErrorKind::InvalidModel);
        assert_eq!(both.to_string(), "m.onnx: node 'a': one\nm.onnx: two");
        assert_eq!(both.all().count(), 2);
        assert!(Error::from_all([]).is_none());
    }

    #[test]
    fn every_kind_has_failing_statuses() {
        for kind in ErrorKind::ALL {
            assert_ne!(kind.nrt_status(), 0);
            assert_ne!(kind.exit_status(), 0);
            assert!(!kind.description().is_empty());
        }
    }
}
