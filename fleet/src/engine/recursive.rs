//! Definitions of functions that call themselves.

use std::ops::ControlFlow;
use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Field, Schema};
use datafusion::datasource::MemTable;
use datafusion::logical_expr::LogicalPlan;
use datafusion::sql::sqlparser::ast::{Expr, Query};
use datafusion::sql::sqlparser::parser::Parser;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

use super::Engine;
use crate::error::SqlError;
use crate::functions::Recursive;
use crate::sql::dialect::TraceDialect;
use crate::sql::inspect::calls;
use crate::sql::lexer::{is_word, tokenize, word_token};
use crate::sql::statement::{Argument, Definition, Returns};
use crate::sql::user::UserFunction;
use crate::sql::walk;

/// The table with the arguments, for which the body is planned.
const ARGUMENTS: &str = "__arguments";

/// Returns the type of an argument or a result with this name.
fn data_type(function: &str, name: &str) -> Result<DataType, SqlError> {
    Ok(match name.to_ascii_uppercase().as_str() {
        "DOUBLE" | "FLOAT" => DataType::Float64,
        "STRING" => DataType::Utf8,
        "ANY" | "BYTES" | "PROTO" => {
            return Err(SqlError::new(format!(
                "The function '{function}' calls itself, so its arguments and its result must be \
                 numbers or texts, not {name}."
            )));
        }
        _ => DataType::Int64,
    })
}

/// Returns true if the body contains a query.
fn has_query(function: &UserFunction) -> bool {
    walk::expressions(&*function.body, |expr| match expr {
        Expr::Subquery(_) | Expr::Exists { .. } | Expr::InSubquery { .. } => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    })
    .is_break()
}

fn parse(tokens: Vec<TokenWithSpan>) -> Result<Box<Query>, SqlError> {
    let mut parser = Parser::new(&TraceDialect).with_tokens_with_locations(tokens);
    parser
        .parse_query()
        .map_err(|e| crate::error::parser(&e.to_string()))
}

impl Engine {
    /// Defines a function, which may call itself.
    pub(super) async fn define_any_function(
        &mut self,
        d: Definition,
        arguments: Vec<Argument>,
        returns: Returns,
    ) -> Result<(), SqlError> {
        let body = parse(self.expand(&d.body)?)?;
        if calls(&body, &d.name) {
            self.define_recursive(d, arguments, returns, body).await
        } else {
            self.define_function(d, arguments, returns)
        }
    }

    /// Defines a function that calls itself. Its body is an expression of its arguments.
    async fn define_recursive(
        &mut self,
        d: Definition,
        arguments: Vec<Argument>,
        returns: Returns,
        body: Box<Query>,
    ) -> Result<(), SqlError> {
        let refused = SqlError::new(format!(
            "The function '{}' calls itself, which is only supported in an expression without \
             FROM: use WITH RECURSIVE.",
            d.name
        ));
        let Returns::Scalar(kind) = &returns else {
            return Err(refused);
        };
        if self.tables_are_views {
            return Err(refused);
        }
        self.claim_function(&d.name, d.replace)?;
        let written = UserFunction {
            arguments: arguments.clone(),
            returns: returns.clone(),
            body,
        };
        if written.expression().is_none() || has_query(&written) {
            return Err(refused);
        }
        let inner = format!("__recursive_{}", d.name);
        let fields = arguments
            .iter()
            .map(|a| Ok(Field::new(&a.name, data_type(&d.name, &a.kind)?, true)))
            .collect::<Result<Vec<_>, SqlError>>()?;
        let schema = Arc::new(Schema::new(fields));
        let function = Recursive::new(inner.clone(), schema.clone(), data_type(&d.name, kind)?);
        self.context.register_udf(function.inner());
        let planned = self.plan_recursive(&d, &inner, schema).await;
        match planned {
            Ok(body) => function.define(body),
            Err(error) => {
                self.context.deregister_udf(&inner);
                return Err(error);
            }
        }
        self.context.register_udf(function.outer());
        let values: Vec<String> = arguments.iter().map(|a| format!("${}", a.name)).collect();
        let call = format!("SELECT {inner}({})", values.join(", "));
        self.outdate(&d.name);
        let body = parse(tokenize(&call)?)?;
        self.functions.insert(
            d.name,
            UserFunction {
                arguments,
                returns,
                body,
            },
        );
        Ok(())
    }

    /// Plans the body of a function for a table with its arguments.
    async fn plan_recursive(
        &mut self,
        d: &Definition,
        inner: &str,
        schema: Arc<Schema>,
    ) -> Result<Arc<dyn datafusion::physical_expr::PhysicalExpr>, SqlError> {
        let mut tokens = d.body.clone();
        for index in 0..tokens.len() {
            let called = tokens[index + 1..]
                .iter()
                .find(|t| !matches!(t.token, Token::Whitespace(_)))
                .is_some_and(|t| t.token == Token::LParen);
            let span = tokens[index].span;
            if called && is_word(&tokens[index], &d.name) {
                tokens[index] = word_token(inner, span);
            } else if let Token::Placeholder(name) = &tokens[index].token {
                let column = name.trim_start_matches('$').to_ascii_lowercase();
                tokens[index].token = Token::make_word(&column, Some('"'));
            }
        }
        tokens.extend(tokenize(&format!(" FROM {ARGUMENTS}"))?);
        let table = MemTable::try_new(schema, vec![Vec::new()])?;
        self.context.register_table(ARGUMENTS, Arc::new(table))?;
        let context = self.context.clone();
        let plan = self.plan(&tokens, &context).await;
        self.context.deregister_table(ARGUMENTS)?;
        let state = context.state();
        let plan = state.analyzer().execute_and_check(
            plan?,
            &state.config_options().clone(),
            |_, _| {},
        )?;
        let LogicalPlan::Projection(projection) = &plan else {
            return Err(SqlError::new(format!(
                "The body of the function '{}' is not an expression.",
                d.name
            )));
        };
        let body = projection.expr[0].clone().unalias();
        Ok(state.create_physical_expr(body, projection.input.schema())?)
    }
}
