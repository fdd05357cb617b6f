//! YAML as a tree with source spans. Unlike the map types of YAML libraries it preserves the order of
//! keys, duplicate keys (netlist 1.1) and source positions.

use crate::source::{Source, Span};
use crate::{Finding, Rule};
use granit_parser::{Event, Options, Parser, ScalarStyle};
use smol_str::SmolStr;

/// Maximum nesting of sequences and maps. A netlist needs ten levels.
pub const MAX_NESTING: usize = 64;

/// A node of the tree.
#[derive(Debug, Clone)]
pub struct Node {
    /// Its source span.
    pub span: Span,
    /// Its kind and content.
    pub kind: NodeKind,
}

/// The kind and content of a node.
#[derive(Debug, Clone)]
pub enum NodeKind {
    /// A scalar.
    Scalar {
        /// Its text, without quotes and escapes.
        text: SmolStr,
        /// Whether it is unquoted, so that `None` or `true` are not plain text. Never set for a
        /// text that needs quotes to be one scalar in flow form.
        plain: bool,
    },
    /// A sequence.
    Sequence(Vec<Node>),
    /// A map: its entries in the order of the file, duplicate keys included.
    Map(Vec<(Node, Node)>),
}

impl PartialEq for Node {
    /// Semantic equality: ignores spans, and quotes except around null words.
    fn eq(&self, other: &Self) -> bool {
        match (&self.kind, &other.kind) {
            (NodeKind::Scalar { text: a, .. }, NodeKind::Scalar { text: b, .. }) => {
                a == b && self.is_null() == other.is_null()
            }
            (NodeKind::Sequence(a), NodeKind::Sequence(b)) => a == b,
            (NodeKind::Map(a), NodeKind::Map(b)) => a == b,
            _ => false,
        }
    }
}

impl Node {
    /// The text of a scalar.
    pub fn text(&self) -> Option<&str> {
        match &self.kind {
            NodeKind::Scalar { text, .. } => Some(text),
            _ => None,
        }
    }

    /// Whether this is null: an absent value, `~`, `null` or `None` in any letter case; netlists use
    /// `None` for an empty list of TMs (netlist 1.1).
    pub fn is_null(&self) -> bool {
        match &self.kind {
            NodeKind::Scalar { text, plain } => {
                *plain && (text.is_empty() || text == "~" || is_null_word(text))
            }
            _ => false,
        }
    }

    /// The name of its kind, for messages.
    pub fn kind_name(&self) -> &'static str {
        match self.kind {
            NodeKind::Scalar { .. } if self.is_null() => "nothing",
            NodeKind::Scalar { .. } => "a scalar",
            NodeKind::Sequence(_) => "a list",
            NodeKind::Map(_) => "a map",
        }
    }
}

fn is_null_word(text: &str) -> bool {
    text.eq_ignore_ascii_case("null") || text.eq_ignore_ascii_case("none")
}

/// The first document of a source, and the start of a second one.
#[derive(Debug)]
pub struct Document {
    /// Its content.
    pub root: Node,
    /// The start of a second document, which is not parsed.
    pub next: Option<Span>,
}

/// Parses the first document of a source. A syntax error of the YAML ends parsing and is returned as
/// a finding.
pub fn parse(source: &Source) -> Result<Document, Finding> {
    if u32::try_from(source.text().len()).is_err() {
        let size = format!("{} bytes", source.text().len());
        let finding = Finding::new(Rule::YamlSyntax, Span::default(), "the file is too large");
        return Err(finding.expected("at most 4 GiB").found(size));
    }
    let mut options = Options::default();
    options.flow_nesting_limit = MAX_NESTING;
    options.block_nesting_limit = MAX_NESTING;
    let mut builder = Builder::default();
    let mut next = None;
    for event in Parser::new_from_str_with_options(source.text(), options) {
        let (event, at) = event.map_err(|error| {
            let byte = error.marker().byte_offset().unwrap_or_default() as u32;
            let span = Span {
                start: byte,
                end: byte,
            };
            match error.info() {
                text if text.contains("recursion limit") => {
                    let message = "lists and maps are nested too deeply";
                    let finding = Finding::new(Rule::YamlSyntax, span, message);
                    finding.expected(format!("at most {MAX_NESTING} levels"))
                }
                text => Finding::new(Rule::YamlSyntax, span, text.to_string()),
            }
        })?;
        let byte = |marker: granit_parser::Marker| marker.byte_offset().unwrap_or_default() as u32;
        let span = Span {
            start: byte(at.start),
            end: byte(at.end),
        };
        if builder.is_complete {
            next = matches!(event, Event::DocumentStart(..)).then_some(span);
            break;
        }
        builder.add(event, span)?;
    }
    let root = builder.root.ok_or_else(|| {
        Finding::new(Rule::YamlSyntax, Span::default(), "the file is empty")
            .expected("a map of sections: devices, queues, graphs, programs")
    })?;
    Ok(Document { root, next })
}

/// A collection that is being built.
enum Open {
    Sequence(Span, Vec<Node>),
    Map(Span, Vec<(Node, Node)>, Option<Node>),
}

/// Whether an unquoted scalar stays one scalar in flow form, on one line.
///
/// No number, boolean or null fails this, so a text which fails it means the same in quotes.
fn is_plain_in_flow(text: &str) -> bool {
    !text.contains(['\n', ',', '[', ']', '{', '}'])
}

#[derive(Default)]
struct Builder {
    open: Vec<Open>,
    root: Option<Node>,
    /// Whether the document has ended.
    is_complete: bool,
}

impl Builder {
    /// Processes an event of the parser.
    fn add(&mut self, event: Event<'_>, span: Span) -> Result<(), Finding> {
        match event {
            Event::Scalar(text, style, ..) => {
                let plain = style == ScalarStyle::Plain && is_plain_in_flow(&text);
                let text = SmolStr::from(text);
                self.insert(Node {
                    span,
                    kind: NodeKind::Scalar { text, plain },
                });
            }
            Event::SequenceStart(..) => self.open.push(Open::Sequence(span, Vec::new())),
            Event::MappingStart(..) => self.open.push(Open::Map(span, Vec::new(), None)),
            Event::SequenceEnd | Event::MappingEnd => self.close(span),
            Event::Alias(_) | Event::UnresolvedAlias(_) => {
                let message = "anchors and aliases are not supported in netlists";
                return Err(Finding::new(Rule::YamlSyntax, span, message)
                    .help("repeat the value where it is used"));
            }
            Event::DocumentEnd => self.is_complete = true,
            _ => {}
        }
        Ok(())
    }

    fn close(&mut self, end: Span) {
        let node = match self.open.pop() {
            Some(Open::Sequence(start, nodes)) => Node {
                span: start.to(end),
                kind: NodeKind::Sequence(nodes),
            },
            Some(Open::Map(start, entries, _)) => Node {
                span: start.to(end),
                kind: NodeKind::Map(entries),
            },
            None => return,
        };
        self.insert(node);
    }

    fn insert(&mut self, node: Node) {
        match self.open.last_mut() {
            Some(Open::Sequence(_, nodes)) => nodes.push(node),
            Some(Open::Map(_, entries, key)) => match key.take() {
                Some(key) => entries.push((key, node)),
                None => *key = Some(node),
            },
            None => self.root = Some(node),
        }
    }
}
