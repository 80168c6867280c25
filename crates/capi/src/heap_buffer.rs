//! Messages in heap memory.

use std::ffi::c_void;
use std::ptr::NonNull;

use ferretto_client::RawRange;

use crate::abi::{PerfettoPbMsgWriter, PerfettoStreamWriter};
use crate::writer::Backing;

/// The minimum size of a range, in bytes.
const RANGE: usize = 4096;

/// Memory at a fixed address.
#[derive(Debug)]
struct Range {
    memory: NonNull<[u8]>,
    /// The number of bytes written.
    used: usize,
}

impl Range {
    fn new(size: usize) -> Self {
        let memory = Box::leak(vec![0; size.max(RANGE)].into_boxed_slice());
        Self {
            memory: NonNull::from(memory),
            used: 0,
        }
    }

    fn start(&self) -> *mut u8 {
        self.memory.cast::<u8>().as_ptr()
    }
}

impl Drop for Range {
    fn drop(&mut self) {
        // SAFETY: the memory is from a box in `new`, and is only freed here.
        drop(unsafe { Box::from_raw(self.memory.as_ptr()) });
    }
}

/// The bytes that a program has written, in one or more ranges. The program writes to the last one
/// by address, and fills in reserved lengths in earlier ones.
#[derive(Debug)]
pub struct HeapBuffer {
    full: Vec<Range>,
    last: Range,
    /// The number of bytes in the full ranges.
    before: usize,
}

impl HeapBuffer {
    fn new() -> Self {
        Self {
            full: Vec::new(),
            last: Range::new(RANGE),
            before: 0,
        }
    }

    /// Sets the end of the written bytes. Ignores an address outside of the range.
    pub(crate) fn advance(&mut self, cursor: *mut u8) {
        let used = (cursor as usize).wrapping_sub(self.last.start() as usize);
        if used <= self.last.memory.len() {
            self.last.used = used;
        }
    }

    pub(crate) fn next_range(&mut self, cursor: *mut u8, size: usize) -> RawRange {
        self.advance(cursor);
        let full = std::mem::replace(&mut self.last, Range::new(size));
        self.before += full.used;
        self.full.push(full);
        self.range()
    }

    pub(crate) fn append(&mut self, mut cursor: *mut u8, mut bytes: &[u8]) -> RawRange {
        loop {
            self.advance(cursor);
            let fits = bytes.len().min(self.last.memory.len() - self.last.used);
            let range = self.range();
            // SAFETY: the buffer owns the memory, which has space for as many bytes at the cursor.
            unsafe { range.cursor.copy_from(bytes.as_ptr(), fits) };
            self.last.used += fits;
            bytes = &bytes[fits..];
            if bytes.is_empty() {
                return self.range();
            }
            cursor = self.range().cursor;
            cursor = self.next_range(cursor, RANGE).cursor;
        }
    }

    fn range(&self) -> RawRange {
        let begin = self.last.start();
        RawRange {
            begin,
            cursor: begin.wrapping_add(self.last.used),
            end: begin.wrapping_add(self.last.memory.len()),
            before: self.before as u64,
        }
    }

    /// Copies at most `size` bytes from the start.
    ///
    /// # Safety
    ///
    /// `target` has space for the bytes.
    unsafe fn copy_to(&self, mut target: *mut u8, mut size: usize) {
        for range in self.full.iter().chain([&self.last]) {
            let length = range.used.min(size);
            // SAFETY: the range has as many bytes, and by contract `target` has space for them.
            unsafe { target.copy_from_nonoverlapping(range.start(), length) };
            target = target.wrapping_add(length);
            size -= length;
        }
    }
}

/// The handle of a heap buffer for programs. The data is in the writer's [`Backing`].
#[derive(Debug)]
#[repr(C)]
pub struct PerfettoHeapBuffer {
    opaque: u8,
}

/// Creates a buffer, and a writer that fills it.
#[cfg(target_arch = "x86_64")]
#[unsafe(naked)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PerfettoHeapBufferCreate(
    w: *mut PerfettoPbMsgWriter,
) -> *mut PerfettoHeapBuffer {
    // Passes the return address to `create`.
    core::arch::naked_asm!("mov rsi, [rsp]", "jmp {create}", create = sym create)
}

/// Creates a buffer, and a writer that fills it.
#[cfg(target_arch = "aarch64")]
#[unsafe(naked)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PerfettoHeapBufferCreate(
    w: *mut PerfettoPbMsgWriter,
) -> *mut PerfettoHeapBuffer {
    // Passes the return address to `create`.
    core::arch::naked_asm!("mov x1, x30", "b {create}", create = sym create)
}

/// Creates a buffer, and a writer that fills it.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PerfettoHeapBufferCreate(
    w: *mut PerfettoPbMsgWriter,
) -> *mut PerfettoHeapBuffer {
    // SAFETY: the callers have the same contract.
    unsafe { create(w, 0) }
}

/// # Safety
///
/// `w` is a writer struct in the version of the program whose code is at `caller`.
unsafe extern "C" fn create(w: *mut PerfettoPbMsgWriter, caller: usize) -> *mut PerfettoHeapBuffer {
    let buffer = HeapBuffer::new();
    let range = buffer.range();
    let backing = Box::into_raw(Box::new(Backing::Heap(buffer)));
    // SAFETY: the caller's memory has space for all members of its version, and they are plain
    // data.
    unsafe {
        (&raw mut (*w).stream).write(PerfettoStreamWriter {
            backing,
            begin: range.begin,
            end: range.end,
            write_ptr: range.cursor,
            written_previously: 0,
        });
        if crate::caller::has_encoding(caller) {
            (&raw mut (*w).encoding).write(0);
        }
    }
    backing.cast()
}

/// Copies up to `size` of the written bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PerfettoHeapBufferCopyInto(
    hb: *mut PerfettoHeapBuffer,
    w: *mut PerfettoStreamWriter,
    dst: *mut c_void,
    size: usize,
) {
    // SAFETY: `hb` is from `create`, and `dst` has space for `size` bytes.
    unsafe {
        if let Some(Backing::Heap(buffer)) = hb.cast::<Backing>().as_mut() {
            buffer.advance((*w).write_ptr);
            buffer.copy_to(dst.cast(), size);
        }
    }
}

/// Frees a buffer and invalidates its writer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PerfettoHeapBufferDestroy(
    hb: *mut PerfettoHeapBuffer,
    w: *mut PerfettoStreamWriter,
) {
    if hb.is_null() {
        return;
    }
    // SAFETY: `hb` is from a box in `create`, and is not used any more.
    unsafe {
        drop(Box::from_raw(hb.cast::<Backing>()));
        if let Some(w) = w.as_mut() {
            w.backing = std::ptr::null_mut();
        }
    }
}
