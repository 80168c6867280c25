//! A session: a connection to SQLite, definitions, and the execution of statements.

mod catalog;
mod define;
mod function;
mod include;
mod log;
mod operator;
mod rows;
mod safety;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use ferretto_tables::{TableId, Trace};
use rusqlite::types::ValueRef;
use rusqlite::{Connection, InterruptHandle};

use self::function::Function;
use self::include::Module;
use self::log::Log;
pub use self::rows::{Rows, Statements};
use crate::error::{SqlError, nearest};
use crate::flamegraph;
use crate::functions;
use crate::graphs;
use crate::intervals;
use crate::limits::Limits;
pub use crate::limits::Options;
use crate::modules;
use crate::objects::{self, Objects};
use crate::relations::{
    COMPUTED, TraceTable, register_absent, register_pairs, register_pointer, register_why,
};
use crate::sqlite::{Callee, Relations};
use crate::stdlib;
use crate::syntax::lexer::{Token, split, text, tokenize, trim};
use crate::syntax::macros::{Macro, Macros, expand};
use crate::syntax::statement::{Statement, parse};

/// The module of relations that are created by statements.
const CREATED: &str = "__perfetto_relation";

/// The stack that threads need for functions that call each other.
pub const STACK: usize = 64 << 20;

/// Cancels the running statement of a session, from any thread.
pub struct Interrupt {
    sqlite: InterruptHandle,
    limits: Limits,
}

impl fmt::Debug for Interrupt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Interrupt").finish_non_exhaustive()
    }
}

impl Interrupt {
    /// Cancels the running statement, if there is one.
    pub fn interrupt(&self) {
        self.limits.cancel();
        self.sqlite.interrupt();
    }
}

/// A session over a trace.
pub struct Engine {
    // Dropped before the connection that it is a view of.
    callee: Arc<Callee>,
    connection: Connection,
    relations: Relations,
    objects: Objects,
    /// The number of texts that have been run. Results of span joins are kept during one.
    runs: Arc<AtomicU64>,
    limits: Limits,
    read_only: safety::ReadOnly,
    log: Log,
    unread: modules::Unread,
    /// The indexes of tables that make their own.
    indexes: HashSet<String>,
    macros: Macros,
    /// The targets of functions that take any number of arguments, by name.
    aliases: HashMap<String, String>,
    functions: HashMap<String, Arc<Function>>,
    modules: HashMap<String, Module>,
    packages: BTreeMap<String, String>,
}

impl fmt::Debug for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Engine").finish_non_exhaustive()
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        self.callee.release();
    }
}

impl Engine {
    /// Returns a session over a trace, with the prelude.
    ///
    /// # Errors
    ///
    /// Fails if SQLite has no memory.
    pub fn new(trace: &Arc<Trace>, options: &Options) -> Result<Self, SqlError> {
        let mut connection = Connection::open_in_memory()?;
        let relations = Relations::default();
        let limits = Limits::new(options);
        let objects = Objects::new(&limits);
        for table in TableId::ALL {
            let name = format!("__intrinsic_{}", table.spec().name);
            let table = TraceTable::new(trace, *table, &limits);
            relations.register(&connection, &name, table)?;
        }
        register_pairs(&connection, &relations, trace)?;
        register_absent(&connection, &relations)?;
        for table in &COMPUTED {
            table.register(&connection, &relations, trace, &limits)?;
        }
        register_why(&connection, &relations, trace, &limits)?;
        register_pointer(&connection, &relations, &objects)?;
        relations.register_module(&connection, CREATED)?;
        functions::register(&connection, &limits)?;
        functions::register_trace(&connection, trace)?;
        let unread = modules::register_absent(&connection, trace)?;
        objects::register(&connection, &objects)?;
        intervals::register(&connection, &relations, &objects)?;
        graphs::register(&connection, &relations, &objects)?;
        flamegraph::register(&connection)?;
        let read_only = safety::ReadOnly::default();
        safety::restrict(&mut connection, options, &limits, &read_only)?;
        let log = Log::default();
        log.register(&connection, &relations, &limits)?;
        let callee = Callee::of(&connection)?;
        functions::register_concat(&connection, &callee, &limits)?;
        graphs::register_functions(&connection, &objects, &Arc::downgrade(&callee))?;
        catalog::register_table_info(&connection, &relations, &Arc::downgrade(&callee), &limits)?;
        let mut engine = Self {
            callee,
            connection,
            relations,
            objects,
            runs: Arc::default(),
            limits,
            read_only,
            log,
            unread,
            indexes: HashSet::new(),
            macros: Macros::new(),
            aliases: HashMap::new(),
            functions: HashMap::new(),
            modules: HashMap::new(),
            packages: stdlib::modules(),
        };
        for (name, sql) in modules::all() {
            engine.add_module(&name, &sql, true)?;
        }
        for (name, added) in modules::ADDED {
            if let Some(sql) = engine.packages.get_mut(*name) {
                *sql += &format!("\n{added}");
            }
        }
        for (name, others) in modules::INCLUDED {
            if let Some(sql) = engine.packages.get_mut(*name) {
                for other in *others {
                    *sql += &format!("\nINCLUDE PERFETTO MODULE {other};");
                }
            }
        }
        for text in stdlib::PRELUDE.iter().chain([&modules::PRELUDE]) {
            engine.define_all(text)?;
        }
        let (connection, relations) = (&engine.connection, &engine.relations);
        catalog::register_objects(connection, relations, &engine.packages, &engine.limits)?;
        Ok(engine)
    }

    /// Adds a module. An existing one is replaced only if `replace` is set.
    ///
    /// # Errors
    ///
    /// Fails if the module exists and must not be replaced.
    pub fn add_module(&mut self, name: &str, sql: &str, replace: bool) -> Result<(), SqlError> {
        if !replace && self.packages.contains_key(name) {
            return Err(SqlError::new(format!(
                "The module '{name}' exists already."
            )));
        }
        self.packages.insert(name.to_owned(), sql.to_owned());
        Ok(())
    }

    /// Returns the names of all modules.
    pub fn module_names(&self) -> impl Iterator<Item = &str> {
        self.packages.keys().map(String::as_str)
    }

    /// Returns remarks on the results of the statements since the last call: modules that gave no
    /// rows although the trace may have their events.
    pub fn remarks(&self) -> Vec<String> {
        let modules = self.unread.take().into_iter();
        let remarks = modules.map(|module| {
            format!(
                "the module '{module}' has no rows: Ferretto does not read its events yet, and \
                 the trace may have some"
            )
        });
        remarks.collect()
    }

    /// Returns a handle that cancels statements.
    pub fn interrupt(&self) -> Interrupt {
        Interrupt {
            sqlite: self.connection.get_interrupt_handle(),
            limits: self.limits.clone(),
        }
    }

    /// Fails if modules would take too much memory.
    pub(crate) fn check_modules<'a>(
        &self,
        modules: impl Iterator<Item = &'a (String, String)>,
    ) -> Result<(), SqlError> {
        self.limits.check_modules(modules)
    }

    /// Ends texts once the variable is true. It replaces the last one.
    pub(crate) fn end_with(&mut self, over: Option<Arc<AtomicBool>>) {
        self.limits.end_with(over);
    }

    /// Runs all statements of a text, and passes their results to `rows`.
    ///
    /// # Errors
    ///
    /// Fails with the error of the first statement that fails.
    pub fn run(&mut self, sql: &str, rows: &mut dyn Rows) -> Result<(), SqlError> {
        self.begin(sql);
        let result = self.run_statements(sql, rows);
        self.end(result)
    }

    /// Runs all statements of a text, and passes only the rows of the last one to `rows`.
    ///
    /// # Errors
    ///
    /// Fails with the error of the first statement that fails.
    pub fn query(&mut self, sql: &str, rows: &mut dyn Rows) -> Result<(), SqlError> {
        let mut last = Last {
            rows,
            statements: Statements::default(),
            is_last: false,
            has_begun: false,
        };
        self.begin(sql);
        let result = self.query_last(sql, &mut last);
        self.end(result)
    }

    fn query_last(&mut self, sql: &str, last: &mut Last<'_>) -> Result<(), SqlError> {
        self.limits.check_text(sql)?;
        let statements = split(tokenize(sql)?);
        let Some((end, before)) = statements.split_last() else {
            return Err(SqlError::new("No valid SQL to run."));
        };
        last.statements.count = statements.len() as u64;
        last.statements.last = text(trim(end));
        for tokens in before {
            let _ = self.statement(tokens, last)?;
        }
        last.is_last = true;
        let _ = self.statement(end, last)?;
        // A statement without columns.
        if !last.has_begun {
            last.rows.last(&[], &last.statements);
        }
        Ok(())
    }

    /// Calls `each` for each row of a query.
    ///
    /// # Errors
    ///
    /// Fails if the query does.
    pub fn each_row(
        &mut self,
        sql: &str,
        each: &mut dyn FnMut(&[ValueRef<'_>]),
    ) -> Result<(), SqlError> {
        struct Each<'a>(&'a mut dyn FnMut(&[ValueRef<'_>]));
        impl Rows for Each<'_> {
            fn row(&mut self, values: &[ValueRef<'_>]) -> ControlFlow<()> {
                (self.0)(values);
                ControlFlow::Continue(())
            }
        }
        self.run(sql, &mut Each(each))
    }

    /// Begins a text.
    fn begin(&mut self, sql: &str) {
        self.log.begin(sql);
        self.runs.fetch_add(1, Ordering::Relaxed);
        self.limits.start();
    }

    /// Ends a text.
    fn end(&mut self, result: Result<(), SqlError>) -> Result<(), SqlError> {
        self.log.end();
        self.objects.clear();
        self.limits.explained(result)
    }

    fn run_statements(&mut self, sql: &str, rows: &mut dyn Rows) -> Result<(), SqlError> {
        self.limits.check_text(sql)?;
        let statements = split(tokenize(sql)?);
        if statements.is_empty() {
            return Err(SqlError::new("No valid SQL to run."));
        }
        for tokens in statements {
            if self.statement(&tokens, rows)?.is_break() {
                break;
            }
        }
        Ok(())
    }

    /// Runs the definitions of a text.
    fn define_all(&mut self, sql: &str) -> Result<(), SqlError> {
        struct Nothing;
        impl Rows for Nothing {
            fn row(&mut self, _: &[ValueRef<'_>]) -> ControlFlow<()> {
                ControlFlow::Continue(())
            }
        }
        for tokens in split(tokenize(sql)?) {
            let _ = self.statement(&tokens, &mut Nothing)?;
        }
        Ok(())
    }

    fn statement(
        &mut self,
        tokens: &[Token],
        rows: &mut dyn Rows,
    ) -> Result<ControlFlow<()>, SqlError> {
        let start = tokens.iter().find(|t| !t.is_space()).map_or(0, |t| t.at);
        let done = |result: Result<(), SqlError>| {
            result
                .map(|()| ControlFlow::Continue(()))
                .map_err(|error| error.or_at(start))
        };
        match parse(tokens)? {
            Statement::Include(name) => done(self.include(&name)),
            Statement::Table(definition) => done(self.define_table(&definition)),
            Statement::View(definition) => done(self.define_view(&definition)),
            Statement::Function(definition, arguments, returns) => {
                done(self.define_function(definition, arguments, returns))
            }
            Statement::Delegate(name, arguments, target) => {
                done(self.delegate(&name, &arguments, &target))
            }
            Statement::Macro(definition, arguments) => {
                let name = definition.name.to_ascii_lowercase();
                self.macros.insert(
                    name,
                    Macro {
                        arguments,
                        body: definition.body,
                    },
                );
                done(Ok(()))
            }
            Statement::Index(name, replace, on) => done(self.define_index(&name, replace, &on)),
            Statement::DropIndex(name) => done(self.drop_index(&name)),
            Statement::Memoize(name) => done(self.memoize(&name)),
            Statement::SpanJoin(join) => done(self.define_span_join(&join)),
            Statement::Operator(operator) => done(self.define_operator(&operator)),
            Statement::Sql(tokens) => {
                let result = self.run_sql(&tokens, rows);
                result.map_err(|error| {
                    let error = self.read_only.explained(error);
                    self.with_nearest(error).or_at(start)
                })
            }
        }
    }

    /// Returns an error with the name of a similar table, if it is about a missing one.
    fn with_nearest(&self, mut error: SqlError) -> SqlError {
        let missing = error.message.strip_prefix("No such table: ");
        let Some(missing) = missing.map(|name| name.trim_end_matches('.').to_owned()) else {
            return error;
        };
        let names = || -> rusqlite::Result<Vec<String>> {
            let sql = "SELECT name FROM sqlite_schema WHERE type IN ('table', 'view')";
            let mut statement = self.connection.prepare_cached(sql)?;
            let names = statement.query_map([], |row| row.get(0))?;
            names.collect()
        };
        let names = names().unwrap_or_default();
        if let Some(near) = nearest(&missing, names.iter().map(String::as_str)) {
            error.message += &format!(" Did you mean '{near}'?");
        }
        error
    }

    /// Returns the text of tokens after the expansion of macros.
    fn expanded(&self, tokens: &[Token]) -> Result<Text, SqlError> {
        let mut tokens = expand(tokens, &self.macros)?;
        let calls = |tokens: &[Token], at: usize| tokens.get(at + 1).is_some_and(|t| t.is("("));
        for at in 0..tokens.len() {
            if self.aliases.is_empty() || !calls(&tokens, at) {
                continue;
            }
            if let Some(target) = self.aliases.get(&tokens[at].text.to_ascii_lowercase()) {
                tokens[at].text.clone_from(target);
            }
        }
        Ok(Text::of(&tokens))
    }

    /// Runs a statement of SQLite.
    fn run_sql(
        &mut self,
        tokens: &[Token],
        rows: &mut dyn Rows,
    ) -> Result<ControlFlow<()>, SqlError> {
        let text = self.expanded(tokens)?;
        let located = |error: rusqlite::Error| text.located(error);
        let mut statement = self.connection.prepare(&text.sql).map_err(located)?;
        let names: Vec<String> = statement.column_names().map(str::to_owned).collect();
        if !names.is_empty() && rows.columns(&names).is_break() {
            return Ok(ControlFlow::Break(()));
        }
        let mut results = statement.raw_query();
        let mut is_first = true;
        while let Some(row) = results.next().map_err(located)? {
            if is_first {
                self.log.has_row();
                is_first = false;
            }
            let mut values = Vec::with_capacity(names.len());
            for column in 0..names.len() {
                values.push(row.get_ref(column).map_err(located)?);
            }
            if rows.row(&values).is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
        Ok(ControlFlow::Continue(()))
    }
}

/// Passes the rows of the last statement on.
struct Last<'a> {
    rows: &'a mut dyn Rows,
    statements: Statements,
    is_last: bool,
    has_begun: bool,
}

impl Rows for Last<'_> {
    fn columns(&mut self, names: &[String]) -> ControlFlow<()> {
        self.statements.with_output += 1;
        if !self.is_last {
            return ControlFlow::Continue(());
        }
        self.has_begun = true;
        self.rows.last(names, &self.statements);
        self.rows.columns(names)
    }

    fn row(&mut self, values: &[ValueRef<'_>]) -> ControlFlow<()> {
        if self.is_last {
            self.rows.row(values)
        } else {
            ControlFlow::Continue(())
        }
    }
}

/// The text of a statement, and the places of its tokens.
struct Text {
    sql: String,
    /// The offsets of tokens in the text, and the offsets at which they were written.
    starts: Vec<(usize, usize)>,
}

impl Text {
    fn of(tokens: &[Token]) -> Self {
        let (mut sql, mut starts) = (String::new(), Vec::with_capacity(tokens.len()));
        for token in tokens {
            starts.push((sql.len(), token.at));
            sql.push_str(&token.text);
        }
        Self { sql, starts }
    }

    /// Returns an error with the place in the original text.
    fn located(&self, error: rusqlite::Error) -> SqlError {
        let mut error = SqlError::from(error);
        error.offset = error.offset.and_then(|offset| {
            let after = self.starts.partition_point(|(at, _)| *at <= offset);
            self.starts.get(after.checked_sub(1)?).map(|(_, at)| *at)
        });
        error
    }
}

impl Text {
    /// Returns an error of a statement that has the text after `head` other bytes.
    fn shifted(&self, error: rusqlite::Error, head: usize) -> SqlError {
        match error {
            rusqlite::Error::SqlInputError {
                error,
                msg,
                sql,
                offset,
            } => {
                let offset = offset.saturating_sub(head as i32);
                self.located(rusqlite::Error::SqlInputError {
                    error,
                    msg,
                    sql,
                    offset,
                })
            }
            other => self.located(other),
        }
    }
}
