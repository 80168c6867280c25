//! Collapsed stacks: callstacks with counts as text, `main;work;copy 17`, the outermost function
//! first.

/// The largest number of functions of a callstack. Further functions are left out.
const MAX_FRAMES: usize = 2048;

/// The number of lines checked by [`is_collapsed`].
const LINES_CHECKED: usize = 32;

/// A callstack with its count.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Line<'a> {
    stack: &'a str,
    /// The number of samples. Tools that scale or compare profiles write fractions and negative
    /// numbers.
    pub count: f64,
}

impl<'a> Line<'a> {
    /// Parses a line. Returns `None` for a comment or a malformed line.
    pub fn parse(line: &'a str) -> Option<Self> {
        let line = line.trim();
        if line.starts_with('#') {
            return None;
        }
        let (stack, count) = line.rsplit_once([' ', '\t'])?;
        let count = number(count)?;
        let stack = stack.trim_end();
        (!stack.is_empty()).then_some(Self { stack, count })
    }

    /// Returns true for a line that is neither a callstack, nor empty, nor a comment.
    pub fn is_odd(line: &str) -> bool {
        let line = line.trim();
        !line.is_empty() && !line.starts_with('#') && Line::parse(line).is_none()
    }

    /// Returns the functions, the outermost first.
    pub fn functions(&self) -> impl Iterator<Item = &'a str> {
        self.stack
            .split(';')
            .filter(|function| !function.is_empty())
            .take(MAX_FRAMES)
    }
}

/// Parses a decimal number. Words such as `inf` are none.
fn number(text: &str) -> Option<f64> {
    let is_digit = |byte: u8| byte.is_ascii_digit() || b".+-eE".contains(&byte);
    let is_number = text.bytes().all(is_digit) && text.ends_with(|end: char| end.is_ascii_digit());
    let number = text.parse().ok().filter(|_| is_number);
    number.filter(|number: &f64| number.is_finite())
}

/// Returns true if a file starts with collapsed stacks: at least half of its lines are ones, and
/// one has several functions. The last line may be incomplete.
pub(crate) fn is_collapsed(head: &[u8]) -> bool {
    let lines = Lines::count(head);
    lines.with_several > 0 && lines.stacks >= lines.others
}

/// Returns true if a file consists of names with counts. Text of other formats may look alike, so
/// they are tried first.
pub(crate) fn is_flat(head: &[u8]) -> bool {
    let lines = Lines::count(head);
    lines.stacks > 0 && lines.others == 0
}

#[derive(Debug, Default)]
struct Lines {
    stacks: usize,
    with_several: usize,
    others: usize,
}

impl Lines {
    fn count(head: &[u8]) -> Self {
        let mut found = Self::default();
        let whole = head.iter().filter(|byte| **byte == b'\n').count();
        for (at, line) in head.split(|byte| *byte == b'\n').enumerate() {
            if found.stacks + found.others >= LINES_CHECKED || at == whole && found.stacks > 0 {
                break;
            }
            let text = std::str::from_utf8(line).map(str::trim);
            if text.is_ok_and(|line| line.is_empty() || line.starts_with('#')) {
                continue;
            }
            let is_text = |line: &&str| !line.contains(|c: char| c.is_control() && c != '\t');
            match text.ok().filter(is_text).and_then(Line::parse) {
                Some(line) => {
                    found.stacks += 1;
                    found.with_several += usize::from(line.stack.contains(';'));
                }
                None => found.others += 1,
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_a_stack_and_a_number() {
        let cases: &[(&str, &[&str], f64)] = &[
            ("a;b 5", &["a", "b"], 5.0),
            ("single 6", &["single"], 6.0),
            ("a;b\t5", &["a", "b"], 5.0),
            ("a;b  \t 5  ", &["a", "b"], 5.0),
            ("a b;c d 5", &["a b", "c d"], 5.0),
            ("a;b 0.5", &["a", "b"], 0.5),
            ("a;b -3", &["a", "b"], -3.0),
            ("a;b 1e3", &["a", "b"], 1000.0),
            ("a;;b 5", &["a", "b"], 5.0),
            ("a;b 5\r", &["a", "b"], 5.0),
            ("a;b 0", &["a", "b"], 0.0),
            ("operator()(int) 3;x 4", &["operator()(int) 3", "x"], 4.0),
        ];
        for (line, functions, count) in cases {
            let Some(found) = Line::parse(line) else {
                panic!("{line}");
            };
            assert_eq!(found.functions().collect::<Vec<_>>(), *functions, "{line}");
            assert_eq!(found.count, *count, "{line}");
        }
        for line in [
            "", "#a;b 5", "a;b", "5", "a;b inf", "a;b nan", "a;b x", "a;b 1.",
        ] {
            assert_eq!(Line::parse(line), None, "{line}");
        }
    }

    #[test]
    fn files_are_recognised_by_their_lines() {
        for head in [
            "a;b 5\nsingle 6\n",
            "single 6\na;b 5\n",
            "# x\na;b 5\nbad\nc;d 5\nc 5\n",
        ] {
            assert!(is_collapsed(head.as_bytes()), "{head}");
        }
        assert!(is_flat(b"work 5\nmain 6\n"));
        for head in ["", "words\n", "a 5\nwords\n", "\x01 5\n"] {
            assert!(
                !is_collapsed(head.as_bytes()) && !is_flat(head.as_bytes()),
                "{head}"
            );
        }
    }
}
