//! Patterns of names.

/// Returns true if a text has wildcards.
pub fn has_wildcards(text: &str) -> bool {
    text.contains(['*', '?', '['])
}

/// Matches a name against a pattern with the wildcards `*`, `?` and sets such as `[0-9a-f]` or
/// `[!0-9]`.
pub fn is_like(pattern: &str, name: &str) -> bool {
    let (pattern, name) = (pattern.as_bytes(), name.as_bytes());
    let (mut at, mut in_name) = (0, 0);
    // The last star, and the end of the text that it matches so far.
    let mut star: Option<(usize, usize)> = None;
    while in_name < name.len() {
        if pattern.get(at) == Some(&b'*') {
            star = Some((at, in_name));
            at += 1;
            continue;
        }
        if let Some(length) = matched(&pattern[at..], name[in_name]) {
            at += length;
            in_name += 1;
            continue;
        }
        let Some((star_at, until)) = star else {
            return false;
        };
        star = Some((star_at, until + 1));
        (at, in_name) = (star_at + 1, until + 1);
    }
    pattern[at..].iter().all(|byte| *byte == b'*')
}

/// Returns the length of the first part of a pattern if it matches a byte.
fn matched(pattern: &[u8], byte: u8) -> Option<usize> {
    match *pattern {
        [b'[', ref rest @ ..] => {
            let (excludes, set) = match rest {
                [b'!' | b'^', set @ ..] => (true, set),
                set => (false, set),
            };
            // A bracket that is not closed, or the first of a set, is one itself.
            let close = set.iter().skip(1).position(|byte| *byte == b']');
            let Some(count) = close.map(|close| close + 1) else {
                return (byte == b'[').then_some(1);
            };
            let length = pattern.len() - set.len() + count + 1;
            (has(&set[..count], byte) != excludes).then_some(length)
        }
        [b'?', ..] => Some(1),
        [own, ..] if own == byte => Some(1),
        _ => None,
    }
}

/// Returns true if a set of bytes and ranges has a byte.
fn has(mut set: &[u8], byte: u8) -> bool {
    loop {
        set = match *set {
            [first, b'-', last, ref rest @ ..] => {
                if (first..=last).contains(&byte) {
                    return true;
                }
                rest
            }
            [own, ref rest @ ..] => {
                if own == byte {
                    return true;
                }
                rest
            }
            [] => return false,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_whole_names() {
        for (pattern, name, expected) in [
            ("*", "sched/sched_switch", true),
            ("sched/*", "sched/sched_switch", true),
            ("sched/*", "task/task_rename", false),
            ("*_rq_*", "block/block_rq_issue", true),
            ("*_rq_*e", "block/block_rq_issue", true),
            ("*_rq_*x", "block/block_rq_issue", false),
            ("block/block_rq_issu?", "block/block_rq_issue", true),
            ("block/block_rq_issue?", "block/block_rq_issue", false),
            ("", "block", false),
            ("x-[1-6]", "x-6", true),
            ("x-[1-6]", "x-7", false),
            ("x-[1-6]", "x-[1-6]", false),
            ("*[a-cx]*.p", "trace-x.p", true),
            ("*-[a-cx].p", "trace-d.p", false),
            ("[!0-9]*", "a1", true),
            ("[!0-9]*", "1a", false),
            ("[]-]", "]", true),
            ("[]-]", "-", true),
            ("[a-]", "-", true),
            ("x[", "x[", true),
            ("x[1", "x1", false),
        ] {
            assert_eq!(is_like(pattern, name), expected, "{pattern} {name}");
        }
    }
}
