//! The statements of PerfettoSQL.

use super::lexer::{Kind, Token, closing, split_commas, text, tokenize, trim};
use crate::error::SqlError;

/// A statement: one of PerfettoSQL's own, or of SQLite.
#[derive(Debug, Clone)]
pub(crate) enum Statement {
    /// `INCLUDE PERFETTO MODULE a.b`.
    Include(String),
    /// `CREATE PERFETTO TABLE n [(columns)] AS …`.
    Table(Definition),
    /// `CREATE PERFETTO VIEW n [(columns)] AS …`.
    View(Definition),
    /// `CREATE PERFETTO FUNCTION n(…) RETURNS … AS …`.
    Function(Definition, Vec<Argument>, Returns),
    /// `CREATE PERFETTO FUNCTION n(…) RETURNS … DELEGATES TO f`: another name for a function.
    Delegate(String, Vec<Argument>, String),
    /// `CREATE PERFETTO MACRO n(…) RETURNS … AS …`.
    Macro(Definition, Vec<Argument>),
    /// `CREATE [OR REPLACE] PERFETTO INDEX n ON t(columns)`, with everything from `ON`.
    Index(String, bool, Vec<Token>),
    /// `DROP PERFETTO INDEX n ON t`.
    DropIndex(String),
    /// `SELECT EXPERIMENTAL_MEMOIZE('f')`.
    Memoize(String),
    /// `CREATE VIRTUAL TABLE n USING SPAN_JOIN(…)`.
    SpanJoin(SpanJoin),
    /// `CREATE VIRTUAL TABLE n USING __intrinsic_slice_mipmap(…)` and the like.
    Operator(Operator),
    /// Any other statement.
    Sql(Vec<Token>),
}

/// A name and its definition.
#[derive(Debug, Clone)]
pub(crate) struct Definition {
    pub(crate) name: String,
    /// True with `OR REPLACE`.
    pub(crate) replace: bool,
    /// The declared columns.
    pub(crate) columns: Vec<Argument>,
    /// The tokens after `AS`.
    pub(crate) body: Vec<Token>,
}

/// The name and type of an argument or column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Argument {
    pub(crate) name: String,
    /// The name of the type, in upper case.
    pub(crate) kind: String,
}

/// The result of a function.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Returns {
    /// One value of this type.
    Scalar(String),
    /// Rows with these columns.
    Table(Vec<Argument>),
}

/// The kind of a span join.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SpanKind {
    Inner,
    Left,
    Outer,
}

/// A span join.
#[derive(Debug, Clone)]
pub(crate) struct SpanJoin {
    pub(crate) name: String,
    /// True with `IF NOT EXISTS`.
    pub(crate) if_new: bool,
    pub(crate) kind: SpanKind,
    /// The tables or views, and their columns after `PARTITIONED`.
    pub(crate) inputs: [(String, Option<String>); 2],
}

/// A table that an operator computes.
#[derive(Debug, Clone)]
pub(crate) struct Operator {
    pub(crate) name: String,
    /// True with `IF NOT EXISTS`.
    pub(crate) if_new: bool,
    pub(crate) kind: OperatorKind,
    /// The tokens of each argument.
    pub(crate) arguments: Vec<Vec<Token>>,
}

/// The operator of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OperatorKind {
    SliceMipmap,
    CounterMipmap,
    Flamegraph,
    Window,
}

/// Reads tokens one after another, without white space.
struct Cursor<'a> {
    tokens: &'a [Token],
    at: usize,
}

impl<'a> Cursor<'a> {
    fn new(tokens: &'a [Token]) -> Self {
        Self { tokens, at: 0 }
    }

    fn peek(&mut self) -> Option<&'a Token> {
        while self.tokens.get(self.at).is_some_and(Token::is_space) {
            self.at += 1;
        }
        self.tokens.get(self.at)
    }

    fn word(&mut self, word: &str) -> bool {
        let found = self.peek().is_some_and(|t| t.is_word(word));
        self.at += usize::from(found);
        found
    }

    fn words(&mut self, words: &[&str]) -> bool {
        let at = self.at;
        let found = words.iter().all(|word| self.word(word));
        if !found {
            self.at = at;
        }
        found
    }

    fn fail<T>(&mut self, expected: &str) -> Result<T, SqlError> {
        let (found, at) = match self.peek() {
            Some(token) => (format!("'{}'", token.text), token.at),
            None => ("the end".to_owned(), self.tokens.last().map_or(0, |t| t.at)),
        };
        Err(SqlError::at(
            at,
            format!("Syntax error: expected {expected}, found {found}."),
        ))
    }

    fn need(&mut self, word: &str) -> Result<(), SqlError> {
        if self.word(word) {
            Ok(())
        } else {
            self.fail(word)
        }
    }

    fn name(&mut self) -> Result<String, SqlError> {
        match self.peek().and_then(Token::name) {
            Some(name) => {
                self.at += 1;
                Ok(name)
            }
            None => self.fail("a name"),
        }
    }

    /// Reads parentheses and returns the tokens inside.
    fn parenthesized(&mut self) -> Result<&'a [Token], SqlError> {
        if !self.peek().is_some_and(|t| t.is("(")) {
            return self.fail("'('");
        }
        let Some(end) = closing(self.tokens, self.at) else {
            let at = self.tokens[self.at].at;
            return Err(SqlError::at(
                at,
                "Syntax error: this parenthesis is not closed.",
            ));
        };
        let inner = &self.tokens[self.at + 1..end];
        self.at = end + 1;
        Ok(inner)
    }

    fn body(&mut self) -> Result<Vec<Token>, SqlError> {
        self.need("AS")?;
        let rest = trim(&self.tokens[self.at.min(self.tokens.len())..]);
        if rest.is_empty() {
            self.fail("a body after AS")
        } else {
            Ok(rest.to_vec())
        }
    }
}

/// Parses `name TYPE, name TYPE(detail), …`.
fn arguments(tokens: &[Token]) -> Result<Vec<Argument>, SqlError> {
    let parts = split_commas(tokens).into_iter();
    let argument = |part: &[Token]| {
        let mut cursor = Cursor::new(part);
        let name = cursor.name()?;
        let mut kind = cursor.name()?.to_ascii_uppercase();
        // Any number of arguments.
        if text(&part[cursor.at..]).replace(' ', "") == "..." {
            kind += "...";
        }
        Ok(Argument { name, kind })
    };
    parts.map(argument).collect()
}

/// Parses one statement.
pub(crate) fn parse(tokens: &[Token]) -> Result<Statement, SqlError> {
    let mut cursor = Cursor::new(tokens);
    if cursor.words(&["INCLUDE", "PERFETTO", "MODULE"]) {
        let rest = trim(&tokens[cursor.at..]);
        let name = text(rest);
        let valid = |c: char| c.is_ascii_alphanumeric() || "_.*".contains(c);
        if name.is_empty() || !name.chars().all(valid) {
            return cursor.fail("the name of a module");
        }
        return Ok(Statement::Include(name));
    }
    if cursor.words(&["DROP", "PERFETTO", "INDEX"]) {
        return Ok(Statement::DropIndex(cursor.name()?));
    }
    if cursor.word("SELECT") {
        return legacy(cursor).unwrap_or_else(|| Ok(Statement::Sql(tokens.to_vec())));
    }
    if !cursor.word("CREATE") {
        return Ok(Statement::Sql(tokens.to_vec()));
    }
    let replace = cursor.words(&["OR", "REPLACE"]);
    if cursor.words(&["VIRTUAL", "TABLE"]) {
        let created = virtual_table(cursor).transpose();
        return created.unwrap_or_else(|| Ok(Statement::Sql(tokens.to_vec())));
    }
    if !cursor.word("PERFETTO") {
        return Ok(Statement::Sql(tokens.to_vec()));
    }
    if cursor.word("INDEX") {
        let name = cursor.name()?;
        cursor.need("ON")?;
        return Ok(Statement::Index(
            name,
            replace,
            tokens[cursor.at..].to_vec(),
        ));
    }
    if cursor.word("TABLE") {
        return Ok(Statement::Table(relation(cursor, replace)?));
    }
    if cursor.word("VIEW") {
        return Ok(Statement::View(relation(cursor, replace)?));
    }
    let is_macro = cursor.word("MACRO");
    if !is_macro && !cursor.word("FUNCTION") {
        return cursor.fail("TABLE, VIEW, FUNCTION, MACRO or INDEX");
    }
    let name = cursor.name()?;
    let args = arguments(cursor.parenthesized()?)?;
    cursor.need("RETURNS")?;
    let returns = if !is_macro && cursor.word("TABLE") {
        Returns::Table(arguments(cursor.parenthesized()?)?)
    } else {
        let kind = cursor.name()?.to_ascii_uppercase();
        if cursor.peek().is_some_and(|t| t.is("(")) {
            cursor.parenthesized()?;
        }
        Returns::Scalar(kind)
    };
    if !is_macro && cursor.words(&["DELEGATES", "TO"]) {
        return Ok(Statement::Delegate(name, args, cursor.name()?));
    }
    let definition = Definition {
        name,
        replace,
        columns: Vec::new(),
        body: cursor.body()?,
    };
    Ok(if is_macro {
        Statement::Macro(definition, args)
    } else {
        Statement::Function(definition, args, returns)
    })
}

/// Parses the rest of the definition of a table or view.
fn relation(mut cursor: Cursor<'_>, replace: bool) -> Result<Definition, SqlError> {
    let name = cursor.name()?;
    // The implementation of tables, which upstream lets queries choose.
    if cursor.word("USING") {
        cursor.name()?;
    }
    let columns = match cursor.peek() {
        Some(token) if token.is("(") => arguments(cursor.parenthesized()?)?,
        _ => Vec::new(),
    };
    let body = cursor.body()?;
    Ok(Definition {
        name,
        replace,
        columns,
        body,
    })
}

/// Parses the calls with which older queries define functions and include modules, such as `SELECT
/// create_function('f(x INT)', 'INT', 'SELECT …')`.
fn legacy(mut cursor: Cursor<'_>) -> Option<Result<Statement, SqlError>> {
    let name = cursor.name().ok()?.to_ascii_lowercase();
    let inner = cursor.parenthesized().ok()?;
    if cursor.peek().is_some() {
        return None;
    }
    let texts: Option<Vec<String>> = split_commas(inner)
        .into_iter()
        .map(|part| match part {
            [token] if token.kind == Kind::Text => token.name(),
            _ => None,
        })
        .collect();
    let modern = match (name.as_str(), texts?.as_slice()) {
        ("create_function", [prototype, returns, body]) => {
            format!("CREATE OR REPLACE PERFETTO FUNCTION {prototype} RETURNS {returns} AS {body}")
        }
        ("create_view_function", [prototype, columns, body]) => format!(
            "CREATE OR REPLACE PERFETTO FUNCTION {prototype} RETURNS TABLE({columns}) AS {body}"
        ),
        ("import", [module]) => format!("INCLUDE PERFETTO MODULE {module}"),
        ("experimental_memoize", [name]) => return Some(Ok(Statement::Memoize(name.clone()))),
        _ => return None,
    };
    let at = inner.first().map_or(0, |t| t.at);
    let parsed = tokenize(&modern).map(|mut tokens| {
        tokens.iter_mut().for_each(|token| token.at = at);
        parse(
            trim(&tokens)
                .split(|t| t.is(";"))
                .next()
                .unwrap_or_default(),
        )
    });
    Some(
        parsed
            .and_then(|parsed| parsed)
            .map_err(|error| error.or_at(at)),
    )
}

/// Parses the rest of `CREATE VIRTUAL TABLE`. `None` if it is none of the engine's operators.
fn virtual_table(mut cursor: Cursor<'_>) -> Result<Option<Statement>, SqlError> {
    let if_new = cursor.words(&["IF", "NOT", "EXISTS"]);
    let name = cursor.name()?;
    cursor.need("USING")?;
    let module = cursor.name()?.to_ascii_uppercase();
    let operator = match module.as_str() {
        "__INTRINSIC_SLICE_MIPMAP" => Some(OperatorKind::SliceMipmap),
        "__INTRINSIC_COUNTER_MIPMAP" => Some(OperatorKind::CounterMipmap),
        "__INTRINSIC_FLAMEGRAPH" => Some(OperatorKind::Flamegraph),
        "__INTRINSIC_WINDOW" => Some(OperatorKind::Window),
        _ => None,
    };
    if let Some(kind) = operator {
        let parts = split_commas(cursor.parenthesized()?).into_iter();
        return Ok(Some(Statement::Operator(Operator {
            name,
            if_new,
            kind,
            arguments: parts.map(<[_]>::to_vec).collect(),
        })));
    }
    let kind = match module.as_str() {
        "SPAN_JOIN" => SpanKind::Inner,
        "SPAN_LEFT_JOIN" => SpanKind::Left,
        "SPAN_OUTER_JOIN" => SpanKind::Outer,
        _ => return Ok(None),
    };
    let parts = split_commas(cursor.parenthesized()?);
    let [left, right] = parts.as_slice() else {
        let message = format!("A span join takes two tables, not {}.", parts.len());
        return Err(SqlError::at(
            cursor.tokens.first().map_or(0, |t| t.at),
            message,
        ));
    };
    let input = |tokens| {
        let mut cursor = Cursor::new(tokens);
        let table = cursor.name()?;
        let key = if cursor.word("PARTITIONED") {
            Some(cursor.name()?)
        } else {
            None
        };
        if cursor.peek().is_some() {
            return cursor.fail("',' or ')'");
        }
        Ok((table, key))
    };
    let inputs = [input(left)?, input(right)?];
    Ok(Some(Statement::SpanJoin(SpanJoin {
        name,
        if_new,
        kind,
        inputs,
    })))
}
