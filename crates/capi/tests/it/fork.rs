//! Forked children of C programs. One test, which has its own process without other threads when it
//! forks.

use std::ffi::CStr;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::common::events::*;
use crate::common::library::Scratch;
use crate::common::{Source, text, texts};
use ferretto::Address;
use ferretto::session::{Backend, RecordingConfig, Session, TrackEvents};
use ferretto_c::*;
use ferretto_host::{Host, HostOptions, Stopper};
use ferretto_wire::Fields;

const LIMIT: Duration = Duration::from_secs(30);

unsafe extern "C" {
    fn fork() -> i32;
    fn waitpid(process: i32, status: *mut i32, options: i32) -> i32;
    fn _exit(status: i32) -> !;
    fn setenv(name: *const std::ffi::c_char, value: *const std::ffi::c_char, replace: i32) -> i32;
}

/// Writes an event and a packet until a recording has them, and flushes.
fn write_until_recorded(category: Category, source: Source, name: &CStr) {
    let mut recorded = false;
    // A forked child determines the recordings with its first event and its first packet.
    while !(recorded && category.is_enabled()) {
        category.instant(name);
        source.trace(|tracer| {
            tracer.write(&text(name.to_str().unwrap()));
            tracer.flush();
            recorded = true;
        });
    }
    category.emit(INSTANT, Some(name), &[extra(header(extra_type::FLUSH))]);
}

/// The number of events that each child writes: less than the memory holds.
const EVENTS: u64 = 400;

/// The ways in which a child ends.
const ENDS: [fn(Category, Source); 3] = [
    |category, source| {
        category.emit(INSTANT, Some(c"end"), &[extra(header(extra_type::FLUSH))]);
        source.trace(|tracer| tracer.flush());
    },
    |category, source| {
        source.trace(|tracer| tracer.flush());
        category.emit(INSTANT, Some(c"end"), &[extra(header(extra_type::FLUSH))]);
    },
    |_, _| std::process::exit(0),
];

/// Writes numbered events from the beginning of a child's life.
fn write_at_once(child: usize, category: Category, source: Source) {
    for number in 0..EVENTS {
        let name = std::ffi::CString::new(format!("{child} {number}")).unwrap();
        category.instant(&name);
    }
    source.trace(|tracer| tracer.write(&text(&format!("{child} packet"))));
    ENDS[child](category, source);
}

#[test]
fn children_are_recorded_from_their_very_first_event_on() {
    ferretto_testing::own_process!();
    let scratch = Scratch::new("fork-first");
    let (service, stopper, address) = start_service(&scratch);
    let category = Category::register("family");
    let source = Source::register("family packets", |_| {});
    let session = Session::open(Backend::At(address)).unwrap();
    let config = RecordingConfig::new()
        .track_events(TrackEvents::only(&["family"]))
        .data_source_named("family packets");
    session.set_up(config);
    session.start(LIMIT).wait().unwrap();
    write_until_recorded(category, source, c"parent");
    for child in 0..ENDS.len() {
        // SAFETY: the child only uses the library, which supports this, and ends.
        let process = unsafe { fork() };
        if process == 0 {
            write_at_once(child, category, source);
            // SAFETY: ends the process without running destructors of the parent.
            unsafe { _exit(0) };
        }
        let mut status = -1;
        // SAFETY: `status` is valid for writing.
        assert_eq!(unsafe { waitpid(process, &raw mut status, 0) }, process);
        assert_eq!(status, 0);
    }
    session.stop(LIMIT).wait().unwrap();
    let trace = session.read(LIMIT).wait().unwrap();
    stopper.stop();
    service.join().unwrap();
    let packets: Vec<Vec<u8>> = Fields::new(&trace)
        .map(|packet| packet.unwrap().as_bytes().unwrap().to_vec())
        .collect();
    let texts = texts(&packets);
    let events = events(&packets);
    assert!(events.problems.is_empty(), "{:?}", events.problems);
    for child in 0..ENDS.len() {
        let expected: Vec<_> = (0..EVENTS).map(|n| format!("{child} {n}")).collect();
        let names = events.events.iter().filter_map(|event| event.name.clone());
        let names: Vec<_> = names.filter(|name| expected.contains(name)).collect();
        assert_eq!(names, expected);
        assert!(texts.contains(&format!("{child} packet")), "{texts:?}");
    }
    let loss = packets.iter().filter_map(|packet| Fields::find(42, packet));
    let loss = loss.filter(|reasons| reasons.as_u64().is_some_and(|reasons| reasons > 1));
    assert_eq!(loss.count(), 0);
}

/// Starts a service, to which this process connects.
fn start_service(scratch: &Scratch) -> (std::thread::JoinHandle<()>, Stopper, Address) {
    let (producers, consumers) = (scratch.join("producers"), scratch.join("consumers"));
    let address = Address::Path(consumers);
    let host = Host::bind(HostOptions::at(
        vec![Address::Path(producers.clone())],
        address.clone(),
    ))
    .unwrap();
    let stopper = host.stopper();
    let service = std::thread::spawn(move || host.run().unwrap());
    let path = std::ffi::CString::new(producers.to_str().unwrap()).unwrap();
    // SAFETY: no other thread accesses the environment here.
    unsafe { setenv(c"PERFETTO_PRODUCER_SOCK_NAME".as_ptr(), path.as_ptr(), 1) };
    // SAFETY: by the contract of the headers.
    unsafe {
        let args = PerfettoProducerBackendInitArgsCreate();
        PerfettoProducerSystemInit(args);
        PerfettoProducerBackendInitArgsDestroy(args);
    }
    (service, stopper, address)
}

#[test]
fn a_forked_child_is_recorded_as_its_own_process() {
    ferretto_testing::own_process!();
    let scratch = Scratch::new("fork");
    let (service, stopper, address) = start_service(&scratch);
    let category = Category::register("family");
    let source = Source::register("family packets", |_| {});
    let session = Session::open(Backend::At(address)).unwrap();
    let config = RecordingConfig::new()
        .track_events(TrackEvents::only(&["family"]))
        .data_source_named("family packets");
    session.set_up(config);
    session.start(LIMIT).wait().unwrap();
    write_until_recorded(category, source, c"parent");
    let parent_track = perfetto_te_process_track_uuid.load(Ordering::Relaxed);
    // SAFETY: the child only uses the library, which supports this, and ends.
    let child = unsafe { fork() };
    if child == 0 {
        write_until_recorded(category, source, c"child");
        let has_track = perfetto_te_process_track_uuid.load(Ordering::Relaxed) != parent_track;
        // SAFETY: ends the process without running destructors of the parent.
        unsafe { _exit(i32::from(!has_track)) };
    }
    let mut status = -1;
    // SAFETY: `status` is valid for writing.
    assert_eq!(unsafe { waitpid(child, &raw mut status, 0) }, child);
    assert_eq!(status, 0);
    category.instant(c"parent");
    session.stop(LIMIT).wait().unwrap();
    let trace = session.read(LIMIT).wait().unwrap();
    stopper.stop();
    service.join().unwrap();
    let packets: Vec<Vec<u8>> = Fields::new(&trace)
        .map(|packet| packet.unwrap().as_bytes().unwrap().to_vec())
        .collect();
    let texts = texts(&packets);
    assert!(
        ["parent", "child"]
            .iter()
            .all(|name| texts.iter().any(|text| text == name)),
        "{texts:?}"
    );
    let events = events(&packets);
    assert!(events.problems.is_empty(), "{:?}", events.problems);
    let process = |name: &str| {
        let event = events
            .events
            .iter()
            .find(|event| event.name.as_deref() == Some(name))
            .unwrap();
        let thread = events.tracks.get(event.track).unwrap();
        events
            .tracks
            .get(thread.parent.unwrap())
            .unwrap()
            .process
            .unwrap()
    };
    assert_eq!(process("parent"), std::process::id() as i32);
    assert_eq!(process("child"), child);
}
