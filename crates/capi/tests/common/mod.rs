//! A program that uses the C interface, and what it recorded.
#![allow(dead_code, unreachable_pub)]

pub mod library;

use std::ffi::c_void;
use std::ptr;

use ferretto_c::*;
use ferretto_wire::{Fields, encode};

/// Makes this process a producer of the service inside it.
pub fn init() {
    init_with(256);
}

/// The same with so much shared memory, in KiB.
pub fn init_with(memory_kb: u32) {
    // SAFETY: used as the headers say.
    unsafe {
        let args = PerfettoProducerBackendInitArgsCreate();
        PerfettoProducerBackendInitArgsSetShmemSizeHintKb(args, memory_kb);
        PerfettoProducerInProcessInit(args);
        PerfettoProducerBackendInitArgsDestroy(args);
    }
}

/// A config that records one data source; `config` adds to its own.
pub fn config(name: &str, add: impl FnOnce(&mut ferretto_wire::Encoder<'_, Vec<u8>>)) -> Vec<u8> {
    encode(|m| {
        m.nested(1, |buffer| buffer.varint(1, 32 * 1024));
        m.nested(2, |source| {
            source.nested(1, |config| {
                config.string(1, name);
                add(config);
            });
        });
    })
}

/// A recording by the service in this process.
pub struct Session(pub *mut PerfettoTracingSessionImpl);

impl Session {
    pub fn start(config: &[u8]) -> Self {
        // SAFETY: used as the headers say.
        unsafe {
            let session = PerfettoTracingSessionInProcessCreate();
            PerfettoTracingSessionSetup(session, config.as_ptr().cast_mut().cast(), config.len());
            PerfettoTracingSessionStartBlocking(session);
            Self(session)
        }
    }

    pub fn stop(&self) {
        // SAFETY: used as the headers say.
        unsafe { PerfettoTracingSessionStopBlocking(self.0) };
    }

    /// The packets recorded.
    pub fn read(&self) -> Vec<Vec<u8>> {
        unsafe extern "C" fn append(
            _: *mut PerfettoTracingSessionImpl,
            data: *const c_void,
            size: usize,
            _: bool,
            trace: *mut c_void,
        ) {
            // SAFETY: called as the headers say, with the vector below.
            unsafe {
                let data = std::slice::from_raw_parts(data.cast::<u8>(), size);
                (*trace.cast::<Vec<u8>>()).extend_from_slice(data);
            }
        }
        let mut trace = Vec::new();
        // SAFETY: used as the headers say; the vector lives until the call returns.
        unsafe {
            PerfettoTracingSessionReadTraceBlocking(
                self.0,
                Some(append),
                ptr::from_mut(&mut trace).cast(),
            );
        }
        Fields::new(&trace)
            .map(|packet| packet.unwrap().as_bytes().unwrap().to_vec())
            .collect()
    }

    pub fn stop_and_read(&self) -> Vec<Vec<u8>> {
        self.stop();
        self.read()
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        // SAFETY: used as the headers say.
        unsafe { PerfettoTracingSessionDestroy(self.0) };
    }
}
