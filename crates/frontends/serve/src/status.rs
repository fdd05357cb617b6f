//! Why a request is refused: one table of HTTP statuses, gRPC codes and reasons of metrics.

use std::fmt;
use tenon::{Error, ErrorKind};
use tonic::Code;

macro_rules! statuses {
    ($($(#[$doc:meta])* $name:ident, http $http:literal, grpc $grpc:ident, reason $reason:literal;)*) => {
        /// The status of a refused request.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        #[non_exhaustive]
        pub enum Status {
            $($(#[$doc])* $name,)*
        }

        impl Status {
            /// Every status, in table order.
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];

            /// The status of HTTP.
            pub fn http(self) -> u16 {
                match self { $(Self::$name => $http,)* }
            }

            /// The status code of gRPC.
            pub fn grpc(self) -> Code {
                match self { $(Self::$name => Code::$grpc,)* }
            }

            /// The label `reason` of metrics.
            pub fn reason(self) -> &'static str {
                match self { $(Self::$name => $reason,)* }
            }
        }
    };
}

statuses! {
    /// Malformed, or it does not fit the model.
    Invalid, http 400, grpc InvalidArgument, reason "invalid";
    /// No token, or an unknown one.
    Unauthenticated, http 401, grpc Unauthenticated, reason "unauthenticated";
    /// The server does not allow it.
    Forbidden, http 403, grpc PermissionDenied, reason "forbidden";
    /// No model, version or page of that name.
    NotFound, http 404, grpc NotFound, reason "not_found";
    /// The page has other methods.
    Method, http 405, grpc Unimplemented, reason "method";
    /// Something of that name exists already.
    Exists, http 409, grpc AlreadyExists, reason "exists";
    /// The body came too slowly.
    SlowBody, http 408, grpc DeadlineExceeded, reason "slow_body";
    /// More bytes than the server accepts.
    TooLarge, http 413, grpc ResourceExhausted, reason "too_large";
    /// A content encoding that the server does not read.
    Encoding, http 415, grpc Unimplemented, reason "encoding";
    /// The request names another host.
    Misdirected, http 421, grpc PermissionDenied, reason "misdirected";
    /// Too many requests, or too many bytes of them, are waiting.
    QueueFull, http 429, grpc ResourceExhausted, reason "queue_full";
    /// More requests in a second than the model takes.
    RateLimited, http 429, grpc ResourceExhausted, reason "rate";
    /// The caller cancelled it. HTTP has no status for that: the connection is closed.
    Cancelled, http 499, grpc Cancelled, reason "cancelled";
    /// The execution failed.
    Internal, http 500, grpc Internal, reason "failed";
    /// A part of the protocol that the server lacks.
    Unsupported, http 501, grpc Unimplemented, reason "unsupported";
    /// The server starts or ends, or the model is not loaded.
    Unavailable, http 503, grpc Unavailable, reason "unavailable";
    /// The deadline passed, in the queue or during the execution.
    DeadlineExceeded, http 504, grpc DeadlineExceeded, reason "deadline";
}

/// A refused request: the status, and a sentence for the caller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// The status.
    pub status: Status,
    /// What is wrong, and what to do.
    pub text: String,
}

impl Refusal {
    /// A refusal with a sentence.
    pub fn new(status: Status, text: impl Into<String>) -> Self {
        Self {
            status,
            text: text.into(),
        }
    }

    /// A request that is malformed or does not fit the model.
    pub fn invalid(text: impl Into<String>) -> Self {
        Self::new(Status::Invalid, text)
    }

    /// The same refusal with the place in the request before its sentence.
    #[must_use]
    pub fn at(mut self, place: impl fmt::Display) -> Self {
        self.text = format!("{place}: {}", self.text);
        self
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// An error of an execution.
impl From<Error> for Refusal {
    fn from(error: Error) -> Self {
        let status = match error.kind() {
            ErrorKind::Usage
            | ErrorKind::InvalidArgument
            | ErrorKind::NotFound
            | ErrorKind::Absent
            | ErrorKind::OutOfBounds
            | ErrorKind::BadInput => Status::Invalid,
            ErrorKind::Unsupported => Status::Unsupported,
            ErrorKind::OutOfMemory => Status::TooLarge,
            ErrorKind::QueueFull => Status::QueueFull,
            ErrorKind::Cancelled => Status::Cancelled,
            ErrorKind::DeadlineExceeded => Status::DeadlineExceeded,
            ErrorKind::Closed => Status::Unavailable,
            _ => Status::Internal,
        };
        let problems: Vec<String> = error
            .all()
            .map(|problem| problem.single().to_string())
            .collect();
        Self::new(status, problems.join("; "))
    }
}

impl From<Refusal> for tonic::Status {
    fn from(refusal: Refusal) -> Self {
        tonic::Status::new(refusal.status.grpc(), refusal.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overload_is_never_unavailable() {
        // kserve's client repeats calls that are UNAVAILABLE, which would make an overload worse.
        let unavailable = Status::ALL
            .iter()
            .filter(|status| status.grpc() == Code::Unavailable);
        assert_eq!(unavailable.collect::<Vec<_>>(), [&Status::Unavailable]);
        assert_eq!(Status::QueueFull.grpc(), Code::ResourceExhausted);
    }

    #[test]
    fn errors_of_executions_have_statuses() {
        let of = |kind| Refusal::from(Error::new(kind, "x")).status;
        assert_eq!(of(ErrorKind::BadInput), Status::Invalid);
        assert_eq!(of(ErrorKind::DeadlineExceeded), Status::DeadlineExceeded);
        assert_eq!(of(ErrorKind::ExecutionFailed), Status::Internal);
        let two = [ErrorKind::BadInput; 2].map(|kind| Error::new(kind, "bad"));
        let both = Error::from_all(two).expect("two errors");
        assert_eq!(Refusal::from(both).text, "bad; bad");
    }
}
