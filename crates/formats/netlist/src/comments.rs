//! Comments, which the parser drops: each is attached to a node of the source and printed at that
//! node of the formatted netlist.

use crate::netlist::Netlist;
use crate::source::{Source, Span};
use crate::yaml::{Node, NodeKind, parse};
use std::collections::HashMap;

/// The path of a node in the tree: keys and indices of list entries.
type Path = Vec<String>;

/// A scalar or a key of a document.
struct Leaf {
    span: Span,
    path: Path,
}

/// A comment and the node that it is attached to.
struct Comment<'s> {
    /// With its `#`.
    text: &'s str,
    /// The path of the node: the next scalar, or the previous one for a trailing comment; `None` at
    /// the end of the document.
    node: Option<Path>,
    /// Whether it follows other text on its line.
    is_trailing: bool,
}

/// Comments by line number of the output.
type CommentsByLine<'s> = HashMap<u32, Vec<&'s str>>;

/// The netlist that was read from `source`, printed in canonical layout, with the comments of the
/// source: full-line comments before the node that followed them, trailing ones after the node that
/// they followed.
pub fn format_with_comments(source: &Source, netlist: &Netlist) -> String {
    let printed = Source::new("printed", netlist.to_string());
    let (Ok(old), Ok(new)) = (parse(source), parse(&printed)) else {
        return printed.text().to_owned();
    };
    let mut lines: HashMap<Path, u32> = HashMap::new();
    for leaf in leaves(&new.root) {
        let (line, _) = printed.line_column(leaf.span.start);
        // Its ancestors start on this line or an earlier one.
        for length in (1..=leaf.path.len()).rev() {
            lines.entry(leaf.path[..length].to_vec()).or_insert(line);
        }
    }
    let line_of = |mut path: Path| {
        while !path.is_empty() {
            if let Some(line) = lines.get(&path) {
                return Some(*line);
            }
            path.pop();
        }
        None
    };
    let (mut before, mut trailing) = (CommentsByLine::new(), CommentsByLine::new());
    let mut last = Vec::new();
    for comment in comments(source, &old.root) {
        match (comment.node.and_then(line_of), comment.is_trailing) {
            (Some(line), true) => trailing.entry(line).or_default().push(comment.text),
            (Some(line), false) => before.entry(line).or_default().push(comment.text),
            (None, _) => last.push(comment.text),
        }
    }
    let mut text = String::with_capacity(source.text().len());
    for (index, line) in printed.text().lines().enumerate() {
        let number = index as u32 + 1;
        let indent = &line[..line.len() - line.trim_start().len()];
        for comment in before.get(&number).into_iter().flatten() {
            text += &format!("{indent}{comment}\n");
        }
        text += line;
        for comment in trailing.get(&number).into_iter().flatten() {
            text += &format!("  {comment}");
        }
        text.push('\n');
    }
    for comment in last {
        text += &format!("{comment}\n");
    }
    text
}

/// The scalars and keys of a tree in document order.
fn leaves(root: &Node) -> Vec<Leaf> {
    let mut leaves = Vec::new();
    collect(root, &mut Path::new(), &mut leaves);
    leaves
}

/// The recursion is bounded by [`MAX_NESTING`](crate::MAX_NESTING).
fn collect(node: &Node, path: &mut Path, leaves: &mut Vec<Leaf>) {
    match &node.kind {
        NodeKind::Scalar { .. } => leaves.push(Leaf {
            span: node.span,
            path: path.clone(),
        }),
        NodeKind::Sequence(nodes) => {
            for (index, node) in nodes.iter().enumerate() {
                path.push(index.to_string());
                collect(node, path, leaves);
                path.pop();
            }
        }
        NodeKind::Map(entries) => {
            for (key, value) in entries {
                path.push(key.text().unwrap_or_default().to_owned());
                leaves.push(Leaf {
                    span: key.span,
                    path: path.clone(),
                });
                collect(value, path, leaves);
                path.pop();
            }
        }
    }
}

/// The comments of a document: text after a `#` outside of scalars.
fn comments<'s>(source: &'s Source, root: &Node) -> Vec<Comment<'s>> {
    let text = source.text();
    let leaves: Vec<Leaf> = leaves(root)
        .into_iter()
        .filter(|leaf| leaf.span.start < leaf.span.end)
        .collect();
    let mut comments = Vec::new();
    let (mut at, mut next) = (0, 0);
    while let Some(found) = text.get(at..).and_then(|rest| rest.find('#')) {
        let start = at + found;
        while leaves
            .get(next)
            .is_some_and(|leaf| leaf.span.end as usize <= start)
        {
            next += 1;
        }
        let inside = leaves
            .get(next)
            .filter(|leaf| leaf.span.range().contains(&start));
        let begins = text[..start]
            .chars()
            .next_back()
            .is_none_or(char::is_whitespace);
        if let Some(leaf) = inside {
            at = leaf.span.end as usize;
            continue;
        }
        if !begins {
            at = start + 1;
            continue;
        }
        let end = text[start..]
            .find('\n')
            .map_or(text.len(), |length| start + length);
        let line = text[..start].rfind('\n').map_or(0, |newline| newline + 1);
        let is_trailing = !text[line..start].trim().is_empty();
        let node = if is_trailing {
            next.checked_sub(1)
        } else {
            Some(next)
        };
        let node = node
            .and_then(|index| leaves.get(index))
            .map(|leaf| leaf.path.clone());
        comments.push(Comment {
            text: text[start..end].trim_end(),
            node,
            is_trailing,
        });
        at = end;
    }
    comments
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::read;

    #[test]
    fn comments_stay_at_their_nodes() {
        let text = "\
# head
devices: {arch: grayskull} # which
programs:
  # the one
  - 'a#b':
      - var: {$c: 1} # a variable
      # the loop
      - loop: 2
      - endloop

# other sections
mine: {x: 'no # comment', y: 2}   # two
# end
";
        let source = Source::new("n.yaml", text);
        let printed = format_with_comments(&source, &read(&source).netlist);
        let expected = [
            "# head\ndevices:\n",
            "arch: [grayskull]  # which\n",
            "  # the one\n",
            "{$c: 1}  # a variable\n",
            "# the loop\n      - loop: 2\n",
            "# other sections\nmine:",
            "y: 2  # two\n",
            "# end\n",
        ];
        for part in expected {
            assert!(printed.contains(part), "{part:?} is not in\n{printed}");
        }
        assert_eq!(printed.matches("# ").count(), 9, "{printed}");
        let again = Source::new("n.yaml", printed.clone());
        assert_eq!(
            super::format_with_comments(&again, &read(&again).netlist),
            printed
        );
    }
}
