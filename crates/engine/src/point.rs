//! The entry of trace points.
//!
//! All kinds of trace points share this module, so that nesting is detected across kinds, and each
//! of them releases the thread's sequences of stopped recordings.

use std::cell::Cell;
use std::marker::PhantomData;
use std::sync::OnceLock;

use super::primitive::{AtomicU32, Ordering, fence};

/// The largest number of kinds of trace points with state for each thread.
const MAX_KINDS: usize = 8;

#[cfg(not(loom))]
static GENERATION: AtomicU32 = AtomicU32::new(0);

#[cfg(loom)]
loom::lazy_static! {
    static ref GENERATION: AtomicU32 = AtomicU32::new(0);
}

static COLLECTORS: [OnceLock<fn()>; MAX_KINDS] = [const { OnceLock::new() }; MAX_KINDS];

/// The state of a thread. It has no destructor, so that it can be used as long as the thread runs.
struct Point {
    is_inside: Cell<bool>,
    generation: Cell<u32>,
}

#[cfg(not(loom))]
thread_local! {
    static POINT: Point = const {
        Point { is_inside: Cell::new(false), generation: Cell::new(0) }
    };
}

#[cfg(loom)]
loom::thread_local! {
    static POINT: Point = Point { is_inside: Cell::new(false), generation: Cell::new(0) };
}

/// A thread inside a trace point, until this value is dropped.
#[derive(Debug)]
pub struct Guard(PhantomData<*const ()>);

impl Drop for Guard {
    #[inline]
    fn drop(&mut self) {
        POINT.with(|point| point.is_inside.set(false));
    }
}

/// Enters a trace point; `None` inside another one of this thread.
///
/// Call it after seeing that an instance is recording. If that instance has the slot of a stopped
/// one, the thread's state of the stopped one is dropped now.
#[inline]
pub fn enter() -> Option<Guard> {
    POINT.with(|point| {
        if point.is_inside.replace(true) {
            return None;
        }
        let guard = Guard(PhantomData);
        // From here on, the thread also sees the writes before the change of the bits that the
        // caller has loaded.
        fence(Ordering::Acquire);
        let generation = GENERATION.load(Ordering::Relaxed);
        if point.generation.get() != generation {
            point.generation.set(generation);
            collect();
        }
        Some(guard)
    })
}

/// Leaves a trace point whose guard was forgotten, for callers that enter and leave in different
/// functions.
#[inline]
pub fn leave() {
    drop(Guard(PhantomData));
}

#[cold]
fn collect() {
    // The collectors see the writes before the change of the generation.
    fence(Ordering::Acquire);
    COLLECTORS
        .iter()
        .map_while(OnceLock::get)
        .for_each(|collect| collect());
}

/// Calls `collect` on every thread, inside its next trace point of any kind, after an instance has
/// stopped, to drop the thread's state of such instances. Call this once for each kind of trace
/// point.
///
/// # Panics
///
/// Panics if there are more than eight kinds.
pub fn on_collect(collect: fn()) {
    let is_stored = COLLECTORS.iter().any(|slot| slot.set(collect).is_ok());
    assert!(is_stored, "too many kinds of trace points");
}

/// Returns a number that changes when threads should check their state.
#[cfg(all(loom, test))]
pub(super) fn generation() -> u32 {
    GENERATION.load(Ordering::Acquire)
}

/// Makes every thread check its state.
pub(super) fn request_collection() {
    GENERATION.fetch_add(1, Ordering::Release);
}
