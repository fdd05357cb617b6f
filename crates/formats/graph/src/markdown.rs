//! The operator table as a documentation page.

use crate::OperatorDef;
use crate::operator::{Arity, OperandDef, OperatorClass, all};
use std::fmt::Write;

/// The operator table in Markdown: an overview of the families, then a section for each operator, which
/// ends with the lines of `support`. The contents of `docs/operators.md`; deterministic.
pub fn operator_table_markdown(mut support: impl FnMut(&'static OperatorDef) -> String) -> String {
    let mut page = String::from(
        "# Operators\n\n\
         <!-- Written from the operator table in crates/formats/graph/src/ops; change it there. -->\n\n",
    );
    let _ = write!(
        page,
        "Tenon knows {} operators. Names, inputs and attributes are those of the newest ONNX \
         operator set; the importer brings older forms into it. `tenon.` marks Tenon's own, which \
         the compiler makes by fusing others. An attribute that names an element type holds \
         Tenon's name of it, such as `f32`.\n\n\
         An input marked *compile time* decides the shape of the output: it must be a constant, or \
         follow from constants and shapes. *Movement* copies elements and may become DMA \
         descriptors; a *view* costs nothing at run time.\n\n\
         *CpuAcc* lists the types of the first input for which the fast backend computes a node alone, \
         after the compiler's rewrites, and the count of dimensions; *descriptors* those that need no \
         backend; *CpuRef* those that run on the reference backend. They are measured with random \
         small nodes (crates/testing/random-nodes): types and dimensions that none of these nodes has are \
         missing, which is no limit of the backend. *tests* are those that compare \
         results with other programs.\n\n",
        all().count()
    );
    overview(&mut page);
    let mut family = "";
    for def in all() {
        if def.family != family {
            family = def.family;
            let _ = write!(page, "## {family}\n\n");
        }
        section(&mut page, def, &support(def));
    }
    page.truncate(page.trim_end().len());
    page.push('\n');
    page
}

fn overview(page: &mut String) {
    page.push_str("| family | operators |\n|---|---|\n");
    let mut family = "";
    for def in all() {
        if def.family != family {
            if !family.is_empty() {
                page.push_str(" |\n");
            }
            family = def.family;
            let _ = write!(page, "| {family} | ");
        } else {
            page.push_str(", ");
        }
        let _ = write!(page, "[{}](#{})", def.name, anchor(def.name));
    }
    page.push_str(" |\n\n");
}

/// The anchor of a heading: lower case, without dots.
fn anchor(name: &str) -> String {
    name.to_lowercase().replace('.', "")
}

fn section(page: &mut String, def: &OperatorDef, support: &str) {
    let _ = write!(page, "### {}\n\n{}", def.name, def.doc);
    match def.class {
        OperatorClass::Compute => {}
        OperatorClass::Movement => page.push_str(" *Movement.*"),
        OperatorClass::View => page.push_str(" *View.*"),
    }
    page.push_str("\n\n");
    for (what, rows) in [("in", def.inputs), ("out", def.outputs)] {
        for row in rows {
            operand(page, what, row);
        }
    }
    for row in def.attributes {
        let required = if row.required { ", required" } else { "" };
        let _ = writeln!(
            page,
            "- `{}` = {}{required}: {}",
            row.name, row.kind, row.doc
        );
    }
    page.push_str(support);
    page.push('\n');
}

fn operand(page: &mut String, what: &str, row: &OperandDef) {
    let arity = match row.arity {
        Arity::Required => "",
        Arity::Optional => ", optional",
        Arity::Variadic => ", one or more",
    };
    let time = if row.compile_time {
        ", *compile time*"
    } else {
        ""
    };
    let _ = writeln!(page, "- {what} `{}`{arity}{time}: {}", row.name, row.types);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_is_on_the_page() {
        let page = operator_table_markdown(|_| String::new());
        for def in all() {
            assert!(
                page.contains(&format!("### {}\n", def.name)),
                "{}",
                def.name
            );
        }
        assert!(page.contains(
            "### Concat\n\nThe inputs concatenated along the axis. *Movement.*\n\n\
             - in `inputs`, one or more: any type\n- out `concat_result`: any type\n\
             - `axis` = int, required: the dimension of concatenation\n"
        ));
    }
}
