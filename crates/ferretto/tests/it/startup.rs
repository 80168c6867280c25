//! Tests of startup tracing.

use std::time::Duration;

use ferretto::{BackendKind, StartupError};
use ferretto_client::Consumer;
use ferretto_testing::sdk::noted::{Ends, Note, texts, wait_for, write};
use ferretto_testing::sdk::startup::{
    NAME, Outcome, both, both_reordered, expecting, stalling, start_and_wait,
};
use ferretto_testing::sdk::{LIMIT, Service, Sockets, config, source, start, stop};
use ferretto_wire::Fields;

fn has(packets: &[Vec<u8>], text: &str) -> bool {
    packets.iter().any(|packet| {
        packet
            .windows(text.len())
            .any(|part| part == text.as_bytes())
    })
}

#[test]
fn sdk_021_and_022_and_032_what_was_recorded_early_is_part_of_the_recording_that_wants_it() {
    ferretto_testing::own_process!();
    let (options, _) = expecting(both("startup"));
    assert_eq!(options.start().unwrap_err(), StartupError::NotInitialised);
    let sockets = Sockets::new();
    let options =
        ferretto::Options::new().address(ferretto::Address::Path(sockets.path("producer")));
    options.memory_kb(64).init().unwrap();
    let (handle, Ends { notes, .. }) = stalling();
    let unknown = expecting(config(vec![source("test.unknown", None)])).0;
    assert_eq!(unknown.start().unwrap_err(), StartupError::NothingToRecord);
    let (options, _) = expecting(both("startup"));
    let in_process = options.backend(BackendKind::InProcess);
    assert_eq!(in_process.start().unwrap_err(), StartupError::InProcess);

    // One that is not adopted in time, and one that is aborted.
    for timeout in [Some(Duration::ZERO), None] {
        let (options, outcome) = expecting(both("nobody"));
        let tracing = options.timeout(timeout).start().unwrap();
        assert_eq!(tracing.sources(), 2);
        write(&handle, "for nobody");
        if timeout.is_none() {
            tracing.abort();
        }
        assert_eq!(outcome.recv_timeout(LIMIT), Ok(Outcome::Aborted));
        wait_for(&notes, &Note::Stop(0));
        wait_for(&notes, &Note::Dropped);
        assert!(!handle.is_enabled());
    }

    let (options, outcome) = expecting(both("startup"));
    let tracing = options.timeout(None).start().unwrap();
    assert_eq!(tracing.sources(), 2);
    wait_for(&notes, &Note::Start(0));
    write(&handle, "early");
    ferretto::instant!("startup", "early event");
    ferretto::instant!("other", "not asked for");
    let mut was_startup = false;
    handle.trace(|context| was_startup = context.instance().unwrap().is_startup());
    assert!(was_startup);
    // More than there is space for: no policy makes a writer wait.
    let long = "x".repeat(1000);
    let mut losses = 0;
    for _ in 0..200 {
        write(&handle, &long);
        handle.trace(|context| losses = context.drop_count());
    }
    assert_eq!(losses, 1);

    let service = Service::start_at(&sockets);
    let mut consumer = Consumer::connect(&service.consumers, LIMIT).unwrap();
    start_and_wait(&mut consumer, both_reordered("startup"), &outcome);
    // The recording adopts the same instance.
    assert!(notes.try_iter().all(|note| note == Note::Setup));
    write(&handle, "late");
    handle.trace(|context| assert_eq!(context.drop_count(), 1));
    ferretto::instant!("startup", "late event");
    assert!(ferretto::flush(LIMIT));
    let packets = stop(&mut consumer);
    let mut kept = texts(&packets);
    kept.retain(|text| *text != long);
    assert_eq!(kept, ["early", "late"]);
    assert!(has(&packets, "early event") && has(&packets, "late event"));
    assert!(!has(&packets, "not asked for") && !has(&packets, "for nobody"));
    let late = packets.iter().find(|packet| {
        let packet = std::slice::from_ref(*packet);
        texts(packet) == ["late"]
    });
    let lost = Fields::find(42, late.unwrap()).and_then(|field| field.as_u64());
    assert_eq!(lost, Some(257), "the first packet after a loss says so");

    // Startup tracing for a recording of a running service.
    consumer.free_buffers(LIMIT).unwrap();
    let (options, outcome) = expecting(both("startup"));
    options.start().unwrap();
    write(&handle, "before the session");
    start_and_wait(&mut consumer, both("startup"), &outcome);
    write(&handle, "in the session");
    assert!(ferretto::flush(LIMIT));
    assert_eq!(
        texts(&stop(&mut consumer)),
        ["before the session", "in the session"]
    );

    // A recording with another config gets a new instance.
    consumer.free_buffers(LIMIT).unwrap();
    let mut other = config(vec![source(NAME, None)]);
    let wanted = other.data_sources[0].config.get_or_insert_default();
    wanted.legacy_config = Some(b"other".to_vec());
    let (options, outcome) = expecting(both("startup"));
    let tracing = options.start().unwrap();
    start(&mut consumer, other);
    write(&handle, "to both");
    let mut calls = 0;
    handle.trace(|_| calls += 1);
    assert_eq!(calls, 2);
    tracing.abort();
    assert_eq!(outcome.recv_timeout(LIMIT), Ok(Outcome::Aborted));
    assert!(ferretto::flush(LIMIT));
    assert_eq!(texts(&stop(&mut consumer)), ["to both"]);
}
