//! Tests of forked children that do not call `exec`.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};

use ferretto::DataSourceHandle;
use ferretto_client::Consumer;
use ferretto_shm::testing::run_in_child;
use ferretto_testing::sdk::noted::{Noted, texts, write};
use ferretto_testing::sdk::{LIMIT, Service, config, numbered, start, stop, stop_trace};
use ferretto_wire::Fields;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

fn number(packet: &[u8], field: u32) -> Option<u64> {
    Fields::find(field, packet).and_then(|field| field.as_u64())
}

/// Returns the packets of the process with this id.
fn of(packets: &[Vec<u8>], pid: i32) -> Vec<Vec<u8>> {
    let of_pid = |packet: &&Vec<u8>| number(packet, 79) == Some(pid as u64);
    packets.iter().filter(of_pid).cloned().collect()
}

/// Returns the process tracks that are described.
fn process_tracks(packets: &[Vec<u8>]) -> BTreeSet<u64> {
    packets
        .iter()
        .filter_map(|packet| Fields::find(60, packet)?.as_bytes())
        .filter(|track| Fields::find(3, track).is_some())
        .filter_map(|track| number(track, 1))
        .collect()
}

fn has(packets: &[Vec<u8>], text: &str) -> bool {
    packets.iter().any(|packet| {
        packet
            .windows(text.len())
            .any(|part| part == text.as_bytes())
    })
}

fn threads() -> usize {
    std::fs::read_dir("/proc/self/task").unwrap().count()
}

/// Acts as a forked child: its first event connects it, and it is recorded as a separate process.
fn live(name: &str, source: &DataSourceHandle<Noted>) {
    assert_eq!(
        threads(),
        1,
        "nothing was started for a child that says nothing"
    );
    // The service does not know the child yet at its very first event.
    ferretto::instant!("fork", &format!("{name} first"));
    assert_eq!(threads(), 2);
    let _slice = ferretto::slice!("fork", &format!("{name} slice"));
    write(source, name);
    let from_thread = format!("{name} thread");
    std::thread::spawn(move || ferretto::instant!("fork", &from_thread))
        .join()
        .unwrap();
    assert!(ferretto::flush(LIMIT));
}

#[test]
fn forked_children_are_recorded_as_themselves() {
    ferretto_testing::own_process!();
    let service = Service::start();
    let options = ferretto::Options::new().address(service.producers.clone());
    options.wait(LIMIT).init().unwrap();
    let source = Noted::new().0.register("test.fork");
    assert!(ferretto::flush(LIMIT));
    let mut consumer = Consumer::connect(&service.consumers, LIMIT).unwrap();
    let both = [
        ferretto_testing::sdk::source("test.fork", None),
        ferretto_testing::sdk::source("track_event", None),
    ];
    start(&mut consumer, config(both.into()));

    let outer = ferretto::slice!("fork", "parent slice");
    write(&source, "parent before");
    let done = AtomicBool::new(false);
    let (child, grandchild) = std::thread::scope(|scope| {
        // The parent's threads are tracing when it forks.
        for _ in 0..2 {
            scope.spawn(|| {
                // Not so many that they overwrite the events of the children.
                let mut left = 10_000;
                while !done.load(Ordering::Relaxed) {
                    if left > 0 {
                        ferretto::instant!("fork", "busy");
                        left -= 1;
                    }
                    std::thread::yield_now();
                }
            });
        }
        let (mut reader, sender) = std::io::pipe().unwrap();
        let child = run_in_child(|| {
            live("child", &source);
            let grandchild = run_in_child(|| live("grandchild", &source)).unwrap();
            std::io::Write::write_all(&mut &sender, &grandchild.id().to_ne_bytes()).unwrap();
            assert!(grandchild.wait());
            // The child's own child has not disturbed it.
            write(&source, "child again");
            assert!(ferretto::flush(LIMIT));
        })
        .unwrap();
        let pid = child.id();
        let worked = child.wait();
        done.store(true, Ordering::Relaxed);
        assert!(worked);
        let mut grandchild = [0; 4];
        std::io::Read::read_exact(&mut reader, &mut grandchild).unwrap();
        (pid, i32::from_ne_bytes(grandchild))
    });
    write(&source, "parent after");
    drop(outer);
    assert!(ferretto::flush(LIMIT));
    daemons_are_not_taken_for_their_parents(&mut consumer);
    let silent = run_in_child(|| assert_eq!(threads(), 1)).unwrap();
    assert!(silent.wait());

    let packets = stop(&mut consumer);
    let [parent, child, grandchild] =
        [std::process::id() as i32, child, grandchild].map(|pid| of(&packets, pid));
    assert_eq!(texts(&parent), ["parent before", "parent after"]);
    assert_eq!(texts(&child), ["child", "child again"]);
    assert_eq!(texts(&grandchild), ["grandchild"]);
    for (packets, slice, thread) in [
        (&child, "child slice", "child thread"),
        (&grandchild, "grandchild slice", "grandchild thread"),
    ] {
        assert!(has(packets, slice) && has(packets, thread), "{slice}");
        assert!(has(packets, &slice.replace("slice", "first")), "{slice}");
        assert!(!has(packets, "parent slice"));
    }
    assert!(has(&parent, "parent slice") && !has(&parent, "child slice"));
    let tracks = [&parent, &child, &grandchild].map(|packets| process_tracks(packets));
    assert!(tracks.iter().all(|tracks| tracks.len() == 1));
    let all: BTreeSet<u64> = tracks.into_iter().flatten().collect();
    assert_eq!(all.len(), 3, "each has a track of its own");
    // The slices of all three end correctly: no events are in another process's sequence.
    let sequences = |packets: &[Vec<u8>]| -> BTreeSet<u64> {
        packets
            .iter()
            .filter_map(|packet| number(packet, 10))
            .collect()
    };
    let all = [&parent, &child, &grandchild].map(|packets| sequences(packets));
    let count: usize = all.iter().map(BTreeSet::len).sum();
    let distinct: BTreeSet<u64> = all.into_iter().flatten().collect();
    assert_eq!(distinct.len(), count);
    // The parent may lose events: its threads write faster than a loaded machine reads.
    let lost = [child, grandchild].into_iter().flatten();
    let lost = lost.filter(|packet| number(packet, 42).is_some_and(|reasons| reasons > 1));
    assert_eq!(lost.count(), 0);
}

/// The number of events that each thread of a child writes: less than the memory holds.
const EVENTS: u64 = 400;

#[test]
fn children_are_recorded_from_their_very_first_event_on() {
    ferretto_testing::own_process!();
    let service = Service::start();
    let options = ferretto::Options::new().address(service.producers.clone());
    options.wait(LIMIT).init().unwrap();
    let source = Noted::new().0.register("test.fork");
    assert!(ferretto::flush(LIMIT));
    // The same data sources in two recordings.
    let mut consumers = [(); 2].map(|()| Consumer::connect(&service.consumers, LIMIT).unwrap());
    let both = [
        ferretto_testing::sdk::source("test.fork", None),
        ferretto_testing::sdk::source("track_event", None),
    ];
    for consumer in &mut consumers {
        start(consumer, config(both.clone().into()));
    }
    numbered::write(0, 0..2);

    let act = |of: u64| {
        numbered::write(of, 0..EVENTS);
        write(&source, "child");
    };
    // Each begins and ends in another way.
    let flushes = run_in_child(|| {
        act(1);
        assert!(ferretto::flush(LIMIT));
    });
    let exits = run_in_child(|| {
        act(2);
        std::process::exit(0);
    });
    let threads = run_in_child(|| {
        std::thread::scope(|scope| {
            for thread in 3..7 {
                let act = &act;
                scope.spawn(move || {
                    act(thread);
                    assert!(ferretto::flush(LIMIT));
                });
            }
        });
    });
    let forks = run_in_child(|| {
        let grandchild = run_in_child(|| {
            act(7);
            assert!(ferretto::flush(LIMIT));
        });
        act(8);
        let child = run_in_child(|| {
            act(9);
            assert!(ferretto::flush(LIMIT));
        });
        assert!(ferretto::flush(LIMIT));
        assert!(grandchild.unwrap().wait() && child.unwrap().wait());
    });
    for child in [flushes, exits, threads, forks] {
        assert!(child.unwrap().wait());
    }
    assert!(ferretto::flush(LIMIT));
    for consumer in &mut consumers {
        let trace = stop_trace(consumer);
        let numbered = numbered::read(&trace[..]);
        assert_eq!(numbered.losses, 0);
        assert_eq!(numbered.threads.len(), 10);
        for (thread, events) in &numbered.threads {
            let written = if *thread == 0 { 2 } else { EVENTS };
            assert_eq!((events.seen, events.missing), (written, 0), "{thread}");
        }
        let packets: Vec<Vec<u8>> = Fields::new(&trace)
            .map(|packet| packet.unwrap().as_bytes().unwrap().to_vec())
            .collect();
        assert_eq!(texts(&packets).len(), 9);
    }
}

#[test]
fn a_child_counts_what_does_not_fit_before_it_is_connected() {
    ferretto_testing::own_process!();
    let service = Service::start();
    let options = ferretto::Options::new().address(service.producers.clone());
    options.memory_kb(64).wait(LIMIT).init().unwrap();
    let mut consumer = Consumer::connect(&service.consumers, LIMIT).unwrap();
    let source = ferretto_testing::sdk::source("track_event", None);
    start(&mut consumer, config(vec![source]));
    numbered::write(0, 0..1);
    let child = run_in_child(|| {
        numbered::write(1, 0..50_000);
        assert!(ferretto::flush(LIMIT));
        numbered::write(1, 50_000..50_001);
        assert!(ferretto::flush(LIMIT));
    });
    assert!(child.unwrap().wait());
    assert!(ferretto::flush(LIMIT));
    let trace = stop_trace(&mut consumer);
    let numbered = numbered::read(&trace[..]);
    let events = &numbered.threads[&1];
    assert_eq!((events.first, events.next), (0, 50_001));
    assert_eq!(events.seen + events.missing, 50_001);
    assert_eq!(events.unexplained, 0);
    assert_eq!(events.missing == 0, numbered.losses == 0);
}

/// A child that is forked during a recording and that begins to trace after its end.
#[test]
fn recordings_that_have_ended_do_not_continue_in_children() {
    ferretto_testing::own_process!();
    let service = Service::start();
    let options = ferretto::Options::new().address(service.producers.clone());
    options.single_instances().wait(LIMIT).init().unwrap();
    let source = Noted::new().0.register("test.fork");
    assert!(ferretto::flush(LIMIT));
    let mut consumer = Consumer::connect(&service.consumers, LIMIT).unwrap();
    let wanted = config(vec![ferretto_testing::sdk::source("test.fork", None)]);
    start(&mut consumer, wanted.clone());
    write(&source, "parent");
    for is_followed in [true, false] {
        let (mut may_begin, begin) = std::io::pipe().unwrap();
        let child = run_in_child(|| {
            std::io::Read::read_exact(&mut may_begin, &mut [0]).unwrap();
            write(&source, "for the recording that has ended");
            ferretto::Options::new().wait(LIMIT).init().unwrap();
            assert_eq!(source.is_enabled(), is_followed);
            write(&source, "child");
            assert!(ferretto::flush(LIMIT));
        });
        let first = texts(&stop(&mut consumer));
        assert_eq!(first, ["parent"]);
        consumer.free_buffers(LIMIT).unwrap();
        if is_followed {
            // Takes the only instance of the data source.
            start(&mut consumer, wanted.clone());
            write(&source, "parent");
        }
        std::io::Write::write_all(&mut &begin, b"x").unwrap();
        assert!(child.unwrap().wait());
        if is_followed {
            let mut recorded = texts(&stop(&mut consumer));
            // The child may learn of the new recording before it writes.
            recorded.retain(|text| !text.starts_with("for"));
            assert_eq!(recorded, ["parent", "child"]);
            consumer.free_buffers(LIMIT).unwrap();
            start(&mut consumer, wanted.clone());
            write(&source, "parent");
        }
    }
}

/// The service must not take a daemon, whose parent has exited, for its parent.
fn daemons_are_not_taken_for_their_parents(consumer: &mut Consumer) {
    let mut knows = |pid: i32| {
        let state = consumer.query_service_state(LIMIT).unwrap();
        state.producers.iter().any(|p| p.pid == Some(pid))
    };
    let (reader, mut end) = std::io::pipe().unwrap();
    let daemon = run_in_child(|| {
        ferretto::instant!("fork", "unheard");
        ferretto::Options::new().wait(LIMIT).init().unwrap();
        let itself = run_in_child(|| {
            // Lives until the test is done with it.
            let mut fds = [PollFd::new(&reader, PollFlags::IN)];
            let _ = poll(&mut fds, Timespec::try_from(LIMIT).ok().as_ref());
        });
        let _is_not_waited_for = itself.unwrap();
    })
    .unwrap();
    let pid = daemon.id();
    assert!(daemon.wait());
    let deadline = std::time::Instant::now() + LIMIT;
    while knows(pid) {
        assert!(
            std::time::Instant::now() < deadline,
            "its child keeps it alive"
        );
        std::thread::yield_now();
    }
    assert!(knows(std::process::id() as i32));
    std::io::Write::write_all(&mut end, b"x").unwrap();
}
