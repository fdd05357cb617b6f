//! Kernels that report their location or thread.

use crate::failed;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, ThreadId};
use tenon_base::Result;
use tenon_bef::KernelLocation;
use tenon_executor::{Chain, Frame, Host, Kernel, KernelDef, Signature, Value, kernel};

pub(crate) fn kernels() -> Vec<KernelDef> {
    let chain = || Signature {
        results: vec!["!tfrt.chain"],
        ..Signature::default()
    };
    let chain_to_chain = Signature {
        operands: vec!["!tfrt.chain"],
        ..chain()
    };
    vec![
        KernelDef::new("tfrt_test.unique_loc", chain(), |site| {
            let name = site.attributes().string("name")?.into();
            Ok(Box::new(UniqueLocation(name)))
        })
        .doc("An error when a kernel of another `name` has the same id."),
        KernelDef::new("tfrt_test.print_debug_info", chain_to_chain, |_| {
            Ok(Box::new(PrintDebugInfo))
        })
        .doc("Prints the name that the kernel's location gives it."),
        kernel("tfrt_test.get_thread_id", |_: Chain, host: &Host| {
            thread_number(host)
        })
        .doc("The number of the thread, in the order of first calls."),
    ]
}

/// The name of the kernel of each id.
#[derive(Default)]
struct LocationNames(Mutex<HashMap<u64, Arc<str>>>);

struct UniqueLocation(Arc<str>);

impl Kernel for UniqueLocation {
    fn run(&self, frame: &mut Frame<'_>) -> Result<()> {
        let id = frame.kernel_id();
        let names = frame.host().shared(LocationNames::default);
        let mut names = names.0.lock().unwrap_or_else(PoisonError::into_inner);
        let name = names.entry(id).or_insert_with(|| self.0.clone());
        if *name != self.0 {
            return Err(failed(format!("duplicate locations {id}")));
        }
        frame.set(0, Value::Chain);
        Ok(())
    }
}

struct PrintDebugInfo;

impl Kernel for PrintDebugInfo {
    fn run(&self, frame: &mut Frame<'_>) -> Result<()> {
        let name = debug_name(frame.location());
        let name = name.as_deref().unwrap_or("Kernel has no debug info");
        frame.host().print(format_args!("{name}\n"));
        frame.set(0, Value::Chain);
        Ok(())
    }
}

/// The name that a location gives a kernel (bef 1.7).
fn debug_name(location: &KernelLocation) -> Option<String> {
    match location {
        KernelLocation::Name { name, .. } => Some(name.to_string()),
        KernelLocation::Fused(parts) => {
            let names = parts.iter().filter_map(|part| match part {
                KernelLocation::Name { name, .. } => Some(&**name),
                _ => None,
            });
            Some(names.collect())
        }
        KernelLocation::CallSite { callee, .. } => match &**callee {
            KernelLocation::Name { name, .. } => Some(name.to_string()),
            _ => None,
        },
        _ => None,
    }
}

/// Threads in the order of their first calls.
#[derive(Default)]
struct Threads(Mutex<Vec<ThreadId>>);

fn thread_number(host: &Host) -> i32 {
    let threads = host.shared(Threads::default);
    let mut threads = threads.0.lock().unwrap_or_else(PoisonError::into_inner);
    let current = thread::current().id();
    let known = threads.iter().position(|&id| id == current);
    let number = known.unwrap_or_else(|| {
        threads.push(current);
        threads.len() - 1
    });
    i32::try_from(number).unwrap_or(i32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(name: &str) -> KernelLocation {
        KernelLocation::Name {
            name: name.into(),
            child: Box::new(KernelLocation::Unknown),
        }
    }

    #[test]
    fn debug_names_are_read_from_locations() {
        let file = || KernelLocation::FileLineCol {
            file: "bar.py".into(),
            line: 42,
            column: 314,
        };
        let call = |callee, caller| KernelLocation::CallSite {
            callee: Box::new(callee),
            caller: Box::new(caller),
        };
        let fused = KernelLocation::Fused;
        let text = |location: &KernelLocation| debug_name(location);
        assert_eq!(text(&named("a/b")).as_deref(), Some("a/b"));
        assert_eq!(
            text(&fused(vec![named("foo"), named("bar")])).as_deref(),
            Some("foobar")
        );
        assert_eq!(
            text(&fused(vec![file(), named("bar")])).as_deref(),
            Some("bar")
        );
        assert_eq!(text(&fused(vec![file()])).as_deref(), Some(""));
        assert_eq!(text(&call(named("foo"), file())).as_deref(), Some("foo"));
        assert_eq!(text(&call(file(), named("foo"))), None);
        assert_eq!(text(&file()), None);
        assert_eq!(text(&KernelLocation::Unknown), None);
    }
}
