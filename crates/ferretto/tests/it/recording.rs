//! End-to-end test: a program that uses this library, and a service that records it.

use std::collections::BTreeMap;
use std::sync::mpsc;

use ferretto::proto::DataSourceConfig;
use ferretto::{Category, Completion, DataSource, FlushFlags, FlushReason, Instance};
use ferretto_client::Consumer;
use ferretto_testing::sdk::{LIMIT, Service, config, source, start, stop};
use ferretto_wire::{Fields, encode};

static TAGGED: Category = Category::new("tagged")
    .description("described")
    .tags(&["debug"]);

/// A data source that reports its callbacks.
struct Custom(mpsc::Sender<&'static str>);

impl DataSource for Custom {
    type Instance = ();
    type Thread = ();

    fn setup(&self, config: &DataSourceConfig) {
        assert_eq!(config.name.as_deref(), Some(&b"custom"[..]));
        self.0.send("setup").unwrap();
    }

    fn start(&self, instance: &Instance<Self>) {
        instance
            .create_writer()
            .new_packet()
            .nested(900, |m| m.string(1, "from start"));
        self.0.send("start").unwrap();
    }

    fn stop(&self, _instance: &Instance<Self>, _completion: Completion) {
        self.0.send("stop").unwrap();
    }

    fn flush(&self, _instance: &Instance<Self>, flags: FlushFlags, _completion: Completion) {
        if flags.reason() == FlushReason::Explicit {
            self.0.send("flush").unwrap();
        }
    }
}

/// Returns the track events of a trace as text: type, category, name, arguments.
fn events(packets: &[Vec<u8>]) -> Vec<String> {
    let mut names: BTreeMap<(u64, u32, u64), String> = BTreeMap::new();
    let mut events = Vec::new();
    for packet in packets {
        let sequence = Fields::find(10, packet)
            .and_then(|field| field.as_u64())
            .unwrap_or(0);
        let interned = Fields::find(12, packet).and_then(|field| field.as_message());
        for entry in interned.into_iter().flatten().map(Result::unwrap) {
            let bytes = entry.as_bytes().unwrap();
            let iid = Fields::find(1, bytes).unwrap().as_u64().unwrap();
            let text = Fields::find(2, bytes)
                .unwrap()
                .as_str_lossy()
                .unwrap()
                .into_owned();
            names.insert((sequence, entry.number, iid), text);
        }
        let Some(event) = Fields::find(11, packet).and_then(|field| field.as_message()) else {
            continue;
        };
        let name = |table, iid: Option<u64>| names[&(sequence, table, iid.unwrap())].clone();
        let mut text = String::new();
        for field in event.map(Result::unwrap) {
            text += &match field.number {
                9 => format!("{}", field.as_u64().unwrap()),
                3 => format!(" {}", name(1, field.as_u64())),
                10 => format!(" {}", name(2, field.as_u64())),
                23 => format!(" {}", field.as_str_lossy().unwrap()),
                30 => format!(" = {}", field.as_i64().unwrap()),
                44 => format!(" = {}", field.as_f64().unwrap()),
                4 => {
                    let parts: Vec<_> = field.as_message().unwrap().map(Result::unwrap).collect();
                    let key = name(3, parts[0].as_u64());
                    let value = match parts[1].as_str_lossy() {
                        Some(text) => text.into_owned(),
                        None => parts[1].as_i64().unwrap().to_string(),
                    };
                    format!(" {key}={value}")
                }
                _ => String::new(),
            };
        }
        events.push(text);
    }
    events
}

fn work() {
    {
        let _outer = ferretto::slice!("app", "outer", id = 7, who = "me");
        ferretto::instant!("app", &format!("dynamic {}", 1));
        ferretto::counter!("app", "load", 3);
        ferretto::counter!("app", "ratio", 0.5);
        ferretto::begin!("other", "inner");
        ferretto::end!("other");
    }
    ferretto::instant!(TAGGED, "hidden by its tag");
    assert!(ferretto::flush(LIMIT));
}

// One test, since a process has one connection.
#[test]
fn a_program_is_recorded() {
    ferretto_testing::own_process!();
    let service = Service::start();

    // Trace points before the initialisation are harmless.
    ferretto::instant!("app", "too early");
    assert!(!ferretto::flush(LIMIT));
    let (sender, notes) = mpsc::channel();

    // The first recording runs before the program connects.
    let mut consumer = Consumer::connect(&service.consumers, LIMIT).unwrap();
    consumer
        .enable_tracing(config(vec![source("track_event", None)]), None)
        .unwrap();
    ferretto::Options::new()
        .name("sdk-test")
        .address(service.producers.clone())
        .wait(LIMIT)
        .init()
        .unwrap();
    ferretto::init().unwrap();
    work();
    std::thread::spawn(work).join().unwrap();
    let packets = stop(&mut consumer);
    let expected = [
        "1 app outer id=7 who=me",
        "3 app dynamic 1",
        "4 = 3",
        "4 = 0.5",
        "1 other inner",
        "2",
        "2",
    ];
    assert_eq!(events(&packets), [expected, expected].concat());
    consumer.free_buffers(LIMIT).unwrap();

    // The second recording has a filter; packets that are not flushed arrive as well.
    let filter = encode(|config| {
        config.string(1, "*");
        config.string(2, "other");
        config.string(4, "debug");
    });
    start(
        &mut consumer,
        config(vec![source("track_event", Some(filter))]),
    );
    work();
    ferretto::instant!(TAGGED, "not flushed");
    let packets = stop(&mut consumer);
    let expected = [
        "1 other inner",
        "2",
        "3 tagged hidden by its tag",
        "3 tagged not flushed",
    ];
    assert_eq!(events(&packets), expected);
    consumer.free_buffers(LIMIT).unwrap();
    assert!(!TAGGED.is_enabled());

    // Without a recording, nothing is written.
    work();

    // Custom packets.
    let custom = ferretto::register_data_source("custom", Custom(sender)).unwrap();
    assert!(ferretto::flush(LIMIT), "the service knows it now");
    start(&mut consumer, config(vec![source("custom", None)]));
    custom.trace(|context| {
        context
            .new_packet()
            .nested(900, |m| m.string(1, "from trace"));
        custom.trace(|_| panic!("not within another"));
    });
    consumer.flush(LIMIT).unwrap();
    let packets = stop(&mut consumer);
    let mut texts: Vec<_> = packets
        .iter()
        .filter_map(|packet| Fields::find(900, packet)?.as_bytes())
        .filter_map(|nested| Some(Fields::find(1, nested)?.as_str_lossy()?.into_owned()))
        .collect();
    texts.sort();
    assert_eq!(texts, ["from start", "from trace"]);
    let notes: Vec<_> = notes.try_iter().collect();
    assert_eq!(notes[..3], ["setup", "start", "flush"]);
    assert_eq!(notes.last(), Some(&"stop"));
    assert!(!custom.is_enabled());

    // The service knows the categories seen so far.
    let state = consumer.query_service_state(LIMIT).unwrap();
    let descriptor = state
        .data_sources
        .iter()
        .filter_map(|source| source.ds_descriptor.as_option())
        .find(|source| source.name.as_deref() == Some(b"track_event"))
        .and_then(|source| source.track_event_descriptor.clone())
        .unwrap();
    let text = String::from_utf8_lossy(&descriptor).into_owned();
    assert!(text.contains("app") && text.contains("described"), "{text}");

    drop(service);
    // Tracing without the service is harmless.
    ferretto::instant!("app", "alone");
}
