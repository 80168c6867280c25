//! Regular expressions of configs: they select producers for data sources, and strings to redact.
//! Matching takes linear time. Each session and each user has a limit on the number and compiled
//! size of expressions ([`Budget`]).

#[cfg(feature = "regex")]
mod compile;
#[cfg(not(feature = "regex"))]
mod none;

#[cfg(feature = "regex")]
pub(crate) use compile::{Captures, Regex};
#[cfg(feature = "regex")]
use compile::{check, compile, size};
#[cfg(not(feature = "regex"))]
pub(crate) use none::{Captures, Regex};
#[cfg(not(feature = "regex"))]
use none::{check, compile, size};

/// The longest expression, in bytes. One byte can compile to a large table.
const MAX_LENGTH: usize = 4096;
/// The largest compiled size of one expression, in bytes.
const MAX_COMPILED: usize = 256 * 1024;
/// The limit for the expressions of one session.
const SESSION: Weight = Weight {
    count: 256,
    bytes: 4 << 20,
};
/// The limit for the expressions of all sessions of a user.
const USER: Weight = Weight {
    count: 512,
    bytes: 8 << 20,
};
/// The number of characters of an expression that errors quote.
const QUOTED: usize = 80;

/// The reason why a pattern was refused.
#[derive(Debug)]
pub(crate) struct PatternError(pub(crate) String);

/// A number of expressions, and their compiled size.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Weight {
    count: usize,
    bytes: usize,
}

impl Weight {
    pub(crate) fn of(regex: &Regex) -> Self {
        Self {
            count: 1,
            bytes: size(regex),
        }
    }
}

impl std::iter::Sum for Weight {
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        all.fold(Self::default(), |sum, one| Self {
            count: sum.count + one.count,
            bytes: sum.bytes + one.bytes,
        })
    }
}

/// The number and size of expressions that a session may still compile.
#[derive(Debug)]
pub(crate) struct Budget {
    limit: Weight,
    used: Weight,
}

impl Budget {
    /// Creates the budget of a session that has the expressions `own`, and whose user's other
    /// sessions have `others`.
    pub(crate) fn beside(own: Weight, others: Weight) -> Self {
        let left =
            |session: usize, user: usize, others: usize| session.min(user.saturating_sub(others));
        Self {
            limit: Weight {
                count: left(SESSION.count, USER.count, others.count),
                bytes: left(SESSION.bytes, USER.bytes, others.bytes),
            },
            used: own,
        }
    }

    /// Creates the budget of a user's only session.
    pub(crate) fn of_session() -> Self {
        Self::beside(Weight::default(), Weight::default())
    }

    /// Compiles an expression after `complete` has extended it.
    fn compile(
        &mut self,
        pattern: &[u8],
        purpose: Purpose,
        complete: fn(&str) -> String,
    ) -> Result<Regex, PatternError> {
        if pattern.len() > MAX_LENGTH {
            let length = pattern.len();
            let reason = format!("it has {length} bytes, at most {MAX_LENGTH} are allowed");
            return Err(PatternError(reason));
        }
        self.used.count += 1;
        let left = self.limit.bytes.saturating_sub(self.used.bytes);
        if self.used.count > self.limit.count || left == 0 {
            return Err(too_much());
        }
        let pattern = std::str::from_utf8(pattern).map_err(|e| PatternError(e.to_string()))?;
        let unicode = purpose == Purpose::Names || check(pattern, false).is_err();
        if unicode {
            check(pattern, true)?;
        }
        let limit = left.min(MAX_COMPILED);
        let compiled = compile(&complete(pattern), unicode, purpose, limit);
        // An expression that is too large also took time to compile.
        self.used.bytes += compiled.as_ref().map_or(limit, size);
        match compiled {
            Ok(_) if self.used.bytes > self.limit.bytes => Err(too_much()),
            Err(_) if limit < MAX_COMPILED => Err(too_much()),
            compiled => compiled,
        }
    }
}

fn too_much() -> PatternError {
    let kb = |weight: Weight| weight.bytes / 1024;
    PatternError(format!(
        "one session may have {} expressions of {} kB compiled, all sessions of a user {} of {} kB",
        SESSION.count,
        kb(SESSION),
        USER.count,
        kb(USER),
    ))
}

/// Returns an expression as quoted in errors, shortened if it is long.
pub(crate) fn quoted(pattern: &[u8]) -> String {
    let text = String::from_utf8_lossy(pattern);
    match text.char_indices().nth(QUOTED) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text.into_owned(),
    }
}

/// The purpose of a compiled expression.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Purpose {
    /// Rare matches of names: compiled as small as possible.
    Names,
    /// Strings of packets: compiled for speed.
    Strings,
}

/// A regular expression that must match a whole name.
#[derive(Debug, Clone)]
pub(crate) struct Pattern(Regex);

impl Pattern {
    pub(crate) fn new(pattern: &[u8], budget: &mut Budget) -> Result<Self, PatternError> {
        budget.compile(pattern, Purpose::Names, whole).map(Self)
    }

    pub(crate) fn matches(&self, name: &[u8]) -> bool {
        self.0.is_match(name)
    }

    pub(crate) fn weight(&self) -> Weight {
        Weight::of(&self.0)
    }
}

/// Compiles a pattern for searching strings of any encoding: `.` is any byte but a line feed, and
/// `\w` and the like are ASCII, unless the pattern is only valid for UTF-8.
pub(crate) fn compile_bytes(pattern: &[u8], budget: &mut Budget) -> Result<Regex, PatternError> {
    budget.compile(pattern, Purpose::Strings, str::to_owned)
}

/// Compiles a pattern that must match a whole string.
pub(crate) fn compile_whole_bytes(
    pattern: &[u8],
    budget: &mut Budget,
) -> Result<Regex, PatternError> {
    budget.compile(pattern, Purpose::Strings, whole)
}

/// Extends an expression to match whole strings. Check it alone first: an unbalanced parenthesis
/// must not pair up with the added ones.
fn whole(pattern: &str) -> String {
    format!("^(?:{pattern})$")
}

#[cfg(all(test, feature = "regex"))]
mod tests {
    use super::*;

    #[test]
    fn matches_whole_names_only() {
        let new = |pattern: &[u8]| Pattern::new(pattern, &mut Budget::of_session());
        let pattern = new(b"a|bc").unwrap();
        assert!(pattern.matches(b"a") && pattern.matches(b"bc"));
        assert!(!pattern.matches(b"ac") && !pattern.matches(b"xa") && !pattern.matches(b"a\n"));
        assert_eq!(new(b"a(").unwrap_err().0, "unclosed group");
        assert!(new(b"a)(b").is_err());
        assert!(new(b"\xff").is_err());
    }
}
