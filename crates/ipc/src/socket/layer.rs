//! Layers between sockets and their messages, such as encryption.

use std::fmt;
use std::io::{self, IoSlice};
use std::os::fd::BorrowedFd;
use std::sync::{Arc, OnceLock};

use super::out_queue::OutQueue;
use crate::address::Address;

/// The variable with the folder of the certificates for connections with other machines.
pub const TLS_VARIABLE: &str = "FERRETTO_TLS";

static PROCESS: OnceLock<Arc<dyn Security>> = OnceLock::new();

/// Sets the encryption of this process's connections with other machines, for those without their
/// own. Only the first call has an effect.
pub fn set_process_security(security: Arc<dyn Security>) {
    let _ = PROCESS.set(security);
}

/// Returns the encryption of this process's connections with other machines; `None` if there is
/// none.
///
/// # Errors
///
/// Fails if the environment asks for encryption, and this program does not support it.
pub fn process_security() -> io::Result<Option<Arc<dyn Security>>> {
    let is_wanted = || std::env::var_os(TLS_VARIABLE).is_some_and(|folder| !folder.is_empty());
    match PROCESS.get() {
        Some(security) => Ok(Some(Arc::clone(security))),
        None if is_wanted() => Err(io::Error::new(
            io::ErrorKind::Unsupported,
            format!(
                "{TLS_VARIABLE} is set, and this program has no TLS; build ferretto with --features tls, \
                 or call ferretto_tls::install_from_environment"
            ),
        )),
        None => Ok(None),
    }
}

/// Creates the layers of connections with other machines.
pub trait Security: Send + Sync + fmt::Debug {
    /// Creates the layer of a connection from this side to an address.
    ///
    /// # Errors
    ///
    /// Fails if no certificate can be valid for that address.
    fn connecting(&self, to: &Address) -> io::Result<Box<dyn Layer>>;

    /// Creates the layer of a connection from the other side.
    ///
    /// # Errors
    ///
    /// Fails if the system refuses.
    fn accepting(&self) -> io::Result<Box<dyn Layer>>;
}

/// The state of one connection. No method blocks.
pub trait Layer: Send + fmt::Debug {
    /// Reads the available bytes from the socket, until the buffer is full. 0 bytes are the end of
    /// the stream; `None` means no bytes at the moment.
    ///
    /// # Errors
    ///
    /// Fails if the connection cannot be used any more.
    fn receive(&mut self, socket: BorrowedFd<'_>, buffer: &mut [u8]) -> io::Result<Option<usize>>;

    /// Returns true if a receive would return bytes although the socket has none.
    fn holds_data(&self) -> bool;

    /// Sends bytes, and returns the number of bytes taken, which is 0 if there is no space at the
    /// moment. Taken bytes may still be [unsent](Self::unsent).
    ///
    /// # Errors
    ///
    /// Fails if the connection cannot be used any more.
    fn send(&mut self, socket: BorrowedFd<'_>, bytes: &[IoSlice<'_>]) -> io::Result<usize>;

    /// Returns the approximate number of bytes that wait for the socket to be writable. An empty
    /// [`send`](Self::send) sends them.
    fn unsent(&self) -> usize;

    /// Ends the stream. Returns true once that is sent.
    ///
    /// # Errors
    ///
    /// Fails if the connection cannot be used any more.
    fn finish(&mut self, socket: BorrowedFd<'_>) -> io::Result<bool>;

    /// Returns true if the other side has proved that it may use this name; `None` if no proof is
    /// required.
    fn vouches_for(&self, name: &[u8]) -> Option<bool>;
}

/// Sends as much of a queue as possible. Returns true if the queue is empty.
pub(super) fn flush(
    layer: &mut dyn Layer,
    socket: BorrowedFd<'_>,
    queue: &mut OutQueue,
) -> io::Result<bool> {
    loop {
        let (slices, _) = queue.next_batch();
        let taken = layer.send(socket, &slices)?;
        if taken == 0 {
            return Ok(queue.is_empty() && layer.unsent() == 0);
        }
        queue.advance(taken);
    }
}
