//! Declarations of the C library's functions, types and constants that the client uses.

#![allow(missing_docs)]

use core::ffi::{c_char, c_int, c_long, c_void};

pub const O_RDONLY: c_int = 0;
pub const O_RDWR: c_int = 2;
pub const O_CLOEXEC: c_int = 0o2_000_000;
#[cfg(target_arch = "aarch64")]
pub const O_NOFOLLOW: c_int = 0o100_000;
#[cfg(not(target_arch = "aarch64"))]
pub const O_NOFOLLOW: c_int = 0o400_000;

pub const PROT_NONE: c_int = 0;
pub const PROT_READ: c_int = 1;
pub const PROT_WRITE: c_int = 2;
pub const MAP_SHARED: c_int = 1;
pub const MAP_PRIVATE: c_int = 2;
pub const MAP_FIXED: c_int = 0x10;
pub const MAP_ANONYMOUS: c_int = 0x20;
pub const MAP_NORESERVE: c_int = 0x4000;

pub const AF_UNIX: c_int = 1;
pub const SOCK_STREAM: c_int = 1;
pub const SOCK_CLOEXEC: c_int = 0o2_000_000;
pub const SOL_SOCKET: c_int = 1;
pub const SCM_RIGHTS: c_int = 1;
pub const SO_PEERCRED: c_int = 17;
pub const SO_RCVTIMEO: c_int = 20;
pub const SO_SNDTIMEO: c_int = 21;
pub const MSG_PEEK: c_int = 2;
pub const MSG_DONTWAIT: c_int = 0x40;
pub const MSG_NOSIGNAL: c_int = 0x4000;
pub const MSG_CMSG_CLOEXEC: c_int = 0x4000_0000;
pub const F_DUPFD_CLOEXEC: c_int = 1030;
pub const F_ADD_SEALS: c_int = 1033;
pub const SEALS: c_int = 0x1 | 0x2 | 0x4;
pub const MFD_CLOEXEC: u32 = 1;
pub const MFD_ALLOW_SEALING: u32 = 2;

pub const CLOCK_MONOTONIC_COARSE: c_int = 6;
pub const AT_PAGESZ: u64 = 6;
pub const AT_SECURE: u64 = 23;
pub const RLIMIT_STACK: c_int = 3;
pub const PR_GET_DUMPABLE: c_int = 3;
pub const PR_SET_DUMPABLE: c_int = 4;

pub const EINTR: c_int = 4;
pub const EAGAIN: c_int = 11;
pub const ENOMEM: c_int = 12;

#[cfg(not(all(
    target_os = "linux",
    any(target_arch = "x86_64", target_arch = "aarch64"),
    target_endian = "little",
    target_pointer_width = "64",
)))]
compile_error!(
    "the heap profiler's client supports 64-bit Linux on x86-64 and little-endian arm64 only"
);

// The numbers of system calls for which old C libraries have no functions.
#[cfg(not(target_arch = "aarch64"))]
mod number {
    pub(super) const FSTAT: super::c_long = 5;
    pub(super) const GETTID: super::c_long = 186;
    pub(super) const GETRANDOM: super::c_long = 318;
}
#[cfg(target_arch = "aarch64")]
mod number {
    pub(super) const FSTAT: super::c_long = 80;
    pub(super) const GETTID: super::c_long = 178;
    pub(super) const GETRANDOM: super::c_long = 278;
}

#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub struct Timespec {
    pub seconds: i64,
    pub nanoseconds: i64,
}

#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct IoVec {
    pub base: *mut c_void,
    pub length: usize,
}

#[repr(C)]
#[derive(Debug)]
pub struct MessageHeader {
    pub name: *mut c_void,
    pub name_length: u32,
    pub vectors: *mut IoVec,
    pub vector_count: usize,
    pub control: *mut c_void,
    pub control_length: usize,
    pub flags: c_int,
}

#[repr(C)]
#[derive(Debug)]
pub struct UnixAddress {
    pub family: u16,
    pub path: [u8; 108],
}

#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub struct Credentials {
    pub pid: i32,
    pub uid: u32,
    pub gid: u32,
}

#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub struct Limit {
    pub soft: u64,
    pub hard: u64,
}

/// `struct stat`. Only the fields at the beginning have names.
#[repr(C, align(8))]
#[derive(Debug, Clone, Copy)]
pub struct Stat {
    pub device: u64,
    pub inode: u64,
    #[cfg(not(target_arch = "aarch64"))]
    links: u64,
    pub mode: u32,
    #[cfg(target_arch = "aarch64")]
    links: u32,
    pub uid: u32,
    pub gid: u32,
    #[cfg(not(target_arch = "aarch64"))]
    padding: u32,
    rdev: u64,
    #[cfg(target_arch = "aarch64")]
    padding2: u64,
    pub size: i64,
    rest: [u64; 16],
}

const _: () = assert!(core::mem::offset_of!(Stat, size) == 48);

impl Default for Stat {
    fn default() -> Self {
        // SAFETY: all fields are integers, so 0 is a valid value.
        unsafe { core::mem::zeroed() }
    }
}

unsafe extern "C" {
    pub fn open(path: *const c_char, flags: c_int, mode: u32) -> c_int;
    pub fn close(fd: c_int) -> c_int;
    pub fn read(fd: c_int, buffer: *mut c_void, count: usize) -> isize;
    pub fn ftruncate(fd: c_int, length: i64) -> c_int;
    pub fn fcntl(fd: c_int, command: c_int, argument: c_int) -> c_int;
    pub fn memfd_create(name: *const c_char, flags: u32) -> c_int;
    pub fn mmap(
        address: *mut c_void,
        length: usize,
        protection: c_int,
        flags: c_int,
        fd: c_int,
        offset: i64,
    ) -> *mut c_void;
    pub fn munmap(address: *mut c_void, length: usize) -> c_int;
    pub fn socket(domain: c_int, kind: c_int, protocol: c_int) -> c_int;
    pub fn connect(fd: c_int, address: *const UnixAddress, length: u32) -> c_int;
    pub fn setsockopt(
        fd: c_int,
        level: c_int,
        name: c_int,
        value: *const c_void,
        length: u32,
    ) -> c_int;
    pub fn getsockopt(
        fd: c_int,
        level: c_int,
        name: c_int,
        value: *mut c_void,
        length: *mut u32,
    ) -> c_int;
    pub fn sendmsg(fd: c_int, message: *const MessageHeader, flags: c_int) -> isize;
    pub fn recvmsg(fd: c_int, message: *mut MessageHeader, flags: c_int) -> isize;
    pub fn send(fd: c_int, buffer: *const c_void, length: usize, flags: c_int) -> isize;
    pub fn recv(fd: c_int, buffer: *mut c_void, length: usize, flags: c_int) -> isize;
    pub fn getpid() -> c_int;
    pub fn geteuid() -> u32;
    pub fn syscall(number: c_long, ...) -> c_long;
    pub fn clock_gettime(clock: c_int, time: *mut Timespec) -> c_int;
    pub fn nanosleep(time: *const Timespec, rest: *mut Timespec) -> c_int;
    pub fn sched_yield() -> c_int;
    pub fn prctl(option: c_int, argument: usize, ...) -> c_int;
    pub fn getrlimit(resource: c_int, limit: *mut Limit) -> c_int;
    pub fn getauxval(kind: u64) -> u64;
    pub fn getenv(name: *const c_char) -> *const c_char;
    pub fn process_vm_readv(
        pid: c_int,
        local: *const IoVec,
        local_count: u64,
        remote: *const IoVec,
        remote_count: u64,
        flags: u64,
    ) -> isize;
    // `pthread_atfork` of glibc is not in its shared library.
    #[cfg(target_env = "gnu")]
    fn __register_atfork(
        prepare: Option<extern "C" fn()>,
        parent: Option<extern "C" fn()>,
        child: Option<extern "C" fn()>,
        library: *mut c_void,
    ) -> c_int;
    #[cfg(not(target_env = "gnu"))]
    fn pthread_atfork(
        prepare: Option<extern "C" fn()>,
        parent: Option<extern "C" fn()>,
        child: Option<extern "C" fn()>,
    ) -> c_int;
    pub fn __cxa_atexit(
        function: extern "C" fn(*mut c_void),
        argument: *mut c_void,
        library: *mut c_void,
    ) -> c_int;
    pub fn __errno_location() -> *mut c_int;
    pub fn malloc(size: usize) -> *mut c_void;
    pub fn calloc(count: usize, size: usize) -> *mut c_void;
    pub fn realloc(old: *mut c_void, size: usize) -> *mut c_void;
    pub fn free(old: *mut c_void);
    pub fn posix_memalign(out: *mut *mut c_void, alignment: usize, size: usize) -> c_int;
}

/// Calls a function in the child after each `fork`. It must never be unloaded.
pub fn at_fork(child: extern "C" fn()) {
    // SAFETY: the function exists as long as the process.
    unsafe {
        #[cfg(target_env = "gnu")]
        __register_atfork(None, None, Some(child), core::ptr::null_mut());
        #[cfg(not(target_env = "gnu"))]
        pthread_atfork(None, None, Some(child));
    }
}

/// Reads the state of a file.
///
/// # Safety
///
/// `stat` is valid for writes.
pub unsafe fn fstat(fd: c_int, stat: *mut Stat) -> c_int {
    // SAFETY: by contract. The kernel's structure is the C library's on these machines.
    unsafe { syscall(number::FSTAT, fd, stat) as c_int }
}

/// Fills a buffer with random bytes. Returns how many, or a negative number.
///
/// # Safety
///
/// `buffer` is valid for writes of `length` bytes.
pub unsafe fn getrandom(buffer: *mut c_void, length: usize, flags: u32) -> isize {
    // SAFETY: by contract.
    unsafe { syscall(number::GETRANDOM, buffer, length, flags) as isize }
}

/// Returns the error of the last call.
#[must_use]
pub fn errno() -> c_int {
    // SAFETY: the address is that of the calling thread's `errno`.
    unsafe { *__errno_location() }
}

/// Restores `errno` when dropped, since code inside of `malloc` and `free` must not change it.
#[derive(Debug)]
pub struct KeptErrno(c_int);

impl KeptErrno {
    /// Saves `errno`.
    #[must_use]
    pub fn new() -> Self {
        Self(errno())
    }
}

impl Default for KeptErrno {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for KeptErrno {
    fn drop(&mut self) {
        // SAFETY: as in `errno`.
        unsafe { *__errno_location() = self.0 };
    }
}

/// Returns the size of a page of memory in bytes.
#[must_use]
pub fn page_size() -> usize {
    // SAFETY: always succeeds: the kernel gives this value to each program.
    unsafe { getauxval(AT_PAGESZ) as usize }
}

/// Returns the ID of this process.
#[must_use]
pub fn pid() -> i32 {
    // SAFETY: always succeeds.
    unsafe { getpid() }
}

/// Returns the ID of this thread.
#[must_use]
pub fn tid() -> i32 {
    // SAFETY: always succeeds, and takes no arguments.
    unsafe { syscall(number::GETTID) as i32 }
}

/// Sleeps for less than a second.
pub fn sleep_us(microseconds: i64) {
    let time = Timespec {
        seconds: 0,
        nanoseconds: microseconds * 1000,
    };
    // SAFETY: the time is valid, and the remaining time may be null.
    unsafe { nanosleep(&time, core::ptr::null_mut()) };
}

/// Closes a descriptor that this process owns.
pub fn close_fd(fd: c_int) {
    // SAFETY: the caller owns the descriptor. Errors can be ignored.
    unsafe { close(fd) };
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsRawFd as _;
    use std::os::unix::fs::MetadataExt as _;

    use super::*;

    #[test]
    fn the_layout_of_a_files_state_is_the_c_librarys() {
        let file = std::fs::File::open("/proc/self/exe").unwrap();
        let expected = file.metadata().unwrap();
        let mut stat = Stat::default();
        // SAFETY: `stat` is large enough.
        assert_eq!(unsafe { fstat(file.as_raw_fd(), &mut stat) }, 0);
        assert_eq!((stat.device, stat.inode), (expected.dev(), expected.ino()));
        assert_eq!((stat.uid, stat.gid), (expected.uid(), expected.gid()));
        assert_eq!(stat.mode, expected.mode());
        assert_eq!(stat.size as u64, expected.size());
    }
}
