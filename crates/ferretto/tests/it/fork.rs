//! Tests of forked children that do not call `exec`.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};

use ferretto::DataSourceHandle;
use ferretto_client::Consumer;
use ferretto_shm::testing::run_in_child;
use ferretto_testing::sdk::noted::{Noted, texts, write};
use ferretto_testing::sdk::{LIMIT, Service, config, start, stop};
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
    ferretto::instant!("fork", "unheard");
    assert_eq!(threads(), 2);
    ferretto::Options::new().wait(LIMIT).init().unwrap();
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
                while !done.load(Ordering::Relaxed) {
                    ferretto::instant!("fork", "busy");
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
    let of_children = all[1].len() + all[2].len();
    let distinct: BTreeSet<u64> = all.into_iter().flatten().collect();
    assert_eq!(distinct.len(), count);
    // The parent may lose events later, too: its threads write faster than a loaded machine
    // reads.
    let lost = [child, grandchild].into_iter().flatten();
    let lost = lost.filter(|packet| number(packet, 42).is_some());
    assert!(
        lost.count() <= of_children,
        "only the beginnings of sequences may say so"
    );
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
