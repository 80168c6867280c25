//! Loading memory into the cache before it is needed.

/// Bytes that are loaded at once.
const LINE: usize = 64;

/// Asks the processor to load `length` bytes from an address on into its cache. The address need
/// not be mapped.
#[inline]
pub(crate) fn prefetch_at(start: *const u8, length: usize) {
    let (mut line, mut rest) = (start, length);
    // The length of the last step depends on what is left, so the loop stays as it is: unrolled, it
    // asks for more lines at once than processors keep track of, and they drop or wait for the
    // rest.
    while rest > 0 {
        prefetch_line(line);
        let step = rest.min(LINE);
        line = line.wrapping_add(step);
        rest -= step;
    }
}

/// Asks the processor to load these bytes into its cache, and does not wait for them. Where it
/// cannot be asked, nothing happens.
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
