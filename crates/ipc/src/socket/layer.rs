//! Layers between sockets and their messages, such as encryption.

use std::fmt;
use std::io::{self, IoSlice};
use std::os::fd::BorrowedFd;
use std::sync::{Arc, OnceLock};

use super::out_queue::OutQueue;
use crate::address::Address;

/// Names the folder with the certificates that connections with other machines are to be secured
/// by.
pub const TLS_VARIABLE: &str = "FERRETTO_TLS";

static PROCESS: OnceLock<Arc<dyn Security>> = OnceLock::new();

/// Has connections of this process with other machines secured like this, unless it is said
/// otherwise for one. Only the first call has an effect.
pub fn set_process_security(security: Arc<dyn Security>) {
    let _ = PROCESS.set(security);
}

/// Returns how connections of this process with other machines are secured; `None` if they are not.
///
/// # Errors
///
/// If the environment asks for it, and this program cannot.
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

/// Makes the layers of connections to other machines.
pub trait Security: Send + Sync + fmt::Debug {
    /// Makes the layer of a connection that this side has made to an address.
    ///
    /// # Errors
    ///
    /// If nobody can be known by that address.
    fn connecting(&self, to: &Address) -> io::Result<Box<dyn Layer>>;

    /// Makes the layer of a connection that the other side has made.
    ///
    /// # Errors
    ///
    /// If the system refuses.
    fn accepting(&self) -> io::Result<Box<dyn Layer>>;
}

/// The state of one connection. Nothing here waits.
pub trait Layer: Send + fmt::Debug {
    /// Reads the available bytes from the socket, until the buffer is full: 0 bytes are the end,
    /// `None` is nothing at the moment.
    ///
    /// # Errors
    ///
    /// When the connection is of no further use.
    fn receive(&mut self, socket: BorrowedFd<'_>, buffer: &mut [u8]) -> io::Result<Option<usize>>;

    /// Returns true if a receive would bring something although nothing arrives.
    fn holds_data(&self) -> bool;

    /// Sends, and returns how many bytes were taken: none if there is no room at the moment. Bytes
    /// that were taken may still be [unsent](Self::unsent).
    ///
    /// # Errors
    ///
    /// When the connection is of no further use.
    fn send(&mut self, socket: BorrowedFd<'_>, bytes: &[IoSlice<'_>]) -> io::Result<usize>;

    /// Returns how many bytes wait for the socket to be writable, at least roughly. An empty
    /// [`send`](Self::send) sends them.
    fn unsent(&self) -> usize;

    /// Tells the other side that nothing more comes. Returns whether that is sent.
    ///
    /// # Errors
    ///
    /// When the connection is of no further use.
    fn finish(&mut self, socket: BorrowedFd<'_>) -> io::Result<bool>;

    /// Returns true if the other side has proved that it may have this name; `None` if nobody has
    /// to prove that.
    fn vouches_for(&self, name: &[u8]) -> Option<bool>;
}

/// Sends as much of a queue as goes, and returns whether nothing is left.
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
