//! Errors and warnings with the place they are about.

use std::fmt;

use ferretto_proto::DecodeError;

use crate::terminal;

/// Only so many errors are shown; later ones tend to follow from them.
const MAX_SHOWN: usize = 10;

/// Longer lines are shown in part.
const MAX_COLUMN: usize = 160;

/// Longer words of a text, names and values, are repeated in part.
const MAX_WORD: usize = 100;

/// Longer messages end here, in bytes.
const MAX_MESSAGE: usize = 1000;

/// A remark about a place in a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// The name of the text.
    pub name: String,
    /// Line, from 1.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
    /// The sentence.
    pub message: String,
    /// The line of the text, or the part of it around the place.
    source: String,
    /// Characters of the line before that part.
    skipped: usize,
    /// The number of characters of the line it is about.
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
        // Of a very long line no more is kept than can be shown; a character has at most four
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

/// Returns the place where the next character begins.
fn boundary(text: &[u8], at: usize) -> usize {
    let rest = text[at..].iter();
    at + rest.take_while(|byte| **byte & 0xc0 == 0x80).count()
}

/// A message without the ends of words that are too long, and without its own.
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
    let hint = match shortened.len() > MAX_MESSAGE {
        true => message.rsplit_once("; ").map(|(_, hint)| hint),
        false => None,
    };
    match hint.filter(|hint| hint.len() < MAX_WORD) {
        Some(hint) => format!("{}; {hint}", shortened.trim_end()),
        None => shortened.trim_end().to_owned(),
    }
}

fn characters(bytes: &[u8]) -> usize {
    // Without decoding them, as this may be the whole of a long line.
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
        // Of a very long line, the part around the place.
        let before = self.column - 1 - self.skipped;
        let from = if before > MAX_COLUMN {
            before - MAX_COLUMN / 2
        } else {
            0
        };
        let line: String = source.chars().skip(from).take(MAX_COLUMN).collect();
        // The same tabs keep the marker below its place.
        let blank = |c: char| if c == '\t' { c } else { ' ' };
        let indent: String = line.chars().take(before - from).map(blank).collect();
        write!(f, "  {line}\n  {indent}^{}", "~".repeat(self.width - 1))
    }
}

/// Why something is not a config.
#[derive(Debug)]
pub enum ConfigError {
    /// The text is wrong in these places: at least one, in the order of the text.
    Text(Vec<Diagnostic>),
    /// It is no text, and not an encoded config either.
    Binary {
        /// The name of the config.
        name: String,
        /// The fault of its encoding.
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
