//! `tenon backends`

use crate::flags::Backends;
use crate::output::say;
use crate::table::Table;
use serde_json::json;
use tenon::{CapabilityValue, Result};

pub fn run(flags: &Backends) -> Result<()> {
    let registry = tenon::backends();
    if flags.json {
        let list: Vec<_> = registry
            .iter()
            .map(|backend| {
                let capabilities: serde_json::Map<_, _> = backend
                    .capabilities()
                    .into_iter()
                    .map(|capability| (capability.name.to_owned(), value(&capability.value)))
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
            .map(|capability| match &capability.value {
                CapabilityValue::String(text) => format!("{}={text}", capability.name),
                other => format!("{}={}", capability.name, value(other)),
            })
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

fn value(value: &CapabilityValue) -> serde_json::Value {
    match value {
        CapabilityValue::Bool(flag) => json!(flag),
        CapabilityValue::Int(number) => json!(number),
        CapabilityValue::Float(number) => json!(number),
        CapabilityValue::String(text) => json!(text),
    }
}
