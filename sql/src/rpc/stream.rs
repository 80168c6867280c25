//! The stream of requests and replies of `/rpc`.

use std::io::{self, Read, Write};
use std::sync::{Mutex, PoisonError};

use ferretto_wire::{Fields, encode};

use super::state::Processor;

/// The server's side of a stream.
#[derive(Debug, Default)]
pub struct Stream {
    received: i64,
    sent: i64,
    buffer: Vec<u8>,
}

/// The number of bytes to read at a time.
const PIECE: usize = 1 << 16;

/// Serves requests until the end of the input, as upstream's program does on standard input and
/// output. Unix sockets carry the same stream.
pub fn serve_stream(
    input: &mut impl Read,
    output: &mut impl Write,
    processor: &Mutex<Processor>,
) -> io::Result<()> {
    let mut stream = Stream::default();
    let mut piece = vec![0; PIECE];
    loop {
        let count = input.read(&mut piece)?;
        let mut send = |message: Vec<u8>| {
            output.write_all(&message)?;
            output.flush()
        };
        if count == 0 {
            return Ok(());
        }
        // After a panic, the processor is still usable: requests replace its parts as a whole.
        let mut processor = processor.lock().unwrap_or_else(PoisonError::into_inner);
        if !stream.feed(&piece[..count], &mut processor, &mut send)? {
            return Ok(());
        }
    }
}

/// Returns the field of the reply to a request that is known but not supported, the field of its
/// error, and the name of the feature. Clients wait for a reply of the right kind.
fn unsupported(method: u64) -> Option<(u32, u32, &'static str)> {
    Some(match method {
        5 => (205, 2, "computing metrics"),
        9 => (209, 2, "the trace of the trace processor"),
        15 => (214, 3, "the trace summary"),
        16 => (215, 2, "the trace summary"),
        17 => (216, 2, "the trace summary"),
        18 => (217, 6, "the trace summary"),
        19 => (218, 1, "the trace summary"),
        21 => (220, 2, "the export over RPC"),
        _ => return None,
    })
}

/// The largest size of a message.
const MAX_MESSAGE: usize = 128 << 20;

impl Stream {
    /// Adds received bytes, and sends the replies to all complete requests. Returns false if the
    /// stream has to be closed.
    pub fn feed(
        &mut self,
        bytes: &[u8],
        processor: &mut Processor,
        send: &mut dyn FnMut(Vec<u8>) -> io::Result<()>,
    ) -> io::Result<bool> {
        self.buffer.extend_from_slice(bytes);
        loop {
            let Some(&tag) = self.buffer.first() else {
                return Ok(true);
            };
            if tag != 0x0a {
                self.fatal("RPC framing error", send)?;
                return Ok(false);
            }
            let Some((length, size)) = ferretto_wire::decode_varint(&self.buffer[1..]) else {
                if self.buffer.len() > 11 {
                    self.fatal("RPC framing error", send)?;
                    return Ok(false);
                }
                return Ok(true);
            };
            let Some(length) = usize::try_from(length).ok().filter(|n| *n <= MAX_MESSAGE) else {
                self.fatal("RPC framing error", send)?;
                return Ok(false);
            };
            let end = 1 + size + length;
            if self.buffer.len() < end {
                return Ok(true);
            }
            let message: Vec<u8> = self.buffer[1 + size..end].to_vec();
            self.buffer.drain(..end);
            if !self.request(&message, processor, send)? {
                return Ok(false);
            }
        }
    }

    fn fatal(
        &mut self,
        text: &str,
        send: &mut dyn FnMut(Vec<u8>) -> io::Result<()>,
    ) -> io::Result<()> {
        send(encode(|stream| stream.nested(1, |m| m.string(5, text))))
    }

    /// Sends a reply with one field.
    fn reply(
        &mut self,
        method: u64,
        field: Option<(u32, &[u8])>,
        send: &mut dyn FnMut(Vec<u8>) -> io::Result<()>,
    ) -> io::Result<()> {
        let number = self.sent;
        self.sent += 1;
        send(encode(|stream| {
            stream.nested(1, |m| {
                m.int(1, number);
                m.varint(3, method);
                if let Some((field, bytes)) = field {
                    m.bytes(field, bytes);
                }
            });
        }))
    }

    fn request(
        &mut self,
        message: &[u8],
        processor: &mut Processor,
        send: &mut dyn FnMut(Vec<u8>) -> io::Result<()>,
    ) -> io::Result<bool> {
        let number = Fields::find(1, message)
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
        let method = Fields::find(2, message)
            .and_then(|f| f.as_u64())
            .unwrap_or(0);
        let arguments = |field| Fields::find(field, message).and_then(|f| f.as_bytes());
        let error = |field: u32, result: Result<(), crate::error::SqlError>| {
            encode(|m| {
                if let Err(error) = result {
                    m.string(field, &error.message);
                }
            })
        };
        let missing = || Err(crate::error::SqlError::new("the arguments are missing"));
        match method {
            1 => {
                let result = match arguments(101) {
                    Some(bytes) => processor.append(bytes),
                    None => missing(),
                };
                self.reply(method, Some((201, &error(2, result))), send)?;
            }
            2 => {
                let result = processor.finalize();
                self.reply(method, Some((212, &error(1, result))), send)?;
            }
            3 => {
                let arguments = arguments(103).unwrap_or_default();
                let sent = processor.query(arguments, &mut |part| {
                    self.reply(method, Some((203, &part)), send)
                });
                if sent.is_err() {
                    return Err(io::ErrorKind::BrokenPipe.into());
                }
            }
            7 => {
                // The reply has no error; only a mistake in the prelude could cause one.
                let _ = processor.restore();
                self.reply(method, None, send)?;
            }
            10 => {
                let status = processor.status();
                self.reply(method, Some((210, &status)), send)?;
            }
            11 => {
                let _ = processor.reset();
                self.reply(method, None, send)?;
            }
            13 => {
                let result = match arguments(108) {
                    Some(bytes) => processor.register_package(bytes),
                    None => missing(),
                };
                self.reply(method, Some((211, &error(1, result))), send)?;
            }
            _ => {
                let number = self.sent;
                match unsupported(method) {
                    Some((field, error, feature)) => {
                        let text = format!("{feature} is not supported");
                        let result = encode(|m| m.string(error, &text));
                        self.reply(method, Some((field, &result)), send)?;
                    }
                    None => {
                        self.sent += 1;
                        send(encode(|stream| {
                            stream.nested(1, |m| {
                                m.int(1, number);
                                m.varint(4, method);
                            });
                        }))?;
                    }
                }
            }
        }
        Ok(true)
    }
}
