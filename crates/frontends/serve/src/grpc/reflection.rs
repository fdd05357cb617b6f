//! `grpc.reflection.v1` and `v1alpha`: the definitions of the services, for clients without a copy of them.
//!
//! The definitions are `proto/*.proto`, compiled to `proto/descriptors.bin` as the first of them says.

mod messages;

use bytes::Bytes;
use messages::{
    DescriptorFiles, ReflectedExtensions, ReflectedName, ReflectedServices, ReflectionAnswer,
    ReflectionError, ReflectionQuery,
};
pub use messages::{ReflectionRequest, ReflectionResponse};
use prost::Message;
use std::collections::BTreeMap;
use std::sync::OnceLock;
use tonic::Code;

/// The definitions as a `FileDescriptorSet`.
static DESCRIPTORS: &[u8] = include_bytes!("../../proto/descriptors.bin");

/// The definitions by what clients request.
struct Definitions {
    /// The names of all services.
    services: Vec<String>,
    /// Each file by its name.
    files: BTreeMap<String, Bytes>,
    /// The file of each service, method, message and enumeration.
    symbols: BTreeMap<String, Bytes>,
}

/// Answers a request.
pub fn answer(request: ReflectionRequest) -> ReflectionResponse {
    let definitions = definitions();
    let found = |file: Option<&Bytes>, name: &str| match file {
        Some(file) => ReflectionAnswer::Files(DescriptorFiles {
            files: vec![file.clone()],
        }),
        None => unknown(name),
    };
    let answer = match &request.query {
        Some(ReflectionQuery::ListServices(_)) => {
            let services = definitions.services.iter();
            let services = services.map(|name| ReflectedName { name: name.clone() });
            ReflectionAnswer::Services(ReflectedServices {
                services: services.collect(),
            })
        }
        Some(ReflectionQuery::FileByName(name)) => found(definitions.files.get(name), name),
        Some(ReflectionQuery::FileContainingSymbol(name)) => {
            found(definitions.symbols.get(name), name)
        }
        // The definitions have no extensions.
        Some(ReflectionQuery::FileContainingExtension(extension)) => {
            unknown(&extension.containing_type)
        }
        Some(ReflectionQuery::ExtensionTags(name)) => match definitions.symbols.get(name) {
            Some(_) => ReflectionAnswer::Extensions(ReflectedExtensions {
                base_type_name: name.clone(),
                tags: Vec::new(),
            }),
            None => unknown(name),
        },
        None => ReflectionAnswer::Error(ReflectionError {
            code: Code::InvalidArgument as i32,
            text: "the request has no query".to_owned(),
        }),
    };
    ReflectionResponse {
        valid_host: request.host.clone(),
        original_request: Some(request),
        answer: Some(answer),
    }
}

fn unknown(name: &str) -> ReflectionAnswer {
    ReflectionAnswer::Error(ReflectionError {
        code: Code::NotFound as i32,
        text: format!("there is no definition of {name:?}"),
    })
}

fn definitions() -> &'static Definitions {
    static DEFINITIONS: OnceLock<Definitions> = OnceLock::new();
    DEFINITIONS.get_or_init(|| {
        let mut definitions = Definitions {
            services: Vec::new(),
            files: BTreeMap::new(),
            symbols: BTreeMap::new(),
        };
        // A test reads the file.
        let set = DescriptorFiles::decode(Bytes::from_static(DESCRIPTORS)).unwrap_or_default();
        for file in set.files {
            definitions.add(file);
        }
        definitions.services.sort();
        definitions
    })
}

impl Definitions {
    fn add(&mut self, bytes: Bytes) {
        let Ok(file) = FileDescriptor::decode(bytes.clone()) else {
            return;
        };
        let mut names: Vec<String> = Vec::new();
        let within = |name: &str| format!("{}.{name}", file.package);
        for message in &file.messages {
            message.add_names(within(&message.name), &mut names);
        }
        names.extend(file.enumerations.iter().map(|named| within(&named.name)));
        for service in &file.services {
            let name = within(&service.name);
            names.extend(
                service
                    .methods
                    .iter()
                    .map(|method| format!("{name}.{}", method.name)),
            );
            names.push(name.clone());
            self.services.push(name);
        }
        self.symbols
            .extend(names.into_iter().map(|name| (name, bytes.clone())));
        self.files.insert(file.name, bytes);
    }
}

/// The fields of `google.protobuf.FileDescriptorProto` that have names.
#[derive(Clone, PartialEq, Message)]
struct FileDescriptor {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(string, tag = "2")]
    package: String,
    #[prost(message, repeated, tag = "4")]
    messages: Vec<MessageDescriptor>,
    #[prost(message, repeated, tag = "5")]
    enumerations: Vec<ReflectedName>,
    #[prost(message, repeated, tag = "6")]
    services: Vec<ServiceDescriptor>,
}

/// Of `DescriptorProto`.
#[derive(Clone, PartialEq, Message)]
struct MessageDescriptor {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(message, repeated, tag = "3")]
    nested: Vec<MessageDescriptor>,
    #[prost(message, repeated, tag = "4")]
    enumerations: Vec<ReflectedName>,
}

/// Of `ServiceDescriptorProto`.
#[derive(Clone, PartialEq, Message)]
struct ServiceDescriptor {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(message, repeated, tag = "2")]
    methods: Vec<ReflectedName>,
}

impl MessageDescriptor {
    fn add_names(&self, name: String, names: &mut Vec<String>) {
        for nested in &self.nested {
            nested.add_names(format!("{name}.{}", nested.name), names);
        }
        names.extend(
            self.enumerations
                .iter()
                .map(|named| format!("{name}.{}", named.name)),
        );
        names.push(name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answered(query: ReflectionQuery) -> ReflectionAnswer {
        let request = ReflectionRequest {
            host: "here".into(),
            query: Some(query),
        };
        let response = answer(request.clone());
        assert_eq!(
            (&*response.valid_host, response.original_request),
            ("here", Some(request))
        );
        response.answer.unwrap()
    }

    #[test]
    fn services_and_their_files_are_listed() {
        let ReflectionAnswer::Services(services) =
            answered(ReflectionQuery::ListServices("".into()))
        else {
            panic!("no list")
        };
        let names: Vec<&str> = services
            .services
            .iter()
            .map(|service| &*service.name)
            .collect();
        let expected = [
            "grpc.health.v1.Health",
            "grpc.reflection.v1.ServerReflection",
            "grpc.reflection.v1alpha.ServerReflection",
            "inference.GRPCInferenceService",
        ];
        assert_eq!(names, expected);
        let by_name = answered(ReflectionQuery::FileByName("inference.proto".into()));
        assert!(matches!(&by_name, ReflectionAnswer::Files(some) if some.files.len() == 1));
        for symbol in [
            "inference.GRPCInferenceService",
            "inference.GRPCInferenceService.ModelStreamInfer",
            "inference.ModelInferRequest",
            "inference.DataType",
        ] {
            let query = ReflectionQuery::FileContainingSymbol(symbol.into());
            assert_eq!(answered(query), by_name, "{symbol}");
        }
        let unknown = answered(ReflectionQuery::FileContainingSymbol(
            "inference.None".into(),
        ));
        assert!(matches!(unknown, ReflectionAnswer::Error(error) if error.code == 5));
    }
}
