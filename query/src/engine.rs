//! A session: what was defined, and the running of statements.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::{Schema, SchemaRef};
use datafusion::catalog::view::ViewTable;
use datafusion::datasource::MemTable;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::execution::memory_pool::{FairSpillPool, TrackConsumersPool};
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::execution::session_state::SessionStateBuilder;
use datafusion::logical_expr::{LogicalPlan, LogicalPlanBuilder, col};
use datafusion::prelude::{SessionConfig, SessionContext};
use datafusion::sql::parser::Statement as EngineStatement;
use datafusion::sql::sqlparser::ast::{self, ObjectType};
use datafusion::sql::sqlparser::parser::Parser;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};
use futures::{StreamExt, TryStreamExt};

use crate::error::{Missing, SqlError, nearest};
use crate::functions;
use crate::intervals::{IntervalPlanner, SpanKind, span_table};
use crate::planner::SqlitePlanner;
use crate::sql::dialect::TraceDialect;
use crate::sql::lexer::{solid, split, start_of, tokenize};
use crate::sql::macros::{Macro, expand};
use crate::sql::names::{OutputNames, output_names};
use crate::sql::rewrite::{Functions, UserFunction, relations, rename_beside_stars, rewrite};
use crate::sql::statement::{Argument, Definition, Returns, SpanInput, Statement, parse};
use crate::stdlib;

/// Limits of a session.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Bytes that queries may use before they spill or fail; 0 for no limit.
    pub memory_limit: u64,
    /// Threads of a query; 0 for one per processor.
    pub threads: usize,
}

/// Rows of a statement.
pub struct Rows {
    /// The names of the columns as people wrote them.
    pub names: Vec<String>,
    /// The types of the columns.
    pub schema: SchemaRef,
    /// The rows.
    pub stream: SendableRecordBatchStream,
}

impl std::fmt::Debug for Rows {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Rows")
            .field("names", &self.names)
            .finish_non_exhaustive()
    }
}

impl Rows {
    /// Reads all rows.
    pub async fn collect(self) -> Result<Vec<RecordBatch>, SqlError> {
        Ok(self.stream.try_collect().await?)
    }
}

/// Tables of a trace and its clocks: all that the engine wants to know of a trace.
pub trait Trace: Send + Sync {
    /// Adds the tables to the session.
    fn register(&self, context: &SessionContext) -> Result<(), SqlError>;
    /// Returns the readings of the clocks.
    fn clocks(&self) -> functions::Clocks;
}

/// A session over one trace.
pub struct Engine {
    context: SessionContext,
    macros: HashMap<String, Macro>,
    functions: Functions,
    /// Definitions that are made when a query first names them.
    lazy: BTreeMap<String, Statement>,
    modules: HashMap<String, Module>,
    packages: BTreeMap<String, String>,
    user_tables: BTreeSet<String>,
}

impl std::fmt::Debug for Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Engine").finish_non_exhaustive()
    }
}

/// A module on its way in.
#[derive(Clone)]
enum Module {
    Running,
    Done,
    Failed(String),
}

impl Engine {
    /// Returns a session over a trace, with the prelude.
    pub fn new(options: &Options, trace: Option<&dyn Trace>) -> Result<Self, SqlError> {
        let mut config = SessionConfig::new().with_information_schema(false);
        if options.threads > 0 {
            config = config.with_target_partitions(options.threads);
        }
        config.options_mut().sql_parser.default_null_ordering = "nulls_min".to_owned();
        let mut runtime = RuntimeEnvBuilder::new();
        if options.memory_limit > 0 {
            let limit = usize::try_from(options.memory_limit).unwrap_or(usize::MAX);
            let consumers = std::num::NonZeroUsize::MIN;
            let pool = TrackConsumersPool::new(FairSpillPool::new(limit), consumers);
            runtime = runtime.with_memory_pool(Arc::new(pool));
        }
        let functions = functions::all();
        let state = SessionStateBuilder::new_with_default_features()
            .with_config(config)
            .with_runtime_env(Arc::new(runtime.build()?))
            .build();
        let mut planners = state.expr_planners().to_vec();
        planners.insert(0, Arc::new(SqlitePlanner::new(&functions)));
        let state = SessionStateBuilder::new_from_existing(state)
            .with_expr_planners(planners)
            .with_relation_planners(vec![Arc::new(IntervalPlanner)])
            .build();
        let context = SessionContext::new_with_state(state);
        for function in functions {
            context.register_udf(function);
        }
        let clocks = trace.map(|t| t.clocks()).unwrap_or_default();
        for function in clocks.functions() {
            context.register_udf(function.udf());
        }
        if let Some(trace) = trace {
            trace.register(&context)?;
        }
        let mut engine = Self {
            context,
            macros: HashMap::new(),
            functions: Functions::new(),
            lazy: BTreeMap::new(),
            modules: HashMap::new(),
            packages: stdlib::modules(),
            user_tables: BTreeSet::new(),
        };
        engine.load_prelude()?;
        Ok(engine)
    }

    fn load_prelude(&mut self) -> Result<(), SqlError> {
        for text in stdlib::PRELUDE {
            for tokens in split(tokenize(text)?) {
                match parse(tokens)? {
                    Statement::View(d) => {
                        self.lazy.insert(d.name.clone(), Statement::View(d));
                    }
                    Statement::Function {
                        definition,
                        arguments,
                        returns,
                    } => {
                        self.define_function(definition, arguments, returns)?;
                    }
                    Statement::Macro {
                        definition,
                        arguments,
                    } => {
                        self.define_macro(definition, arguments);
                    }
                    other => {
                        return Err(SqlError::new(format!("the prelude cannot hold {other:?}")));
                    }
                }
            }
        }
        Ok(())
    }

    /// Returns the session of the engine below.
    pub fn context(&self) -> &SessionContext {
        &self.context
    }

    /// Adds modules of a package. Existing ones are replaced only if `replace` is set.
    pub fn add_module(&mut self, name: &str, sql: &str, replace: bool) -> Result<(), SqlError> {
        if !replace && self.packages.contains_key(name) {
            return Err(SqlError::new(format!(
                "The module '{name}' exists already."
            )));
        }
        self.packages.insert(name.to_owned(), sql.to_owned());
        Ok(())
    }

    /// Returns the names of all tables and views that queries may name.
    pub fn table_names(&self) -> Vec<String> {
        let mut names: BTreeSet<String> = self.lazy.keys().cloned().collect();
        if let Some(schema) = self
            .context
            .catalog("datafusion")
            .and_then(|catalog| catalog.schema("public"))
        {
            names.extend(schema.table_names());
        }
        names.retain(|name| !name.starts_with("__"));
        names.into_iter().collect()
    }

    /// Returns the names of all modules.
    pub fn module_names(&self) -> impl Iterator<Item = &str> {
        self.packages.keys().map(String::as_str)
    }

    /// Returns the columns of a table or view.
    pub async fn columns(&mut self, table: &str) -> Result<SchemaRef, SqlError> {
        let table = table.to_ascii_lowercase();
        Box::pin(self.ensure(&BTreeSet::from([table.clone()]))).await?;
        match self.context.table_provider(table.as_str()).await {
            Ok(provider) => Ok(provider.schema()),
            Err(_) => {
                let names = self.table_names();
                let mut message = format!("There is no table or view '{table}'.");
                if let Some(near) = nearest(&table, names.iter().map(String::as_str)) {
                    message += &format!(" Did you mean '{near}'?");
                }
                Err(SqlError::new(message))
            }
        }
    }

    /// Splits a text into statements.
    pub fn statements(sql: &str) -> Result<Vec<Vec<TokenWithSpan>>, SqlError> {
        let statements = split(tokenize(sql)?);
        if statements.is_empty() {
            return Err(SqlError::new("No valid SQL to run"));
        }
        Ok(statements)
    }

    /// Runs a text, and returns the rows of the last statement if it has any.
    pub async fn query(&mut self, sql: &str) -> Result<Option<Rows>, SqlError> {
        let mut last = None;
        for statement in Self::statements(sql)? {
            if let Some(rows) = last.replace(None).flatten() {
                drain(rows).await?;
            }
            last = Some(self.run(statement).await?);
        }
        Ok(last.flatten())
    }

    /// Runs one statement.
    pub async fn run(&mut self, tokens: Vec<TokenWithSpan>) -> Result<Option<Rows>, SqlError> {
        let place = start_of(&tokens);
        let result = match parse(tokens)? {
            Statement::Include(name) => self.include(&name).await.map(|()| None),
            Statement::Table(d) => self.define_table(d).await.map(|()| None),
            Statement::View(d) => self.define_view(d).await.map(|()| None),
            Statement::Function {
                definition,
                arguments,
                returns,
            } => self
                .define_function(definition, arguments, returns)
                .map(|()| None),
            Statement::Macro {
                definition,
                arguments,
            } => {
                self.define_macro(definition, arguments);
                Ok(None)
            }
            Statement::Index => Ok(None),
            Statement::SpanJoin { name, kind, inputs } => self
                .define_span_join(name, &kind, inputs)
                .await
                .map(|()| None),
            Statement::Sql(tokens) => self.run_sql(&tokens).await,
        };
        result.map_err(|mut error| {
            if error.location.is_none() && place.line > 0 {
                error.location = Some((place.line, place.column));
            }
            error
        })
    }

    /// Makes the lazy definitions among the names.
    async fn ensure(&mut self, names: &BTreeSet<String>) -> Result<(), SqlError> {
        for name in names {
            if let Some(Statement::View(definition)) = self.lazy.remove(name) {
                Box::pin(self.define_view(definition))
                    .await
                    .map_err(|error| {
                        SqlError::new(format!("The view '{name}' cannot be made: {error}"))
                    })?;
                self.user_tables.remove(name);
            }
        }
        Ok(())
    }

    /// Parses, rewrites and makes what the statement names.
    async fn prepare(
        &mut self,
        tokens: &[TokenWithSpan],
        stars: bool,
    ) -> Result<ast::Statement, SqlError> {
        let tokens = normalize(expand(tokens, &self.macros)?);
        let mut parser = Parser::new(&TraceDialect).with_tokens_with_locations(tokens);
        let parsed = |error: datafusion::sql::sqlparser::parser::ParserError| {
            crate::error::parser(&error.to_string())
        };
        let mut statement = parser.parse_statement().map_err(parsed)?;
        let rest = parser.peek_token();
        if rest.token != Token::EOF {
            let message = format!("Syntax error: did not expect '{}' here.", rest.token);
            return Err(SqlError::at(rest.span.start, message));
        }
        if stars {
            rename_beside_stars(&mut statement);
        }
        rewrite(&mut statement, &self.functions)?;
        let names = relations(&statement).into_iter().collect();
        Box::pin(self.ensure(&names)).await?;
        Ok(statement)
    }

    /// Plans a query. A quoted name that is no column is a text, as in SQLite.
    async fn plan(&mut self, tokens: &[TokenWithSpan]) -> Result<LogicalPlan, SqlError> {
        let mut tokens = tokens.to_vec();
        let mut stars = false;
        loop {
            let statement = self
                .prepare(&tokens, stars)
                .await
                .map_err(|e| self.locate(e, &tokens))?;
            let statement = EngineStatement::Statement(Box::new(statement));
            let planned = self.context.state().statement_to_plan(statement).await;
            let error: SqlError = match planned {
                Ok(plan) => return Ok(plan),
                Err(error) => error.into(),
            };
            if !stars
                && error
                    .message
                    .starts_with("Projections require unique expression names")
            {
                stars = true;
                continue;
            }
            let Some(Missing::Column(name, _)) = &error.missing else {
                return Err(self.locate(error, &tokens));
            };
            let mut replaced = false;
            for token in &mut tokens {
                if let Token::Word(word) = &token.token
                    && word.quote_style == Some('"')
                    && word.value.eq_ignore_ascii_case(name)
                {
                    token.token = Token::SingleQuotedString(word.value.clone());
                    replaced = true;
                }
            }
            if !replaced {
                return Err(self.locate(error, &tokens));
            }
        }
    }

    /// Adds the place and the nearest name to an error.
    fn locate(&self, mut error: SqlError, tokens: &[TokenWithSpan]) -> SqlError {
        let Some(missing) = error.missing.take() else {
            return error;
        };
        let (name, near) = match &missing {
            Missing::Column(name, valid) => (
                name,
                nearest(name, valid.iter().map(String::as_str)).map(str::to_owned),
            ),
            Missing::Table(name) => {
                let names = self.table_names();
                (
                    name,
                    nearest(name, names.iter().map(String::as_str)).map(str::to_owned),
                )
            }
            Missing::Function(name) => {
                let state = self.context.state();
                let names = state
                    .scalar_functions()
                    .keys()
                    .chain(state.aggregate_functions().keys())
                    .chain(state.window_functions().keys())
                    .chain(self.functions.keys())
                    .filter(|name| !name.starts_with("__"));
                (
                    name,
                    nearest(name, names.map(String::as_str)).map(str::to_owned),
                )
            }
        };
        if let Some(near) = near {
            error.message += &format!(" Did you mean '{near}'?");
        } else if let Missing::Column(_, valid) = &missing
            && !valid.is_empty()
            && valid.len() <= 24
        {
            error.message += &format!(" The columns are {}.", valid.join(", "));
        }
        if error.location.is_none() {
            error.location = tokens
                .iter()
                .filter(|t| t.span.start.line > 0)
                .find(|t| {
                    matches!(&t.token, Token::Word(word) if word.value.eq_ignore_ascii_case(name))
                })
                .map(|t| (t.span.start.line, t.span.start.column));
        }
        error
    }

    async fn run_sql(&mut self, tokens: &[TokenWithSpan]) -> Result<Option<Rows>, SqlError> {
        let first = solid(tokens)
            .first()
            .map(|t| t.token.to_string().to_ascii_uppercase());
        match first.as_deref().unwrap_or_default() {
            "SELECT" | "WITH" | "VALUES" | "EXPLAIN" => {
                let plan = self.plan(tokens).await?;
                return Ok(Some(self.execute(plan, &output_names(tokens)).await?));
            }
            "CREATE" | "DROP" | "INSERT" => {}
            // Nothing is ever written to disk, so these have nothing to do.
            "BEGIN" | "COMMIT" | "END" | "ANALYZE" | "VACUUM" => return Ok(None),
            word => {
                return Err(SqlError::at(
                    start_of(tokens),
                    format!(
                        "{word} is not supported: tables of a trace are only read. \
                         SELECT, WITH, VALUES, EXPLAIN, CREATE, DROP, INSERT and INCLUDE are."
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
            ast::Statement::CreateTable(table) => {
                let name = table.name.to_string().to_ascii_lowercase();
                self.user_tables.insert(name);
                let statement =
                    EngineStatement::Statement(Box::new(ast::Statement::CreateTable(table)));
                self.execute_plan(statement).await?;
            }
            statement @ ast::Statement::Insert(_) => {
                self.execute_plan(EngineStatement::Statement(Box::new(statement)))
                    .await?;
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
                            format!("'{name}' was not created here and cannot be dropped."),
                        ));
                    }
                    self.context.deregister_table(name.as_str())?;
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

    async fn execute_plan(&mut self, statement: EngineStatement) -> Result<(), SqlError> {
        let plan = self.context.state().statement_to_plan(statement).await?;
        let frame = self.context.execute_logical_plan(plan).await?;
        frame.collect().await?;
        Ok(())
    }

    async fn execute(&self, plan: LogicalPlan, names: &OutputNames) -> Result<Rows, SqlError> {
        let frame = self.context.execute_logical_plan(plan).await?;
        let stream = frame.execute_stream().await?;
        let schema = stream.schema();
        let engine: Vec<String> = schema.fields().iter().map(|f| f.name().clone()).collect();
        Ok(Rows {
            names: names.apply(&engine),
            schema,
            stream,
        })
    }

    fn exists(&self, name: &str) -> bool {
        self.lazy.contains_key(name) || self.context.table_exist(name).unwrap_or(false)
    }

    /// Makes room for a name.
    fn claim(&mut self, name: &str, replace: bool) -> Result<(), SqlError> {
        if !self.exists(name) {
            return Ok(());
        }
        if !replace {
            return Err(SqlError::new(format!(
                "'{name}' exists already: CREATE OR REPLACE replaces it."
            )));
        }
        self.lazy.remove(name);
        self.context.deregister_table(name)?;
        Ok(())
    }

    async fn plan_definition(&mut self, d: &Definition) -> Result<LogicalPlan, SqlError> {
        let plan = self.plan(&d.body).await?;
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

    async fn define_view(&mut self, d: Definition) -> Result<(), SqlError> {
        let plan = self.plan_definition(&d).await?;
        self.claim(&d.name, d.replace)?;
        let text = crate::sql::statement::excerpt(&d.body);
        self.context
            .register_table(d.name.as_str(), Arc::new(ViewTable::new(plan, Some(text))))?;
        self.user_tables.insert(d.name);
        Ok(())
    }

    async fn define_table(&mut self, d: Definition) -> Result<(), SqlError> {
        if !d.replace && self.exists(&d.name) {
            self.claim(&d.name, false)?;
        }
        let plan = self.plan_definition(&d).await?;
        let frame = self.context.execute_logical_plan(plan).await?;
        let stream = frame.execute_stream().await?;
        let schema = stream.schema();
        let batches: Vec<RecordBatch> = stream.try_collect().await?;
        // All may be NULL for the engine: a subquery without rows is, whatever its columns say.
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
        self.context
            .register_table(d.name.as_str(), Arc::new(table))?;
        self.user_tables.insert(d.name);
        Ok(())
    }

    fn define_macro(&mut self, d: Definition, arguments: Vec<Argument>) {
        self.macros.insert(
            d.name,
            Macro {
                arguments,
                body: d.body,
            },
        );
    }

    fn define_function(
        &mut self,
        d: Definition,
        arguments: Vec<Argument>,
        returns: Returns,
    ) -> Result<(), SqlError> {
        if self.functions.contains_key(&d.name) && !d.replace {
            return Err(SqlError::new(format!(
                "The function '{}' exists already: CREATE OR REPLACE replaces it.",
                d.name
            )));
        }
        let state = self.context.state();
        if !self.functions.contains_key(&d.name)
            && (state.scalar_functions().contains_key(&d.name)
                || state.aggregate_functions().contains_key(&d.name))
        {
            return Err(SqlError::new(format!(
                "'{}' is a function of the engine and cannot be replaced.",
                d.name
            )));
        }
        let tokens = normalize(expand(&d.body, &self.macros)?);
        let mut parser = Parser::new(&TraceDialect).with_tokens_with_locations(tokens);
        let mut body = parser
            .parse_query()
            .map_err(|e| crate::error::parser(&e.to_string()))?;
        rewrite(&mut body, &self.functions)?;
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

    async fn define_span_join(
        &mut self,
        name: String,
        kind: &str,
        inputs: [SpanInput; 2],
    ) -> Result<(), SqlError> {
        let kind = match kind {
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
        let [left, right] = inputs;
        let table = span_table(kind, plans, [left.partition, right.partition])?;
        self.context.register_table(name.as_str(), table)?;
        self.user_tables.insert(name);
        Ok(())
    }

    /// Runs a module once.
    async fn include(&mut self, name: &str) -> Result<(), SqlError> {
        if let Some(prefix) = name.strip_suffix('*') {
            let names: Vec<String> = self
                .packages
                .keys()
                .filter(|m| m.starts_with(prefix))
                .cloned()
                .collect();
            if names.is_empty() {
                return Err(SqlError::new(format!("No module matches '{name}'.")));
            }
            for name in names {
                Box::pin(self.include(&name)).await?;
            }
            return Ok(());
        }
        match self.modules.get(name) {
            Some(Module::Done) => return Ok(()),
            Some(Module::Running) => {
                return Err(SqlError::new(format!(
                    "The module '{name}' includes itself."
                )));
            }
            Some(Module::Failed(message)) => return Err(SqlError::new(message.clone())),
            None => {}
        }
        if name.starts_with("prelude.") {
            return Ok(());
        }
        let Some(sql) = self.packages.get(name).cloned() else {
            let mut message = format!("There is no module '{name}'.");
            if let Some(near) = nearest(name, self.packages.keys().map(String::as_str)) {
                message += &format!(" Did you mean '{near}'?");
            }
            return Err(SqlError::new(message));
        };
        self.modules.insert(name.to_owned(), Module::Running);
        let mut result = Ok(());
        for statement in split(tokenize(&sql)?) {
            result = match Box::pin(self.run(statement)).await {
                Ok(None) => Ok(()),
                Ok(Some(_)) => Err(SqlError::new("modules may not return rows")),
                Err(error) => Err(error),
            };
            if result.is_err() {
                break;
            }
        }
        match result {
            Ok(()) => {
                self.modules.insert(name.to_owned(), Module::Done);
                Ok(())
            }
            Err(error) => {
                let message = format!("The module '{name}' failed: {}", error.render(&sql));
                self.modules
                    .insert(name.to_owned(), Module::Failed(message.clone()));
                Err(SqlError::new(message))
            }
        }
    }
}

async fn drain(mut rows: Rows) -> Result<(), SqlError> {
    while let Some(batch) = rows.stream.next().await {
        batch?;
    }
    Ok(())
}

fn argument(name: &str) -> Argument {
    Argument {
        name: name.to_ascii_lowercase(),
        kind: "ANY".to_owned(),
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
        "Syntax error: there is no AS.",
    ))
}

/// Makes names case-insensitive, quoted ones, too.
fn normalize(mut tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    for token in &mut tokens {
        if let Token::Word(word) = &mut token.token
            && word.quote_style.is_some()
        {
            word.value = word.value.to_ascii_lowercase();
            word.quote_style = Some('"');
        }
    }
    tokens
}

/// Returns a reference to a column by its exact name.
pub fn exact(name: &str) -> datafusion::logical_expr::Expr {
    col(datafusion::common::Column::from_name(name))
}
