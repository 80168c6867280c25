//! The socket where processes hand over descriptors of their own maps and memory.
//!
//! For daemons that may not look into every process: a process connects, and sends one byte
//! together with two descriptors, of its `/proc/self/maps` and its `/proc/self/mem`. Who it is the
//! kernel says. This is the way of Android, where a signal asks for it.

use std::fs::File;
use std::io::{self, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileTypeExt as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::{PROC_SUPER_MAGIC, fstatfs};
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};

use super::Descriptors;

/// The most connections that have not sent anything yet.
const MAX_CONNECTIONS: usize = 64;
/// The time a connection may take to send something.
const PATIENCE: Duration = Duration::from_secs(5);

/// A process has handed over its descriptors.
#[derive(Debug)]
pub(crate) struct Delivery {
    pub(crate) pid: u32,
    pub(crate) descriptors: Descriptors,
}

/// The socket; its file is removed in the end.
#[derive(Debug)]
pub(crate) struct DescriptorSocket {
    listener: UnixListener,
    path: PathBuf,
    connections: Vec<(UnixStream, Instant)>,
}

impl DescriptorSocket {
    /// Listens at `path`, where every user may connect. A socket that nobody listens at is
    /// replaced, any other file is not.
    pub(crate) fn bind(path: &Path) -> io::Result<Self> {
        let listener = match UnixListener::bind(path) {
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
                if !is_socket(path) {
                    return Err(io::Error::new(
                        io::ErrorKind::AlreadyExists,
                        format!("{} is there and is not a socket", path.display()),
                    ));
                }
                if UnixStream::connect(path).is_ok() {
                    return Err(error);
                }
                std::fs::remove_file(path)?;
                UnixListener::bind(path)?
            }
            bound => bound?,
        };
        listener.set_nonblocking(true)?;
        let everybody = std::os::unix::fs::PermissionsExt::from_mode(0o666);
        std::fs::set_permissions(path, everybody)?;
        Ok(Self {
            listener,
            path: path.to_owned(),
            connections: Vec::new(),
        })
    }

    /// Returns the descriptors to wait for.
    pub(crate) fn fds(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let connections = self.connections.iter().map(|(stream, _)| stream.as_fd());
        std::iter::once(self.listener.as_fd()).chain(connections)
    }

    /// Returns the time to wait at most.
    pub(crate) fn due(&self, now: Instant) -> Option<Duration> {
        let ends = self.connections.iter().map(|(_, since)| *since + PATIENCE);
        ends.min().map(|end| end.saturating_duration_since(now))
    }

    /// Takes what has come. Does not wait.
    pub(crate) fn receive(&mut self, now: Instant) -> Vec<Delivery> {
        while let Ok((stream, _)) = self.listener.accept() {
            if self.connections.len() < MAX_CONNECTIONS && stream.set_nonblocking(true).is_ok() {
                self.connections.push((stream, now));
            }
        }
        let mut deliveries = Vec::new();
        self.connections
            .retain(|(stream, since)| match take(stream) {
                Ok(delivery) => {
                    deliveries.extend(delivery);
                    false
                }
                Err(rustix::io::Errno::AGAIN) => now < *since + PATIENCE,
                Err(_) => false,
            });
        deliveries
    }
}

impl Drop for DescriptorSocket {
    fn drop(&mut self) {
        // If somebody else has removed it that is fine.
        if is_socket(&self.path) {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

fn is_socket(path: &Path) -> bool {
    std::fs::symlink_metadata(path).is_ok_and(|file| file.file_type().is_socket())
}

/// Reads what a process has sent; `None` if it is of no use.
fn take(stream: &UnixStream) -> rustix::io::Result<Option<Delivery>> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0];
    recvmsg(
        stream,
        &mut [IoSliceMut::new(&mut byte)],
        &mut ancillary,
        RecvFlags::CMSG_CLOEXEC,
    )?;
    let mut fds: Vec<OwnedFd> = Vec::new();
    for message in ancillary.drain() {
        if let RecvAncillaryMessage::ScmRights(rights) = message {
            fds.extend(rights);
        }
    }
    let peer = rustix::net::sockopt::socket_peercred(stream)?;
    let Ok([maps, mem]) = <[OwnedFd; 2]>::try_from(fds) else {
        return Ok(None);
    };
    if !is_proc_file(&maps, "maps") || !is_proc_file(&mem, "mem") {
        return Ok(None);
    }
    Ok(Some(Delivery {
        pid: peer.pid.as_raw_nonzero().get() as u32,
        descriptors: Descriptors {
            maps: File::from(maps),
            mem: File::from(mem),
        },
    }))
}

/// Returns whether it is a file of that name in `/proc`: no other is read, as that could take for
/// ever.
fn is_proc_file(fd: &OwnedFd, name: &str) -> bool {
    use std::os::fd::AsRawFd;
    let in_proc = fstatfs(fd).is_ok_and(|status| status.f_type == PROC_SUPER_MAGIC);
    let path = std::fs::read_link(format!("/proc/self/fd/{}", fd.as_raw_fd()));
    in_proc && path.is_ok_and(|path| path.file_name() == Some(name.as_ref()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};

    fn send(path: &Path, files: [&str; 2]) {
        let stream = UnixStream::connect(path).unwrap();
        let files = files.map(|file| File::open(file).unwrap());
        let fds = [files[0].as_fd(), files[1].as_fd()];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        assert!(ancillary.push(SendAncillaryMessage::ScmRights(&fds)));
        let byte = [std::io::IoSlice::new(&[1])];
        sendmsg(&stream, &byte, &mut ancillary, SendFlags::empty()).unwrap();
    }

    #[test]
    fn what_is_no_socket_is_never_removed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("precious");
        std::fs::write(&path, "text").unwrap();
        let error = DescriptorSocket::bind(&path).unwrap_err().to_string();
        assert!(
            error.contains("precious is there and is not a socket"),
            "{error}"
        );
        assert_eq!(std::fs::read(&path).unwrap(), b"text");
        // Nor what a link leads to, or what took the place of the socket.
        let link = folder.path().join("link");
        std::os::unix::fs::symlink(&path, &link).unwrap();
        assert!(DescriptorSocket::bind(&link).is_err());
        let moved = folder.path().join("socket");
        let socket = DescriptorSocket::bind(&moved).unwrap();
        std::fs::rename(&path, &moved).unwrap();
        drop(socket);
        assert_eq!(std::fs::read(&moved).unwrap(), b"text");
    }

    #[test]
    fn perf_028_descriptors_are_taken_from_the_process_they_are_of() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let mut socket = DescriptorSocket::bind(&path).unwrap();
        assert!(DescriptorSocket::bind(&path).is_err());
        let now = Instant::now();
        assert!(socket.receive(now).is_empty());
        send(&path, ["/proc/self/maps", "/proc/self/mem"]);
        let deliveries = socket.receive(now);
        assert_eq!(deliveries.len(), 1);
        assert_eq!(deliveries[0].pid, std::process::id());
        // Other files, the wrong order, nothing at all.
        send(&path, ["/proc/self/maps", "/dev/null"]);
        send(&path, ["/proc/self/mem", "/proc/self/maps"]);
        drop(UnixStream::connect(&path).unwrap());
        assert!(socket.receive(now).is_empty());
        assert!(socket.connections.is_empty());
        // One that says nothing is given up in the end.
        let silent = UnixStream::connect(&path).unwrap();
        socket.receive(now);
        assert_eq!(socket.connections.len(), 1);
        assert_eq!(socket.due(now), Some(PATIENCE));
        socket.receive(now + PATIENCE);
        assert!(socket.connections.is_empty());
        drop((silent, socket));
        assert!(!path.exists());
    }
}
