//! The socket through which processes send descriptors of their own maps and memory.
//!
//! For daemons without permission to open these files of every process: a process connects, and
//! sends one byte together with two descriptors, of its `/proc/self/maps` and its `/proc/self/mem`.
//! The kernel identifies the process.

use std::fs::{self, File};
use std::io::{self, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::{PROC_SUPER_MAGIC, fstatfs};
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};

/// The largest number of connections that have not sent anything yet.
const MAX_SILENT: usize = 256;
/// The time limit for a connection to send something.
const PATIENCE: Duration = Duration::from_secs(5);
/// The maximum length of a socket path.
const MAX_PATH: usize = 107;

/// The descriptors that a process has sent.
#[derive(Debug)]
pub struct HandOver {
    /// The process.
    pub pid: u32,
    /// The user of the process.
    pub uid: u32,
    /// Its `/proc/self/maps`.
    pub maps: File,
    /// Its `/proc/self/mem`.
    pub memory: File,
    /// The byte that came with them.
    pub byte: u8,
    /// The connection.
    pub stream: UnixStream,
}

/// The socket. Its file is removed on drop if it was created here.
#[derive(Debug)]
pub struct HandOverSocket {
    listener: UnixListener,
    path: Option<PathBuf>,
    silent: Vec<(UnixStream, Instant)>,
}

impl HandOverSocket {
    /// Listens at `path`, where every user may connect: descriptors are checked. A socket without a
    /// listener is replaced; any other file is not.
    ///
    /// # Errors
    ///
    /// Fails if the path is too long, or if there is another file or a listener.
    pub fn bind(path: &Path) -> io::Result<Self> {
        if path.as_os_str().len() > MAX_PATH {
            let text = format!("the path of a socket is at most {MAX_PATH} bytes");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        }
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
                fs::remove_file(path)?;
                UnixListener::bind(path)?
            }
            bound => bound?,
        };
        listener.set_nonblocking(true)?;
        fs::set_permissions(path, PermissionsExt::from_mode(0o666))?;
        Ok(Self {
            listener,
            path: Some(path.to_owned()),
            silent: Vec::new(),
        })
    }

    /// Listens at a socket that another process has bound and will remove.
    ///
    /// # Errors
    ///
    /// Fails if the descriptor is not a listening socket.
    pub fn from_fd(socket: OwnedFd) -> io::Result<Self> {
        if !rustix::net::sockopt::socket_acceptconn(&socket)? {
            let text = "nothing listens at the socket that was handed over";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        }
        let listener = UnixListener::from(socket);
        listener.set_nonblocking(true)?;
        Ok(Self {
            listener,
            path: None,
            silent: Vec::new(),
        })
    }

    /// Returns the descriptors to be polled.
    pub fn fds(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let silent = self.silent.iter().map(|(stream, _)| stream.as_fd());
        std::iter::once(self.listener.as_fd()).chain(silent)
    }

    /// Returns the time until the next timeout.
    pub fn due(&self, now: Instant) -> Option<Duration> {
        let ends = self.silent.iter().map(|(_, since)| *since + PATIENCE);
        ends.min().map(|end| end.saturating_duration_since(now))
    }

    /// Receives the descriptors that have arrived. Does not wait.
    pub fn receive(&mut self, now: Instant) -> Vec<HandOver> {
        while let Ok((stream, _)) = self.listener.accept() {
            if self.silent.len() < MAX_SILENT && stream.set_nonblocking(true).is_ok() {
                self.silent.push((stream, now));
            }
        }
        let mut taken = Vec::new();
        for (stream, since) in std::mem::take(&mut self.silent) {
            match Message::receive(&stream) {
                Ok(message) => taken.extend(message.and_then(|message| message.check(stream))),
                Err(rustix::io::Errno::AGAIN) if now < since + PATIENCE => {
                    self.silent.push((stream, since));
                }
                Err(_) => {}
            }
        }
        taken
    }
}

impl Drop for HandOverSocket {
    fn drop(&mut self) {
        // Another process may have removed the file already.
        if let Some(path) = self.path.as_deref().filter(|path| is_socket(path)) {
            let _ = fs::remove_file(path);
        }
    }
}

fn is_socket(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|file| file.file_type().is_socket())
}

/// The unchecked message of a process.
struct Message {
    byte: u8,
    pid: u32,
    uid: u32,
    maps: OwnedFd,
    memory: OwnedFd,
}

impl Message {
    /// Receives a message; `None` if it is malformed.
    fn receive(stream: &UnixStream) -> rustix::io::Result<Option<Self>> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let mut byte = [0];
        let received = recvmsg(
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
        let fds = <[OwnedFd; 2]>::try_from(fds).ok();
        Ok(fds
            .filter(|_| received.bytes == 1)
            .map(|[maps, memory]| Self {
                byte: byte[0],
                pid: peer.pid.as_raw_nonzero().get() as u32,
                uid: peer.uid.as_raw(),
                maps,
                memory,
            }))
    }

    fn check(self, stream: UnixStream) -> Option<HandOver> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.pid)).unwrap_or_default();
        let own = self.pid.to_string();
        let names: Vec<&str> = std::iter::once(&*own).chain(pids(&status)).collect();
        let is_valid = is_file_of(&self.maps, &names, "maps");
        (is_valid && is_file_of(&self.memory, &names, "mem")).then(|| HandOver {
            pid: self.pid,
            uid: self.uid,
            maps: File::from(self.maps),
            memory: File::from(self.memory),
            byte: self.byte,
            stream,
        })
    }
}

/// Returns the ids of a process in its namespaces. Its own `/proc` uses one of them.
fn pids(status: &str) -> impl Iterator<Item = &str> {
    let mut lines = status.lines();
    let line = lines.find_map(|line| line.strip_prefix("NSpid:"));
    line.unwrap_or_default().split_ascii_whitespace()
}

/// Returns true if the descriptor is this file of this process. Other files are never read, since
/// that could block for ever.
fn is_file_of(fd: &OwnedFd, pids: &[&str], name: &str) -> bool {
    let in_proc = fstatfs(fd).is_ok_and(|status| status.f_type == PROC_SUPER_MAGIC);
    let link = fs::read_link(format!("/proc/self/fd/{}", fd.as_raw_fd()));
    let is_named = |link: PathBuf| {
        let mut parts = pids.iter().map(|pid| Path::new(pid).join(name));
        parts.any(|end| link.ends_with(end))
    };
    in_proc && link.is_ok_and(is_named)
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
        let byte = [std::io::IoSlice::new(&[7])];
        sendmsg(&stream, &byte, &mut ancillary, SendFlags::empty()).unwrap();
    }

    #[test]
    fn only_sockets_are_removed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("precious");
        fs::write(&path, "text").unwrap();
        let error = HandOverSocket::bind(&path).unwrap_err().to_string();
        assert!(
            error.contains("precious is there and is not a socket"),
            "{error}"
        );
        assert_eq!(fs::read(&path).unwrap(), b"text");
        // Nor the target of a link, or a file that replaced the socket.
        let link = folder.path().join("link");
        std::os::unix::fs::symlink(&path, &link).unwrap();
        assert!(HandOverSocket::bind(&link).is_err());
        let moved = folder.path().join("socket");
        let socket = HandOverSocket::bind(&moved).unwrap();
        fs::rename(&path, &moved).unwrap();
        drop(socket);
        assert_eq!(fs::read(&moved).unwrap(), b"text");
        let long = folder.path().join("x".repeat(120));
        let error = HandOverSocket::bind(&long).unwrap_err().to_string();
        assert!(error.contains("at most 107 bytes"), "{error}");
    }

    #[test]
    fn perf_028_descriptors_are_taken_from_the_process_they_are_of() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let mut socket = HandOverSocket::bind(&path).unwrap();
        assert!(HandOverSocket::bind(&path).is_err());
        let now = Instant::now();
        assert!(socket.receive(now).is_empty());
        send(&path, ["/proc/self/maps", "/proc/self/mem"]);
        let taken = socket.receive(now);
        assert_eq!(taken.len(), 1);
        assert_eq!((taken[0].pid, taken[0].byte), (std::process::id(), 7));
        assert_eq!(taken[0].uid, rustix::process::geteuid().as_raw());
        // Other files, the wrong order, no descriptors.
        send(&path, ["/proc/self/maps", "/dev/null"]);
        send(&path, ["/proc/self/mem", "/proc/self/maps"]);
        drop(UnixStream::connect(&path).unwrap());
        assert!(socket.receive(now).is_empty());
        assert!(socket.silent.is_empty());
        // A silent connection is closed in the end.
        let silent = UnixStream::connect(&path).unwrap();
        socket.receive(now);
        assert_eq!(socket.silent.len(), 1);
        assert_eq!(socket.due(now), Some(PATIENCE));
        socket.receive(now + PATIENCE);
        assert!(socket.silent.is_empty());
        drop((silent, socket));
        assert!(!path.exists());
    }

    #[test]
    fn an_inherited_socket_is_used_and_not_removed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let bound = UnixListener::bind(&path).unwrap();
        let mut socket = HandOverSocket::from_fd(bound.into()).unwrap();
        send(&path, ["/proc/self/maps", "/proc/self/mem"]);
        assert_eq!(socket.receive(Instant::now()).len(), 1);
        drop(socket);
        assert!(path.exists());
        let (other, _) = UnixStream::pair().unwrap();
        assert!(HandOverSocket::from_fd(other.into()).is_err());
    }

    #[test]
    fn files_of_other_processes_are_rejected() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let mut socket = HandOverSocket::bind(&path).unwrap();
        let mut other = std::process::Command::new("sleep")
            .arg("60")
            .spawn()
            .unwrap();
        let maps = format!("/proc/{}/maps", other.id());
        send(&path, [&maps, "/proc/self/mem"]);
        let taken = socket.receive(Instant::now());
        other.kill().unwrap();
        other.wait().unwrap();
        assert!(taken.is_empty());
    }

    #[test]
    fn a_process_has_an_id_in_each_namespace() {
        let status = "Name:\tx\nNSpid:\t4711\t7\nNSpgid:\t4711\t7\n";
        assert_eq!(pids(status).collect::<Vec<_>>(), ["4711", "7"]);
        assert_eq!(pids("Name:\tx\n").count(), 0);
    }
}
