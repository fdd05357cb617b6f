//! Memory of backends that a model needs, compared with the limits of a load.

use crate::LoadOptions;
use tenon_backend::{BackendId, Registry};
use tenon_base::{Error, Location, Result};
use tenon_kernels::DeviceMemory;

/// A limit on the memory of a backend in bytes, for one model.
pub type DeviceMemoryLimit = (BackendId, u64);

/// Checks that the limits are those of known backends.
pub(crate) fn check_names(limits: &[DeviceMemoryLimit], backends: &Registry) -> Result<()> {
    let place = || Location::field("device memory limits");
    let unknown = limits.iter().filter(|(id, _)| backends.find(id).is_none());
    let errors = unknown.map(|(id, _)| backends.unknown(id).at(place()));
    Error::from_all(errors.collect::<Vec<_>>()).map_or(Ok(()), Err)
}

/// The most concurrent executions with which `memory` is within the limits of `options`, and its `max_in_flight`.
///
/// # Errors
/// The workloads, and the executions for which memory is allocated when loading, need more.
pub(crate) fn max_executions(memory: &[DeviceMemory], options: &LoadOptions) -> Result<usize> {
    let ready = options.in_flight.max(1);
    let mut most = options.max_in_flight;
    let mut errors = Vec::new();
    for (id, limit) in &options.device_memory_limits {
        let Some(needed) = memory.iter().find(|memory| memory.backend == *id) else {
            continue;
        };
        let bytes = needed.bytes(ready);
        if bytes > *limit {
            errors.push(needed.exceeds(ready, *limit));
        } else if let Some(fitting) =
            (limit - needed.workload_bytes).checked_div(needed.value_bytes)
        {
            most = most.min(usize::try_from(fitting).unwrap_or(usize::MAX));
        }
    }
    Error::from_all(errors).map_or(Ok(most), Err)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tenon_base::ErrorKind;

    fn memory(value_bytes: u64, workload_bytes: u64) -> Vec<DeviceMemory> {
        vec![DeviceMemory {
            backend: "Dev".into(),
            value_bytes,
            workload_bytes,
        }]
    }

    fn options(limit: u64) -> LoadOptions {
        LoadOptions {
            in_flight: 2,
            max_in_flight: 8,
            device_memory_limits: vec![("Other".into(), 0), ("Dev".into(), limit)],
            ..LoadOptions::default()
        }
    }

    #[test]
    fn executions_are_as_many_as_fit_the_limit() {
        let most = |limit| max_executions(&memory(100, 1000), &options(limit));
        assert_eq!(most(1000 + 8 * 100).unwrap(), 8);
        assert_eq!(most(1000 + 3 * 100 + 99).unwrap(), 3);
        assert_eq!(most(1200).unwrap(), 2);
        let error = most(1199).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::OutOfMemory);
        let text = error.to_string();
        for part in [
            "backend Dev",
            "at most 1199 bytes",
            "1200 bytes",
            "workloads 1.0 kB",
        ] {
            assert!(text.contains(part), "{text}");
        }
    }

    #[test]
    fn workloads_alone_limit_no_executions() {
        assert_eq!(max_executions(&memory(0, 1000), &options(1000)).unwrap(), 8);
        assert_eq!(max_executions(&[], &options(0)).unwrap(), 8);
        assert!(max_executions(&memory(u64::MAX, u64::MAX), &options(1000)).is_err());
    }
}
