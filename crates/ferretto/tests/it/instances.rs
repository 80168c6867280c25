//! Tests of the life cycle of data source instances.

use std::sync::OnceLock;
use std::sync::mpsc::channel;

use ferretto::DataSourceHandle;
use ferretto::proto::TraceConfig;
use ferretto_client::Consumer;
use ferretto_testing::sdk::noted::{Ends, Note, Noted, texts, wait_for, write, write_into};
use ferretto_testing::sdk::{LIMIT, Service, config, source, start, stop};

/// The service. All tests share the one connection of the process.
fn service() -> &'static Service {
    static SERVICE: OnceLock<Service> = OnceLock::new();
    SERVICE.get_or_init(|| {
        let service = Service::start();
        let options = ferretto::Options::new().address(service.producers.clone());
        options.wait(LIMIT).init().unwrap();
        service
    })
}

fn consumer() -> Consumer {
    Consumer::connect(&service().consumers, LIMIT).unwrap()
}

/// Registers a data source and waits until the service knows it.
fn known((noted, ends): (Noted, Ends), name: &str) -> (DataSourceHandle<Noted>, Ends) {
    service();
    let handle = noted.register(name);
    assert!(ferretto::flush(LIMIT));
    (handle, ends)
}

/// Returns a config with one data source. The service's time limit for it is longer than the
/// test's.
fn recording(name: &str) -> TraceConfig {
    TraceConfig {
        data_source_stop_timeout_ms: Some(600_000),
        flush_timeout_ms: Some(600_000),
        ..config(vec![source(name, None)])
    }
}

/// Returns a config that contains the data source several times, with different settings.
fn recording_several(name: &str, numbers: impl IntoIterator<Item = u32>) -> TraceConfig {
    let numbered = numbers.into_iter().map(|number| {
        let mut source = source(name, None);
        let config = source.config.get_or_insert_default();
        config.legacy_config = Some(number.to_string().into_bytes());
        source
    });
    TraceConfig {
        data_sources: numbered.collect(),
        ..recording(name)
    }
}

#[test]
fn sdk_009_and_010_eight_instances_live_next_to_each_other_and_a_ninth_is_refused() {
    ferretto_testing::own_process!();
    let name = "test.eight";
    let (source, Ends { notes, .. }) = known(Noted::new(), name);
    let (mut first, mut second) = (consumer(), consumer());
    start(&mut first, recording_several(name, 0..7));
    // The second recording starts, too, as far as the service knows, though one of its instances
    // does not exist.
    start(&mut second, recording_several(name, 7..9));
    let mut indices = Vec::new();
    source.trace(|context| {
        indices.push(context.instance_index());
        write_into(context, "to all");
    });
    assert_eq!(indices, (0..8).collect::<Vec<_>>());
    assert!(ferretto::flush(LIMIT));
    let seen = (0..16).map(|_| notes.recv_timeout(LIMIT).unwrap());
    let (setups, starts): (Vec<_>, Vec<_>) = seen.partition(|note| *note == Note::Setup);
    assert_eq!(setups.len(), 8);
    assert_eq!(starts, (0..8).map(Note::Start).collect::<Vec<_>>());
    // It stops at once, including the instance that does not exist; the others go on.
    assert_eq!(texts(&stop(&mut second)), ["to all"]);
    assert_eq!(notes.recv_timeout(LIMIT), Ok(Note::Stop(7)));
    assert_eq!(notes.recv_timeout(LIMIT), Ok(Note::Dropped));
    // The slot of a stopped instance is reused.
    second.free_buffers(LIMIT).unwrap();
    start(&mut second, recording_several(name, 9..10));
    assert_eq!(notes.recv_timeout(LIMIT), Ok(Note::Setup));
    assert_eq!(notes.recv_timeout(LIMIT), Ok(Note::Start(7)));
    write(&source, "again");
    assert!(ferretto::flush(LIMIT));
    assert_eq!(texts(&stop(&mut second)), ["again"]);
    let first = texts(&stop(&mut first));
    let count = |wanted| first.iter().filter(|text| *text == wanted).count();
    assert_eq!((count("to all"), count("again")), (7, 7));
}

#[test]
fn sdk_011_an_instance_records_until_its_postponed_stop_is_done() {
    ferretto_testing::own_process!();
    let name = "test.late-stop";
    let (source, Ends { notes, stops, .. }) = known(Noted::postponing(), name);
    let mut consumer = consumer();
    start(&mut consumer, recording(name));
    consumer.disable_tracing(LIMIT).unwrap();
    wait_for(&notes, &Note::Stop(0));
    let completion = stops.recv_timeout(LIMIT).unwrap();
    assert!(source.is_enabled());
    write(&source, "after the stop");
    source.trace(|context| context.flush(None));
    std::thread::spawn(move || completion.complete())
        .join()
        .unwrap();
    assert_eq!(texts(&stop(&mut consumer)), ["after the stop"]);
    assert_eq!(notes.recv_timeout(LIMIT), Ok(Note::Dropped));
    assert!(!source.is_enabled());
}

#[test]
fn sdk_012_a_flush_is_done_when_the_data_source_says_so() {
    ferretto_testing::own_process!();
    let name = "test.late-flush";
    let (
        source,
        Ends {
            notes,
            flushes,
            stops,
        },
    ) = known(Noted::postponing(), name);
    let mut recorder = consumer();
    start(&mut recorder, recording(name));
    write(&source, "flushed");
    let (sender, flushed) = channel();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            recorder.flush(LIMIT).unwrap();
            sender.send(recorder).unwrap();
        });
        wait_for(&notes, &Note::Flush(0));
        let completion = flushes.recv_timeout(LIMIT).unwrap();
        // The service answers other requests meanwhile, but not the flush.
        consumer().query_service_state(LIMIT).unwrap();
        assert!(flushed.try_recv().is_err());
        drop(completion);
        let mut recorder = flushed.recv_timeout(LIMIT).unwrap();
        recorder.disable_tracing(LIMIT).unwrap();
        stops.recv_timeout(LIMIT).unwrap().complete();
        assert_eq!(texts(&stop(&mut recorder)), ["flushed"]);
    });
}

#[test]
fn sdk_013_a_data_source_named_twice_has_one_instance() {
    ferretto_testing::own_process!();
    let name = "test.twice";
    let (handle, Ends { notes, .. }) = known(Noted::new(), name);
    let mut consumer = consumer();
    let mut twice = recording(name);
    twice.data_sources.push(source(name, None));
    start(&mut consumer, twice);
    assert_eq!(notes.recv_timeout(LIMIT), Ok(Note::Setup));
    assert_eq!(notes.recv_timeout(LIMIT), Ok(Note::Start(0)));
    write(&handle, "once");
    assert!(ferretto::flush(LIMIT));
    assert_eq!(texts(&stop(&mut consumer)), ["once"]);
    assert_eq!(notes.recv_timeout(LIMIT), Ok(Note::Stop(0)));
}

#[test]
fn a_single_instance_source_has_one_instance() {
    ferretto_testing::own_process!();
    let name = "test.single";
    service();
    let (noted, _ends) = Noted::new();
    let options = ferretto::DataSourceOptions::new(name).single_instance();
    let source = options.register(noted).unwrap();
    assert!(ferretto::flush(LIMIT));
    let (mut first, mut second) = (consumer(), consumer());
    start(&mut first, recording_several(name, [1]));
    start(&mut second, recording_several(name, [2]));
    write(&source, "to the first");
    assert!(ferretto::flush(LIMIT));
    assert_eq!(texts(&stop(&mut second)), [] as [&str; 0]);
    assert_eq!(texts(&stop(&mut first)), ["to the first"]);
}

#[test]
fn sdk_014_broken_configs_do_no_harm() {
    ferretto_testing::own_process!();
    let name = "test.broken";
    let (handle, _ends) = known(Noted::new(), name);
    let broken: [&[u8]; 5] = [
        &[0xff; 64],
        // A truncated category list, a unit of zero, a field of the wrong type, an unknown
        // field.
        &[0x0a, 0x7f],
        &[0x30, 0],
        &[0x31, 1, 2, 3],
        &[0xf8, 0xff, 0xff, 0xff, 0x0f, 1],
    ];
    for encoded in broken {
        let mut consumer = consumer();
        let mut config = recording(name);
        let mut events = source("track_event", Some(encoded.to_vec()));
        let wanted = events.config.get_or_insert_default();
        wanted.name = Some(b"track_event".to_vec());
        let unknown = ferretto_wire::encode(|config| config.string(1, "no such interceptor"));
        let custom = config.data_sources[0].config.get_or_insert_default();
        custom.interceptor_config = ferretto::proto::InterceptorConfig {
            name: Some(b"no such interceptor".to_vec()),
            ..Default::default()
        }
        .into();
        custom.legacy_config = Some(unknown);
        config.data_sources.push(events);
        start(&mut consumer, config);
        ferretto::instant!("broken", "event", argument = 1);
        write(&handle, "unharmed");
        assert!(ferretto::flush(LIMIT));
        assert_eq!(texts(&stop(&mut consumer)), ["unharmed"]);
    }
}
