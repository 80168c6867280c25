//! The memory that a process has allocated.
//!
//! The pages a process occupies say little about its needs: an allocator keeps freed memory for the
//! next allocation. [`heap`] returns the memory in use, and [`release`] gives free memory back to
//! the system.

/// The memory that the allocator of this process has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Heap {
    /// Bytes that are allocated, with the allocator's own overhead.
    pub in_use: u64,
    /// Bytes that were freed and are kept.
    pub free: u64,
}

/// Returns the memory allocated now; `None` if the C library does not report it.
pub fn heap() -> Option<Heap> {
    imp::heap()
}

/// Gives pages that hold nothing but freed memory back to the system. Takes some milliseconds for
/// each hundred megabytes of them, during which other threads cannot allocate.
pub fn release() {
    imp::release();
}

#[cfg(target_env = "gnu")]
mod imp {
    use super::Heap;

    pub(crate) fn heap() -> Option<Heap> {
        // SAFETY: the function takes no arguments, locks the state that it reads, and returns a
        // plain structure.
        let info = unsafe { libc::mallinfo2() };
        Some(Heap {
            in_use: (info.uordblks as u64).saturating_add(info.hblkhd as u64),
            free: info.fordblks as u64,
        })
    }

    pub(crate) fn release() {
        // SAFETY: the function takes a number, locks the state that it changes, and only touches
        // memory that nobody owns.
        unsafe { libc::malloc_trim(0) };
    }
}

#[cfg(not(target_env = "gnu"))]
mod imp {
    use super::Heap;

    pub(crate) fn heap() -> Option<Heap> {
        None
    }

    pub(crate) fn release() {}
}

#[cfg(all(test, target_env = "gnu"))]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn resident() -> u64 {
        let text = std::fs::read_to_string("/proc/self/statm").unwrap();
        let pages: u64 = text.split(' ').nth(1).unwrap().parse().unwrap();
        pages * 4096
    }

    #[test]
    fn what_was_freed_is_not_in_use_and_can_be_given_back() {
        let before = heap().unwrap();
        // In pieces that are not mapped one by one, with some between them that stay.
        let mut pieces: Vec<Vec<u8>> = (0..64 * 1024).map(|_| vec![1; 1024]).collect();
        let full = heap().unwrap();
        assert!(full.in_use >= before.in_use + 64 * MIB);
        let mut number = 0;
        pieces.retain(|_| {
            number += 1;
            number % 1024 == 0
        });
        let freed = heap().unwrap();
        assert!(freed.in_use < before.in_use + 8 * MIB);
        assert!(freed.free > 32 * MIB, "{freed:?}");
        let kept = resident();
        release();
        assert!(resident() + 32 * MIB < kept, "{} of {kept}", resident());
        assert_eq!(pieces.len(), 64);
        // Large blocks, which are mapped separately, count, too.
        let large = vec![0_u8; 512 << 20];
        assert!(heap().unwrap().in_use >= before.in_use + 512 * MIB);
        drop(large);
    }
}
