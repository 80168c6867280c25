//! The execution of standard SQL statements.

use datafusion::logical_expr::LogicalPlan;
use datafusion::prelude::SessionContext;
use datafusion::sql::parser::Statement as EngineStatement;
use datafusion::sql::sqlparser::ast::{self, ObjectType};
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

use super::keys::row_key;
use super::{Engine, Module, Rows};
use crate::error::SqlError;
use crate::sql::lexer::{solid, start_of, text};
use crate::sql::macros::expand;
use crate::sql::names::{OutputNames, output_names};
use crate::sql::rewrite::affinity;
use crate::sql::statement::{Argument, Definition};

impl Engine {
    pub(super) async fn run_sql(
        &mut self,
        tokens: &[TokenWithSpan],
    ) -> Result<Option<Rows>, SqlError> {
        let tokens = &expand(tokens, &self.macros)?[..];
        let first = solid(tokens)
            .first()
            .map(|t| t.token.to_string().to_ascii_uppercase());
        match first.as_deref().unwrap_or_default() {
            "SELECT" | "WITH" | "VALUES" | "EXPLAIN" => {
                let context = self.query_context();
                let each;
                let tokens = if self.queries_each_trace && self.fleet.is_some() {
                    each = self.each_trace(tokens).await?;
                    &each
                } else {
                    tokens
                };
                let plan = self.plan(tokens, &context).await?;
                let names = output_names(tokens);
                return Ok(Some(execute(&context, plan, &names).await?));
            }
            "CREATE" | "DROP" | "INSERT" => {}
            // Tables are not stored on disk, so these statements have no effect.
            "BEGIN" | "COMMIT" | "END" | "ANALYZE" | "VACUUM" => return Ok(None),
            word => {
                return Err(SqlError::at(
                    start_of(tokens),
                    format!(
                        "{word} is not supported: tables of a trace are read-only. \
                         Use SELECT, WITH, VALUES, EXPLAIN, CREATE, DROP, INSERT or INCLUDE."
                    ),
                ));
            }
        }
        match self.prepare(tokens, false).await? {
            ast::Statement::CreateView(view) => {
                let body = body_after_as(tokens)?;
                let columns = view
                    .columns
                    .iter()
                    .map(|c| argument(&c.name.value))
                    .collect();
                let name = view.name.to_string().to_ascii_lowercase();
                if view.if_not_exists && self.exists(&name) {
                    return Ok(None);
                }
                let replace = view.or_replace;
                self.define_view(Definition {
                    name,
                    replace,
                    columns,
                    body,
                })
                .await?;
            }
            ast::Statement::CreateTable(table) if table.query.is_some() => {
                let body = body_after_as(tokens)?;
                let name = table.name.to_string().to_ascii_lowercase();
                if table.if_not_exists && self.exists(&name) {
                    return Ok(None);
                }
                let replace = table.or_replace;
                let columns = Vec::new();
                self.define_table(Definition {
                    name,
                    replace,
                    columns,
                    body,
                })
                .await?;
            }
            ast::Statement::CreateTable(mut table) => {
                let key = row_key(&table);
                plain_columns(&mut table);
                let name = table.name.to_string().to_ascii_lowercase();
                self.row_keys.remove(&name);
                self.row_keys.extend(key.map(|key| (name.clone(), key)));
                self.user_tables.insert(name);
                let statement =
                    EngineStatement::Statement(Box::new(ast::Statement::CreateTable(table)));
                self.execute_plan(statement).await?;
            }
            ast::Statement::Insert(_) => {
                let context = self.context.clone();
                let tokens = self.number_rows(tokens).await?;
                let plan = self.plan(&tokens, &context).await?;
                context.execute_logical_plan(plan).await?.collect().await?;
            }
            ast::Statement::CreateIndex(_) => {}
            ast::Statement::Drop {
                object_type: ObjectType::Table | ObjectType::View,
                names,
                if_exists,
                ..
            } => {
                for name in names {
                    let name = name.to_string().to_ascii_lowercase();
                    if !self.user_tables.remove(&name) {
                        if if_exists {
                            continue;
                        }
                        return Err(SqlError::at(
                            start_of(tokens),
                            format!(
                                "'{name}' was not created in this session and cannot be dropped."
                            ),
                        ));
                    }
                    self.row_keys.remove(&name);
                    self.claim(&name, true)?;
                    self.outdate(&name);
                }
            }
            ast::Statement::Drop {
                object_type: ObjectType::Index,
                ..
            } => {}
            other => {
                let word = other.to_string();
                let word = word.split('(').next().unwrap_or_default().trim();
                return Err(SqlError::at(
                    start_of(tokens),
                    format!("This statement is not supported: {word}."),
                ));
            }
        }
        Ok(None)
    }

    pub(super) async fn execute_plan(
        &mut self,
        statement: EngineStatement,
    ) -> Result<(), SqlError> {
        let plan = self.context.state().statement_to_plan(statement).await?;
        let frame = self.context.execute_logical_plan(plan).await?;
        frame.collect().await?;
        Ok(())
    }

    /// Returns the context that plans queries.
    fn query_context(&self) -> SessionContext {
        match &self.fleet {
            Some(fleet) => fleet.context().clone(),
            None => self.context.clone(),
        }
    }

    /// Returns the text of a statement that other processes have to repeat, since it is not a query
    /// but a definition for later statements.
    pub(super) fn definition(&self, tokens: &[TokenWithSpan]) -> Option<String> {
        self.fleet.as_ref()?;
        // Other processes repeat the statement that includes the module instead.
        if self.modules.values().any(|m| matches!(m, Module::Running)) {
            return None;
        }
        (!is_query(tokens)).then(|| text(tokens))
    }
}

/// Returns true if a statement returns rows.
fn is_query(tokens: &[TokenWithSpan]) -> bool {
    solid(tokens).first().is_some_and(|token| {
        let word = token.token.to_string().to_ascii_uppercase();
        matches!(word.as_str(), "SELECT" | "WITH" | "VALUES" | "EXPLAIN")
    })
}

async fn execute(
    context: &SessionContext,
    plan: LogicalPlan,
    names: &OutputNames,
) -> Result<Rows, SqlError> {
    let frame = context.execute_logical_plan(plan).await?;
    let stream = frame.execute_stream().await?;
    let schema = stream.schema();
    let engine: Vec<String> = schema.fields().iter().map(|f| f.name().clone()).collect();
    Ok(Rows {
        names: names.apply(&engine),
        schema,
        stream,
    })
}

fn argument(name: &str) -> Argument {
    Argument {
        name: name.to_ascii_lowercase(),
        kind: "ANY".to_owned(),
    }
}

/// Removes keys and options from a table definition of SQLite, and reduces its types to three.
fn plain_columns(table: &mut ast::CreateTable) {
    table.without_rowid = false;
    table.constraints.clear();
    for column in &mut table.columns {
        column.options.clear();
        let name = column.data_type.to_string();
        column.data_type = match affinity(&name) {
            Some("__cast_int") => ast::DataType::BigInt(None),
            Some("__cast_text") | None => ast::DataType::Text,
            _ if name.eq_ignore_ascii_case("string") => ast::DataType::Text,
            _ => ast::DataType::Double(ast::ExactNumberInfo::None),
        };
    }
}

/// Returns the tokens after the first `AS` outside of parentheses.
fn body_after_as(tokens: &[TokenWithSpan]) -> Result<Vec<TokenWithSpan>, SqlError> {
    let mut depth = 0usize;
    for (index, token) in tokens.iter().enumerate() {
        match &token.token {
            Token::LParen => depth += 1,
            Token::RParen => depth = depth.saturating_sub(1),
            Token::Word(_) if depth == 0 && crate::sql::lexer::is_word(token, "AS") => {
                return Ok(tokens[index + 1..].to_vec());
            }
            _ => {}
        }
    }
    Err(SqlError::at(
        start_of(tokens),
        "Syntax error: AS is missing.",
    ))
}
