//! The methods of gRPC about shared memory, and their messages.

use super::messages::Empty;
use crate::app::App;
use crate::shared_memory::{RegionSource, no_cuda_region};
use crate::status::Refusal;
use prost::Message;
use std::collections::BTreeMap;

/// The requests for the status of regions, and to unregister them: of all, if the name is empty.
#[derive(Clone, PartialEq, Message)]
pub struct RegionRequest {
    #[prost(string, tag = "1")]
    pub name: String,
}

/// `SystemSharedMemoryRegisterRequest`, `SystemSharedMemoryStatusResponse.RegionStatus`.
#[derive(Clone, PartialEq, Message)]
pub struct RegionStatus {
    #[prost(string, tag = "1")]
    pub name: String,
    #[prost(string, tag = "2")]
    pub key: String,
    #[prost(uint64, tag = "3")]
    pub offset: u64,
    #[prost(uint64, tag = "4")]
    pub byte_size: u64,
}

/// `SystemSharedMemoryStatusResponse`; that of CUDA has no regions.
#[derive(Clone, PartialEq, Message)]
pub struct StatusResponse {
    #[prost(btree_map = "string, message", tag = "1")]
    pub regions: BTreeMap<String, RegionStatus>,
}

impl RegionRequest {
    fn region(&self) -> Option<&str> {
        Some(self.name.as_str()).filter(|name| !name.is_empty())
    }
}

/// `SystemSharedMemoryStatus`.
pub fn status(app: &App, request: &RegionRequest) -> Result<StatusResponse, Refusal> {
    let rows = app.shared_memory.status(request.region())?.into_iter();
    let regions = rows.map(|(name, source)| {
        let status = RegionStatus {
            name: name.clone(),
            key: source.key,
            offset: source.offset,
            byte_size: source.byte_size,
        };
        (name, status)
    });
    Ok(StatusResponse {
        regions: regions.collect(),
    })
}

/// `SystemSharedMemoryRegister`.
pub fn register(app: &App, request: RegionStatus) -> Result<Empty, Refusal> {
    let source = RegionSource {
        key: request.key,
        offset: request.offset,
        byte_size: request.byte_size,
    };
    app.shared_memory.register(&request.name, source)?;
    Ok(Empty {})
}

/// `SystemSharedMemoryUnregister`.
pub fn unregister(app: &App, request: &RegionRequest) -> Empty {
    app.shared_memory.unregister(request.region());
    Empty {}
}

/// `CudaSharedMemoryStatus`.
pub fn cuda_status(request: &RegionRequest) -> Result<StatusResponse, Refusal> {
    match request.region() {
        None => Ok(StatusResponse::default()),
        Some(region) => Err(no_cuda_region(region)),
    }
}
