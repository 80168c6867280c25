//! Times in the text of trace files.

/// Returns seconds and the digits after the point as nanoseconds. Digits after the ninth are
/// ignored.
pub fn nanoseconds(seconds: &str, fraction: &str) -> Option<i64> {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if !is_number(seconds) || !is_number(fraction) {
        return None;
    }
    let digits = fraction.get(..9).unwrap_or(fraction);
    let scale = 10_i64.pow(9 - digits.len() as u32);
    let nanos = digits.parse::<i64>().ok()? * scale;
    let seconds = seconds.parse::<i64>().ok()?;
    seconds.checked_mul(1_000_000_000)?.checked_add(nanos)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fractions_of_any_precision_are_read() {
        assert_eq!(nanoseconds("7", "001"), Some(7_001_000_000));
        assert_eq!(nanoseconds("7", "000012"), Some(7_000_012_000));
        assert_eq!(nanoseconds("7", "000000012999"), Some(7_000_000_012));
        for (seconds, fraction) in [
            ("", "1"),
            ("1", ""),
            ("1", "+2"),
            ("-1", "2"),
            ("99999999999", "0"),
        ] {
            assert_eq!(nanoseconds(seconds, fraction), None);
        }
    }
}
