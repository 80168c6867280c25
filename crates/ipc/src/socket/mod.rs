//! Non-blocking stream sockets that carry frames and descriptors.

mod connect;
mod layer;
mod listener;
mod local;
mod out_queue;
mod peer;
#[cfg_attr(not(feature = "vsock"), path = "no_vsock.rs")]
mod vsock;

pub use connect::ConnectError;
pub use layer::{Layer, Security, TLS_VARIABLE, process_security, set_process_security};
pub use listener::{BindError, Listener};
pub use out_queue::QueueError;
pub use peer::PeerHost;

use std::io::{self, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::sockopt;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags,
    SendAncillaryBuffer, SendAncillaryMessage, SendFlags, Shutdown, SocketFlags, SocketType,
};

use crate::address::Address;
use crate::frame::MAX_FRAME_SIZE;
use crate::passed::{CloseHere, Disposal, PassedFd};
use out_queue::OutQueue;

/// The default limit of the out queue, in bytes.
pub const DEFAULT_OUT_LIMIT: usize = 8 * 1024 * 1024;
/// A good size for the buffer given to [`Socket::receive`].
pub const RECEIVE_BUFFER_SIZE: usize = MAX_FRAME_SIZE;

/// The idle time after which a TCP connection is probed, the interval of the probes, and their
/// number.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(30);
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(10);
const KEEPALIVE_COUNT: u32 = 3;

/// Makes the connection end, within a minute, when the other machine has vanished. Upstream waits
/// for ever.
fn notice_lost_peers(fd: &OwnedFd) -> io::Result<()> {
    sockopt::set_socket_keepalive(fd, true)?;
    sockopt::set_tcp_keepidle(fd, KEEPALIVE_IDLE)?;
    sockopt::set_tcp_keepintvl(fd, KEEPALIVE_INTERVAL)?;
    Ok(sockopt::set_tcp_keepcnt(fd, KEEPALIVE_COUNT)?)
}

/// The largest number of descriptors accepted with one message: as many as fit where upstream makes
/// space for one.
const MOST_PASSED: usize = 2;
/// The largest number of descriptors that the kernel allows in a message.
const MOST_SENT: usize = 253;
/// The space for all of these. The kernel closes descriptors without space before a receive
/// returns, which can take as long as the sender likes.
const CONTROL_SIZE: usize = rustix::cmsg_space!(ScmRights(MOST_SENT));
/// The number of reads from a connection that is closed: more than its queue can hold.
const MOST_UNREAD: usize = 4096;

/// The process at the other end, as recorded by the kernel when it connected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Credentials {
    /// The user id.
    pub uid: u32,
    /// The process id; 0 if it is not visible from this process.
    pub pid: i32,
}

/// The result of a receive.
#[derive(Debug)]
pub enum Received {
    /// Bytes at the start of the buffer, possibly with a descriptor that was sent with the last of
    /// them.
    Data {
        /// The number of bytes.
        len: usize,
        /// The descriptor, closed on exec.
        fd: Option<PassedFd>,
    },
    /// No bytes at the moment.
    WouldBlock,
    /// The peer closed its end.
    Closed,
}

/// The reason why a receive failed. The connection cannot be used any more.
#[derive(Debug)]
pub enum ReceiveError {
    /// Three or more descriptors came at once; all are closed.
    TooManyDescriptors,
    /// The system refused.
    Io(io::Error),
}

ferretto_wire::error_text! {
    ReceiveError {
        Self::TooManyDescriptors => "the peer sent more than two descriptors at once",
        Self::Io(error) => "receiving failed: {error}",
    }
    source {
        Self::Io(error) => error,
    }
    from { Io(io::Error) }
}

/// A connected, non-blocking stream socket with a bounded queue of frames to
/// send.
#[derive(Debug)]
pub struct Socket {
    fd: OwnedFd,
    is_unix: bool,
    out: OutQueue,
    disposal: Option<Arc<dyn Disposal>>,
    /// The layer, if there is one. It has a lock because receiving takes a shared reference.
    layer: Option<Mutex<Box<dyn Layer>>>,
}

impl Socket {
    /// Wraps a connected stream socket and makes it non-blocking.
    ///
    /// # Errors
    ///
    /// Fails if the descriptor is not a socket.
    pub fn from_fd(fd: OwnedFd) -> io::Result<Self> {
        rustix::io::ioctl_fionbio(&fd, true)?;
        rustix::io::fcntl_setfd(&fd, rustix::io::FdFlags::CLOEXEC)?;
        let family = sockopt::socket_domain(&fd)?;
        if family == AddressFamily::INET || family == AddressFamily::INET6 {
            sockopt::set_tcp_nodelay(&fd, true)?;
            notice_lost_peers(&fd)?;
        }
        let is_unix = family == AddressFamily::UNIX;
        Ok(Self {
            fd,
            is_unix,
            out: OutQueue::new(DEFAULT_OUT_LIMIT),
            disposal: None,
            layer: None,
        })
    }

    /// Creates two connected sockets.
    ///
    /// # Errors
    ///
    /// Fails if the system has no descriptors left.
    pub fn pair() -> io::Result<(Self, Self)> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let (one, other) =
            rustix::net::socketpair(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
        Ok((Self::from_fd(one)?, Self::from_fd(other)?))
    }

    /// Returns true if descriptors and credentials can be sent over this socket.
    pub fn is_unix(&self) -> bool {
        self.is_unix
    }

    /// Returns the credentials of the process that connected; `None` unless this is a UNIX socket.
    pub fn credentials(&self) -> Option<Credentials> {
        if !self.is_unix {
            return None;
        }
        let peer = rustix::net::sockopt::socket_peercred(&self.fd).ok()?;
        // A peer in another pid namespace has pid 0 here.
        let pid = peer.pid.as_raw_pid();
        Some(Credentials {
            uid: peer.uid.as_raw(),
            pid,
        })
    }

    /// Returns this end's address as text, without the port. Empty for UNIX sockets.
    pub fn local_host(&self) -> String {
        match local::local_address(self.fd.as_fd()) {
            Some(Address::Tcp { host, .. }) if host.contains(':') => format!("[{host}]"),
            Some(Address::Tcp { host, .. }) => host,
            Some(Address::Vsock { cid, .. }) => format!("vsock://{cid}"),
            _ => String::new(),
        }
    }

    /// Reads the available bytes, at most as many as `buffer` holds.
    ///
    /// Of two descriptors received together, the first is kept, as in upstream. All others are
    /// passed to the [`Disposal`].
    ///
    /// # Errors
    ///
    /// See [`ReceiveError`].
    pub fn receive(&self, buffer: &mut [u8]) -> Result<Received, ReceiveError> {
        if let Some(layer) = &self.layer {
            let mut layer = layer.lock().unwrap_or_else(PoisonError::into_inner);
            return Ok(match layer.receive(self.fd.as_fd(), buffer)? {
                None => Received::WouldBlock,
                Some(0) => Received::Closed,
                Some(len) => Received::Data { len, fd: None },
            });
        }
        let mut space = [MaybeUninit::uninit(); CONTROL_SIZE];
        let mut control = if self.is_unix {
            RecvAncillaryBuffer::new(&mut space)
        } else {
            RecvAncillaryBuffer::default()
        };
        let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
        let result = loop {
            let mut slices = [IoSliceMut::new(buffer)];
            match rustix::net::recvmsg(&self.fd, &mut slices, &mut control, flags) {
                Err(Errno::INTR) => {}
                result => break result,
            }
        };
        let message = match result {
            Ok(message) => message,
            Err(Errno::AGAIN) => return Ok(Received::WouldBlock),
            Err(errno) => return Err(ReceiveError::Io(errno.into())),
        };
        let (mut fd, mut count) = (None, 0);
        for part in control.drain() {
            if let RecvAncillaryMessage::ScmRights(fds) = part {
                for received in fds {
                    count += 1;
                    let received = PassedFd::new(received, self.disposal.clone());
                    // The others are disposed of.
                    fd.get_or_insert(received);
                }
            }
        }
        if count > MOST_PASSED {
            return Err(ReceiveError::TooManyDescriptors);
        }
        if message.flags.contains(ReturnFlags::CTRUNC) {
            // The process has too few free descriptors.
            return Err(ReceiveError::Io(Errno::MFILE.into()));
        }
        match message.bytes {
            0 => Ok(Received::Closed),
            len => Ok(Received::Data { len, fd }),
        }
    }

    /// Returns true if a receive into this buffer would bring descriptors. The bytes in the buffer
    /// are only a preview: they are still to be received.
    pub fn brings_descriptors(&self, buffer: &mut [u8]) -> bool {
        if !self.is_unix {
            return false;
        }
        let mut slices = [IoSliceMut::new(buffer)];
        let flags = RecvFlags::DONTWAIT | RecvFlags::PEEK;
        // Without space, descriptors are only detected.
        let mut control = RecvAncillaryBuffer::default();
        rustix::net::recvmsg(&self.fd, &mut slices, &mut control, flags)
            .is_ok_and(|message| message.flags.contains(ReturnFlags::CTRUNC))
    }

    /// Sets the disposal of descriptors that are not needed. The default is to close them where
    /// they are dropped.
    pub fn set_disposal(&mut self, disposal: Arc<dyn Disposal>) {
        self.disposal = Some(disposal);
    }

    /// Ends the connection for the other side, which can send nothing more. Descriptors that it has
    /// already sent remain to be closed by [`close`](Self::close), or by dropping this. Queued
    /// frames are dropped. Never blocks.
    ///
    /// Returns true if there is nothing to close, since nothing was sent.
    pub fn shut_down(&mut self) -> bool {
        self.out = OutQueue::new(0);
        let _ = rustix::net::shutdown(&self.fd, Shutdown::Both);
        !self.is_unix || rustix::io::ioctl_fionread(&self.fd).is_ok_and(|unread| unread == 0)
    }

    /// Closes the socket and all descriptors that were sent but not received. This may block, but
    /// not as long as the other side requested.
    pub fn close(mut self) {
        self.shut_down();
        self.set_disposal(Arc::new(CloseHere));
        let mut buffer = [0; 4096];
        for _ in 0..MOST_UNREAD {
            match self.receive(&mut buffer) {
                Ok(Received::Data { .. }) | Err(ReceiveError::TooManyDescriptors) => {}
                Ok(Received::Closed | Received::WouldBlock) | Err(ReceiveError::Io(_)) => return,
            }
        }
    }

    /// Queues a frame. It is sent by [`flush`](Self::flush).
    ///
    /// A descriptor is dropped unless this is a UNIX socket.
    ///
    /// # Errors
    ///
    /// See [`QueueError`].
    pub fn queue(&mut self, frame: Vec<u8>, fd: Option<OwnedFd>) -> Result<(), QueueError> {
        self.out.push(frame, fd.filter(|_| self.is_unix))
    }

    /// Sends as much of the queue as the peer takes. Returns true if the queue is empty. Never
    /// blocks.
    ///
    /// # Errors
    ///
    /// Fails if the connection is broken.
    pub fn flush(&mut self) -> io::Result<bool> {
        if let Some(layer) = &mut self.layer {
            let layer = layer.get_mut().unwrap_or_else(PoisonError::into_inner);
            return layer::flush(&mut **layer, self.fd.as_fd(), &mut self.out);
        }
        while !self.out.is_empty() {
            match self.send_batch() {
                Ok(sent) => self.out.advance(sent),
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return Ok(false),
                Err(errno) => return Err(errno.into()),
            }
        }
        Ok(true)
    }

    fn send_batch(&self) -> Result<usize, Errno> {
        let (slices, fd) = self.out.next_batch();
        let fds = fd.as_ref().map(std::slice::from_ref);
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if let Some(fds) = fds {
            control.push(SendAncillaryMessage::ScmRights(fds));
        }
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        rustix::net::sendmsg(&self.fd, &slices, &mut control, flags)
    }

    /// Sends bytes other than frames, bypassing the queue, and returns the number of bytes taken,
    /// which is 0 if there is no space at the moment. Never blocks.
    ///
    /// # Errors
    ///
    /// Fails if the connection is broken.
    pub fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if let Some(layer) = &mut self.layer {
            let layer = layer.get_mut().unwrap_or_else(PoisonError::into_inner);
            return layer.send(self.fd.as_fd(), &[io::IoSlice::new(bytes)]);
        }
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        loop {
            match rustix::net::send(&self.fd, bytes, flags) {
                Ok(sent) => return Ok(sent),
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return Ok(0),
                Err(errno) => return Err(errno.into()),
            }
        }
    }

    /// Ends the stream. Returns false if there is no space for that at the moment.
    ///
    /// # Errors
    ///
    /// Fails if the connection is broken.
    pub fn finish_writing(&mut self) -> io::Result<bool> {
        if let Some(layer) = &mut self.layer {
            let layer = layer.get_mut().unwrap_or_else(PoisonError::into_inner);
            if !layer.finish(self.fd.as_fd())? {
                return Ok(false);
            }
        }
        rustix::net::shutdown(&self.fd, Shutdown::Write)?;
        Ok(true)
    }

    /// Puts a layer on the socket, through which all further bytes pass.
    pub fn put_on(&mut self, layer: Box<dyn Layer>) {
        self.layer = Some(Mutex::new(layer));
    }

    /// Returns true if a receive would return bytes although the socket has none.
    pub fn holds_data(&self) -> bool {
        self.in_layer(|layer| layer.holds_data()) == Some(true)
    }

    /// Returns true if the layer confirms that the other side may use this name; `None` if no layer
    /// checks names.
    pub fn vouches_for(&self, name: &[u8]) -> Option<bool> {
        self.in_layer(|layer| layer.vouches_for(name)).flatten()
    }

    fn in_layer<R>(&self, look: impl FnOnce(&dyn Layer) -> R) -> Option<R> {
        let layer = self.layer.as_ref()?;
        let layer = layer.lock().unwrap_or_else(PoisonError::into_inner);
        Some(look(&**layer))
    }

    /// Returns the memory of unsent frames in bytes.
    pub fn queued(&self) -> usize {
        self.out.queued() + self.in_layer(|layer| layer.unsent()).unwrap_or(0)
    }

    /// Sets the largest memory of unsent frames in bytes.
    pub fn set_out_limit(&mut self, limit: usize) {
        self.out.set_limit(limit);
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fd::AsRawFd as _;

    fn send_with(socket: &Socket, bytes: &[u8], fds: &[BorrowedFd<'_>]) {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(8))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        assert!(control.push(SendAncillaryMessage::ScmRights(fds)));
        let slices = [io::IoSlice::new(bytes)];
        rustix::net::sendmsg(&socket.fd, &slices, &mut control, SendFlags::empty()).unwrap();
    }

    fn inode(fd: impl AsFd) -> u64 {
        rustix::fs::fstat(fd).unwrap().st_ino
    }

    /// Returns true if all readers of a pipe are closed.
    fn has_no_reader(writer: &OwnedFd) -> bool {
        let mut poll = [rustix::event::PollFd::new(
            writer,
            rustix::event::PollFlags::empty(),
        )];
        rustix::event::poll(&mut poll, Some(&rustix::event::Timespec::default())).unwrap();
        poll[0].revents().contains(rustix::event::PollFlags::ERR)
    }

    #[test]
    fn ipc_033_of_two_descriptors_the_first_is_kept_and_the_second_closed() {
        let (sender, receiver) = Socket::pair().unwrap();
        let (first, _first_writer) = rustix::pipe::pipe().unwrap();
        let (second, second_writer) = rustix::pipe::pipe().unwrap();
        send_with(&sender, b"x", &[first.as_fd(), second.as_fd()]);
        drop(second);
        let received = receiver.receive(&mut [0; 16]).unwrap();
        let Received::Data {
            len: 1,
            fd: Some(fd),
        } = received
        else {
            panic!("{received:?}")
        };
        assert_eq!(inode(&fd), inode(&first));
        assert_ne!(fd.as_fd().as_raw_fd(), first.as_raw_fd());
        assert!(
            rustix::io::fcntl_getfd(&fd)
                .unwrap()
                .contains(rustix::io::FdFlags::CLOEXEC)
        );
        assert!(has_no_reader(&second_writer));
    }

    #[test]
    fn ipc_033_three_descriptors_fail_the_receive_and_none_leaks() {
        let (sender, receiver) = Socket::pair().unwrap();
        let (reader, writer) = rustix::pipe::pipe().unwrap();
        send_with(
            &sender,
            b"x",
            &[reader.as_fd(), reader.as_fd(), reader.as_fd()],
        );
        drop(reader);
        let error = receiver.receive(&mut [0; 16]).unwrap_err();
        assert!(matches!(error, ReceiveError::TooManyDescriptors), "{error}");
        assert!(has_no_reader(&writer));
    }

    #[test]
    fn a_queued_descriptor_arrives_with_its_frame() {
        let (mut sender, receiver) = Socket::pair().unwrap();
        let (reader, _writer) = rustix::pipe::pipe().unwrap();
        let expected = inode(&reader);
        sender.queue(b"one".to_vec(), None).unwrap();
        sender.queue(b"two".to_vec(), Some(reader)).unwrap();
        sender.queue(b"three".to_vec(), None).unwrap();
        assert!(sender.flush().unwrap());
        let mut buffer = [0; 64];
        let Received::Data { len, fd: Some(fd) } = receiver.receive(&mut buffer).unwrap() else {
            panic!("no descriptor")
        };
        assert_eq!((&buffer[..len], inode(&fd)), (&b"onetwo"[..], expected));
        let rest = receiver.receive(&mut buffer).unwrap();
        assert!(matches!(rest, Received::Data { len: 5, fd: None }));
        drop(sender);
        assert!(matches!(
            receiver.receive(&mut buffer).unwrap(),
            Received::Closed
        ));
    }

    #[test]
    fn connections_of_a_vanished_machine_end() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let stream = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let socket = Socket::from_fd(stream.into()).unwrap();
        assert!(sockopt::socket_keepalive(&socket).unwrap());
        let idle = sockopt::tcp_keepidle(&socket).unwrap();
        let answer = sockopt::tcp_keepintvl(&socket).unwrap();
        let minute = Duration::from_secs(60);
        assert!(idle + answer * sockopt::tcp_keepcnt(&socket).unwrap() <= minute);
    }

    #[test]
    fn sending_never_blocks_and_resumes_where_it_stopped() {
        let (mut sender, receiver) = Socket::pair().unwrap();
        let payload: Vec<u8> = (0..100_000).map(|i| (i % 251) as u8).collect();
        for _ in 0..20 {
            sender.queue(payload.clone(), None).unwrap();
        }
        assert!(!sender.flush().unwrap());
        let (mut received, mut buffer) = (Vec::new(), vec![0; RECEIVE_BUFFER_SIZE]);
        while received.len() < 20 * payload.len() {
            match receiver.receive(&mut buffer).unwrap() {
                Received::Data { len, .. } => received.extend_from_slice(&buffer[..len]),
                _ => assert!(sender.queued() > 0),
            }
            sender.flush().unwrap();
        }
        assert!(received.chunks(payload.len()).all(|chunk| chunk == payload));
        assert_eq!(sender.queued(), 0);
    }
}
