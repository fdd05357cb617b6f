//! The lists of rules: `tenon verify --rules`, `tenon netlist check --rules`

use crate::output::{self, say};
use crate::table::Table;
use serde_json::{Value, json};
use tenon::Result;
use tenon_base::Citation;

/// A rule of a format.
pub struct ListedRule {
    pub id: &'static str,
    pub severity: String,
    pub sentence: &'static str,
    /// A text that [`Citation`] reads.
    pub source: &'static str,
}

/// Prints rules, each with links to the sections that state it.
pub fn print(rules: impl Iterator<Item = ListedRule>, as_json: bool) -> Result<()> {
    if as_json {
        return output::json(Value::from_iter(rules.map(json_rule)));
    }
    let mut table = Table::new(&["id", "severity", "source", "rule"]);
    for rule in rules {
        let links = Citation::all(rule.source).map(|link| link.to_string());
        let links = links.collect::<Vec<_>>().join(", ");
        table.row([rule.id.into(), rule.severity, links, rule.sentence.into()]);
    }
    say!("{table}")
}

fn json_rule(rule: ListedRule) -> Value {
    let link = |it: Citation<'_>| json!({"page": it.page(), "anchor": it.anchor});
    json!({"id": rule.id, "severity": rule.severity, "rule": rule.sentence,
           "sources": Value::from_iter(Citation::all(rule.source).map(link))})
}
