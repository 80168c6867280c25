//! Recording of a browser, which uses upstream's library, by our service. Runs only if
//! `FERRETTO_CHROMIUM` contains the path of the program.

mod browser;
mod page;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use ferretto_interop::config::browser_events;
use ferretto_interop::importer::Importer;
use ferretto_interop::trace;
use ferretto_interop::{Cast, Peer, Programs, Sdk, Side, World};
use ferretto_interop_driver::PATIENCE;
use ferretto_proto::fields::trace_stats::buffer_stats;
use ferretto_proto::fields::{process_descriptor, trace_packet, track_descriptor};
use ferretto_trace::events::{Events, Problem, read_events};

use browser::Browser;
use page::Page;

const PROGRAMS: Programs = Programs {
    ours: env!("CARGO_BIN_EXE_ours"),
    official: env!("CARGO_BIN_EXE_official"),
};

/// The number of processes with track events: the browser itself, and one each for the display, the
/// network and the page.
const PROCESSES: usize = 4;

#[test]
fn a_browser_is_recorded() {
    let Some(program) = std::env::var_os("FERRETTO_CHROMIUM") else {
        println!("skipped: FERRETTO_CHROMIUM is not set");
        return;
    };
    let trace = record(Side::Ours, &Browser::new(program.clone()));
    let categories = report(&trace);
    for category in ["toplevel", "v8", "blink", "loading", "navigation"] {
        assert!(categories.contains_key(category), "{category} is missing");
    }
    assert!(categories.values().sum::<usize>() > 1000);
    let Some(importer) = Importer::from_environment() else {
        println!("skipped: FERRETTO_UPSTREAM does not name the folder of upstream's programs");
        return;
    };
    let official = record(Side::Official, &Browser::new(program));
    let kinds = |trace: &[u8]| -> BTreeSet<String> {
        let complaints = importer.complaints(trace);
        let names = complaints.iter().filter_map(|row| row.split(',').next());
        names.map(str::to_owned).collect()
    };
    let (ours, official) = (kinds(&trace), kinds(&official));
    println!(
        "errors of upstream's importer with our trace: {ours:?}; with upstream's: {official:?}"
    );
    let slices = importer.query(&trace, "select count(*) from slice");
    println!("{slices:?} slices and instants");
    assert!(ours.is_subset(&official));
}

/// Records the browser while it shows a page that keeps it busy.
fn record(service: Side, browser: &Browser) -> Vec<u8> {
    let world = World::new(
        Cast {
            service,
            producer: Sdk::Ours,
            consumer: Side::Ours,
        },
        PROGRAMS,
    );
    let page = Page::serve();
    let running = browser.start(&world, &page.address());
    let mut consumer = world.full_consumer();
    await_processes(&mut consumer);
    consumer.run(&format!("start {}", world.config_file(&browser_events())));
    page.await_visits(20);
    assert_eq!(consumer.run("flush"), "true");
    let trace = world.stop_and_read(&mut consumer);
    drop(running);
    trace
}

fn await_processes(consumer: &mut Peer) {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let sources = consumer.run("sources");
        let offers = sources.split(' ').filter(|name| *name == "track_event");
        if offers.count() >= PROCESSES {
            return;
        }
        assert!(
            Instant::now() < deadline,
            "only these data sources: {sources}"
        );
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
}

/// Prints the contents of the trace. Returns the number of events of each category.
fn report(bytes: &[u8]) -> BTreeMap<String, usize> {
    let Events {
        events,
        tracks: _,
        problems,
    } = read_events(bytes).expect("it can be read");
    let packets = trace::decode(bytes);
    // Browsers have their own extensions from field 1000.
    let mut unknown = trace::unknown_fields(&packets);
    unknown.retain(|field| !field.starts_with("perfetto.protos.TrackEvent.1"));
    println!(
        "{} bytes, {} packets, {} events",
        bytes.len(),
        packets.len(),
        events.len()
    );
    assert!(unknown.is_empty(), "not in the schema: {unknown:?}");
    // The browser opens the sockets of its processes, so the trusted pid is not that of the writer.
    let processes: BTreeSet<u64> = trace::with(&packets, trace_packet::TRACK_DESCRIPTOR)
        .iter()
        .map(|packet| packet.message(trace_packet::TRACK_DESCRIPTOR))
        .filter(|track| track.has(track_descriptor::PROCESS))
        .map(|track| {
            track
                .message(track_descriptor::PROCESS)
                .number(process_descriptor::PID)
        })
        .collect();
    println!("from {} processes", processes.len());
    assert!(processes.len() >= PROCESSES);
    let mut categories = BTreeMap::new();
    for category in events.iter().flat_map(|event| &event.categories) {
        *categories.entry(category.clone()).or_insert(0) += 1;
    }
    for (category, count) in &categories {
        println!("{count:8} {category}");
    }
    let stats = trace::stats(&packets);
    for field in [
        buffer_stats::CHUNKS_DISCARDED,
        buffer_stats::ABI_VIOLATIONS,
        buffer_stats::PATCHES_FAILED,
    ] {
        assert_eq!(trace::in_buffers(&stats, field), 0, "BufferStats.{field}");
    }
    // Slices were open when the recording began.
    let other = problems
        .iter()
        .filter(|(problem, _)| *problem != Problem::EndWithoutBegin);
    println!("problems: {:?}", other.collect::<Vec<_>>());
    categories
}
