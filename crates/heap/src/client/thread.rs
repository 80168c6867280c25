//! The client's state of each thread.
//!
//! The memory is thread-local by the initial-exec model, which the compiler offers for no stable
//! way of declaring such variables: the address is two instructions, is never allocated lazily
//! (which would call the allocator from inside of it), and needs no destructor.

use core::arch::{asm, global_asm};

/// Frees that a signal handler can leave for the allocation that it interrupted.
const MAX_LEFT: usize = 8;

/// The state of a thread. All is 0 at first.
#[repr(C, align(16))]
#[derive(Debug)]
pub(super) struct Thread {
    /// Bytes that pass without a look at the sampler: those until the next sample, but no more than
    /// an interval, as an allocation of that size counts in any case.
    pub(super) passing: u64,
    /// Bytes until the next sample beyond these.
    pub(super) rest: i64,
    /// The state of the random numbers; 0 before the first.
    pub(super) random: u64,
    /// The sampling that these were drawn for.
    pub(super) tag: u32,
    /// The client runs in this thread: what it allocates itself, or a signal handler does, is not
    /// its business.
    pub(super) is_busy: u32,
    /// The stack, if it was looked for.
    pub(super) stack_low: u64,
    pub(super) stack_end: u64,
    /// Frees left by signal handlers.
    left: [u64; MAX_LEFT],
    left_count: u32,
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
    // SAFETY: the variable lives as long as the thread, and all its bytes are valid. References to
    // it are short: only one function holds one while it calls nothing of the program's.
    unsafe { &mut *address }
}

/// Returns the thread pointer: the address of what the C library has of this thread.
pub(super) fn pointer() -> u64 {
    let pointer: u64;
    // SAFETY: the first word there is its own address.
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
            left: [0; MAX_LEFT],
            left_count: 0,
        }
    }

    /// Leaves a free to whoever is busy in this thread; `false` if there is no room.
    pub(super) fn leave(&mut self, address: u64) -> bool {
        match self.left.get_mut(self.left_count as usize) {
            Some(place) => {
                *place = address;
                self.left_count += 1;
                true
            }
            None => false,
        }
    }

    /// Takes one that was left.
    pub(super) fn take_left(&mut self) -> Option<u64> {
        self.left_count = self.left_count.checked_sub(1)?;
        self.left.get(self.left_count as usize).copied()
    }
}
