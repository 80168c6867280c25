//! Names from traces, made safe to print.

/// The maximum length of a stored text, in bytes.
pub(crate) const MAX_TEXT: usize = 256;

/// Returns text for a terminal: lossy UTF-8 without control characters, at most [`MAX_TEXT`] bytes
/// of it.
pub(crate) fn printable(bytes: &[u8]) -> String {
    printable_within(bytes, MAX_TEXT)
}

pub(crate) fn printable_within(bytes: &[u8], length: usize) -> String {
    let bytes = &bytes[..bytes.len().min(length)];
    let text = String::from_utf8_lossy(bytes);
    text.chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect::<String>()
        .trim()
        .to_owned()
}
