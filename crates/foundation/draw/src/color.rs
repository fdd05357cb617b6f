//! Colours.

use std::fmt;

/// An opaque colour; its `Display` is `#rrggbb`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Color {
    /// Red, green, blue.
    pub rgb: [u8; 3],
}

/// The colour-blind safe palette of Okabe and Ito (2008), with grey in place of black, which is the
/// colour of text.
const OKABE_ITO: [[u8; 3]; 8] = [
    [0x56, 0xb4, 0xe9],
    [0xe6, 0x9f, 0x00],
    [0x00, 0x9e, 0x73],
    [0xcc, 0x79, 0xa7],
    [0xf0, 0xe4, 0x42],
    [0x00, 0x72, 0xb2],
    [0xd5, 0x5e, 0x00],
    [0x99, 0x99, 0x99],
];

impl Color {
    /// Text and outlines.
    pub const BLACK: Color = Color::new(0x22, 0x22, 0x22);
    /// Grid lines and secondary shapes.
    pub const GRAY: Color = Color::new(0xbb, 0xbb, 0xbb);
    /// The background.
    pub const WHITE: Color = Color::new(0xff, 0xff, 0xff);

    /// A colour of red, green and blue.
    pub const fn new(red: u8, green: u8, blue: u8) -> Self {
        Self {
            rgb: [red, green, blue],
        }
    }

    /// The colour of category `index`, modulo the eight colours of the palette.
    pub const fn categorical(index: usize) -> Self {
        Self {
            rgb: OKABE_ITO[index % OKABE_ITO.len()],
        }
    }
}

impl fmt::Display for Color {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [red, green, blue] = self.rgb;
        write!(f, "#{red:02x}{green:02x}{blue:02x}")
    }
}
