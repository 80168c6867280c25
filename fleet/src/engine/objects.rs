//! `__intrinsic_stdlib_objects`: the modules, and the tables, views, functions and macros that they
//! define.

use std::collections::BTreeSet;
use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use datafusion::datasource::MemTable;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan, Whitespace};
use serde_json::json;

use super::Engine;
use crate::error::SqlError;
use crate::sql::lexer::{split, tokenize};
use crate::sql::statement::{Argument, Definition, Returns, Statement, parse};

/// The name of the table.
const NAME: &str = "__intrinsic_stdlib_objects";

/// A module, or an object that it defines.
#[derive(Debug, Default)]
struct Object {
    module: String,
    name: String,
    kind: &'static str,
    description: String,
    returns: String,
    arguments: Vec<Argument>,
    columns: Vec<Argument>,
}

impl Object {
    /// Returns the name of the module's package, the part before the first dot.
    fn package(&self) -> &str {
        self.module.split('.').next().unwrap_or_default()
    }

    fn qualified_name(&self) -> String {
        if self.kind == "MODULE" {
            self.module.clone()
        } else {
            format!("{}.{}", self.module, self.name)
        }
    }

    fn is_public(&self) -> bool {
        !self.name.starts_with('_')
    }

    /// Returns all facts as lines for searches.
    fn summary(&self) -> String {
        let is_module = self.kind == "MODULE";
        let mut lines = vec![
            format!("Package: {}", self.package()),
            format!("Module: {}", self.module),
        ];
        let mut words = vec![self.package(), self.module.as_str()];
        if !is_module {
            lines.push(format!("Name: {}", self.name));
            words.push(&self.name);
        }
        lines.push(format!("Qualified name: {}", self.qualified_name()));
        let words = words.join(" ").replace(['.', '_'], " ");
        lines.push(format!("Search aliases: {words}"));
        let scope = if self.is_public() {
            "public"
        } else {
            "internal"
        };
        lines.push(format!("Kind: {scope} {}", self.kind));
        if !self.description.is_empty() {
            lines.push(format!("Description: {}", self.description));
        }
        let list = |lines: &mut Vec<String>, title: &str, members: &[Argument]| {
            if !members.is_empty() {
                lines.push(format!("{title}:"));
                lines.extend(members.iter().map(|m| format!("- {} ({})", m.name, m.kind)));
            }
        };
        list(&mut lines, "Arguments", &self.arguments);
        if !self.returns.is_empty() {
            lines.push(format!("Returns: {}", self.returns));
        }
        list(&mut lines, "Columns", &self.columns);
        lines.join("\n")
    }
}

/// Returns the comment directly before a statement.
fn comment(tokens: &[TokenWithSpan]) -> String {
    let mut lines: Vec<&str> = Vec::new();
    let mut breaks = 0;
    for token in tokens {
        match &token.token {
            Token::Whitespace(Whitespace::SingleLineComment { comment, .. }) => {
                lines.push(comment.trim());
                // The comment ends with its line.
                breaks = 1;
            }
            Token::Whitespace(Whitespace::Newline) => {
                breaks += 1;
                // An empty line separates a comment from the statement.
                if breaks > 1 {
                    lines.clear();
                }
            }
            Token::Whitespace(_) => {}
            _ => break,
        }
    }
    lines.join(" ")
}

/// Returns the object that a statement of a module defines.
fn object(module: &str, tokens: Vec<TokenWithSpan>) -> Option<Object> {
    let description = comment(&tokens);
    let named = |kind, definition: Definition| Object {
        module: module.to_owned(),
        name: definition.name,
        kind,
        description,
        columns: definition.columns,
        ..Object::default()
    };
    Some(match parse(tokens).ok()? {
        Statement::Table(definition) => named("TABLE", definition),
        Statement::View(definition) => named("VIEW", definition),
        Statement::Function {
            definition,
            arguments,
            returns,
        } => {
            let (kind, returns, columns) = match returns {
                Returns::Scalar(kind) => ("FUNCTION", kind, Vec::new()),
                Returns::Table(columns) => ("TABLE_FUNCTION", "TABLE".to_owned(), columns),
            };
            Object {
                arguments,
                returns,
                columns,
                ..named(kind, definition)
            }
        }
        Statement::Macro {
            definition,
            arguments,
            returns,
        } => Object {
            arguments,
            returns,
            ..named("MACRO", definition)
        },
        _ => return None,
    })
}

/// Returns members as a JSON array.
fn members(list: &[Argument]) -> String {
    let member = |m: &Argument| json!({"name": m.name, "type": m.kind, "description": ""});
    serde_json::Value::from(list.iter().map(member).collect::<Vec<_>>()).to_string()
}

/// Returns the rows of the table.
fn rows(objects: &[Object]) -> Result<RecordBatch, SqlError> {
    let texts = |value: &dyn Fn(&Object) -> String| -> ArrayRef {
        Arc::new(StringArray::from_iter_values(objects.iter().map(value)))
    };
    let exposed = objects.iter().map(|o| i64::from(o.is_public()));
    let ids: ArrayRef = Arc::new(Int64Array::from_iter_values(0..objects.len() as i64));
    let exposed: ArrayRef = Arc::new(Int64Array::from_iter_values(exposed));
    let short = |o: &Object| o.description.chars().take(160).collect::<String>();
    RecordBatch::try_from_iter([
        ("id", ids),
        ("package", texts(&|o| o.package().to_owned())),
        ("module", texts(&|o| o.module.clone())),
        ("name", texts(&|o| o.name.clone())),
        ("qualified_name", texts(&Object::qualified_name)),
        ("object_type", texts(&|o| o.kind.to_owned())),
        ("exposed", exposed),
        ("short_description", texts(&short)),
        ("summary", texts(&Object::summary)),
        ("description", texts(&|o| o.description.clone())),
        ("return_type", texts(&|o| o.returns.clone())),
        ("return_description", texts(&|_| String::new())),
        ("args", texts(&|o| members(&o.arguments))),
        ("cols", texts(&|o| members(&o.columns))),
    ])
    .map_err(SqlError::arrow)
}

impl Engine {
    /// Registers the table of the modules' objects if a query names it. Modules may have been added
    /// since it was last named.
    pub(super) fn ensure_objects(&self, names: &BTreeSet<String>) -> Result<(), SqlError> {
        if !names.contains(NAME) {
            return Ok(());
        }
        let mut objects = Vec::new();
        for (module, sql) in &self.packages {
            objects.push(Object {
                module: module.clone(),
                name: module.clone(),
                kind: "MODULE",
                ..Object::default()
            });
            // A module of a user may have errors, which including it reports.
            let statements = tokenize(sql).map(split).unwrap_or_default();
            objects.extend(statements.into_iter().filter_map(|s| object(module, s)));
        }
        let batch = rows(&objects)?;
        let table = MemTable::try_new(batch.schema(), vec![vec![batch]])?;
        self.context.deregister_table(NAME)?;
        self.context.register_table(NAME, Arc::new(table))?;
        Ok(())
    }
}
