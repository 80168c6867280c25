//! The socket that clients connect to, and the page that calls them.

use std::fs::{File, OpenOptions};
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use ferretto_heap::control::{self, ControlPage};
use ferretto_heap::ring::PAGE;
use ferretto_heap::wire::HELLO_EXTENDED;
use rustix::fs::{PROC_SUPER_MAGIC, fstatfs};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};

/// Clients that have connected and not said anything, at most.
const MAX_SILENT: usize = 256;
/// The time that they may take.
const PATIENCE: Duration = Duration::from_secs(5);

/// A client that has introduced itself.
#[derive(Debug)]
pub(crate) struct Hello {
    pub(crate) stream: UnixStream,
    pub(crate) pid: u32,
    pub(crate) maps: File,
    pub(crate) memory: File,
    /// It is ours.
    pub(crate) is_extended: bool,
}

/// The socket and the page.
#[derive(Debug)]
pub(crate) struct Listener {
    listener: UnixListener,
    path: PathBuf,
    page: ControlPage,
    silent: Vec<(UnixStream, Instant)>,
}

impl Listener {
    /// Listens at `path`. A socket that nobody listens at is replaced, any other file is not.
    pub(crate) fn bind(path: &Path) -> io::Result<Self> {
        if path.as_os_str().len() > control::MAX_PATH {
            let text = format!(
                "{}: the path of a socket is at most 107 bytes",
                path.display()
            );
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        }
        let listener = match UnixListener::bind(path) {
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
                if !is_socket(path) || UnixStream::connect(path).is_ok() {
                    return Err(error);
                }
                std::fs::remove_file(path)?;
                UnixListener::bind(path)?
            }
            bound => bound?,
        };
        listener.set_nonblocking(true)?;
        // Whoever may reach the folder may connect; what comes is checked, and clients check us.
        std::fs::set_permissions(path, PermissionsExt::from_mode(0o666))?;
        let page = page(path)?;
        Ok(Self {
            listener,
            path: path.to_owned(),
            page,
            silent: Vec::new(),
        })
    }

    /// Returns the descriptors to wait for.
    pub(crate) fn fds(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let silent = self.silent.iter().map(|(stream, _)| stream.as_fd());
        std::iter::once(self.listener.as_fd()).chain(silent)
    }

    /// Returns the time to wait at most.
    pub(crate) fn due(&self, now: Instant) -> Option<Duration> {
        let ends = self.silent.iter().map(|(_, since)| *since + PATIENCE);
        ends.min().map(|end| end.saturating_duration_since(now))
    }

    /// Tells programs that a session has begun.
    pub(crate) fn call(&self, active: usize) {
        self.page.call(active as u32);
    }

    /// Tells programs that start how many sessions there are.
    pub(crate) fn set_active(&self, active: usize) {
        self.page.set_active(active as u32);
    }

    /// Takes what has come. Does not wait.
    pub(crate) fn receive(&mut self, now: Instant) -> Vec<Hello> {
        while let Ok((stream, _)) = self.listener.accept() {
            if self.silent.len() < MAX_SILENT && stream.set_nonblocking(true).is_ok() {
                self.silent.push((stream, now));
            }
        }
        let mut hellos = Vec::new();
        let waiting = std::mem::take(&mut self.silent);
        for (stream, since) in waiting {
            match hello(&stream) {
                Ok(Some(greeting)) => hellos.push(greeting.with(stream)),
                Err(rustix::io::Errno::AGAIN) if now < since + PATIENCE => {
                    self.silent.push((stream, since));
                }
                _ => {}
            }
        }
        hellos
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        // If somebody else has removed it that is fine. The page stays, for programs that have it.
        if is_socket(&self.path) {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

fn is_socket(path: &Path) -> bool {
    std::fs::symlink_metadata(path).is_ok_and(|file| file.file_type().is_socket())
}

/// Opens the page, or makes it. Programs that were started under an earlier profiler have it
/// mapped, so it is never replaced nor made shorter.
fn page(socket: &Path) -> io::Result<ControlPage> {
    let mut name = socket.as_os_str().as_bytes().to_vec();
    name.extend_from_slice(control::SUFFIX.as_bytes());
    let path = Path::new(std::ffi::OsStr::from_bytes(&name));
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o644)
        .custom_flags(rustix::fs::OFlags::NOFOLLOW.bits() as i32)
        .open(path)?;
    if file.metadata()?.len() < PAGE as u64 {
        file.set_len(PAGE as u64)?;
    }
    file.set_permissions(PermissionsExt::from_mode(0o644))?;
    ControlPage::new(&file).ok_or_else(io::Error::last_os_error)
}

/// The first message of a client.
struct Greeting {
    pid: u32,
    maps: File,
    memory: File,
    is_extended: bool,
}

impl Greeting {
    fn with(self, stream: UnixStream) -> Hello {
        Hello {
            stream,
            pid: self.pid,
            maps: self.maps,
            memory: self.memory,
            is_extended: self.is_extended,
        }
    }
}

/// Reads it; `None` if it is of no use.
fn hello(stream: &UnixStream) -> rustix::io::Result<Option<Greeting>> {
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
    let Ok([maps, memory]) = <[OwnedFd; 2]>::try_from(fds) else {
        return Ok(None);
    };
    let pid = peer.pid.as_raw_nonzero().get() as u32;
    let are_its = is_of(&maps, pid, "maps") && is_of(&memory, pid, "mem");
    if received.bytes == 0 || !are_its {
        return Ok(None);
    }
    Ok(Some(Greeting {
        pid,
        maps: File::from(maps),
        memory: File::from(memory),
        is_extended: byte[0] == HELLO_EXTENDED,
    }))
}

/// Returns true if it is the file of that name of that process: no other is read.
fn is_of(fd: &OwnedFd, pid: u32, name: &str) -> bool {
    let in_proc = fstatfs(fd).is_ok_and(|status| status.f_type == PROC_SUPER_MAGIC);
    let link = std::fs::read_link(format!("/proc/self/fd/{}", fd.as_raw_fd()));
    let expected = format!("/proc/{pid}/{name}");
    let is_named = link.is_ok_and(|link| link == Path::new(&expected));
    let inode = || {
        let own = rustix::fs::fstat(fd).ok()?.st_ino;
        Some(own == std::fs::metadata(&expected).ok()?.ino())
    };
    in_proc && (is_named || inode() == Some(true))
}

/// Sends the config and the ring to a client.
pub(crate) fn grant(stream: &UnixStream, config: &[u8], ring: &OwnedFd) -> io::Result<()> {
    let fds = [ring.as_fd()];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    ancillary.push(SendAncillaryMessage::ScmRights(&fds));
    // The buffer of a new socket has room for all of it.
    let sent = sendmsg(
        stream,
        &[IoSlice::new(config)],
        &mut ancillary,
        SendFlags::NOSIGNAL | SendFlags::DONTWAIT,
    )?;
    match sent == config.len() {
        true => Ok(()),
        false => Err(io::ErrorKind::WriteZero.into()),
    }
}
