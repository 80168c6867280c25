//! Shell patterns, as in `fnmatch` with `FNM_NOESCAPE`: `*` and `?` match any byte, including a
//! slash, and a backslash matches itself.

/// Returns true if `pattern` matches the whole of `subject`.
///
/// Takes at most the product of both lengths in steps, for any pattern.
pub fn matches(pattern: &[u8], subject: &[u8]) -> bool {
    let (mut p, mut s) = (0, 0);
    // The position to continue from after a mismatch: after the last star, which matches one
    // more byte.
    let mut retry = None;
    loop {
        if p < pattern.len() && pattern[p] == b'*' {
            p += 1;
            retry = Some((p, s));
            continue;
        }
        if s == subject.len() && p == pattern.len() {
            return true;
        }
        if let Some(length) = subject.get(s).and_then(|&byte| one(&pattern[p..], byte)) {
            p += length;
            s += 1;
            continue;
        }
        match retry {
            Some((after_star, taken)) if taken < subject.len() => {
                p = after_star;
                s = taken + 1;
                retry = Some((after_star, taken + 1));
            }
            _ => return false,
        }
    }
}

/// Returns the length of the first pattern element if it matches this byte.
fn one(pattern: &[u8], byte: u8) -> Option<usize> {
    match *pattern.first()? {
        b'?' => Some(1),
        b'[' => match bracket(pattern, byte) {
            Some((true, length)) => Some(length),
            Some((false, _)) => None,
            // An unclosed bracket matches itself.
            None => (byte == b'[').then_some(1),
        },
        other => (byte == other).then_some(1),
    }
}

/// Returns the result of the bracket expression at the start, and its length; `None` if there is
/// none.
fn bracket(pattern: &[u8], byte: u8) -> Option<(bool, usize)> {
    let mut at = 1;
    let negated = matches!(pattern.get(at), Some(b'!' | b'^'));
    at += usize::from(negated);
    let first = at;
    let mut found = false;
    loop {
        let low = *pattern.get(at)?;
        if low == b']' && at > first {
            return Some((found != negated, at + 1));
        }
        if let Some((inside, length)) = class(&pattern[at..], byte) {
            found |= inside;
            at += length;
            continue;
        }
        match (pattern.get(at + 1), pattern.get(at + 2)) {
            (Some(b'-'), Some(&high)) if high != b']' => {
                found |= (low..=high).contains(&byte);
                at += 3;
            }
            _ => {
                found |= byte == low;
                at += 1;
            }
        }
    }
}

/// Returns true if the class at the start, such as `[:digit:]`, contains this byte, and its length.
fn class(pattern: &[u8], byte: u8) -> Option<(bool, usize)> {
    let rest = pattern.strip_prefix(b"[:")?;
    let end = rest.windows(2).position(|two| two == b":]")?;
    let inside = match &rest[..end] {
        b"alpha" => byte.is_ascii_alphabetic(),
        b"digit" => byte.is_ascii_digit(),
        b"alnum" => byte.is_ascii_alphanumeric(),
        b"upper" => byte.is_ascii_uppercase(),
        b"lower" => byte.is_ascii_lowercase(),
        b"space" => byte.is_ascii_whitespace() || byte == 0x0b,
        b"blank" => matches!(byte, b' ' | b'\t'),
        b"punct" => byte.is_ascii_punctuation(),
        b"xdigit" => byte.is_ascii_hexdigit(),
        b"cntrl" => byte.is_ascii_control(),
        b"print" => byte.is_ascii_graphic() || byte == b' ',
        b"graph" => byte.is_ascii_graphic(),
        _ => return None,
    };
    Some((inside, end + 4))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_are_those_of_shells() {
        for (pattern, subject, expected) in [
            ("", "", true),
            ("", "a", false),
            ("*", "", true),
            ("a*c", "a/b/c", true),
            ("a*c", "a/b/cd", false),
            ("*a*b", "xaxxab", true),
            ("?", "", false),
            ("[a-c]x", "bx", true),
            ("[!a-c]x", "bx", false),
            ("[^a-c]x", "dx", true),
            ("[]]", "]", true),
            ("[a-]", "-", true),
            ("[[:digit:]_]", "7", true),
            ("[[:digit:]_]", "_", true),
            ("[[:digit:]]", "x", false),
            ("[ab", "[ab", true),
            (r"a\*", r"a\b", true),
            (r"a\?", "a?", false),
        ] {
            assert_eq!(
                matches(pattern.as_bytes(), subject.as_bytes()),
                expected,
                "{pattern} {subject}"
            );
        }
    }

    #[test]
    fn patterns_with_many_stars_are_fast() {
        let pattern = b"*a".repeat(200);
        assert!(!matches(&pattern, &b"a".repeat(199)));
        assert!(!matches(&[&pattern[..], b"b"].concat(), &b"a".repeat(500)));
    }
}
