//! Shapes: their geometry, colours and SVG elements.

use crate::Color;
use std::fmt::{self, Write};

/// The point of a text that is at its position.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Anchor {
    /// The first character.
    #[default]
    Start,
    /// The middle.
    Middle,
    /// The last character.
    End,
}

/// A geometric form with its colours. Lengths are in pixels, x to the right, y downwards.
#[derive(Debug, Clone, PartialEq)]
pub struct Shape {
    form: Form,
    fill: Option<Color>,
    stroke: Option<(Color, f64)>,
    dashed: bool,
    opacity: f64,
    title: Option<String>,
}

#[derive(Debug, Clone, PartialEq)]
enum Form {
    Rect {
        x: f64,
        y: f64,
        width: f64,
        height: f64,
        radius: f64,
    },
    Circle {
        x: f64,
        y: f64,
        radius: f64,
    },
    Path {
        points: Vec<(f64, f64)>,
        closed: bool,
        arrow: bool,
    },
    Text {
        x: f64,
        y: f64,
        text: String,
        size: f64,
        anchor: Anchor,
        bold: bool,
        rotated: bool,
    },
}

impl Shape {
    /// A rectangle by its upper left corner and size, without outline, grey by default.
    pub fn rect(x: f64, y: f64, width: f64, height: f64) -> Self {
        let form = Form::Rect {
            x,
            y,
            width: width.max(0.0),
            height: height.max(0.0),
            radius: 0.0,
        };
        Self::new(form, Some(Color::GRAY), None)
    }

    /// A disc by its centre.
    pub fn circle(x: f64, y: f64, radius: f64) -> Self {
        let radius = radius.max(0.0);
        Self::new(Form::Circle { x, y, radius }, Some(Color::GRAY), None)
    }

    /// A line between two points.
    pub fn line(from: (f64, f64), to: (f64, f64)) -> Self {
        Self::polyline([from, to])
    }

    /// A line through several points.
    pub fn polyline(points: impl IntoIterator<Item = (f64, f64)>) -> Self {
        let form = Form::Path {
            points: points.into_iter().collect(),
            closed: false,
            arrow: false,
        };
        Self::new(form, None, Some((Color::BLACK, 1.0)))
    }

    /// A filled area between points.
    pub fn polygon(points: impl IntoIterator<Item = (f64, f64)>) -> Self {
        let form = Form::Path {
            points: points.into_iter().collect(),
            closed: true,
            arrow: false,
        };
        Self::new(form, Some(Color::GRAY), None)
    }

    /// A line of text on the base line `y`, 12 pixels high.
    pub fn text(x: f64, y: f64, text: impl Into<String>) -> Self {
        let form = Form::Text {
            x,
            y,
            text: text.into(),
            size: 12.0,
            anchor: Anchor::default(),
            bold: false,
            rotated: false,
        };
        Self::new(form, Some(Color::BLACK), None)
    }

    fn new(form: Form, fill: Option<Color>, stroke: Option<(Color, f64)>) -> Self {
        Self {
            form,
            fill,
            stroke,
            dashed: false,
            opacity: 1.0,
            title: None,
        }
    }

    /// The colour inside, or of the text.
    pub fn fill(mut self, color: Color) -> Self {
        self.fill = Some(color);
        self
    }

    /// The outline's colour and width.
    pub fn stroke(mut self, color: Color, width: f64) -> Self {
        self.stroke = Some((color, width));
        self
    }

    /// Makes the outline a dashed one.
    pub fn dashed(mut self) -> Self {
        self.dashed = true;
        self
    }

    /// The opacity: 0 transparent, 1 opaque.
    pub fn opacity(mut self, opacity: f64) -> Self {
        self.opacity = opacity.clamp(0.0, 1.0);
        self
    }

    /// The tooltip.
    pub fn title(mut self, text: impl Into<String>) -> Self {
        self.title = Some(text.into());
        self
    }

    /// Rounds the corners of a rectangle.
    pub fn rounded(mut self, corner: f64) -> Self {
        if let Form::Rect { radius, .. } = &mut self.form {
            *radius = corner;
        }
        self
    }

    /// Ends a line with an arrow head.
    pub fn arrow(mut self) -> Self {
        if let Form::Path { arrow, .. } = &mut self.form {
            *arrow = true;
        }
        self
    }

    /// The font size of a text.
    pub fn size(mut self, pixels: f64) -> Self {
        if let Form::Text { size, .. } = &mut self.form {
            *size = pixels;
        }
        self
    }

    /// The point of a text that is at its position.
    pub fn anchor(mut self, at: Anchor) -> Self {
        if let Form::Text { anchor, .. } = &mut self.form {
            *anchor = at;
        }
        self
    }

    /// Makes a text bold.
    pub fn bold(mut self) -> Self {
        if let Form::Text { bold, .. } = &mut self.form {
            *bold = true;
        }
        self
    }

    /// Rotates a text by 90 degrees, to be read upwards.
    pub fn rotated(mut self) -> Self {
        if let Form::Text { rotated, .. } = &mut self.form {
            *rotated = true;
        }
        self
    }

    /// Whether it needs the marker of an arrow head.
    pub(crate) fn has_arrow(&self) -> bool {
        matches!(self.form, Form::Path { arrow: true, .. })
    }

    fn paint(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.fill {
            Some(color) => write!(f, r#" fill="{color}""#)?,
            None => write!(f, r#" fill="none""#)?,
        }
        if let Some((color, width)) = self.stroke {
            write!(
                f,
                r#" stroke="{color}" stroke-width="{}""#,
                Number(width.max(0.0))
            )?;
            if self.dashed {
                write!(f, r#" stroke-dasharray="4 3""#)?;
            }
        }
        if self.opacity < 1.0 {
            write!(f, r#" opacity="{}""#, Number(self.opacity))?;
        }
        Ok(())
    }

    /// Closes the element `name`, with the title if there is one.
    fn close(&self, f: &mut fmt::Formatter<'_>, name: &str) -> fmt::Result {
        match &self.title {
            Some(title) => writeln!(f, "><title>{}</title></{name}>", Escaped(title)),
            None => writeln!(f, "/>"),
        }
    }
}

impl fmt::Display for Shape {
    /// The SVG element, on one line.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.form {
            &Form::Rect {
                x,
                y,
                width,
                height,
                radius,
            } => {
                let [x, y, width, height] = [x, y, width, height].map(Number);
                write!(
                    f,
                    r#"<rect x="{x}" y="{y}" width="{width}" height="{height}""#
                )?;
                if radius > 0.0 {
                    write!(f, r#" rx="{}""#, Number(radius))?;
                }
                self.paint(f)?;
                self.close(f, "rect")
            }
            &Form::Circle { x, y, radius } => {
                let [x, y, radius] = [x, y, radius].map(Number);
                write!(f, r#"<circle cx="{x}" cy="{y}" r="{radius}""#)?;
                self.paint(f)?;
                self.close(f, "circle")
            }
            Form::Path {
                points,
                closed,
                arrow,
            } => {
                write!(f, r#"<path d=""#)?;
                for (index, &(x, y)) in points.iter().enumerate() {
                    let step = if index == 0 { 'M' } else { 'L' };
                    write!(f, "{step}{} {}", Number(x), Number(y))?;
                }
                write!(f, "{}\"", if *closed { "Z" } else { "" })?;
                if *arrow {
                    write!(f, r#" marker-end="url(#arrow)""#)?;
                }
                self.paint(f)?;
                self.close(f, "path")
            }
            Form::Text { .. } => self.text_element(f),
        }
    }
}

impl Shape {
    fn text_element(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Form::Text {
            x,
            y,
            text,
            size,
            anchor,
            bold,
            rotated,
        } = &self.form
        else {
            return Ok(());
        };
        let (x, y, size) = (Number(*x), Number(*y), Number(*size));
        write!(f, r#"<text x="{x}" y="{y}" font-size="{size}""#)?;
        match anchor {
            Anchor::Start => {}
            Anchor::Middle => write!(f, r#" text-anchor="middle""#)?,
            Anchor::End => write!(f, r#" text-anchor="end""#)?,
        }
        if *bold {
            write!(f, r#" font-weight="bold""#)?;
        }
        if *rotated {
            write!(f, r#" transform="rotate(-90 {x} {y})""#)?;
        }
        self.paint(f)?;
        write!(f, ">")?;
        if let Some(title) = &self.title {
            write!(f, "<title>{}</title>", Escaped(title))?;
        }
        writeln!(f, "{}</text>", Escaped(text))
    }
}

/// A number with at most two decimals; NaN and values beyond [`LARGEST`] are 0.
struct Number(f64);

/// The largest coordinate, in pixels.
const LARGEST: f64 = 1e7;

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let value = match self.0 {
            value if value.abs() <= LARGEST => (value * 100.0).round() / 100.0,
            _ => 0.0,
        };
        // Turns -0 into 0.
        write!(f, "{}", value + 0.0)
    }
}

/// Text with markup characters escaped; characters that XML forbids become U+FFFD.
pub(crate) struct Escaped<'a>(pub &'a str);

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for c in self.0.chars() {
            match c {
                '&' => f.write_str("&amp;")?,
                '<' => f.write_str("&lt;")?,
                '>' => f.write_str("&gt;")?,
                '"' => f.write_str("&quot;")?,
                '\'' => f.write_str("&#39;")?,
                '\t' | '\n' => f.write_char(c)?,
                '\u{0}'..='\u{1f}' | '\u{7f}'..='\u{9f}' | '\u{fffe}' | '\u{ffff}' => {
                    f.write_char('\u{fffd}')?;
                }
                c => f.write_char(c)?,
            }
        }
        Ok(())
    }
}
