//! The socket for clients, and the control page that wakes them.

use std::fs::OpenOptions;
use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Instant;

use ferretto_heap::control::PAGE;
use ferretto_heap::control::{self, ControlPage};
use ferretto_profiling::{HandOver, HandOverSocket};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};

/// The socket and the page.
#[derive(Debug)]
pub(crate) struct Listener {
    socket: HandOverSocket,
    page: ControlPage,
}

impl Listener {
    /// Listens at `path`.
    pub(crate) fn bind(path: &Path) -> io::Result<Self> {
        Ok(Self {
            socket: HandOverSocket::bind(path)?,
            page: page(path)?,
        })
    }

    /// Listens at a socket that is already bound to `path`.
    pub(crate) fn from_fd(socket: OwnedFd, path: &Path) -> io::Result<Self> {
        Ok(Self {
            socket: HandOverSocket::from_fd(socket)?,
            page: page(path)?,
        })
    }

    pub(crate) fn socket(&self) -> &HandOverSocket {
        &self.socket
    }

    /// Returns the clients that have connected, without blocking.
    pub(crate) fn receive(&mut self, now: Instant) -> Vec<HandOver> {
        self.socket.receive(now)
    }

    /// Notifies programs of a new session.
    pub(crate) fn call(&self, active: usize) {
        self.page.call(active as u32);
    }

    /// Sets the number of sessions, which new programs read.
    pub(crate) fn set_active(&self, active: usize) {
        self.page.set_active(active as u32);
    }
}

/// Opens or creates the page. Programs started under an earlier profiler have it mapped, so it is
/// never replaced or truncated.
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
    // Its owner could truncate it while it is mapped.
    let metadata = file.metadata()?;
    let own = rustix::process::geteuid().as_raw();
    if !metadata.is_file() || (metadata.uid() != 0 && metadata.uid() != own) {
        let what = format!(
            "{} belongs to another user ({}); remove it, or use a folder that only the profiler's user can write",
            path.display(),
            metadata.uid()
        );
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, what));
    }
    // Its other name may be that of a private file, whose mode would change.
    if metadata.nlink() > 1 {
        let what = format!("{} is a file with other names; remove it", path.display());
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, what));
    }
    if metadata.len() < PAGE as u64 {
        file.set_len(PAGE as u64)?;
    }
    file.set_permissions(PermissionsExt::from_mode(0o644))?;
    ControlPage::new(&file).ok_or_else(io::Error::last_os_error)
}

/// Sends the config and the ring to a client.
pub(crate) fn grant(stream: &UnixStream, config: &[u8], ring: &OwnedFd) -> io::Result<()> {
    let fds = [ring.as_fd()];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    ancillary.push(SendAncillaryMessage::ScmRights(&fds));
    // The empty buffer of a new socket has space for the message.
    let sent = sendmsg(
        stream,
        &[IoSlice::new(config)],
        &mut ancillary,
        SendFlags::NOSIGNAL | SendFlags::DONTWAIT,
    )?;
    if sent == config.len() {
        Ok(())
    } else {
        Err(io::ErrorKind::WriteZero.into())
    }
}
