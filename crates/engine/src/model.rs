//! Every order in which a trace point and the background thread can run.
//!
//! `bash .ci/run loom` runs it.

use loom::sync::Arc;
use loom::sync::atomic::{AtomicU32, Ordering};
use loom::thread;

use super::instances::bits;
use super::point;
use super::slots::{Slots, Target};
use crate::writer_source::WriterSource;

/// The state a thread keeps: its epoch, the clears seen, and the instance it belongs to.
type Kept = Option<(u64, u32, u32)>;

/// Does the work of collectors by hand: a model has statics of its own each time.
fn collect(slots: &Slots<u32>, kept: &mut Kept) {
    if kept.is_some_and(|(epoch, ..)| epoch != slots.epoch(0)) {
        *kept = None;
    }
}

/// A trace point. Returns the instance that it would have recorded into.
fn trace(slots: &Slots<u32>, seen: &mut u32, kept: &mut Kept) -> Option<u32> {
    for place in bits(slots.active()) {
        let _point = point::enter()?;
        let generation = point::generation();
        if *seen != generation {
            *seen = generation;
            collect(slots, kept);
        }
        if kept.is_none() {
            let opened = slots.open(place)?;
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
fn what_a_thread_keeps_is_of_the_instance_that_it_saw() {
    let mut model = loom::model::Builder::new();
    // More are too many orders to go through.
    model.preemption_bound = Some(2);
    model.check(|| {
        let slots = Arc::new(Slots::new());
        // How many instances were allowed to record so far, by the account of who starts them.
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
        // Regardless of earlier events, the present instance gets the present events.
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
        // A concurrent reader sees it or does not; the instance that is opened anew is correct
        // either way.
        let during = slots.clears(0);
        let anew = slots.open(0).unwrap();
        assert!(opened.clears <= during && during <= anew.clears + 1);
        background.join().unwrap();
        assert_ne!(slots.clears(0), opened.clears);
    });
}
