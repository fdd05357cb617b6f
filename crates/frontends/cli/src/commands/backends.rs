//! `tenon backends`

use crate::flags::Backends;
use crate::output::{self, say};
use crate::table::Table;
use serde_json::json;
use tenon::Result;
use tenon::backends::{OptionDef, PropertyValue, Tolerance};

pub fn run(flags: &Backends) -> Result<()> {
    let registry = super::load::backends(&flags.loading)?;
    if flags.json {
        let list: Vec<_> = registry
            .iter()
            .map(|backend| {
                let capabilities: serde_json::Map<_, _> = backend
                    .capabilities()
                    .into_iter()
                    .map(|capability| {
                        let value = value(&capability.value);
                        (capability.name.into_owned(), value)
                    })
                    .collect();
                let options: Vec<_> = backend.options().iter().map(option).collect();
                json!({
                    "id": backend.id().as_str(),
                    "library": backend.library(),
                    "options": options,
                    "description": backend.description(),
                    "capabilities": capabilities,
                    "tolerances": backend.tolerances().iter().map(tolerance).collect::<Vec<_>>(),
                })
            })
            .collect();
        output::json(json!(list))?;
        return Ok(());
    }
    let mut table = Table::new(&["backend", "description", "capabilities"]);
    for backend in registry.iter() {
        let capabilities: Vec<_> = backend
            .capabilities()
            .iter()
            .map(|capability| format!("{}={}", capability.name, capability.value))
            .collect();
        table.row([
            backend.id().to_string(),
            backend.description(),
            capabilities.join(", "),
        ]);
    }
    say!("{table}")?;
    for backend in registry.iter() {
        for tolerance in backend.tolerances() {
            say!("{} is accurate to: {tolerance}", backend.id())?;
        }
        for option in backend.options() {
            let (id, kind) = (backend.id(), option.default.kind());
            let OptionDef {
                name,
                scope,
                default,
                doc,
            } = option;
            say!("{id}.{name}: {doc} ({scope}, {kind}, default {default})")?;
        }
    }
    Ok(())
}

fn option(option: &OptionDef) -> serde_json::Value {
    json!({"name": option.name, "scope": option.scope.to_string(), "doc": option.doc,
           "kind": option.default.kind(), "default": value(&option.default)})
}

fn tolerance(tolerance: &Tolerance) -> serde_json::Value {
    json!({"dtype": tolerance.dtype.name(), "relative": tolerance.relative, "absolute": tolerance.absolute})
}

fn value(value: &PropertyValue) -> serde_json::Value {
    match value {
        PropertyValue::Bool(flag) => json!(flag),
        PropertyValue::Int(number) => json!(number),
        PropertyValue::Unsigned(number) => json!(number),
        PropertyValue::Float(number) => json!(number),
        PropertyValue::String(text) => json!(text),
    }
}
