//! The state of one encrypted connection.

use std::fmt;
use std::io::{self, IoSlice, Read as _, Write as _};
use std::os::fd::BorrowedFd;

use ferretto_ipc::socket::Layer;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags};
use rustls::Connection;
use rustls::client::verify_server_name;
use rustls::pki_types::ServerName;
use rustls::server::ParsedCertificate;

use crate::error::io_error;

/// The number of encrypted bytes to read at a time: a few records.
const PIECE: usize = 64 * 1024;
/// The size assumed for unsent encrypted data, since rustls does not report it.
const SOME: usize = 16 * 1024;

/// One encrypted connection.
pub(crate) struct TlsLayer {
    connection: Connection,
    /// Received encrypted bytes, and the offset of the first unprocessed one.
    arrived: Vec<u8>,
    begin: usize,
    /// Set if the last receive filled its buffer, so the socket may have more.
    may_hold_more: bool,
    /// Set if the peer has closed the socket.
    has_ended: bool,
    has_finished: bool,
    /// The error after which no bytes can be decrypted.
    failed: Option<rustls::Error>,
    /// The error after which no bytes can be sent.
    unsendable: Option<Errno>,
}

impl TlsLayer {
    pub(crate) fn new(connection: Connection) -> Self {
        Self {
            connection,
            arrived: Vec::new(),
            begin: 0,
            may_hold_more: false,
            has_ended: false,
            has_finished: false,
            failed: None,
            unsendable: None,
        }
    }

    /// Reads encrypted bytes from the socket. Returns false if there are none at the moment.
    fn fill(&mut self, socket: BorrowedFd<'_>) -> io::Result<bool> {
        self.begin = 0;
        self.arrived.resize(PIECE, 0);
        let received = loop {
            match rustix::net::recv(socket, &mut self.arrived[..], RecvFlags::DONTWAIT) {
                Err(Errno::INTR) => {}
                Ok((_, received)) => break Ok(received),
                Err(errno) => break Err(errno),
            }
        };
        self.arrived.truncate(*received.as_ref().unwrap_or(&0));
        match received {
            Ok(0) => {
                self.has_ended = true;
                Ok(true)
            }
            Ok(_) => Ok(true),
            Err(Errno::AGAIN) => {
                // Idle connections hold no buffer.
                self.arrived = Vec::new();
                Ok(false)
            }
            Err(errno) => Err(errno.into()),
        }
    }

    /// Decrypts some of the received bytes.
    fn digest(&mut self, socket: BorrowedFd<'_>) -> io::Result<()> {
        if let Some(error) = &self.failed {
            return Err(io_error(error));
        }
        let mut rest = &self.arrived[self.begin..];
        let taken = self.connection.read_tls(&mut rest)?;
        self.begin += taken;
        if let Err(error) = self.connection.process_new_packets() {
            // Sends the alert with the reason to the other side.
            let _ = self.push(socket);
            let reason = io_error(&error);
            self.failed = Some(error);
            return Err(reason);
        }
        // Sends handshake messages and replies to key updates. If the other side has closed the
        // socket, the bytes it sent before are still read: among them may be the reason.
        if let Err(error) = self.push(socket) {
            self.unsendable = Some(Errno::from_io_error(&error).ok_or(error)?);
        }
        Ok(())
    }

    /// Returns the reason that the other side gave before it closed the socket, or `error`, the
    /// reason for which nothing could be sent.
    fn reason(&mut self, socket: BorrowedFd<'_>, error: io::Error) -> io::Error {
        while self.failed.is_none() {
            let is_empty = self.begin == self.arrived.len();
            if is_empty && (self.has_ended || !matches!(self.fill(socket), Ok(true))) {
                return error;
            }
            let mut rest = &self.arrived[self.begin..];
            match self.connection.read_tls(&mut rest) {
                Ok(taken @ 1..) => self.begin += taken,
                _ => return error,
            }
            self.failed = self.connection.process_new_packets().err();
        }
        self.failed.as_ref().map_or(error, io_error)
    }

    fn push(&mut self, socket: BorrowedFd<'_>) -> io::Result<()> {
        let mut out = Out(socket);
        while self.connection.wants_write() {
            match self.connection.write_tls(&mut out) {
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

impl Layer for TlsLayer {
    fn receive(&mut self, socket: BorrowedFd<'_>, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        let mut len = 0;
        self.may_hold_more = false;
        while len < buffer.len() {
            match self.connection.reader().read(&mut buffer[len..]) {
                Ok(0) => return Ok(Some(len)),
                Ok(count) => {
                    len += count;
                    continue;
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                // The stream ended without a closing alert.
                Err(_) if len > 0 => return Ok(Some(len)),
                Err(_) => return Ok(Some(0)),
            }
            if self.begin < self.arrived.len() || self.failed.is_some() {
                match self.digest(socket) {
                    // Bytes before the error are valid. The next call returns the error.
                    Err(_) if len > 0 => return Ok(Some(len)),
                    other => other?,
                }
            } else if self.has_ended {
                if self.connection.is_handshaking() {
                    return Err(io::Error::new(
                        io::ErrorKind::UnexpectedEof,
                        "the other side closed the connection instead of speaking TLS; \
                         give it certificates (FERRETTO_TLS)",
                    ));
                }
                return Ok(Some(len));
            } else if !self.fill(socket)? {
                return match self.unsendable {
                    Some(errno) if len == 0 => Err(errno.into()),
                    _ => Ok(Some(len).filter(|&len| len > 0)),
                };
            }
        }
        self.may_hold_more = true;
        Ok(Some(len))
    }

    fn holds_data(&self) -> bool {
        self.may_hold_more
    }

    fn send(&mut self, socket: BorrowedFd<'_>, bytes: &[IoSlice<'_>]) -> io::Result<usize> {
        if let Err(error) = self.push(socket) {
            return Err(self.reason(socket, error));
        }
        // Encrypted bytes go first, to keep the buffer small.
        if self.connection.wants_write() || bytes.iter().all(|part| part.is_empty()) {
            return Ok(0);
        }
        let taken = self.connection.writer().write_vectored(bytes)?;
        match self.push(socket) {
            Ok(()) => Ok(taken),
            Err(error) => Err(self.reason(socket, error)),
        }
    }

    fn unsent(&self) -> usize {
        usize::from(self.connection.wants_write()) * SOME
    }

    fn finish(&mut self, socket: BorrowedFd<'_>) -> io::Result<bool> {
        if !std::mem::replace(&mut self.has_finished, true) {
            self.connection.send_close_notify();
        }
        self.push(socket)?;
        Ok(!self.connection.wants_write())
    }

    fn vouches_for(&self, name: &[u8]) -> Option<bool> {
        let vouched = || {
            let certificate = self.connection.peer_certificates()?.first()?;
            let name = ServerName::try_from(std::str::from_utf8(name).ok()?).ok()?;
            let certificate = ParsedCertificate::try_from(certificate).ok()?;
            verify_server_name(&certificate, &name).ok()
        };
        Some(vouched().is_some())
    }
}

impl fmt::Debug for TlsLayer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TlsLayer")
            .field("is_handshaking", &self.connection.is_handshaking())
            .finish_non_exhaustive()
    }
}

/// A non-blocking writer to a socket.
struct Out<'a>(BorrowedFd<'a>);

impl io::Write for Out<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        Ok(rustix::net::send(self.0, bytes, flags)?)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
