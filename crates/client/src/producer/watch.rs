//! Detects the appearance of a service.

use std::ffi::OsStr;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use ferretto_ipc::Address;
use rustix::fs::inotify;

/// Watches the directory of a socket. The descriptor becomes readable when a file is created there.
#[derive(Debug)]
pub(super) struct SocketWatch {
    fd: OwnedFd,
    path: PathBuf,
}

impl SocketWatch {
    /// Returns `None` if the address is not in the filesystem, its directory does not exist, or the
    /// system has no watches left. Then only the pauses between attempts apply.
    pub(super) fn new(address: &Address) -> Option<Self> {
        let Address::Path(path) = address else {
            return None;
        };
        let directory = path
            .parent()
            .filter(|parent| !parent.as_os_str().is_empty());
        let directory = directory.unwrap_or(Path::new("."));
        let flags = inotify::CreateFlags::CLOEXEC | inotify::CreateFlags::NONBLOCK;
        let fd = inotify::init(flags).ok()?;
        inotify::add_watch(&fd, directory, inotify::WatchFlags::CREATE).ok()?;
        Some(Self {
            fd,
            path: path.clone(),
        })
    }

    /// Returns true if the socket was created since the last call.
    pub(super) fn is_created(&self) -> bool {
        let mut buffer = [MaybeUninit::uninit(); 4096];
        let mut reader = inotify::Reader::new(&self.fd, &mut buffer);
        let wanted = self.path.file_name().map(OsStr::as_bytes);
        let mut is_created = false;
        while let Ok(event) = reader.next() {
            is_created |= event.file_name().map(std::ffi::CStr::to_bytes) == wanted;
        }
        is_created
    }
}

impl AsFd for SocketWatch {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}
