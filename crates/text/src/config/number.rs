//! Numbers, and their conversion to the type of a field.

use crate::schema::Kind;

/// The value of a number token.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Number {
    Integer(u64),
    /// A number with a decimal point: the value, and the digits before the point.
    Fraction(f64, Option<u64>),
    /// A number with an exponent or a suffix.
    Float(f64),
}

/// The encoded bits, and a warning about lost precision.
#[derive(Debug, PartialEq)]
pub(super) struct Fitted {
    pub(super) bits: u64,
    pub(super) warning: Option<String>,
}

/// Parses a number token; `None` if it is not a number.
pub(super) fn read(token: &str) -> Option<Number> {
    if let Some(digits) = token
        .strip_prefix("0x")
        .or_else(|| token.strip_prefix("0X"))
    {
        let digits = (!digits.starts_with('+')).then_some(digits)?;
        return u64::from_str_radix(digits, 16).ok().map(Number::Integer);
    }
    if token.bytes().all(|b| b.is_ascii_digit()) {
        return token.parse().ok().map(Number::Integer);
    }
    let plain = token.strip_suffix(['f', 'F']).unwrap_or(token);
    let first = plain.trim_start_matches('.').chars().next();
    let value: f64 = first
        .filter(char::is_ascii_digit)
        .and_then(|_| plain.parse().ok())?;
    if plain.bytes().all(|b| b.is_ascii_digit() || b == b'.') && plain.len() == token.len() {
        let whole = plain
            .split('.')
            .next()
            .and_then(|digits| digits.parse().ok());
        return Some(Number::Fraction(value, whole));
    }
    Some(Number::Float(value))
}

/// Converts a number to the bits of a floating-point field.
pub(super) fn float_bits(kind: Kind, number: Number, negative: bool) -> u64 {
    let size = match number {
        Number::Integer(value) => value as f64,
        Number::Fraction(value, _) | Number::Float(value) => value,
    };
    float_value_bits(kind, if negative { -size } else { size })
}

pub(super) fn float_value_bits(kind: Kind, value: f64) -> u64 {
    if kind == Kind::Float {
        (value as f32).to_bits().into()
    } else {
        value.to_bits()
    }
}

/// Converts a number to the bits of an integer field, truncated to its width as in upstream; `None`
/// if it is not an integer.
pub(super) fn integer_bits(kind: Kind, number: Number, negative: bool) -> Option<Fitted> {
    let (size, fraction) = match number {
        Number::Integer(value) => (value, false),
        Number::Fraction(_, whole) => (whole?, true),
        Number::Float(_) => return None,
    };
    let wrapped = if negative { size.wrapping_neg() } else { size };
    let exact = if negative {
        -i128::from(size)
    } else {
        i128::from(size)
    };
    let (bits, kept) = match kind {
        Kind::Int32 | Kind::Sint32 | Kind::Sfixed32 | Kind::Enum(_) => {
            let value = wrapped as i32;
            (i64::from(value) as u64, i128::from(value))
        }
        Kind::Uint32 | Kind::Fixed32 => (u64::from(wrapped as u32), i128::from(wrapped as u32)),
        Kind::Int64 | Kind::Sint64 | Kind::Sfixed64 => (wrapped, i128::from(wrapped as i64)),
        _ => (wrapped, i128::from(wrapped)),
    };
    let warning = if kept != exact {
        Some(format!("{exact} does not fit the field and becomes {kept}"))
    } else if fraction {
        Some(format!("the field is an integer, so this becomes {kept}"))
    } else {
        None
    };
    Some(Fitted { bits, warning })
}
