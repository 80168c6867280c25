//! Tests of a program that records itself while the machine's service records it, too.

#![cfg(feature = "in-process")]

use std::io::Write;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use ferretto::proto::DataSourceConfig;
use ferretto::session::{Backend, RecordingConfig, Session, TrackEvents};
use ferretto::{Backends, DataSource, ExhaustedPolicy, Options};
use ferretto_testing::sdk::{LIMIT, Service};
use ferretto_wire::Fields;

/// Returns the external service, with this process as a producer of it and of the in-process
/// service.
fn outside() -> &'static Service {
    static OUTSIDE: OnceLock<Service> = OnceLock::new();
    OUTSIDE.get_or_init(|| {
        let outside = Service::start();
        Options::new()
            .backends(Backends::SYSTEM | Backends::IN_PROCESS)
            .address(outside.producers.clone())
            .track_event_policy(ExhaustedPolicy::StallThenAbort)
            .wait(LIMIT)
            .init()
            .unwrap();
        outside
    })
}

fn record(backend: Backend, config: RecordingConfig) -> Session {
    let session = Session::open(backend).unwrap();
    session.set_up(config);
    session.start(LIMIT).wait().unwrap();
    session
}

fn only(category: &str) -> RecordingConfig {
    RecordingConfig::new().track_events(TrackEvents::only(&[category]))
}

/// Counts the track events of a trace.
fn events(trace: &[u8]) -> usize {
    let packets = Fields::new(trace).map(Result::unwrap);
    packets
        .filter(|packet| Fields::find(11, packet.as_bytes().unwrap()).is_some())
        .count()
}

fn finish(session: &Session) -> Vec<u8> {
    session.stop(LIMIT).wait().unwrap();
    session.read(LIMIT).wait().unwrap()
}

#[test]
fn both_services_record_all_events_at_the_same_time() {
    ferretto_testing::own_process!();
    const THREADS: usize = 4;
    const EVENTS: usize = 5000;
    let outside = outside();
    let inner = record(Backend::InProcess, only("both"));
    let outer = record(Backend::At(outside.consumers.clone()), only("both"));
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| (0..EVENTS).for_each(|n| ferretto::instant!("both", "event", n = n)));
        }
    });
    assert_eq!(events(&finish(&outer)), THREADS * EVENTS);
    // The other recording goes on.
    ferretto::instant!("both", "afterwards");
    assert_eq!(events(&finish(&inner)), THREADS * EVENTS + 1);
}

/// The number of events, more than the memory holds.
const MANY: usize = 100_000;

struct Tracing;

static STARTS: AtomicU32 = AtomicU32::new(0);

impl DataSource for Tracing {
    type Instance = ();
    type Thread = ();

    fn setup(&self, _config: &DataSourceConfig) {}

    fn start(&self, _instance: &ferretto::Instance<Self>) {
        // On the thread that passes chunks on.
        (0..MANY).for_each(|n| ferretto::instant!("callbacks", "in a callback", n = n));
        STARTS.fetch_add(1, Ordering::Relaxed);
    }
}

/// A writer that traces on its first write only; otherwise reading would never end.
#[derive(Default)]
struct Traced(Vec<u8>);

impl Write for Traced {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        if self.0.is_empty() {
            (0..MANY).for_each(|n| ferretto::instant!("callbacks", "reading", n = n));
        }
        self.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[test]
fn callbacks_may_record_more_than_the_memory_holds() {
    ferretto_testing::own_process!();
    outside();
    let _handle = ferretto::register_data_source("callbacks.source", Tracing).unwrap();
    let config = only("callbacks").buffer(ferretto::session::Buffer::ring(64 * 1024));
    let events_only = record(Backend::InProcess, config);
    let source = RecordingConfig::new().data_source_named("callbacks.source");
    let with_source = record(Backend::InProcess, source);
    assert_eq!(STARTS.load(Ordering::Relaxed), 1);
    events_only.flush(LIMIT).wait().unwrap();
    let traced = Traced::default();
    let first = events_only.read_into(traced, LIMIT).wait().unwrap();
    with_source.stop(LIMIT).wait().unwrap();
    let rest = finish(&events_only);
    assert_eq!(events(&first.0) + events(&rest), 2 * MANY);
}
