//! Tests of threads that record while they handle requests of the service.

use std::sync::mpsc;

use ferretto::in_process::InProcess;
use ferretto_client::ExhaustedPolicy;
use ferretto_proto::observable_events::Type as ObservableType;

use super::world::*;

const STALL: ExhaustedPolicy = ExhaustedPolicy::StallThenAbort;

#[test]
fn a_start_callback_writes_more_than_the_memory_holds() {
    // On the only thread that could send commits.
    let service = InProcess::new();
    let _recorder = Recorder::start(&service, STALL, |writer| {
        (0..50_000).for_each(|number| write(writer, number, 50));
    });
    let mut consumer = consumer(&service);
    start(&mut consumer, config(64 * 1024));
    stop(&mut consumer);
    let got = numbers(&read(&mut consumer));
    assert_eq!(got, (0..50_000).collect::<Vec<_>>());
}

#[test]
fn reading_a_trace_is_recorded() {
    let service = InProcess::new();
    let (sender, targets) = mpsc::channel();
    let recorder = Recorder::start(&service, STALL, move |writer| {
        (0..10_000).for_each(|number| write(writer, number, 50));
        sender.send(writer.target_buffer()).unwrap();
    });
    let mut consumer = consumer(&service);
    start(&mut consumer, config(64 * 1024));
    let target = targets.recv_timeout(LIMIT).unwrap().into();
    let mut writer = recorder.handle.create_writer(target, STALL);
    consumer.flush(LIMIT).unwrap();
    // Each arriving packet triggers more data than itself; the memory fills several times.
    let (mut received, mut written) = (Vec::new(), 10_000);
    consumer
        .read_buffers(LIMIT, |packet| {
            received.push(packet.to_vec());
            if written < 20_000 {
                write(&mut writer, written, 200);
                written += 1;
            }
            Ok::<_, std::convert::Infallible>(())
        })
        .unwrap();
    assert_eq!(written, 20_000);
    drop(writer);
    stop(&mut consumer);
    received.extend(read(&mut consumer));
    let mut got = numbers(&received);
    got.sort_unstable();
    assert_eq!(got, (0..20_000).collect::<Vec<_>>());
}

#[test]
fn a_thread_that_hangs_does_not_hold_up_a_flush() {
    let service = InProcess::new();
    let (sender, started) = mpsc::channel();
    let (release, released) = mpsc::channel::<()>();
    let _recorder = Recorder::start(&service, STALL, move |writer| {
        write(writer, 1, 10);
        sender.send(()).unwrap();
        let _ = released.recv_timeout(LIMIT);
    });
    let mut consumer = consumer(&service);
    let types = [ObservableType::TYPE_ALL_DATA_SOURCES_STARTED];
    consumer.observe_events(&types).unwrap();
    consumer.enable_tracing(config(64), None).unwrap();
    started.recv_timeout(LIMIT).unwrap();
    let flushed = consumer.flush(std::time::Duration::from_millis(200));
    assert!(flushed.is_err(), "the producer did not answer");
    drop(release);
    wait_for_start(&mut consumer);
    stop(&mut consumer);
    assert_eq!(numbers(&read(&mut consumer)), [1]);
}
