//! Definitions of tables, views, indexes and span joins.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};

use super::{CREATED, Engine};
use crate::error::SqlError;
use crate::functions::kinds;
use crate::intervals::{SpanColumns, SpanSide, span_join};
use crate::limits::Limits;
use crate::relations::{Stored, StoredRows};
use crate::sqlite::{Callee, Relation, owned};
use crate::syntax::lexer::{Token, closing, quoted, text, trim};
use crate::syntax::statement::{Definition, SpanJoin};

impl Engine {
    /// Creates a view.
    pub(super) fn define_view(&mut self, definition: &Definition) -> Result<(), SqlError> {
        let body = self.expanded(&definition.body)?;
        let name = quoted(&definition.name);
        let columns: Vec<String> = definition
            .columns
            .iter()
            .map(|column| quoted(&column.name))
            .collect();
        if !columns.is_empty() {
            self.check_columns(&body.sql, definition)?;
        }
        if definition.replace {
            self.connection
                .execute_batch(&format!("DROP VIEW IF EXISTS {name}"))?;
        }
        let head = format!("CREATE VIEW {name} AS ");
        let created = self
            .connection
            .execute_batch(&format!("{head}{}", body.sql));
        created.map_err(|error| body.shifted(error, head.len()))
    }

    /// Creates a table with the rows of a query.
    pub(super) fn define_table(&mut self, definition: &Definition) -> Result<(), SqlError> {
        let body = self.expanded(&definition.body)?;
        let names = self
            .column_names(&body.sql)
            .map_err(|error| body.located(error))?;
        if !definition.columns.is_empty() {
            self.check_columns(&body.sql, definition)?;
        }
        let name = quoted(&definition.name);
        // Rows are read before a table of the same name is replaced, as they may be its own.
        let new = format!("__perfetto_new_{}", definition.name);
        let new = quoted(&new);
        // Columns without a type have no affinity: values are kept and compared as they are.
        let columns: Vec<String> = names.iter().map(|name| quoted(name)).collect();
        let head = format!("INSERT INTO {new} ");
        // A row before the first one lets the numbers of rows, `_auto_id`, begin at 0.
        self.connection.execute_batch(&format!(
            "CREATE TABLE {new}({}); INSERT INTO {new}(rowid) VALUES (-1)",
            columns.join(", ")
        ))?;
        let mut filled = self
            .connection
            .execute_batch(&format!("{head}{}", body.sql))
            .map_err(|error| body.shifted(error, head.len()));
        if filled.is_ok() {
            self.connection
                .execute_batch(&format!("DELETE FROM {new} WHERE rowid = -1"))?;
            filled = self.check_types(&definition.name, &new, &names);
        }
        if filled.is_ok() {
            let drop = if definition.replace {
                format!("DROP TABLE IF EXISTS {name};")
            } else {
                String::new()
            };
            let rename = format!("{drop} ALTER TABLE {new} RENAME TO {name}");
            filled = self
                .connection
                .execute_batch(&rename)
                .map_err(|error| match error {
                    // The offset is that in our own statement.
                    rusqlite::Error::SqlInputError { msg, .. } => SqlError::new(msg),
                    other => other.into(),
                });
        }
        match filled {
            Ok(()) => self.read_only.add(&definition.name),
            Err(_) => self
                .connection
                .execute_batch(&format!("DROP TABLE IF EXISTS {new}"))?,
        }
        filled
    }

    /// Fails if a column of a new table has numbers and texts, and makes numbers real if some are.
    fn check_types(&self, name: &str, table: &str, columns: &[String]) -> Result<(), SqlError> {
        let mut reals = Vec::new();
        for columns in columns.chunks(kinds::MAX_COLUMNS) {
            let list: Vec<String> = columns.iter().map(|column| quoted(column)).collect();
            let sql = format!("SELECT {}({}) FROM {table}", kinds::NAME, list.join(", "));
            let kinds: Vec<u8> = self.connection.query_row(&sql, [], |row| row.get(0))?;
            for (column, kinds) in columns.iter().zip(kinds) {
                if kinds & kinds::TEXT > 0 && kinds & (kinds::INTEGER | kinds::REAL) > 0 {
                    let message = format!(
                        "The column '{column}' of the table '{name}' has numbers and texts. \
                         Convert them with CAST, or use CREATE TABLE."
                    );
                    return Err(SqlError::new(message));
                }
                if kinds & kinds::INTEGER > 0 && kinds & kinds::REAL > 0 {
                    let column = quoted(column);
                    reals.push(format!("{column} = CAST({column} AS REAL)"));
                }
            }
        }
        if !reals.is_empty() {
            let sql = format!("UPDATE {table} SET {}", reals.join(", "));
            self.connection.execute_batch(&sql)?;
        }
        Ok(())
    }

    /// Returns the names of the columns of a query.
    pub(super) fn column_names(&self, sql: &str) -> rusqlite::Result<Vec<String>> {
        let statement = self.connection.prepare(sql)?;
        Ok(statement.column_names().map(str::to_owned).collect())
    }

    /// Fails if a query lacks a declared column.
    fn check_columns(&self, sql: &str, definition: &Definition) -> Result<(), SqlError> {
        let names = self.column_names(sql)?;
        for column in &definition.columns {
            if !names
                .iter()
                .any(|name| name.eq_ignore_ascii_case(&column.name))
            {
                let (table, column) = (&definition.name, &column.name);
                let message = format!(
                    "'{table}' declares the column '{column}', which its query does not have."
                );
                return Err(SqlError::new(message));
            }
        }
        Ok(())
    }

    /// Creates an index of a table that a statement has created. Tables of the trace make their
    /// own indexes.
    pub(super) fn define_index(
        &mut self,
        name: &str,
        replace: bool,
        on: &[Token],
    ) -> Result<(), SqlError> {
        if !replace && self.indexes.contains(&name.to_ascii_lowercase()) {
            return Err(SqlError::new(format!("The index '{name}' exists already.")));
        }
        if let Some(columns) = self.trace_columns(on) {
            // Fails if one does not exist.
            self.column_names(&columns)?;
            self.indexes.insert(name.to_ascii_lowercase());
            return Ok(());
        }
        let name = quoted(name);
        if replace {
            self.connection
                .execute_batch(&format!("DROP INDEX IF EXISTS {name}"))?;
        }
        let sql = format!("CREATE INDEX {name} ON {}", text(on));
        let created = self.connection.execute_batch(&sql);
        created.map_err(|error| SqlError::new(SqlError::from(error).message))
    }

    /// Returns the query of the columns in the rest of the statement `CREATE PERFETTO INDEX i ON`,
    /// if they are those of a table that makes its own indexes.
    fn trace_columns(&self, on: &[Token]) -> Option<String> {
        let open = on.iter().position(|token| token.is("("))?;
        let table = text(trim(&on[..open]));
        self.relations.get(&table)?;
        let columns = text(&on[open + 1..closing(on, open)?]);
        Some(format!("SELECT {columns} FROM {table}"))
    }

    pub(super) fn drop_index(&mut self, name: &str) -> Result<(), SqlError> {
        if self.indexes.remove(&name.to_ascii_lowercase()) {
            return Ok(());
        }
        Ok(self
            .connection
            .execute_batch(&format!("DROP INDEX {}", quoted(name)))?)
    }

    /// Creates a relation that the engine computes, instead of one with its name.
    pub(super) fn replace_relation(
        &mut self,
        name: &str,
        relation: Arc<dyn Relation>,
    ) -> Result<(), SqlError> {
        let table = quoted(name);
        self.connection
            .execute_batch(&format!("DROP TABLE IF EXISTS {table}"))?;
        self.relations.set(name, relation);
        let created = self
            .connection
            .execute_batch(&format!("CREATE VIRTUAL TABLE {table} USING {CREATED}"));
        if created.is_err() {
            self.relations.remove(name);
        }
        Ok(created?)
    }

    /// Returns true if a table or view has this name. Fails if it must not have one.
    pub(super) fn exists(&self, name: &str, is_allowed: bool) -> Result<bool, SqlError> {
        let mut statement = self
            .connection
            .prepare_cached("SELECT 1 FROM sqlite_schema WHERE name = ? COLLATE NOCASE")?;
        let exists = statement.exists([name])?;
        if exists && !is_allowed {
            return Err(SqlError::new(format!("The table '{name}' exists already.")));
        }
        Ok(exists)
    }

    /// Creates the table of a span join. The inputs are read when the table is.
    pub(super) fn define_span_join(&mut self, join: &SpanJoin) -> Result<(), SqlError> {
        if self.exists(&join.name, join.if_new)? {
            return Ok(());
        }
        let [left, right] = &join.inputs;
        if let (Some(a), Some(b)) = (&left.1, &right.1)
            && !a.eq_ignore_ascii_case(b)
        {
            let message = format!(
                "The inputs of a span join are partitioned by one column, not by '{a}' and '{b}'."
            );
            return Err(SqlError::new(message));
        }
        let key = left.1.as_deref().or(right.1.as_deref());
        let mut names = vec!["ts".to_owned(), "dur".to_owned()];
        names.extend(key.map(str::to_owned));
        let mut sides = Vec::new();
        for (table, partition) in [left, right] {
            let sql = format!("SELECT * FROM {}", quoted(table));
            let columns = self.column_names(&sql)?;
            sides.push((
                sql,
                span_columns(table, &columns, partition.as_deref(), key)?,
            ));
            let (_, side) = &sides[sides.len() - 1];
            for column in &side.others {
                if names
                    .iter()
                    .any(|name| name.eq_ignore_ascii_case(&columns[*column]))
                {
                    let message = format!(
                        "Both inputs of the span join have a column '{}'.",
                        columns[*column]
                    );
                    return Err(SqlError::new(message));
                }
                names.push(columns[*column].clone());
            }
        }
        let callee = Arc::downgrade(&self.callee);
        let (kind, runs, limits) = (join.kind, self.runs.clone(), self.limits.clone());
        let kept: Mutex<Option<(u64, Arc<StoredRows>)>> = Mutex::default();
        let relation = Stored::new(names, Vec::new(), move |_| {
            let run = runs.load(Ordering::Relaxed);
            let known = kept.lock().unwrap_or_else(PoisonError::into_inner).clone();
            if let Some((_, rows)) = known.filter(|(of, _)| *of == run) {
                return Ok(rows);
            }
            let closed = || rusqlite::Error::ModuleError("the session is closed".to_owned());
            let callee = callee.upgrade().ok_or_else(closed)?;
            let left = read(&callee, &sides[0].0, &limits)?;
            let right = read(&callee, &sides[1].0, &limits)?;
            let rows = Arc::new(span_join(
                kind,
                &limits,
                &SpanSide {
                    rows: &left,
                    columns: &sides[0].1,
                },
                &SpanSide {
                    rows: &right,
                    columns: &sides[1].1,
                },
            )?);
            *kept.lock().unwrap_or_else(PoisonError::into_inner) = Some((run, rows.clone()));
            Ok(rows)
        });
        self.replace_relation(&join.name, relation)
    }
}

/// Finds the columns of an input of a span join.
fn span_columns(
    table: &str,
    columns: &[String],
    partition: Option<&str>,
    key: Option<&str>,
) -> Result<SpanColumns, SqlError> {
    let find = |name: &str| {
        let index = columns
            .iter()
            .position(|column| column.eq_ignore_ascii_case(name));
        index.ok_or_else(|| {
            SqlError::new(format!(
                "The input '{table}' of the span join has no column '{name}'."
            ))
        })
    };
    let (ts, dur) = (find("ts")?, find("dur")?);
    let partition = partition.map(find).transpose()?;
    let is_other = |column: &usize| {
        ![Some(ts), Some(dur)].contains(&Some(*column))
            && !key.is_some_and(|key| columns[*column].eq_ignore_ascii_case(key))
    };
    let others = (0..columns.len()).filter(is_other).collect();
    Ok(SpanColumns {
        ts,
        dur,
        key: partition,
        others,
    })
}

/// Reads all rows of a query.
pub(super) fn read(callee: &Callee, sql: &str, limits: &Limits) -> rusqlite::Result<StoredRows> {
    let mut statement = callee.prepare(sql)?;
    let mut out = StoredRows::new(statement.column_count(), limits);
    let mut rows = statement.raw_query();
    while let Some(row) = rows.next()? {
        for column in 0..out.width {
            out.push(owned(row.get_ref(column)?))?;
        }
    }
    Ok(out)
}
