//! The table `__intrinsic_table_ptr(object)`, whose columns are those of an object. Its columns
//! `c0` to `c31` are bound to names by `__intrinsic_table_ptr_bind(c0, 'name')`, which is rewritten
//! to a condition on a hidden column.

use std::sync::Arc;

use rusqlite::types::{Value, ValueRef};
use rusqlite::{Connection, Result};

use crate::objects::{Object, Objects, failure};
use crate::sqlite::{Column, Condition, Op, Plan, Relation, Relations, Rows};

/// The number of columns.
const COLUMNS: usize = 32;
/// The argument of the table.
const OBJECT: usize = COLUMNS;
/// The hidden column with the name of the first column.
const NAMES: usize = OBJECT + 1;

/// Returns the hidden column with the name of a column `c0` to `c31`.
pub(crate) fn name_column(column: &str) -> Option<String> {
    let number = column.strip_prefix(['c', 'C'])?;
    let is_known = number.parse().is_ok_and(|number: usize| number < COLUMNS);
    is_known.then(|| format!("n{number}"))
}

/// Returns a subquery with the columns of an object: their names, and those in the result.
pub(crate) fn pointer_sql(object: &str, names: &[(&str, String)]) -> String {
    let shown: Vec<String> = names
        .iter()
        .enumerate()
        .map(|(index, (_, shown))| format!("c{index} AS {shown}"))
        .collect();
    let bound: Vec<String> = names
        .iter()
        .enumerate()
        .map(|(index, (name, _))| format!("n{index} = '{}'", name.replace('\'', "''")))
        .collect();
    let (shown, bound) = (shown.join(", "), bound.join(" AND "));
    format!("(SELECT {shown} FROM __intrinsic_table_ptr({object}) WHERE {bound})")
}

/// Registers the table.
pub(crate) fn register(
    connection: &Connection,
    relations: &Relations,
    objects: &Objects,
) -> Result<()> {
    let pointer = Arc::new(Pointer(objects.clone()));
    relations.register(connection, "__intrinsic_table_ptr", pointer)
}

#[derive(Debug)]
struct Pointer(Objects);

impl Relation for Pointer {
    fn columns(&self) -> Vec<Column> {
        let columns = (0..COLUMNS).map(|n| Column::new(format!("c{n}")));
        let names = (0..COLUMNS).map(|n| Column::hidden(format!("n{n}")));
        columns
            .chain([Column::hidden("tab")])
            .chain(names)
            .collect()
    }

    fn plan(&self, conditions: &[Condition], _: &[(usize, bool)]) -> Option<Plan> {
        let mut plan = Plan {
            cost: 1e4,
            rows: 1e3,
            ..Plan::default()
        };
        let mut is_bound = [false; 1 + COLUMNS];
        for (index, condition) in conditions.iter().enumerate() {
            let bound = condition.column.checked_sub(OBJECT);
            let Some(bound) = bound.filter(|_| condition.op == Op::Eq) else {
                continue;
            };
            // The value comes from a table that must be read before.
            if !condition.is_usable {
                return None;
            }
            if !is_bound[bound] {
                is_bound[bound] = true;
                plan.used.push(index);
            }
        }
        Some(plan)
    }

    fn open(self: Arc<Self>) -> Box<dyn Rows> {
        Box::new(Reader {
            objects: self.0.clone(),
            object: Arc::default(),
            bound: [None; COLUMNS],
            at: 0,
        })
    }
}

struct Reader {
    objects: Objects,
    object: Arc<Object>,
    /// The columns of the object.
    bound: [Option<usize>; COLUMNS],
    at: usize,
}

impl Rows for Reader {
    fn start(&mut self, conditions: &[(usize, Op, Value)]) -> Result<()> {
        let object = conditions.iter().find(|(column, ..)| *column == OBJECT);
        let (_, _, number) = object.ok_or_else(|| failure("the table takes an object"))?;
        self.object = self.objects.get(number.into())?;
        self.at = 0;
        self.bound = [None; COLUMNS];
        for (column, _, value) in conditions {
            let Some(bound) = column.checked_sub(NAMES) else {
                continue;
            };
            let Value::Text(name) = value else {
                return Err(failure("the name of a column must be a text"));
            };
            let names = &self.object.names;
            let index = names.iter().position(|known| known == name);
            if index.is_none() && !names.is_empty() {
                let known = names.join(", ");
                return Err(failure(format!(
                    "the object has no column '{name}', but {known}"
                )));
            }
            self.bound[bound] = index;
        }
        Ok(())
    }

    fn advance(&mut self) -> Result<()> {
        self.at += 1;
        Ok(())
    }

    fn is_done(&self) -> bool {
        self.at >= self.object.rows.len()
    }

    fn value(&self, column: usize) -> ValueRef<'_> {
        let index = self.bound.get(column).copied().flatten();
        let value = index.and_then(|index| self.object.rows.row(self.at).get(index));
        value.map_or(ValueRef::Null, ValueRef::from)
    }

    fn row(&self) -> i64 {
        self.at as i64
    }
}
