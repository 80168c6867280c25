//! The official core, compiled in for comparison.
//!
//! The loops over chunks are on the C++ side (`official/core.cc`), so that the core is measured and
//! not the calls.

use std::ffi::{c_int, c_void};
use std::ptr::NonNull;

use crate::chunks::ChunkTemplate;

#[repr(C)]
struct RawChunk {
    data: *const u8,
    size: usize,
    fragments: u16,
}

#[repr(C)]
struct RawSlice {
    data: *const u8,
    size: usize,
}

// SAFETY: these are the declarations of `official/core.h`.
unsafe extern "C" {
    fn official_buffer_new(engine: c_int, size: usize) -> *mut c_void;
    fn official_buffer_free(buffer: *mut c_void);
    fn official_buffer_write(
        buffer: *mut c_void,
        chunks: *const RawChunk,
        count: usize,
        writers: usize,
        times: usize,
    );
    fn official_buffer_read(buffer: *mut c_void) -> usize;
    fn official_buffer_patch(buffer: *mut c_void, chunk: u32, offset: usize, times: usize)
    -> usize;
    fn official_packet_new(slices: *const RawSlice, count: usize) -> *mut c_void;
    fn official_packet_free(packet: *mut c_void);
    fn official_packet_validate(packet: *const c_void, times: usize) -> bool;
    fn official_producer_new(memory_size: usize) -> *mut c_void;
    fn official_producer_free(producer: *mut c_void);
    fn official_producer_write(producer: *mut c_void, threads: usize, packets: usize, size: usize);
}

/// The two trace buffers of upstream.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Engine {
    V1 = 1,
    V2 = 2,
}

/// A trace buffer of upstream's.
#[derive(Debug)]
pub(crate) struct Buffer(NonNull<c_void>);

impl Buffer {
    pub(crate) fn new(engine: Engine, size: usize) -> Self {
        // SAFETY: any size is valid; the core aborts if there is no memory.
        let buffer = unsafe { official_buffer_new(engine as c_int, size) };
        Self(NonNull::new(buffer).expect("the core made a buffer"))
    }

    /// Copies `times` chunks into the buffer, for the writers in turn.
    pub(crate) fn write(&mut self, templates: &[ChunkTemplate], writers: usize, times: usize) {
        let chunks: Vec<RawChunk> = templates
            .iter()
            .map(|template| RawChunk {
                data: template.payload.as_ptr(),
                size: template.payload.len(),
                fragments: template.fragments,
            })
            .collect();
        // SAFETY: the buffer lives as long as `self`; the chunks live through the call, which does
        // not keep them.
        unsafe {
            official_buffer_write(
                self.0.as_ptr(),
                chunks.as_ptr(),
                chunks.len(),
                writers,
                times,
            );
        }
    }

    /// Reads everything and returns the number of bytes.
    pub(crate) fn read(&mut self) -> usize {
        // SAFETY: the buffer lives as long as `self`.
        unsafe { official_buffer_read(self.0.as_ptr()) }
    }

    /// Patches a chunk of the first writer `times` times and returns how often it was found.
    pub(crate) fn patch(&mut self, chunk: u32, offset: usize, times: usize) -> usize {
        // SAFETY: the buffer lives as long as `self`; chunk and offset are checked by the core.
        unsafe { official_buffer_patch(self.0.as_ptr(), chunk, offset, times) }
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        // SAFETY: made by `official_buffer_new`, freed once.
        unsafe { official_buffer_free(self.0.as_ptr()) };
    }
}

/// A packet in the slices that upstream keeps it in.
#[derive(Debug)]
pub(crate) struct Packet(NonNull<c_void>);

impl Packet {
    pub(crate) fn new(slices: &[Vec<u8>]) -> Self {
        let raw: Vec<RawSlice> = slices
            .iter()
            .map(|slice| RawSlice {
                data: slice.as_ptr(),
                size: slice.len(),
            })
            .collect();
        // SAFETY: the slices live through the call, which copies them.
        let packet = unsafe { official_packet_new(raw.as_ptr(), raw.len()) };
        Self(NonNull::new(packet).expect("the core made a packet"))
    }

    /// Returns true if upstream's validator accepts the packet.
    pub(crate) fn validate(&self) -> bool {
        // SAFETY: the packet lives as long as `self`.
        unsafe { official_packet_validate(self.0.as_ptr(), 1) }
    }
}

impl Drop for Packet {
    fn drop(&mut self) {
        // SAFETY: made by `official_packet_new`, freed once.
        unsafe { official_packet_free(self.0.as_ptr()) };
    }
}

/// The writers' side of a producer, with a service that only frees chunks.
#[derive(Debug)]
pub(crate) struct Producer(NonNull<c_void>);

impl Producer {
    pub(crate) fn new(memory_size: usize) -> Self {
        // SAFETY: any multiple of the page size is valid; the core aborts if there is no memory.
        let producer = unsafe { official_producer_new(memory_size) };
        Self(NonNull::new(producer).expect("the core made a producer"))
    }

    /// Writes `packets` packets from each of `threads` threads.
    pub(crate) fn write(&self, threads: usize, packets: usize, size: usize) {
        // SAFETY: the producer lives as long as `self`, and the threads end within the call.
        unsafe { official_producer_write(self.0.as_ptr(), threads, packets, size) };
    }
}

impl Drop for Producer {
    fn drop(&mut self) {
        // SAFETY: made by `official_producer_new`, freed once.
        unsafe { official_producer_free(self.0.as_ptr()) };
    }
}
