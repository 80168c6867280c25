//! Models of trace points and the background thread: all interleavings.
//!
//! `bash .ci/run loom` runs them.

use loom::sync::Arc;
use loom::sync::atomic::{AtomicU32, Ordering};
use loom::thread;

use super::instances::bits;
use super::point;
use super::slots::{Slots, Target};
use crate::writer_source::WriterSource;

/// The state of a thread: its epoch, the clears seen, and its instance.
type Kept = Option<(u64, u32, u32)>;

/// Does the work of collectors directly, since statics are new in each run of a model.
fn collect(slots: &Slots<u32>, kept: &mut Kept) {
    if kept.is_some_and(|(epoch, ..)| epoch != slots.epoch(0)) {
        *kept = None;
    }
}

/// Runs a trace point. Returns the instance that it would have recorded into.
fn trace(slots: &Slots<u32>, seen: &mut u32, kept: &mut Kept) -> Option<u32> {
    for slot in bits(slots.active()) {
        let _point = point::enter()?;
        let generation = point::generation();
        if *seen != generation {
            *seen = generation;
            collect(slots, kept);
        }
        if kept.is_none() {
            let opened = slots.open(slot)?;
            *kept = Some((opened.epoch, opened.clears, opened.settings));
        }
        return kept.map(|(.., instance)| instance);
    }
    None
}

fn target(instance: u32) -> Target<u32> {
    Target {
        writers: WriterSource::closed(),
        settings: instance,
    }
}

#[test]
fn the_state_of_a_thread_belongs_to_the_instance_that_it_saw() {
    let mut model = loom::model::Builder::new();
    // With more, there are too many interleavings.
    model.preemption_bound = Some(2);
    model.check(|| {
        let slots = Arc::new(Slots::new());
        // The number of instances started so far, as counted by the thread that starts them.
        let started = Arc::new(AtomicU32::new(0));
        let shared = (Arc::clone(&slots), Arc::clone(&started));
        let background = thread::spawn(move || {
            let (slots, started) = shared;
            slots.prepare(0, target(1));
            started.store(1, Ordering::Relaxed);
            slots.start(0);
            slots.stop(0);
            slots.release(0);
            slots.prepare(0, target(2));
            started.store(2, Ordering::Relaxed);
            slots.start(0);
        });
        let (mut generation, mut kept, mut last) = (point::generation(), None, 0);
        for _ in 0..2 {
            if let Some(instance) = trace(&slots, &mut generation, &mut kept) {
                assert!(
                    instance >= last,
                    "an instance that has stopped does not come back"
                );
                assert!(
                    instance <= started.load(Ordering::Relaxed),
                    "nothing is recorded before the start"
                );
                last = instance;
            }
        }
        background.join().unwrap();
        // In all cases, the current instance gets the current events.
        assert_eq!(trace(&slots, &mut generation, &mut kept), Some(2));
    });
}

#[test]
fn a_clear_reaches_the_next_trace_point() {
    loom::model(|| {
        let slots = Arc::new(Slots::new());
        slots.prepare(0, target(1));
        slots.start(0);
        let opened = slots.open(0).unwrap();
        let background = {
            let slots = Arc::clone(&slots);
            thread::spawn(move || slots.clear(0))
        };
        // A concurrent reader may or may not see it; the newly opened instance is correct in both
        // cases.
        let during = slots.clears(0);
        let anew = slots.open(0).unwrap();
        assert!(opened.clears <= during && during <= anew.clears + 1);
        background.join().unwrap();
        assert_ne!(slots.clears(0), opened.clears);
    });
}
