//! The entry of trace points.
//!
//! Everything here is shared by all kinds of trace points, so that nesting is noticed across kinds,
//! and so that any of them releases the thread's sequences of recordings that have stopped.

use std::cell::Cell;
use std::marker::PhantomData;
use std::sync::OnceLock;

use super::primitive::{AtomicU32, Ordering, fence};

/// Kinds of trace points that keep something for each thread.
const MAX_KINDS: usize = 8;

#[cfg(not(loom))]
static GENERATION: AtomicU32 = AtomicU32::new(0);

#[cfg(loom)]
loom::lazy_static! {
    static ref GENERATION: AtomicU32 = AtomicU32::new(0);
}

static COLLECTORS: [OnceLock<fn()>; MAX_KINDS] = [const { OnceLock::new() }; MAX_KINDS];

/// The state of a thread. It has no destructor, so that it can be used for as long as the thread
/// runs.
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

/// A thread inside a trace point, until this is dropped.
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
/// To be called after it was seen that an instance is recording. If that instance has the slot of
/// one that stopped before, the thread's state of that one is dropped now.
#[inline]
pub fn enter() -> Option<Guard> {
    POINT.with(|point| {
        if point.is_inside.replace(true) {
            return None;
        }
        let guard = Guard(PhantomData);
        // From here on, the thread also sees the writes that preceded the bits that the caller has
        // loaded.
        fence(Ordering::Acquire);
        let generation = GENERATION.load(Ordering::Relaxed);
        if point.generation.get() != generation {
            point.generation.set(generation);
            collect();
        }
        Some(guard)
    })
}

/// Leaves a trace point whose guard was forgotten, for those that enter and leave in different
/// functions.
#[inline]
pub fn leave() {
    drop(Guard(PhantomData));
}

#[cold]
fn collect() {
    // The collectors see the writes that preceded the change of the generation.
    fence(Ordering::Acquire);
    COLLECTORS
        .iter()
        .map_while(OnceLock::get)
        .for_each(|collect| collect());
}

/// Has `collect` called on every thread, inside its next trace point of any kind, after an instance
/// has stopped. It drops the thread's state of such instances. To be called once for each kind of
/// trace point.
///
/// # Panics
///
/// If there are more than eight kinds.
pub fn on_collect(collect: fn()) {
    let is_stored = COLLECTORS.iter().any(|place| place.set(collect).is_ok());
    assert!(is_stored, "more kinds of trace points than places");
}

/// Changes when every thread should check its state.
#[cfg(all(loom, test))]
pub(super) fn generation() -> u32 {
    GENERATION.load(Ordering::Acquire)
}

/// Has every thread check its state.
pub(super) fn request_collection() {
    GENERATION.fetch_add(1, Ordering::Release);
}
