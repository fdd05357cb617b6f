//! The pages of Triton's shared memory extensions over REST.

use crate::app::App;
use crate::shared_memory::{RegionSource, cuda_unsupported, no_cuda_region};
use crate::status::Refusal;
use hyper::Method;
use serde_json::{Value, json};

/// A page, by its path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SharedMemoryPage<'a> {
    memory: Memory,
    verb: Verb,
    region: Option<&'a str>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Memory {
    System,
    /// That of GPUs, of which nothing is ever registered.
    Cuda,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verb {
    Status,
    Register,
    Unregister,
}

impl<'a> SharedMemoryPage<'a> {
    /// The page of a path behind `/v2/`.
    pub fn of(parts: &[&'a str]) -> Option<Self> {
        let (memory, rest) = match parts {
            ["systemsharedmemory", rest @ ..] => (Memory::System, rest),
            ["cudasharedmemory", rest @ ..] => (Memory::Cuda, rest),
            _ => return None,
        };
        let (region, verb) = match *rest {
            [verb] => (None, verb),
            ["region", region, verb] => (Some(region), verb),
            _ => return None,
        };
        let verb = match verb {
            "status" => Verb::Status,
            "register" if region.is_some() => Verb::Register,
            "unregister" => Verb::Unregister,
            _ => return None,
        };
        Some(Self {
            memory,
            verb,
            region,
        })
    }

    /// Its method.
    pub fn method(self) -> Method {
        match self.verb {
            Verb::Status => Method::GET,
            Verb::Register | Verb::Unregister => Method::POST,
        }
    }

    /// Answers a request with this body.
    ///
    /// # Errors
    /// A malformed body; regions that are unknown, known or not allowed.
    pub fn answer(self, app: &App, body: &[u8]) -> Result<Value, Refusal> {
        let regions = &app.shared_memory;
        match (self.verb, self.memory) {
            (Verb::Status, Memory::System) => {
                let rows = regions.status(self.region)?.into_iter();
                let rows = rows.map(|(name, source)| {
                    json!({
                        "name": name,
                        "key": source.key,
                        "offset": source.offset,
                        "byte_size": source.byte_size,
                    })
                });
                Ok(rows.collect())
            }
            (Verb::Status, Memory::Cuda) => match self.region {
                None => Ok(json!([])),
                Some(region) => Err(no_cuda_region(region)),
            },
            (Verb::Register, Memory::System) => {
                let source: RegionSource = serde_json::from_slice(body).map_err(|error| {
                    Refusal::invalid(format!("the request is malformed: {error}"))
                })?;
                regions.register(self.region.unwrap_or_default(), source)?;
                Ok(json!({}))
            }
            (Verb::Register, Memory::Cuda) => Err(cuda_unsupported()),
            (Verb::Unregister, Memory::System) => {
                regions.unregister(self.region);
                Ok(json!({}))
            }
            (Verb::Unregister, Memory::Cuda) => Ok(json!({})),
        }
    }
}
