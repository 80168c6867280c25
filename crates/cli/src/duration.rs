//! Durations on command lines.

use std::time::Duration;

/// Parses numbers with units; `1m30s` is a sum, and a bare 0 is zero.
pub(crate) fn parse_duration(text: &str) -> Result<Duration, String> {
    let duration = parse_offset(text)?;
    // The service's own limit; see TraceConfig.duration_ms.
    const LONGEST: Duration = Duration::from_secs(7 * 24 * 3600);
    if duration > LONGEST {
        return Err("longer than seven days; use 0 and stop with Ctrl-C".to_owned());
    }
    if !duration.is_zero() && duration < Duration::from_millis(1) {
        return Err("shorter than a millisecond".to_owned());
    }
    Ok(duration)
}

/// Parses numbers with units, as [`parse_duration`], of any length.
pub(crate) fn parse_offset(text: &str) -> Result<Duration, String> {
    if text == "0" {
        return Ok(Duration::ZERO);
    }
    let mut seconds = 0.0;
    let mut rest = text;
    loop {
        let (part, after) = parse_part(rest, text)?;
        seconds += part;
        rest = after;
        if rest.is_empty() {
            break;
        }
    }
    Duration::try_from_secs_f64(seconds).map_err(|_| "too long".to_owned())
}

/// Parses the first number with a unit to seconds, and returns the rest.
fn parse_part<'a>(rest: &'a str, whole: &str) -> Result<(f64, &'a str), String> {
    let is_digit = |c: char| c.is_ascii_digit() || c == '.';
    let (number, rest) = rest.split_at(rest.find(|c| !is_digit(c)).unwrap_or(rest.len()));
    let (unit, rest) = rest.split_at(rest.find(is_digit).unwrap_or(rest.len()));
    let number: f64 = number
        .parse()
        .map_err(|_| "expected numbers with units, such as 10s or 1m30s".to_owned())?;
    let seconds = match unit {
        "ns" => number / 1e9,
        "us" | "µs" => number / 1e6,
        "ms" => number / 1000.0,
        "s" | "sec" => number,
        "m" | "min" => number * 60.0,
        "h" => number * 3600.0,
        "d" => number * 24.0 * 3600.0,
        "" => {
            return Err(format!(
                "missing unit; use {whole}ms, {whole}s, {whole}m, {whole}h or {whole}d"
            ));
        }
        _ => {
            return Err(format!(
                "unknown unit \"{unit}\"; use ns, us, ms, s, m, h or d"
            ));
        }
    };
    Ok((seconds, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_need_a_unit() {
        assert_eq!(parse_duration("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(parse_duration("1.5s"), Ok(Duration::from_millis(1500)));
        assert_eq!(parse_duration("2m"), Ok(Duration::from_secs(120)));
        assert_eq!(parse_duration("1h"), Ok(Duration::from_secs(3600)));
        assert_eq!(parse_duration("0"), Ok(Duration::ZERO));
        assert_eq!(parse_duration("1m30s"), Ok(Duration::from_secs(90)));
        assert_eq!(
            parse_duration("1h2min3.5s"),
            Ok(Duration::from_millis(3_723_500))
        );
        assert_eq!(parse_duration("1d"), Ok(Duration::from_secs(86_400)));
        assert_eq!(parse_offset("8d"), Ok(Duration::from_secs(8 * 86_400)));
        assert_eq!(parse_offset("0.1ms"), Ok(Duration::from_micros(100)));
        assert_eq!(parse_offset("6.5µs"), Ok(Duration::from_nanos(6500)));
        for wrong in [
            "10", "s", "", "-1s", "1x", "1.2.3s", "8000h", "0.1ms", "NaNs", "infs", "1m30",
            "1ms30x", "8d", "1m-30s",
        ] {
            assert!(parse_duration(wrong).is_err(), "{wrong}");
        }
    }
}
