//! Regular expressions of configs: which producers a data source is meant for, which strings are
//! redacted. Matching takes time linear in the string; size and so time to compile are bounded.

#[cfg(not(feature = "regex"))]
use none::compile;
#[cfg(not(feature = "regex"))]
pub(crate) use none::{CaptureLocations, Regex};
#[cfg(feature = "regex")]
pub(crate) use regex::bytes::{CaptureLocations, Regex};

/// Compiled size allowed for one pattern, in bytes. A config may hold many.
#[cfg(feature = "regex")]
const MAX_PATTERN_BYTES: usize = 256 * 1024;

/// Why a pattern was refused.
#[derive(Debug)]
pub(crate) struct PatternError(pub(crate) String);

/// A regular expression that must match a whole name.
#[derive(Debug, Clone)]
pub(crate) struct Pattern(Regex);

impl Pattern {
    pub(crate) fn new(pattern: &[u8]) -> Result<Self, PatternError> {
        whole(pattern, |pattern| compile(pattern, true)).map(Self)
    }

    pub(crate) fn matches(&self, name: &[u8]) -> bool {
        self.0.is_match(name)
    }
}

/// Compiles a pattern for searching strings of any encoding: `.` is any byte but a line feed, and `\w`
/// and the like are ASCII, unless the pattern itself makes sense for UTF-8 only.
pub(crate) fn compile_bytes(pattern: &[u8]) -> Result<Regex, PatternError> {
    compile_text_or_bytes(utf8(pattern)?)
}

/// The same, but only whole strings match.
pub(crate) fn compile_whole_bytes(pattern: &[u8]) -> Result<Regex, PatternError> {
    whole(pattern, compile_text_or_bytes)
}

fn compile_text_or_bytes(pattern: &str) -> Result<Regex, PatternError> {
    compile(pattern, false).or_else(|_| compile(pattern, true))
}

fn whole(
    pattern: &[u8],
    compile: impl Fn(&str) -> Result<Regex, PatternError>,
) -> Result<Regex, PatternError> {
    let pattern = utf8(pattern)?;
    // Alone first, so that an unbalanced parenthesis cannot pair up with ours.
    compile(pattern)?;
    compile(&format!("^(?:{pattern})$"))
}

fn utf8(pattern: &[u8]) -> Result<&str, PatternError> {
    std::str::from_utf8(pattern).map_err(|e| PatternError(e.to_string()))
}

#[cfg(feature = "regex")]
fn compile(pattern: &str, unicode: bool) -> Result<Regex, PatternError> {
    let mut builder = regex::bytes::RegexBuilder::new(pattern);
    builder
        .unicode(unicode)
        .size_limit(MAX_PATTERN_BYTES)
        .dfa_size_limit(MAX_PATTERN_BYTES)
        .build()
        .map_err(short_reason)
}

/// The last line of the parser's message; the others draw the pattern with arrows below it.
#[cfg(feature = "regex")]
fn short_reason(error: regex::Error) -> PatternError {
    let all = error.to_string();
    let last = all.lines().last().unwrap_or_default();
    PatternError(last.trim_start_matches("error: ").to_owned())
}

/// What is in place of regular expressions in a service built without them: a type without values.
#[cfg(not(feature = "regex"))]
mod none {
    use super::PatternError;

    #[derive(Debug, Clone)]
    pub(crate) enum Regex {}

    #[derive(Debug, Clone)]
    pub(crate) struct CaptureLocations;

    #[derive(Debug)]
    pub(crate) enum Match {}

    pub(super) fn compile(_pattern: &str, _unicode: bool) -> Result<Regex, PatternError> {
        Err(PatternError(
            "this service was built without regular expressions (feature \"regex\" of ferretto-service)".into(),
        ))
    }

    impl Regex {
        pub(crate) fn is_match(&self, _string: &[u8]) -> bool {
            match *self {}
        }

        pub(crate) fn capture_locations(&self) -> CaptureLocations {
            match *self {}
        }

        pub(crate) fn captures_read_at(
            &self,
            _groups: &mut CaptureLocations,
            _string: &[u8],
            _start: usize,
        ) -> Option<Match> {
            match *self {}
        }
    }

    impl Match {
        pub(crate) fn start(&self) -> usize {
            match *self {}
        }

        pub(crate) fn end(&self) -> usize {
            match *self {}
        }
    }

    impl CaptureLocations {
        pub(crate) fn len(&self) -> usize {
            0
        }

        pub(crate) fn get(&self, _group: usize) -> Option<(usize, usize)> {
            None
        }
    }
}

#[cfg(all(test, feature = "regex"))]
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
