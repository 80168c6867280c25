//! The ring in memory shared by client and profiler, with many writers and one reader.
//!
//! A page of metadata, whose size is the system's, precedes the data. Both sides map the data twice
//! in a row, so that each record is contiguous. Positions only grow. A record has a header of eight
//! bytes with its size, which is 0 until the record is complete. The layout is upstream's; the
//! fields that only our profiler and client use follow upstream's metadata ([`Extension`]).
//!
//! Neither side trusts the other: positions are loaded once and checked, and the reader copies a
//! record before parsing it.

#[cfg(not(loom))]
mod map;
#[cfg(loom)]
#[path = "model.rs"]
mod map;
#[cfg(feature = "profiler")]
mod reader;
mod writer;

#[cfg(not(loom))]
use core::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering, fence};
#[cfg(loom)]
use loom::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering, fence};

pub use self::map::Mapping;
#[cfg(feature = "profiler")]
pub use self::reader::{Read, Reader};
pub use self::writer::{Full, Writer};

/// The minimum size of the ring. On systems with larger pages it is a page.
pub const MIN_SIZE: u64 = 8192;
/// The default size of the ring.
pub const DEFAULT_SIZE: u64 = 8 << 20;
/// The maximum size of the ring.
pub const MAX_SIZE: u64 = 512 << 20;
/// The size of a record's header.
const HEADER: u64 = 8;

/// The first page of the ring.
#[repr(C)]
#[cfg_attr(loom, derive(Debug, Default))]
pub(crate) struct Metadata {
    pub(crate) locked: AtomicU8,
    pub(crate) poisoned: AtomicU8,
    padding: [u8; 6],
    pub(crate) read_position: AtomicU64,
    pub(crate) write_position: AtomicU64,
    pub(crate) blocked_us: AtomicU64,
    pub(crate) failed_locks: AtomicU64,
    pub(crate) error_state: AtomicU64,
    pub(crate) is_shutting_down: AtomicU8,
    padding2: [u8; 7],
    pub(crate) is_reader_paused: AtomicU8,
    padding3: [u8; 7],
    pub(crate) statistics: [AtomicU64; 10],
    padding4: [u64; 14],
    pub(crate) extension: Extension,
}

#[cfg(not(loom))]
const _: () = {
    assert!(core::mem::offset_of!(Metadata, read_position) == 8);
    assert!(core::mem::offset_of!(Metadata, is_shutting_down) == 48);
    assert!(core::mem::offset_of!(Metadata, is_reader_paused) == 56);
    assert!(core::mem::offset_of!(Metadata, statistics) == 64);
    assert!(core::mem::offset_of!(Metadata, extension) == 256);
};

/// The metadata that only our profiler and client use.
#[repr(C)]
#[cfg_attr(loom, derive(Debug, Default))]
pub(crate) struct Extension {
    /// [`MAGIC`] in an extended session.
    pub(crate) magic: AtomicU64,
    /// The maximum number of bytes of a stack to copy.
    pub(crate) stack_bytes: AtomicU32,
    /// Not 0: stacks are not copied, since their frame pointers are sufficient.
    pub(crate) chain_only: AtomicU32,
    /// The number of samples lost because the ring was full.
    pub(crate) lost: AtomicU64,
}

/// Marks an extended session.
pub(crate) const MAGIC: u64 = u64::from_le_bytes(*b"FERRETTO");

/// The reasons why a client ended its session.
pub mod error_state {
    /// The session has not ended.
    pub const NONE: u64 = 0;
    /// The ring was full.
    pub const HIT_TIMEOUT: u64 = 1;
    /// The bounds of a stack are invalid.
    pub const INVALID_STACK_BOUNDS: u64 = 2;
}

/// Indices of the statistics.
pub(crate) mod statistic {
    pub(crate) const BYTES_WRITTEN: usize = 0;
    pub(crate) const WRITES: usize = 1;
    pub(crate) const WRITES_CORRUPT: usize = 2;
    pub(crate) const WRITES_OVERFLOW: usize = 3;
}

/// Returns the number of bytes that a record occupies including its header. `None` on overflow.
fn padded_size(size: u64) -> Option<u64> {
    Some(size.checked_add(HEADER + 7)? & !7)
}

/// Checks the positions and returns the number of unread bytes. `None` if the positions are
/// corrupt.
fn unread(read: u64, write: u64, size: u64) -> Option<u64> {
    let unread = write.checked_sub(read)?;
    let is_valid = unread <= size && (read | write).is_multiple_of(8);
    is_valid.then_some(unread)
}

/// Returns true if a ring can have this size on this system.
#[cfg(not(loom))]
fn is_valid_size(size: u64) -> bool {
    let least = MIN_SIZE.max(crate::sys::page_size() as u64);
    size.is_power_of_two() && (least..=MAX_SIZE).contains(&size)
}
