//! Recordings in several files: `ferretto record --segment`.

use ferretto_tables::{Options, Trace};
use rustix::process::Signal;

use crate::record::COUNTERS;
use crate::world::{Running, World, until};

/// Starts a recording, and waits for its first complete file.
fn started(world: &World, options: &[&str]) -> Running {
    world.write("config", COUNTERS);
    let mut args = vec!["record", "-c", "config", "--segment", "1s", "-o", "t"];
    args.extend(options);
    let running = world.start("ferretto", &args);
    until("a file is complete", || {
        world.path("t-000").exists().then_some(())
    });
    running
}

/// Returns the names of the files; fails if one is not complete.
#[track_caller]
fn files(world: &World) -> Vec<String> {
    let mut names = world.names();
    names.retain(|name| name.starts_with("t-"));
    assert!(
        !names.iter().any(|name| name.ends_with(".part")),
        "{names:?}"
    );
    names
}

// SIGHUP is not among them, as these tests may run under `nohup`.
#[test]
fn signals_end_a_recording_in_several_files_and_completes_them() {
    for signal in [
        Signal::INT,
        Signal::TERM,
        Signal::QUIT,
        Signal::USR1,
        Signal::USR2,
    ] {
        let world = World::new();
        let recording = started(&world, &[]);
        recording.signal(signal);
        recording.finish().returned(0).complained("no data lost");
        let files = files(&world);
        assert!(files.len() > 1, "{signal:?}: {files:?}");
        for file in &files {
            assert!(world.summary(file).packets > 0, "{signal:?}: {file}");
        }
        let last = world.summary(files.last().unwrap());
        assert!(last.losses_known(), "{signal:?}: {:?}", last.unknown);
    }
}

#[test]
fn every_file_names_the_processes_of_the_machine() {
    let world = World::new();
    let recording = started(&world, &[]);
    until("a second file is complete", || {
        world.path("t-001").exists().then_some(())
    });
    recording.signal(Signal::INT);
    recording.finish().returned(0);
    for file in files(&world) {
        let trace = Trace::read(&world.read(&file)[..], &Options::default()).unwrap();
        let processes = &trace.tables().process;
        let own = i64::from(std::process::id());
        let row = (0..processes.len()).find(|row| processes.pid().get(*row) == own);
        let name = row.map(|row| trace.strings().text(processes.name().get(row)));
        assert!(name.is_some_and(|name| !name.is_empty()), "{file}");
    }
}

#[test]
fn a_killed_service_leaves_complete_files_and_the_loss_is_told() {
    let world = World::new();
    let service = world.start_daemon("traced", &[], "TRACED_NOTIFY_FD");
    let probes = world.start_daemon("traced_probes", &[], "TRACED_PROBES_NOTIFY_FD");
    let recording = started(&world, &["--system"]);
    service.signal(Signal::KILL);
    recording
        .finish()
        .returned(1)
        .complained("the connection to the tracing service was lost")
        .complained("the data recorded so far is in the parts of t");
    drop(probes);
    let files = files(&world);
    let last = world.summary(files.last().unwrap());
    assert!(last.packets > 0);
    let unknown = last.unknown.join(" ");
    assert!(!last.is_complete(), "{unknown}");
}

#[test]
fn two_recordings_do_not_write_the_same_files() {
    let world = World::new();
    let first = started(&world, &[]);
    let args = ["record", "-c", "config", "--segment", "1s", "-o", "t"];
    world
        .run("ferretto", &args)
        .returned(1)
        .complained("another recording writes the parts of t");
    first.signal(Signal::INT);
    first.finish().returned(0);
    assert!(files(&world).contains(&"t-000".to_owned()));
}

#[test]
fn a_config_that_does_not_write_while_it_records_is_refused() {
    let world = World::new();
    world.write("config", "buffers { size_kb: 64 }");
    let args = ["record", "-c", "config", "--segment", "1s", "-o", "t"];
    let output = world.run("ferretto", &args).returned(1);
    output.complained("write_into_file: true");
    assert_eq!(world.names(), ["config"]);
}
