//! The `ftrace/print` records that a data source wants.

use super::bytes::until_nul;

/// The way a rule recognises a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Match {
    /// The text begins with this.
    Prefix(Vec<u8>),
    /// The text is `<kind>|<digits>|<prefix>…`, the form user-space trace markers have.
    Marker {
        /// The letter, for example `B` or `C`.
        kind: Vec<u8>,
        /// The text that follows the process id.
        prefix: Vec<u8>,
    },
}

/// One rule: the first one that matches decides.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    /// The texts it recognises.
    pub matches: Match,
    /// True if such records are kept.
    pub allow: bool,
}

/// The rules of one data source, applied to this kernel's `print` records.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PrintFilter {
    /// Offset of the text in a record; it runs to a NUL or the end.
    pub text_offset: usize,
    /// Rules in order.
    pub rules: Vec<Rule>,
}

impl PrintFilter {
    /// Returns true if the record is kept. A text no rule matches is kept.
    pub fn allows(&self, record: &[u8]) -> bool {
        let text = until_nul(record.get(self.text_offset..).unwrap_or(&[]));
        self.rules
            .iter()
            .find(|rule| rule.matches.matches(text))
            .is_none_or(|rule| rule.allow)
    }
}

impl Match {
    fn matches(&self, text: &[u8]) -> bool {
        match self {
            Self::Prefix(prefix) => text.starts_with(prefix),
            Self::Marker { kind, prefix } => {
                marker_body(text, kind).is_some_and(|body| body.starts_with(prefix))
            }
        }
    }
}

fn marker_body<'a>(text: &'a [u8], kind: &[u8]) -> Option<&'a [u8]> {
    let rest = text.strip_prefix(kind)?.strip_prefix(b"|")?;
    let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    rest[digits..].strip_prefix(b"|")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn probes_052_print_filter_takes_the_first_match_and_allows_by_default() {
        let rule = |matches, allow| Rule { matches, allow };
        let filter = PrintFilter {
            text_offset: 2,
            rules: vec![
                rule(Match::Prefix(b"keep".to_vec()), true),
                rule(Match::Prefix(b"k".to_vec()), false),
                rule(
                    Match::Marker {
                        kind: b"C".to_vec(),
                        prefix: b"noisy".to_vec(),
                    },
                    false,
                ),
            ],
        };
        assert!(filter.allows(b"..keep this\n"));
        assert!(!filter.allows(b"..kill this\n"));
        assert!(filter.allows(b"..something else\n"));
        assert!(!filter.allows(b"..C|123|noisy_counter|4\n"));
        assert!(!filter.allows(b"..C||noisy\n"));
        assert!(filter.allows(b"..C|12x|noisy\n"));
        assert!(filter.allows(b"..B|123|noisy\n"));
        assert!(filter.allows(b""));
    }
}
