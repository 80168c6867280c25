//! Loads memory that others may write to at the same time.

/// The number of bytes loaded at a time.
#[cfg(all(target_arch = "x86_64", not(any(miri, tsan))))]
const BLOCK: usize = 64;

/// Fills `out` with the bytes at `from`, each loaded exactly once. Concurrent writes may be torn.
///
/// # Safety
///
/// The bytes are mapped, are not those of `out`, and this process accesses them only through
/// atomics or by the one owner of their chunk.
pub(crate) unsafe fn load_once(from: *const u8, out: &mut [u8]) {
    #[cfg(all(target_arch = "x86_64", not(any(miri, tsan))))]
    let (from, out) = {
        let whole = out.len() / BLOCK * BLOCK;
        if whole > 0 {
            // SAFETY: by contract; both have that many bytes.
            unsafe { load_blocks(from, out.as_mut_ptr(), whole) };
        }
        (from.wrapping_add(whole), &mut out[whole..])
    };
    // SAFETY: by contract.
    unsafe { load_words(from, out) };
}

/// Copies `size` bytes, a multiple of [`BLOCK`] other than 0, sixteen at a time, since the compiler
/// does not combine atomic loads.
///
/// # Safety
///
/// As for [`load_once`], and `to` is valid for writes of `size` bytes.
#[cfg(all(target_arch = "x86_64", not(any(miri, tsan))))]
unsafe fn load_blocks(from: *const u8, to: *mut u8, size: usize) {
    // SAFETY: the loop goes through both ranges once, from their beginning to their end. It touches
    // nothing else, and these instructions are part of every such processor.
    unsafe {
        std::arch::asm!(
            "2:",
            "movdqu {a}, [{from} + {at}]",
            "movdqu {b}, [{from} + {at} + 16]",
            "movdqu {c}, [{from} + {at} + 32]",
            "movdqu {d}, [{from} + {at} + 48]",
            "movdqu [{to} + {at}], {a}",
            "movdqu [{to} + {at} + 16], {b}",
            "movdqu [{to} + {at} + 32], {c}",
            "movdqu [{to} + {at} + 48], {d}",
            "add {at}, {block}",
            "jnz 2b",
            from = in(reg) from.wrapping_add(size),
            to = in(reg) to.wrapping_add(size),
            at = inout(reg) 0usize.wrapping_sub(size) => _,
            block = const BLOCK,
            a = out(xmm_reg) _,
            b = out(xmm_reg) _,
            c = out(xmm_reg) _,
            d = out(xmm_reg) _,
            options(nostack),
        );
    }
}

/// Does the work of [`load_once`] word by word.
///
/// # Safety
///
/// As for [`load_once`].
unsafe fn load_words(from: *const u8, out: &mut [u8]) {
    use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

    let byte = |at: usize| {
        // SAFETY: `at` is less than the length of `out`; otherwise by contract.
        unsafe { AtomicU8::from_ptr(from.cast_mut().add(at)) }.load(Ordering::Relaxed)
    };
    let lead = (from as usize).next_multiple_of(8) - from as usize;
    let (head, rest) = out.split_at_mut(lead.min(out.len()));
    for (at, out) in head.iter_mut().enumerate() {
        *out = byte(at);
    }
    let mut at = head.len();
    let mut words = rest.chunks_exact_mut(8);
    for bytes in &mut words {
        // SAFETY: as above, and aligned.
        let word = unsafe { AtomicU64::from_ptr(from.cast_mut().add(at).cast()) };
        bytes.copy_from_slice(&word.load(Ordering::Relaxed).to_ne_bytes());
        at += 8;
    }
    for out in words.into_remainder() {
        *out = byte(at);
        at += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::load_once;

    #[test]
    fn every_byte_is_loaded_at_any_offset_and_size() {
        let mut memory: Vec<u8> = (0..400).map(|at| at as u8).collect();
        let copy = memory.clone();
        for start in 0..20 {
            for size in 0..300 {
                let mut out = vec![0xee; size + 2];
                // SAFETY: within the memory, which nobody else uses.
                unsafe { load_once(memory.as_mut_ptr().add(start), &mut out[1..=size]) };
                assert_eq!(out[1..=size], copy[start..start + size]);
                assert_eq!((out[0], out[size + 1]), (0xee, 0xee));
            }
        }
    }
}
