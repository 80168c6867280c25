//! Objects that statements pass between functions: rows that an aggregate function has collected or
//! an operator has computed. A value in SQL is the number of an object.

use std::collections::HashMap;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use rusqlite::functions::{Aggregate, Context, FunctionFlags};
use rusqlite::types::{Value, ValueRef};
use rusqlite::{Connection, Error, Result};

use crate::limits::Limits;
use crate::relations::StoredRows;
use crate::sqlite::owned;

/// Rows, and the names of their columns if they have some.
#[derive(Debug, Default)]
pub(crate) struct Object {
    pub(crate) names: Vec<String>,
    pub(crate) rows: StoredRows,
}

/// The objects of a text of statements, by number. They are freed when the text has been run.
#[derive(Debug, Default, Clone)]
pub(crate) struct Objects {
    all: Arc<Mutex<HashMap<i64, Arc<Object>>>>,
    next: Arc<AtomicI64>,
    limits: Limits,
}

const FLAGS: FunctionFlags = FunctionFlags::SQLITE_UTF8.union(FunctionFlags::SQLITE_INNOCUOUS);

/// Returns an error of an operator.
pub(crate) fn failure(message: impl Into<String>) -> Error {
    Error::ModuleError(message.into())
}

impl Objects {
    pub(crate) fn new(limits: &Limits) -> Self {
        Self {
            limits: limits.clone(),
            ..Self::default()
        }
    }

    pub(crate) fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Adds an object and returns its number.
    pub(crate) fn add(&self, object: Object) -> i64 {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let mut all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        all.insert(number, Arc::new(object));
        number
    }

    /// Removes an object.
    pub(crate) fn remove(&self, number: i64) {
        let mut all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        all.remove(&number);
    }

    /// Returns an object. NULL is an object without rows: an aggregate over none.
    pub(crate) fn get(&self, number: ValueRef<'_>) -> Result<Arc<Object>> {
        let all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        let object = match number {
            ValueRef::Null => Some(Arc::default()),
            ValueRef::Integer(number) => all.get(&number).cloned(),
            _ => None,
        };
        object.ok_or_else(|| failure("an operator takes the result of an aggregate function"))
    }

    /// Registers an aggregate function that collects rows and computes an object from them.
    pub(crate) fn aggregate(
        &self,
        connection: &Connection,
        name: &str,
        count: i32,
        kind: Kind,
        finish: Finish,
    ) -> Result<()> {
        let collect = Collect {
            objects: self.clone(),
            kind,
            finish: Some(finish),
        };
        connection.create_aggregate_function(name, count, FLAGS, collect)
    }

    /// Frees all objects.
    pub(crate) fn clear(&self) {
        let mut all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        all.clear();
    }
}

/// The arguments of an aggregate function that collects rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Values.
    Plain,
    /// Names of columns, each before its value.
    Named,
    /// Three values, then names and values.
    Mixed,
}

impl Kind {
    /// Returns the number of values without names, and the columns of the names before values.
    fn columns(self, count: usize) -> (usize, impl Iterator<Item = usize>) {
        let plain = match self {
            Self::Plain => count,
            Self::Named => 0,
            Self::Mixed => count.min(3),
        };
        (plain, (plain..count).step_by(2))
    }
}

/// The computation of an operator from the rows that have been collected.
type Finish = fn(&Object, &Limits) -> Result<Object>;

/// An aggregate function that collects its arguments as rows.
struct Collect {
    objects: Objects,
    kind: Kind,
    finish: Option<Finish>,
}

impl Aggregate<Mutex<Object>, Value> for Collect {
    fn init(&self, context: &mut Context<'_>) -> Result<Mutex<Object>> {
        let (plain, named) = self.kind.columns(context.len());
        if !(context.len() - plain).is_multiple_of(2) {
            return Err(failure("each value must have its column's name before it"));
        }
        let mut names = Vec::new();
        for column in named {
            match owned(context.get_raw(column)) {
                Value::Text(name) => names.push(name),
                _ => return Err(failure("the name of a column must be a text")),
            }
        }
        let rows = StoredRows::new(plain + names.len(), &self.objects.limits);
        Ok(Mutex::new(Object { names, rows }))
    }

    fn step(&self, context: &mut Context<'_>, object: &mut Mutex<Object>) -> Result<()> {
        let object = object.get_mut().unwrap_or_else(PoisonError::into_inner);
        let (plain, named) = self.kind.columns(context.len());
        for column in (0..plain).chain(named.map(|column| column + 1)) {
            object.rows.push(owned(context.get_raw(column)))?;
        }
        Ok(())
    }

    fn finalize(&self, _: &mut Context<'_>, object: Option<Mutex<Object>>) -> Result<Value> {
        let Some(object) = object else {
            return Ok(Value::Null);
        };
        let mut object = object.into_inner().unwrap_or_else(PoisonError::into_inner);
        if let Some(finish) = self.finish {
            object = finish(&object, &self.objects.limits)?;
        }
        Ok(Value::Integer(self.objects.add(object)))
    }
}

/// The aggregate functions that only collect rows, with the number of their arguments.
const COLLECTORS: [(&str, i32, Kind); 9] = [
    ("__perfetto_rows", -1, Kind::Plain),
    ("__intrinsic_array_agg", 1, Kind::Plain),
    ("__intrinsic_graph_agg", 2, Kind::Plain),
    ("__intrinsic_wakeup_graph_agg", 7, Kind::Plain),
    ("__intrinsic_counter_per_track_agg", 4, Kind::Plain),
    ("__intrinsic_timestamp_set_agg", 1, Kind::Plain),
    ("__intrinsic_interval_tree_intervals_agg", -1, Kind::Mixed),
    ("__intrinsic_row_dataframe_agg", -1, Kind::Named),
    ("repeatedfield", 1, Kind::Plain),
];

/// Registers the aggregate functions that only collect rows.
pub(crate) fn register(connection: &Connection, objects: &Objects) -> Result<()> {
    COLLECTORS.iter().try_for_each(|(name, count, kind)| {
        let collect = Collect {
            objects: objects.clone(),
            kind: *kind,
            finish: None,
        };
        connection.create_aggregate_function(*name, *count, FLAGS, collect)
    })
}
