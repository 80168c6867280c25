//! One end of a connection that is forwarded.

use std::fmt;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use ferretto_ipc::socket::{ReceiveError, Received, Socket};

/// The result of a read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Read {
    /// This many bytes, at the start of the buffer.
    Bytes(usize),
    /// Nothing at the moment.
    Nothing,
    /// Nothing any more.
    End,
}

/// One end of a connection that is forwarded. Nothing here waits.
pub(crate) trait End: fmt::Debug + Send {
    /// Returns the descriptor to wait for.
    fn fd(&self) -> BorrowedFd<'_>;

    /// Reads the available bytes, at most as much as `buffer` holds.
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<Read>;

    /// Writes as much as the other side takes, and returns that; 0 is nothing at the moment.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize>;

    /// Says that nothing more will be written. Returns whether that is done.
    fn finish(&mut self) -> io::Result<bool>;

    /// Returns true if there is something to be sent that was written before.
    fn wants_write(&self) -> bool {
        false
    }

    /// Returns true if a read would bring something although nothing arrives.
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
            // It cannot be passed on, and without it the frame says something else. Upstream's
            // relay ends the connection, too.
            Ok(Received::Data { fd: Some(_), .. }) => Err(io::Error::new(
                io::ErrorKind::Unsupported,
                "it passed a descriptor, which does not travel to other machines",
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
