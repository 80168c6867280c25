//! A session: definitions, and the execution of statements.

mod define;
mod fleet;
mod include;
mod keys;
mod objects;
mod options;
mod plan;
mod recursive;
mod run;
pub(crate) mod session;
mod trace;
mod views;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::logical_expr::col;
use datafusion::prelude::{SessionConfig, SessionContext};
use datafusion::sql::sqlparser::tokenizer::TokenWithSpan;
use futures::{StreamExt, TryStreamExt};

pub use self::options::{MAX_SPILL, Options};
pub use self::trace::Trace;
use crate::error::{SqlError, nearest};
use crate::fleet::Fleet;
use crate::functions;
use crate::sql::lexer::{split, start_of, tokenize};
use crate::sql::macros::Macro;
use crate::sql::statement::{Statement, parse};
use crate::sql::user::Functions;
use ferretto_query::stdlib;

/// The stack size of threads that plan queries, in bytes. It is large enough for the deepest
/// allowed expressions. Unused parts take no memory.
pub const STACK: usize = 64 << 20;

/// The rows of a statement.
pub struct Rows {
    /// The names of the columns as written in the statement.
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

/// The number of rows from which queries use several threads.
const SMALL: usize = 200_000;

/// A session over one or many traces.
pub struct Engine {
    /// The planner of definitions and of queries of one trace.
    context: SessionContext,
    /// The planner of queries of many traces.
    fleet: Option<Arc<Fleet>>,
    /// True if tables are defined as views, since each trace has its own rows.
    tables_are_views: bool,
    queries_each_trace: bool,
    macros: HashMap<String, Macro>,
    functions: Functions,
    /// Definitions that are evaluated when a query first names them.
    lazy: BTreeMap<String, Statement>,
    views: views::Views,
    modules: HashMap<String, Module>,
    packages: BTreeMap<String, String>,
    user_tables: BTreeSet<String>,
    /// The columns that number the rows of tables.
    row_keys: HashMap<String, String>,
}

impl std::fmt::Debug for Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Engine").finish_non_exhaustive()
    }
}

/// The state of an included module.
#[derive(Clone)]
enum Module {
    Running,
    Done,
    Failed(String),
}

impl Engine {
    /// Returns a session over a trace, with the prelude.
    pub fn new(options: &Options, trace: Option<&dyn Trace>) -> Result<Self, SqlError> {
        let mut config = session::config(SessionConfig::new(), options);
        if options.threads == 0 && trace.is_none_or(|trace| trace.rows() < SMALL) {
            config = config.with_target_partitions(1);
        }
        let state = session::state(config, session::runtime(options)?);
        let context = session::context(session::in_order(state));
        match trace {
            Some(trace) => trace.register(&context)?,
            None => {
                for function in functions::Clocks::default().functions() {
                    context.register_udf(function.udf());
                }
            }
        }
        let mut engine = Self {
            context,
            fleet: None,
            tables_are_views: false,
            queries_each_trace: false,
            macros: HashMap::new(),
            functions: Functions::default(),
            lazy: BTreeMap::new(),
            views: views::Views::default(),
            modules: HashMap::new(),
            packages: stdlib::modules(),
            user_tables: BTreeSet::new(),
            row_keys: HashMap::new(),
        };
        engine.load_prelude()?;
        Ok(engine)
    }

    /// Returns a session for definitions that are evaluated over other traces.
    pub(crate) fn for_definitions(
        options: &Options,
        template: &dyn Trace,
    ) -> Result<Self, SqlError> {
        let mut engine = Self::new(options, Some(template))?;
        engine.tables_are_views = true;
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
                        ..
                    } => {
                        self.define_macro(definition, arguments);
                    }
                    other => {
                        return Err(SqlError::new(format!(
                            "statement not allowed in the prelude: {other:?}"
                        )));
                    }
                }
            }
        }
        Ok(())
    }

    /// Returns DataFusion's session.
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
        let start = start_of(&tokens);
        let definition = self.definition(&tokens);
        let result = match parse(tokens)? {
            Statement::Include(name) => self.include(&name).await.map(|()| None),
            Statement::Table(d) => self.define_table(d).await.map(|()| None),
            Statement::View(d) => self.define_view(d).await.map(|()| None),
            Statement::Function {
                definition,
                arguments,
                returns,
            } => self
                .define_any_function(definition, arguments, returns)
                .await
                .map(|()| None),
            Statement::Macro {
                definition,
                arguments,
                ..
            } => {
                self.define_macro(definition, arguments);
                Ok(None)
            }
            Statement::Delegate { name, target } => self.delegate(&name, &target).map(|()| None),
            Statement::Nothing => Ok(None),
            Statement::SpanJoin { name, kind, inputs } => self
                .define_span_join(name, &kind, inputs)
                .await
                .map(|()| None),
            Statement::Flamegraph { name, source } => {
                self.define_flamegraph(name, &source).await.map(|()| None)
            }
            Statement::Sql(tokens) => self.run_sql(&tokens).await,
        };
        if let (Ok(_), Some(fleet), Some(text)) = (&result, &self.fleet, definition) {
            fleet.remember(text);
        }
        result.map_err(|mut error| {
            if error.location.is_none() && start.line > 0 {
                error.location = Some((start.line, start.column));
            }
            error
        })
    }

    /// Evaluates all lazy definitions, except views whose relations no longer exist.
    pub(crate) async fn define_all(&mut self) -> Result<(), SqlError> {
        let names: Vec<String> = self.lazy.keys().cloned().collect();
        for name in names {
            let defined = Box::pin(self.ensure(&BTreeSet::from([name.clone()]))).await;
            if !self.user_tables.contains(&name) {
                defined?;
            }
        }
        Ok(())
    }

    /// Evaluates the lazy definitions among the names.
    async fn ensure(&mut self, names: &BTreeSet<String>) -> Result<(), SqlError> {
        self.ensure_objects(names)?;
        for name in names {
            let Some(statement) = self.lazy.remove(name) else {
                continue;
            };
            // Definitions of the prelude are not the user's.
            let of_user = self.user_tables.contains(name);
            let defined = match statement.clone() {
                Statement::View(d) => Box::pin(self.define_view(d)).await,
                Statement::SpanJoin { name, kind, inputs } => {
                    Box::pin(self.define_span_join(name, &kind, inputs)).await
                }
                _ => Ok(()),
            };
            if let Err(error) = defined {
                // The view can be evaluated once its relations exist.
                self.lazy.insert(name.clone(), statement);
                let message = format!("The view '{name}' cannot be evaluated: {}", error.message);
                return Err(SqlError::new(message));
            }
            if !of_user {
                self.user_tables.remove(name);
            }
        }
        Ok(())
    }
}

async fn drain(mut rows: Rows) -> Result<(), SqlError> {
    while let Some(batch) = rows.stream.next().await {
        batch?;
    }
    Ok(())
}

/// Returns a reference to a column by its exact name.
pub fn exact(name: &str) -> datafusion::logical_expr::Expr {
    col(datafusion::common::Column::from_name(name))
}
