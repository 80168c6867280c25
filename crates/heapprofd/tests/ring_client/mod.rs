//! A client of the profiler that writes any records into its ring.
#![allow(dead_code, reason = "each test program uses a part")]

use std::fs::File;
use std::io::IoSlice;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;

use ferretto_heap::ring::Writer;
use ferretto_heap::wire::{CONFIG_BYTES, record};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};

/// The files by which a client lets its process be read.
pub(crate) const OWN: [&str; 2] = ["/proc/self/maps", "/proc/self/mem"];

/// Connects to the profiler, with a version byte and files of a process.
pub(crate) fn hello(socket: &Path, byte: u8, files: &[&str]) -> std::io::Result<UnixStream> {
    let stream = UnixStream::connect(socket)?;
    let files: Vec<File> = files
        .iter()
        .map(|file| File::open(file).expect("a file"))
        .collect();
    let fds: Vec<_> = files.iter().map(|file| file.as_fd()).collect();
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    if !fds.is_empty() {
        assert!(ancillary.push(SendAncillaryMessage::ScmRights(&fds)));
    }
    sendmsg(
        &stream,
        &[IoSlice::new(&[byte])],
        &mut ancillary,
        SendFlags::NOSIGNAL,
    )?;
    Ok(stream)
}

/// Returns the granted ring; `None` if the profiler hangs up.
pub(crate) fn granted(stream: &UnixStream) -> Option<OwnedFd> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let mut config = vec![0; CONFIG_BYTES];
    let mut parts = [std::io::IoSliceMut::new(&mut config)];
    let received = recvmsg(stream, &mut parts, &mut ancillary, RecvFlags::CMSG_CLOEXEC).ok()?;
    if received.bytes == 0 {
        return None;
    }
    assert_eq!(received.bytes, CONFIG_BYTES);
    let ring = ancillary.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut rights) => rights.next(),
        _ => None,
    });
    Some(ring.expect("the ring comes with the config"))
}

/// Writes a record if the ring has space, and returns true if it had.
pub(crate) fn try_write(writer: &Writer, bytes: &[u8]) -> bool {
    let written = writer.write(bytes.len(), |to| {
        // SAFETY: `to` has space for as many bytes.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len()) };
    });
    written.is_ok()
}

/// Writes a record.
pub(crate) fn write(writer: &Writer, bytes: &[u8]) {
    assert!(try_write(writer, bytes), "there is room");
}

/// Writes a record if the ring has space, and wakes the profiler otherwise.
pub(crate) fn offer(writer: &Writer, stream: &UnixStream, bytes: &[u8]) -> bool {
    let is_written = try_write(writer, bytes);
    if !is_written {
        let _ = rustix::io::write(stream, b"x");
        std::thread::yield_now();
    }
    is_written
}

/// Returns an allocation record of upstream's client.
pub(crate) fn malloc(sequence: u64, arch: u8, stack: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; 8 + 328];
    bytes[..8].copy_from_slice(&record::MALLOC.to_ne_bytes());
    for (word, value) in [(0, sequence), (1, 100), (2, 100), (3, sequence * 16)] {
        bytes[8 + word * 8..][..8].copy_from_slice(&u64::to_ne_bytes(value));
    }
    bytes[8 + 320] = 1;
    bytes[8 + 324] = arch;
    bytes.extend_from_slice(stack);
    bytes
}

/// Returns a record of a freed allocation.
pub(crate) fn free(sequence: u64, address: u64) -> Vec<u8> {
    let words = [record::FREE, sequence, address, 1];
    words.map(u64::to_ne_bytes).concat()
}
