//! Functions of texts and bytes.

use std::sync::Arc;

use regex::{Regex, RegexBuilder};
use rusqlite::functions::Context;
use rusqlite::types::{Value, ValueRef};
use rusqlite::{Connection, Result};

use super::{failure, integer, optional, scalar, text};
use crate::limits::Limits;

const BASIS: u64 = 0xcbf2_9ce4_8422_2325;

fn step(hash: &mut u64, bytes: &[u8]) {
    for byte in bytes {
        *hash = (*hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    }
}

/// Returns the result of the SQL function `hash` for these texts: their 64-bit FNV-1a hash.
pub(crate) fn fnv<'a>(texts: impl IntoIterator<Item = &'a str>) -> i64 {
    let mut hash = BASIS;
    texts
        .into_iter()
        .for_each(|text| step(&mut hash, text.as_bytes()));
    hash.cast_signed()
}

fn hash(context: &Context<'_>) -> Result<Value> {
    let mut hash = BASIS;
    for index in 0..context.len() {
        match context.get_raw(index) {
            ValueRef::Text(text) => step(&mut hash, text),
            ValueRef::Integer(value) => step(&mut hash, &value.to_le_bytes()),
            _ => return failure("hash: arguments must be integers and texts"),
        }
    }
    Ok(Value::Integer(hash.cast_signed()))
}

/// Returns the regular expression of an argument, which is compiled once for a constant.
fn regex(context: &Context<'_>, index: usize, ignore_case: bool) -> Result<Arc<Regex>> {
    type Failure = Box<dyn std::error::Error + Send + Sync>;
    context.get_or_create_aux(index as i32, |value| -> Result<Regex, Failure> {
        let pattern = value.as_str()?;
        let built = RegexBuilder::new(pattern)
            .case_insensitive(ignore_case)
            .build();
        built.map_err(|error| format!("the pattern '{pattern}' cannot be read: {error}").into())
    })
}

fn has_null(context: &Context<'_>) -> bool {
    (0..context.len()).any(|index| context.get_raw(index) == ValueRef::Null)
}

fn regexp(context: &Context<'_>) -> Result<Value> {
    if has_null(context) {
        return Ok(Value::Null);
    }
    let flags = if context.len() > 2 {
        text(context.get_raw(2))
    } else {
        None
    };
    let mut ignore_case = false;
    // The last flag applies.
    for flag in flags.iter().flat_map(|flags| flags.chars()) {
        ignore_case = match flag {
            'i' => true,
            'c' => false,
            other => return failure(format!("regexp: unknown flag '{other}': use 'i' or 'c'")),
        };
    }
    let subject = text(context.get_raw(1)).unwrap_or_default();
    Ok(Value::Integer(
        regex(context, 0, ignore_case)?.is_match(&subject).into(),
    ))
}

fn regexp_extract(context: &Context<'_>) -> Result<Value> {
    if has_null(context) {
        return Ok(Value::Null);
    }
    let subject = text(context.get_raw(0)).unwrap_or_default();
    let regex = regex(context, 1, false)?;
    let Some(found) = regex.captures(&subject) else {
        return Ok(Value::Null);
    };
    if found.len() > 2 {
        return failure("regexp_extract: the pattern must have at most one group");
    }
    // A group that matches nothing stands for the whole match, as upstream.
    let group = found.get(1).filter(|group| !group.is_empty());
    let part = group.or_else(|| found.get(0));
    Ok(optional(part.map(|part| part.as_str().to_owned())))
}

fn regexp_replace(context: &Context<'_>, limits: &Limits) -> Result<Value> {
    if has_null(context) {
        return Ok(Value::Null);
    }
    let subject = text(context.get_raw(0)).unwrap_or_default();
    let to = text(context.get_raw(2)).unwrap_or_default();
    let regex = regex(context, 1, false)?;
    let (mut out, mut rest, mut charge) = (String::new(), 0, limits.charge());
    for found in regex.find_iter(&subject) {
        charge.grow((found.start() - rest + to.len()) as u64)?;
        out.push_str(&subject[rest..found.start()]);
        out.push_str(&to);
        rest = found.end();
    }
    charge.grow((subject.len() - rest) as u64)?;
    out.push_str(&subject[rest..]);
    Ok(out.into())
}

/// Returns the part of a text between two occurrences of a separator.
fn str_split(context: &Context<'_>) -> Result<Value> {
    if has_null(context) {
        return Ok(Value::Null);
    }
    let (subject, separator) = (text(context.get_raw(0)), text(context.get_raw(1)));
    let (subject, separator) = (subject.unwrap_or_default(), separator.unwrap_or_default());
    let Some(index) = integer(context, 2, "str_split")?.and_then(|n| usize::try_from(n).ok())
    else {
        return failure("str_split: argument 3 must not be negative");
    };
    if separator.is_empty() {
        return failure("str_split: the separator must not be empty");
    }
    Ok(optional(
        subject.split(&separator).nth(index).map(str::to_owned),
    ))
}

/// Returns the number that a text of hexadecimal digits stands for.
fn unhex(context: &Context<'_>) -> Result<Value> {
    let Some(digits) = text(context.get_raw(0)) else {
        return Ok(Value::Null);
    };
    let digits = digits.trim();
    let digits = digits
        .strip_prefix("0x")
        .or_else(|| digits.strip_prefix("0X"))
        .unwrap_or(digits);
    match u64::from_str_radix(digits, 16) {
        Ok(value) => Ok(Value::Integer(value.cast_signed())),
        Err(_) => failure(format!("unhex: '{digits}' is not a hexadecimal number")),
    }
}

/// Replaces numbers of at least `min` digits in a text by `<num>`: decimal ones; hexadecimal ones
/// at the start of a word, if they have a decimal digit; and hexadecimal ones after `0x`.
fn strip_hex(text: &str, min: usize) -> String {
    let mut out = String::with_capacity(text.len());
    let (mut rest, mut is_start) = (text, true);
    while let Some(c) = rest.chars().next() {
        let has_prefix = is_start && (rest.starts_with("0x") || rest.starts_with("0X"));
        let digits = &rest[if has_prefix { 2 } else { 0 }..];
        let is_digit = |c: char| c.is_ascii_digit() || (is_start && c.is_ascii_hexdigit());
        let len = digits.find(|c| !is_digit(c)).unwrap_or(digits.len());
        let is_number = has_prefix || digits[..len].contains(|c: char| c.is_ascii_digit());
        if is_number && len >= min.max(1) {
            out.push_str(&rest[..rest.len() - digits.len()]);
            out.push_str("<num>");
            rest = &digits[len..];
            is_start = false;
        } else {
            out.push(c);
            rest = &rest[c.len_utf8()..];
            is_start = !c.is_ascii_alphanumeric();
        }
    }
    out
}

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

pub(crate) fn base64(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let value =
            chunk.iter().fold(0_u32, |v, b| v << 8 | u32::from(*b)) << (8 * (3 - chunk.len()));
        let digit = |index: usize| ALPHABET[(value >> (18 - 6 * index) & 63) as usize];
        out.extend((0..4).map(|index| {
            if index <= chunk.len() {
                char::from(digit(index))
            } else {
                '='
            }
        }));
    }
    out
}

fn unbase64(text: &str) -> Option<Vec<u8>> {
    let digit = |b: u8| {
        ALPHABET
            .iter()
            .position(|a| *a == b)
            .map(|index| index as u32)
    };
    let digits: Vec<u32> = text
        .bytes()
        .filter(|b| *b != b'=')
        .map(digit)
        .collect::<Option<_>>()?;
    let mut out = Vec::with_capacity(digits.len() * 3 / 4);
    for chunk in digits.chunks(4) {
        let value = chunk.iter().fold(0_u32, |v, d| v << 6 | d) << (6 * (4 - chunk.len()));
        out.extend_from_slice(&value.to_be_bytes()[1..chunk.len().max(1)]);
    }
    Some(out)
}

pub(super) fn register(connection: &Connection, limits: &Limits) -> Result<()> {
    scalar(connection, "hash", -1, hash)?;
    scalar(connection, "regexp", 2, regexp)?;
    scalar(connection, "regexp", 3, regexp)?;
    scalar(connection, "regexp_extract", 2, regexp_extract)?;
    let of = limits.clone();
    scalar(connection, "regexp_replace_simple", 3, move |context| {
        regexp_replace(context, &of)
    })?;
    scalar(connection, "str_split", 3, str_split)?;
    scalar(connection, "unhex", 1, unhex)?;
    scalar(connection, "__intrinsic_strip_hex", 2, |context| {
        let Some(subject) = text(context.get_raw(0)) else {
            return Ok(Value::Null);
        };
        let min = integer(context, 1, "__intrinsic_strip_hex")?;
        match min.and_then(|min| usize::try_from(min).ok()) {
            Some(min) => Ok(strip_hex(&subject, min).into()),
            None => failure("__intrinsic_strip_hex: argument 2 must not be negative"),
        }
    })?;
    scalar(connection, "reverse", 1, |context| {
        let reversed = text(context.get_raw(0)).map(|text| text.chars().rev().collect::<String>());
        Ok(optional(reversed))
    })?;
    scalar(connection, "demangle", 1, |context| {
        let name = text(context.get_raw(0));
        Ok(optional(
            name.and_then(|name| ferretto_symbols::demangle(&name)),
        ))
    })?;
    scalar(connection, "base64_encode", 1, |context| {
        Ok(match context.get_raw(0) {
            ValueRef::Null => Value::Null,
            ValueRef::Blob(bytes) | ValueRef::Text(bytes) => base64(bytes).into(),
            other => base64(text(other).unwrap_or_default().as_bytes()).into(),
        })
    })?;
    scalar(connection, "base64_decode", 1, |context| {
        Ok(optional(
            text(context.get_raw(0)).and_then(|text| unbase64(&text)),
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::strip_hex;

    #[test]
    fn numbers_are_replaced() {
        for (text, min, expected) in [
            ("0xabcd", 3, "0x<num>"),
            ("12a34", 3, "<num>"),
            ("abc", 1, "abc"),
            ("1=22@333-444", 3, "1=22@<num>-<num>"),
            (
                "(0x75dfea9cc0) part20 100x100",
                2,
                "(0x<num>) part<num> <num>x<num>",
            ),
            ("\u{e4}1", 1, "\u{e4}<num>"),
        ] {
            assert_eq!(strip_hex(text, min), expected);
        }
    }
}
