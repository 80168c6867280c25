//! The system calls of perf events that require unsafe code.

use std::ffi::CStr;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use perf_event_open_sys::bindings::{PERF_FLAG_FD_CLOEXEC, perf_event_attr};
use perf_event_open_sys::{ioctls, perf_event_open};
use rustix::io::Errno;

/// Opens an event for a task (or all, -1) on a CPU (or all, -1).
pub(crate) fn open(
    attr: &perf_event_attr,
    task: i32,
    cpu: i32,
    group: Option<BorrowedFd<'_>>,
) -> Result<OwnedFd, Errno> {
    let mut attr = *attr;
    attr.size = size_of::<perf_event_attr>() as u32;
    let group = group.map_or(-1, |group| group.as_raw_fd());
    // SAFETY: the attributes are initialised, have the size that they state, and are writable
    // for the kernel's answer. No event that they can describe writes memory of this process or
    // sends signals: `sigtrap` is never set, and a ring is only written once it is mapped.
    let fd = unsafe { perf_event_open(&mut attr, task, cpu, group, PERF_FLAG_FD_CLOEXEC.into()) };
    check(fd)?;
    // SAFETY: a new descriptor without another owner.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Starts counting.
pub(crate) fn enable(event: BorrowedFd<'_>) -> Result<(), Errno> {
    // SAFETY: the descriptor is open; this request has no pointer argument.
    check(unsafe { ioctls::ENABLE(event.as_raw_fd(), 0) })
}

/// Stops counting.
pub(crate) fn disable(event: BorrowedFd<'_>) -> Result<(), Errno> {
    // SAFETY: the descriptor is open; this request has no pointer argument.
    check(unsafe { ioctls::DISABLE(event.as_raw_fd(), 0) })
}

/// Redirects an event to the ring of another one.
pub(crate) fn set_output(event: BorrowedFd<'_>, ring: BorrowedFd<'_>) -> Result<(), Errno> {
    // SAFETY: both descriptors are open; this request has no pointer argument.
    check(unsafe { ioctls::SET_OUTPUT(event.as_raw_fd(), ring.as_raw_fd()) })
}

/// Sets the filter expression of a tracepoint.
pub(crate) fn set_filter(event: BorrowedFd<'_>, filter: &CStr) -> Result<(), Errno> {
    // SAFETY: the descriptor is open; the kernel only reads the string, up to its zero byte.
    check(unsafe { ioctls::SET_FILTER(event.as_raw_fd(), filter.as_ptr().cast_mut()) })
}

fn check(result: i32) -> Result<(), Errno> {
    if result >= 0 {
        return Ok(());
    }
    let error = std::io::Error::last_os_error();
    Err(Errno::from_io_error(&error).unwrap_or(Errno::IO))
}
