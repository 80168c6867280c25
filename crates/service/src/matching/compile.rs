//! Regular expressions of the library whose engines report their size.

use regex_automata::meta::{self, BuildError};
use regex_automata::util::{captures, syntax};
use regex_automata::{Input, Span};

use super::{PatternError, Purpose};

/// The size of the lazy automaton's cache for searching strings, in bytes; each expression has two.
const CACHE_BYTES: usize = 64 * 1024;

/// A compiled expression. Copies share it.
#[derive(Debug, Clone)]
pub(crate) struct Regex(meta::Regex);

/// The positions of the groups of a match.
#[derive(Debug, Clone)]
pub(crate) struct Captures(captures::Captures);

/// Checks the syntax of an expression without compiling it.
pub(super) fn check(pattern: &str, unicode: bool) -> Result<(), PatternError> {
    let parsed = syntax::parse_with(pattern, &syntax_of(unicode));
    parsed
        .map(|_| ())
        .map_err(|error| short_reason(&error.to_string()))
}

/// Compiles an expression that takes at most `limit` bytes, plus the caches for searching.
pub(super) fn compile(
    pattern: &str,
    unicode: bool,
    purpose: Purpose,
    limit: usize,
) -> Result<Regex, PatternError> {
    let fast = purpose == Purpose::Strings;
    let config = meta::Config::new()
        .utf8_empty(false)
        .hybrid(fast)
        .onepass(fast)
        .backtrack(fast)
        .nfa_size_limit(Some(limit))
        .onepass_size_limit(Some(limit))
        .hybrid_cache_capacity(CACHE_BYTES);
    let mut builder = meta::Regex::builder();
    builder.configure(config).syntax(syntax_of(unicode));
    builder.build(pattern).map(Regex).map_err(reason)
}

/// Returns the size of an expression in bytes.
pub(super) fn size(regex: &Regex) -> usize {
    regex.0.memory_usage()
}

fn syntax_of(unicode: bool) -> syntax::Config {
    syntax::Config::new().unicode(unicode).utf8(false)
}

fn reason(error: BuildError) -> PatternError {
    match (error.syntax_error(), error.size_limit()) {
        (Some(error), _) => short_reason(&error.to_string()),
        (None, Some(limit)) => {
            PatternError(format!("it takes more than {limit} bytes once compiled"))
        }
        (None, None) => PatternError(error.to_string()),
    }
}

/// Returns the last line of the parser's message; the lines above draw the pattern with arrows.
fn short_reason(message: &str) -> PatternError {
    let last = message.lines().last().unwrap_or_default();
    PatternError(last.trim_start_matches("error: ").to_owned())
}

impl Regex {
    pub(crate) fn is_match(&self, string: &[u8]) -> bool {
        self.0.is_match(string)
    }

    /// Creates space for the groups of a match.
    pub(crate) fn captures(&self) -> Captures {
        Captures(self.0.create_captures())
    }

    /// Finds the first match at or after `from`, and its groups. `from` is within the string.
    pub(crate) fn find(
        &self,
        string: &[u8],
        from: usize,
        groups: &mut Captures,
    ) -> Option<(usize, usize)> {
        let input = Input::new(string).range(from..);
        self.0.search_captures(&input, &mut groups.0);
        groups.get(0)
    }
}

impl Captures {
    pub(crate) fn len(&self) -> usize {
        self.0.group_len()
    }

    pub(crate) fn get(&self, group: usize) -> Option<(usize, usize)> {
        let Span { start, end } = self.0.get_group(group)?;
        Some((start, end))
    }
}
