//! Errors and warnings with the place they are about.

use std::fmt;

use ferretto_proto::DecodeError;

/// Only so many errors are shown; later ones tend to follow from them.
const MAX_SHOWN: usize = 10;

/// Longer lines are shown in part.
const MAX_COLUMN: usize = 160;

/// A remark about a place in a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Diagnostic {
    /// What the text is called.
    pub(crate) name: String,
    /// Line, from 1.
    pub(crate) line: usize,
    /// Column in characters, from 1.
    pub(crate) column: usize,
    /// What is to be said.
    pub(crate) message: String,
    /// The line of the text.
    source: String,
    /// How many characters of the line it is about.
    width: usize,
}

impl Diagnostic {
    /// About the bytes `start..end` of `text`.
    pub(super) fn new(name: &str, text: &[u8], start: usize, end: usize, message: String) -> Self {
        let start = start.min(text.len());
        let before = &text[..start];
        let line_start = before
            .iter()
            .rposition(|b| *b == b'\n')
            .map_or(0, |at| at + 1);
        let line_end = text[start..]
            .iter()
            .position(|b| *b == b'\n')
            .map_or(text.len(), |n| start + n);
        let end = end.clamp(start, line_end);
        Self {
            name: name.to_owned(),
            line: before.iter().filter(|b| **b == b'\n').count() + 1,
            column: characters(&text[line_start..start]) + 1,
            message,
            source: String::from_utf8_lossy(&text[line_start..line_end])
                .trim_end()
                .to_owned(),
            width: characters(&text[start..end]).max(1),
        }
    }
}

fn characters(bytes: &[u8]) -> usize {
    String::from_utf8_lossy(bytes).chars().count()
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{}:{}:{}: {}",
            self.name, self.line, self.column, self.message
        )?;
        // Control characters of the text must not reach a terminal.
        let shown = |c: char| match c {
            '\t' => '\t',
            c if c.is_control() => char::REPLACEMENT_CHARACTER,
            c => c,
        };
        let source: String = self.source.chars().map(shown).collect();
        // Of a very long line, the part around the place.
        let from = if self.column > MAX_COLUMN {
            self.column - MAX_COLUMN / 2
        } else {
            0
        };
        let line: String = source.chars().skip(from).take(MAX_COLUMN).collect();
        // The same tabs keep the marker below its place.
        let blank = |c: char| if c == '\t' { c } else { ' ' };
        let indent: String = line
            .chars()
            .take(self.column - 1 - from)
            .map(blank)
            .collect();
        let width = self.width.min(MAX_COLUMN);
        write!(f, "  {line}\n  {indent}^{}", "~".repeat(width - 1))
    }
}

/// Why something is not a config.
#[derive(Debug)]
pub(crate) enum ConfigError {
    /// The text is wrong in these places: at least one, in the order of the text.
    Text(Vec<Diagnostic>),
    /// It is no text, and not an encoded config either.
    Binary {
        /// What the config is called.
        name: String,
        /// What is wrong with its encoding.
        error: DecodeError,
    },
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let errors = match self {
            Self::Text(errors) => errors,
            Self::Binary { name, error } => {
                return write!(
                    f,
                    "{name} is neither text nor an encoded TraceConfig: {error}"
                );
            }
        };
        for (index, error) in errors.iter().take(MAX_SHOWN).enumerate() {
            if index > 0 {
                writeln!(f)?;
            }
            write!(f, "{error}")?;
        }
        match errors.len().saturating_sub(MAX_SHOWN) {
            0 => Ok(()),
            more => write!(f, "\n{more} more errors"),
        }
    }
}

impl std::error::Error for ConfigError {}
