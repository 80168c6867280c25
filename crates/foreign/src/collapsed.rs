//! Collapsed stacks: callstacks with counts as text, `main;work;copy 17`, the outermost function
//! first.

/// The largest number of functions of a callstack. Further functions are left out.
const MAX_FRAMES: usize = 2048;

/// A callstack with its count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Line<'a> {
    stack: &'a str,
    /// The number of samples.
    pub count: i64,
}

impl<'a> Line<'a> {
    /// Parses a line. Returns `None` for a comment or a malformed line.
    pub fn parse(line: &'a str) -> Option<Self> {
        let line = line.trim();
        if line.starts_with('#') {
            return None;
        }
        let (stack, count) = line.rsplit_once(' ')?;
        let count = count.parse().ok().filter(|count| *count > 0)?;
        (!stack.is_empty()).then_some(Self { stack, count })
    }

    /// Returns the functions, the outermost first.
    pub fn functions(&self) -> impl Iterator<Item = &'a str> {
        self.stack
            .split(';')
            .filter(|function| !function.is_empty())
            .take(MAX_FRAMES)
    }
}

/// The number of lines checked by [`is_collapsed`].
const LINES_CHECKED: usize = 3;

/// Returns true if a file starts with collapsed stacks. The last line may be incomplete.
pub(crate) fn is_collapsed(head: &[u8]) -> bool {
    let mut lines = 0;
    let ends = head.iter().filter(|byte| **byte == b'\n').count();
    for (at, line) in head.split(|byte| *byte == b'\n').enumerate() {
        let Ok(line) = std::str::from_utf8(line) else {
            return false;
        };
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let is_cut = at == ends && ends > 0 && lines > 0;
        if lines == LINES_CHECKED || is_cut {
            break;
        }
        let Some((stack, count)) = line.rsplit_once(' ') else {
            return false;
        };
        let is_count = !count.is_empty() && count.bytes().all(|byte| byte.is_ascii_digit());
        if !is_count || !stack.contains(';') {
            return false;
        }
        lines += 1;
    }
    lines > 0
}
