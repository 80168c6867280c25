//! The stack of the calling thread: bounds, registers and frame pointers.

use core::arch::asm;
use core::ffi::c_void;
use core::ptr;
use core::sync::atomic::{AtomicU64, Ordering};

use super::thread::{self, Thread};
use crate::sys;
use crate::wire::REGISTER_BYTES;

/// The largest number of addresses of a chain.
pub(super) const MAX_CHAIN: usize = 256;
/// The number of bytes to copy of a stack with an unknown end.
pub(super) const FOREIGN_BYTES: usize = 16 << 10;
/// The largest plausible stack of a main thread.
const MAX_MAIN_STACK: u64 = 1 << 30;

/// The end address of the main thread's stack.
static MAIN_END: AtomicU64 = AtomicU64::new(0);
/// The maximum size of the main thread's stack.
static MAIN_SIZE: AtomicU64 = AtomicU64::new(0);

/// Registers in the layout of a record.
pub(super) type Registers = [u64; REGISTER_BYTES / 8];

/// Reads the registers of the function that this is inlined into.
#[inline(always)]
pub(super) fn registers() -> Registers {
    let mut registers: Registers = [0; REGISTER_BYTES / 8];
    let to = registers.as_mut_ptr();
    // SAFETY: stores only into the array. Callee-saved registers suffice for unwinding.
    #[cfg(target_arch = "x86_64")]
    unsafe {
        asm!(
            "mov qword ptr [{to} + 24], rbx",
            "mov qword ptr [{to} + 48], rbp",
            "mov qword ptr [{to} + 56], rsp",
            "mov qword ptr [{to} + 96], r12",
            "mov qword ptr [{to} + 104], r13",
            "mov qword ptr [{to} + 112], r14",
            "mov qword ptr [{to} + 120], r15",
            "lea {pc}, [rip]",
            "mov qword ptr [{to} + 128], {pc}",
            to = in(reg) to,
            pc = out(reg) _,
            options(nostack, preserves_flags),
        );
    }
    // SAFETY: as above.
    #[cfg(target_arch = "aarch64")]
    unsafe {
        asm!(
            "stp x18, x19, [{to}, #144]",
            "stp x20, x21, [{to}, #160]",
            "stp x22, x23, [{to}, #176]",
            "stp x24, x25, [{to}, #192]",
            "stp x26, x27, [{to}, #208]",
            "stp x28, x29, [{to}, #224]",
            "str x30, [{to}, #240]",
            "mov {pc}, sp",
            "str {pc}, [{to}, #248]",
            "adr {pc}, .",
            "str {pc}, [{to}, #256]",
            to = in(reg) to,
            pc = out(reg) _,
            options(nostack, preserves_flags),
        );
    }
    registers
}

/// Returns program counter, stack pointer and frame pointer.
pub(super) fn pointers(registers: &Registers) -> (u64, u64, u64) {
    if cfg!(target_arch = "aarch64") {
        (registers[32], registers[31], registers[29])
    } else {
        (registers[16], registers[7], registers[6])
    }
}

/// Finds the main thread's stack. Any thread may call it.
pub(super) fn find_main() {
    let mut limit = sys::Limit::default();
    // SAFETY: `limit` is valid.
    let known = unsafe { sys::getrlimit(sys::RLIMIT_STACK, &mut limit) } == 0;
    let size = if known { limit.soft } else { 8 << 20 };
    MAIN_SIZE.store(size.min(MAX_MAIN_STACK), Ordering::Relaxed);
    if let Some(end) = main_end() {
        MAIN_END.store(end, Ordering::Relaxed);
    }
}

/// Reads the end of the line `[stack]` in the process's maps.
fn main_end() -> Option<u64> {
    let line = find_line(|line, seen| seen == Seen::Stack && line.end > 0)?;
    Some(line.end)
}

/// Finds the first line of the process's maps that `matches` accepts. The line is parsed only up to
/// that point.
fn find_line(mut matches: impl FnMut(&Line, Seen) -> bool) -> Option<Line> {
    let flags = sys::O_RDONLY | sys::O_CLOEXEC;
    // SAFETY: the path ends with a 0.
    let fd = unsafe { sys::open(c"/proc/self/maps".as_ptr(), flags, 0) };
    if fd < 0 {
        return None;
    }
    let mut buffer = [0_u8; 1024];
    let mut line = Line::default();
    let mut is_found = false;
    'file: loop {
        // SAFETY: the length is that of the buffer.
        let got = unsafe { sys::read(fd, buffer.as_mut_ptr().cast::<c_void>(), buffer.len()) };
        let Some(bytes) = usize::try_from(got).ok().and_then(|got| buffer.get(..got)) else {
            break;
        };
        if bytes.is_empty() {
            break;
        }
        for &byte in bytes {
            let seen = line.take(byte);
            if seen != Seen::Nothing && matches(&line, seen) {
                is_found = true;
                break 'file;
            }
        }
    }
    sys::close_fd(fd);
    is_found.then_some(line)
}

/// The part of a line that a byte completes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Seen {
    Nothing,
    /// Both addresses.
    Range,
    /// The name `[stack]`.
    Stack,
}

/// A line of the maps, parsed byte by byte.
#[derive(Default)]
struct Line {
    start: u64,
    end: u64,
    /// 0 in the first address, 1 in the second, 2 after it.
    part: u8,
    /// The number of matched bytes of `[stack]`.
    matched: usize,
}

impl Line {
    fn take(&mut self, byte: u8) -> Seen {
        const NAME: &[u8] = b"[stack]";
        let digit = || u64::from((byte as char).to_digit(16).unwrap_or(0));
        match (self.part, byte) {
            (_, b'\n') => *self = Self::default(),
            (0, b'-') => self.part = 1,
            (0, _) => self.start = self.start << 4 | digit(),
            (1, b' ') => {
                self.part = 2;
                return Seen::Range;
            }
            (1, _) => self.end = self.end << 4 | digit(),
            (_, _) if NAME.get(self.matched) == Some(&byte) => self.matched += 1,
            _ => self.matched = usize::from(byte == b'['),
        }
        if self.matched == NAME.len() {
            Seen::Stack
        } else {
            Seen::Nothing
        }
    }
}

/// Returns the end address of the thread's stack. `None` if `sp` is not in it, as in coroutines and
/// signal handlers with their own stack.
pub(super) fn end(thread: &mut Thread, sp: u64) -> Option<u64> {
    if thread.stack_end == 0 {
        if sys::tid() == sys::pid() {
            thread.stack_end = MAIN_END.load(Ordering::Relaxed);
            let size = MAIN_SIZE.load(Ordering::Relaxed);
            thread.stack_low = thread.stack_end.saturating_sub(size);
        } else {
            (thread.stack_low, thread.stack_end) = bounds().unwrap_or((0, 1))
        }
    }
    (thread.stack_low..thread.stack_end)
        .contains(&sp)
        .then_some(thread.stack_end)
}

/// Returns the bounds of this thread's stack. The thread pointer points behind the stack, in the
/// same mapping. `pthread_getattr_np` would take a lock that this thread may hold, since the C
/// library allocates under it.
fn bounds() -> Option<(u64, u64)> {
    let end = thread::pointer();
    let line = find_line(|line, seen| seen == Seen::Range && (line.start..line.end).contains(&end));
    Some((line?.start, end))
}

/// Follows frame pointers between the stack pointer and `end`. Returns the number of addresses, of
/// which the first is the program counter.
pub(super) fn chain(registers: &Registers, end: u64, out: &mut [u64; MAX_CHAIN]) -> usize {
    let (pc, sp, mut frame) = pointers(registers);
    out[0] = pc;
    let mut count = 1;
    let mut low = sp;
    while count < MAX_CHAIN && frame >= low && frame < end.saturating_sub(15) && frame % 8 == 0 {
        // SAFETY: both words lie between the stack pointer and the end of the stack.
        let (next, address) = unsafe {
            let frame = frame as *const u64;
            (frame.read_volatile(), frame.add(1).read_volatile())
        };
        if address == 0 {
            break;
        }
        out[count] = without_signature(address);
        count += 1;
        low = frame + 16;
        frame = next;
    }
    count
}

/// Removes the signature of pointer authentication from a return address.
fn without_signature(address: u64) -> u64 {
    #[cfg(target_arch = "aarch64")]
    {
        let stripped;
        // SAFETY: `xpaclri` changes only this register, and does nothing on processors without
        // pointer authentication.
        unsafe { asm!("hint #7", inout("x30") address => stripped, options(nomem, nostack)) };
        stripped
    }
    #[cfg(not(target_arch = "aarch64"))]
    address
}

/// Copies a stack whose end is known.
pub(super) fn copy(from: u64, to: *mut u8, bytes: usize) {
    // The C library's `memcpy` may be replaced by a sanitizer, which would report the read.
    // SAFETY: the stack is mapped up to its end, and `to` has space for all bytes.
    #[cfg(target_arch = "x86_64")]
    unsafe {
        asm!(
            "rep movsb",
            inout("rcx") bytes => _,
            inout("rdi") to => _,
            inout("rsi") from => _,
            options(nostack, preserves_flags),
        );
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        let is_aligned = from.is_multiple_of(8) && (to as u64).is_multiple_of(8);
        let words = if is_aligned { bytes / 8 } else { 0 };
        for at in 0..words {
            // SAFETY: as above, and both are aligned.
            unsafe {
                let word = (from as *const u64).add(at).read_volatile();
                to.cast::<u64>().add(at).write_volatile(word);
            }
        }
        for at in words * 8..bytes {
            // SAFETY: as above.
            unsafe {
                to.add(at)
                    .write_volatile((from as *const u8).add(at).read_volatile())
            };
        }
    }
}

/// Copies a stack with an unknown end up to the first unmapped page. The rest is 0.
pub(super) fn copy_foreign(from: u64, to: *mut u8) {
    const PAGE: u64 = 4096;
    const PARTS: usize = FOREIGN_BYTES / PAGE as usize + 1;
    // SAFETY: the caller provides this much space.
    unsafe { ptr::write_bytes(to, 0, FOREIGN_BYTES) };
    let empty = sys::IoVec {
        base: ptr::null_mut(),
        length: 0,
    };
    let mut parts = [empty; PARTS];
    let (mut at, mut left, mut count) = (from, FOREIGN_BYTES as u64, 0);
    while left > 0 && count < PARTS {
        let length = (PAGE - at % PAGE).min(left);
        parts[count] = sys::IoVec {
            base: at as *mut c_void,
            length: length as usize,
        };
        count += 1;
        at = at.wrapping_add(length);
        left -= length;
    }
    let local = sys::IoVec {
        base: to.cast(),
        length: FOREIGN_BYTES,
    };
    // SAFETY: the kernel checks the read addresses, and `to` has space for all bytes.
    unsafe {
        sys::process_vm_readv(sys::pid(), &local, 1, parts.as_ptr(), count as u64, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_main_stack_is_found_in_maps() {
        let mut line = Line::default();
        let maps =
            b"55e0-55f0 r--p 0 08:01 7 /bin/[stac]\n7ffc1000-7ffc2fff rw-p 0 0 0    [stack]\n";
        let at = maps.iter().position(|&byte| line.take(byte) == Seen::Stack);
        assert_eq!(at, Some(maps.len() - 2));
        assert_eq!((line.start, line.end), (0x7ffc_1000, 0x7ffc_2fff));
        let local = 0_u8;
        assert!(main_end().unwrap() > ptr::from_ref(&local) as u64);
    }

    #[test]
    fn the_stack_of_a_thread_is_found() {
        let check = || {
            let (_, sp, _) = pointers(&registers());
            let (low, end) = bounds().unwrap();
            assert!((low..end).contains(&sp));
            // The stacks of test threads have 2 MiB.
            assert!(end - sp < 2 << 20, "{} bytes", end - sp);
        };
        std::thread::spawn(check).join().unwrap();
    }

    #[test]
    fn stacks_are_copied_at_any_alignment() {
        let from: std::vec::Vec<u8> = (0..200).collect();
        for start in 0..9 {
            for offset in 0..9 {
                let mut to = [0; 200];
                let bytes = 200 - 9 - offset;
                let target = to[offset..].as_mut_ptr();
                copy(from.as_ptr() as u64 + start as u64, target, bytes);
                assert_eq!(to[offset..offset + bytes], from[start..start + bytes]);
            }
        }
    }

    #[cfg(target_arch = "aarch64")]
    #[test]
    fn signatures_are_removed_from_return_addresses() {
        let address = 0x4000_1234;
        let signed: u64;
        // SAFETY: `pacia1716` changes only x17.
        unsafe { asm!("hint #8", inout("x17") address => signed, in("x16") 64_u64) };
        assert_eq!(without_signature(signed), address);
    }

    #[test]
    fn stacks_with_an_unknown_end_are_copied_up_to_unmapped_memory() {
        let flags = sys::MAP_PRIVATE | sys::MAP_ANONYMOUS;
        let mut to = std::vec![7_u8; FOREIGN_BYTES];
        let page = sys::page_size();
        let start = (page - 96) as u64;
        // SAFETY: the mapping is new, and only its first page is written.
        let base = unsafe {
            let base = sys::mmap(
                ptr::null_mut(),
                2 * page,
                sys::PROT_READ | sys::PROT_WRITE,
                flags,
                -1,
                0,
            );
            sys::munmap(base.add(page), page);
            base.cast::<u8>().add(page - 96).write(9);
            base as u64
        };
        copy_foreign(base + start, to.as_mut_ptr());
        assert_eq!(to[0], 9);
        assert!(to[1..].iter().all(|&byte| byte == 0));
    }
}
