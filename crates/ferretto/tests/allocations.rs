//! Test that events do not allocate memory.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use ferretto::{CounterTrack, Flow, StateTrack, Track, counter, dynamic, instant, slice, state};
use ferretto_testing::sdk::events::Recorder;

/// An allocator that counts the allocations of each thread.
struct Counting;

thread_local! {
    static COUNT: Cell<u64> = const { Cell::new(0) };
}

fn count() {
    let _ = COUNT.try_with(|count| count.set(count.get() + 1));
}

// SAFETY: delegates to the system's allocator; counting accesses a thread-local without a
// destructor.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: guaranteed by the caller.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: guaranteed by the caller.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count();
        // SAFETY: guaranteed by the caller.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

static QUEUE: Track = Track::named("queue", 0);
static HEAP: CounterTrack = CounterTrack::new("heap").incremental();
static LINK: StateTrack = StateTrack::new("link");

/// Records one event of every kind.
fn work(index: u64, name: &str) {
    instant!("app", "instant");
    let _slice = slice!(
        "app",
        "slice",
        index = index,
        name = name,
        is_even = index & 1 == 0
    );
    let _slice = slice!("app", name, track: Track::named("lane", 3).child_of(&QUEUE));
    instant!("app", "flow", flow: Flow::process(index), correlation: index);
    instant!(dynamic(name), "dynamic");
    counter!("app", "load", index);
    counter!("app", HEAP, index);
    state!("app", LINK, name);
}

// One test, since a process has one connection.
#[test]
fn events_do_not_allocate() {
    const ROUNDS: u64 = 500;
    let mut recorder = Recorder::new();
    let decoded = recorder.record(None, || {
        work(0, "warm");
        work(1, "warm");
        let (mut worst, mut sum) = (0, 0);
        for index in 0..ROUNDS {
            let before = COUNT.get();
            work(index, "warm");
            let taken = COUNT.get() - before;
            worst = worst.max(taken);
            sum += taken;
        }
        println!("{sum} allocations, {worst} at most in a round");
        assert!(sum <= ROUNDS / 10, "{sum} allocations");
    });
    assert_eq!(decoded.events.len() as u64, 10 * (ROUNDS + 2));

    // Without a recording, no allocation at all is allowed.
    let before = COUNT.get();
    (0..ROUNDS).for_each(|index| work(index, "warm"));
    assert_eq!(COUNT.get(), before);
}
