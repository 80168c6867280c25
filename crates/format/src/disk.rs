//! Disks and their requests, as kernel events identify them.

/// The prefix of trace attributes with names of disks, followed by the numbers of the disk:
/// `ferretto.disk.8:0`.
pub const DISK_ATTRIBUTE: &str = "ferretto.disk.";

/// Returns the numbers of a device in the format of `lsblk`, such as `8:0`.
pub fn disk_numbers(device: u64) -> String {
    let major = device >> 8 & 0xfff | device >> 32 & !0xfff;
    let minor = device & 0xff | device >> 12 & !0xff & 0xffff_ffff;
    format!("{major}:{minor}")
}

/// Returns the direction of a request from its `rwbs`: its first letter, after an optional `F` for
/// a flush.
pub fn request_direction(rwbs: &[u8]) -> &'static str {
    match rwbs.iter().find(|letter| **letter != b'F') {
        Some(b'R') => "read",
        Some(b'W') => "write",
        Some(b'D') => "discard",
        None => "flush",
        Some(_) => "other",
    }
}

/// The kernel's events of requests. A trace may have either pair, or both.
///
/// Requests are accounted from `block_io_start` on. Such a request may be merged into another, and
/// then never ends. So the events of the driver, `block_rq_issue` and `block_rq_complete`, count in
/// traces that have them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum RequestEvents {
    /// `block_io_start` and `block_io_done`.
    Accounting,
    /// `block_rq_issue` and `block_rq_complete`.
    Driver,
}
