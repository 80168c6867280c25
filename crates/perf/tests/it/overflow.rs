//! Tests of more samples than a ring holds.

use std::cell::Cell;
use std::process::Command;
use std::time::Instant;

use crate::common::{PATIENCE, at, burn, opened, plan, with_callstacks};
use ferretto_perf::event::{Opened, Scope};
use ferretto_perf::record::Record;
use ferretto_proto::perf_event_config::UnwindMode;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

#[test]
fn perf_054_what_overflows_a_ring_is_accounted_for_and_spoils_nothing() {
    let mut config = with_callstacks(at(2000), UnwindMode::UNWIND_DWARF, true);
    config.ring_buffer_pages = Some(64);
    let Some(mut opened) = opened(&plan(&config), None) else {
        return;
    };
    for reader in &mut opened.readers {
        reader.enable().expect("enabled");
    }
    let (samples, lost) = (Cell::new(0_u64), Cell::new(0));
    let mut each = |record: Record<'_>| match record {
        Record::Sample(sample) => {
            assert!(sample.stack.len() <= 65_280);
            samples.set(samples.get() + 1);
        }
        Record::Lost { count } => lost.set(lost.get() + count),
        Record::Malformed { bytes } => panic!("{bytes} bytes are no record"),
        _ => {}
    };
    let until = Instant::now() + PATIENCE;
    // The kernel reports losses with the next record that fits: so the ring must overflow and be
    // read in turn.
    while lost.get() == 0 {
        assert!(Instant::now() < until, "waited in vain");
        (0..20).for_each(|_| burn());
        for reader in &mut opened.readers {
            reader.read(u64::MAX, &mut each);
        }
    }
    (0..20).for_each(|_| burn());
    let mut unreported = 0;
    for reader in &mut opened.readers {
        reader.disable().expect("disabled");
        reader.read(u64::MAX, &mut each);
        let lost_before = reader.lost();
        unreported += reader.take_unreported_lost();
        assert_eq!(reader.take_unreported_lost(), 0);
        assert!(reader.lost() >= lost_before);
        assert_eq!(reader.malformed(), 0);
    }
    let all: u64 = opened.readers.iter().map(|reader| reader.lost()).sum();
    assert_eq!(all, lost.get() + unreported);
    assert!(samples.get() > 0);
}

#[test]
fn a_ring_that_is_half_full_becomes_readable() {
    becomes_readable(None);
}

#[test]
fn a_half_full_ring_of_tasks_becomes_readable_and_outlives_them() {
    let mut child = Command::new("sh")
        .args(["-c", "while :; do :; done"])
        .spawn()
        .expect("a shell");
    let scope = Scope::Processes {
        pids: vec![child.id() as i32],
        on_exec: false,
    };
    let opened = becomes_readable(Some(&scope));
    child.kill().expect("killed");
    child.wait().expect("ended");
    let Some(mut opened) = opened else { return };
    for reader in &mut opened.readers {
        reader.disable().expect("disabled");
        reader.read(u64::MAX, &mut |_| {});
        let mut fds = [PollFd::new(reader, PollFlags::IN)];
        let at_once = Timespec::default();
        // The readiness is edge-triggered.
        poll(&mut fds, Some(&at_once)).expect("polled");
        let ready = poll(&mut fds, Some(&at_once)).expect("polled");
        assert_eq!(ready, 0, "{:?}", fds[0].revents());
    }
}

fn becomes_readable(scope: Option<&Scope>) -> Option<Opened> {
    let mut config = with_callstacks(at(1000), UnwindMode::UNWIND_DWARF, false);
    config.ring_buffer_pages = Some(64);
    let mut opened = opened(&plan(&config), scope)?;
    for reader in &mut opened.readers {
        reader.enable().expect("enabled");
    }
    let busy = std::thread::spawn(|| (0..50).for_each(|_| burn()));
    let limit = Timespec {
        tv_sec: PATIENCE.as_secs() as i64,
        tv_nsec: 0,
    };
    let mut fds: Vec<_> = opened
        .readers
        .iter()
        .map(|reader| PollFd::new(reader, PollFlags::IN))
        .collect();
    let ready = poll(&mut fds, Some(&limit)).expect("polled");
    assert!(ready > 0);
    let broken = PollFlags::HUP | PollFlags::ERR;
    assert!(fds.iter().all(|fd| !fd.revents().intersects(broken)));
    busy.join().expect("no panic");
    Some(opened)
}
