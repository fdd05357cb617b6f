//! Escaping of untrusted text (from files and other processes) that is printed on a terminal.

use std::borrow::Cow;
use std::fmt::Write;

/// `text` with each control character written as `\u{..}`: the C0 and C1 sets and DEL, which
/// control a terminal (ECMA-48), and the bidirectional formatting characters (Unicode UAX 9), which
/// can disguise a name. Newlines and tabs are control characters, too: pass a name or one line.
pub fn escape_controls(text: &str) -> Cow<'_, str> {
    let Some(first) = text.find(is_control) else {
        return Cow::Borrowed(text);
    };
    let (plain, rest) = text.split_at(first);
    let mut escaped = String::with_capacity(text.len() + 16);
    escaped.push_str(plain);
    for char in rest.chars() {
        if is_control(char) {
            // Writing to a String cannot fail.
            let _ = write!(escaped, "\\u{{{:x}}}", u32::from(char));
        } else {
            escaped.push(char);
        }
    }
    Cow::Owned(escaped)
}

/// C0, DEL, C1 (Unicode category Cc), line and paragraph separators, and bidirectional formatting.
fn is_control(char: char) -> bool {
    char.is_control()
        || matches!(
            char,
            '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}'
        )
        || matches!(char, '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_without_controls_is_borrowed() {
        for text in ["", "conv 1/weight", "Grüße ✓ 日本"] {
            assert!(matches!(escape_controls(text), Cow::Borrowed(same) if same == text));
        }
    }

    #[test]
    fn terminal_controls_are_escaped() {
        for (text, expected) in [
            ("a\x1b[2Jb", "a\\u{1b}[2Jb"),
            ("\0\t\n\r\x7f", "\\u{0}\\u{9}\\u{a}\\u{d}\\u{7f}"),
            ("\u{9b}31mé", "\\u{9b}31mé"),
            ("x\u{202e}fdp.exe\u{2069}", "x\\u{202e}fdp.exe\\u{2069}"),
        ] {
            assert_eq!(escape_controls(text), expected);
        }
    }

    #[test]
    fn every_control_character_is_escaped() {
        let ranges = [
            0..0x20,
            0x7f..0xa0,
            0x202a..0x202f,
            0x2066..0x206a,
            0x200e..0x2010,
        ];
        for code in ranges.into_iter().flatten().chain([0x61c]) {
            let char = char::from_u32(code).unwrap();
            assert_eq!(
                escape_controls(&char.to_string()),
                format!("\\u{{{code:x}}}")
            );
        }
    }
}
