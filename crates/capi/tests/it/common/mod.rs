//! Helpers of the tests: use of the C interface, and recordings.
#![allow(dead_code, unreachable_pub)]

pub mod events;
pub mod library;
pub mod programs;

use std::ffi::c_void;
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};

use ferretto_c::*;
use ferretto_wire::{Fields, encode};

/// Makes this process a producer of its in-process service.
pub fn init() {
    init_with(256);
}

/// Does the same with a size of shared memory in KiB.
pub fn init_with(memory_kb: u32) {
    // SAFETY: by the contract of the headers.
    unsafe {
        let args = PerfettoProducerBackendInitArgsCreate();
        PerfettoProducerBackendInitArgsSetShmemSizeHintKb(args, memory_kb);
        PerfettoProducerInProcessInit(args);
        PerfettoProducerBackendInitArgsDestroy(args);
    }
}

/// Returns a config for one data source; `add` extends the config of the data source.
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
        // SAFETY: by the contract of the headers.
        unsafe {
            let session = PerfettoTracingSessionInProcessCreate();
            PerfettoTracingSessionSetup(session, config.as_ptr().cast_mut().cast(), config.len());
            PerfettoTracingSessionStartBlocking(session);
            Self(session)
        }
    }

    pub fn stop(&self) {
        // SAFETY: by the contract of the headers.
        unsafe { PerfettoTracingSessionStopBlocking(self.0) };
    }

    /// Returns the recorded packets.
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
        // SAFETY: by the contract of the headers; the vector outlives the call.
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
        // SAFETY: by the contract of the headers.
        unsafe { PerfettoTracingSessionDestroy(self.0) };
    }
}

/// A registered data source.
#[derive(Clone, Copy)]
pub struct Source {
    pub ds: *mut PerfettoDsImpl,
    enabled: *mut AtomicBool,
}

// SAFETY: registered data sources are never freed, and may be used from any thread.
unsafe impl Send for Source {}
// SAFETY: as above.
unsafe impl Sync for Source {}

impl Source {
    /// Registers a data source; `define` sets its callbacks.
    pub fn register(name: &str, define: impl FnOnce(*mut PerfettoDsImpl)) -> Self {
        let descriptor = encode(|m| m.string(1, name));
        Self::register_as(&descriptor, define).unwrap()
    }

    /// Registers a data source with an encoded descriptor.
    pub fn register_as(
        descriptor: &[u8],
        define: impl FnOnce(*mut PerfettoDsImpl),
    ) -> Option<Self> {
        let mut enabled = ptr::null_mut();
        // SAFETY: by the contract of the headers.
        unsafe {
            let ds = PerfettoDsImplCreate();
            define(ds);
            let bytes = descriptor.as_ptr().cast();
            PerfettoDsImplRegister(ds, &raw mut enabled, bytes, descriptor.len())
                .then_some(Self { ds, enabled })
        }
    }

    pub fn is_enabled(&self) -> bool {
        // SAFETY: the address is always valid.
        unsafe { &*self.enabled }.load(Ordering::Relaxed)
    }

    /// Calls `write` for every recording instance.
    pub fn trace(&self, mut write: impl FnMut(Tracer)) {
        // SAFETY: by the contract of the headers.
        unsafe {
            let mut iterator = PerfettoDsImplTraceIterateBegin(self.ds);
            while !iterator.tracer.is_null() {
                write(Tracer {
                    ds: self.ds,
                    instance: iterator.inst_id,
                    tracer: iterator.tracer,
                });
                PerfettoDsImplTraceIterateNext(self.ds, &raw mut iterator);
            }
        }
    }

    /// Writes a packet to every recording. Returns their number.
    pub fn write(&self, packet: &[u8]) -> usize {
        let mut count = 0;
        self.trace(|tracer| {
            tracer.write(packet);
            count += 1;
        });
        count
    }

    /// Starts a recording that ends when the session is dropped.
    pub fn record(name: &str) -> Session {
        Session::start(&config(name, |_| {}))
    }
}

/// A thread's access to an instance.
#[derive(Clone, Copy)]
pub struct Tracer {
    pub ds: *mut PerfettoDsImpl,
    pub instance: u32,
    pub tracer: *mut c_void,
}

impl Tracer {
    /// Writes a packet with these bytes in pieces.
    pub fn write(&self, packet: &[u8]) {
        self.write_with(|writer| {
            for piece in packet.chunks(1000) {
                // SAFETY: by the contract of the headers.
                unsafe {
                    PerfettoStreamWriterAppendBytesSlowpath(writer, piece.as_ptr(), piece.len());
                }
            }
        });
    }

    /// Writes a packet through its writer.
    pub fn write_with(&self, write: impl FnOnce(*mut PerfettoStreamWriter)) {
        let mut writer = MaybeUninit::<PerfettoPbMsgWriter>::uninit();
        // SAFETY: by the contract of the headers after version 58.
        unsafe {
            PerfettoDsTracerImplPacketBegin(self.tracer, writer.as_mut_ptr().cast());
            let mut writer = writer.assume_init();
            assert_eq!(writer.encoding, 0);
            write(&raw mut writer.stream);
            PerfettoDsTracerImplPacketEnd(self.tracer, &raw mut writer.stream);
        }
    }

    /// Flushes the written packets.
    pub fn flush(&self) {
        // SAFETY: by the contract of the headers.
        unsafe { PerfettoDsTracerImplFlush(self.tracer, None, ptr::null_mut()) };
    }

    pub fn drop_count(&self) -> u64 {
        // SAFETY: by the contract of the headers.
        unsafe { PerfettoDsTracerImplGetDropCount(self.tracer) }
    }

    pub fn incremental_state(&self) -> *mut c_void {
        // SAFETY: by the contract of the headers.
        unsafe { PerfettoDsImplGetIncrementalState(self.ds, self.tracer, self.instance) }
    }
}

/// Returns the texts in field 900 of the packets.
pub fn texts(packets: &[Vec<u8>]) -> Vec<String> {
    packets
        .iter()
        .filter_map(|packet| Fields::find(900, packet))
        .map(|text| text.as_str_lossy().unwrap().into_owned())
        .collect()
}

/// Returns a packet with a text.
pub fn text(text: &str) -> Vec<u8> {
    encode(|m| m.string(900, text))
}

/// Runs the test with this name in another process with `case`. Returns its exit status and its
/// error output.
pub fn run_again(test: &str, case: &str) -> (std::process::ExitStatus, String) {
    let output = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture"])
        .env("CASE", case)
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    (output.status, errors)
}

/// Returns the case that [`run_again`] set for this process.
pub fn case() -> Option<String> {
    std::env::var("CASE").ok()
}
