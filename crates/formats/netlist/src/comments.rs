//! Comments, which belong to nothing that is read: found in the text, put back where what they
//! stood by is printed.

use crate::netlist::Netlist;
use crate::source::{Source, Span};
use crate::yaml::{Node, NodeKind, parse};
use std::collections::HashMap;

/// Where something stands in the tree: keys, and numbers of list entries.
type Path = Vec<String>;

/// A scalar, or a key, of a text.
struct Leaf {
    span: Span,
    path: Path,
}

/// A comment, and what it stands by.
struct Comment<'s> {
    /// With its `#`.
    text: &'s str,
    /// The next scalar, or for one behind something, the last before it; `None` at the end.
    by: Option<Path>,
    /// Whether something stands before it on its line.
    is_behind: bool,
}

/// Comments by the number of a printed line.
type ByLine<'s> = HashMap<u32, Vec<&'s str>>;

/// The netlist that was read from `source`, printed in its one layout, with the comments of the
/// source: those on lines of their own before what followed them, others behind what they followed.
pub fn format_with_comments(source: &Source, netlist: &Netlist) -> String {
    let printed = Source::new("printed", netlist.to_string());
    let (Ok(old), Ok(new)) = (parse(source), parse(&printed)) else {
        return printed.text().to_owned();
    };
    let mut places: HashMap<Path, u32> = HashMap::new();
    for leaf in leaves(&new.root) {
        let (line, _) = printed.line_column(leaf.span.start);
        // Whatever contains it begins there at the latest.
        for length in (1..=leaf.path.len()).rev() {
            places.entry(leaf.path[..length].to_vec()).or_insert(line);
        }
    }
    let line_of = |mut path: Path| {
        while !path.is_empty() {
            if let Some(line) = places.get(&path) {
                return Some(*line);
            }
            path.pop();
        }
        None
    };
    let (mut before, mut behind) = (ByLine::new(), ByLine::new());
    let mut last = Vec::new();
    for comment in comments(source, &old.root) {
        match (comment.by.and_then(line_of), comment.is_behind) {
            (Some(line), true) => behind.entry(line).or_default().push(comment.text),
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
        for comment in behind.get(&number).into_iter().flatten() {
            text += &format!("  {comment}");
        }
        text.push('\n');
    }
    for comment in last {
        text += &format!("{comment}\n");
    }
    text
}

/// The scalars and keys of a tree in the order of its text.
fn leaves(root: &Node) -> Vec<Leaf> {
    let mut leaves = Vec::new();
    collect(root, &mut Path::new(), &mut leaves);
    leaves
}

/// Trees nest no deeper than [`MAX_NESTING`](crate::MAX_NESTING).
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

/// The comments of a text: what follows a `#` between its scalars.
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
        let is_behind = !text[line..start].trim().is_empty();
        let by = match is_behind {
            true => next.checked_sub(1),
            false => Some(next),
        };
        let by = by
            .and_then(|index| leaves.get(index))
            .map(|leaf| leaf.path.clone());
        comments.push(Comment {
            text: text[start..end].trim_end(),
            by,
            is_behind,
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
    fn comments_stay_by_what_they_stood_by() {
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
        let wanted = [
            "# head\ndevices:\n",
            "arch: [grayskull]  # which\n",
            "  # the one\n",
            "{$c: 1}  # a variable\n",
            "# the loop\n      - loop: 2\n",
            "# other sections\nmine:",
            "y: 2  # two\n",
            "# end\n",
        ];
        for piece in wanted {
            assert!(printed.contains(piece), "{piece:?} is not in\n{printed}");
        }
        assert_eq!(printed.matches("# ").count(), 9, "{printed}");
        let again = Source::new("n.yaml", printed.clone());
        assert_eq!(
            super::format_with_comments(&again, &read(&again).netlist),
            printed
        );
    }
}
