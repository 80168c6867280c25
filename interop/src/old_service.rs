//! A service without newer methods: a proxy between a service and its clients, which hides methods
//! from clients that query them.

use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::net::Shutdown;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::thread;

use ferretto_ipc::frame::{Frame, Message, bind_service_reply};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg, shutdown,
};

/// An upper limit of the file descriptors of a message.
const FDS: usize = 8;

/// A proxy that listens until it is dropped.
#[derive(Debug)]
pub(crate) struct OldService {
    listener: UnixListener,
}

impl OldService {
    /// Listens at `path` on behalf of the service at `newer`.
    pub(crate) fn start(path: &Path, newer: &Path, missing: &'static [&'static str]) -> Self {
        let listener = UnixListener::bind(path).expect("a socket");
        let newer = newer.to_owned();
        let accepting = listener.try_clone().expect("a socket");
        thread::spawn(move || {
            while let Ok((client, _)) = accepting.accept() {
                connect(client, &newer, missing);
            }
        });
        Self { listener }
    }
}

impl Drop for OldService {
    fn drop(&mut self) {
        let _ = shutdown(&self.listener, rustix::net::Shutdown::Both);
    }
}

fn connect(client: UnixStream, newer: &PathBuf, missing: &'static [&'static str]) {
    // A client without a service retries.
    let Ok(service) = UnixStream::connect(newer) else {
        return;
    };
    let (Ok(from_client), Ok(to_service)) = (client.try_clone(), service.try_clone()) else {
        return;
    };
    thread::spawn(move || forward(&from_client, &to_service, Frames::Any));
    let replies = Frames::Replies(missing, Vec::new());
    thread::spawn(move || forward(&service, &client, replies));
}

/// Forwards data with file descriptors until either side disconnects.
fn forward(from: &UnixStream, to: &UnixStream, mut frames: Frames) {
    let mut fds = Vec::new();
    while let Some(bytes) = receive(from, &mut fds) {
        let (ready, is_complete) = frames.take(bytes);
        // The file descriptors of a message arrive with its bytes, without further data.
        let with: Vec<OwnedFd> = if is_complete {
            std::mem::take(&mut fds)
        } else {
            Vec::new()
        };
        if send(to, &ready, &with).is_none() {
            break;
        }
    }
    let _ = from.shutdown(Shutdown::Both);
    let _ = to.shutdown(Shutdown::Both);
}

/// The frames of one direction.
enum Frames {
    /// Forwarded unchanged.
    Any,
    /// Forwarded without these methods; with the received part of an incomplete frame.
    Replies(&'static [&'static str], Vec<u8>),
}

impl Frames {
    /// Returns the bytes to forward now, and true if no incomplete frame remains.
    fn take(&mut self, bytes: Vec<u8>) -> (Vec<u8>, bool) {
        let Self::Replies(missing, held) = self else {
            return (bytes, true);
        };
        held.extend(bytes);
        let mut ready = Vec::new();
        while let Some((length, rest)) = held.split_first_chunk::<4>() {
            let length = u32::from_le_bytes(*length) as usize;
            let Some(frame) = rest.get(..length) else {
                break;
            };
            ready.extend(without(missing, frame));
            held.drain(..4 + length);
        }
        (ready, held.is_empty())
    }
}

/// Returns the frame without the missing methods.
fn without(missing: &[&str], frame: &[u8]) -> Vec<u8> {
    let decoded = Frame::decode(frame).expect("the service sends frames");
    let Message::BindServiceReply {
        service_id,
        methods,
        ..
    } = decoded.message
    else {
        let length = u32::try_from(frame.len()).expect("frames are small");
        return [&length.to_le_bytes(), frame].concat();
    };
    let methods: Vec<(u32, &str)> = methods
        .into_iter()
        .map(|(id, name)| (id, std::str::from_utf8(name).expect("names are text")))
        .filter(|(_, name)| !missing.contains(name))
        .collect();
    bind_service_reply(decoded.request_id, service_id, &methods)
}

/// Receives the next bytes; returns `None` at the end.
fn receive(from: &UnixStream, fds: &mut Vec<OwnedFd>) -> Option<Vec<u8>> {
    let mut bytes = vec![0; 65536];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(FDS))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut slices = [IoSliceMut::new(&mut bytes)];
    let received = recvmsg(from, &mut slices, &mut control, RecvFlags::CMSG_CLOEXEC).ok()?;
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(rights) = message {
            fds.extend(rights);
        }
    }
    bytes.truncate(received.bytes);
    (received.bytes > 0).then_some(bytes)
}

fn send(to: &UnixStream, mut bytes: &[u8], fds: &[OwnedFd]) -> Option<()> {
    let fds: Vec<BorrowedFd<'_>> = fds.iter().map(AsFd::as_fd).collect();
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(FDS))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !fds.is_empty() {
        control.push(SendAncillaryMessage::ScmRights(&fds));
    }
    while !bytes.is_empty() {
        let slices = [IoSlice::new(bytes)];
        let sent = sendmsg(to, &slices, &mut control, SendFlags::NOSIGNAL).ok()?;
        bytes = &bytes[sent..];
        control.clear();
    }
    Some(())
}
