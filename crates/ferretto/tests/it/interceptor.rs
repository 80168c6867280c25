//! Tests of packets that go to an interceptor instead of a recording.

use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};

use ferretto::interceptor::{Interceptor, register_interceptor};
use ferretto::proto::DataSourceConfig;
use ferretto::proto::InterceptorConfig;
use ferretto::session::{Backend, RecordingConfig, Session};
use ferretto_testing::sdk::noted::{Noted, texts, write};
use ferretto_testing::sdk::{LIMIT, Service};
use ferretto_wire::Fields;

/// The packets that the interceptor received: its instance, the index of the packet in its writer,
/// and the packet.
static SEEN: Mutex<Vec<(String, u32, Vec<u8>)>> = Mutex::new(Vec::new());

/// Stores all packets.
struct Keep(String);

impl Interceptor for Keep {
    type Writer = u32;

    fn set_up(config: &DataSourceConfig) -> Self {
        let name = config.legacy_config.clone().unwrap_or_default();
        Self(String::from_utf8(name).unwrap())
    }

    fn new_writer(&self) -> u32 {
        0
    }

    fn packet(&self, count: &mut u32, packet: &[u8]) {
        // Trace points within an interceptor have no effect.
        ferretto::instant!("app", "from within");
        *count += 1;
        let mut seen = SEEN.lock().unwrap_or_else(PoisonError::into_inner);
        seen.push((self.0.clone(), *count, packet.to_vec()));
    }
}

fn start(service: &Service, interceptor: InterceptorConfig) -> Session {
    start_source(service, "track_event", interceptor)
}

fn start_source(service: &Service, name: &str, interceptor: InterceptorConfig) -> Session {
    let session = Session::open(Backend::At(service.consumers.clone())).unwrap();
    session.set_up(RecordingConfig::new().data_source(DataSourceConfig {
        name: Some(name.into()),
        legacy_config: Some(b"this one".to_vec()),
        interceptor_config: interceptor.into(),
        ..Default::default()
    }));
    session.start(LIMIT).wait().unwrap();
    session
}

fn named(name: &str) -> InterceptorConfig {
    InterceptorConfig {
        name: Some(name.into()),
        ..Default::default()
    }
}

fn has_events(packets: &[Vec<u8>]) -> bool {
    packets
        .iter()
        .any(|packet| Fields::find(11, packet).is_some())
}

/// Stops a session and returns its packets.
fn stop(session: &Session) -> Vec<Vec<u8>> {
    session.stop(LIMIT).wait().unwrap();
    let trace = session.read(LIMIT).wait().unwrap();
    let packets = Fields::new(&trace).map(Result::unwrap);
    packets
        .map(|packet| packet.as_bytes().unwrap().to_vec())
        .collect()
}

#[test]
fn packets_go_to_the_interceptor() {
    ferretto_testing::own_process!();
    let service = Service::start();
    ferretto::Options::new()
        .address(service.producers.clone())
        .wait(LIMIT)
        .init()
        .unwrap();
    register_interceptor::<Keep>("keep");
    // A second interceptor of the same name is ignored.
    struct Other;
    impl Interceptor for Other {
        type Writer = ();
        fn set_up(_: &DataSourceConfig) -> Self {
            panic!("never used")
        }
        fn new_writer(&self) {}
        fn packet(&self, (): &mut (), _: &[u8]) {}
    }
    register_interceptor::<Other>("keep");

    let session = start(&service, named("keep"));
    ferretto::instant!("app", "one");
    std::thread::spawn(|| ferretto::instant!("app", "two"))
        .join()
        .unwrap();
    // Packets arrive as soon as they are written.
    let seen = std::mem::take(&mut *SEEN.lock().unwrap());
    assert!(seen.iter().all(|(instance, ..)| instance == "this one"));
    let mut sequences: Vec<_> = seen
        .iter()
        .map(|(_, _, packet)| Fields::find(10, packet).unwrap().as_u64().unwrap())
        .collect();
    sequences.dedup();
    assert_eq!(sequences.len(), 2, "one for each thread");
    assert_ne!(sequences[0], sequences[1]);
    let firsts = seen.iter().filter(|(_, count, _)| *count == 1).count();
    assert_eq!(firsts, 2);
    let events = |name: &[u8]| {
        let packets = seen
            .iter()
            .filter(|(_, _, packet)| packet.windows(name.len()).any(|window| window == name));
        packets.count()
    };
    assert_eq!(
        (events(b"one"), events(b"two"), events(b"from within")),
        (1, 1, 0)
    );
    // No packets are recorded.
    assert!(!has_events(&stop(&session)));
    ferretto::instant!("app", "after the end");
    assert!(SEEN.lock().unwrap().is_empty());

    // An unknown name: the events are recorded as usual.
    let session = start(&service, named("nobody"));
    ferretto::instant!("app", "recorded");
    assert!(ferretto::flush(LIMIT));
    assert!(has_events(&stop(&session)));

    // Custom data sources.
    let (source, _ends) = Noted::new();
    let source = ferretto::register_data_source("custom", source).unwrap();
    assert!(ferretto::flush(LIMIT));
    let session = start_source(&service, "custom", named("keep"));
    write(&source, "intercepted");
    let seen = std::mem::take(&mut *SEEN.lock().unwrap());
    let packets: Vec<_> = seen.into_iter().map(|(.., packet)| packet).collect();
    assert_eq!(texts(&packets), ["intercepted"]);
    assert!(texts(&stop(&session)).is_empty());

    // The console runs in another process, whose output is captured.
    if std::env::var_os("PRINT_TO_CONSOLE").is_some() {
        let mut console = named("console");
        console.console_config = ferretto::proto::ConsoleConfig {
            output: Some(ferretto::proto::console_config::Output::OUTPUT_STDERR),
            enable_colors: Some(false),
            ..Default::default()
        }
        .into();
        let session = start(&service, console);
        let _slice = ferretto::slice!("app", "printed", id = 7);
        ferretto::counter!("app", "load", 3);
        assert!(!has_events(&stop(&session)));
    }
}

#[test]
fn the_console_prints_events() {
    ferretto_testing::own_process!();
    let output = Command::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "interceptor::packets_go_to_the_interceptor",
            "--nocapture",
        ])
        .env("PRINT_TO_CONSOLE", "1")
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{text}");
    let lines: Vec<_> = text.lines().filter(|line| line.starts_with('[')).collect();
    assert_eq!(lines.len(), 2, "{text}");
    assert!(lines[0].ends_with(" app   printed {(id:7)"), "{text}");
    assert!(lines[1].ends_with(" load = 3"), "{text}");
}
