//! The formats of results.

mod cell;
mod table;

use std::io::{self, Write};
use std::sync::Arc;

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::{Field, Schema, SchemaRef};
use datafusion::arrow::ipc::writer::FileWriter;
use datafusion::parquet::arrow::ArrowWriter;
use futures::StreamExt;

use crate::engine::Rows;
use crate::error::SqlError;

pub use cell::{Cell, Column, columns};

/// A format of results.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// Aligned columns, truncated to the width of the terminal.
    Table,
    /// Comma-separated values as the trace processor prints them: texts are not escaped.
    Csv,
    /// A JSON array of objects.
    Json,
    /// A JSON object on each line.
    Ndjson,
    /// An Arrow IPC file.
    Arrow,
    /// A Parquet file.
    Parquet,
}

fn io_error(error: io::Error) -> SqlError {
    SqlError::new(format!("cannot write the result: {error}"))
}

/// Writes a result and returns the number of rows. Formats other than `table` are streamed: their
/// memory does not grow with the rows.
pub async fn write(
    rows: Rows,
    format: Format,
    width: Option<usize>,
    out: &mut (dyn Write + Send),
) -> Result<u64, SqlError> {
    if rows.names.len() == 1 && rows.names[0] == "suppress_query_output" {
        let mut stream = rows.stream;
        while let Some(batch) = stream.next().await {
            batch?;
        }
        return Ok(0);
    }
    match format {
        Format::Table => table::write(rows, width, out).await,
        Format::Csv => csv(rows, out).await,
        Format::Json => json(rows, out, false).await,
        Format::Ndjson => json(rows, out, true).await,
        Format::Arrow => {
            let schema = renamed(&rows);
            let mut writer = FileWriter::try_new(out, &schema).map_err(SqlError::arrow)?;
            let count = each(rows, |batch| {
                let batch = RecordBatch::try_new(schema.clone(), batch.columns().to_vec());
                writer
                    .write(&batch.map_err(SqlError::arrow)?)
                    .map_err(SqlError::arrow)
            })
            .await?;
            writer.finish().map_err(SqlError::arrow)?;
            Ok(count)
        }
        Format::Parquet => {
            let schema = renamed(&rows);
            let mut writer = ArrowWriter::try_new(out, schema.clone(), None)
                .map_err(|e| SqlError::new(format!("cannot write Parquet: {e}")))?;
            let count = each(rows, |batch| {
                let batch = RecordBatch::try_new(schema.clone(), batch.columns().to_vec());
                writer
                    .write(&batch.map_err(SqlError::arrow)?)
                    .map_err(|e| SqlError::new(format!("cannot write Parquet: {e}")))
            })
            .await?;
            writer
                .close()
                .map_err(|e| SqlError::new(format!("cannot write Parquet: {e}")))?;
            Ok(count)
        }
    }
}

/// Returns the schema with the names from the SQL.
fn renamed(rows: &Rows) -> SchemaRef {
    let fields: Vec<Field> = rows
        .schema
        .fields()
        .iter()
        .zip(&rows.names)
        .map(|(field, name)| Field::new(name, field.data_type().clone(), true))
        .collect();
    Arc::new(Schema::new(fields))
}

async fn each(
    rows: Rows,
    mut write: impl FnMut(&RecordBatch) -> Result<(), SqlError>,
) -> Result<u64, SqlError> {
    let mut stream = rows.stream;
    let mut count = 0;
    while let Some(batch) = stream.next().await {
        let batch = batch?;
        count += batch.num_rows() as u64;
        write(&batch)?;
    }
    Ok(count)
}

async fn csv(rows: Rows, out: &mut (dyn Write + Send)) -> Result<u64, SqlError> {
    let header: Vec<String> = rows
        .names
        .iter()
        .map(|name| format!("\"{name}\""))
        .collect();
    writeln!(out, "{}", header.join(",")).map_err(io_error)?;
    each(rows, |batch| {
        let columns = columns(batch)?;
        let mut line: Vec<u8> = Vec::new();
        for row in 0..batch.num_rows() {
            for (index, column) in columns.iter().enumerate() {
                if index > 0 {
                    line.push(b',');
                }
                match column.cell(row) {
                    Cell::Null => line.extend_from_slice(b"\"[NULL]\""),
                    Cell::Int(value) => line.extend_from_slice(value.to_string().as_bytes()),
                    Cell::Real(value) => line.extend_from_slice(fixed(value).as_bytes()),
                    Cell::Text(text) => {
                        line.push(b'"');
                        line.extend_from_slice(text.as_bytes());
                        line.push(b'"');
                    }
                    Cell::Blob(_) => line.extend_from_slice(b"\"<raw bytes>\""),
                }
            }
            line.push(b'\n');
        }
        out.write_all(&line).map_err(io_error)
    })
    .await
}

/// Formats a real as C's `%f` does.
pub(crate) fn fixed(value: f64) -> String {
    if value.is_nan() {
        "nan".to_owned()
    } else if value.is_infinite() {
        if value > 0.0 { "inf" } else { "-inf" }.to_owned()
    } else {
        format!("{value:.6}")
    }
}

async fn json(rows: Rows, out: &mut (dyn Write + Send), lines: bool) -> Result<u64, SqlError> {
    let names: Vec<String> = rows
        .names
        .iter()
        .map(|name| serde_json::Value::from(name.as_str()).to_string())
        .collect();
    let mut first = true;
    if !lines {
        out.write_all(b"[").map_err(io_error)?;
    }
    let count = each(rows, |batch| {
        let columns = columns(batch)?;
        let mut text = String::new();
        for row in 0..batch.num_rows() {
            if !lines {
                text.push_str(if first { "\n  {" } else { ",\n  {" });
            } else {
                text.push('{');
            }
            first = false;
            for (index, column) in columns.iter().enumerate() {
                if index > 0 {
                    text.push(',');
                }
                text.push_str(&names[index]);
                text.push(':');
                match column.cell(row) {
                    Cell::Int(value) => text.push_str(&value.to_string()),
                    Cell::Real(value) if value.is_finite() => {
                        text.push_str(&serde_json::Value::from(value).to_string());
                    }
                    Cell::Text(value) => {
                        text.push_str(&serde_json::Value::from(value).to_string());
                    }
                    Cell::Blob(bytes) => {
                        let value = crate::functions::base64(bytes);
                        text.push_str(&serde_json::Value::from(value).to_string());
                    }
                    // JSON cannot represent infinity.
                    Cell::Null | Cell::Real(_) => text.push_str("null"),
                }
            }
            text.push('}');
            if lines {
                text.push('\n');
            }
        }
        out.write_all(text.as_bytes()).map_err(io_error)
    })
    .await?;
    if !lines {
        out.write_all(if first { b"]\n" } else { b"\n]\n" })
            .map_err(io_error)?;
    }
    Ok(count)
}
