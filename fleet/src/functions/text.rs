//! Functions of texts and bytes.

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, BinaryArray, Int64Array, StringArray};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::DataType;
use datafusion::common::{Result, exec_err};

use super::bounded::BoundedTexts;
use super::{ArrayFunction, integers, texts};

pub(super) fn functions() -> Vec<ArrayFunction> {
    use DataType::{Binary, Int64, Utf8};
    vec![
        ArrayFunction::new("__length", 1..=1, Int64, |args, _| {
            if let DataType::Binary | DataType::LargeBinary = args[0].data_type() {
                let bytes = cast(&args[0], &DataType::Binary)?;
                let bytes = bytes.as_binary::<i32>();
                let lengths = bytes.iter().map(|b| b.map(|b| b.len() as i64));
                return Ok(Arc::new(lengths.collect::<Int64Array>()));
            }
            let count = |t: &str| t.chars().count() as i64;
            Ok(Arc::new(
                texts(&args[0])?
                    .iter()
                    .map(|t| t.map(count))
                    .collect::<Int64Array>(),
            ))
        }),
        ArrayFunction::new("__substr", 2..=3, Utf8, substr),
        ArrayFunction::new("__instr", 2..=2, Int64, |args, _| {
            let (text, part) = (texts(&args[0])?, texts(&args[1])?);
            let position = |(text, part): (Option<&str>, Option<&str>)| {
                let (text, part) = (text?, part?);
                Some(
                    text.find(part)
                        .map_or(0, |at| text[..at].chars().count() as i64 + 1),
                )
            };
            Ok(Arc::new(
                text.iter()
                    .zip(part.iter())
                    .map(position)
                    .collect::<Int64Array>(),
            ))
        }),
        ArrayFunction::new("__replace", 3..=3, Utf8, |args, _| {
            let (text, from, to) = (texts(&args[0])?, texts(&args[1])?, texts(&args[2])?);
            let rows = text.iter().zip(from.iter()).zip(to.iter());
            let mut replaced = BoundedTexts::new("replace");
            for ((text, from), to) in rows {
                match (text, from, to) {
                    (Some(text), Some(""), Some(_)) => replaced.push(Some(text))?,
                    (Some(text), Some(from), Some(to)) => {
                        let count = text.matches(from).count();
                        replaced.check(count.saturating_mul(to.len()))?;
                        replaced.push(Some(&text.replace(from, to)))?;
                    }
                    _ => replaced.push(None)?,
                }
            }
            Ok(replaced.finish())
        }),
        ArrayFunction::new("__trim", 1..=2, Utf8, |args, rows| {
            let text = texts(&args[0])?;
            let set = args.get(1).map(texts).transpose()?;
            let trimmed = (0..rows).map(|i| {
                let set = match &set {
                    Some(set) if set.is_null(i) => return None,
                    Some(set) => set.value(i),
                    None => " ",
                };
                text.is_valid(i)
                    .then(|| text.value(i).trim_matches(|c| set.contains(c)))
            });
            Ok(Arc::new(trimmed.collect::<StringArray>()))
        }),
        ArrayFunction::new("__hex", 1..=1, Utf8, |args, _| {
            let hex = |bytes: &[u8]| {
                const DIGITS: [char; 16] = [
                    '0', '1', '2', '3', '4', '5', '6', '7', '8', '9', 'A', 'B', 'C', 'D', 'E', 'F',
                ];
                let mut text = String::with_capacity(2 * bytes.len());
                for byte in bytes {
                    text.push(DIGITS[usize::from(byte >> 4)]);
                    text.push(DIGITS[usize::from(byte & 15)]);
                }
                text
            };
            let mut texts = BoundedTexts::new("hex");
            for bytes in &bytes(&args[0])? {
                // The result for NULL is the empty text, as in SQLite.
                let bytes = bytes.unwrap_or_default();
                texts.check(bytes.len().saturating_mul(2))?;
                texts.push(Some(&hex(bytes)))?;
            }
            Ok(texts.finish())
        }),
        ArrayFunction::new("__unhex", 1..=1, Int64, |args, _| {
            let text = texts(&args[0])?;
            let mut values = Vec::with_capacity(text.len());
            for text in &text {
                values.push(match text {
                    None => None,
                    Some(text) => {
                        let digits = text.trim();
                        let digits = digits
                            .strip_prefix("0x")
                            .or_else(|| digits.strip_prefix("0X"))
                            .unwrap_or(digits);
                        match u64::from_str_radix(digits, 16) {
                            Ok(value) => Some(value.cast_signed()),
                            Err(_) => {
                                return exec_err!("unhex: '{text}' is not a hexadecimal number.");
                            }
                        }
                    }
                });
            }
            Ok(Arc::new(Int64Array::from(values)))
        }),
        ArrayFunction::new("demangle", 1..=1, Utf8, |args, _| {
            let texts = texts(&args[0])?;
            let names = texts.iter().map(|t| t.and_then(ferretto_symbols::demangle));
            Ok(Arc::new(names.collect::<StringArray>()))
        }),
        ArrayFunction::new("reverse", 1..=1, Utf8, |args, _| {
            let reverse = |t: &str| t.chars().rev().collect::<String>();
            Ok(Arc::new(
                texts(&args[0])?
                    .iter()
                    .map(|t| t.map(reverse))
                    .collect::<StringArray>(),
            ))
        }),
        ArrayFunction::new("str_split", 3..=3, Utf8, |args, _| {
            let (text, delimiter) = (texts(&args[0])?, texts(&args[1])?);
            let index = integers(&args[2])?;
            if delimiter.iter().flatten().any(str::is_empty) {
                return exec_err!("str_split: the delimiter must not be empty.");
            }
            if index.iter().flatten().any(|n| n < 0) {
                return exec_err!("str_split: the index must not be negative.");
            }
            let rows = text.iter().zip(delimiter.iter()).zip(index.iter());
            let pieces =
                rows.map(|((text, delimiter), n)| text?.split(delimiter?).nth(n?.try_into().ok()?));
            Ok(Arc::new(pieces.collect::<StringArray>()))
        }),
        ArrayFunction::new("unicode", 1..=1, Int64, |args, _| {
            let code = |t: &str| t.chars().next().map(|c| i64::from(u32::from(c)));
            Ok(Arc::new(
                texts(&args[0])?
                    .iter()
                    .map(|t| t.and_then(code))
                    .collect::<Int64Array>(),
            ))
        }),
        ArrayFunction::new("char", 1..=usize::MAX, Utf8, |args, rows| {
            let codes = args.iter().map(integers).collect::<Result<Vec<_>>>()?;
            let text = |row: usize| {
                codes
                    .iter()
                    .filter(|c| c.is_valid(row))
                    .filter_map(|c| u32::try_from(c.value(row)).ok().and_then(char::from_u32))
                    .collect::<String>()
            };
            Ok(Arc::new(StringArray::from_iter_values((0..rows).map(text))))
        }),
        ArrayFunction::new("quote", 1..=1, Utf8, |args, rows| {
            let text = super::is_text(args[0].data_type());
            let values = texts(&args[0])?;
            let quote = |i: usize| {
                if values.is_null(i) {
                    "NULL".to_owned()
                } else if text {
                    format!("'{}'", values.value(i).replace('\'', "''"))
                } else {
                    values.value(i).to_owned()
                }
            };
            Ok(Arc::new(StringArray::from_iter_values(
                (0..rows).map(quote),
            )))
        }),
        ArrayFunction::new("base64_encode", 1..=1, Utf8, |args, _| {
            let rows = bytes(&args[0])?;
            Ok(Arc::new(
                rows.iter().map(|b| b.map(base64)).collect::<StringArray>(),
            ))
        }),
        ArrayFunction::new("base64_decode", 1..=1, Binary, |args, _| {
            let decoded: Vec<Option<Vec<u8>>> = texts(&args[0])?
                .iter()
                .map(|t| t.and_then(unbase64))
                .collect();
            Ok(Arc::new(
                decoded
                    .iter()
                    .map(|b| b.as_deref())
                    .collect::<BinaryArray>(),
            ))
        }),
    ]
}

fn bytes(array: &ArrayRef) -> Result<BinaryArray> {
    let array = match array.data_type() {
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView => array.clone(),
        _ => super::to_text(array)?,
    };
    Ok(cast(&array, &DataType::Binary)?.as_binary::<i32>().clone())
}

/// Computes `substr(text, from[, count])`. Characters are counted from 1, from the end if `from` is
/// negative. A negative `count` selects the characters before `from`.
fn substr(args: &[ArrayRef], rows: usize) -> Result<ArrayRef> {
    let text = texts(&args[0])?;
    let from = integers(&args[1])?;
    let count = args.get(2).map(integers).transpose()?;
    let part = |i: usize| {
        if text.is_null(i) || from.is_null(i) || count.as_ref().is_some_and(|c| c.is_null(i)) {
            return None;
        }
        let length = text.value(i).chars().count() as i64;
        let mut start = from.value(i);
        let mut size = count.as_ref().map_or(i64::MAX, |c| c.value(i));
        if start < 0 {
            start = start.saturating_add(length);
            if start < 0 {
                if size >= 0 {
                    size = size.saturating_add(start).max(0);
                }
                start = 0;
            }
        } else if start > 0 {
            start -= 1;
        } else if size > 0 {
            size -= 1;
        }
        if size < 0 {
            let end = start;
            start = start.saturating_add(size).max(0);
            size = end - start;
        }
        let (skip, size) = (usize::try_from(start).ok()?, usize::try_from(size).ok()?);
        Some(
            text.value(i)
                .chars()
                .skip(skip)
                .take(size)
                .collect::<String>(),
        )
    };
    Ok(Arc::new((0..rows).map(part).collect::<StringArray>()))
}

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Encodes bytes in base 64.
pub(crate) fn base64(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let value =
            chunk.iter().fold(0u32, |v, b| v << 8 | u32::from(*b)) << (8 * (3 - chunk.len()));
        for index in 0..4 {
            if index <= chunk.len() {
                out.push(char::from(
                    ALPHABET[(value >> (18 - 6 * index) & 63) as usize],
                ));
            } else {
                out.push('=');
            }
        }
    }
    out
}

fn unbase64(text: &str) -> Option<Vec<u8>> {
    let digits: Vec<u32> = text
        .bytes()
        .filter(|b| *b != b'=')
        .map(|b| ALPHABET.iter().position(|a| *a == b).map(|p| p as u32))
        .collect::<Option<_>>()?;
    let mut out = Vec::with_capacity(digits.len() * 3 / 4);
    for chunk in digits.chunks(4) {
        let value = chunk.iter().fold(0u32, |v, d| v << 6 | d) << (6 * (4 - chunk.len()));
        out.extend_from_slice(&value.to_be_bytes()[1..chunk.len().max(1)]);
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::{base64, unbase64};

    #[test]
    fn base64_decodes_its_own_output() {
        for bytes in [&b""[..], b"a", b"ab", b"abc", b"\0\xff\x10\x80"] {
            assert_eq!(unbase64(&base64(bytes)).as_deref(), Some(bytes));
        }
        assert_eq!(base64(b"ab"), "YWI=");
        assert_eq!(unbase64("%"), None);
    }
}
