//! The statements of PerfettoSQL.

use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

use super::legacy;
use super::lexer::{
    closing, is_word, name_of, solid, split_commas, start_of, text, tokenize, trim,
};
use crate::error::SqlError;

/// A statement: one of PerfettoSQL's own, or of standard SQL.
#[derive(Debug, Clone)]
pub enum Statement {
    /// `INCLUDE PERFETTO MODULE a.b`.
    Include(String),
    /// `CREATE PERFETTO TABLE n [(columns)] AS …`.
    Table(Definition),
    /// `CREATE PERFETTO VIEW n [(columns)] AS …`.
    View(Definition),
    /// `CREATE PERFETTO FUNCTION n(…) RETURNS … AS …`.
    Function {
        /// The name, and the text after `AS`.
        definition: Definition,
        /// The arguments.
        arguments: Vec<Argument>,
        /// The type of the value, or the columns of the rows.
        returns: Returns,
    },
    /// `CREATE PERFETTO MACRO n(…) RETURNS … AS …`.
    Macro {
        /// The name, and the text after `AS`.
        definition: Definition,
        /// The arguments.
        arguments: Vec<Argument>,
        /// The kind of text that it returns.
        returns: String,
    },
    /// `CREATE PERFETTO FUNCTION n(…) RETURNS … DELEGATES TO f`: another name for a function.
    Delegate {
        /// The new name.
        name: String,
        /// The name of the existing function.
        target: String,
    },
    /// A statement without effect, such as `CREATE` and `DROP PERFETTO INDEX`, which affect only
    /// speed.
    Nothing,
    /// `CREATE VIRTUAL TABLE n USING SPAN_JOIN(…)`.
    SpanJoin {
        /// The name of the table.
        name: String,
        /// The kind of join, in upper case.
        kind: String,
        /// The two inputs.
        inputs: [SpanInput; 2],
    },
    /// `CREATE VIRTUAL TABLE n USING __intrinsic_flamegraph((…))`.
    Flamegraph {
        /// The name of the table.
        name: String,
        /// The query or table with the rows.
        source: Vec<TokenWithSpan>,
    },
    /// Any other statement.
    Sql(Vec<TokenWithSpan>),
}

/// A name and its definition.
#[derive(Debug, Clone)]
pub struct Definition {
    /// The name.
    pub name: String,
    /// True with `OR REPLACE`.
    pub replace: bool,
    /// The declared columns.
    pub columns: Vec<Argument>,
    /// The text after `AS`.
    pub body: Vec<TokenWithSpan>,
}

/// The name and type of an argument or column.
#[derive(Debug, Clone)]
pub struct Argument {
    /// The name.
    pub name: String,
    /// The name of the type, as written.
    pub kind: String,
}

/// The result of a function.
#[derive(Debug, Clone)]
pub enum Returns {
    /// One value.
    Scalar(String),
    /// Rows.
    Table(Vec<Argument>),
}

/// An input of a span join.
#[derive(Debug, Clone)]
pub struct SpanInput {
    /// The table or view.
    pub table: String,
    /// The column after `PARTITIONED`.
    pub partition: Option<String>,
}

/// Reads tokens one after another, without white space and comments.
struct Cursor<'a> {
    tokens: &'a [TokenWithSpan],
    at: usize,
}

impl<'a> Cursor<'a> {
    fn skip_blank(&mut self) {
        while self.at < self.tokens.len()
            && matches!(self.tokens[self.at].token, Token::Whitespace(_))
        {
            self.at += 1;
        }
    }

    fn peek(&mut self) -> Option<&'a TokenWithSpan> {
        self.skip_blank();
        self.tokens.get(self.at)
    }

    fn next(&mut self) -> Option<&'a TokenWithSpan> {
        let token = self.peek();
        self.at += 1;
        token
    }

    fn word(&mut self, name: &str) -> bool {
        let found = self.peek().is_some_and(|t| is_word(t, name));
        self.at += usize::from(found);
        found
    }

    fn words(&mut self, names: &[&str]) -> bool {
        let at = self.at;
        let found = names.iter().all(|name| self.word(name));
        if !found {
            self.at = at;
        }
        found
    }

    fn fail<T>(&mut self, expected: &str) -> Result<T, SqlError> {
        let message = match self.peek() {
            Some(t) => format!("Syntax error: expected {expected}, found '{}'.", t.token),
            None => format!("Syntax error: expected {expected}, found the end."),
        };
        let location = self.peek().or(self.tokens.last()).map(|t| t.span.start);
        Err(SqlError::at(location.unwrap_or_default_location(), message))
    }

    fn need(&mut self, name: &str) -> Result<(), SqlError> {
        if self.word(name) {
            Ok(())
        } else {
            self.fail(name)
        }
    }

    fn name(&mut self) -> Result<String, SqlError> {
        match self.peek().and_then(name_of) {
            Some(name) => {
                self.at += 1;
                Ok(name.to_ascii_lowercase())
            }
            None => self.fail("a name"),
        }
    }

    /// Reads the name of a type.
    fn kind(&mut self) -> Result<String, SqlError> {
        match self.peek().and_then(name_of) {
            Some(name) => {
                self.at += 1;
                Ok(name.to_owned())
            }
            None => self.fail("a type"),
        }
    }

    /// Reads parentheses and returns the tokens inside.
    fn parenthesized(&mut self) -> Result<&'a [TokenWithSpan], SqlError> {
        if self.peek().is_none_or(|t| t.token != Token::LParen) {
            return self.fail("'('");
        }
        let Some(end) = closing(self.tokens, self.at) else {
            return Err(SqlError::at(
                self.tokens[self.at].span.start,
                "Syntax error: this parenthesis is not closed.",
            ));
        };
        let inner = &self.tokens[self.at + 1..end];
        self.at = end + 1;
        Ok(inner)
    }

    fn rest(&mut self) -> Result<Vec<TokenWithSpan>, SqlError> {
        let rest = trim(&self.tokens[self.at.min(self.tokens.len())..]);
        if rest.is_empty() {
            self.fail("a body after AS")
        } else {
            Ok(rest.to_vec())
        }
    }
}

trait OrEmpty {
    fn unwrap_or_default_location(self) -> datafusion::sql::sqlparser::tokenizer::Location;
}

impl OrEmpty for Option<datafusion::sql::sqlparser::tokenizer::Location> {
    fn unwrap_or_default_location(self) -> datafusion::sql::sqlparser::tokenizer::Location {
        self.unwrap_or(datafusion::sql::sqlparser::tokenizer::Location::empty())
    }
}

/// Parses one statement.
pub fn parse(tokens: Vec<TokenWithSpan>) -> Result<Statement, SqlError> {
    let mut cursor = Cursor {
        tokens: &tokens,
        at: 0,
    };
    if cursor.words(&["INCLUDE", "PERFETTO", "MODULE"]) {
        let name: String = solid(&tokens[cursor.at..])
            .iter()
            .map(|t| t.token.to_string())
            .collect();
        let valid = name
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || "_.*".contains(c));
        if name.is_empty() || !valid {
            return Err(SqlError::at(
                start_of(&tokens),
                format!("'{name}' is not a name of a module."),
            ));
        }
        return Ok(Statement::Include(name));
    }
    if cursor.words(&["DROP", "PERFETTO", "INDEX"]) {
        return Ok(Statement::Nothing);
    }
    if let Some(modern) = legacy::modern(&tokens) {
        if modern.is_empty() {
            return Ok(Statement::Nothing);
        }
        return parse(tokenize(&modern)?);
    }
    if !cursor.word("CREATE") {
        return Ok(Statement::Sql(tokens));
    }
    let replace = cursor.words(&["OR", "REPLACE"]);
    if cursor.words(&["VIRTUAL", "TABLE"]) {
        return virtual_table(cursor);
    }
    if !cursor.word("PERFETTO") {
        return Ok(Statement::Sql(tokens));
    }
    if cursor.word("INDEX") {
        return Ok(Statement::Nothing);
    }
    let table = cursor.word("TABLE");
    if table || cursor.word("VIEW") {
        let name = cursor.name()?;
        let columns = match cursor.peek() {
            Some(t) if t.token == Token::LParen => arguments(cursor.parenthesized()?)?,
            _ => Vec::new(),
        };
        cursor.need("AS")?;
        let body = cursor.rest()?;
        let definition = Definition {
            name,
            replace,
            columns,
            body,
        };
        return Ok(if table {
            Statement::Table(definition)
        } else {
            Statement::View(definition)
        });
    }
    let function = cursor.word("FUNCTION");
    if !function && !cursor.word("MACRO") {
        return cursor.fail("TABLE, VIEW, FUNCTION, MACRO or INDEX");
    }
    let name = cursor.name()?;
    let args = arguments(cursor.parenthesized()?)?;
    cursor.need("RETURNS")?;
    let returns = if function && cursor.word("TABLE") {
        Returns::Table(arguments(cursor.parenthesized()?)?)
    } else {
        let kind = cursor.kind()?;
        if cursor.peek().is_some_and(|t| t.token == Token::LParen) {
            cursor.parenthesized()?;
        }
        Returns::Scalar(kind)
    };
    if function && cursor.words(&["DELEGATES", "TO"]) {
        let target = cursor.name()?;
        return Ok(Statement::Delegate { name, target });
    }
    cursor.need("AS")?;
    let body = cursor.rest()?;
    let definition = Definition {
        name,
        replace,
        columns: Vec::new(),
        body,
    };
    Ok(if function {
        Statement::Function {
            definition,
            arguments: args,
            returns,
        }
    } else {
        let returns = match returns {
            Returns::Scalar(kind) => kind,
            Returns::Table(_) => "TABLE".to_owned(),
        };
        Statement::Macro {
            definition,
            arguments: args,
            returns,
        }
    })
}

/// Parses `name TYPE, name TYPE(detail), …`.
fn arguments(tokens: &[TokenWithSpan]) -> Result<Vec<Argument>, SqlError> {
    split_commas(tokens)
        .into_iter()
        .map(|part| {
            let mut cursor = Cursor {
                tokens: part,
                at: 0,
            };
            let name = cursor.name()?;
            let kind = cursor.kind()?;
            Ok(Argument { name, kind })
        })
        .collect()
}

fn virtual_table(mut cursor: Cursor<'_>) -> Result<Statement, SqlError> {
    cursor.words(&["IF", "NOT", "EXISTS"]);
    let name = cursor.name()?;
    cursor.need("USING")?;
    let location = cursor.peek().map(|t| t.span.start);
    let kind = cursor.name()?.to_ascii_uppercase();
    if kind == "__INTRINSIC_FLAMEGRAPH" {
        let source = cursor.parenthesized()?.to_vec();
        return Ok(Statement::Flamegraph { name, source });
    }
    if !["SPAN_JOIN", "SPAN_LEFT_JOIN", "SPAN_OUTER_JOIN"].contains(&kind.as_str()) {
        return Err(SqlError::at(
            location.unwrap_or_default_location(),
            format!(
                "The virtual table '{}' is not supported: \
                 use SPAN_JOIN, SPAN_LEFT_JOIN or SPAN_OUTER_JOIN.",
                kind.to_ascii_lowercase()
            ),
        ));
    }
    let parts = split_commas(cursor.parenthesized()?);
    let [left, right] = parts.as_slice() else {
        return Err(SqlError::at(
            location.unwrap_or_default_location(),
            format!("{kind} takes two tables, not {}.", parts.len()),
        ));
    };
    let input = |tokens| {
        let mut cursor = Cursor { tokens, at: 0 };
        let table = cursor.name()?;
        let partition = if cursor.word("PARTITIONED") {
            Some(cursor.name()?)
        } else {
            None
        };
        if cursor.next().is_some() {
            cursor.at -= 1;
            return cursor.fail("',' or ')'");
        }
        Ok(SpanInput { table, partition })
    };
    Ok(Statement::SpanJoin {
        name,
        kind,
        inputs: [input(left)?, input(right)?],
    })
}

/// Returns the text of a definition on one line.
pub fn excerpt(tokens: &[TokenWithSpan]) -> String {
    text(tokens)
        .split_whitespace()
        .collect::<Vec<_>>()
        .join(" ")
}
