//! The system calls that can fail, and the errors that they return.

use std::fs;

use libc::{EAGAIN, EINTR, EIO, EMFILE, ENOBUFS, ENOMEM, ENOSPC, c_long};

/// The effect of a fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// The call returns an error, and has no effect.
    Error(i32),
    /// It and all later ones of its kind return an error.
    LastingError(i32),
    /// The call is made with half of its bytes.
    Short,
    /// The program is killed before the call.
    Kill,
}

/// Calls that fail in the same ways.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// Writing into files.
    Write,
    /// Writing to standard output and standard error.
    Print,
    /// Writing to sockets and pipes.
    Send,
    /// Reading files.
    Read,
    /// Reading from sockets and pipes.
    Receive,
    /// Opening files.
    Open,
    /// Changing the size of files.
    Resize,
    /// Writing files to the disk.
    Sync,
    /// Names of files: renaming, linking, removing, creating folders.
    Name,
    /// Mapping files into memory.
    Map,
    /// Other new descriptors: sockets, connections, pipes, timers, memory.
    Descriptor,
    /// Waiting for descriptors with poll.
    Wait,
    /// Waiting for descriptors with epoll, which needs no memory.
    WaitForEvents,
    /// Facts about files.
    Inspect,
    /// New threads and processes.
    Thread,
}

impl Kind {
    pub const ALL: [Self; 15] = [
        Self::Write,
        Self::Print,
        Self::Send,
        Self::Read,
        Self::Receive,
        Self::Open,
        Self::Resize,
        Self::Sync,
        Self::Name,
        Self::Map,
        Self::Descriptor,
        Self::Wait,
        Self::WaitForEvents,
        Self::Inspect,
        Self::Thread,
    ];

    pub const fn name(self) -> &'static str {
        match self {
            Self::Write => "write",
            Self::Print => "print",
            Self::Send => "send",
            Self::Read => "read",
            Self::Receive => "receive",
            Self::Open => "open",
            Self::Resize => "resize",
            Self::Sync => "sync",
            Self::Name => "name",
            Self::Map => "map",
            Self::Descriptor => "descriptor",
            Self::Wait => "wait",
            Self::WaitForEvents => "epoll",
            Self::Inspect => "inspect",
            Self::Thread => "thread",
        }
    }

    /// Returns the faults of these calls.
    pub const fn effects(self) -> &'static [Effect] {
        use Effect::{Error, Kill, LastingError, Short};
        match self {
            Self::Write => &[
                Error(ENOSPC),
                LastingError(ENOSPC),
                Error(EIO),
                Error(EINTR),
                Short,
                Kill,
            ],
            Self::Print => &[
                Error(ENOSPC),
                LastingError(ENOSPC),
                Error(EIO),
                Error(EINTR),
                Short,
            ],
            Self::Send => &[Error(ENOBUFS), Error(ENOMEM), Error(EINTR), Short],
            Self::Read => &[Error(EIO), Error(EINTR), Short],
            Self::Receive => &[Error(ENOMEM), Error(EINTR), Short],
            Self::Open => &[
                Error(EMFILE),
                LastingError(EMFILE),
                Error(ENOSPC),
                Error(EIO),
                Error(EINTR),
                Error(ENOMEM),
            ],
            Self::Resize | Self::Sync => &[Error(ENOSPC), Error(EIO), Error(EINTR), Kill],
            Self::Name => &[Error(ENOSPC), Error(EIO), Kill],
            Self::Map => &[Error(ENOMEM), LastingError(ENOMEM)],
            Self::Descriptor => &[
                Error(EMFILE),
                LastingError(EMFILE),
                Error(ENOMEM),
                Error(EINTR),
            ],
            Self::Wait => &[Error(EINTR), Error(ENOMEM)],
            Self::WaitForEvents => &[Error(EINTR)],
            Self::Inspect => &[Error(EIO), Error(ENOMEM)],
            Self::Thread => &[Error(EAGAIN), LastingError(EAGAIN)],
        }
    }
}

/// A kind of calls, or a rule by which the arguments decide.
#[derive(Debug, Clone, Copy)]
enum Rule {
    Is(Kind),
    /// By the file that the first argument is.
    Writes,
    Reads,
    /// A mapping of a file; memory of the program itself is not let fail.
    Maps,
    /// Some commands of fcntl make descriptors.
    Controls,
}

/// The system calls that can fail.
const CALLS: &[(c_long, Rule)] = {
    use Kind::{
        Descriptor, Inspect, Map, Name, Open, Receive, Resize, Send, Sync, Thread, Wait,
        WaitForEvents,
    };
    use Rule::{Controls, Is, Maps, Reads, Writes};
    &[
        (libc::SYS_write, Writes),
        (libc::SYS_writev, Writes),
        (libc::SYS_pwrite64, Writes),
        (libc::SYS_pwritev, Writes),
        (libc::SYS_sendfile, Writes),
        (libc::SYS_read, Reads),
        (libc::SYS_readv, Reads),
        (libc::SYS_pread64, Reads),
        (libc::SYS_openat, Is(Open)),
        (libc::SYS_openat2, Is(Open)),
        (libc::SYS_truncate, Is(Resize)),
        (libc::SYS_ftruncate, Is(Resize)),
        (libc::SYS_fallocate, Is(Resize)),
        (libc::SYS_fsync, Is(Sync)),
        (libc::SYS_fdatasync, Is(Sync)),
        (libc::SYS_sync_file_range, Is(Sync)),
        (libc::SYS_renameat, Is(Name)),
        (libc::SYS_renameat2, Is(Name)),
        (libc::SYS_linkat, Is(Name)),
        (libc::SYS_symlinkat, Is(Name)),
        (libc::SYS_unlinkat, Is(Name)),
        (libc::SYS_mkdirat, Is(Name)),
        (libc::SYS_fchmod, Is(Name)),
        (libc::SYS_fchmodat, Is(Name)),
        (libc::SYS_fchown, Is(Name)),
        (libc::SYS_mmap, Maps),
        (libc::SYS_mremap, Is(Map)),
        (libc::SYS_memfd_create, Is(Descriptor)),
        (libc::SYS_socket, Is(Descriptor)),
        (libc::SYS_socketpair, Is(Descriptor)),
        (libc::SYS_accept, Is(Descriptor)),
        (libc::SYS_accept4, Is(Descriptor)),
        (libc::SYS_connect, Is(Descriptor)),
        (libc::SYS_bind, Is(Descriptor)),
        (libc::SYS_listen, Is(Descriptor)),
        (libc::SYS_pipe2, Is(Descriptor)),
        (libc::SYS_dup, Is(Descriptor)),
        (libc::SYS_fcntl, Controls),
        (libc::SYS_epoll_create1, Is(Descriptor)),
        (libc::SYS_eventfd2, Is(Descriptor)),
        (libc::SYS_timerfd_create, Is(Descriptor)),
        (libc::SYS_inotify_init1, Is(Descriptor)),
        (libc::SYS_signalfd4, Is(Descriptor)),
        (libc::SYS_pidfd_open, Is(Descriptor)),
        (libc::SYS_perf_event_open, Is(Descriptor)),
        (libc::SYS_epoll_ctl, Is(Descriptor)),
        (libc::SYS_sendmsg, Is(Send)),
        (libc::SYS_sendto, Is(Send)),
        (libc::SYS_recvmsg, Is(Receive)),
        (libc::SYS_recvfrom, Is(Receive)),
        (libc::SYS_ppoll, Is(Wait)),
        (libc::SYS_epoll_pwait, Is(WaitForEvents)),
        (libc::SYS_statx, Is(Inspect)),
        (libc::SYS_newfstatat, Is(Inspect)),
        (libc::SYS_fstat, Is(Inspect)),
        (libc::SYS_getdents64, Is(Inspect)),
        (libc::SYS_readlinkat, Is(Inspect)),
        (libc::SYS_clone, Is(Thread)),
        (libc::SYS_clone3, Is(Thread)),
    ]
};

/// Those that only old architectures have.
const OLD_CALLS: &[(c_long, Rule)] = {
    #[cfg(target_arch = "x86_64")]
    {
        use Kind::{Descriptor, Inspect, Name, Open, Thread, Wait, WaitForEvents};
        use Rule::Is;
        &[
            (libc::SYS_open, Is(Open)),
            (libc::SYS_creat, Is(Open)),
            (libc::SYS_rename, Is(Name)),
            (libc::SYS_link, Is(Name)),
            (libc::SYS_symlink, Is(Name)),
            (libc::SYS_unlink, Is(Name)),
            (libc::SYS_mkdir, Is(Name)),
            (libc::SYS_rmdir, Is(Name)),
            (libc::SYS_chmod, Is(Name)),
            (libc::SYS_pipe, Is(Descriptor)),
            (libc::SYS_poll, Is(Wait)),
            (libc::SYS_epoll_wait, Is(WaitForEvents)),
            (libc::SYS_readlink, Is(Inspect)),
            (libc::SYS_fork, Is(Thread)),
            (libc::SYS_vfork, Is(Thread)),
        ]
    }
    #[cfg(not(target_arch = "x86_64"))]
    &[]
};

fn all() -> impl Iterator<Item = &'static (c_long, Rule)> {
    CALLS.iter().chain(OLD_CALLS)
}

/// Returns the numbers of all calls that can fail.
pub(super) fn numbers() -> impl Iterator<Item = c_long> {
    all().map(|(number, _)| *number)
}

/// Returns the kind of a call of the thread `thread`; `None` for a call that is not let fail.
pub(super) fn kind_of(thread: i32, call: c_long, arguments: [u64; 5]) -> Option<Kind> {
    let (_, rule) = all().find(|(number, _)| *number == call)?;
    match rule {
        Rule::Is(kind) => Some(*kind),
        Rule::Writes => match arguments[0] {
            1 | 2 => Some(Kind::Print),
            file => kind_of_file(thread, file, Kind::Write, Kind::Send),
        },
        Rule::Reads => kind_of_file(thread, arguments[0], Kind::Read, Kind::Receive),
        Rule::Maps => ((arguments[4] as i32) >= 0).then_some(Kind::Map),
        Rule::Controls => {
            let makes = [libc::F_DUPFD, libc::F_DUPFD_CLOEXEC];
            makes
                .contains(&(arguments[1] as i32))
                .then_some(Kind::Descriptor)
        }
    }
}

fn kind_of_file(thread: i32, file: u64, of_file: Kind, of_stream: Kind) -> Option<Kind> {
    let link = fs::read_link(format!("/proc/{thread}/fd/{file}")).ok()?;
    let link = link.to_string_lossy();
    // Event counters and timers do not fail.
    if link.starts_with("anon_inode:") {
        return None;
    }
    Some(if link.starts_with('/') {
        of_file
    } else {
        of_stream
    })
}
