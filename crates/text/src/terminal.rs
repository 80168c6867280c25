//! Output of untrusted text on a terminal.

use std::borrow::Cow;

/// Makes a text safe to print within a line of a terminal.
///
/// Programs choose the names of their processes, threads, functions and data sources. Characters
/// that move the cursor, start a line, change colours or the direction of writing become `?`. Must
/// be applied to each name before it is truncated or padded.
pub fn shown(text: &str) -> Cow<'_, str> {
    if !text.contains(controls) {
        return Cow::Borrowed(text);
    }
    let replaced = text.chars().map(|c| if controls(c) { '?' } else { c });
    Cow::Owned(replaced.collect())
}

/// Like [`shown`], for a text of several lines, which may be indented.
pub fn shown_lines(text: &str) -> String {
    let keep = |c: char| matches!(c, '\n' | '\t') || !controls(c);
    text.chars()
        .map(|c| if keep(c) { c } else { '?' })
        .collect()
}

/// Like [`shown`], for bytes, which need not be UTF-8.
pub fn shown_bytes(bytes: &[u8]) -> String {
    shown(&String::from_utf8_lossy(bytes)).into_owned()
}

/// Returns true if the character controls the terminal instead of being visible.
pub fn controls(c: char) -> bool {
    let separates_lines = matches!(c, '\u{2028}' | '\u{2029}');
    let turns = matches!(c, '\u{200e}' | '\u{200f}' | '\u{061c}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    c.is_control() || separates_lines || turns
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_cannot_control_the_terminal() {
        assert_eq!(
            shown("plain ünï 漢字 <T as X>::f()"),
            "plain ünï 漢字 <T as X>::f()"
        );
        assert_eq!(shown("a\nb\rc\td"), "a?b?c?d");
        assert_eq!(shown("\x1b[31mred\x07\x7f"), "?[31mred??");
        assert_eq!(shown("\u{9b}31m\u{85}"), "?31m?");
        assert_eq!(shown("\u{202e}gpj.exe\u{2028}"), "?gpj.exe?");
        assert_eq!(shown_bytes(b"a\xff\x1b"), "a\u{fffd}?");
        assert_eq!(shown_lines("a\n\tb\x1b\r"), "a\n\tb??");
    }
}
