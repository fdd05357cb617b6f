#![allow(unsafe_code, reason = "calls of the C interface under test")]

use super::*;
use crate::{
    Allocators, Capability, Configure, CpuLevel, Lifecycle, NodeView, OptionDef, OptionSetting,
    Reason, Refusal, Workload, WorkloadPlan, WorkloadSpec,
};

/// A backend that supports no node; with an option, and with or without its device.
struct Idle {
    id: &'static str,
    threads: u64,
    there: bool,
}

impl Backend for Idle {
    fn id(&self) -> BackendId {
        BackendId::new(self.id)
    }

    fn description(&self) -> String {
        format!("idle on {} threads", self.threads)
    }

    fn capabilities(&self) -> Vec<Capability> {
        vec![Capability::new(
            PROTECTED_CONTENT,
            PropertyValue::Bool(self.threads > 1),
        )]
    }

    fn supports(&self, _: &NodeView<'_>) -> Result<(), Refusal> {
        Err(Reason::UnknownOperator.into())
    }

    fn plan(&self, _: &WorkloadSpec, _: CpuLevel) -> Result<WorkloadPlan> {
        Ok(WorkloadPlan::default())
    }

    fn workload(&self, _: &WorkloadSpec) -> Result<Box<dyn Workload>> {
        Err(Error::new(ErrorKind::Unsupported, "idle"))
    }

    fn configure(&self) -> Option<&dyn Configure> {
        Some(self)
    }

    fn allocators(&self) -> Option<&dyn Allocators> {
        Some(self)
    }

    fn lifecycle(&self) -> Option<&dyn Lifecycle> {
        Some(self)
    }
}

impl Configure for Idle {
    fn options(&self) -> Vec<OptionDef> {
        let option = |name: &'static str, scope, default| OptionDef {
            name: name.into(),
            scope,
            default,
            doc: "".into(),
        };
        vec![
            option("Threads", OptionScope::Model, PropertyValue::Unsigned(1)),
            option("Fast", OptionScope::Creation, PropertyValue::Bool(false)),
        ]
    }

    fn configured(&self, options: &[OptionSetting]) -> Result<Arc<dyn Backend>> {
        let PropertyValue::Unsigned(threads) = options[0].value else {
            return Err(Error::new(ErrorKind::Internal, "called with another kind"));
        };
        Ok(Arc::new(Idle { threads, ..*self }))
    }
}

impl Allocators for Idle {
    fn with_allocator(&self, _: Arc<dyn Allocator>) -> Result<Arc<dyn Backend>> {
        Ok(Arc::new(Idle { ..*self }))
    }
}

impl Lifecycle for Idle {
    fn context(&self, _: &CreationOptions) -> Result<Option<Box<dyn BackendContext>>> {
        if self.there {
            Ok(None)
        } else {
            Err(Error::new(ErrorKind::Unsupported, "no such device"))
        }
    }
}

fn registry(backends: &[(&'static str, bool)]) -> Registry {
    let mut registry = Registry::new();
    for &(id, there) in backends {
        registry
            .register(Arc::new(Idle {
                id,
                threads: 1,
                there,
            }))
            .unwrap();
    }
    registry
}

fn given(list: &[&str]) -> Vec<OptionAssignment> {
    list.iter().map(|text| text.parse().unwrap()).collect()
}

#[test]
fn names_must_be_new_and_not_reserved() {
    let mut all = registry(&[("A", true)]);
    for id in ["", "Unknown", "A"] {
        let again = Idle {
            id,
            threads: 1,
            there: true,
        };
        assert!(all.register(Arc::new(again)).is_err(), "{id}");
    }
    assert_eq!(all.names(), "A");
}

#[test]
fn deregistrations_are_counted_and_unknown_names_are_errors() {
    let mut all = registry(&[("A", true), ("B", true)]);
    all.deregister(&BackendId::new("A")).unwrap();
    assert_eq!(all.names(), "B");
    assert_eq!(all.changes(), (2, 1));
    assert_eq!(
        all.deregister(&BackendId::new("A"))
            .err()
            .unwrap()
            .to_string(),
        "no backend has this name: expected B, found A"
    );
}

#[test]
fn options_are_typed_and_all_problems_are_reported() {
    let mut all = registry(&[("A", true), ("B", true)]);
    all.configure(&given(&["B.Threads=4", "A.Fast=true"]))
        .unwrap();
    let describe =
        |registry: &Registry, id| registry.find(&BackendId::new(id)).unwrap().description();
    assert_eq!(describe(&all, "B"), "idle on 4 threads");
    assert_eq!(describe(&all, "A"), "idle on 1 threads");
    let error = all
        .configure(&given(&[
            "A.Threads=many",
            "A.Speed=1",
            "C.Threads=1",
            "B.Threads=2",
        ]))
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        "an option for an unknown backend: expected A, B, found C\n\
         option A.Threads: the value is of another kind: expected unsigned, found many\n\
         option A.Speed: the backend has no such option: expected Threads, Fast"
    );
    assert_eq!(describe(&all, "B"), "idle on 4 threads");
    assert!("A.Threads".parse::<OptionAssignment>().is_err());
}

#[test]
fn backends_without_device_or_protection_are_removed() {
    let mut all = registry(&[("A", true), ("B", false)]);
    let (contexts, refused) = all.start(&[], false);
    assert!(contexts.is_empty());
    assert_eq!(all.names(), "A");
    assert_eq!(refused[0].1.to_string(), "no such device");

    let mut all = registry(&[("A", true), ("B", true)]);
    all.configure(&given(&["B.Threads=2"])).unwrap();
    let (_, refused) = all.start(&[], true);
    assert_eq!(all.names(), "B");
    assert_eq!(
        refused[0].1.to_string(),
        "backend A cannot keep protected content: expected capability \
         ProtectedContentAllocation = true"
    );
}

/// An allocator of a memory source, which never allocates.
struct Empty(MemorySource);

impl Allocator for Empty {
    fn allocate(&self, _: usize, _: usize) -> Result<std::ptr::NonNull<u8>> {
        Err(Error::new(ErrorKind::OutOfMemory, "none"))
    }

    unsafe fn free(&self, _: std::ptr::NonNull<u8>) {}

    fn source(&self) -> MemorySource {
        self.0
    }
}

#[test]
fn protected_content_requires_protected_memory() {
    for (source, refusal) in [
        (MemorySource::DmaBufProtected, None),
        (
            MemorySource::Malloc,
            Some(
                "backend B cannot keep protected content: expected memory of source \
                 DmaBufProtected, found Malloc",
            ),
        ),
    ] {
        let mut all = registry(&[("B", true)]);
        all.configure(&given(&["B.Threads=2"])).unwrap();
        let id = BackendId::new("B");
        all.set_allocator(&id, Arc::new(Empty(source))).unwrap();
        let refusals: Vec<String> = all
            .remove_unprotected()
            .iter()
            .map(|(_, e)| e.to_string())
            .collect();
        assert_eq!(refusals.first().map(String::as_str), refusal);
        assert_eq!(all.find(&id).is_some(), refusal.is_none());
        assert!(
            all.set_allocator(&BackendId::new("C"), Arc::new(Empty(source)))
                .is_err()
        );
    }
}
