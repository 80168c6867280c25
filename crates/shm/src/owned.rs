//! The record of the chunks that this process is writing.
//!
//! The other side can change the page words, by mistake or on purpose. Even then two threads of
//! this process must not write the same bytes, so a chunk is checked against this record before it
//! is acquired.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use crate::fork::PerProcess;
use crate::layout::Layout;

/// The bits for held chunks; the others are the page's layout.
const CHUNKS: u32 = (1 << 14) - 1;

/// A file mapped by this process.
struct File {
    device: u64,
    inode: u64,
    owned: Weak<Owned>,
}

/// Returns the record for a file that this process may map more than once: a service may send the
/// same file over two connections.
pub(crate) fn of_file(device: u64, inode: u64, pages: usize) -> Arc<Owned> {
    /// A key is not reused while there is a mapping.
    static FILES: PerProcess<Mutex<Vec<File>>> = PerProcess::new();
    let files = FILES.get_or_init(Mutex::default);
    let mut files = files.lock().unwrap_or_else(PoisonError::into_inner);
    files.retain(|file| file.owned.strong_count() != 0);
    let is_same = |file: &&File| (file.device, file.inode) == (device, inode);
    let known = files.iter().find(is_same);
    if let Some(owned) = known.and_then(|file| file.owned.upgrade()) {
        return owned;
    }
    let owned = Arc::new(Owned::new(pages));
    files.push(File {
        device,
        inode,
        owned: Arc::downgrade(&owned),
    });
    owned
}

/// A word for each page that a region can have.
pub(crate) struct Owned {
    pages: Box<[AtomicU32]>,
    claimed: AtomicBool,
}

impl Owned {
    /// Creates the record for a region of at most this many pages.
    pub(crate) fn new(pages: usize) -> Self {
        Self {
            pages: (0..pages).map(|_| AtomicU32::new(0)).collect(),
            claimed: AtomicBool::new(false),
        }
    }

    /// Claims the region for one arbiter. Returns true the first time. With one arbiter, all users
    /// agree on the page size.
    pub(crate) fn claim(&self) -> bool {
        !self.claimed.swap(true, Ordering::Relaxed)
    }

    /// Marks a chunk of a page with this layout as held. Returns false if it is held, or if a chunk
    /// of the page is held with another layout.
    pub(crate) fn take(&self, page: u32, layout: Layout, index: u32) -> bool {
        let Some(word) = self.pages.get(page as usize) else {
            return false;
        };
        let bit = 1 << index;
        let taken = word.fetch_update(Ordering::Acquire, Ordering::Relaxed, |current| {
            let fits = current == 0 || current & !CHUNKS == layout.word();
            (fits && current & bit == 0).then_some(current | layout.word() | bit)
        });
        taken.is_ok()
    }

    /// Marks a chunk as not held. Earlier writes to it are ordered before.
    pub(crate) fn give_back(&self, page: u32, index: u32) {
        if let Some(word) = self.pages.get(page as usize) {
            let _ = word.fetch_update(Ordering::Release, Ordering::Relaxed, |current| {
                let rest = current & !(1 << index);
                Some(if rest & CHUNKS == 0 { 0 } else { rest })
            });
        }
    }
}

impl fmt::Debug for Owned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Owned").finish_non_exhaustive()
    }
}
