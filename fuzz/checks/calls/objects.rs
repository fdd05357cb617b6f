//! The handles of a case: live ones, freed ones, and values that are none.

use std::ffi::{CString, c_void};
use std::rc::Rc;

/// A handle in C.
pub type Handle = *mut c_void;

/// A kind of object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Status,
    Task,
    Package,
    Model,
    Outputs,
    Bindings,
    Session,
    Run,
    Blob,
}

/// An input or output of a model.
pub struct PortInfo {
    pub name: CString,
    pub code: i32,
    /// -1 for a size that is not fixed.
    pub extents: Vec<i64>,
    pub symbols: Vec<CString>,
}

/// What later calls need to know of an object.
#[derive(Clone, Default)]
pub struct Origin {
    /// Its executions end without a deadline.
    pub ends: bool,
    /// Inputs and outputs.
    pub ports: [Rc<[PortInfo]>; 2],
}

/// An object that a call returned.
pub struct Object {
    pub kind: Kind,
    pub handle: Handle,
    pub is_live: bool,
    pub origin: Origin,
}

/// A handle as an argument.
pub struct Argument {
    pub handle: Handle,
    /// It is a live object of the kind that the function takes.
    pub is_live: bool,
    pub origin: Origin,
}

/// All objects of a case.
#[derive(Default)]
pub struct Objects(pub Vec<Object>);

impl Objects {
    pub fn add(&mut self, kind: Kind, handle: Handle, origin: Origin) {
        let known = |object: &Object| object.handle == handle;
        assert!(
            !handle.is_null() && !self.0.iter().any(known),
            "a new handle was used before"
        );
        self.0.push(Object {
            kind,
            handle,
            is_live: true,
            origin,
        });
    }

    /// Live objects of a kind, the latest first.
    pub fn live(&self, kind: Kind) -> impl Iterator<Item = &Object> {
        let all = self.0.iter().rev();
        all.filter(move |object| object.is_live && object.kind == kind)
    }

    /// Any value as the handle of a kind.
    pub fn argument(&self, kind: Kind, handle: Handle) -> Argument {
        let found = self.live(kind).find(|object| object.handle == handle);
        Argument {
            handle,
            is_live: found.is_some(),
            origin: found
                .map(|object| object.origin.clone())
                .unwrap_or_default(),
        }
    }

    /// Records that an object was freed.
    pub fn freed(&mut self, handle: Handle) {
        let object = self.0.iter_mut().find(|object| object.handle == handle);
        object.expect("an object that was freed was made").is_live = false;
    }
}
