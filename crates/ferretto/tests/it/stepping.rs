//! Single-stepping of code, with a check of each instruction.
#![allow(unreachable_pub)]

use std::ffi::{c_int, c_void};
use std::sync::Once;
use std::sync::atomic::{AtomicU64, Ordering};

const SIGTRAP: c_int = 5;
const SA_SIGINFO: c_int = 4;
/// The offset of the instruction pointer in the context of a signal handler: after flags, link and
/// stack, the seventeenth register.
const INSTRUCTION_POINTER: usize = 40 + 16 * 8;

/// `struct sigaction` of Linux's C libraries for x86-64.
#[repr(C)]
struct Action {
    handler: extern "C" fn(c_int, *const c_void, *const u8),
    mask: [u64; 16],
    flags: c_int,
    restorer: usize,
}

unsafe extern "C" {
    fn sigaction(signal: c_int, new: *const Action, old: *mut Action) -> c_int;
}

static STEPS: AtomicU64 = AtomicU64::new(0);
static LOCKED: AtomicU64 = AtomicU64::new(0);

/// Called before each instruction. Executes no locked instruction itself, though that would not be
/// noticed.
extern "C" fn stepped(_: c_int, _: *const c_void, context: *const u8) {
    // SAFETY: the kernel passes a valid context with the instruction pointer, which points to
    // code that is about to be executed. Another instruction follows it, so the bytes read until
    // its kind is clear are mapped.
    let is_locked = unsafe {
        let at = context.add(INSTRUCTION_POINTER).cast::<*const u8>();
        locks_memory(at.read_unaligned())
    };
    let add =
        |count: &AtomicU64, n| count.store(count.load(Ordering::Relaxed) + n, Ordering::Relaxed);
    add(&STEPS, 1);
    add(&LOCKED, is_locked.into());
}

/// Returns true if the instruction has a lock prefix, or is an exchange with memory, which locks
/// implicitly.
///
/// # Safety
///
/// `at` must be the start of an instruction.
unsafe fn locks_memory(mut at: *const u8) -> bool {
    // SAFETY: guaranteed by the caller; no byte after the one that determines the kind is read.
    unsafe {
        loop {
            match *at {
                0xf0 => return true,
                // Other prefixes.
                0x66
                | 0x67
                | 0xf2
                | 0xf3
                | 0x2e
                | 0x36
                | 0x3e
                | 0x26
                | 0x64
                | 0x65
                | 0x40..=0x4f => at = at.add(1),
                0x86 | 0x87 => return *at.add(1) < 0xc0,
                _ => return false,
            }
        }
    }
}

/// Counts the memory-locking instructions that `work` executes on this thread. Must be used by one
/// thread at a time.
pub fn step_through(work: impl FnOnce()) -> u64 {
    static INSTALL: Once = Once::new();
    INSTALL.call_once(|| {
        let action = Action {
            handler: stepped,
            mask: [0; 16],
            flags: SA_SIGINFO,
            restorer: 0,
        };
        // SAFETY: the handler only accesses atomics.
        let result = unsafe { sigaction(SIGTRAP, &action, std::ptr::null_mut()) };
        assert_eq!(result, 0);
    });
    let (steps, locked) = (
        STEPS.load(Ordering::Relaxed),
        LOCKED.load(Ordering::Relaxed),
    );
    // SAFETY: with the trap flag, the kernel sends SIGTRAP after each instruction; the signal
    // has a handler.
    unsafe { std::arch::asm!("pushfq", "or qword ptr [rsp], 0x100", "popfq") };
    work();
    // SAFETY: as above; this clears the flag.
    unsafe { std::arch::asm!("pushfq", "and qword ptr [rsp], -0x101", "popfq") };
    assert!(
        STEPS.load(Ordering::Relaxed) > steps,
        "nothing was looked at"
    );
    LOCKED.load(Ordering::Relaxed) - locked
}
