//! Patterns of names.

/// Matches a name against a pattern with the wildcards `*` and `?`.
pub fn is_like(pattern: &str, name: &str) -> bool {
    let (pattern, name) = (pattern.as_bytes(), name.as_bytes());
    let (mut at, mut in_name) = (0, 0);
    // The last star, and the end of the text that it matches so far.
    let mut star: Option<(usize, usize)> = None;
    while in_name < name.len() {
        match pattern.get(at) {
            Some(b'*') => {
                star = Some((at, in_name));
                at += 1;
            }
            Some(&byte) if byte == b'?' || byte == name[in_name] => {
                at += 1;
                in_name += 1;
            }
            _ => {
                let Some((star_at, until)) = star else {
                    return false;
                };
                star = Some((star_at, until + 1));
                (at, in_name) = (star_at + 1, until + 1);
            }
        }
    }
    pattern[at..].iter().all(|byte| *byte == b'*')
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
        ] {
            assert_eq!(is_like(pattern, name), expected, "{pattern} {name}");
        }
    }
}
