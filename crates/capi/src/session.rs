//! Sessions that a program controls.

use std::ffi::c_void;
use std::fmt;
use std::io::{self, Write};
use std::slice;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ferretto::in_process::InProcess;
use ferretto::session::{Backend, RecordingConfig, Session};
use ferretto_engine as engine;

use crate::gate::Gate;

/// Called when a recording has ended.
pub type PerfettoTracingSessionStopCb =
    Option<unsafe extern "C" fn(*mut PerfettoTracingSessionImpl, user_arg: *mut c_void)>;
/// Called when a flush is done.
pub type PerfettoTracingSessionFlushCb = Option<
    unsafe extern "C" fn(*mut PerfettoTracingSessionImpl, success: bool, user_arg: *mut c_void),
>;
/// Called with parts of a trace; `has_more` is false for the last one.
pub type PerfettoTracingSessionReadCb = Option<
    unsafe extern "C" fn(
        *mut PerfettoTracingSessionImpl,
        data: *const c_void,
        size: usize,
        has_more: bool,
        user_arg: *mut c_void,
    ),
>;

/// The time limit of calls to a service that does not answer.
const LIMIT: Duration = Duration::from_secs(60);

/// The time limit for earlier asynchronous calls of the program to take effect.
const ARRIVAL_LIMIT: Duration = Duration::from_secs(1);

/// The default time limit of the service for producers.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(5);

/// A recording.
pub struct PerfettoTracingSessionImpl {
    /// `None` if the background thread could not be started.
    session: Option<Session>,
    is_in_process: bool,
    end: Arc<Mutex<End>>,
    /// The gate for the program's callbacks.
    gate: Arc<Gate>,
}

/// The callback for the end of the recording.
#[derive(Default)]
struct End {
    is_started: bool,
    callback: Option<Notify>,
}

/// A callback of the program and its argument, to be called on any thread.
#[derive(Clone, Copy)]
struct Notify {
    callback: unsafe extern "C" fn(*mut PerfettoTracingSessionImpl, *mut c_void),
    session: *mut PerfettoTracingSessionImpl,
    user_arg: *mut c_void,
}

// SAFETY: by the contract of the interface, callbacks can be called on other threads.
unsafe impl Send for Notify {}

impl fmt::Debug for PerfettoTracingSessionImpl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PerfettoTracingSessionImpl")
            .finish_non_exhaustive()
    }
}

impl PerfettoTracingSessionImpl {
    fn open(backend: Backend, is_in_process: bool) -> *mut Self {
        Box::into_raw(Box::new(Self {
            session: Session::open(backend).ok(),
            is_in_process,
            end: Arc::default(),
            gate: Arc::default(),
        }))
    }

    fn end(&self) -> MutexGuard<'_, End> {
        self.end.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Calls the program's callback at the end, if there is one and the recording was started.
    fn watch_end(&self) {
        {
            let end = self.end();
            if !end.is_started || end.callback.is_none() {
                return;
            }
        }
        let Some(session) = &self.session else {
            return;
        };
        let (end, gate) = (Arc::clone(&self.end), Arc::clone(&self.gate));
        // For any reason of the end.
        session.wait_for_end(Duration::MAX).then(move |_| {
            let callback = end
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .callback
                .take();
            if let Some(notify) = callback {
                gate.pass(|| {
                    // SAFETY: calls the program's callback according to its contract, once.
                    unsafe { (notify.callback)(notify.session, notify.user_arg) };
                });
            }
        });
    }

    /// Waits until all earlier actions of the program have reached the in-process service:
    /// registrations of data sources before the start, packets before the end. Upstream's library
    /// handles all of this in order on one thread.
    fn wait_for_earlier_calls(&self) {
        if self.is_in_process && !crate::thread::is_engine() {
            engine::wait_for_recordings(Some(ARRIVAL_LIMIT));
            engine::sync(ARRIVAL_LIMIT);
        }
    }

    /// Records that the start was requested.
    fn started(&self) {
        self.end().is_started = true;
        self.watch_end();
    }
}

/// Opens a session of the service of this machine.
#[unsafe(no_mangle)]
pub extern "C" fn PerfettoTracingSessionSystemCreate() -> *mut PerfettoTracingSessionImpl {
    PerfettoTracingSessionImpl::open(Backend::System, false)
}

/// Opens a session of the service inside this process.
#[unsafe(no_mangle)]
pub extern "C" fn PerfettoTracingSessionInProcessCreate() -> *mut PerfettoTracingSessionImpl {
    PerfettoTracingSessionImpl::open(Backend::Custom(Arc::new(InProcess::shared())), true)
}

/// Sets the encoded TraceConfig. A malformed one is ignored.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PerfettoTracingSessionSetup(
    session: *mut PerfettoTracingSessionImpl,
    cfg_begin: *mut c_void,
    cfg_len: usize,
) {
    let config = match cfg_len {
        0 => &[],
        // SAFETY: by the contract of the crate.
        length => unsafe { slice::from_raw_parts(cfg_begin.cast::<u8>(), length) },
    };
    // SAFETY: by the contract of the crate.
    if let Some(session) = unsafe { &(*session).session }
        && let Ok(config) = RecordingConfig::decode(config)
    {
        session.set_up(config);
    }
}

/// Sets a callback that is called once, when the recording has ended.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PerfettoTracingSessionSetStopCb(
    session: *mut PerfettoTracingSessionImpl,
    cb: PerfettoTracingSessionStopCb,
    user_arg: *mut c_void,
) {
    // SAFETY: by the contract of the crate.
    let this = unsafe { &*session };
    let was_set = {
        let mut end = this.end();
        let callback = cb.map(|callback| Notify {
            callback,
            session,
            user_arg,
        });
        std::mem::replace(&mut end.callback, callback).is_some()
    };
    if !was_set {
        this.watch_end();
    }
}

/// Starts the recording.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PerfettoTracingSessionStartAsync(
    session: *mut PerfettoTracingSessionImpl,
) {
    // SAFETY: by the contract of the crate.
    let this = unsafe { &*session };
    if let Some(session) = &this.session {
        this.wait_for_earlier_calls();
        session.start(LIMIT).then(drop);
        this.started();
    }
}

/// Starts the recording and waits until all existing data sources have started.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PerfettoTracingSessionStartBlocking(
    session: *mut PerfettoTracingSessionImpl,
) {
    // SAFETY: by the contract of the crate.
    let this = unsafe { &*session };
    if let Some(session) = &this.session {
        this.wait_for_earlier_calls();
        let call = session.start(LIMIT);
        this.started();
        // The interface cannot report an error; the trace is empty then.
        let _ = call.wait();
    }
}

/// Ends the recording.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PerfettoTracingSessionStopAsync(session: *mut PerfettoTracingSessionImpl) {
    // SAFETY: by the contract of the crate.
    let this = unsafe { &*session };
    if let Some(session) = &this.session {
        this.wait_for_earlier_calls();
        session.stop(LIMIT).then(drop);
    }
}

/// Ends the recording and waits until all data has arrived.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PerfettoTracingSessionStopBlocking(
    session: *mut PerfettoTracingSessionImpl,
) {
    // SAFETY: by the contract of the crate.
    let this = unsafe { &*session };
    if let Some(session) = &this.session {
        this.wait_for_earlier_calls();
        // Errors cannot be reported, as for the start.
        let _ = session.stop(LIMIT).wait();
    }
}

/// Returns the time limit of a call in which the service waits for producers.
fn flush_limit(timeout_ms: u32) -> Duration {
    let timeout = match timeout_ms {
        0 => FLUSH_TIMEOUT,
        timeout => Duration::from_millis(timeout.into()),
    };
    // The session leaves the service nine tenths of it.
    timeout + timeout / 9 + Duration::from_millis(1)
}

/// Flushes all producers, and calls a callback when they have answered or the time is over.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PerfettoTracingSessionFlushAsync(
    session: *mut PerfettoTracingSessionImpl,
    timeout_ms: u32,
    cb: PerfettoTracingSessionFlushCb,
    user_arg: *mut c_void,
) {
    struct Flushed(
        unsafe extern "C" fn(*mut PerfettoTracingSessionImpl, bool, *mut c_void),
        *mut PerfettoTracingSessionImpl,
        *mut c_void,
    );
    // SAFETY: as for `Notify`.
    unsafe impl Send for Flushed {}
    impl Flushed {
        fn call(self, success: bool) {
            // SAFETY: calls the program's callback according to its contract, once.
            unsafe { (self.0)(self.1, success, self.2) };
        }
    }
    let flushed = cb.map(|callback| Flushed(callback, session, user_arg));
    // SAFETY: by the contract of the crate.
    let this = unsafe { &*session };
    let gate = Arc::clone(&this.gate);
    let report = move |success| {
        gate.pass(|| {
            flushed
                .into_iter()
                .for_each(|flushed| flushed.call(success));
        });
    };
    match &this.session {
        Some(session) => session
            .flush(flush_limit(timeout_ms))
            .then(move |result| report(result.is_ok())),
        None => report(false),
    }
}

/// Flushes all producers. Returns true if they have answered.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PerfettoTracingSessionFlushBlocking(
    session: *mut PerfettoTracingSessionImpl,
    timeout_ms: u32,
) -> bool {
    // SAFETY: by the contract of the crate.
    match unsafe { &(*session).session } {
        Some(session) => session.flush(flush_limit(timeout_ms)).wait().is_ok(),
        None => false,
    }
}

/// Passes a trace to the program.
struct Reader {
    callback: unsafe extern "C" fn(
        *mut PerfettoTracingSessionImpl,
        *const c_void,
        usize,
        bool,
        *mut c_void,
    ),
    session: *mut PerfettoTracingSessionImpl,
    user_arg: *mut c_void,
    /// True while the program waits. Locked during calls of its callback.
    is_waiting: Arc<Mutex<bool>>,
}

// SAFETY: as for `Notify`.
unsafe impl Send for Reader {}

impl Reader {
    fn pass(&self, bytes: &[u8], has_more: bool) {
        // SAFETY: calls the program's callback according to its contract. The address is never
        // null, because some programs do not support that.
        unsafe {
            (self.callback)(
                self.session,
                bytes.as_ptr().cast(),
                bytes.len(),
                has_more,
                self.user_arg,
            );
        }
    }
}

impl Write for Reader {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let is_waiting = self
            .is_waiting
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if !*is_waiting {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        self.pass(bytes, true);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Reads the trace and passes it to the callback in parts. Returns after the last part.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PerfettoTracingSessionReadTraceBlocking(
    session: *mut PerfettoTracingSessionImpl,
    cb: PerfettoTracingSessionReadCb,
    user_arg: *mut c_void,
) {
    let Some(callback) = cb else {
        return;
    };
    let is_waiting = Arc::new(Mutex::new(true));
    let reader = || Reader {
        callback,
        session,
        user_arg,
        is_waiting: Arc::clone(&is_waiting),
    };
    // SAFETY: by the contract of the crate.
    if let Some(session) = unsafe { &(*session).session } {
        // Errors cannot be reported; packets that cannot be read are missing.
        let _ = session.read_into(reader(), LIMIT).wait();
    }
    // The service may still answer after the time limit.
    *is_waiting.lock().unwrap_or_else(PoisonError::into_inner) = false;
    reader().pass(&[], false);
}

/// Ends the recording and frees the session. Pending callbacks are not called any more, and running
/// ones on other threads have returned.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PerfettoTracingSessionDestroy(session: *mut PerfettoTracingSessionImpl) {
    if session.is_null() {
        return;
    }
    // SAFETY: from a function that opens sessions, and not used any more.
    let session = unsafe { Box::from_raw(session) };
    session.gate.close();
    drop(session);
}
