//! Errors and warnings with their positions.

use std::fmt;

use ferretto_proto::DecodeError;

use crate::terminal;

/// The largest number of errors shown; later ones tend to be consequences.
const MAX_SHOWN: usize = 10;

/// The length of lines, in characters, above which only a part is shown.
const MAX_COLUMN: usize = 160;

/// The length of words above which they are truncated.
const MAX_WORD: usize = 100;

/// The length of messages, in bytes, above which they are truncated.
const MAX_MESSAGE: usize = 1000;

/// A message about a position in a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// The name of the text.
    pub name: String,
    /// The line, from 1.
    pub line: usize,
    /// The column in characters, from 1.
    pub column: usize,
    /// The message.
    pub message: String,
    /// The line of the text, or the part of it around the position.
    source: String,
    /// The number of characters of the line before that part.
    skipped: usize,
    /// The number of characters that the message is about.
    width: usize,
}

impl Diagnostic {
    /// Creates a diagnostic about the bytes `start..end` of `text`.
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
        // Only as much of a very long line is kept as can be shown; a character has at most four
        // bytes.
        let shown_start = boundary(text, line_start.max(start.saturating_sub(4 * MAX_COLUMN)));
        let shown_end = line_end.min(start.saturating_add(4 * MAX_COLUMN));
        Self {
            name: name.to_owned(),
            line: before.iter().filter(|b| **b == b'\n').count() + 1,
            column: characters(&text[line_start..start]) + 1,
            message: shortened(&message),
            source: String::from_utf8_lossy(&text[shown_start..shown_end])
                .trim_end()
                .to_owned(),
            skipped: characters(&text[line_start..shown_start]),
            width: characters(&text[start..end]).clamp(1, MAX_COLUMN),
        }
    }
}

/// Returns the position of the next character boundary.
fn boundary(text: &[u8], at: usize) -> usize {
    let rest = text[at..].iter();
    at + rest.take_while(|byte| **byte & 0xc0 == 0x80).count()
}

/// Truncates long words of a message, and the message itself.
fn shortened(message: &str) -> String {
    let mut shortened = String::new();
    for word in message.split_inclusive(' ') {
        let mut characters = word.chars();
        shortened.extend(characters.by_ref().take(MAX_WORD));
        if characters.next().is_some() {
            shortened.push_str("… ");
        }
        if shortened.len() > MAX_MESSAGE {
            shortened.push('…');
            break;
        }
    }
    let hint = if shortened.len() > MAX_MESSAGE {
        message.rsplit_once("; ").map(|(_, hint)| hint)
    } else {
        None
    };
    match hint.filter(|hint| hint.len() < MAX_WORD) {
        Some(hint) => format!("{}; {hint}", shortened.trim_end()),
        None => shortened.trim_end().to_owned(),
    }
}

fn characters(bytes: &[u8]) -> usize {
    // Without decoding, since this may be the whole of a long line.
    bytes.iter().filter(|byte| **byte & 0xc0 != 0x80).count()
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{}:{}:{}: {}",
            self.name,
            self.line,
            self.column,
            terminal::shown(&self.message)
        )?;
        // Control characters of the text must not reach a terminal.
        let shown = |c: char| match c {
            '\t' => '\t',
            c if c.is_control() => char::REPLACEMENT_CHARACTER,
            c => c,
        };
        let source: String = self.source.chars().map(shown).collect();
        // Of a very long line, the part around the position.
        let before = self.column - 1 - self.skipped;
        let from = if before > MAX_COLUMN {
            before - MAX_COLUMN / 2
        } else {
            0
        };
        let line: String = source.chars().skip(from).take(MAX_COLUMN).collect();
        // Tabs are repeated, so that the marker is below its position.
        let blank = |c: char| if c == '\t' { c } else { ' ' };
        let indent: String = line.chars().take(before - from).map(blank).collect();
        write!(f, "  {line}\n  {indent}^{}", "~".repeat(self.width - 1))
    }
}

/// The reason why a text is not a config.
#[derive(Debug)]
pub enum ConfigError {
    /// Errors in the text: at least one, in the order of the text.
    Text(Vec<Diagnostic>),
    /// The bytes are neither text nor an encoded config.
    Binary {
        /// The name of the config.
        name: String,
        /// The decoding error.
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
