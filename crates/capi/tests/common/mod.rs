//! A program that uses the C interface, and its recordings.
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

/// A registered data source.
#[derive(Clone, Copy)]
pub struct Source {
    pub ds: *mut PerfettoDsImpl,
    enabled: *mut AtomicBool,
}

// SAFETY: registered data sources live for ever and may be used from any thread.
unsafe impl Send for Source {}
// SAFETY: as above.
unsafe impl Sync for Source {}

impl Source {
    /// Registers a data source; `define` says what it does.
    pub fn register(name: &str, define: impl FnOnce(*mut PerfettoDsImpl)) -> Self {
        let descriptor = encode(|m| m.string(1, name));
        Self::register_as(&descriptor, define).unwrap()
    }

    /// The same by its encoded description.
    pub fn register_as(
        descriptor: &[u8],
        define: impl FnOnce(*mut PerfettoDsImpl),
    ) -> Option<Self> {
        let mut enabled = ptr::null_mut();
        // SAFETY: used as the headers say.
        unsafe {
            let ds = PerfettoDsImplCreate();
            define(ds);
            let bytes = descriptor.as_ptr().cast();
            PerfettoDsImplRegister(ds, &raw mut enabled, bytes, descriptor.len())
                .then_some(Self { ds, enabled })
        }
    }

    pub fn is_enabled(&self) -> bool {
        // SAFETY: the address stays valid for ever.
        unsafe { &*self.enabled }.load(Ordering::Relaxed)
    }

    /// Calls `write` for every instance that is recording.
    pub fn trace(&self, mut write: impl FnMut(Tracer)) {
        // SAFETY: used as the headers say.
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

    /// Writes a packet into every recording; returns how many there are.
    pub fn write(&self, packet: &[u8]) -> usize {
        let mut count = 0;
        self.trace(|tracer| {
            tracer.write(packet);
            count += 1;
        });
        count
    }

    /// Records for as long as the session lives.
    pub fn record(name: &str) -> Session {
        Session::start(&config(name, |_| {}))
    }
}

/// A thread's way into an instance.
#[derive(Clone, Copy)]
pub struct Tracer {
    pub ds: *mut PerfettoDsImpl,
    pub instance: u32,
    pub tracer: *mut c_void,
}

impl Tracer {
    /// Writes a packet of these bytes, piece by piece.
    pub fn write(&self, packet: &[u8]) {
        self.write_with(|writer| {
            for piece in packet.chunks(1000) {
                // SAFETY: used as the headers say.
                unsafe {
                    PerfettoStreamWriterAppendBytesSlowpath(writer, piece.as_ptr(), piece.len());
                }
            }
        });
    }

    /// Writes a packet by way of its writer.
    pub fn write_with(&self, write: impl FnOnce(*mut PerfettoStreamWriter)) {
        let mut writer = MaybeUninit::<PerfettoPbMsgWriter>::uninit();
        // SAFETY: used as the headers say, those after version 58.
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
        // SAFETY: used as the headers say.
        unsafe { PerfettoDsTracerImplFlush(self.tracer, None, ptr::null_mut()) };
    }

    pub fn drop_count(&self) -> u64 {
        // SAFETY: used as the headers say.
        unsafe { PerfettoDsTracerImplGetDropCount(self.tracer) }
    }

    pub fn incremental_state(&self) -> *mut c_void {
        // SAFETY: used as the headers say.
        unsafe { PerfettoDsImplGetIncrementalState(self.ds, self.tracer, self.instance) }
    }
}

/// The texts in field 900 of the packets.
pub fn texts(packets: &[Vec<u8>]) -> Vec<String> {
    packets
        .iter()
        .filter_map(|packet| Fields::find(900, packet))
        .map(|text| text.as_str_lossy().unwrap().into_owned())
        .collect()
}

/// A packet with a text.
pub fn text(text: &str) -> Vec<u8> {
    encode(|m| m.string(900, text))
}

/// Runs the test with this name again, in a process of its own where `case` is set; returns how
/// that ended and what it wrote.
pub fn run_again(test: &str, case: &str) -> (std::process::ExitStatus, String) {
    let output = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture"])
        .env("CASE", case)
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    (output.status, errors)
}

/// Returns what [`run_again`] asks of this process.
pub fn case() -> Option<String> {
    std::env::var("CASE").ok()
}
