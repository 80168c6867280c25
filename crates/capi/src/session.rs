//! Recordings that a program controls.

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
/// Called with parts of a trace, the last time with `has_more` false.
pub type PerfettoTracingSessionReadCb = Option<
    unsafe extern "C" fn(
        *mut PerfettoTracingSessionImpl,
        data: *const c_void,
        size: usize,
        has_more: bool,
        user_arg: *mut c_void,
    ),
>;

/// The longest that calls wait for a service that does not answer.
const LIMIT: Duration = Duration::from_secs(60);

/// The longest time that a call waits for earlier calls of the program, which take a moment.
const ARRIVAL_LIMIT: Duration = Duration::from_secs(1);

/// The longest that the service waits for producers if the program does not say.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(5);

/// A recording.
pub struct PerfettoTracingSessionImpl {
    /// `None` if the process may not have another thread.
    session: Option<Session>,
    is_in_process: bool,
    end: Arc<Mutex<End>>,
    /// The gate that the program's functions are called through.
    gate: Arc<Gate>,
}

/// The program's request to be told of the end.
#[derive(Default)]
struct End {
    is_started: bool,
    callback: Option<Notify>,
}

/// A function of the program and its argument, to be called on any thread.
#[derive(Clone, Copy)]
struct Notify {
    callback: unsafe extern "C" fn(*mut PerfettoTracingSessionImpl, *mut c_void),
    session: *mut PerfettoTracingSessionImpl,
    user_arg: *mut c_void,
}

// SAFETY: the program is told that its functions are called on other threads.
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

    /// Has the program told of the end, if it wants to be and there will be one.
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
        // However it ends.
        session.wait_for_end(Duration::MAX).then(move |_| {
            let callback = end
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .callback
                .take();
            if let Some(notify) = callback {
                gate.pass(|| {
                    // SAFETY: the program's function, called as it was promised, once.
                    unsafe { (notify.callback)(notify.session, notify.user_arg) };
                });
            }
        });
    }

    /// Lets the service in this process hear of everything the program has done so far: of data
    /// sources before the start, of packets before the end. With the other library one thread does
    /// all of this, in order.
    fn let_everything_arrive(&self) {
        if self.is_in_process && !crate::thread::is_engine() {
            engine::wait_for_recordings(Some(ARRIVAL_LIMIT));
            engine::sync(ARRIVAL_LIMIT);
        }
    }

    /// Notes that the recording was asked to start.
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

/// Says what to record: an encoded TraceConfig. One that is malformed counts for nothing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PerfettoTracingSessionSetup(
    session: *mut PerfettoTracingSessionImpl,
    cfg_begin: *mut c_void,
    cfg_len: usize,
) {
    let config = match cfg_len {
        0 => &[],
        // SAFETY: see the crate.
        length => unsafe { slice::from_raw_parts(cfg_begin.cast::<u8>(), length) },
    };
    // SAFETY: see the crate.
    if let Some(session) = unsafe { &(*session).session }
        && let Ok(config) = RecordingConfig::decode(config)
    {
        session.set_up(config);
    }
}

/// Has a function called once, when the recording has ended.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PerfettoTracingSessionSetStopCb(
    session: *mut PerfettoTracingSessionImpl,
    cb: PerfettoTracingSessionStopCb,
    user_arg: *mut c_void,
) {
    // SAFETY: see the crate.
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
    // SAFETY: see the crate.
    let this = unsafe { &*session };
    if let Some(session) = &this.session {
        this.let_everything_arrive();
        session.start(LIMIT).then(drop);
        this.started();
    }
}

/// Starts the recording and waits until all data sources that there are record.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PerfettoTracingSessionStartBlocking(
    session: *mut PerfettoTracingSessionImpl,
) {
    // SAFETY: see the crate.
    let this = unsafe { &*session };
    if let Some(session) = &this.session {
        this.let_everything_arrive();
        let call = session.start(LIMIT);
        this.started();
        // There is no way to tell; the trace is empty then.
        let _ = call.wait();
    }
}

/// Ends the recording.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PerfettoTracingSessionStopAsync(session: *mut PerfettoTracingSessionImpl) {
    // SAFETY: see the crate.
    let this = unsafe { &*session };
    if let Some(session) = &this.session {
        this.let_everything_arrive();
        session.stop(LIMIT).then(drop);
    }
}

/// Ends the recording and waits until everything is there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PerfettoTracingSessionStopBlocking(
    session: *mut PerfettoTracingSessionImpl,
) {
    // SAFETY: see the crate.
    let this = unsafe { &*session };
    if let Some(session) = &this.session {
        this.let_everything_arrive();
        // As for the start.
        let _ = session.stop(LIMIT).wait();
    }
}

/// The time limit of a call that has the service wait for producers so long.
fn flush_limit(timeout_ms: u32) -> Duration {
    let timeout = match timeout_ms {
        0 => FLUSH_TIMEOUT,
        timeout => Duration::from_millis(timeout.into()),
    };
    // The session leaves the service nine tenths of it.
    timeout + timeout / 9 + Duration::from_millis(1)
}

/// Flushes all producers, and calls a function when they have answered, or did not in time.
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
            // SAFETY: the program's function, called as it was promised, once.
            unsafe { (self.0)(self.1, success, self.2) };
        }
    }
    let flushed = cb.map(|callback| Flushed(callback, session, user_arg));
    // SAFETY: see the crate.
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

/// Flushes all producers, and returns whether they have answered.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PerfettoTracingSessionFlushBlocking(
    session: *mut PerfettoTracingSessionImpl,
    timeout_ms: u32,
) -> bool {
    // SAFETY: see the crate.
    match unsafe { &(*session).session } {
        Some(session) => session.flush(flush_limit(timeout_ms)).wait().is_ok(),
        None => false,
    }
}

/// Passes a trace on to the program.
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
    /// True while the program still waits. Locked while it is called.
    is_wanted: Arc<Mutex<bool>>,
}

// SAFETY: as for `Notify`.
unsafe impl Send for Reader {}

impl Reader {
    fn pass(&self, bytes: &[u8], has_more: bool) {
        // SAFETY: the program's function, called as it was promised. The address is never null,
        // which some take ill.
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
        let is_wanted = self
            .is_wanted
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if !*is_wanted {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        self.pass(bytes, true);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Reads the trace and passes it on piece by piece; returns after the last.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PerfettoTracingSessionReadTraceBlocking(
    session: *mut PerfettoTracingSessionImpl,
    cb: PerfettoTracingSessionReadCb,
    user_arg: *mut c_void,
) {
    let Some(callback) = cb else {
        return;
    };
    let is_wanted = Arc::new(Mutex::new(true));
    let reader = || Reader {
        callback,
        session,
        user_arg,
        is_wanted: Arc::clone(&is_wanted),
    };
    // SAFETY: see the crate.
    if let Some(session) = unsafe { &(*session).session } {
        // Packets that cannot be read are missing.
        let _ = session.read_into(reader(), LIMIT).wait();
    }
    // A service that took too long may still answer.
    *is_wanted.lock().unwrap_or_else(PoisonError::into_inner) = false;
    reader().pass(&[], false);
}

/// Ends the recording and forgets it. Functions that have not been called yet are not called any
/// more, and those that are being called by other threads have returned.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PerfettoTracingSessionDestroy(session: *mut PerfettoTracingSessionImpl) {
    if session.is_null() {
        return;
    }
    // SAFETY: from one of the functions that open sessions, not used any more.
    let session = unsafe { Box::from_raw(session) };
    session.gate.close();
    drop(session);
}
