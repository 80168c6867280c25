//! Traces that are written on a panic.

use std::cell::Cell;
use std::panic::{set_hook, take_hook};
use std::sync::{Arc, Mutex, Once, Weak};
use std::time::Duration;

use ferretto_engine::lock;

/// The time limit of each step of writing the trace, short so that the program can go on.
const LIMIT: Duration = Duration::from_secs(3);

/// A recorder whose trace is written when a thread panics.
pub(super) trait OnPanic: Send + Sync + 'static {
    /// Writes the trace. `limit` applies to each step.
    fn dump_for_panic(&self, limit: Duration);
}

/// The recorders whose traces are written.
static RECORDERS: Mutex<Vec<Weak<dyn OnPanic>>> = Mutex::new(Vec::new());

thread_local! {
    /// Set while the thread writes the trace of a panic.
    static IS_DUMPING: Cell<bool> = const { Cell::new(false) };
}

/// Registers a recorder, whose trace is written after the previous panic hook has run.
pub(super) fn watch(recorder: &Arc<impl OnPanic>) {
    static HOOK: Once = Once::new();
    let mut recorders = lock(&RECORDERS);
    recorders.retain(|recorder| recorder.strong_count() > 0);
    let recorder = Arc::downgrade(recorder);
    recorders.push(recorder);
    drop(recorders);
    HOOK.call_once(|| {
        let before = take_hook();
        set_hook(Box::new(move |info| {
            before(info);
            dump();
        }));
    });
}

fn dump() {
    let thread = std::thread::current();
    // The threads that do the work cannot wait for themselves.
    let is_ours = thread
        .name()
        .is_some_and(|name| name.starts_with("ferretto"));
    if is_ours || IS_DUMPING.replace(true) {
        return;
    }
    let recorders: Vec<_> = lock(&RECORDERS).iter().filter_map(Weak::upgrade).collect();
    for recorder in recorders {
        recorder.dump_for_panic(LIMIT);
    }
    IS_DUMPING.set(false);
}
