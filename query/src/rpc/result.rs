//! Encodes results of queries as messages `QueryResult` with batches of cells.

use std::time::Instant;

use datafusion::arrow::array::RecordBatch;
use ferretto_wire::{Encoder, encode};

use crate::error::SqlError;
use crate::output::{Cell, columns};

/// The number of cells at which a batch is complete.
const MAX_CELLS: usize = 50_000;
/// The number of bytes at which a batch is complete.
const MAX_BYTES: usize = 128 * 1024;

/// Collects cells and encodes them as messages.
pub(super) struct ResultWriter {
    started: Instant,
    /// The encoded fields of the first message, until it is sent.
    head: Option<Vec<u8>>,
    columns: usize,
    cells: Vec<u8>,
    varints: Vec<u8>,
    floats: Vec<u8>,
    blobs: Vec<Vec<u8>>,
    texts: Vec<u8>,
    bytes: usize,
}

/// The counts of a query's statements, and the text of the last one.
#[derive(Debug, Default, Clone)]
pub(super) struct Statements {
    pub(super) count: u64,
    pub(super) with_output: u64,
    pub(super) last: String,
}

fn varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

impl ResultWriter {
    pub(super) fn new(started: Instant) -> Self {
        Self {
            started,
            head: Some(Vec::new()),
            columns: 0,
            cells: Vec::new(),
            varints: Vec::new(),
            floats: Vec::new(),
            blobs: Vec::new(),
            texts: Vec::new(),
            bytes: 0,
        }
    }

    /// Sets the fields of the first message.
    pub(super) fn begin(&mut self, names: &[String], statements: &Statements) {
        self.columns = names.len();
        self.head = Some(encode(|message| {
            for name in names {
                message.string(1, name);
            }
            message.varint(4, statements.count);
            message.varint(5, statements.with_output);
            message.string(6, &statements.last);
        }));
    }

    /// Adds rows, and sends complete batches.
    pub(super) fn rows(
        &mut self,
        batch: &RecordBatch,
        send: &mut dyn FnMut(Vec<u8>) -> std::io::Result<()>,
    ) -> Result<(), SqlError> {
        let columns = columns(batch)?;
        for row in 0..batch.num_rows() {
            for column in &columns {
                let kind = match column.cell(row) {
                    Cell::Null => 1,
                    Cell::Int(value) => {
                        let before = self.varints.len();
                        varint(&mut self.varints, value.cast_unsigned());
                        self.bytes += self.varints.len() - before;
                        2
                    }
                    Cell::Real(value) => {
                        self.floats.extend_from_slice(&value.to_le_bytes());
                        self.bytes += 8;
                        3
                    }
                    Cell::Text(text) => {
                        // Texts are separated by NUL, so they end at their first NUL.
                        let text = text.split('\0').next().unwrap_or_default();
                        self.texts.extend_from_slice(text.as_bytes());
                        self.texts.push(0);
                        self.bytes += text.len() + 1;
                        4
                    }
                    Cell::Blob(bytes) => {
                        self.blobs.push(bytes.to_vec());
                        self.bytes += bytes.len();
                        5
                    }
                };
                self.cells.push(kind);
                self.bytes += 1;
            }
            if self.cells.len() + self.columns > MAX_CELLS || self.bytes >= MAX_BYTES {
                let message = self.message(false, None);
                send(message).map_err(gone)?;
            }
        }
        Ok(())
    }

    /// Returns the last message.
    pub(super) fn end(&mut self, error: Option<&str>) -> Vec<u8> {
        self.message(true, error)
    }

    fn message(&mut self, last: bool, error: Option<&str>) -> Vec<u8> {
        let head = self.head.take().unwrap_or_default();
        let message = encode(|message| {
            message.raw(&head);
            if let Some(error) = error {
                message.string(2, error);
            }
            message.nested(3, |batch| self.batch(batch, last));
            message.double(7, self.started.elapsed().as_secs_f64() * 1000.0);
        });
        self.cells.clear();
        self.varints.clear();
        self.floats.clear();
        self.blobs.clear();
        self.texts.clear();
        self.bytes = 0;
        message
    }

    fn batch(&self, batch: &mut Encoder<'_, Vec<u8>>, last: bool) {
        if !self.cells.is_empty() {
            batch.bytes(1, &self.cells);
        }
        if !self.varints.is_empty() {
            batch.bytes(2, &self.varints);
        }
        if !self.floats.is_empty() {
            batch.bytes(3, &self.floats);
        }
        for blob in &self.blobs {
            batch.bytes(4, blob);
        }
        if !self.texts.is_empty() {
            batch.bytes(5, &self.texts);
        }
        if last {
            batch.bool(6, true);
        }
    }
}

/// Returns the error for a client that disconnected.
pub(super) fn gone(error: std::io::Error) -> SqlError {
    SqlError::new(format!("the client has disconnected: {error}"))
}
