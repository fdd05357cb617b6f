//! Tables of the pages in Markdown.

/// A table with a head and rows, whose cells are separated by ` | `.
pub(crate) fn table(head: &str, rows: impl IntoIterator<Item = String>) -> String {
    let rule = "---|".repeat(head.matches('|').count() + 1);
    let mut text = format!("| {head} |\n|{rule}\n");
    for row in rows {
        text += &format!("| {row} |\n");
    }
    text
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_table_has_a_rule_for_each_column() {
        let text = super::table("a | b |", ["1 | 2 | 3".to_owned()]);
        assert_eq!(text, "| a | b | |\n|---|---|---|\n| 1 | 2 | 3 |\n");
    }
}
