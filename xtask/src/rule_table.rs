//! The table of rules in docs/neff.md.

use std::fmt::Write;
use tenon_base::Citation;
use tenon_neff::Rule;

const HEAD: &str = "\
<!-- Written by `cargo xtask docs` from crates/formats/neff/src/rule.rs; change it there. -->

| rule | what it checks | level | source |
|---|---|---|---|
";

/// The table, with links from the page itself.
pub fn rule_table() -> String {
    let mut table = String::from(HEAD);
    for rule in Rule::ALL {
        let links: Vec<_> = Citation::all(rule.source).map(link).collect();
        let (id, severity, links) = (rule.id, rule.severity, links.join(", "));
        let _ = writeln!(
            table,
            "| `{id}` | {} | {severity} | {links} |",
            rule.sentence
        );
    }
    table
}

fn link(citation: Citation<'_>) -> String {
    let link = citation.to_string();
    let link = link.trim_start_matches("docs/");
    match citation.anchor {
        Some(anchor) if link.starts_with("neff.md") => {
            format!("[{}](#{anchor})", anchor.replace('-', " "))
        }
        _ => format!("[{}]({link})", link.split('#').next().unwrap_or(link)),
    }
}
