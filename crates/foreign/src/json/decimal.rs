//! Times as decimal numbers.

/// Converts a decimal number of microseconds to nanoseconds, rounded to the nearest. Returns `None`
/// if the text is not a number.
pub(super) fn nanoseconds(text: &str) -> Option<i64> {
    let text = text.trim();
    let (sign, digits) = match text.as_bytes().first()? {
        b'-' => (-1, &text[1..]),
        b'+' => (1, &text[1..]),
        _ => (1, text),
    };
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let is_plain = |digits: &str| digits.bytes().all(|byte| byte.is_ascii_digit());
    if whole.len() + fraction.len() == 0 {
        return None;
    }
    if !is_plain(whole) || !is_plain(fraction) {
        // With an exponent.
        let number: f64 = text
            .parse()
            .ok()
            .filter(|number: &f64| number.is_finite())?;
        return Some((number * 1000.0).round() as i64);
    }
    let whole = if whole.is_empty() {
        0
    } else {
        whole.parse::<i64>().unwrap_or(i64::MAX)
    };
    let digit =
        |digit: usize| i64::from(fraction.as_bytes().get(digit).map_or(0, |byte| byte - b'0'));
    let mut ns = digit(0) * 100 + digit(1) * 10 + digit(2);
    if digit(3) >= 5 {
        ns += 1;
    }
    Some(sign * whole.saturating_mul(1000).saturating_add(ns))
}

/// Returns the text of the number that is the value of `key` in an object.
pub(super) fn number_of<'a>(object: &'a [u8], key: &str) -> Option<&'a str> {
    let (mut depth, mut in_string, mut escaped) = (0_u32, false, false);
    let mut string_start = 0;
    let mut last_string = 0..0;
    let mut found = None;
    for (at, &byte) in object.iter().enumerate() {
        if escaped {
            escaped = false;
        } else if in_string {
            match byte {
                b'\\' => escaped = true,
                b'"' => {
                    in_string = false;
                    last_string = string_start..at;
                }
                _ => {}
            }
        } else {
            match byte {
                b'"' => {
                    in_string = true;
                    string_start = at + 1;
                }
                b'{' | b'[' => depth += 1,
                b'}' | b']' => depth = depth.saturating_sub(1),
                b':' if depth == 1 && object.get(last_string.clone()) == Some(key.as_bytes()) => {
                    let rest = object.get(at + 1..)?;
                    let space = rest
                        .iter()
                        .take_while(|byte| byte.is_ascii_whitespace())
                        .count();
                    let rest = rest.get(space..)?;
                    let is_part = |byte: &u8| byte.is_ascii_digit() || b"+-.eE".contains(byte);
                    let length = rest.iter().take_while(|byte| is_part(byte)).count();
                    // Of several values with one key, the last one counts.
                    found = std::str::from_utf8(&rest[..length]).ok();
                }
                _ => {}
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_exact_to_the_nanosecond() {
        for (text, ns) in [
            ("0", 0),
            ("1", 1000),
            ("1.5", 1500),
            ("-1.5", -1500),
            (".25", 250),
            ("1666382280874284.288", 1_666_382_280_874_284_288),
            ("1666382280874285.110", 1_666_382_280_874_285_110),
            ("1124609198471.0024", 1_124_609_198_471_002),
            ("1124609198471.0025", 1_124_609_198_471_003),
            ("2e3", 2_000_000),
        ] {
            assert_eq!(nanoseconds(text), Some(ns), "{text}");
        }
        for text in ["", "x", ".", "1x", "NaN", "1e400"] {
            assert_eq!(nanoseconds(text), None, "{text}");
        }
    }

    #[test]
    fn numbers_are_found_in_their_object_only() {
        let object = br#"{"a\"ts":{"ts":1},"args":{"ts":2},"name":"ts", "ts" : 3.25,"x":["ts"]}"#;
        assert_eq!(number_of(object, "ts"), Some("3.25"));
        assert_eq!(number_of(object, "dur"), None);
    }
}
