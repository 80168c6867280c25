//! Databases of SQLite.

use std::fs::File;
use std::io::{self, Write};

use ferretto_tables::{ColumnKind, Table, TableId, Trace, Value};
use rusqlite::types::ValueRef;
use rusqlite::{Connection, params_from_iter};

use crate::engine::Engine;
use crate::relations::absent_tables;
use crate::syntax::lexer::quoted;

/// The relations that statements have made, and what they are.
const MADE: &str = "SELECT type, name, sql FROM sqlite_schema WHERE type IN ('table', 'view')
  AND sql NOT LIKE 'CREATE VIRTUAL TABLE%' AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\'
  ORDER BY rowid";

fn failed(error: impl std::fmt::Display) -> io::Error {
    io::Error::other(error.to_string())
}

/// Writes a database with all tables and views.
pub(super) fn write(engine: &mut Engine, trace: &Trace, out: &mut dyn Write) -> io::Result<()> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("db");
    let connection = Connection::open(&path).map_err(failed)?;
    fill(engine, trace, &connection)?;
    connection.close().map_err(|(_, error)| failed(error))?;
    io::copy(&mut File::open(&path)?, out)?;
    Ok(())
}

fn fill(engine: &mut Engine, trace: &Trace, connection: &Connection) -> io::Result<()> {
    // Nobody else reads the file before it is complete.
    connection
        .execute_batch("PRAGMA journal_mode = off; PRAGMA synchronous = off; BEGIN")
        .map_err(failed)?;
    for id in TableId::ALL {
        if let Some(table) = trace.table(id.spec().name) {
            copy_table(table, trace, connection).map_err(failed)?;
        }
    }
    for (name, columns) in absent_tables() {
        let columns: Vec<_> = columns.split(' ').map(quoted).collect();
        let sql = format!("CREATE TABLE {}({})", quoted(&name), columns.join(", "));
        connection.execute_batch(&sql).map_err(failed)?;
    }
    let mut made = Vec::new();
    let text = |value: &ValueRef<'_>| value.as_str().unwrap_or_default().to_owned();
    engine
        .each_row(MADE, &mut |row| {
            made.push([0, 1, 2].map(|at| text(&row[at])))
        })
        .map_err(|error| failed(error.message))?;
    for [kind, name, sql] in made {
        if kind == "view" {
            connection.execute_batch(&sql).map_err(failed)?;
        } else {
            copy_rows(engine, &name, connection)?;
        }
    }
    connection.execute_batch("COMMIT").map_err(failed)
}

/// Copies a table of the trace.
fn copy_table(table: &dyn Table, trace: &Trace, connection: &Connection) -> rusqlite::Result<()> {
    let spec = table.spec();
    let name = quoted(&format!("__intrinsic_{}", spec.name));
    let columns: Vec<String> = spec
        .columns
        .iter()
        .map(|column| {
            let kind = match column.kind {
                ColumnKind::Id => "INTEGER PRIMARY KEY",
                ColumnKind::F64 => "REAL",
                ColumnKind::Text => "TEXT",
                _ => "INTEGER",
            };
            format!("{} {kind}", quoted(column.name))
        })
        .collect();
    connection.execute_batch(&format!("CREATE TABLE {name}({})", columns.join(", ")))?;
    let marks = vec!["?"; columns.len()].join(", ");
    let mut insert = connection.prepare(&format!("INSERT INTO {name} VALUES ({marks})"))?;
    let views: Vec<_> = (0..columns.len()).map(|at| table.column(at)).collect();
    for row in 0..table.rows() {
        let values =
            views.iter().map(
                |column| match column.map_or(Value::Null, |column| column.get(row)) {
                    Value::Null => ValueRef::Null,
                    Value::Int(number) => ValueRef::Integer(number),
                    Value::Real(number) => ValueRef::Real(number),
                    Value::Text(text) => ValueRef::Text(trace.strings().text(text).as_bytes()),
                },
            );
        let values = values.map(rusqlite::types::ToSqlOutput::Borrowed);
        insert.execute(params_from_iter(values))?;
    }
    Ok(())
}

/// Copies a table that a statement has made.
fn copy_rows(engine: &mut Engine, name: &str, connection: &Connection) -> io::Result<()> {
    let mut columns = Vec::new();
    let sql = format!("SELECT name FROM pragma_table_info({})", text_literal(name));
    engine
        .each_row(&sql, &mut |row| {
            columns.push(quoted(row[0].as_str().unwrap_or_default()));
        })
        .map_err(|error| failed(error.message))?;
    let (table, marks) = (quoted(name), vec!["?"; columns.len()].join(", "));
    let create = format!("CREATE TABLE {table}({})", columns.join(", "));
    connection.execute_batch(&create).map_err(failed)?;
    let insert = format!("INSERT INTO {table} VALUES ({marks})");
    let mut insert = connection.prepare(&insert).map_err(failed)?;
    let mut failure = None;
    engine
        .each_row(&format!("SELECT * FROM {table}"), &mut |row| {
            if failure.is_none() {
                let values = row
                    .iter()
                    .map(|value| rusqlite::types::ToSqlOutput::Borrowed(*value));
                failure = insert.execute(params_from_iter(values)).err();
            }
        })
        .map_err(|error| failed(error.message))?;
    failure.map_or(Ok(()), |error| Err(failed(error)))
}

fn text_literal(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}
