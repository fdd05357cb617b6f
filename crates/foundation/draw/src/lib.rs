//! Vector graphics: shapes, text and axes, written as SVG.
//!
//! A [`Picture`] is a list of [`Shape`]s in painting order; its `Display` is a self-contained SVG file
//! (no script, style sheet or font file). All text is escaped, so that arbitrary names are safe. Equal
//! pictures produce equal bytes.
//!
//! ```
//! use tenon_draw::{Axis, Color, Picture, Shape, Side};
//! let mut picture = Picture::new(320.0, 200.0);
//! let axis = Axis::new(Side::Bottom, 0.0..=40.0, 50.0..=300.0, 170.0).label("kernel");
//! picture.add(Shape::rect(axis.at(3.0), 40.0, 60.0, 20.0).fill(Color::categorical(0)).title("a < b"));
//! picture.extend(axis.shapes());
//! picture.add(Shape::text(10.0, 20.0, "memory").bold());
//! let svg = picture.to_string();
//! assert!(svg.starts_with("<svg ") && svg.contains("<title>a &lt; b</title>"));
//! ```

#![forbid(unsafe_code)]

mod axis;
mod color;
mod picture;
mod shape;

pub use axis::{Axis, Side, ticks};
pub use color::Color;
pub use picture::Picture;
pub use shape::{Anchor, Shape};
