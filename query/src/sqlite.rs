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
    Context, CreateVTab, DistinctMode, Filters, IndexConstraintOp, IndexFlags, IndexInfo, Module,
    VTab, VTabConfig, VTabConnection, VTabCursor, VTabKind, sqlite3_vtab, sqlite3_vtab_cursor,
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

    /// Returns true if [`Rows::sort`] sorts rows by these columns.
    fn can_sort(&self, _order: &[(usize, bool)]) -> bool {
        false
    }

    /// Returns a reader of rows.
    fn open(self: Arc<Self>) -> Box<dyn Rows>;
}

/// A reader of rows.
pub(crate) trait Rows {
    /// Moves to the first row for which the used conditions hold.
    fn start(&mut self, conditions: &[(usize, Op, Value)]) -> Result<()>;
    /// Sorts the rows after the start, and moves to the first. Equal ones keep their order.
    fn sort(&mut self, _order: &[(usize, bool)]) -> Result<()> {
        Ok(())
    }
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

    /// Removes the relation with this name.
    pub(crate) fn remove(&self, name: &str) {
        let mut map = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        map.remove(&name.to_ascii_lowercase());
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
    name: String,
    relations: Relations,
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
        let relations = relations.cloned().unwrap_or_default();
        let missing = || failure(format!("no such table: {name}"));
        let relation = relations.get(&name).ok_or_else(missing)?;
        let columns = guarded(|| Ok(relation.columns()))?;
        // Columns without a type have no affinity: values are compared as they are.
        let columns: Vec<String> = columns
            .iter()
            .map(|column| quoted(&column.name) + if column.is_hidden { " HIDDEN" } else { "" })
            .collect();
        let schema = CString::new(format!("CREATE TABLE x({})", columns.join(", ")))
            .map_err(|_| failure("a name contains a zero byte"))?;
        // It has no effects, so views may use it.
        connection.config(VTabConfig::Innocuous)?;
        let base = sqlite3_vtab::default();
        let table = Self {
            base,
            name: name.into_owned(),
            relations,
            relation,
        };
        Ok((Cow::Owned(schema), table))
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
        let order_terms = order.as_deref().unwrap_or(&[]);
        let Some(mut plan) = guarded(|| Ok(self.relation.plan(&conditions, order_terms)))? else {
            return Ok(false);
        };
        // All rows of groups are read: SQLite would sort copies of them, with their texts.
        let sorts = !plan.is_ordered
            && !order_terms.is_empty()
            && !matches!(info.distinct(), DistinctMode::Ordered)
            && self.relation.can_sort(order_terms);
        plan.is_ordered |= sorts;
        let mut text = String::new();
        for (index, used) in plan.used.iter().enumerate() {
            let Some((condition, number)) = kept.get(*used).copied() else {
                return Err(failure("damaged plan"));
            };
            let op = match condition.op {
                Op::Eq => '=',
                Op::Lt => '<',
                Op::Le => 'l',
                Op::Gt => '>',
                Op::Ge => 'g',
            };
            text += &format!("{}{op} ", condition.column);
            let mut usage = info.constraint_usage(number);
            usage.set_argv_index(index as c_int + 1);
            usage.set_omit(true);
        }
        if sorts {
            text += "|";
            for (column, descends) in order_terms {
                text += &format!("{column}{} ", if *descends { '-' } else { '+' });
            }
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
        let rows = guarded(|| Ok(self.relation.clone().open()))?;
        Ok(Cursor {
            base: sqlite3_vtab_cursor::default(),
            rows,
            is_done: true,
        })
    }
}

impl CreateVTab<'_> for Table {
    const KIND: VTabKind = VTabKind::Default;

    /// Frees the relation of a table that is dropped.
    fn destroy(&self) -> Result<()> {
        self.relations.remove(&self.name);
        Ok(())
    }
}

/// A cursor of a virtual table.
#[repr(C)]
struct Cursor {
    base: sqlite3_vtab_cursor,
    rows: Box<dyn Rows>,
    /// True after the last row.
    is_done: bool,
}

impl Cursor {
    /// Moves to a row, and notes the end: SQLite cannot be told of an error when it asks for that.
    fn moved(&mut self, call: impl FnOnce(&mut dyn Rows) -> Result<()>) -> Result<()> {
        self.is_done = true;
        self.is_done = guarded(|| {
            call(&mut *self.rows)?;
            Ok(self.rows.is_done())
        })?;
        Ok(())
    }
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

/// Parses the order that `best_index` has chosen.
fn chosen_order(text: &str) -> Option<Vec<(usize, bool)>> {
    let terms = text.split_ascii_whitespace().map(|part| {
        let (column, direction) = part.split_at_checked(part.len().checked_sub(1)?)?;
        Some((column.parse().ok()?, direction == "-"))
    });
    terms.collect()
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
        let text = text.unwrap_or_default();
        let (text, order) = text.split_once('|').unwrap_or((text, ""));
        let order = chosen_order(order).ok_or_else(|| failure("damaged plan"))?;
        let conditions: Option<Vec<_>> = chosen(text)
            .zip(values.iter())
            .map(|(chosen, value)| chosen.map(|(column, op)| (column, op, owned(value))))
            .collect();
        let conditions = conditions.ok_or_else(|| failure("damaged plan"))?;
        self.moved(|rows| {
            rows.start(&conditions)?;
            if order.is_empty() {
                return Ok(());
            }
            rows.sort(&order)
        })
    }

    fn next(&mut self) -> Result<()> {
        self.moved(|rows| rows.advance())
    }

    fn eof(&self) -> bool {
        self.is_done
    }

    fn column(&self, context: &mut Context, column: c_int) -> Result<()> {
        let column = usize::try_from(column).unwrap_or(usize::MAX);
        match guarded(|| Ok(self.rows.value(column)))? {
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
        guarded(|| Ok(self.rows.row()))
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

#[cfg(test)]
mod tests {
    use super::*;

    /// A relation with one row, which panics in one of its functions.
    #[derive(Debug)]
    struct Broken(&'static str);

    impl Broken {
        fn enter(&self, function: &str) {
            assert_ne!(self.0, function, "broken");
        }
    }

    impl Relation for Broken {
        fn columns(&self) -> Vec<Column> {
            self.enter("columns");
            vec![Column::new("a")]
        }

        fn plan(&self, _: &[Condition], _: &[(usize, bool)]) -> Option<Plan> {
            self.enter("plan");
            Some(Plan::default())
        }

        fn open(self: Arc<Self>) -> Box<dyn Rows> {
            self.enter("open");
            Box::new(BrokenRows(self, 0))
        }
    }

    struct BrokenRows(Arc<Broken>, u8);

    impl Rows for BrokenRows {
        fn start(&mut self, _: &[(usize, Op, Value)]) -> Result<()> {
            self.0.enter("start");
            Ok(())
        }

        fn advance(&mut self) -> Result<()> {
            self.0.enter("advance");
            self.1 += 1;
            Ok(())
        }

        fn is_done(&self) -> bool {
            self.0.enter("is_done");
            self.1 > 0
        }

        fn value(&self, _: usize) -> ValueRef<'_> {
            self.0.enter("value");
            ValueRef::Integer(7)
        }

        fn row(&self) -> i64 {
            self.0.enter("row");
            1
        }
    }

    #[test]
    fn panics_of_relations_become_errors() {
        let functions = [
            "columns", "plan", "open", "start", "advance", "is_done", "value", "row", "",
        ];
        for function in functions {
            let connection = Connection::open_in_memory().expect("connection");
            let relations = Relations::default();
            let relation = Arc::new(Broken(function));
            relations
                .register(&connection, "broken", relation)
                .expect("registered");
            let read = || {
                connection.query_row("SELECT a, rowid FROM broken", [], |row| {
                    row.get::<_, i64>(0)
                })
            };
            // query_row reads one row only.
            let all = || -> Result<i64> {
                let mut statement = connection.prepare("SELECT a, rowid FROM broken")?;
                let mut rows = statement.raw_query();
                let mut sum = 0;
                while let Some(row) = rows.next()? {
                    sum += row.get::<_, i64>(0)?;
                }
                Ok(sum)
            };
            assert_eq!(all().is_err(), !function.is_empty(), "{function}");
            assert_eq!(
                read().is_ok(),
                ["", "advance"].contains(&function),
                "{function}"
            );
            assert!(connection.query_row("SELECT 1", [], |_| Ok(())).is_ok());
        }
    }
}
