//! Rows that are computed as a whole when they are read.

use std::fmt;
use std::sync::Arc;

use rusqlite::Result;
use rusqlite::types::{Value, ValueRef};

use crate::limits::{Charge, Limits};
use crate::sqlite::{Column, Condition, Op, Plan, Relation, Rows};

/// Rows in memory, one after another.
#[derive(Debug)]
pub(crate) struct StoredRows {
    /// The number of columns, at least 1.
    pub(crate) width: usize,
    values: Vec<Value>,
    charge: Charge,
}

impl Default for StoredRows {
    fn default() -> Self {
        Self::new(1, &Limits::default())
    }
}

impl StoredRows {
    pub(crate) fn new(width: usize, limits: &Limits) -> Self {
        Self {
            width: width.max(1),
            values: Vec::new(),
            charge: limits.charge(),
        }
    }

    /// Adds a value to the last row, or to a new row.
    pub(crate) fn push(&mut self, value: impl Into<Value>) -> Result<()> {
        let value = value.into();
        self.charge.add(&value)?;
        self.values.push(value);
        Ok(())
    }

    /// Adds values.
    pub(crate) fn extend(&mut self, values: impl IntoIterator<Item = Value>) -> Result<()> {
        values.into_iter().try_for_each(|value| self.push(value))
    }

    pub(crate) fn len(&self) -> usize {
        self.values.len() / self.width
    }

    pub(crate) fn row(&self, row: usize) -> &[Value] {
        &self.values[row * self.width..(row + 1) * self.width]
    }
}

type Compute = dyn Fn(&[Value]) -> Result<Arc<StoredRows>> + Send + Sync;

/// A relation whose rows are computed from its arguments.
pub(crate) struct Stored {
    columns: Vec<String>,
    arguments: Vec<String>,
    compute: Box<Compute>,
}

impl fmt::Debug for Stored {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stored")
            .field("columns", &self.columns)
            .finish_non_exhaustive()
    }
}

impl Stored {
    /// Returns a relation with these columns and arguments.
    pub(crate) fn new(
        columns: Vec<String>,
        arguments: Vec<String>,
        compute: impl Fn(&[Value]) -> Result<Arc<StoredRows>> + Send + Sync + 'static,
    ) -> Arc<Self> {
        Arc::new(Self {
            columns,
            arguments,
            compute: Box::new(compute),
        })
    }
}

impl Relation for Stored {
    fn columns(&self) -> Vec<Column> {
        let columns = self.columns.iter().map(Column::new);
        columns
            .chain(self.arguments.iter().map(Column::hidden))
            .collect()
    }

    fn plan(&self, conditions: &[Condition], _: &[(usize, bool)]) -> Option<Plan> {
        let mut plan = Plan {
            cost: 1e4,
            rows: 1e3,
            ..Plan::default()
        };
        for argument in 0..self.arguments.len() {
            let column = self.columns.len() + argument;
            let is_value = |c: &Condition| c.column == column && c.op == Op::Eq;
            let index = conditions.iter().position(|c| is_value(c) && c.is_usable);
            match index {
                Some(index) => plan.used.push(index),
                // The value comes from a table that must be read before.
                None if conditions.iter().any(is_value) => return None,
                None => {}
            }
        }
        Some(plan)
    }

    fn open(self: Arc<Self>) -> Box<dyn Rows> {
        let arguments = vec![Value::Null; self.arguments.len()];
        Box::new(Reader {
            relation: self,
            arguments,
            rows: Arc::default(),
            at: 0,
        })
    }
}

struct Reader {
    relation: Arc<Stored>,
    arguments: Vec<Value>,
    rows: Arc<StoredRows>,
    at: usize,
}

impl Rows for Reader {
    fn start(&mut self, conditions: &[(usize, Op, Value)]) -> Result<()> {
        let wanted = self.arguments.len();
        if conditions.len() < wanted {
            let given = conditions.len();
            let message = format!("the table function takes {wanted} arguments, not {given}");
            return Err(rusqlite::Error::ModuleError(message));
        }
        for (column, _, value) in conditions {
            let argument = column.checked_sub(self.relation.columns.len());
            if let Some(argument) = argument.and_then(|index| self.arguments.get_mut(index)) {
                *argument = value.clone();
            }
        }
        self.rows = (self.relation.compute)(&self.arguments)?;
        self.at = 0;
        Ok(())
    }

    fn advance(&mut self) -> Result<()> {
        self.at += 1;
        Ok(())
    }

    fn is_done(&self) -> bool {
        self.at >= self.rows.len()
    }

    fn value(&self, column: usize) -> ValueRef<'_> {
        let columns = self.relation.columns.len();
        let value = match column.checked_sub(columns) {
            Some(argument) => self.arguments.get(argument),
            None => self.rows.row(self.at).get(column),
        };
        value.map_or(ValueRef::Null, ValueRef::from)
    }

    fn row(&self) -> i64 {
        self.at as i64
    }
}
