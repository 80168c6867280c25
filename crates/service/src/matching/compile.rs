//! Regular expressions, by the library whose engines report their size.

use regex_automata::meta::{self, BuildError};
use regex_automata::util::{captures, syntax};
use regex_automata::{Input, Span};

use super::{PatternError, Purpose};

/// The part of the automaton that a search of strings may keep, in bytes, twice for each
/// expression.
const CACHE_BYTES: usize = 64 * 1024;

/// A compiled expression. Copies share it.
#[derive(Debug, Clone)]
pub(crate) struct Regex(meta::Regex);

/// The places of the groups of a match.
#[derive(Debug, Clone)]
pub(crate) struct Captures(captures::Captures);

/// Checks that the expression makes sense, without compiling it.
pub(super) fn check(pattern: &str, unicode: bool) -> Result<(), PatternError> {
    let parsed = syntax::parse_with(pattern, &syntax_of(unicode));
    parsed
        .map(|_| ())
        .map_err(|error| short_reason(&error.to_string()))
}

/// Compiles an expression that takes `limit` bytes at most, or some more with the caches for
/// searching.
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

/// Bytes it takes.
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

/// The last line of the parser's message; the others draw the pattern with arrows below it.
fn short_reason(message: &str) -> PatternError {
    let last = message.lines().last().unwrap_or_default();
    PatternError(last.trim_start_matches("error: ").to_owned())
}

impl Regex {
    pub(crate) fn is_match(&self, string: &[u8]) -> bool {
        self.0.is_match(string)
    }

    /// Room for the groups of its matches.
    pub(crate) fn captures(&self) -> Captures {
        Captures(self.0.create_captures())
    }

    /// Finds the first match at `from` or behind, and its groups. `from` is not beyond the string.
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
