//! The parts of SQLite's interface that need `unsafe`: virtual tables, and queries that functions
//! run on the connection that calls them. All other modules implement [`Relation`] and [`Rows`],
//! which are safe.
//!
//! Invariants:
//!
//! - SQLite allocates nothing for us and frees nothing of ours: [`Table`] and [`Cursor`] begin with
//!   the structs that SQLite expects (`repr(C)`, first field), are boxed by `rusqlite`, and own
//!   everything else by `Arc` or `Box`. A cursor keeps its relation alive.
//! - A [`Callee`] is a second, not owning view of an open connection. It is used only by functions
//!   and tables that this connection calls, so on the thread that uses the connection, and never
//!   after it is closed: [`Callee::release`] ends its cached statements before.
#![allow(unsafe_code)]

use std::borrow::Cow;
use std::collections::HashMap;
use std::ffi::{CStr, CString, c_int};
use std::fmt;
use std::marker::PhantomData;
use std::sync::{Arc, Mutex, PoisonError};

use rusqlite::types::{Value, ValueRef};
use rusqlite::vtab::{
    Context, CreateVTab, Filters, IndexConstraintOp, IndexFlags, IndexInfo, Module, VTab,
    VTabConfig, VTabConnection, VTabCursor, VTabKind, sqlite3_vtab, sqlite3_vtab_cursor,
};
use rusqlite::{CachedStatement, Connection, Error, Result};

use crate::syntax::lexer::quoted;

/// A column of a relation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Column {
    pub(crate) name: String,
    /// True for arguments of table functions.
    pub(crate) is_hidden: bool,
}

impl Column {
    pub(crate) fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            is_hidden: false,
        }
    }

    pub(crate) fn hidden(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            is_hidden: true,
        }
    }
}

/// An operator of a condition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Op {
    Eq,
    Lt,
    Le,
    Gt,
    Ge,
}

/// A condition `column OP value`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Condition {
    pub(crate) column: usize,
    pub(crate) op: Op,
    /// False if the value is not known when rows are read.
    pub(crate) is_usable: bool,
}

/// An access to a relation that a query may choose.
#[derive(Debug, Default)]
pub(crate) struct Plan {
    /// The conditions whose values [`Rows::start`] gets. All are fulfilled exactly.
    pub(crate) used: Vec<usize>,
    /// The estimated number of steps.
    pub(crate) cost: f64,
    /// The estimated number of rows.
    pub(crate) rows: f64,
    /// True if there is at most one row.
    pub(crate) is_unique: bool,
    /// True if rows come in the wanted order.
    pub(crate) is_ordered: bool,
}

/// A table that is computed.
pub(crate) trait Relation: Send + Sync + fmt::Debug {
    /// Returns the columns.
    fn columns(&self) -> Vec<Column>;

    /// Returns an access with these conditions. `order` is the wanted order: columns, and true for
    /// descending ones. `None` if this combination of conditions cannot be answered.
    fn plan(&self, conditions: &[Condition], order: &[(usize, bool)]) -> Option<Plan>;

    /// Returns a reader of rows.
    fn open(self: Arc<Self>) -> Box<dyn Rows>;
}

/// A reader of rows.
pub(crate) trait Rows {
    /// Moves to the first row for which the used conditions hold.
    fn start(&mut self, conditions: &[(usize, Op, Value)]) -> Result<()>;
    /// Moves to the next row.
    fn advance(&mut self) -> Result<()>;
    /// Returns true after the last row.
    fn is_done(&self) -> bool;
    /// Returns a value of the row.
    fn value(&self, column: usize) -> ValueRef<'_>;
    /// Returns the number of the row.
    fn row(&self) -> i64;
}

/// The relations of a connection by name, in lower case.
#[derive(Debug, Default, Clone)]
pub(crate) struct Relations(Arc<Mutex<HashMap<String, Arc<dyn Relation>>>>);

impl Relations {
    pub(crate) fn get(&self, name: &str) -> Option<Arc<dyn Relation>> {
        let map = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        map.get(&name.to_ascii_lowercase()).cloned()
    }

    /// Sets the relation with this name. Tables exist once they are created or registered.
    pub(crate) fn set(&self, name: &str, relation: Arc<dyn Relation>) {
        let mut map = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        map.insert(name.to_ascii_lowercase(), relation);
    }

    /// Registers a relation that exists in each database without being created.
    pub(crate) fn register(
        &self,
        connection: &Connection,
        name: &str,
        relation: Arc<dyn Relation>,
    ) -> Result<()> {
        const MODULE: Module<'static, Table> = Module::eponymous_only_module();
        self.set(name, relation);
        connection.create_module(name, &MODULE, Some(self.clone()))
    }

    /// Registers the module of relations that are created: `CREATE VIRTUAL TABLE n USING …`.
    pub(crate) fn register_module(&self, connection: &Connection, module: &str) -> Result<()> {
        const MODULE: Module<'static, Table> = Module::read_only_module();
        connection.create_module(module, &MODULE, Some(self.clone()))
    }
}

/// A virtual table.
#[repr(C)]
struct Table {
    base: sqlite3_vtab,
    relation: Arc<dyn Relation>,
}

fn failure(message: impl Into<String>) -> Error {
    Error::ModuleError(message.into())
}

// SAFETY: The struct is `repr(C)` and begins with SQLite's.
unsafe impl VTab<'_> for Table {
    type Aux = Relations;
    type Cursor = Cursor;

    fn connect(
        connection: &mut VTabConnection,
        relations: Option<&Relations>,
        _module: &[u8],
        _database: &[u8],
        name: &[u8],
        _arguments: &[&[u8]],
    ) -> Result<(Cow<'static, CStr>, Self)> {
        let name = String::from_utf8_lossy(name);
        let relation = relations.and_then(|relations| relations.get(&name));
        let relation = relation.ok_or_else(|| failure(format!("no such table: {name}")))?;
        // Columns without a type have no affinity: values are compared as they are.
        let columns: Vec<String> = relation
            .columns()
            .iter()
            .map(|column| quoted(&column.name) + if column.is_hidden { " HIDDEN" } else { "" })
            .collect();
        let schema = CString::new(format!("CREATE TABLE x({})", columns.join(", ")))
            .map_err(|_| failure("a name contains a zero byte"))?;
        // It has no effects, so views may use it.
        connection.config(VTabConfig::Innocuous)?;
        let base = sqlite3_vtab::default();
        Ok((Cow::Owned(schema), Self { base, relation }))
    }

    fn best_index(&self, info: &mut IndexInfo) -> Result<bool> {
        // The conditions of the relation, and their numbers in SQLite's list.
        let (mut conditions, mut numbers) = (Vec::new(), Vec::new());
        for (number, constraint) in info.constraints().enumerate() {
            let op = match constraint.operator() {
                IndexConstraintOp::SQLITE_INDEX_CONSTRAINT_EQ => Op::Eq,
                IndexConstraintOp::SQLITE_INDEX_CONSTRAINT_LT => Op::Lt,
                IndexConstraintOp::SQLITE_INDEX_CONSTRAINT_LE => Op::Le,
                IndexConstraintOp::SQLITE_INDEX_CONSTRAINT_GT => Op::Gt,
                IndexConstraintOp::SQLITE_INDEX_CONSTRAINT_GE => Op::Ge,
                _ => continue,
            };
            let Ok(column) = usize::try_from(constraint.column()) else {
                continue;
            };
            conditions.push(Condition {
                column,
                op,
                is_usable: constraint.is_usable(),
            });
            numbers.push(number);
        }
        // Other collations are evaluated by SQLite.
        let mut kept = Vec::new();
        for (condition, number) in conditions.into_iter().zip(numbers) {
            if info.collation(number)?.eq_ignore_ascii_case("BINARY") {
                kept.push((condition, number));
            }
        }
        let conditions: Vec<Condition> = kept.iter().map(|(condition, _)| *condition).collect();
        let order: Option<Vec<(usize, bool)>> = info
            .order_bys()
            .map(|term| {
                Some((
                    usize::try_from(term.column()).ok()?,
                    term.is_order_by_desc(),
                ))
            })
            .collect();
        let Some(plan) = self
            .relation
            .plan(&conditions, order.as_deref().unwrap_or(&[]))
        else {
            return Ok(false);
        };
        let mut text = String::new();
        for (place, used) in plan.used.iter().enumerate() {
            let (condition, number) = kept[*used];
            let op = match condition.op {
                Op::Eq => '=',
                Op::Lt => '<',
                Op::Le => 'l',
                Op::Gt => '>',
                Op::Ge => 'g',
            };
            text += &format!("{}{op} ", condition.column);
            let mut usage = info.constraint_usage(number);
            usage.set_argv_index(place as c_int + 1);
            usage.set_omit(true);
        }
        info.set_idx_str(&text);
        info.set_estimated_cost(plan.cost);
        info.set_estimated_rows(plan.rows as i64);
        if plan.is_unique {
            info.set_idx_flags(IndexFlags::SQLITE_INDEX_SCAN_UNIQUE);
        }
        info.set_order_by_consumed(plan.is_ordered && order.is_some());
        Ok(true)
    }

    fn open(&mut self) -> Result<Cursor> {
        let rows = self.relation.clone().open();
        Ok(Cursor {
            base: sqlite3_vtab_cursor::default(),
            rows,
        })
    }
}

impl CreateVTab<'_> for Table {
    const KIND: VTabKind = VTabKind::Default;
}

/// A cursor of a virtual table.
#[repr(C)]
struct Cursor {
    base: sqlite3_vtab_cursor,
    rows: Box<dyn Rows>,
}

/// Parses the conditions that `best_index` has chosen.
fn chosen(text: &str) -> impl Iterator<Item = Option<(usize, Op)>> + '_ {
    text.split_ascii_whitespace().map(|part| {
        let (column, op) = part.split_at_checked(part.len().checked_sub(1)?)?;
        let op = match op {
            "=" => Op::Eq,
            "<" => Op::Lt,
            "l" => Op::Le,
            ">" => Op::Gt,
            "g" => Op::Ge,
            _ => return None,
        };
        Some((column.parse().ok()?, op))
    })
}

/// Returns the result of a call, or an error if it panics. A panic must not reach SQLite's frames.
fn guarded<T>(call: impl FnOnce() -> Result<T>) -> Result<T> {
    let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(call));
    result.unwrap_or_else(|_| {
        Err(failure(
            "an operator failed because of a defect in Ferretto",
        ))
    })
}

// SAFETY: The struct is `repr(C)` and begins with SQLite's.
unsafe impl VTabCursor for Cursor {
    fn filter(&mut self, _: c_int, text: Option<&str>, values: &Filters<'_>) -> Result<()> {
        let conditions: Option<Vec<_>> = chosen(text.unwrap_or_default())
            .zip(values.iter())
            .map(|(chosen, value)| chosen.map(|(column, op)| (column, op, owned(value))))
            .collect();
        let conditions = conditions.ok_or_else(|| failure("damaged plan"))?;
        guarded(|| self.rows.start(&conditions))
    }

    fn next(&mut self) -> Result<()> {
        guarded(|| self.rows.advance())
    }

    fn eof(&self) -> bool {
        self.rows.is_done()
    }

    fn column(&self, context: &mut Context, column: c_int) -> Result<()> {
        match self.rows.value(column as usize) {
            ValueRef::Null => context.set_result(rusqlite::types::Null),
            ValueRef::Integer(value) => context.set_result(value),
            ValueRef::Real(value) => context.set_result(value),
            ValueRef::Text(text) => match std::str::from_utf8(text) {
                Ok(text) => context.set_result(text),
                Err(_) => context.set_result(String::from_utf8_lossy(text).into_owned()),
            },
            ValueRef::Blob(bytes) => context.set_result(bytes),
        }
    }

    fn rowid(&self) -> Result<i64> {
        Ok(self.rows.row())
    }
}

/// Runs the queries of functions on the connection that calls them.
pub(crate) struct Callee {
    connection: Connection,
    _not_shared: PhantomData<*const ()>,
}

// SAFETY: Only functions and tables of the connection use it, on the thread that uses the
// connection. `rusqlite` lets one thread use a connection at a time.
unsafe impl Send for Callee {}
// SAFETY: See above.
unsafe impl Sync for Callee {}

impl fmt::Debug for Callee {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Callee").finish_non_exhaustive()
    }
}

impl Callee {
    /// Returns a view of a connection, which must call [`release`](Self::release) before it is
    /// closed.
    pub(crate) fn of(connection: &Connection) -> Result<Arc<Self>> {
        // SAFETY: The handle is that of an open connection, and the view does not close it.
        let connection = unsafe { Connection::from_handle(connection.handle())? };
        connection.set_prepared_statement_cache_capacity(256);
        Ok(Arc::new(Self {
            connection,
            _not_shared: PhantomData,
        }))
    }

    /// Returns a statement, which is prepared at most once.
    pub(crate) fn prepare(&self, sql: &str) -> Result<CachedStatement<'_>> {
        self.connection.prepare_cached(sql)
    }

    /// Ends all cached statements.
    pub(crate) fn release(&self) {
        self.connection.flush_prepared_statement_cache();
    }
}

/// Returns a copy of a value. Invalid UTF-8 is replaced by U+FFFD.
pub(crate) fn owned(value: ValueRef<'_>) -> Value {
    match value {
        ValueRef::Null => Value::Null,
        ValueRef::Integer(value) => Value::Integer(value),
        ValueRef::Real(value) => Value::Real(value),
        ValueRef::Text(text) => Value::Text(String::from_utf8_lossy(text).into_owned()),
        ValueRef::Blob(bytes) => Value::Blob(bytes.to_vec()),
    }
}
