//! Casts, truth values and comparisons with SQLite's semantics.

use std::sync::Arc;

use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, BinaryArray, BooleanArray, Float64Array, Int64Array, StringArray,
    new_null_array,
};
use datafusion::arrow::compute::kernels::{cmp, zip::zip};
use datafusion::arrow::compute::{cast, is_not_null, is_null, or};
use datafusion::arrow::datatypes::{DataType, Float64Type};
use datafusion::common::{Result, exec_err};

use super::{ArrayFunction, integers, is_text, only_integers, reals, texts, type_word};

/// Returns a function that converts values to numbers: texts and reals to reals, others to
/// integers.
fn numeric(name: &'static str) -> ArrayFunction {
    ArrayFunction::typed(
        name,
        1..=1,
        |types| match &types[0] {
            kind if kind.is_floating() || is_text(kind) => DataType::Float64,
            _ => DataType::Int64,
        },
        |args, _| match args[0].data_type() {
            kind if kind.is_floating() || is_text(kind) => cast_real(&args[0]),
            _ => cast_int(&args[0]),
        },
    )
}

pub(super) fn functions() -> Vec<ArrayFunction> {
    use DataType::{Binary, Boolean, Float64, Int64, Utf8};
    vec![
        ArrayFunction::new("__truth", 1..=1, Boolean, |args, _| truth(&args[0])).identity(),
        ArrayFunction::new("__text", 1..=1, Utf8, |args, _| to_text(&args[0])).identity(),
        ArrayFunction::new("__cast_int", 1..=1, Int64, |args, _| cast_int(&args[0])).identity(),
        ArrayFunction::new("__cast_real", 1..=1, Float64, |args, _| cast_real(&args[0])).identity(),
        ArrayFunction::new("__cast_text", 1..=1, Utf8, |args, _| to_text(&args[0])).identity(),
        numeric("__cast_numeric"),
        // The value of an argument in sums: truth values are 0 and 1, texts the number at their
        // start.
        numeric("__num").identity(),
        // A text that is compared with a number: its number, or NULL.
        ArrayFunction::new("__numeric", 1..=1, Float64, |args, _| {
            let texts = texts(&args[0])?;
            let numbers = texts
                .iter()
                .map(|t| t.and_then(|t| t.trim().parse::<f64>().ok()));
            Ok(Arc::new(numbers.collect::<Float64Array>()))
        }),
        // The largest or smallest of several values; NULL if one is NULL.
        ArrayFunction::typed("__max", 2..=usize::MAX, common, |args, _| {
            extreme(args, true)
        }),
        ArrayFunction::typed("__min", 2..=usize::MAX, common, |args, _| {
            extreme(args, false)
        }),
        // The first value that is not NULL, as a text if one of the arguments is a text.
        ArrayFunction::typed("__coalesce", 1..=usize::MAX, common, |args, _| {
            let types: Vec<DataType> = args.iter().map(|a| a.data_type().clone()).collect();
            let data_type = common(&types);
            let mut first = convert(&args[args.len() - 1], &data_type)?;
            for array in args[..args.len() - 1].iter().rev() {
                let array = convert(array, &data_type)?;
                first = zip(&is_not_null(&array)?, &array, &first)?;
            }
            Ok(first)
        }),
        ArrayFunction::new("typeof", 1..=1, Utf8, |args, rows| {
            let word = type_word(args[0].data_type());
            let nulls = is_null(&args[0])?;
            Ok(Arc::new(StringArray::from_iter_values(
                (0..rows).map(|i| if nulls.value(i) { "null" } else { word }),
            )))
        }),
        ArrayFunction::new("hash", 1..=usize::MAX, Int64, hash),
        ArrayFunction::new("__sign", 1..=1, Int64, |args, _| {
            let values = reals(&args[0])?;
            let sign = |v: f64| {
                if v > 0.0 {
                    1
                } else if v < 0.0 {
                    -1
                } else {
                    0
                }
            };
            Ok(Arc::new(
                values.iter().map(|v| v.map(sign)).collect::<Int64Array>(),
            ))
        }),
        ArrayFunction::new("__round", 1..=2, Float64, |args, _| {
            let values = reals(&args[0])?;
            let digits = args.get(1).map(integers).transpose()?;
            Ok(Arc::new(
                values
                    .iter()
                    .enumerate()
                    .map(|(i, value)| {
                        let digits = match &digits {
                            Some(d) if d.is_null(i) => return None,
                            Some(d) => d.value(i).clamp(0, 30),
                            None => 0,
                        };
                        let scale = 10f64.powi(digits as i32);
                        value.map(|v| {
                            let scaled = v * scale;
                            if scaled.is_finite() {
                                scaled.round() / scale
                            } else {
                                v
                            }
                        })
                    })
                    .collect::<Float64Array>(),
            ))
        }),
        ArrayFunction::new("zeroblob", 1..=1, Binary, |args, _| {
            let sizes = only_integers("zeroblob", &args[0])?;
            if sizes.iter().flatten().any(|n| n > 1 << 20) {
                return exec_err!("zeroblob: the size must be at most 1 MiB.");
            }
            let blobs: Vec<Option<Vec<u8>>> = sizes
                .iter()
                .map(|n| n.map(|n| vec![0; n.max(0) as usize]))
                .collect();
            Ok(Arc::new(
                blobs.iter().map(|b| b.as_deref()).collect::<BinaryArray>(),
            ))
        }),
        ArrayFunction::new("random", 0..=0, Int64, |_, rows| {
            use std::hash::{BuildHasher, RandomState};
            let state = RandomState::new();
            Ok(Arc::new(
                (0..rows)
                    .map(|i| state.hash_one(i).cast_signed())
                    .collect::<Int64Array>(),
            ))
        })
        .volatile(),
    ]
}

/// Returns true for numbers other than 0. The number of a text is the one at its start.
fn truth(array: &ArrayRef) -> Result<ArrayRef> {
    if *array.data_type() == DataType::Boolean {
        return Ok(array.clone());
    }
    let numbers = cast_real(array)?;
    let numbers = numbers.as_primitive::<Float64Type>();
    Ok(Arc::new(
        numbers
            .iter()
            .map(|v| v.map(|v| v != 0.0))
            .collect::<BooleanArray>(),
    ))
}

/// Returns the part of a text that is the number at its start.
fn number_prefix(text: &str) -> &str {
    let text = text.trim_start();
    let bytes = text.as_bytes();
    let digits = |mut at: usize| {
        while bytes.get(at).is_some_and(u8::is_ascii_digit) {
            at += 1;
        }
        at
    };
    let start = usize::from(matches!(bytes.first(), Some(b'+' | b'-')));
    let whole = digits(start);
    let mut end = whole;
    if bytes.get(end) == Some(&b'.') {
        end = digits(end + 1);
    }
    if end == start || (end == start + 1 && bytes[start] == b'.') {
        return "";
    }
    if matches!(bytes.get(end), Some(b'e' | b'E')) {
        let sign = usize::from(matches!(bytes.get(end + 1), Some(b'+' | b'-')));
        let exponent = digits(end + 1 + sign);
        if exponent > end + 1 + sign {
            end = exponent;
        }
    }
    &text[..end]
}

/// Casts to integers: reals are rounded toward 0 and clamped, texts are read up to the first other
/// character.
fn cast_int(array: &ArrayRef) -> Result<ArrayRef> {
    let data_type = array.data_type();
    if is_text(data_type) {
        let integer = |text: &str| {
            let text = text.trim_start();
            let (negative, digits) = match text.as_bytes().first() {
                Some(b'-') => (true, &text[1..]),
                Some(b'+') => (false, &text[1..]),
                _ => (false, text),
            };
            let end = digits
                .bytes()
                .position(|b| !b.is_ascii_digit())
                .unwrap_or(digits.len());
            let mut value = 0i64;
            for digit in digits[..end].bytes() {
                let digit = i64::from(digit - b'0');
                let digit = if negative { -digit } else { digit };
                value = match value.checked_mul(10).and_then(|v| v.checked_add(digit)) {
                    Some(value) => value,
                    None if negative => i64::MIN,
                    None => i64::MAX,
                };
            }
            value
        };
        let texts = texts(array)?;
        return Ok(Arc::new(
            texts.iter().map(|t| t.map(integer)).collect::<Int64Array>(),
        ));
    }
    if data_type.is_floating() {
        let reals = reals(array)?;
        return Ok(Arc::new(
            reals
                .iter()
                .map(|v| v.map(|v| v as i64))
                .collect::<Int64Array>(),
        ));
    }
    if *data_type == DataType::UInt64 {
        let values = array.as_primitive::<datafusion::arrow::datatypes::UInt64Type>();
        return Ok(Arc::new(
            values.unary::<_, datafusion::arrow::datatypes::Int64Type>(|v| v.cast_signed()),
        ));
    }
    Ok(cast(array, &DataType::Int64)?)
}

fn cast_real(array: &ArrayRef) -> Result<ArrayRef> {
    if is_text(array.data_type()) {
        let real = |text: &str| number_prefix(text).parse().unwrap_or(0.0);
        let texts = texts(array)?;
        return Ok(Arc::new(
            texts.iter().map(|t| t.map(real)).collect::<Float64Array>(),
        ));
    }
    Ok(cast(array, &DataType::Float64)?)
}

/// Formats a real as SQLite does: 15 digits, always with a point.
pub(super) fn real_text(value: f64) -> String {
    if value.is_infinite() {
        return if value > 0.0 { "Inf" } else { "-Inf" }.to_owned();
    }
    if value == 0.0 {
        return "0.0".to_owned();
    }
    let scientific = format!("{value:.14e}");
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if (-5..15).contains(&exponent) {
        let text = format!("{value:.*}", (14 - exponent).max(0) as usize);
        let text = if text.contains('.') {
            text.trim_end_matches('0')
        } else {
            &text
        };
        return if text.ends_with('.') {
            format!("{text}0")
        } else if text.contains('.') {
            text.to_owned()
        } else {
            format!("{text}.0")
        };
    }
    let mantissa = mantissa.trim_end_matches('0');
    let mantissa = if mantissa.ends_with('.') {
        format!("{mantissa}0")
    } else {
        mantissa.to_owned()
    };
    format!(
        "{mantissa}e{}{:02}",
        if exponent < 0 { '-' } else { '+' },
        exponent.abs()
    )
}

/// Converts an array to texts.
pub fn to_text(array: &ArrayRef) -> Result<ArrayRef> {
    match array.data_type() {
        DataType::Utf8 => Ok(array.clone()),
        DataType::Boolean => to_text(&cast(array, &DataType::Int64)?),
        t if t.is_floating() => {
            let reals = reals(array)?;
            Ok(Arc::new(
                reals
                    .iter()
                    .map(|v| v.map(real_text))
                    .collect::<StringArray>(),
            ))
        }
        _ => Ok(cast(array, &DataType::Utf8)?),
    }
}

/// Returns the type of a result that can be any of the values.
fn common(types: &[DataType]) -> DataType {
    if types.iter().any(is_text) {
        DataType::Utf8
    } else if types.iter().any(DataType::is_binary) {
        DataType::Binary
    } else if types.iter().any(DataType::is_floating) {
        DataType::Float64
    } else {
        DataType::Int64
    }
}

/// Converts an array to a type returned by [`common`].
fn convert(array: &ArrayRef, data_type: &DataType) -> Result<ArrayRef> {
    match data_type {
        DataType::Utf8 => to_text(array),
        DataType::Float64 => cast_real(array),
        DataType::Binary => Ok(cast(array, &DataType::Binary)?),
        _ => cast_int(array),
    }
}

fn extreme(args: &[ArrayRef], larger: bool) -> Result<ArrayRef> {
    let types: Vec<DataType> = args.iter().map(|a| a.data_type().clone()).collect();
    let data_type = common(&types);
    let mut best = convert(&args[0], &data_type)?;
    for array in &args[1..] {
        let array = convert(array, &data_type)?;
        let null = or(&is_null(&best)?, &is_null(&array)?)?;
        let pick = if larger {
            cmp::gt(&array, &best)?
        } else {
            cmp::lt(&array, &best)?
        };
        let chosen = zip(&pick, &array, &best)?;
        let nulls = new_null_array(&data_type, chosen.len());
        best = zip(&null, &nulls, &chosen)?;
    }
    Ok(best)
}

const FNV_BASIS: u64 = 0xcbf2_9ce4_8422_2325;

fn step(hash: &mut u64, bytes: &[u8]) {
    for byte in bytes {
        *hash = (*hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
    }
}

/// Computes the 64-bit FNV-1a hash of integers as 8 bytes and texts as their bytes.
fn hash(args: &[ArrayRef], rows: usize) -> Result<ArrayRef> {
    let mut hashes = vec![FNV_BASIS; rows];
    for array in args {
        if array.logical_null_count() > 0 {
            return exec_err!("The function 'hash' does not take NULL.");
        }
        match array.data_type() {
            t if is_text(t) => {
                for (hash, text) in hashes.iter_mut().zip(texts(array)?.iter()) {
                    step(hash, text.unwrap_or_default().as_bytes());
                }
            }
            t if t.is_integer() || *t == DataType::Boolean => {
                for (hash, value) in hashes.iter_mut().zip(integers(array)?.values()) {
                    step(hash, &value.to_le_bytes());
                }
            }
            t => {
                return exec_err!(
                    "The function 'hash' takes integers and texts, not {}.",
                    type_word(t)
                );
            }
        }
    }
    Ok(Arc::new(
        hashes
            .into_iter()
            .map(u64::cast_signed)
            .collect::<Int64Array>(),
    ))
}

#[cfg(test)]
mod tests {
    use super::{number_prefix, real_text};

    #[test]
    fn reals_are_printed_with_a_point() {
        assert_eq!(real_text(1.0), "1.0");
        assert_eq!(real_text(0.1), "0.1");
        assert_eq!(real_text(1e20), "1.0e+20");
        assert_eq!(real_text(123_456.75), "123456.75");
        assert_eq!(real_text(-2.5e-9), "-2.5e-09");
    }

    #[test]
    fn a_number_is_read_up_to_the_first_other_character() {
        assert_eq!(number_prefix(" 12.5e3x"), "12.5e3");
        assert_eq!(number_prefix("-7 apples"), "-7");
        assert_eq!(number_prefix("apples"), "");
        assert_eq!(number_prefix("."), "");
        assert_eq!(number_prefix("1e"), "1");
    }
}
