//! Descriptors that do harm where they are closed, and how they are passed.

use std::collections::VecDeque;
use std::io::{IoSlice, Write as _};
use std::mem::MaybeUninit;
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use ferretto_ipc::socket::Socket;
use ferretto_ipc::{CloseHere, Disposal as _};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg, sockopt};

/// Sends bytes together with these descriptors. Returns whether that was possible.
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

/// Makes sockets whose last owner waits when it closes them: up to a minute, for bytes that nobody
/// takes.
#[derive(Default)]
pub(crate) struct Lingering {
    listeners: VecDeque<TcpListener>,
    made: usize,
}

impl Lingering {
    /// A new one. That before the 800 before lingers no more.
    pub(crate) fn socket(&mut self) -> OwnedFd {
        if self.made.is_multiple_of(BACKLOG) {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            // As little as can be is taken from its connections.
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

/// Passes some, and closes them here. Returns whether they could be passed.
pub(crate) fn give(socket: &Socket, bytes: &[u8], fds: Vec<OwnedFd>) -> bool {
    let borrowed: Vec<_> = fds.iter().map(AsFd::as_fd).collect();
    let passed = pass(socket, bytes, &borrowed);
    for fd in fds {
        match passed {
            true => drop(fd),
            // This would be the thread that waits.
            false => CloseHere.close(fd),
        }
    }
    passed
}
