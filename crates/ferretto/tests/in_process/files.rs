//! Sessions that write into files.

use std::io::Read as _;
use std::os::fd::OwnedFd;
use std::sync::mpsc;

use ferretto::in_process::InProcess;
use ferretto_client::{Consumer, ExhaustedPolicy, TraceWriter};
use ferretto_proto::TraceConfig;

use super::world::*;

const STALL: ExhaustedPolicy = ExhaustedPolicy::StallThenAbort;

/// Returns an unnamed file.
fn file() -> std::fs::File {
    let flags = rustix::fs::MemfdFlags::CLOEXEC;
    rustix::fs::memfd_create("trace", flags).unwrap().into()
}

fn into_file(buffer_kb: u32) -> TraceConfig {
    TraceConfig {
        write_into_file: Some(true),
        file_write_period_ms: Some(100),
        flush_period_ms: Some(100),
        ..config(buffer_kb)
    }
}

fn contents(file: &std::fs::File) -> Vec<u8> {
    use std::os::unix::fs::FileExt as _;
    let mut bytes = vec![0; usize::try_from(file.metadata().unwrap().len()).unwrap()];
    file.read_exact_at(&mut bytes, 0).unwrap();
    bytes
}

/// Starts a recording and creates a writer for this thread.
fn recording(
    service: &InProcess,
    config: TraceConfig,
    file: Option<OwnedFd>,
) -> (Recorder, Consumer, TraceWriter) {
    let (sender, targets) = mpsc::channel();
    let recorder = Recorder::start(service, STALL, move |writer| {
        sender.send(writer.target_buffer()).unwrap();
    });
    let mut consumer = consumer(service);
    consumer.enable_tracing(config, file).unwrap();
    let target = targets.recv_timeout(LIMIT).unwrap().into();
    let writer = recorder.handle.create_writer(target, STALL);
    (recorder, consumer, writer)
}

#[test]
fn a_long_recording_goes_into_its_file_piece_by_piece() {
    // More in total than the buffer holds.
    const ROUNDS: u32 = 5;
    const PACKETS: u32 = 200;
    let service = InProcess::new();
    let file = file();
    let output = file.try_clone().unwrap().into();
    let (_recorder, mut consumer, mut writer) = recording(&service, into_file(256), Some(output));
    for round in 0..ROUNDS {
        for number in 0..PACKETS {
            write(&mut writer, round * PACKETS + number, 500);
        }
        writer.flush(None);
        let wanted = u64::from((round + 1) * PACKETS * 500);
        while file.metadata().unwrap().len() < wanted {
            std::thread::yield_now();
        }
    }
    drop(writer);
    stop(&mut consumer);
    let got = numbers(&packets_of(&contents(&file)));
    assert_eq!(got, (0..ROUNDS * PACKETS).collect::<Vec<_>>());
}

#[test]
fn a_session_ends_by_itself_and_completes_its_file() {
    let service = InProcess::new();
    let file = file();
    let _recorder = Recorder::start(&service, STALL, |writer| write(writer, 1, 10));
    let mut consumer = consumer(&service);
    let config = TraceConfig {
        duration_ms: Some(20),
        ..into_file(64)
    };
    consumer
        .enable_tracing(config, Some(file.try_clone().unwrap().into()))
        .unwrap();
    wait_for_end(&mut consumer);
    assert_eq!(numbers(&packets_of(&contents(&file))), [1]);
}

#[test]
fn the_service_creates_the_file_a_config_names() {
    let folder = std::env::temp_dir().join(format!("ferretto-in-process-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join("trace");
    let service = InProcess::new();
    let _recorder = Recorder::start(&service, STALL, |writer| write(writer, 1, 10));
    let config = TraceConfig {
        output_path: Some(path.to_str().unwrap().into()),
        ..into_file(64)
    };
    let mut first = consumer(&service);
    start(&mut first, config.clone());
    stop(&mut first);
    let written = std::fs::read(&path).unwrap();
    // The file exists now.
    let mut second = consumer(&service);
    second.enable_tracing(config, None).unwrap();
    let end = second.wait_for_end(LIMIT).unwrap().expect("an end");
    let unchanged = std::fs::read(&path).unwrap() == written;
    std::fs::remove_dir_all(&folder).unwrap();
    assert_eq!(numbers(&packets_of(&written)), [1]);
    assert!(end.error().is_some() && unchanged);
}

#[test]
fn a_full_disk_ends_the_session_with_an_error() {
    let Ok(full) = std::fs::OpenOptions::new().write(true).open("/dev/full") else {
        println!("skipped: /dev/full does not exist");
        return;
    };
    let service = InProcess::new();
    let _recorder = Recorder::start(&service, STALL, |writer| write(writer, 1, 10));
    let mut consumer = consumer(&service);
    consumer
        .enable_tracing(into_file(64), Some(full.into()))
        .unwrap();
    let end = consumer.wait_for_end(LIMIT).unwrap().expect("an end");
    let error = end.error().expect("an error");
    assert!(error.contains("No space left"), "{error}");
}

#[test]
fn the_end_of_the_service_completes_its_files() {
    let service = InProcess::new();
    let (mut reader, output) = std::io::pipe().unwrap();
    let (recorder, consumer, mut writer) = recording(&service, into_file(64), Some(output.into()));
    write(&mut writer, 1, 10);
    drop((writer, recorder, consumer, service));
    let mut trace = Vec::new();
    reader.read_to_end(&mut trace).unwrap();
    assert_eq!(numbers(&packets_of(&trace)), [1]);
}
