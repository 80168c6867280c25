//! Texts for terminals.

use std::io::Write as _;

use ferretto_output::{Printable, printable};

#[test]
fn control_characters_are_escaped() {
    assert_eq!(printable("a\tb\nc é"), "a\tb\nc é");
    assert_eq!(printable("\x1b]0;x\x07"), "\\u{1b}]0;x\\u{7}");
    assert_eq!(printable("\r\u{9b}\u{7f}"), "\\u{d}\\u{9b}\\u{7f}");
    assert_eq!(printable("\u{202e}cod.exe"), "\\u{202e}cod.exe");
}

#[test]
fn bytes_of_any_writes_are_escaped() {
    let bytes = "a\x1b[2Jé\u{9b}z\u{202e}".as_bytes();
    for size in 1..bytes.len() {
        let mut out = Vec::new();
        let mut writer = Printable::new(&mut out);
        for part in bytes.chunks(size) {
            writer.write_all(part).expect("written");
        }
        assert_eq!(
            String::from_utf8_lossy(&out),
            "a\\u{1b}[2Jé\\u{9b}z\\u{202e}"
        );
    }
    // A byte that some terminals take as the beginning of a sequence.
    let mut out = Vec::new();
    Printable::new(&mut out)
        .write_all(b"a\x9b2J")
        .expect("written");
    assert_eq!(String::from_utf8_lossy(&out), "a\u{fffd}2J");
}
