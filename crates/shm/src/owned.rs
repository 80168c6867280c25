//! The chunks that this process is writing, by its own account.
//!
//! The other side can change the page words, by mistake or on purpose. Even then two threads of
//! this process must not write the same bytes, so before a chunk is taken it is looked up here.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use crate::fork::PerProcess;
use crate::layout::Layout;

/// The bits that say which chunks are taken; the others are the page's layout.
const CHUNKS: u32 = (1 << 14) - 1;

/// A file that is mapped by this process.
struct File {
    device: u64,
    inode: u64,
    owned: Weak<Owned>,
}

/// Returns the chunks that this process owns in a file that it may have mapped more than once: a
/// service may send the same one over two connections.
pub(crate) fn of_file(device: u64, inode: u64, pages: usize) -> Arc<Owned> {
    /// A number is not used again while there is a mapping.
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
    /// For a region of at most so many pages.
    pub(crate) fn new(pages: usize) -> Self {
        Self {
            pages: (0..pages).map(|_| AtomicU32::new(0)).collect(),
            claimed: AtomicBool::new(false),
        }
    }

    /// True the first time. There is one place from which chunks are taken, so that all mean the
    /// same by a page.
    pub(crate) fn claim(&self) -> bool {
        !self.claimed.swap(true, Ordering::Relaxed)
    }

    /// Takes a chunk of a page cut like this. False if it is taken, or any other is with the page
    /// cut differently.
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

    /// Gives a chunk back. Writes to it are ordered before.
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
