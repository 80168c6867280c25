//! Answers of tools, and their pages.

use ferretto_text::terminal::controls;
use serde_json::{Map, Value, json};

/// The version of answers. It grows when a field is removed or changes its meaning.
const VERSION: u32 = 1;
/// The bytes of an answer, unless the caller asks for more.
pub(crate) const DEFAULT_BYTES: usize = 8 << 10;
/// The bounds of what a caller may ask for.
pub(crate) const MIN_BYTES: usize = 1 << 10;
pub(crate) const MAX_BYTES: usize = 1 << 20;
/// The bytes of the members that every answer has.
const FRAME_BYTES: usize = 128;
/// The lengths of texts and lists to which too large values are cut, one after the other.
const CUTS: [(usize, usize); 5] = [(1000, 50), (300, 20), (100, 10), (40, 4), (12, 1)];

/// An answer: members that every page has, and items of which a page has as many as fit.
#[derive(Debug, Clone, Default)]
pub struct Answer {
    /// The members of every page.
    pub head: Map<String, Value>,
    /// The items, the most important first.
    pub items: Vec<Value>,
    /// A picture beside the text.
    pub image: Option<Image>,
}

/// A picture.
#[derive(Debug, Clone)]
pub struct Image {
    /// The type, such as `image/png`.
    pub mime: &'static str,
    /// Its bytes.
    pub bytes: Vec<u8>,
}

impl Answer {
    /// Returns an answer with these members; others than objects have none.
    pub fn new(head: Value, items: Vec<Value>) -> Self {
        let head = match head {
            Value::Object(head) => head,
            _ => Map::new(),
        };
        Self {
            head,
            items,
            image: None,
        }
    }

    /// Returns the text of the page that starts at an item, as a JSON object of at most `max`
    /// bytes.
    pub(crate) fn page(&self, from: usize, max: usize) -> String {
        let mut page = json!({ "version": VERSION });
        let mut left = max.saturating_sub(FRAME_BYTES);
        for (name, value) in &self.head {
            let (value, bytes) = fitting(value, left / 2);
            left = left.saturating_sub(bytes + name.len() + 4);
            page[name.as_str()] = value;
        }
        let mut items = Vec::new();
        for item in self.items.iter().skip(from) {
            let (item, bytes) = if items.is_empty() {
                fitting(item, left)
            } else {
                (item.clone(), escaped(&item.to_string()).len())
            };
            if bytes + 1 > left && !items.is_empty() {
                break;
            }
            left = left.saturating_sub(bytes + 1);
            items.push(item);
        }
        let next = from + items.len();
        let more = self.items.len().saturating_sub(next);
        if !self.items.is_empty() {
            page["items"] = items.into();
            page["more_items"] = more.into();
            page["next_cursor"] = match more {
                0 => Value::Null,
                _ => next.to_string().into(),
            };
        }
        escaped(&page.to_string())
    }
}

/// Returns the text of an answer that says why a call failed, of at most `max` bytes: reasons may
/// contain names of any length.
pub(crate) fn failure(reason: &str, max: usize) -> String {
    let (reason, _) = fitting(&reason.into(), max.saturating_sub(FRAME_BYTES));
    escaped(&json!({ "version": VERSION, "error": reason }).to_string())
}

/// Returns a value that takes at most `max` bytes as far as cutting texts and lists can do, and its
/// bytes.
fn fitting(value: &Value, max: usize) -> (Value, usize) {
    let mut value = value.clone();
    let mut bytes = escaped(&value.to_string()).len();
    for (texts, lists) in CUTS {
        if bytes <= max {
            return (value, bytes);
        }
        cut(&mut value, texts, lists);
        bytes = escaped(&value.to_string()).len();
    }
    if bytes <= max {
        return (value, bytes);
    }
    let value = json!("…");
    (value, 5)
}

/// Cuts texts and lists.
fn cut(value: &mut Value, texts: usize, lists: usize) {
    match value {
        Value::String(text) if text.chars().count() > texts => {
            *text = text.chars().take(texts).chain(['…']).collect();
        }
        Value::Array(items) => {
            items.truncate(lists);
            items.iter_mut().for_each(|item| cut(item, texts, lists));
        }
        Value::Object(members) => {
            let members = members.iter_mut();
            members.for_each(|(_, member)| cut(member, texts, lists));
        }
        _ => {}
    }
}

/// Returns a JSON text in which all characters that control a terminal are escaped. In JSON, they
/// are in strings only.
pub(crate) fn escaped(json: &str) -> String {
    if !json.contains(controls) {
        return json.to_owned();
    }
    let mut escaped = String::with_capacity(json.len());
    for c in json.chars() {
        match c {
            c if controls(c) => escaped.push_str(&format!("\\u{:04x}", u32::from(c))),
            c => escaped.push(c),
        }
    }
    escaped
}

/// Returns bytes as base64.
pub(crate) fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for three in bytes.chunks(3) {
        let byte = |at: usize| u32::from(three.get(at).copied().unwrap_or(0));
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for at in 0..4 {
            text.push(if at <= three.len() {
                char::from(DIGITS[(bits >> (18 - 6 * at) & 63) as usize])
            } else {
                '='
            });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_have_a_bounded_size_and_a_cursor_until_the_last_item() {
        let name = "\u{1b}\"\u{202e}".repeat(500);
        let items: Vec<Value> = (0..120)
            .map(|at| json!({ "name": name.chars().take(at * 3).collect::<String>(), "at": at }))
            .collect();
        let answer = Answer::new(
            json!({ "file": name, "list": vec![name.clone(); 10] }),
            items,
        );
        for max in [MIN_BYTES, DEFAULT_BYTES, MAX_BYTES] {
            let (mut from, mut seen) = (0, 0);
            loop {
                let text = answer.page(from, max);
                assert!(text.len() <= max, "{} of {max}", text.len());
                assert!(!text.contains(controls));
                let page: Value = serde_json::from_str(&text).unwrap();
                let items = page["items"].as_array().unwrap();
                for item in items {
                    assert!(item == "…" || item["at"] == seen, "{item}");
                    seen += 1;
                }
                match page["next_cursor"].as_str() {
                    Some(next) => from = next.parse().unwrap(),
                    None => break,
                }
            }
            assert_eq!(seen, 120);
        }
    }

    #[test]
    fn bytes_are_encoded() {
        assert_eq!(base64(b""), "");
        assert_eq!(base64(b"M"), "TQ==");
        assert_eq!(base64(b"Ma"), "TWE=");
        assert_eq!(base64(b"Man"), "TWFu");
    }
}
