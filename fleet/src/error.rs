//! Errors with a location in the SQL.

use std::fmt;

use datafusion::common::{DataFusionError, SchemaError};
use datafusion::sql::sqlparser::tokenizer::Location;

/// An error of a query.
#[derive(Debug, Clone)]
pub struct SqlError {
    /// The message, a sentence.
    pub message: String,
    /// The line and column in the SQL, from 1, if known.
    pub location: Option<(u64, u64)>,
    /// The name that was not found.
    pub missing: Option<Missing>,
}

/// A name that does not exist.
#[derive(Debug, Clone)]
pub enum Missing {
    /// A column, and the names of existing ones.
    Column(String, Vec<String>),
    /// A table or view.
    Table(String),
    /// A function.
    Function(String),
}

impl SqlError {
    /// Returns an error without a location.
    pub fn new(message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            location: None,
            missing: None,
        }
    }

    /// Returns an error at a location in the SQL.
    pub fn at(location: Location, message: impl Into<String>) -> Self {
        let location = (location.line > 0).then_some((location.line, location.column));
        Self {
            message: message.into(),
            location,
            missing: None,
        }
    }

    /// Converts an error of Arrow.
    pub fn arrow(error: datafusion::arrow::error::ArrowError) -> Self {
        DataFusionError::from(error).into()
    }

    /// Returns the message with the line of the SQL and a caret below the location.
    pub fn render(&self, sql: &str) -> String {
        let Some((line, column)) = self.location else {
            return self.message.clone();
        };
        let Some(text) = sql.lines().nth(line as usize - 1) else {
            return self.message.clone();
        };
        let number = line.to_string();
        let indent = " ".repeat(number.len());
        let lead: String = text
            .chars()
            .take(column as usize - 1)
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

impl From<DataFusionError> for SqlError {
    fn from(error: DataFusionError) -> Self {
        error.find_root_for_report()
    }
}

trait Report {
    fn find_root_for_report(self) -> SqlError;
}

impl Report for DataFusionError {
    fn find_root_for_report(self) -> SqlError {
        match self {
            Self::Context(_, inner) | Self::Diagnostic(_, inner) => inner.find_root_for_report(),
            Self::Collection(mut errors) if !errors.is_empty() => {
                errors.swap_remove(0).find_root_for_report()
            }
            Self::External(inner) => match inner.downcast::<SqlError>() {
                Ok(error) => *error,
                Err(inner) => match inner.downcast::<Self>() {
                    Ok(error) => error.find_root_for_report(),
                    Err(inner) => SqlError::new(inner.to_string()),
                },
            },
            Self::Shared(inner) => match std::sync::Arc::try_unwrap(inner) {
                Ok(error) => error.find_root_for_report(),
                Err(shared) => plain(&shared.to_string()),
            },
            Self::SchemaError(error, _) => schema(*error),
            Self::ResourcesExhausted(_) => too_much_memory(),
            Self::SQL(error, _) => parser(&error.to_string()),
            other => plain(&other.to_string()),
        }
    }
}

impl From<SqlError> for DataFusionError {
    fn from(error: SqlError) -> Self {
        Self::External(Box::new(error))
    }
}

fn schema(error: SchemaError) -> SqlError {
    match error {
        SchemaError::FieldNotFound {
            field,
            valid_fields,
        } => {
            let valid = valid_fields.iter().map(|f| f.name.clone()).collect();
            SqlError {
                message: format!("There is no column '{}' here.", field.flat_name()),
                location: None,
                missing: Some(Missing::Column(field.name.clone(), valid)),
            }
        }
        SchemaError::AmbiguousReference { field } => SqlError {
            message: format!(
                "The column '{}' is in more than one table: add the table, as in 'table.{}'.",
                field.name, field.name
            ),
            location: None,
            missing: Some(Missing::Column(field.name, Vec::new())),
        },
        other => SqlError::new(sentence(&other.to_string())),
    }
}

/// Converts a message of the parser, whose location is its end `at Line: 1, Column: 8`.
pub fn parser(message: &str) -> SqlError {
    let message = message
        .strip_prefix("sql parser error: ")
        .unwrap_or(message);
    if let Some((text, location)) = message.rsplit_once(" at Line: ")
        && let Some((line, column)) = location.split_once(", Column: ")
        && let (Ok(line), Ok(column)) = (line.trim().parse(), column.trim().parse())
    {
        return SqlError {
            message: format!("Syntax error: {}.", lower_first(text).trim_end_matches('.')),
            location: Some((line, column)),
            missing: None,
        };
    }
    SqlError::new(format!(
        "Syntax error: {}.",
        lower_first(message).trim_end_matches('.')
    ))
}

fn too_much_memory() -> SqlError {
    SqlError::new(
        "The query needs more memory than allowed. \
         Select fewer columns or rows, or raise --memory-limit.",
    )
}

fn plain(message: &str) -> SqlError {
    let message = sentence(message);
    if message.contains("Resources exhausted: ") {
        return too_much_memory();
    }
    let quoted = |message: &str| message.split('\'').nth(1).map(str::to_owned);
    if message.starts_with("table '") && message.contains("' not found") {
        let name = quoted(&message).unwrap_or_default();
        let name = name.rsplit('.').next().unwrap_or_default().to_owned();
        return SqlError {
            message: format!("There is no table or view '{name}'."),
            location: None,
            missing: Some(Missing::Table(name)),
        };
    }
    if message.starts_with("Invalid function '") {
        let name = quoted(&message).unwrap_or_default();
        return SqlError {
            message: format!("There is no function '{name}'."),
            location: None,
            missing: Some(Missing::Function(name)),
        };
    }
    SqlError::new(message)
}

/// Removes the prefixes that name the layers of DataFusion.
fn sentence(message: &str) -> String {
    let mut message = message;
    loop {
        let Some(rest) = [
            "Error during planning: ",
            "Execution error: ",
            "Schema error: ",
            "Optimizer rule ",
            "Arrow error: ",
            "Invalid argument error: ",
            "External error: ",
            "This feature is not implemented: ",
            "type_coercion\ncaused by\n",
        ]
        .iter()
        .find_map(|prefix| message.strip_prefix(prefix)) else {
            return message.to_owned();
        };
        message = rest;
    }
}

fn lower_first(text: &str) -> String {
    let mut chars = text.chars();
    chars
        .next()
        .map(|c| c.to_lowercase().chain(chars).collect())
        .unwrap_or_default()
}

/// Returns the candidate most similar to the name, if one is similar enough.
pub fn nearest<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let name = name.to_lowercase();
    candidates
        .into_iter()
        // The same name, which exists elsewhere or as another kind, is not a correction.
        .filter(|candidate| *candidate != name)
        .map(|candidate| (strsim::damerau_levenshtein(&name, candidate), candidate))
        .filter(|(distance, _)| *distance <= (name.chars().count() / 3).max(1))
        .min()
        .map(|(_, candidate)| candidate)
}
