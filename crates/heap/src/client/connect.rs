//! The handshake with the profiler.

use core::ffi::{CStr, c_int, c_void};
use core::mem;
use core::ptr;

use crate::control::MAX_PATH;
use crate::ring::{Mapping, Writer};
use crate::sys;
use crate::wire::{CONFIG_BYTES, ClientConfig, HELLO_EXTENDED};

/// The timeout of each step in seconds.
const TIMEOUT: i64 = 5;
/// The smallest descriptor number to use. Programs that close their descriptors rarely reach it.
const HIGH: c_int = 700;

/// A granted session.
#[derive(Debug)]
pub(super) struct Granted {
    pub(super) socket: Socket,
    pub(super) config: ClientConfig,
    pub(super) writer: Writer,
}

/// The session socket. The program may close it and reuse the number, so it is used only while it
/// is the same file.
#[derive(Debug, Clone, Copy)]
pub(super) struct Socket {
    fd: c_int,
    inode: u64,
}

impl Socket {
    pub(super) const NONE: Self = Self { fd: -1, inode: 0 };

    fn new(fd: c_int) -> Self {
        Self {
            fd,
            inode: inode(fd).unwrap_or(0),
        }
    }

    fn is_ours(self) -> bool {
        self.fd >= 0 && inode(self.fd) == Some(self.inode)
    }

    pub(super) fn close(self) {
        if self.is_ours() {
            sys::close_fd(self.fd);
        }
    }

    /// Wakes the profiler. Returns false if it is gone.
    pub(super) fn wake(self) -> bool {
        let flags = sys::MSG_DONTWAIT | sys::MSG_NOSIGNAL;
        // SAFETY: the buffer is one byte.
        let sent =
            || unsafe { sys::send(self.fd, ptr::from_ref(&HELLO_EXTENDED).cast(), 1, flags) };
        self.is_ours() && (sent() == 1 || sys::errno() == sys::EAGAIN)
    }

    /// Returns true if the profiler is gone, or the socket is.
    pub(super) fn is_closed(self) -> bool {
        let mut byte = 0_u8;
        let flags = sys::MSG_DONTWAIT | sys::MSG_PEEK;
        // SAFETY: the buffer is one byte.
        let mut got = || unsafe { sys::recv(self.fd, (&raw mut byte).cast::<c_void>(), 1, flags) };
        if !self.is_ours() {
            return true;
        }
        match got() {
            0 => true,
            1.. => false,
            _ => ![sys::EAGAIN, sys::EINTR].contains(&sys::errno()),
        }
    }
}

fn inode(fd: c_int) -> Option<u64> {
    let mut stat = sys::Stat::default();
    // SAFETY: `stat` is large enough.
    (unsafe { sys::fstat(fd, &mut stat) } == 0).then_some(stat.inode)
}

/// A descriptor that is closed on drop.
struct Fd(c_int);

impl Drop for Fd {
    fn drop(&mut self) {
        if self.0 >= 0 {
            sys::close_fd(self.0);
        }
    }
}

fn open(path: &CStr) -> Option<Fd> {
    // SAFETY: the path ends with a 0.
    let fd = unsafe { sys::open(path.as_ptr(), sys::O_RDONLY | sys::O_CLOEXEC, 0) };
    (fd >= 0).then_some(Fd(fd))
}

/// Opens the maps and the memory of this process. After a change of the user they belong to root
/// unless the process is dumpable, so it is made dumpable while they are opened.
fn own_files() -> Option<(Fd, Fd)> {
    // SAFETY: the option has no pointer arguments.
    let dumpable = unsafe { sys::prctl(sys::PR_GET_DUMPABLE, 0) };
    let set = |value: usize| {
        // SAFETY: as above.
        unsafe { sys::prctl(sys::PR_SET_DUMPABLE, value) };
    };
    if dumpable != 1 {
        set(1);
    }
    let files = (open(c"/proc/self/maps"), open(c"/proc/self/mem"));
    if dumpable != 1 {
        set(0);
    }
    Some((files.0?, files.1?))
}

/// Requests a session from the profiler.
pub(super) fn connect(path: &[u8]) -> Option<Granted> {
    let kind = sys::SOCK_STREAM | sys::SOCK_CLOEXEC;
    // SAFETY: the function has no pointer arguments.
    let mut socket = Fd(unsafe { sys::socket(sys::AF_UNIX, kind, 0) });
    if socket.0 < 0 {
        return None;
    }
    // SAFETY: the command's argument is an integer.
    let high = unsafe { sys::fcntl(socket.0, sys::F_DUPFD_CLOEXEC, HIGH) };
    if high >= 0 {
        socket = Fd(high);
    }
    let time = [TIMEOUT, 0_i64];
    for name in [sys::SO_RCVTIMEO, sys::SO_SNDTIMEO] {
        // SAFETY: a `timeval` is two 64-bit integers.
        unsafe {
            sys::setsockopt(socket.0, sys::SOL_SOCKET, name, time.as_ptr().cast(), 16);
        }
    }
    let mut address = sys::UnixAddress {
        family: sys::AF_UNIX as u16,
        path: [0; MAX_PATH + 1],
    };
    address.path.get_mut(..path.len())?.copy_from_slice(path);
    // SAFETY: the length is that of the address.
    let connected = unsafe { sys::connect(socket.0, &address, mem::size_of_val(&address) as u32) };
    if connected != 0 || !is_trusted(socket.0) {
        return None;
    }
    let (maps, memory) = own_files()?;
    if !hello(socket.0, [maps.0, memory.0]) {
        return None;
    }
    let (config, ring) = receive(socket.0)?;
    let writer = Writer::new(Mapping::new(ring.0)?);
    let kept = Socket::new(socket.0);
    mem::forget(socket);
    Some(Granted {
        socket: kept,
        config,
        writer,
    })
}

/// Returns true if the profiler belongs to root or this user, since it can read all memory of this
/// process.
fn is_trusted(socket: c_int) -> bool {
    let mut peer = sys::Credentials::default();
    let mut length = mem::size_of_val(&peer) as u32;
    // SAFETY: the length is that of the structure.
    let got = unsafe {
        let to = (&raw mut peer).cast::<c_void>();
        sys::getsockopt(socket, sys::SOL_SOCKET, sys::SO_PEERCRED, to, &mut length)
    };
    // SAFETY: always succeeds.
    got == 0 && (peer.uid == 0 || peer.uid == unsafe { sys::geteuid() })
}

/// A control message with up to two descriptors.
#[repr(C, align(8))]
#[derive(Default)]
struct Control {
    length: usize,
    level: c_int,
    kind: c_int,
    fds: [c_int; 2],
}

fn hello(socket: c_int, fds: [c_int; 2]) -> bool {
    let mut byte = HELLO_EXTENDED;
    let mut vector = sys::IoVec {
        base: (&raw mut byte).cast(),
        length: 1,
    };
    let mut control = Control {
        length: 16 + mem::size_of_val(&fds),
        level: sys::SOL_SOCKET,
        kind: sys::SCM_RIGHTS,
        fds,
    };
    let message = sys::MessageHeader {
        name: ptr::null_mut(),
        name_length: 0,
        vectors: &mut vector,
        vector_count: 1,
        control: (&raw mut control).cast(),
        control_length: mem::size_of::<Control>(),
        flags: 0,
    };
    // SAFETY: all parts live until the call returns.
    unsafe { sys::sendmsg(socket, &message, sys::MSG_NOSIGNAL) == 1 }
}

/// Receives the config, and the ring's descriptor with the first bytes of the config.
fn receive(socket: c_int) -> Option<(ClientConfig, Fd)> {
    let mut bytes = [0_u8; CONFIG_BYTES];
    let mut done = 0;
    let mut ring = None;
    while done < CONFIG_BYTES {
        let rest = bytes.get_mut(done..)?;
        let mut vector = sys::IoVec {
            base: rest.as_mut_ptr().cast(),
            length: rest.len(),
        };
        let mut control = Control::default();
        let mut message = sys::MessageHeader {
            name: ptr::null_mut(),
            name_length: 0,
            vectors: &mut vector,
            vector_count: 1,
            control: (&raw mut control).cast(),
            control_length: mem::size_of::<Control>(),
            flags: 0,
        };
        // SAFETY: all parts live until the call returns.
        let got = unsafe { sys::recvmsg(socket, &mut message, sys::MSG_CMSG_CLOEXEC) };
        match usize::try_from(got) {
            Ok(0) => return None,
            Ok(got) => done += got,
            Err(_) if sys::errno() == sys::EINTR => continue,
            Err(_) => return None,
        }
        let is_fds = control.level == sys::SOL_SOCKET && control.kind == sys::SCM_RIGHTS;
        if message.control_length >= 20 && is_fds {
            ring = Some(Fd(control.fds[0]));
            if control.length >= 24 {
                drop(Fd(control.fds[1]));
            }
        }
    }
    Some((ClientConfig::from_bytes(&bytes), ring?))
}
