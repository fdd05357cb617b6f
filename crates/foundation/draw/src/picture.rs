//! A picture: its size and its shapes.

use crate::shape::Escaped;
use crate::{Color, Shape};
use std::fmt;

/// Shapes on a white background. Its `Display` is an SVG file.
#[derive(Debug, Clone, PartialEq)]
pub struct Picture {
    width: f64,
    height: f64,
    title: Option<String>,
    shapes: Vec<Shape>,
}

impl Picture {
    /// An empty picture of this size in pixels.
    pub fn new(width: f64, height: f64) -> Self {
        Self {
            width,
            height,
            title: None,
            shapes: Vec::new(),
        }
    }

    /// The accessible title of the picture.
    pub fn title(mut self, text: impl Into<String>) -> Self {
        self.title = Some(text.into());
        self
    }

    /// Adds a shape on top of the others.
    pub fn add(&mut self, shape: Shape) {
        self.shapes.push(shape);
    }
}

impl Extend<Shape> for Picture {
    fn extend<I: IntoIterator<Item = Shape>>(&mut self, shapes: I) {
        self.shapes.extend(shapes);
    }
}

impl fmt::Display for Picture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (width, height) = (self.width.ceil(), self.height.ceil());
        writeln!(
            f,
            r#"<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" font-family="sans-serif">"#
        )?;
        if let Some(title) = &self.title {
            writeln!(f, "<title>{}</title>", Escaped(title))?;
        }
        if self.shapes.iter().any(Shape::has_arrow) {
            writeln!(
                f,
                r#"<defs><marker id="arrow" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="8" markerHeight="8" orient="auto"><path d="M0 0L8 4L0 8Z" fill="{}"/></marker></defs>"#,
                Color::BLACK
            )?;
        }
        write!(
            f,
            "{}",
            Shape::rect(0.0, 0.0, width, height).fill(Color::WHITE)
        )?;
        for shape in &self.shapes {
            write!(f, "{shape}")?;
        }
        writeln!(f, "</svg>")
    }
}
