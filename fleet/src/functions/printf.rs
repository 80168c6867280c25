//! `printf` and `format`.

use datafusion::arrow::array::{Array, ArrayRef, Float64Array, Int64Array, StringArray};
use datafusion::arrow::datatypes::DataType;
use datafusion::common::Result;

use super::bounded::BoundedTexts;
use super::core::real_text;
use super::{ArrayFunction, integers, is_text, reals, texts};

pub(super) fn functions() -> Vec<ArrayFunction> {
    ["printf", "format"]
        .map(|name| ArrayFunction::new(name, 1..=usize::MAX, DataType::Utf8, printf))
        .into()
}

/// An argument, converted to the types of all conversions.
struct Argument {
    text: StringArray,
    integer: Int64Array,
    real: Float64Array,
}

fn printf(args: &[ArrayRef], rows: usize) -> Result<ArrayRef> {
    let formats = texts(&args[0])?;
    let arguments = args[1..]
        .iter()
        .map(|array| {
            let integer = if array.data_type().is_floating() || is_text(array.data_type()) {
                let reals = reals(array)?;
                reals.iter().map(|v| v.map(|v| v as i64)).collect()
            } else {
                integers(array)?
            };
            Ok(Argument {
                text: texts(array)?,
                integer,
                real: reals(array)?,
            })
        })
        .collect::<Result<Vec<_>>>()?;
    let mut texts = BoundedTexts::new("printf");
    for row in 0..rows {
        let text = formats
            .is_valid(row)
            .then(|| format_row(formats.value(row), &arguments, row));
        texts.push(text.as_deref())?;
    }
    Ok(texts.finish())
}

#[derive(Default)]
struct Spec {
    left: bool,
    plus: bool,
    space: bool,
    zero: bool,
    comma: bool,
    alternate: bool,
    width: usize,
    precision: Option<usize>,
}

/// The largest width and precision, so that a query cannot fill the memory with blanks.
const MAX_WIDTH: usize = 1 << 16;

fn format_row(format: &str, arguments: &[Argument], row: usize) -> String {
    let mut out = String::new();
    let mut next = arguments.iter();
    let mut chars = format.chars().peekable();
    while let Some(c) = chars.next() {
        if c != '%' {
            out.push(c);
            continue;
        }
        let mut spec = Spec::default();
        while let Some(flag) = chars.peek() {
            match flag {
                '-' => spec.left = true,
                '+' => spec.plus = true,
                ' ' => spec.space = true,
                '0' => spec.zero = true,
                ',' => spec.comma = true,
                '#' | '!' => spec.alternate = true,
                _ => break,
            }
            chars.next();
        }
        let width = number(&mut chars, &mut next, row);
        spec.left |= width < 0;
        spec.width = usize::try_from(width.unsigned_abs())
            .unwrap_or(0)
            .min(MAX_WIDTH);
        if chars.next_if_eq(&'.').is_some() {
            let precision = number(&mut chars, &mut next, row);
            spec.precision = Some(usize::try_from(precision).unwrap_or(0).min(MAX_WIDTH));
        }
        while chars.next_if(|c| matches!(c, 'l' | 'h')).is_some() {}
        match chars.next() {
            Some('%') => out.push('%'),
            Some(conversion) => convert(&mut out, conversion, &spec, next.next(), row),
            None => break,
        }
    }
    out
}

/// Parses a number, or reads it from the next argument if there is a `*`.
fn number(
    chars: &mut std::iter::Peekable<std::str::Chars<'_>>,
    next: &mut std::slice::Iter<'_, Argument>,
    row: usize,
) -> i64 {
    if chars.next_if_eq(&'*').is_some() {
        return next
            .next()
            .filter(|a| a.integer.is_valid(row))
            .map_or(0, |a| a.integer.value(row));
    }
    let mut value = 0i64;
    while let Some(digit) = chars.peek().and_then(|c| c.to_digit(10)) {
        value = (value * 10 + i64::from(digit)).min(MAX_WIDTH as i64);
        chars.next();
    }
    value
}

fn convert(
    out: &mut String,
    conversion: char,
    spec: &Spec,
    argument: Option<&Argument>,
    row: usize,
) {
    let integer = || {
        argument
            .filter(|a| a.integer.is_valid(row))
            .map_or(0, |a| a.integer.value(row))
    };
    let real = || {
        argument
            .filter(|a| a.real.is_valid(row))
            .map_or(0.0, |a| a.real.value(row))
    };
    let text = || {
        argument
            .filter(|a| a.text.is_valid(row))
            .map(|a| a.text.value(row))
    };
    let sign = |negative: bool| {
        if negative {
            "-"
        } else if spec.plus {
            "+"
        } else if spec.space {
            " "
        } else {
            ""
        }
    };
    let (sign, body, number) = match conversion {
        'd' | 'i' => {
            let value = integer();
            let mut digits = value.unsigned_abs().to_string();
            if spec.comma {
                digits = group(&digits);
            }
            let digits = format!("{digits:0>width$}", width = spec.precision.unwrap_or(0));
            (sign(value < 0), digits, true)
        }
        'u' => ("", integer().cast_unsigned().to_string(), true),
        'x' => ("", format!("{:x}", integer()), true),
        'X' => ("", format!("{:X}", integer()), true),
        'o' => ("", format!("{:o}", integer()), true),
        'c' => (
            "",
            text()
                .and_then(|t| t.chars().next())
                .map(String::from)
                .unwrap_or_default(),
            false,
        ),
        'f' | 'e' | 'E' | 'g' | 'G' => {
            let value = real();
            let precision = spec.precision.unwrap_or(6);
            let magnitude = value.abs();
            let body = match conversion {
                'f' => {
                    let fixed = format!("{magnitude:.precision$}");
                    match fixed.split_once('.') {
                        Some((whole, rest)) if spec.comma => format!("{}.{rest}", group(whole)),
                        None if spec.comma => group(&fixed),
                        _ => fixed,
                    }
                }
                'g' | 'G' => general(magnitude, precision.max(1)),
                _ => exponent(magnitude, precision),
            };
            let body = if conversion.is_uppercase() {
                body.to_uppercase()
            } else {
                body
            };
            (sign(value < 0.0), body, true)
        }
        's' | 'z' => (
            "",
            truncate(text().unwrap_or_default(), spec.precision),
            false,
        ),
        'q' => ("", text().unwrap_or("(NULL)").replace('\'', "''"), false),
        'Q' => (
            "",
            text().map_or("NULL".to_owned(), |t| {
                format!("'{}'", t.replace('\'', "''"))
            }),
            false,
        ),
        'w' => ("", text().unwrap_or("(NULL)").replace('"', "\"\""), false),
        _ => return,
    };
    let length = sign.len() + body.chars().count();
    let fill = spec.width.saturating_sub(length);
    if spec.left {
        out.push_str(sign);
        out.push_str(&body);
        out.extend(std::iter::repeat_n(' ', fill));
    } else if spec.zero && number {
        out.push_str(sign);
        out.extend(std::iter::repeat_n('0', fill));
        out.push_str(&body);
    } else {
        out.extend(std::iter::repeat_n(' ', fill));
        out.push_str(sign);
        out.push_str(&body);
    }
}

fn truncate(text: &str, precision: Option<usize>) -> String {
    precision.map_or_else(|| text.to_owned(), |p| text.chars().take(p).collect())
}

fn group(digits: &str) -> String {
    let mut out = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

fn exponent(value: f64, precision: usize) -> String {
    let text = format!("{value:.precision$e}");
    let Some((mantissa, exponent)) = text.split_once('e') else {
        return text;
    };
    let exponent: i32 = exponent.parse().unwrap_or(0);
    format!(
        "{mantissa}e{}{:02}",
        if exponent < 0 { '-' } else { '+' },
        exponent.abs()
    )
}

fn general(value: f64, precision: usize) -> String {
    if value == 0.0 || !value.is_finite() {
        return if value == 0.0 {
            "0".to_owned()
        } else {
            real_text(value)
        };
    }
    let text = exponent(value, precision - 1);
    let power: i32 = text
        .split_once('e')
        .and_then(|(_, e)| e.parse().ok())
        .unwrap_or(0);
    let strip = |text: &str| {
        if text.contains('.') {
            text.trim_end_matches('0').trim_end_matches('.').to_owned()
        } else {
            text.to_owned()
        }
    };
    if power < -4 || power >= precision as i32 {
        let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, ""));
        return format!("{}e{exponent}", strip(mantissa));
    }
    strip(&format!(
        "{value:.*}",
        (precision as i32 - 1 - power).max(0) as usize
    ))
}
