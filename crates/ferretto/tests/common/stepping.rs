//! Running code instruction by instruction, and looking at each.
#![allow(unreachable_pub)]

use std::ffi::{c_int, c_void};
use std::sync::Once;
use std::sync::atomic::{AtomicU64, Ordering};

const SIGTRAP: c_int = 5;
const SA_SIGINFO: c_int = 4;
/// The offset of the instruction pointer in the context that handlers of signals get: behind flags,
/// link and stack, the seventeenth register.
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

/// Called before each instruction. Takes no locked instruction itself, though nobody would notice.
extern "C" fn stepped(_: c_int, _: *const c_void, context: *const u8) {
    // SAFETY: the kernel passes a context, in which the instruction pointer is there, and at which
    // code is that is about to be executed; an instruction is followed by others, so that what is
    // read of it is mapped up to where it is clear what it is.
    let is_locked = unsafe {
        let at = context.add(INSTRUCTION_POINTER).cast::<*const u8>();
        locks_memory(at.read_unaligned())
    };
    let add =
        |count: &AtomicU64, n| count.store(count.load(Ordering::Relaxed) + n, Ordering::Relaxed);
    add(&STEPS, 1);
    add(&LOCKED, is_locked.into());
}

/// True if the instruction has the prefix that locks, or is an exchange with memory, which does
/// without.
///
/// # Safety
///
/// `at` has to be where an instruction begins.
unsafe fn locks_memory(mut at: *const u8) -> bool {
    // SAFETY: as this function is called; no byte behind the one that says what the instruction is
    // is read.
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

/// Counts the instructions locking memory that `work` executes on this thread. For one thread at a
/// time.
pub fn step_through(work: impl FnOnce()) -> u64 {
    static INSTALL: Once = Once::new();
    INSTALL.call_once(|| {
        let action = Action {
            handler: stepped,
            mask: [0; 16],
            flags: SA_SIGINFO,
            restorer: 0,
        };
        // SAFETY: the handler touches atomics only.
        let result = unsafe { sigaction(SIGTRAP, &action, std::ptr::null_mut()) };
        assert_eq!(result, 0);
    });
    let (steps, locked) = (
        STEPS.load(Ordering::Relaxed),
        LOCKED.load(Ordering::Relaxed),
    );
    // SAFETY: the trap flag has the kernel send SIGTRAP after each instruction, which is handled.
    unsafe { std::arch::asm!("pushfq", "or qword ptr [rsp], 0x100", "popfq") };
    work();
    // SAFETY: as above; the flag is taken back.
    unsafe { std::arch::asm!("pushfq", "and qword ptr [rsp], -0x101", "popfq") };
    assert!(
        STEPS.load(Ordering::Relaxed) > steps,
        "nothing was looked at"
    );
    LOCKED.load(Ordering::Relaxed) - locked
}
