//! Amounts as text: counts with nouns, sizes and times.

/// The units of sizes, each 1,024 times the one before.
const UNITS: [&str; 6] = ["bytes", "KiB", "MiB", "GiB", "TiB", "PiB"];

/// Formats `1234567` as `1,234,567`.
pub fn grouped(number: u64) -> String {
    group(&number.to_string())
}

/// Separates the thousands of digits.
fn group(digits: &str) -> String {
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Formats a number with a noun in the right form: `1 chunk`, `1,200 chunks`, `2 patches`,
/// `3 entries`. Further words may precede the noun.
pub fn counted(count: u64, noun: &str) -> String {
    format!("{} {}", grouped(count), plural(count, noun))
}

/// Returns a noun in the form for a count.
pub fn plural(count: u64, noun: &str) -> String {
    if count == 1 {
        return noun.to_owned();
    }
    let stem = noun.strip_suffix('y');
    match stem.filter(|stem| !stem.ends_with(['a', 'e', 'o', 'u'])) {
        Some(stem) => format!("{stem}ies"),
        None if ["s", "x", "ch", "sh"].iter().any(|end| noun.ends_with(end)) => format!("{noun}es"),
        None => format!("{noun}s"),
    }
}

/// Formats bytes as hexadecimal digits, such as those of a build id.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Formats a number of bytes: `412 bytes`, `1.5 KiB`, `20.0 MiB`.
pub fn human_bytes(bytes: u64) -> String {
    in_unit(bytes, unit_of(bytes))
}

/// Formats numbers of bytes that readers compare, in the unit of the first.
pub fn alike<const N: usize>(sizes: [u64; N]) -> [String; N] {
    let unit = sizes.first().map_or(0, |first| unit_of(*first));
    sizes.map(|bytes| in_unit(bytes, unit))
}

/// Returns the number of the largest unit that leaves at least one before the decimal point.
fn unit_of(bytes: u64) -> usize {
    let mut value = bytes as f64;
    let mut unit = 0;
    // A value that rounds to 1024.0 is 1.0 of the next unit.
    while value >= if unit == 0 { 1024.0 } else { 1023.95 } && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    unit
}

fn in_unit(bytes: u64, unit: usize) -> String {
    if unit == 0 {
        return counted(bytes, "byte");
    }
    let value = bytes as f64 / 1024_f64.powi(unit as i32);
    let value = format!("{value:.1}");
    let (whole, decimals) = value.split_once('.').unwrap_or((&value, "0"));
    format!("{}.{decimals} {}", group(whole), UNITS[unit])
}

/// Formats a time with one decimal: `870 ns`, `12.5 µs`, `0.4 ms`, `3.5 s`.
pub fn human_time(ns: u64) -> String {
    match ns {
        0 => "0 s".to_owned(),
        1..1_000 => format!("{ns} ns"),
        // A value that rounds to 1000.0 is 1.0 of the next unit.
        1_000..999_950 => format!("{:.1} µs", ns as f64 / 1e3),
        999_950..999_950_000 => format!("{:.1} ms", ns as f64 / 1e6),
        _ => format!("{:.1} s", ns as f64 / 1e9),
    }
}

/// Formats a duration: `12.5 µs`, `450.0 ms`, `12.30 s`, `3 min 20 s`.
pub fn duration(ns: u64) -> String {
    match ns {
        0..999_950_000 => human_time(ns),
        999_950_000..119_995_000_000 => format!("{:.2} s", ns as f64 / 1e9),
        _ => {
            let whole = ns.saturating_add(500_000_000) / 1_000_000_000;
            match whole / 3600 {
                0 => format!("{} min {} s", whole / 60, whole % 60),
                hours => format!("{hours} h {} min", whole % 3600 / 60),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_grouped_by_thousands() {
        assert_eq!(grouped(0), "0");
        assert_eq!(grouped(999), "999");
        assert_eq!(grouped(1000), "1,000");
        assert_eq!(grouped(1_234_567), "1,234,567");
    }

    #[test]
    fn nouns_agree_with_their_count() {
        for (count, noun, expected) in [
            (1, "sample", "1 sample"),
            (0, "sample", "0 samples"),
            (1200, "sample", "1,200 samples"),
            (2, "patch", "2 patches"),
            (2, "more process", "2 more processes"),
            (2, "entry", "2 entries"),
            (2, "day", "2 days"),
        ] {
            assert_eq!(counted(count, noun), expected);
        }
    }

    #[test]
    fn sizes_have_the_unit_in_which_they_are_short() {
        for (bytes, expected) in [
            (0, "0 bytes"),
            (1, "1 byte"),
            (1023, "1,023 bytes"),
            (1024, "1.0 KiB"),
            ((1 << 20) - 1, "1.0 MiB"),
            (20 << 20, "20.0 MiB"),
            (u64::MAX, "16,384.0 PiB"),
        ] {
            assert_eq!(human_bytes(bytes), expected);
        }
    }

    #[test]
    fn sizes_that_are_compared_have_one_unit() {
        let shown = alike([61_446_554, 1_074_055_168, 1_066_401_792]);
        assert_eq!(shown, ["58.6 MiB", "1,024.3 MiB", "1,017.0 MiB"]);
    }

    #[test]
    fn durations_read_naturally() {
        for (ns, expected) in [
            (0, "0 s"),
            (800, "800 ns"),
            (20_000, "20.0 µs"),
            (999_960, "1.0 ms"),
            (1_500_000, "1.5 ms"),
            (999_960_000, "1.00 s"),
            (10_000_000_000, "10.00 s"),
            (200_000_000_000, "3 min 20 s"),
            (3_700_000_000_000, "1 h 1 min"),
        ] {
            assert_eq!(duration(ns), expected);
        }
    }
}
