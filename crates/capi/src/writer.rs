//! The memory of messages that programs write.

use std::fmt;
use std::ptr;
use std::slice;

use ferretto_client::{RawRange, TraceWriter, WriteByAddress};

use crate::abi::PerfettoStreamWriter;
use crate::heap_buffer::HeapBuffer;

/// The owner of a writer's ranges.
pub enum Backing {
    /// Heap memory.
    Heap(HeapBuffer),
    /// A packet of this writer, which is valid as long as its thread uses the instance.
    Packet(*mut TraceWriter),
}

impl fmt::Debug for Backing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Heap(_) => "Heap",
            Self::Packet(_) => "Packet",
        })
    }
}

impl PerfettoStreamWriter {
    /// Sets the range in which the program continues.
    pub(crate) fn set(&mut self, range: RawRange) {
        self.begin = range.begin;
        self.end = range.end;
        self.write_ptr = range.cursor;
        self.written_previously = range.before as usize;
    }

    /// Calls the function for the kind of memory; does nothing without memory.
    ///
    /// # Safety
    ///
    /// `self.backing` is null or a valid pointer that the library stored.
    unsafe fn with<T>(
        &mut self,
        heap: impl FnOnce(&mut HeapBuffer, &mut Self) -> T,
        packet: impl FnOnce(&mut TraceWriter, &mut Self) -> T,
    ) -> Option<T> {
        // SAFETY: by contract; writers are used by one thread at a time.
        match unsafe { self.backing.as_mut() }? {
            Backing::Heap(buffer) => Some(heap(buffer, self)),
            // SAFETY: the trace writer outlives its packet.
            Backing::Packet(writer) => Some(packet(unsafe { writer.as_mut() }?, self)),
        }
    }
}

/// Records that all bytes before `write_ptr` are written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PerfettoStreamWriterUpdateWritePtr(w: *mut PerfettoStreamWriter) {
    // SAFETY: by the contract of the crate; `write_ptr` is in the last range, which is written up
    // to there.
    unsafe {
        let cursor = (*w).write_ptr;
        (*w).with(
            |heap, _| heap.advance(cursor),
            |packet, _| packet.advance_raw(cursor),
        );
    }
}

/// Gets a new range.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PerfettoStreamWriterNewChunk(w: *mut PerfettoStreamWriter) {
    // SAFETY: as for `PerfettoStreamWriterUpdateWritePtr`.
    unsafe { next_range(w, 1) };
}

/// Appends bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PerfettoStreamWriterAppendBytesSlowpath(
    w: *mut PerfettoStreamWriter,
    src: *const u8,
    size: usize,
) {
    if size == 0 {
        return;
    }
    // SAFETY: as for `PerfettoStreamWriterUpdateWritePtr`; `src` has `size` bytes.
    unsafe {
        let bytes = slice::from_raw_parts(src, size);
        let cursor = (*w).write_ptr;
        (*w).with(
            |heap, w| w.set(heap.append(cursor, bytes)),
            |packet, w| w.set(packet.append_raw(cursor, bytes)),
        );
    }
}

/// Zeroes the four bytes at `patch_addr` and returns the address for writing them later, or null if
/// they cannot be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PerfettoStreamWriterAnnotatePatch(
    w: *mut PerfettoStreamWriter,
    patch_addr: *mut u8,
) -> *mut u8 {
    // SAFETY: as for `PerfettoStreamWriterUpdateWritePtr`; the four bytes are within the range.
    unsafe {
        let cursor = (*w).write_ptr;
        let patched = (*w).with(
            |_, _| {
                patch_addr.write_bytes(0, 4);
                patch_addr
            },
            |packet, _| packet.announce_raw(cursor, patch_addr),
        );
        patched.unwrap_or(ptr::null_mut())
    }
}

/// Reserves `size` contiguous bytes and counts them as written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PerfettoStreamWriterReserveBytesSlowpath(
    w: *mut PerfettoStreamWriter,
    size: usize,
) {
    // SAFETY: as for `PerfettoStreamWriterUpdateWritePtr`.
    unsafe {
        if ((*w).end as usize).wrapping_sub((*w).write_ptr as usize) < size {
            next_range(w, size);
        }
        (*w).write_ptr = (*w).write_ptr.wrapping_add(size);
        PerfettoStreamWriterUpdateWritePtr(w);
    }
}

/// Continues in a range of at least `size` bytes.
///
/// # Safety
///
/// As for `PerfettoStreamWriterUpdateWritePtr`.
unsafe fn next_range(w: *mut PerfettoStreamWriter, size: usize) {
    // SAFETY: by contract.
    unsafe {
        let cursor = (*w).write_ptr;
        (*w).with(
            |heap, w| w.set(heap.next_range(cursor, size)),
            |packet, w| w.set(packet.next_raw_range(cursor, size)),
        );
    }
}

/// The functions with their names after version 58.
macro_rules! renamed {
    ($($(#[$doc:meta])* $name:ident = $function:ident($($argument:ident: $type:ty),*) $(-> $result:ty)?;)+) => {
        $(
            $(#[$doc])*
            #[unsafe(no_mangle)]
            pub unsafe extern "C" fn $name($($argument: $type),*) $(-> $result)? {
                // SAFETY: the callers have the same contract; added members of the writer are not
                // accessed.
                unsafe { $function($($argument),*) }
            }
        )+
    };
}

renamed! {
    /// [`PerfettoStreamWriterUpdateWritePtr`] by its new name.
    PerfettoPbMsgWriterUpdateWritePtr = PerfettoStreamWriterUpdateWritePtr(w: *mut PerfettoStreamWriter);
    /// [`PerfettoStreamWriterNewChunk`] by its new name.
    PerfettoPbMsgWriterNewChunk = PerfettoStreamWriterNewChunk(w: *mut PerfettoStreamWriter);
    /// [`PerfettoStreamWriterAppendBytesSlowpath`] by its new name.
    PerfettoPbMsgWriterAppendBytesSlowpath = PerfettoStreamWriterAppendBytesSlowpath(
        w: *mut PerfettoStreamWriter, src: *const u8, size: usize);
    /// [`PerfettoStreamWriterAnnotatePatch`] by its new name.
    PerfettoPbMsgWriterAnnotatePatch = PerfettoStreamWriterAnnotatePatch(
        w: *mut PerfettoStreamWriter, patch_addr: *mut u8) -> *mut u8;
    /// [`PerfettoStreamWriterReserveBytesSlowpath`] by its new name.
    PerfettoPbMsgWriterReserveBytesSlowpath = PerfettoStreamWriterReserveBytesSlowpath(
        w: *mut PerfettoStreamWriter, size: usize);
}
