//! Encodes results of queries as messages `QueryResult` with batches of cells.

use std::io;
use std::ops::ControlFlow;
use std::time::Instant;

use ferretto_wire::{Encoder, encode};
use rusqlite::types::ValueRef;

use super::fields::{cell_type, cells_batch, query_result, statement_result};
use crate::engine::{Rows, Statements};

/// The number of cells at which a batch is complete.
const MAX_CELLS: usize = 50_000;
/// The number of bytes at which a batch is complete.
const MAX_BYTES: usize = 128 * 1024;

/// The position of a statement in its text.
#[derive(Debug, Clone, Copy)]
pub(super) enum StatementHead {
    /// The statement is run, and the next one begins at this offset.
    Run { next: usize },
    /// There was no statement before this offset, which is the end.
    Nothing { next: usize },
    /// The text cannot be split into statements.
    Unknown,
}

/// Receives the rows of a statement, and sends them as messages.
pub(super) struct ResultWriter<'a> {
    /// The head of the first message, if the messages are `StatementResult`.
    statement: Option<StatementHead>,
    send: &'a mut dyn FnMut(Vec<u8>) -> io::Result<()>,
    /// The error of the first message that could not be sent.
    failure: Option<io::Error>,
    started: Instant,
    /// The encoded fields of the first message, until it is sent.
    head: Vec<u8>,
    columns: usize,
    cells: Vec<u8>,
    varints: Vec<u8>,
    floats: Vec<u8>,
    blobs: Vec<Vec<u8>>,
    texts: Vec<u8>,
    /// The bytes of the blobs.
    blob_bytes: usize,
}

fn varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

impl<'a> ResultWriter<'a> {
    pub(super) fn new(send: &'a mut dyn FnMut(Vec<u8>) -> io::Result<()>) -> Self {
        Self {
            statement: None,
            send,
            failure: None,
            started: Instant::now(),
            head: Vec::new(),
            columns: 0,
            cells: Vec::new(),
            varints: Vec::new(),
            floats: Vec::new(),
            blobs: Vec::new(),
            texts: Vec::new(),
            blob_bytes: 0,
        }
    }

    /// Returns a writer of messages `StatementResult`.
    pub(super) fn for_statement(
        send: &'a mut dyn FnMut(Vec<u8>) -> io::Result<()>,
        head: StatementHead,
    ) -> Self {
        Self {
            statement: Some(head),
            ..Self::new(send)
        }
    }

    /// Sends the last message.
    pub(super) fn end(mut self, error: Option<&str>) -> io::Result<()> {
        if let Some(failure) = self.failure {
            return Err(failure);
        }
        let message = self.message(true, error);
        (self.send)(message)
    }

    fn size(&self) -> usize {
        self.cells.len()
            + self.varints.len()
            + self.floats.len()
            + self.texts.len()
            + self.blob_bytes
    }

    fn message(&mut self, last: bool, error: Option<&str>) -> Vec<u8> {
        let head = std::mem::take(&mut self.head);
        let message = encode(|message| {
            message.raw(&head);
            if let Some(error) = error {
                message.string(query_result::ERROR, error);
            }
            message.nested(query_result::BATCH, |batch| self.batch(batch, last));
            message.double(
                query_result::ELAPSED_TIME_MS,
                self.started.elapsed().as_secs_f64() * 1000.0,
            );
        });
        self.cells.clear();
        self.varints.clear();
        self.floats.clear();
        self.blobs.clear();
        self.texts.clear();
        self.blob_bytes = 0;
        let Some(head) = self.statement else {
            return message;
        };
        // Only the first message has the position.
        self.statement = Some(StatementHead::Unknown);
        encode(|result| {
            result.bytes(statement_result::QUERY_RESULT, &message);
            match head {
                StatementHead::Run { next } => {
                    result.varint(statement_result::NEXT_OFFSET, next as u64);
                    result.bool(statement_result::IS_STATEMENT, true);
                }
                StatementHead::Nothing { next } => {
                    result.varint(statement_result::NEXT_OFFSET, next as u64);
                    result.bool(statement_result::IS_STATEMENT, false);
                }
                StatementHead::Unknown => {}
            }
        })
    }

    fn batch(&self, batch: &mut Encoder<'_, Vec<u8>>, last: bool) {
        let parts = [
            (cells_batch::CELLS, &self.cells),
            (cells_batch::VARINT_CELLS, &self.varints),
            (cells_batch::FLOAT64_CELLS, &self.floats),
        ];
        for (field, bytes) in parts {
            if !bytes.is_empty() {
                batch.bytes(field, bytes);
            }
        }
        for blob in &self.blobs {
            batch.bytes(cells_batch::BLOB_CELLS, blob);
        }
        if !self.texts.is_empty() {
            batch.bytes(cells_batch::STRING_CELLS, &self.texts);
        }
        if last {
            batch.bool(cells_batch::IS_LAST_BATCH, true);
        }
    }

    fn cell(&mut self, value: ValueRef<'_>) {
        let kind = match value {
            ValueRef::Null => cell_type::NULL,
            ValueRef::Integer(value) => {
                varint(&mut self.varints, value.cast_unsigned());
                cell_type::VARINT
            }
            ValueRef::Real(value) => {
                self.floats.extend_from_slice(&value.to_le_bytes());
                cell_type::FLOAT64
            }
            ValueRef::Text(text) => {
                // Texts are separated by NUL, so they end at their first NUL.
                let text = text.split(|byte| *byte == 0).next().unwrap_or_default();
                match std::str::from_utf8(text) {
                    Ok(_) => self.texts.extend_from_slice(text),
                    Err(_) => {
                        let text = String::from_utf8_lossy(text);
                        self.texts.extend_from_slice(text.as_bytes());
                    }
                }
                self.texts.push(0);
                cell_type::STRING
            }
            ValueRef::Blob(bytes) => {
                self.blobs.push(bytes.to_vec());
                self.blob_bytes += bytes.len();
                cell_type::BLOB
            }
        };
        self.cells.push(kind as u8);
    }
}

impl Rows for ResultWriter<'_> {
    fn last(&mut self, names: &[String], statements: &Statements) {
        self.columns = names.len();
        self.head = encode(|message| {
            for name in names {
                message.string(query_result::COLUMN_NAMES, name);
            }
            message.varint(query_result::STATEMENT_COUNT, statements.count);
            message.varint(
                query_result::STATEMENT_WITH_OUTPUT_COUNT,
                statements.with_output,
            );
            message.string(query_result::LAST_STATEMENT_SQL, &statements.last);
        });
    }

    fn row(&mut self, values: &[ValueRef<'_>]) -> ControlFlow<()> {
        for value in values {
            self.cell(*value);
        }
        if self.cells.len() + self.columns > MAX_CELLS || self.size() >= MAX_BYTES {
            let message = self.message(false, None);
            if let Err(error) = (self.send)(message) {
                self.failure = Some(error);
                return ControlFlow::Break(());
            }
        }
        ControlFlow::Continue(())
    }
}
