//! The client's state of each thread.
//!
//! The state is a thread-local variable of the initial-exec model. It is declared in assembly,
//! since stable Rust cannot declare it. Its address takes two instructions, its memory is never
//! allocated lazily (which would call the allocator recursively), and it has no destructor.

use core::arch::{asm, global_asm};

/// The maximum number of frees postponed by signal handlers.
const MAX_POSTPONED: usize = 8;

/// The state of a thread. Initially all fields are 0.
#[repr(C, align(16))]
#[derive(Debug)]
pub(super) struct Thread {
    /// The number of bytes that pass without the sampler: those until the next sample, but at most
    /// the interval, since an allocation of that size is always sampled.
    pub(super) passing: u64,
    /// The number of bytes from there until the next sample.
    pub(super) rest: i64,
    /// The state of the random number generator; 0 before the first number.
    pub(super) random: u64,
    /// The tag of the sampling that the fields above are for.
    pub(super) tag: u32,
    /// Not 0 while the client runs in this thread. Allocations by the client itself, and by signal
    /// handlers that interrupt it, are not recorded.
    pub(super) is_busy: u32,
    /// The start of the stack, once known.
    pub(super) stack_low: u64,
    /// The end of the stack; 0 if not known yet.
    pub(super) stack_end: u64,
    /// The addresses of postponed frees.
    postponed: [u64; MAX_POSTPONED],
    /// The number of postponed frees.
    postponed_count: u32,
}

const SIZE: usize = 128;
const _: () = assert!(size_of::<Thread>() == SIZE);

global_asm!(
    ".section .tbss.ferretto_heap_thread,\"awT\",%nobits",
    ".p2align 4",
    ".hidden ferretto_heap_thread",
    ".globl ferretto_heap_thread",
    ".type ferretto_heap_thread, %object",
    ".size ferretto_heap_thread, 128",
    "ferretto_heap_thread:",
    ".zero 128",
    ".text",
);

/// Returns the state of this thread.
#[inline(always)]
pub(super) fn current() -> &'static mut Thread {
    let address: *mut Thread;
    // SAFETY: reads the thread pointer and the offset of the variable, which the linker filled in.
    #[cfg(target_arch = "x86_64")]
    unsafe {
        asm!(
            "mov {0}, qword ptr fs:[0]",
            "add {0}, qword ptr [rip + ferretto_heap_thread@gottpoff]",
            out(reg) address,
            options(nostack, readonly, pure),
        );
    }
    // SAFETY: as above.
    #[cfg(target_arch = "aarch64")]
    unsafe {
        asm!(
            "mrs {1}, tpidr_el0",
            "adrp {0}, :gottprel:ferretto_heap_thread",
            "ldr {0}, [{0}, :gottprel_lo12:ferretto_heap_thread]",
            "add {0}, {0}, {1}",
            out(reg) address,
            out(reg) _,
            options(nostack, readonly, pure),
        );
    }
    // SAFETY: the variable lives as long as the thread, and all byte values are valid. References
    // are short-lived: they are not held while code of the program runs.
    unsafe { &mut *address }
}

/// Returns the thread pointer: the address of the C library's thread descriptor.
pub(super) fn pointer() -> u64 {
    let pointer: u64;
    // SAFETY: the first word of the descriptor is its own address.
    #[cfg(target_arch = "x86_64")]
    unsafe {
        asm!("mov {}, qword ptr fs:[0]", out(reg) pointer, options(nostack, readonly, pure));
    }
    // SAFETY: reads a register.
    #[cfg(target_arch = "aarch64")]
    unsafe {
        asm!("mrs {}, tpidr_el0", out(reg) pointer, options(nostack, nomem, pure));
    }
    pointer
}

impl Thread {
    #[cfg(test)]
    pub(super) const fn new() -> Self {
        Self {
            passing: 0,
            rest: 0,
            random: 0,
            tag: 0,
            is_busy: 0,
            stack_low: 0,
            stack_end: 0,
            postponed: [0; MAX_POSTPONED],
            postponed_count: 0,
        }
    }

    /// Postpones a free until the client is no longer busy in this thread. Returns false if there
    /// are too many.
    pub(super) fn postpone(&mut self, address: u64) -> bool {
        match self.postponed.get_mut(self.postponed_count as usize) {
            Some(slot) => {
                *slot = address;
                self.postponed_count += 1;
                true
            }
            None => false,
        }
    }

    /// Removes and returns the last postponed free.
    pub(super) fn take_postponed(&mut self) -> Option<u64> {
        self.postponed_count = self.postponed_count.checked_sub(1)?;
        self.postponed.get(self.postponed_count as usize).copied()
    }
}
