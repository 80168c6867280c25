//! One program, recorded by our in-process service, by our service in another process, and by
//! upstream's. All traces have the same contents. Upstream's importer also reads the same contents
//! as for the equivalent program with the official SDK, if `FERRETTO_UPSTREAM` is the folder of
//! upstream's programs.

mod decoded;
mod imported;

use std::process::Command;

use ferretto_interop::config::config;
use ferretto_interop::importer::Importer;
use ferretto_interop::{Cast, Programs, Side, World};
use imported::show;

const PROGRAMS: Programs = Programs {
    ours: env!("CARGO_BIN_EXE_ours"),
    official: env!("CARGO_BIN_EXE_official"),
};

/// Returns a trace of a producer that ran these commands, recorded by a service.
fn record(service: Side, producer: Side, commands: &[&str]) -> Vec<u8> {
    let cast = Cast {
        service,
        producer: producer.into(),
        consumer: Side::Ours,
    };
    let world = World::new(cast, PROGRAMS);
    let mut program = world.producer();
    let mut consumer = world.consumer();
    world.start_session(&mut consumer, &config(4096));
    program.run("await-start 1");
    for command in commands {
        program.run(command);
    }
    assert_eq!(consumer.run("flush"), "true");
    world.stop_and_read(&mut consumer)
}

/// Returns the trace of the program that records itself.
fn record_inside() -> Vec<u8> {
    let file = tempfile::NamedTempFile::new().expect("a temporary file");
    let mut program = Command::new(PROGRAMS.ours);
    let status = program.arg("inside").arg(file.path()).status();
    assert!(status.expect("it runs").success());
    std::fs::read(file.path()).expect("the trace was written")
}

const EVERYTHING: [&str; 2] = ["script", "more"];

#[test]
fn all_services_record_the_same_contents() {
    let ours = decoded::lines(&record(Side::Ours, Side::Ours, &EVERYTHING));
    let official = decoded::lines(&record(Side::Official, Side::Ours, &EVERYTHING));
    assert_eq!(ours.len(), 37, "{ours:#?}");
    assert_eq!(ours, official);
    assert_eq!(decoded::lines(&record_inside()), ours);
}

#[test]
fn upstream_imports_the_same_contents_with_either_sdk() {
    let Some(importer) = Importer::from_environment() else {
        println!("skipped: FERRETTO_UPSTREAM does not name the folder of upstream's programs");
        return;
    };
    let expected = show(
        &importer,
        &record(Side::Official, Side::Official, &["script"]),
    );
    expected.assert_whole();
    for service in [Side::Official, Side::Ours] {
        let shown = show(&importer, &record(service, Side::Ours, &["script"]));
        assert_eq!(shown, expected, "recorded by the service of {service:?}");
    }
    for trace in [record(Side::Ours, Side::Ours, &EVERYTHING), record_inside()] {
        let all = show(&importer, &trace);
        assert_eq!(all.complaints, Vec::<String>::new());
    }
}
