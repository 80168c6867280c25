//! One end of a forwarded connection.

use std::fmt;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use ferretto_ipc::socket::{ReceiveError, Received, Socket};

/// The result of a read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Read {
    /// This many bytes at the start of the buffer.
    Bytes(usize),
    /// No bytes at the moment.
    Nothing,
    /// The end of the stream.
    End,
}

/// One end of a forwarded connection. No method blocks.
pub(crate) trait End: fmt::Debug + Send {
    /// Returns the descriptor to wait for.
    fn fd(&self) -> BorrowedFd<'_>;

    /// Reads the available bytes, at most as much as `buffer` holds.
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<Read>;

    /// Writes as many bytes as the other side takes, and returns their number, which may be 0.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize>;

    /// Ends the stream. Returns true once the other side can see it.
    fn finish(&mut self) -> io::Result<bool>;

    /// Returns true if written bytes are still to be sent.
    fn wants_write(&self) -> bool {
        false
    }

    /// Returns true if a read would return bytes although the socket has none.
    fn holds_data(&self) -> bool {
        false
    }
}

impl End for Socket {
    fn fd(&self) -> BorrowedFd<'_> {
        self.as_fd()
    }

    fn read(&mut self, buffer: &mut [u8]) -> io::Result<Read> {
        match self.receive(buffer) {
            // The descriptor cannot be forwarded, and the frame is wrong without it. Upstream's
            // relay disconnects, too.
            Ok(Received::Data { fd: Some(_), .. }) => Err(io::Error::new(
                io::ErrorKind::Unsupported,
                "the producer passed a file descriptor, which cannot be sent to another machine",
            )),
            Ok(Received::Data { len, fd: None }) => Ok(Read::Bytes(len)),
            Ok(Received::WouldBlock) => Ok(Read::Nothing),
            Ok(Received::Closed) => Ok(Read::End),
            Err(ReceiveError::Io(error)) => Err(error),
            Err(error) => Err(io::Error::other(error)),
        }
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Self::write(self, bytes)
    }

    fn finish(&mut self) -> io::Result<bool> {
        self.finish_writing()
    }

    fn wants_write(&self) -> bool {
        self.queued() > 0
    }

    fn holds_data(&self) -> bool {
        Self::holds_data(self)
    }
}
