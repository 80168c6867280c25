//! Descriptors that block when they are closed, and ways to pass them.

use std::collections::VecDeque;
use std::io::{IoSlice, Write as _};
use std::mem::MaybeUninit;
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use ferretto_ipc::socket::Socket;
use ferretto_ipc::{CloseHere, Disposal as _};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg, sockopt};

/// Sends bytes with these descriptors. Returns true if that was possible.
pub(crate) fn pass(socket: &Socket, bytes: &[u8], fds: &[BorrowedFd<'_>]) -> bool {
    let mut space = vec![MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(253))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    assert!(fds.is_empty() || control.push(SendAncillaryMessage::ScmRights(fds)));
    let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
    sendmsg(socket, &[IoSlice::new(bytes)], &mut control, flags).is_ok()
}

/// The number of connections that can wait while nobody accepts them.
const BACKLOG: usize = 100;
/// The number of listeners for them.
const LISTENERS: usize = 8;

/// Creates sockets that block their last owner when it closes them: up to a minute, for bytes that
/// are never read.
#[derive(Default)]
pub(crate) struct Lingering {
    listeners: VecDeque<TcpListener>,
    made: usize,
}

impl Lingering {
    /// Creates a socket. The one created 800 calls before no longer lingers.
    pub(crate) fn socket(&mut self) -> OwnedFd {
        if self.made.is_multiple_of(BACKLOG) {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            // The smallest buffer keeps its connections from sending.
            sockopt::set_socket_recv_buffer_size(&listener, 1).unwrap();
            self.listeners.push_front(listener);
            self.listeners.truncate(LISTENERS);
        }
        self.made += 1;
        // Never accepted.
        let address = self.listeners[0].local_addr().unwrap();
        let mut stream = TcpStream::connect(address).unwrap();
        sockopt::set_socket_send_buffer_size(&stream, 4096).unwrap();
        sockopt::set_socket_linger(&stream, Some(Duration::from_secs(60))).unwrap();
        stream.set_nonblocking(true).unwrap();
        while stream.write(&[0; 65536]).is_ok() {}
        stream.into()
    }
}

/// Passes descriptors and closes them here. Returns true if they could be passed.
pub(crate) fn give(socket: &Socket, bytes: &[u8], fds: Vec<OwnedFd>) -> bool {
    let borrowed: Vec<_> = fds.iter().map(AsFd::as_fd).collect();
    let passed = pass(socket, bytes, &borrowed);
    for fd in fds {
        if passed {
            drop(fd)
        } else {
            // Closing it here would block this thread.
            CloseHere.close(fd)
        }
    }
    passed
}
