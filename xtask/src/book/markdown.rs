//! The links of a page in Markdown, and its comments for tests, with their positions.

use pulldown_cmark::{Event, LinkType, Options, Parser, Tag, TagEnd};
use std::ops::Range;

/// The text of a comment for the tests of pages begins with this.
const TEST: &str = "test:";

/// The target of a link, image or reference definition.
pub(super) struct Link {
    pub(super) target: String,
    /// Its position; `None` where the text does not contain it as it is.
    pub(super) range: Option<Range<usize>>,
    pub(super) line: usize,
}

/// What is rewritten in a page.
pub(super) struct Parts {
    pub(super) links: Vec<Link>,
    pub(super) test_comments: Vec<Range<usize>>,
}

/// A link whose end the parser has not reached.
struct OpenLink {
    kind: LinkType,
    target: String,
    /// The end of its text.
    text_end: usize,
}

impl Parts {
    pub(super) fn of(page: &str) -> Self {
        let mut parts = Self {
            links: Vec::new(),
            test_comments: Vec::new(),
        };
        // The extensions of mdBook with which links differ.
        let options =
            Options::ENABLE_TABLES | Options::ENABLE_FOOTNOTES | Options::ENABLE_STRIKETHROUGH;
        let parser = Parser::new_ext(page, options);
        for (_, definition) in parser.reference_definitions().iter() {
            parts.add_link(page, &definition.dest, definition.span.clone(), "]:");
        }
        let mut open: Vec<OpenLink> = Vec::new();
        for (event, range) in parser.into_offset_iter() {
            match event {
                Event::Start(
                    Tag::Link {
                        link_type,
                        dest_url,
                        ..
                    }
                    | Tag::Image {
                        link_type,
                        dest_url,
                        ..
                    },
                ) => {
                    open.push(OpenLink {
                        kind: link_type,
                        target: dest_url.into_string(),
                        text_end: range.start + 1,
                    });
                    continue;
                }
                Event::End(TagEnd::Link | TagEnd::Image) => {
                    let link = open.pop();
                    if let Some(link) = link.filter(|link| link.kind == LinkType::Inline) {
                        parts.add_link(page, &link.target, link.text_end..range.end, "](");
                    }
                }
                Event::Start(Tag::HtmlBlock) | Event::InlineHtml(_) => {
                    parts.add_test_comments(page, range.clone());
                }
                _ => {}
            }
            if let Some(link) = open.last_mut() {
                link.text_end = range.end;
            }
        }
        parts
    }

    /// Adds a link whose target follows `mark` in this part of the page.
    fn add_link(&mut self, page: &str, target: &str, part: Range<usize>, mark: &str) {
        let text = &page[part.clone()];
        let after = text.find(mark).map_or(0, |at| at + mark.len());
        let start = text[after..].find(target).map(|at| part.start + after + at);
        self.links.push(Link {
            target: target.to_owned(),
            range: start.map(|start| start..start + target.len()),
            line: page[..part.start].lines().count().max(1),
        });
    }

    fn add_test_comments(&mut self, page: &str, html: Range<usize>) {
        let (open, close) = ("<!--", "-->");
        let mut at = html.start;
        while let Some(start) = page[at..html.end].find(open).map(|start| at + start) {
            let text = start + open.len();
            let Some(length) = page[text..html.end].find(close) else {
                return;
            };
            at = text + length + close.len();
            if page[text..].trim_start().starts_with(TEST) {
                self.test_comments.push(start..at);
            }
        }
    }
}
