//! The stream of requests and replies of `/rpc`.

use std::io::{self, Read, Write};

use ferretto_http::{Budget, Buffer};
use ferretto_wire::{Encoder, Fields, encode};

use super::fields::{
    append_trace_data_result, arguments, compute_metric_result, create_summarizer_result,
    destroy_summarizer_result, export_result, finalize_data_result, message, metatrace_result,
    method, query_summarizer_result, register_sql_package_result, result, stream, summary_result,
    update_summarizer_result,
};
use super::result::{ResultWriter, StatementHead};
use super::state::Processor;
use super::turns::{PATIENCE, Turn, Turns};
use crate::error::SqlError;

/// The server's side of a stream.
#[derive(Debug)]
pub(super) struct Stream {
    received: i64,
    sent: i64,
    buffer: Buffer,
}

/// The number of bytes to read at a time.
const PIECE: usize = 1 << 16;

/// Serves requests until the end of the input, as upstream's program does on standard input and
/// output. Unix sockets carry the same stream.
///
/// # Errors
///
/// Fails if the input cannot be read or the output cannot be written.
pub fn serve_stream(
    input: &mut impl Read,
    output: &mut impl Write,
    processor: Processor,
) -> io::Result<()> {
    let turns = Turns::new(processor, PATIENCE);
    // A single client: a message is the limit.
    let mut stream = Stream::new(&Budget::new(u64::MAX));
    let mut piece = vec![0; PIECE];
    loop {
        let count = input.read(&mut piece)?;
        let mut send = |message: Vec<u8>| {
            output.write_all(&message)?;
            output.flush()
        };
        if count == 0 || !stream.feed(&piece[..count], &|| turns.take(None), &mut send)? {
            return Ok(());
        }
    }
}

/// A request whose reply is one message.
struct Call {
    method: u64,
    arguments: u32,
    reply: u32,
    /// The field of the error in the reply.
    error: u32,
    run: fn(&mut Processor, &[u8]) -> Vec<u8>,
}

/// Metrics of the first version are programs of a server of upstream's: they are refused.
fn compute_metric(_: &mut Processor, _: &[u8]) -> Vec<u8> {
    encode(|m| m.string(compute_metric_result::ERROR, NO_METRICS))
}

/// The reason why metrics of the first version are refused.
pub(super) const NO_METRICS: &str =
    "computing metrics is not supported: use SQL, or trace summaries with metrics of version 2";

const CALLS: [Call; 6] = [
    Call {
        method: method::COMPUTE_METRIC,
        arguments: arguments::COMPUTE_METRIC,
        reply: result::COMPUTE_METRIC,
        error: compute_metric_result::ERROR,
        run: compute_metric,
    },
    Call {
        method: method::SUMMARIZE_TRACE,
        arguments: arguments::SUMMARIZE_TRACE,
        reply: result::SUMMARIZE_TRACE,
        error: summary_result::ERROR,
        run: Processor::trace_summary,
    },
    Call {
        method: method::CREATE_SUMMARIZER,
        arguments: arguments::CREATE_SUMMARIZER,
        reply: result::CREATE_SUMMARIZER,
        error: create_summarizer_result::ERROR,
        run: Processor::create_summarizer,
    },
    Call {
        method: method::UPDATE_SUMMARIZER,
        arguments: arguments::UPDATE_SUMMARIZER,
        reply: result::UPDATE_SUMMARIZER,
        error: update_summarizer_result::ERROR,
        run: Processor::update_summarizer,
    },
    Call {
        method: method::QUERY_SUMMARIZER,
        arguments: arguments::QUERY_SUMMARIZER,
        reply: result::QUERY_SUMMARIZER,
        error: query_summarizer_result::ERROR,
        run: Processor::query_summarizer,
    },
    Call {
        method: method::DESTROY_SUMMARIZER,
        arguments: arguments::DESTROY_SUMMARIZER,
        reply: result::DESTROY_SUMMARIZER,
        error: destroy_summarizer_result::ERROR,
        run: Processor::destroy_summarizer,
    },
];

/// The size of the parts of an export.
const EXPORT_PART: usize = 1 << 20;

/// Sends an export as messages `ExportResult`.
struct ExportParts<'a> {
    send: Send<'a>,
    bytes: Vec<u8>,
    /// The error of the first message that could not be sent.
    failure: Option<io::Error>,
}

impl<'a> ExportParts<'a> {
    fn new(send: Send<'a>) -> Self {
        Self {
            send,
            bytes: Vec::new(),
            failure: None,
        }
    }

    /// Sends the last message.
    fn end(self, done: io::Result<()>) -> io::Result<()> {
        if let Some(failure) = self.failure {
            return Err(failure);
        }
        (self.send)(encode(|result| {
            match done {
                Ok(()) => result.bytes(export_result::DATA, &self.bytes),
                Err(error) => result.string(export_result::ERROR, &error.to_string()),
            }
            result.bool(export_result::HAS_MORE, false);
        }))
    }
}

impl Write for ExportParts<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.bytes.extend_from_slice(bytes);
        if self.bytes.len() >= EXPORT_PART {
            let message = encode(|result| {
                result.bytes(export_result::DATA, &self.bytes);
                result.bool(export_result::HAS_MORE, true);
            });
            self.bytes.clear();
            if let Err(error) = (self.send)(message) {
                let kind = error.kind();
                self.failure = Some(error);
                return Err(kind.into());
            }
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Returns a message of the server.
fn reply_with(content: impl FnOnce(&mut Encoder<'_, Vec<u8>>)) -> Vec<u8> {
    encode(|stream| stream.nested(stream::MESSAGE, content))
}

/// The largest size of a message.
const MAX_MESSAGE: usize = 128 << 20;

/// The send function of a stream.
type Send<'a> = &'a mut dyn FnMut(Vec<u8>) -> io::Result<()>;

/// Waits for the processor.
type Take<'a, 'b> = &'a dyn Fn() -> Result<Turn<'b>, SqlError>;

impl Stream {
    /// Returns a stream whose incomplete messages count in a budget.
    pub(super) fn new(bodies: &Budget) -> Self {
        Self {
            received: 0,
            sent: 0,
            buffer: Buffer::new(bodies),
        }
    }

    /// Adds received bytes, and sends the replies to all complete requests. Returns false if the
    /// stream has to be closed.
    pub(super) fn feed(
        &mut self,
        bytes: &[u8],
        take: Take<'_, '_>,
        send: Send<'_>,
    ) -> io::Result<bool> {
        let expected = message_end(self.buffer.bytes()).ok().flatten();
        if let Err(error) = self.buffer.extend(bytes, expected.unwrap_or(usize::MAX)) {
            self.fatal(&error.to_string(), send)?;
            return Ok(false);
        }
        loop {
            let Ok(end) = message_end(self.buffer.bytes()) else {
                self.fatal("RPC framing error", send)?;
                return Ok(false);
            };
            let buffered = self.buffer.bytes();
            let Some(message) = end.and_then(|end| buffered.get(..end)) else {
                return Ok(true);
            };
            // The content of the field, which is all of the message.
            let message = Fields::find(stream::MESSAGE, message).and_then(|field| field.as_bytes());
            let message = message.unwrap_or_default().to_vec();
            self.buffer.drain(end.unwrap_or_default());
            if !self.request(&message, take, send)? {
                return Ok(false);
            }
        }
    }

    fn fatal(&mut self, text: &str, send: Send<'_>) -> io::Result<()> {
        send(reply_with(|m| m.string(message::FATAL_ERROR, text)))
    }

    /// Sends a reply with one field.
    fn reply(
        &mut self,
        method: u64,
        field: Option<(u32, &[u8])>,
        send: Send<'_>,
    ) -> io::Result<()> {
        let number = self.sent;
        self.sent += 1;
        send(reply_with(|m| {
            m.int(message::SEQUENCE, number);
            m.varint(message::RESPONSE, method);
            if let Some((field, bytes)) = field {
                m.bytes(field, bytes);
            }
        }))
    }

    fn request(&mut self, request: &[u8], take: Take<'_, '_>, send: Send<'_>) -> io::Result<bool> {
        let number = Fields::find(message::SEQUENCE, request)
            .and_then(|f| f.as_i64())
            .unwrap_or(0);
        if number != 0 && self.received != 0 && number != self.received + 1 {
            let expected = self.received + 1;
            let text = format!(
                "RPC request out of order. Expected {expected}, got {number} (ERR:rpc_seq)"
            );
            self.fatal(&text, send)?;
            return Ok(false);
        }
        self.received = number;
        let method = Fields::find(message::REQUEST, request)
            .and_then(|f| f.as_u64())
            .unwrap_or(0);
        let arguments = |field| Fields::find(field, request).and_then(|f| f.as_bytes());
        let error = |field: u32, result: Result<(), SqlError>| {
            encode(|m| {
                if let Err(error) = result {
                    m.string(field, &error.message);
                }
            })
        };
        let missing = || Err(SqlError::new("the arguments are missing"));
        match method {
            method::APPEND_TRACE_DATA => {
                let result = match arguments(arguments::APPEND_TRACE_DATA) {
                    Some(bytes) => take().and_then(|mut turn| turn.append(bytes)),
                    None => missing(),
                };
                let result = error(append_trace_data_result::ERROR, result);
                self.reply(method, Some((result::APPEND_TRACE_DATA, &result)), send)?;
            }
            method::FINALIZE_TRACE_DATA => {
                let result = take().and_then(|mut turn| turn.finalize());
                let result = error(finalize_data_result::ERROR, result);
                self.reply(method, Some((result::FINALIZE_TRACE_DATA, &result)), send)?;
            }
            method::QUERY_STREAMING => {
                let arguments = arguments(arguments::QUERY).unwrap_or_default();
                let mut part =
                    |part: Vec<u8>| self.reply(method, Some((result::QUERY, &part)), send);
                match take() {
                    Ok(mut turn) => turn.query(arguments, &mut part)?,
                    Err(busy) => ResultWriter::new(&mut part).end(Some(&busy.message))?,
                }
            }
            method::GET_METRIC_DESCRIPTORS => {
                self.reply(method, Some((result::METRIC_DESCRIPTORS, &[])), send)?;
            }
            method::RESTORE_INITIAL_TABLES | method::ENABLE_METATRACE | method::RESET => {
                let result = take().map(|mut turn| {
                    // The reply has no error; only a mistake in the prelude could cause one.
                    let _ = match method {
                        method::RESTORE_INITIAL_TABLES => turn.restore(),
                        method::RESET => turn.reset(),
                        _ => {
                            turn.enable_metatrace();
                            Ok(())
                        }
                    };
                });
                if let Err(busy) = result {
                    self.fatal(&busy.message, send)?;
                    return Ok(false);
                }
                self.reply(method, None, send)?;
            }
            method::DISABLE_AND_READ_METATRACE => {
                let metatrace = match take() {
                    Ok(mut turn) => turn.read_metatrace(),
                    Err(busy) => error(metatrace_result::ERROR, Err(busy)),
                };
                self.reply(method, Some((result::METATRACE, &metatrace)), send)?;
            }
            method::GET_STATUS => {
                let status = match take() {
                    Ok(turn) => turn.status(),
                    Err(_) => Vec::new(),
                };
                self.reply(method, Some((result::STATUS, &status)), send)?;
            }
            method::REGISTER_SQL_PACKAGE => {
                let result = match arguments(arguments::REGISTER_SQL_PACKAGE) {
                    Some(bytes) => take().and_then(|mut turn| turn.register_package(bytes)),
                    None => missing(),
                };
                let result = error(register_sql_package_result::ERROR, result);
                self.reply(method, Some((result::REGISTER_SQL_PACKAGE, &result)), send)?;
            }
            method::STATEMENT => {
                let arguments = arguments(arguments::STATEMENT).unwrap_or_default();
                let mut part =
                    |part: Vec<u8>| self.reply(method, Some((result::STATEMENT, &part)), send);
                match take() {
                    Ok(mut turn) => turn.statement(arguments, &mut part)?,
                    Err(busy) => {
                        let writer = ResultWriter::for_statement(&mut part, StatementHead::Unknown);
                        writer.end(Some(&busy.message))?;
                    }
                }
            }
            method::EXPORT => {
                let arguments = arguments(arguments::EXPORT).unwrap_or_default();
                let mut part =
                    |part: Vec<u8>| self.reply(method, Some((result::EXPORT, &part)), send);
                let mut parts = ExportParts::new(&mut part);
                let done = match take() {
                    Ok(mut turn) => turn.export(arguments, &mut parts),
                    Err(busy) => Err(io::Error::other(busy.message)),
                };
                parts.end(done)?;
            }
            _ => match CALLS.iter().find(|call| call.method == method) {
                Some(call) => {
                    let result = match arguments(call.arguments) {
                        Some(bytes) => take().map(|mut turn| (call.run)(&mut turn, bytes)),
                        None => Err(SqlError::new("the arguments are missing")),
                    };
                    let result = result.unwrap_or_else(|failed| error(call.error, Err(failed)));
                    self.reply(method, Some((call.reply, &result)), send)?;
                }
                None => {
                    let number = self.sent;
                    self.sent += 1;
                    send(reply_with(|m| {
                        m.int(message::SEQUENCE, number);
                        m.varint(message::INVALID_REQUEST, method);
                    }))?;
                }
            },
        }
        Ok(true)
    }
}

/// Returns the end of the first message in the bytes; `None` if they are too few to know it.
///
/// # Errors
///
/// Fails if the bytes are not the beginning of a message, or the message is too long.
fn message_end(bytes: &[u8]) -> Result<Option<usize>, ()> {
    /// The key of the field that contains a message.
    const KEY: u8 = 0x0a;
    let Some((&KEY, rest)) = bytes.split_first() else {
        return if bytes.is_empty() { Ok(None) } else { Err(()) };
    };
    let Some((length, size)) = ferretto_wire::decode_varint(rest) else {
        return if rest.len() > 10 { Err(()) } else { Ok(None) };
    };
    let length = usize::try_from(length).ok().filter(|n| *n <= MAX_MESSAGE);
    length.map(|length| Some(1 + size + length)).ok_or(())
}
