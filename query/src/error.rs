//! Errors with a place in the SQL.

use std::fmt;

/// An error of a statement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SqlError {
    /// The message, a sentence.
    pub message: String,
    /// The offset in the text in bytes, if it is known.
    pub offset: Option<usize>,
}

impl SqlError {
    /// Returns an error without an offset.
    pub fn new(message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            offset: None,
        }
    }

    /// Returns an error at an offset in the text.
    pub fn at(offset: usize, message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            offset: Some(offset),
        }
    }

    /// Returns this error at an offset, if it has none yet.
    #[must_use]
    pub(crate) fn or_at(mut self, offset: usize) -> Self {
        self.offset.get_or_insert(offset);
        self
    }

    /// Returns the line and the column of its offset, from 1.
    pub fn position(&self, sql: &str) -> Option<(usize, usize)> {
        let before = sql.get(..self.offset?)?;
        let line = before.rfind('\n').map_or(0, |end| end + 1);
        let number = before.matches('\n').count() + 1;
        Some((number, before[line..].chars().count() + 1))
    }

    /// Returns the message with the line of the SQL and a caret below its offset.
    pub fn render(&self, sql: &str) -> String {
        let Some((line, column)) = self.position(sql) else {
            return self.message.clone();
        };
        let text = sql.lines().nth(line - 1).unwrap_or_default();
        let number = line.to_string();
        let indent = " ".repeat(number.len());
        let lead: String = text
            .chars()
            .take(column - 1)
            .map(|c| if c == '\t' { '\t' } else { ' ' })
            .collect();
        format!(
            "{}\n{indent} --> line {line}, column {column}\n{number} | {text}\n{indent} | {lead}^",
            self.message
        )
    }
}

impl fmt::Display for SqlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for SqlError {}

impl From<rusqlite::Error> for SqlError {
    fn from(error: rusqlite::Error) -> Self {
        use rusqlite::{Error, ErrorCode};
        match error {
            Error::SqlInputError { msg, offset, .. } => Self {
                message: sentence(&msg),
                offset: usize::try_from(offset).ok(),
            },
            Error::SqliteFailure(code, message) => Self::new(match code.code {
                ErrorCode::OperationInterrupted => "The query was cancelled.".to_owned(),
                ErrorCode::TooBig => {
                    "A text or blob is larger than a quarter of the memory limit, or \
                                      than 1 GB."
                        .to_owned()
                }
                ErrorCode::OutOfMemory => "The query needs more memory than the limit.".to_owned(),
                _ => sentence(&message.unwrap_or_else(|| code.to_string())),
            }),
            Error::UserFunctionError(inner) | Error::ToSqlConversionFailure(inner) => {
                Self::new(sentence(&inner.to_string()))
            }
            other => Self::new(sentence(&other.to_string())),
        }
    }
}

/// Returns a message of SQLite as a sentence. A name before a colon stays as it is.
fn sentence(message: &str) -> String {
    let begins_with_name = message
        .split(' ')
        .next()
        .is_some_and(|word| word.ends_with(':'));
    let mut chars = message.chars();
    let first = chars.next();
    let first = first.map(|c| {
        if begins_with_name {
            c
        } else {
            c.to_ascii_uppercase()
        }
    });
    let text: String = first.into_iter().chain(chars).collect();
    if text.ends_with('.') {
        text
    } else {
        text + "."
    }
}

/// Returns the name that is most similar to `name`, if one is similar.
pub(crate) fn nearest<'a>(name: &str, names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    names
        .map(|known| (distance(name, known), known))
        .filter(|(distance, _)| *distance <= name.len().div_ceil(3))
        .min()
        .map(|(_, known)| known)
}

/// Returns the number of characters that must be inserted, removed or replaced.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, c) in a.chars().enumerate() {
        let mut before = row[0];
        row[0] = i + 1;
        for (j, d) in b.iter().enumerate() {
            let replaced = before + usize::from(c != *d);
            before = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(before + 1);
        }
    }
    row[b.len()]
}
