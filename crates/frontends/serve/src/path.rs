//! The path of a page.

/// The most segments of a path; no page has as many.
const MAX_SEGMENTS: usize = 16;

/// The decoded segments of a path, without an empty one at the end; `None` for a path that is malformed or has no
/// page. Segments are compared with names and never become paths of files.
pub fn segments(path: &str) -> Option<Vec<String>> {
    let path = path.strip_prefix('/')?;
    let path = path.strip_suffix('/').unwrap_or(path);
    let segments = path.split('/').take(MAX_SEGMENTS + 1).map(decoded);
    let segments = segments.collect::<Option<Vec<String>>>()?;
    (segments.len() <= MAX_SEGMENTS).then_some(segments)
}

/// A segment without percent-encoding (RFC 3986, 2.1).
fn decoded(segment: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(segment.len());
    let mut rest = segment.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let (digits, after) = rest.split_first_chunk::<2>()?;
        let digit = |byte: u8| char::from(byte).to_digit(16);
        bytes.push((digit(digits[0])? * 16 + digit(digits[1])?) as u8);
        rest = after;
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segments_are_decoded() {
        assert_eq!(segments("/a/b/").unwrap(), ["a", "b"]);
        assert_eq!(
            segments("/a%2Fb/%2e%2E/%C3%A9").unwrap(),
            ["a/b", "..", "é"]
        );
        for path in ["a", "/%", "/%4", "/%zz", "/%ff", &"/a".repeat(40)] {
            assert_eq!(segments(path), None, "{path}");
        }
    }
}
