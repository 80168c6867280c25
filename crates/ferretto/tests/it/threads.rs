//! Test of many threads, and recordings that start and stop.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use ferretto_client::Consumer;
use ferretto_testing::sdk::{LIMIT, Service, config, source, start, stop};
use ferretto_wire::Fields;

/// A reader's state of one sequence.
#[derive(Default)]
struct Sequence {
    is_valid: bool,
    /// Table and iid of the defined entries.
    interned: HashSet<(u32, u64)>,
}

/// Reads a trace as the viewer does, which skips packets that it cannot decode after a loss.
/// Returns the number of decoded events; panics if a packet lacks its incremental state.
fn check(packets: &[Vec<u8>]) -> usize {
    let mut sequences: HashMap<u64, Sequence> = HashMap::new();
    let mut used = 0;
    for packet in packets {
        let number = |field| {
            Fields::find(field, packet)
                .and_then(|f| f.as_u64())
                .unwrap_or(0)
        };
        let sequence = sequences.entry(number(10)).or_default();
        let flags = number(13);
        if flags & 1 != 0 {
            *sequence = Sequence {
                is_valid: true,
                ..Sequence::default()
            };
        } else if number(42) != 0 {
            sequence.is_valid = false;
        }
        if flags & 2 != 0 && !sequence.is_valid {
            continue;
        }
        let interned = Fields::find(12, packet).and_then(|field| field.as_message());
        for entry in interned.into_iter().flatten().map(Result::unwrap) {
            let iid = Fields::find(1, entry.as_bytes().unwrap())
                .unwrap()
                .as_u64()
                .unwrap();
            assert!(
                sequence.interned.insert((entry.number, iid)),
                "defined twice"
            );
        }
        let Some(event) = Fields::find(11, packet).and_then(|field| field.as_message()) else {
            continue;
        };
        used += 1;
        for field in event.map(Result::unwrap) {
            let table = match field.number {
                3 => 1,
                10 => 2,
                _ => continue,
            };
            let iid = field.as_u64().unwrap();
            assert!(sequence.interned.contains(&(table, iid)), "never defined");
        }
    }
    used
}

#[test]
fn every_recording_is_self_contained() {
    ferretto_testing::own_process!();
    let service = Service::start();
    let options = ferretto::Options::new().address(service.producers.clone());
    options.wait(LIMIT).init().unwrap();
    let done = Arc::new(AtomicBool::new(false));
    let threads: Vec<_> = (0..3u64)
        .map(|thread| {
            let done = Arc::clone(&done);
            std::thread::spawn(move || {
                while !done.load(Ordering::Relaxed) {
                    let _outer = ferretto::slice!("stress", "outer", thread = thread);
                    ferretto::instant!("stress", "inner", text = "some text");
                    ferretto::counter!("stress", "counter", thread);
                    ferretto::begin!("other", "by hand");
                    ferretto::end!("other");
                    std::thread::yield_now();
                }
            })
        })
        .collect();
    let mut all_used = 0;
    for round in 0..12 {
        let mut consumers: Vec<_> = (0..=round % 3)
            .map(|_| {
                let mut consumer = Consumer::connect(&service.consumers, LIMIT).unwrap();
                start(&mut consumer, config(vec![source("track_event", None)]));
                consumer
            })
            .collect();
        // Some threads end while they are recorded.
        std::thread::spawn(|| ferretto::instant!("stress", "short life"))
            .join()
            .unwrap();
        for consumer in &mut consumers {
            consumer.flush(LIMIT).unwrap();
            // A recording may be empty: the threads fill the memory faster than it is read.
            all_used += check(&stop(consumer));
        }
    }
    done.store(true, Ordering::Relaxed);
    threads
        .into_iter()
        .for_each(|thread| thread.join().unwrap());
    assert!(all_used > 100);
}
