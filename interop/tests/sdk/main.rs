//! One program, recorded in every way: by our service inside of it, by our service beside it, and
//! by upstream's. All traces say the same. And upstream's importer shows the same of it as of its
//! equal on the official SDK, if `FERRETTO_UPSTREAM` names the folder of upstream's programs.

mod decoded;
mod imported;

use std::process::Command;

use ferretto_interop::config::config;
use ferretto_interop::importer::Importer;
use ferretto_interop::{Cast, Programs, Whose, World};
use imported::show;

const PROGRAMS: Programs = Programs {
    ours: env!("CARGO_BIN_EXE_ours"),
    official: env!("CARGO_BIN_EXE_official"),
};

/// Returns a trace of a producer that did these commands, recorded by a service.
fn record(service: Whose, producer: Whose, commands: &[&str]) -> Vec<u8> {
    let cast = Cast {
        service,
        producer: producer.into(),
        consumer: Whose::Ours,
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
fn every_service_records_the_same_of_one_program() {
    let ours = decoded::lines(&record(Whose::Ours, Whose::Ours, &EVERYTHING));
    let official = decoded::lines(&record(Whose::Official, Whose::Ours, &EVERYTHING));
    assert_eq!(ours.len(), 37, "{ours:#?}");
    assert_eq!(ours, official);
    assert_eq!(decoded::lines(&record_inside()), ours);
}

#[test]
fn upstream_shows_the_same_of_a_program_on_either_sdk() {
    let Some(importer) = Importer::from_environment() else {
        println!("skipped: FERRETTO_UPSTREAM does not name the folder of upstream's programs");
        return;
    };
    let expected = show(
        &importer,
        &record(Whose::Official, Whose::Official, &["script"]),
    );
    expected.assert_whole();
    for service in [Whose::Official, Whose::Ours] {
        let shown = show(&importer, &record(service, Whose::Ours, &["script"]));
        assert_eq!(shown, expected, "recorded by the service of {service:?}");
    }
    for trace in [
        record(Whose::Ours, Whose::Ours, &EVERYTHING),
        record_inside(),
    ] {
        let all = show(&importer, &trace);
        assert_eq!(all.complaints, Vec::<String>::new());
    }
}
