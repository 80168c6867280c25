//! Rust source that is being written.

use std::collections::BTreeMap;

/// Rust source that grows.
pub(super) struct Code {
    pub(super) text: String,
    pub(super) depth: usize,
    pub(super) comments: BTreeMap<Vec<i32>, String>,
}

/// Appends a line, indented.
macro_rules! line {
    ($code:expr, $($format:tt)+) => {
        $code.line(&format!($($format)+))
    };
}

pub(super) use line;

impl Code {
    pub(super) fn line(&mut self, line: &str) {
        if !line.is_empty() {
            self.text.extend(std::iter::repeat_n(' ', 4 * self.depth));
            self.text.push_str(line);
        }
        self.text.push('\n');
    }

    /// A line that ends with `{`, the body, and `}`.
    pub(super) fn block<R>(&mut self, head: &str, inside: impl FnOnce(&mut Self) -> R) -> R {
        line!(self, "{head} {{");
        self.depth += 1;
        let result = inside(self);
        self.depth -= 1;
        self.line("}");
        result
    }

    pub(super) fn documentation(&mut self, path: &[i32]) {
        let comment = self.comments.get(path).cloned().unwrap_or_default();
        for text in comment.lines() {
            // As in the schema, where a comment is plain text.
            let text = text.trim().replace('[', "\\[").replace(']', "\\]");
            self.line(format!("/// {text}").trim_end());
        }
    }
}
