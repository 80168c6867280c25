//! Initialization of producers.

use std::ffi::{CStr, c_char};
use std::io::{self, Write as _};
use std::sync::Arc;
use std::time::{Duration, Instant};

use ferretto::in_process::InProcess;
use ferretto_client::{ProducerOptions, Scraping};
use ferretto_engine::{self as engine, Backend, BackendKind, Route};

use crate::clock;

/// The arguments of the initialization.
#[derive(Debug, Default)]
pub struct PerfettoProducerBackendInitArgs {
    memory_kb: u32,
    machine_id: u32,
}

impl PerfettoProducerBackendInitArgs {
    fn start(&self, kind: BackendKind, route: Route) {
        clock::start();
        let name = std::env::args_os().next().unwrap_or_default();
        let options = ProducerOptions {
            name: name.to_string_lossy().into_owned(),
            memory_size_hint: self.memory_kb.saturating_mul(1024),
            scraping: Scraping::Enabled,
            sdk_version: concat!("ferretto ", env!("CARGO_PKG_VERSION"), " (C)").to_owned(),
            ..ProducerOptions::default()
        };
        let backend = Backend {
            kind,
            patience: Backend::usual_patience(kind, &options, &route),
            options,
            route,
        };
        // Reports the error to the user; the program continues without being recorded.
        ferretto::interceptor::provide_console();
        if let Err(error) = engine::start([backend]) {
            let _ = writeln!(io::stderr(), "ferretto: cannot start tracing: {error}");
        }
        engine::wait_for_recordings(None);
    }
}

/// Creates arguments with default values.
#[unsafe(no_mangle)]
pub extern "C" fn PerfettoProducerBackendInitArgsCreate() -> *mut PerfettoProducerBackendInitArgs {
    Box::into_raw(Box::default())
}

/// Sets the size of the memory shared with the service, in KiB.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PerfettoProducerBackendInitArgsSetShmemSizeHintKb(
    args: *mut PerfettoProducerBackendInitArgs,
    size: u32,
) {
    // SAFETY: by the contract of the crate.
    unsafe { (*args).memory_kb = size };
}

/// Sets the machine id of the process for its in-process service.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PerfettoProducerBackendInitArgsSetMachineId(
    args: *mut PerfettoProducerBackendInitArgs,
    machine_id: u32,
) {
    // SAFETY: by the contract of the crate.
    unsafe { (*args).machine_id = machine_id };
}

/// Frees the arguments.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PerfettoProducerBackendInitArgsDestroy(
    args: *mut PerfettoProducerBackendInitArgs,
) {
    if !args.is_null() {
        // SAFETY: from `PerfettoProducerBackendInitArgsCreate`, and not used any more.
        drop(unsafe { Box::from_raw(args) });
    }
}

/// Connects this process to the service of this machine, now or as soon as there is one. On return,
/// running recordings include all data sources registered so far; later registrations wait
/// themselves.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PerfettoProducerSystemInit(args: *const PerfettoProducerBackendInitArgs) {
    // SAFETY: by the contract of the crate.
    unsafe { &*args }.start(BackendKind::System, Route::Socket);
}

/// Connects this process to its in-process service.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PerfettoProducerInProcessInit(
    args: *const PerfettoProducerBackendInitArgs,
) {
    // SAFETY: by the contract of the crate.
    let args = unsafe { &*args };
    let service = InProcess::shared().on_machine(args.machine_id);
    args.start(BackendKind::InProcess, Route::Through(Arc::new(service)));
}

/// Activates triggers, also at services to which this process connects within a time limit.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PerfettoProducerActivateTriggers(
    trigger_names: *const *const c_char,
    ttl_ms: u32,
) {
    // SAFETY: by the contract of the crate; the names are a null-terminated list of strings.
    let names: Vec<String> = unsafe {
        let names = (0..).map(|index| *trigger_names.add(index));
        let names = names.take_while(|name| !name.is_null());
        names
            .map(|name| CStr::from_ptr(name).to_string_lossy().into_owned())
            .collect()
    };
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let limit = Duration::from_millis(ttl_ms.into());
    engine::trigger(&names, Instant::now() + limit);
}
