//! Which producers a data source of a config is meant for.

use regex::bytes::{Regex, RegexBuilder};

/// Compiled size allowed for one pattern, in bytes. A config may hold many.
const MAX_PATTERN_BYTES: usize = 256 * 1024;

/// Why a pattern was refused.
#[derive(Debug)]
pub(crate) struct PatternError(pub(crate) String);

/// A regular expression that must match a whole name.
#[derive(Debug, Clone)]
pub(crate) struct Pattern(Regex);

impl Pattern {
    pub(crate) fn new(pattern: &[u8]) -> Result<Self, PatternError> {
        let pattern = std::str::from_utf8(pattern).map_err(|e| PatternError(e.to_string()))?;
        // Alone first, so that an unbalanced parenthesis cannot pair up with ours.
        let compile = |pattern: &str| {
            let mut builder = RegexBuilder::new(pattern);
            builder
                .size_limit(MAX_PATTERN_BYTES)
                .build()
                .map_err(short_reason)
        };
        compile(pattern)?;
        compile(&format!("^(?:{pattern})$")).map(Self)
    }

    pub(crate) fn matches(&self, name: &[u8]) -> bool {
        self.0.is_match(name)
    }
}

/// The last line of the parser's message; the others draw the pattern with arrows below it.
fn short_reason(error: regex::Error) -> PatternError {
    let all = error.to_string();
    let last = all.lines().last().unwrap_or_default();
    PatternError(last.trim_start_matches("error: ").to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn matches_whole_names_only() {
        let pattern = Pattern::new(b"a|bc").unwrap();
        assert!(pattern.matches(b"a") && pattern.matches(b"bc"));
        assert!(!pattern.matches(b"ac") && !pattern.matches(b"xa") && !pattern.matches(b"a\n"));
        assert_eq!(Pattern::new(b"a(").unwrap_err().0, "unclosed group");
        assert!(Pattern::new(b"a)(b").is_err());
        assert!(Pattern::new(b"\xff").is_err());
    }
}
