//! Kernels of resources, shared objects, memory and the log.

use crate::failed;
use std::sync::{Arc, Mutex, PoisonError};
use tenon_base::Result;
use tenon_bef::Dense;
use tenon_executor::{Attr, Chain, Host, KernelDef, Opaque, Severity, kernel};
use tenon_kernels::host::DenseHostTensor;

pub(crate) fn kernels() -> Vec<KernelDef> {
    vec![
        kernel("tfrt_test.allocate_resource", |_: Chain, host: &Host| {
            (Holder(Mutex::new(Some(Resource::new(host)))), Chain)
        })
        .doc("A resource that prints when it is created and destroyed."),
        kernel(
            "tfrt_test.deallocate_resource",
            |holder: &Holder, _: Chain, host: &Host| {
                holder.release();
                host.print(format_args!("tfrt_test.deallocate_resource done\n"));
                Chain
            },
        )
        .doc("Releases the resource."),
        kernel(
            "tfrt_test.use_sample_shared_context",
            |_: Chain, host: &Host| {
                let sample = host.shared(|| SampleContext(format!("sample_shared_context{}", 0)));
                (sample.0.clone(), Chain)
            },
        )
        .doc("The name of the host's only object of its type."),
        kernel(
            "tfrt_test.memory_leak_one_int32",
            |host: &Host| -> Result<()> {
                let grant = host.allocator().grant(size_of::<i32>());
                grant.ok_or_else(|| failed("no memory to leak"))?.leak();
                Ok(())
            },
        )
        .doc("Allocates 4 bytes from the host's allocator and never frees them."),
        kernel(
            "tfrt_test.logging",
            |text: &String, _: Chain, host: &Host| {
                log(text, host);
                Chain
            },
        )
        .doc("Writes six lines to the log."),
        kernel(
            "tfrt_test.const_dense_attr",
            |value: Attr<Arc<Dense>>, host: &Host| {
                DenseHostTensor::from_attribute(host.allocator(), &value.0)
            },
        )
        .doc("A tensor of the attribute `value`."),
    ]
}

/// Prints when it is created and dropped.
struct Resource(Host);

impl Resource {
    fn new(host: &Host) -> Self {
        host.print(format_args!("Allocated TestResource\n"));
        Self(host.clone())
    }
}

impl Drop for Resource {
    fn drop(&mut self) {
        self.0.print(format_args!("Destroyed TestResource\n"));
    }
}

/// A resource, until it is released.
struct Holder(Mutex<Option<Resource>>);

impl Opaque for Holder {
    const TYPE: &'static str = "!tfrt.test.resource";
}

impl Holder {
    fn release(&self) {
        drop(self.0.lock().unwrap_or_else(PoisonError::into_inner).take());
    }
}

struct SampleContext(String);

fn log(text: &str, host: &Host) {
    let severities = [
        (Severity::Info, "INFO"),
        (Severity::Warning, "WARNING"),
        (Severity::Error, "ERROR"),
    ];
    for (severity, name) in severities {
        let text = format_args!("from TFRT_LOG({name}): {text}");
        host.log().write(severity, text);
    }
    for (severity, name) in severities {
        let text = format_args!("from TFRT_LOG_IF({name}, true): {text}");
        host.log().write(severity, text);
    }
}
