//! The client's side of the stream on a Unix socket.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;

use ferretto_wire::{Fields, encode};
use rusqlite::types::ValueRef;

use super::fields::{
    arguments, cell_type, cells_batch, message, method, query_result, result, statement_arguments,
    statement_result, stream,
};
use crate::engine::Rows;
use crate::error::SqlError;

/// The largest size of a message.
const MAX_MESSAGE: u64 = 256 << 20;

/// A connection to a server.
#[derive(Debug)]
pub struct Client {
    stream: io::BufReader<UnixStream>,
    sent: u64,
}

fn malformed() -> SqlError {
    SqlError::new("The server's reply is malformed.")
}

/// Returns the error of a broken connection.
fn broken(error: &io::Error) -> SqlError {
    SqlError::new(format!("The connection to the server broke: {error}."))
}

/// A part of a result.
#[derive(Debug, Default)]
struct Part {
    names: Vec<String>,
    error: Option<String>,
    batches: Vec<Vec<u8>>,
    is_last: bool,
}

impl Part {
    /// Reads a message `QueryResult`.
    fn of(message: &[u8]) -> Self {
        let mut part = Self::default();
        for field in Fields::new(message).flatten() {
            let text = || field.as_str_lossy().map(|text| text.into_owned());
            match field.number {
                query_result::COLUMN_NAMES => part.names.extend(text()),
                query_result::ERROR => part.error = text().filter(|text| !text.is_empty()),
                query_result::BATCH => {
                    let batch = field.as_bytes().unwrap_or_default();
                    let last = Fields::find(cells_batch::IS_LAST_BATCH, batch)
                        .and_then(|field| field.as_bool());
                    part.is_last |= last.unwrap_or(false);
                    part.batches.push(batch.to_vec());
                }
                _ => {}
            }
        }
        part
    }
}

/// Calls `each` for each row of a message `CellsBatch`, until it returns false.
fn rows_of(
    batch: &[u8],
    columns: usize,
    each: &mut dyn FnMut(&[ValueRef<'_>]) -> bool,
) -> Result<bool, SqlError> {
    let mut kinds: Vec<u64> = Vec::new();
    let (mut varints, mut floats) = (Vec::new(), Vec::new());
    let (mut blobs, mut texts) = (Vec::new(), Vec::new());
    for field in Fields::new(batch).flatten() {
        let bytes = field.as_bytes().unwrap_or_default();
        match field.number {
            cells_batch::CELLS => kinds.extend(field.as_varints()),
            cells_batch::VARINT_CELLS => varints.extend(field.as_varints()),
            cells_batch::FLOAT64_CELLS => {
                floats.extend(bytes.as_chunks().0.iter().map(|it| f64::from_le_bytes(*it)))
            }
            cells_batch::BLOB_CELLS => blobs.push(bytes),
            cells_batch::STRING_CELLS => texts.extend(bytes.split(|byte| *byte == 0)),
            _ => {}
        }
    }
    let (mut varints, mut floats) = (varints.into_iter(), floats.into_iter());
    let (mut blobs, mut texts) = (blobs.into_iter(), texts.into_iter());
    if columns == 0 || !kinds.len().is_multiple_of(columns) {
        return if kinds.is_empty() {
            Ok(true)
        } else {
            Err(malformed())
        };
    }
    let mut row = Vec::with_capacity(columns);
    for kind in kinds {
        row.push(match kind {
            cell_type::NULL => ValueRef::Null,
            cell_type::VARINT => {
                ValueRef::Integer(varints.next().ok_or_else(malformed)?.cast_signed())
            }
            cell_type::FLOAT64 => ValueRef::Real(floats.next().ok_or_else(malformed)?),
            cell_type::STRING => ValueRef::Text(texts.next().ok_or_else(malformed)?),
            cell_type::BLOB => ValueRef::Blob(blobs.next().ok_or_else(malformed)?),
            _ => return Err(malformed()),
        });
        if row.len() == columns {
            if !each(&row) {
                return Ok(false);
            }
            row.clear();
        }
    }
    Ok(true)
}

impl Client {
    /// Connects to the server at a socket.
    ///
    /// # Errors
    ///
    /// Fails if no server listens there.
    pub fn connect(path: &Path) -> io::Result<Self> {
        Ok(Self {
            stream: io::BufReader::new(UnixStream::connect(path)?),
            sent: 0,
        })
    }

    /// Returns the socket.
    pub fn socket(&self) -> &UnixStream {
        self.stream.get_ref()
    }

    /// Sends a request.
    fn send(&mut self, method: u64, arguments: (u32, &[u8])) -> Result<(), SqlError> {
        let number = self.sent;
        self.sent += 1;
        let request = encode(|stream| {
            stream.nested(stream::MESSAGE, |m| {
                m.varint(message::SEQUENCE, number);
                m.varint(message::REQUEST, method);
                m.bytes(arguments.0, arguments.1);
            });
        });
        let sent = self.stream.get_mut().write_all(&request);
        sent.map_err(|error| broken(&error))
    }

    /// Receives a reply, and returns the content of this field.
    fn receive(&mut self, field: u32) -> Result<Vec<u8>, SqlError> {
        let mut byte = || -> Result<u8, SqlError> {
            let mut byte = [0];
            let read = self.stream.read_exact(&mut byte);
            read.map_err(|error| broken(&error)).map(|()| byte[0])
        };
        if byte()? != 0x0a {
            return Err(malformed());
        }
        let (mut length, mut shift) = (0, 0);
        loop {
            let next = byte()?;
            length |= u64::from(next & 0x7f) << shift;
            shift += 7;
            if next < 0x80 {
                break;
            }
            if shift > 35 {
                return Err(malformed());
            }
        }
        if length > MAX_MESSAGE {
            return Err(malformed());
        }
        let mut reply = Vec::new();
        let read = (&mut self.stream).take(length).read_to_end(&mut reply);
        read.map_err(|error| broken(&error))?;
        if reply.len() as u64 != length {
            return Err(broken(&io::ErrorKind::UnexpectedEof.into()));
        }
        let error = Fields::find(message::FATAL_ERROR, &reply);
        if let Some(error) = error.and_then(|it| it.as_str_lossy()) {
            return Err(SqlError::new(error.into_owned()));
        }
        let content = Fields::find(field, &reply).and_then(|field| field.as_bytes());
        match content {
            Some(content) => Ok(content.to_vec()),
            None => Err(SqlError::new("The server does not know this request.")),
        }
    }

    /// Runs all statements of a text, and passes their results to `rows`.
    ///
    /// # Errors
    ///
    /// Fails with the error of the first statement that fails, or if the connection breaks.
    pub fn run(&mut self, sql: &str, rows: &mut dyn Rows) -> Result<(), SqlError> {
        let (mut offset, mut count) = (0, 0_usize);
        loop {
            let arguments = encode(|m| {
                m.string(statement_arguments::SQL, sql);
                m.varint(statement_arguments::OFFSET, offset);
            });
            self.send(method::STATEMENT, (arguments::STATEMENT, &arguments))?;
            let (mut columns, mut next, mut wants_more) = (0, None, true);
            loop {
                let reply = self.receive(result::STATEMENT)?;
                let number = |field| Fields::find(field, &reply).and_then(|it| it.as_u64());
                if number(statement_result::IS_STATEMENT) == Some(1) {
                    next = number(statement_result::NEXT_OFFSET);
                }
                let result = Fields::find(statement_result::QUERY_RESULT, &reply)
                    .and_then(|field| field.as_bytes());
                let part = Part::of(result.unwrap_or_default());
                if !part.names.is_empty() {
                    columns = part.names.len();
                    wants_more &= rows.columns(&part.names).is_continue();
                }
                for batch in part.batches {
                    let mut each = |row: &[ValueRef<'_>]| rows.row(row).is_continue();
                    wants_more = wants_more && rows_of(&batch, columns, &mut each)?;
                }
                if let Some(error) = part.error {
                    return Err(SqlError::new(error));
                }
                if !wants_more {
                    return Ok(());
                }
                if part.is_last {
                    break;
                }
            }
            count += usize::from(next.is_some());
            match next {
                Some(next) if next > offset => offset = next,
                None if count == 0 => return Err(SqlError::new("No valid SQL to run.")),
                _ => return Ok(()),
            }
        }
    }
}
