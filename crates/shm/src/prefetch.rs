//! Loads memory into the cache before it is needed.

/// The number of bytes loaded at once.
const LINE: usize = 64;

/// Prefetches `length` bytes from an address. The address need not be mapped.
#[inline]
pub(crate) fn prefetch_at(start: *const u8, length: usize) {
    let (mut line, mut rest) = (start, length);
    // The loop must not be unrolled, so the length of a step depends on the rest. Unrolled, it
    // requests more lines at once than processors track, which then drop or delay the rest.
    while rest > 0 {
        prefetch_line(line);
        let step = rest.min(LINE);
        line = line.wrapping_add(step);
        rest -= step;
    }
}

/// Prefetches these bytes. Does nothing where the processor has no instruction for it.
#[inline]
pub fn prefetch(bytes: &[u8]) {
    prefetch_at(bytes.as_ptr(), bytes.len());
}

#[cfg(all(target_arch = "x86_64", not(any(loom, miri))))]
#[inline]
fn prefetch_line(line: *const u8) {
    use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
    // SAFETY: the instruction is part of every such processor, accesses nothing, and cannot fail
    // for any address.
    unsafe { _mm_prefetch::<_MM_HINT_T0>(line.cast()) };
}

#[cfg(not(all(target_arch = "x86_64", not(any(loom, miri)))))]
#[inline]
fn prefetch_line(_: *const u8) {}
