//! `tenon backends`

use crate::flags::Backends;
use crate::output::say;
use crate::table::Table;
use serde_json::json;
use tenon::{NamedValue, Result};

pub fn run(flags: &Backends) -> Result<()> {
    let registry = tenon::backends();
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
                json!({
                    "id": backend.id().as_str(),
                    "description": backend.description(),
                    "capabilities": capabilities,
                })
            })
            .collect();
        say!("{}", json!(list))?;
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
    Ok(())
}

fn value(value: &NamedValue) -> serde_json::Value {
    match value {
        NamedValue::Bool(flag) => json!(flag),
        NamedValue::Int(number) => json!(number),
        NamedValue::Unsigned(number) => json!(number),
        NamedValue::Float(number) => json!(number),
        NamedValue::String(text) => json!(text),
    }
}
