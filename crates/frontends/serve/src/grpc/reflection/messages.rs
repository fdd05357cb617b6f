//! The messages of `grpc.reflection.v1` and `v1alpha`, which are the same, with the field numbers of their published
//! definitions.

use bytes::Bytes;
use prost::{Message, Oneof};

/// `ServerReflectionRequest` of both versions.
#[derive(Clone, PartialEq, Message)]
pub struct ReflectionRequest {
    #[prost(string, tag = "1")]
    pub host: String,
    #[prost(oneof = "ReflectionQuery", tags = "3, 4, 5, 6, 7")]
    pub query: Option<ReflectionQuery>,
}

#[derive(Clone, PartialEq, Oneof)]
pub enum ReflectionQuery {
    #[prost(string, tag = "3")]
    FileByName(String),
    #[prost(string, tag = "4")]
    FileContainingSymbol(String),
    #[prost(message, tag = "5")]
    FileContainingExtension(ExtensionQuery),
    #[prost(string, tag = "6")]
    ExtensionTags(String),
    #[prost(string, tag = "7")]
    ListServices(String),
}

#[derive(Clone, PartialEq, Message)]
pub struct ExtensionQuery {
    #[prost(string, tag = "1")]
    pub containing_type: String,
    #[prost(int32, tag = "2")]
    pub number: i32,
}

/// `ServerReflectionResponse` of both versions.
#[derive(Clone, PartialEq, Message)]
pub struct ReflectionResponse {
    #[prost(string, tag = "1")]
    pub valid_host: String,
    #[prost(message, optional, tag = "2")]
    pub original_request: Option<ReflectionRequest>,
    #[prost(oneof = "ReflectionAnswer", tags = "4, 5, 6, 7")]
    pub answer: Option<ReflectionAnswer>,
}

#[derive(Clone, PartialEq, Oneof)]
pub enum ReflectionAnswer {
    #[prost(message, tag = "4")]
    Files(DescriptorFiles),
    #[prost(message, tag = "5")]
    Extensions(ReflectedExtensions),
    #[prost(message, tag = "6")]
    Services(ReflectedServices),
    #[prost(message, tag = "7")]
    Error(ReflectionError),
}

/// `FileDescriptorResponse`, which has the form of `google.protobuf.FileDescriptorSet`.
#[derive(Clone, PartialEq, Message)]
pub struct DescriptorFiles {
    #[prost(bytes = "bytes", repeated, tag = "1")]
    pub files: Vec<Bytes>,
}

#[derive(Clone, PartialEq, Message)]
pub struct ReflectedExtensions {
    #[prost(string, tag = "1")]
    pub base_type_name: String,
    #[prost(int32, repeated, tag = "2")]
    pub tags: Vec<i32>,
}

#[derive(Clone, PartialEq, Message)]
pub struct ReflectedServices {
    #[prost(message, repeated, tag = "1")]
    pub services: Vec<ReflectedName>,
}

/// A message of which the name is read.
#[derive(Clone, PartialEq, Message)]
pub struct ReflectedName {
    #[prost(string, tag = "1")]
    pub name: String,
}

#[derive(Clone, PartialEq, Message)]
pub struct ReflectionError {
    #[prost(int32, tag = "1")]
    pub code: i32,
    #[prost(string, tag = "2")]
    pub text: String,
}
