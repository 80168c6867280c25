//! Definitions: tables, views, functions, macros and span joins.

use std::collections::BTreeSet;
use std::sync::Arc;

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::compute::concat_batches;
use datafusion::arrow::datatypes::Schema;
use datafusion::catalog::TableProvider;
use datafusion::catalog::view::ViewTable;
use datafusion::datasource::MemTable;
use datafusion::logical_expr::{LogicalPlan, LogicalPlanBuilder};
use datafusion::sql::sqlparser::parser::Parser;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};
use futures::TryStreamExt;

use super::Engine;
use super::views::reads;
use crate::error::SqlError;
use crate::flamegraph::{self, FlamegraphTable};
use crate::intervals::{SpanKind, span_table};
use crate::sql::dialect::TraceDialect;
use crate::sql::lexer::{is_word, tokenize};
use crate::sql::macros::{Macro, expand};
use crate::sql::names::output_names;
use crate::sql::rewrite::rewrite;
use crate::sql::statement::{Argument, Definition, Returns, SpanInput, Statement};
use crate::sql::user::UserFunction;

/// Converts names in double quotes to texts in a body that reads no relation and so has no columns.
fn quoted_texts(body: &[TokenWithSpan]) -> Vec<TokenWithSpan> {
    let mut tokens = body.to_vec();
    if tokens.iter().any(|token| is_word(token, "FROM")) {
        return tokens;
    }
    let mut is_alias = false;
    for token in &mut tokens {
        if let Token::Word(word) = &token.token
            && word.quote_style == Some('"')
            && !is_alias
        {
            token.token = Token::SingleQuotedString(word.value.clone());
        }
        if !matches!(token.token, Token::Whitespace(_)) {
            is_alias = is_word(token, "AS");
        }
    }
    tokens
}

impl Engine {
    pub(super) fn exists(&self, name: &str) -> bool {
        self.lazy.contains_key(name) || self.context.table_exist(name).unwrap_or(false)
    }

    /// Removes the previous table or view of a name, which is an error unless `replace` is set.
    pub(super) fn claim(&mut self, name: &str, replace: bool) -> Result<(), SqlError> {
        if !self.exists(name) {
            return Ok(());
        }
        if !replace {
            return Err(SqlError::new(format!(
                "'{name}' exists already: replace it with CREATE OR REPLACE."
            )));
        }
        self.lazy.remove(name);
        self.views.remove(name);
        self.context.deregister_table(name)?;
        Ok(())
    }

    /// Registers a table, and invalidates the views that depend on its name.
    fn register(&mut self, name: String, table: Arc<dyn TableProvider>) -> Result<(), SqlError> {
        self.context.register_table(name.as_str(), table)?;
        self.outdate(&name);
        self.user_tables.insert(name);
        Ok(())
    }

    pub(super) async fn plan_definition(
        &mut self,
        d: &Definition,
    ) -> Result<LogicalPlan, SqlError> {
        let context = self.context.clone();
        let plan = self.plan(&d.body, &context).await?;
        let engine: Vec<String> = plan
            .schema()
            .fields()
            .iter()
            .map(|f| f.name().clone())
            .collect();
        let names = if d.columns.is_empty() {
            output_names(&d.body).apply(&engine)
        } else if d.columns.len() == engine.len() {
            d.columns.iter().map(|c| c.name.clone()).collect()
        } else {
            return Err(SqlError::new(format!(
                "'{}' is declared with {} columns, but its query has {}.",
                d.name,
                d.columns.len(),
                engine.len()
            )));
        };
        let mut seen = BTreeSet::new();
        let columns = plan.schema().columns();
        let projected = columns.into_iter().zip(names).map(|(column, name)| {
            let name = name.to_ascii_lowercase();
            let mut unique = name.clone();
            let mut number = 1;
            while !seen.insert(unique.clone()) {
                unique = format!("{name}:{number}");
                number += 1;
            }
            datafusion::logical_expr::Expr::Column(column).alias(unique)
        });
        let projected: Vec<_> = projected.collect();
        Ok(LogicalPlanBuilder::from(plan).project(projected)?.build()?)
    }

    pub(super) async fn define_view(&mut self, mut d: Definition) -> Result<(), SqlError> {
        // Macros are expanded now, since later definitions of them do not change the view.
        d.body = expand(&d.body, &self.macros)?;
        let reads = match self.prepare(&d.body, false).await {
            Ok(statement) => reads(&statement),
            // Planning reports errors of the definition.
            Err(_) => BTreeSet::new(),
        };
        if self.views.reach(&reads, &d.name) {
            return Err(SqlError::new(format!(
                "The view '{}' is circular: it reads itself. \
                 CREATE PERFETTO TABLE can replace a table by one computed from it.",
                d.name
            )));
        }
        self.keep_view(&d).await?;
        let name = d.name.clone();
        self.views.insert(&name, Statement::View(d), reads);
        Ok(())
    }

    async fn keep_view(&mut self, d: &Definition) -> Result<(), SqlError> {
        let plan = self.plan_definition(d).await?;
        self.claim(&d.name, d.replace)?;
        let text = crate::sql::statement::excerpt(&d.body);
        self.register(d.name.clone(), Arc::new(ViewTable::new(plan, Some(text))))
    }

    pub(super) async fn define_table(&mut self, d: Definition) -> Result<(), SqlError> {
        if self.tables_are_views {
            // The old table is read in each trace before the new one replaces it.
            return self.keep_view(&d).await;
        }
        if !d.replace && self.exists(&d.name) {
            self.claim(&d.name, false)?;
        }
        let plan = self.plan_definition(&d).await?;
        let frame = self.context.execute_logical_plan(plan).await?;
        let stream = frame.execute_stream().await?;
        let schema = stream.schema();
        let batches: Vec<RecordBatch> = stream.try_collect().await?;
        // DataFusion has to take all columns as nullable: a subquery without rows is NULL even if
        // its column is not nullable.
        let fields: Vec<_> = schema
            .fields()
            .iter()
            .map(|f| f.as_ref().clone().with_nullable(true))
            .collect();
        let schema = Arc::new(Schema::new(fields));
        let batches = batches
            .into_iter()
            .map(|batch| RecordBatch::try_new(schema.clone(), batch.columns().to_vec()))
            .collect::<Result<Vec<_>, _>>()
            .map_err(SqlError::arrow)?;
        let table = MemTable::try_new(schema, vec![batches])?;
        self.claim(&d.name, d.replace)?;
        self.register(d.name, Arc::new(table))
    }

    pub(super) fn define_macro(&mut self, d: Definition, arguments: Vec<Argument>) {
        self.macros.insert(
            d.name,
            Macro {
                arguments,
                body: d.body,
            },
        );
    }

    /// Fails if a function of this name exists that cannot be replaced.
    pub(super) fn claim_function(&self, name: &str, replace: bool) -> Result<(), SqlError> {
        if self.functions.contains_key(name) {
            if replace {
                return Ok(());
            }
            return Err(SqlError::new(format!(
                "The function '{name}' exists already: replace it with CREATE OR REPLACE."
            )));
        }
        let state = self.context.state();
        if state.scalar_functions().contains_key(name)
            || state.aggregate_functions().contains_key(name)
        {
            return Err(SqlError::new(format!(
                "'{name}' is a function of the engine and cannot be replaced."
            )));
        }
        Ok(())
    }

    pub(super) fn define_function(
        &mut self,
        d: Definition,
        arguments: Vec<Argument>,
        returns: Returns,
    ) -> Result<(), SqlError> {
        self.claim_function(&d.name, d.replace)?;
        let tokens = self.expand(&quoted_texts(&d.body))?;
        let mut parser = Parser::new(&TraceDialect).with_tokens_with_locations(tokens);
        let mut body = parser
            .parse_query()
            .map_err(|e| crate::error::parser(&e.to_string()))?;
        rewrite(&mut body, &self.functions)?;
        self.outdate(&d.name);
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

    /// Defines another name for a function of the engine.
    pub(super) fn delegate(&mut self, name: &str, target: &str) -> Result<(), SqlError> {
        if !self.context.state().scalar_functions().contains_key(target) {
            return Err(SqlError::new(format!("There is no function '{target}'.")));
        }
        self.functions.delegate(name, target);
        Ok(())
    }

    /// Defines the rows of a flamegraph, which are computed now.
    pub(super) async fn define_flamegraph(
        &mut self,
        name: String,
        source: &[TokenWithSpan],
    ) -> Result<(), SqlError> {
        if self.tables_are_views {
            return Err(SqlError::new(
                "Flamegraphs of many traces are not supported: query each trace alone.",
            ));
        }
        self.claim(&name, false)?;
        let mut query = tokenize("SELECT * FROM ")?;
        query.extend(source.iter().cloned());
        let context = self.context.clone();
        let plan = self.plan(&query, &context).await?;
        let stream = context
            .execute_logical_plan(plan)
            .await?
            .execute_stream()
            .await?;
        let schema = stream.schema();
        let batches: Vec<RecordBatch> = stream.try_collect().await?;
        let rows = concat_batches(&schema, &batches).map_err(SqlError::arrow)?;
        let table = FlamegraphTable::new(flamegraph::read(&rows)?);
        self.register(name, Arc::new(table))
    }

    pub(super) async fn define_span_join(
        &mut self,
        name: String,
        kind: &str,
        inputs: [SpanInput; 2],
    ) -> Result<(), SqlError> {
        let operator = match kind {
            "SPAN_LEFT_JOIN" => SpanKind::Left,
            "SPAN_OUTER_JOIN" => SpanKind::Outer,
            _ => SpanKind::Inner,
        };
        self.claim(&name, false)?;
        let mut plans = Vec::new();
        for input in &inputs {
            self.columns(&input.table).await?;
            let frame = self.context.table(input.table.as_str()).await?;
            plans.push(frame.into_unoptimized_plan());
        }
        let reads = inputs.iter().map(|input| input.table.clone()).collect();
        let statement = Statement::SpanJoin {
            name: name.clone(),
            kind: kind.to_owned(),
            inputs: inputs.clone(),
        };
        let [left, right] = inputs;
        let table = span_table(operator, plans, [left.partition, right.partition])?;
        self.register(name.clone(), table)?;
        self.views.insert(&name, statement, reads);
        Ok(())
    }
}
