//! JSON values, with keys in the order of the file.

use std::borrow::Cow;
use std::fmt;

use serde_core::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};

/// A JSON value.
#[derive(Debug, Clone, PartialEq)]
pub enum Json<'a> {
    /// `null`.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// An integer.
    Int(i64),
    /// An integer that is too large for `i64`.
    Uint(u64),
    /// Any other number.
    Real(f64),
    /// A string.
    Text(Cow<'a, str>),
    /// An array.
    Array(Vec<Self>),
    /// An object. Keys may occur more than once.
    Object(Vec<(Cow<'a, str>, Self)>),
}

impl<'a> Json<'a> {
    /// Parses a value. Returns `None` if it is malformed or nested too deeply.
    pub fn parse(bytes: &'a [u8]) -> Option<Self> {
        serde_json::from_slice(bytes).ok()
    }

    /// Parses a value as programs write it that do not know JSON: with trailing commas, line breaks
    /// in strings, bytes that are not UTF-8, halves of surrogate pairs, and numbers that JSON does
    /// not have, which become text. `spare` holds the corrected bytes.
    pub(crate) fn parse_leniently(bytes: &'a [u8], spare: &'a mut Vec<u8>) -> Option<Self> {
        if let Some(value) = Self::parse(bytes) {
            return Some(value);
        }
        let text = String::from_utf8_lossy(bytes);
        *spare = corrected(text.as_bytes());
        Self::parse(spare)
    }

    /// Returns the string if the value is one.
    pub fn as_text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            _ => None,
        }
    }
}

/// The replacement of a surrogate without its other half.
const REPLACEMENT: &[u8] = br"\ufffd";

/// Removes trailing commas, escapes control characters in strings, replaces halves of surrogate
/// pairs, and quotes words and numbers that JSON does not have.
fn corrected(bytes: &[u8]) -> Vec<u8> {
    let mut kept = Vec::with_capacity(bytes.len());
    let mut comma = None;
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        at += 1;
        match byte {
            b'"' => {
                comma = None;
                kept.push(byte);
                at = correct_string(bytes, at, &mut kept);
                continue;
            }
            b'}' | b']' => {
                if let Some(comma) = comma {
                    kept.truncate(comma);
                }
                comma = None;
            }
            b',' => comma = Some(kept.len()),
            b'{' | b'[' | b':' => comma = None,
            byte if byte.is_ascii_whitespace() => {}
            _ => {
                comma = None;
                let rest = &bytes[at - 1..];
                let is_end = |byte: &u8| b",:{}[]\"".contains(byte) || byte.is_ascii_whitespace();
                let length = rest.iter().position(is_end).unwrap_or(rest.len());
                let word = &rest[..length];
                let is_known = Json::parse(word).is_some();
                let quote: &[u8] = if is_known { b"" } else { b"\"" };
                for part in [quote, word, quote] {
                    kept.extend_from_slice(part);
                }
                at += length - 1;
                continue;
            }
        }
        kept.push(byte);
    }
    kept
}

/// Corrects the string that begins at `at`, after its quote. Returns the end of the string.
fn correct_string(bytes: &[u8], mut at: usize, kept: &mut Vec<u8>) -> usize {
    while let Some(&byte) = bytes.get(at) {
        at += 1;
        match byte {
            b'"' => {
                kept.push(byte);
                return at;
            }
            b'\\' => {
                let rest = &bytes[at - 1..];
                match surrogate(rest) {
                    Some(0xdc00..) => {
                        kept.extend_from_slice(REPLACEMENT);
                        at += 5;
                    }
                    Some(_) if matches!(rest.get(6..).and_then(surrogate), Some(0xdc00..)) => {
                        kept.extend_from_slice(&rest[..12]);
                        at += 11;
                    }
                    Some(_) => {
                        kept.extend_from_slice(REPLACEMENT);
                        at += 5;
                    }
                    None => {
                        kept.push(byte);
                        kept.extend(bytes.get(at));
                        at += 1;
                    }
                }
            }
            ..b' ' => kept.extend(format!("\\u{byte:04x}").into_bytes()),
            _ => kept.push(byte),
        }
    }
    at
}

/// Returns the code of the escape sequence at the start of `bytes` if it is half a surrogate pair.
fn surrogate(bytes: &[u8]) -> Option<u16> {
    let digits = bytes.strip_prefix(br"\u")?.get(..4)?;
    let code = u16::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?;
    (0xd800..0xe000).contains(&code).then_some(code)
}

impl<'de: 'a, 'a> Deserialize<'de> for Json<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ValueVisitor(std::marker::PhantomData))
    }
}

struct ValueVisitor<'a>(std::marker::PhantomData<&'a ()>);

impl<'de: 'a, 'a> Visitor<'de> for ValueVisitor<'a> {
    type Value = Json<'a>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Json<'a>, E> {
        Ok(Json::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Json<'a>, E> {
        Ok(Json::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Json<'a>, E> {
        Ok(Json::Int(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Json<'a>, E> {
        Ok(i64::try_from(value).map_or(Json::Uint(value), Json::Int))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Json<'a>, E> {
        Ok(Json::Real(value))
    }

    fn visit_borrowed_str<E>(self, value: &'de str) -> Result<Json<'a>, E> {
        Ok(Json::Text(Cow::Borrowed(value)))
    }

    fn visit_str<E>(self, value: &str) -> Result<Json<'a>, E> {
        Ok(Json::Text(Cow::Owned(value.to_owned())))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Json<'a>, A::Error> {
        let mut array = Vec::new();
        while let Some(item) = items.next_element()? {
            array.push(item);
        }
        Ok(Json::Array(array))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Json<'a>, A::Error> {
        let mut object = Vec::new();
        while let Some((key, value)) = entries.next_entry::<Json<'a>, Json<'a>>()? {
            // Keys are always strings.
            if let Json::Text(key) = key {
                object.push((key, value));
            }
        }
        Ok(Json::Object(object))
    }
}

impl fmt::Display for Json<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let quote = |text: &str| serde_json::to_string(text).unwrap_or_default();
        match self {
            Self::Null => f.write_str("null"),
            Self::Bool(value) => write!(f, "{value}"),
            Self::Int(value) => write!(f, "{value}"),
            Self::Uint(value) => write!(f, "{value}"),
            Self::Real(value) => write!(f, "{value}"),
            Self::Text(text) => f.write_str(&quote(text)),
            Self::Array(items) => {
                for (index, item) in items.iter().enumerate() {
                    write!(f, "{}{item}", if index == 0 { "[" } else { "," })?;
                }
                f.write_str(if items.is_empty() { "[]" } else { "]" })
            }
            Self::Object(entries) => {
                for (index, (key, value)) in entries.iter().enumerate() {
                    let separator = if index == 0 { "{" } else { "," };
                    write!(f, "{separator}{}:{value}", quote(key))?;
                }
                f.write_str(if entries.is_empty() { "{}" } else { "}" })
            }
        }
    }
}
