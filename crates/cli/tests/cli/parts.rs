//! Parts of traces: `ferretto cut`, `split`, `merge`, and recordings in several files.

use std::fs;

use ferretto_wire::encode;

use crate::world::World;

/// Records a command that runs for this number of seconds.
fn record(world: &World, seconds: &str, options: &[&str]) {
    let mut args = vec!["record", "-q", "-o", "t"];
    args.extend(options);
    args.extend(["--", "sleep", seconds]);
    world.run("ferretto", &args).returned(0);
}

#[test]
fn a_part_of_a_recording_is_a_complete_trace_and_the_recording_is_kept() {
    let world = World::new();
    record(&world, "2", &[]);
    let before = fs::metadata(world.path("t")).unwrap().len();
    let cut = ["cut", "t", "--from", "500ms", "--to", "1s", "-o", "p"];
    world.run("ferretto", &cut).returned(0);
    let summary = world.summary("p");
    assert!(summary.packets > 0 && summary.bytes < before, "{summary:?}");
    assert_eq!(fs::metadata(world.path("t")).unwrap().len(), before);
    let onto_itself = ["cut", "t", "--from", "500ms", "-o", "t"];
    world
        .run("ferretto", &onto_itself)
        .returned(1)
        .complained("the same file");
    world
        .run("ferretto", &["cut", "t"])
        .returned(2)
        .complained("--around");
    world
        .run("ferretto", &["split", "t"])
        .returned(2)
        .complained("--size");
    world
        .run("ferretto", &["cut", "t", "--from", "90s"])
        .returned(1)
        .complained("there are no events between these times");
    world
        .run("ferretto", &["cut", "t", "--around", "nothing"])
        .returned(1)
        .complained("no program wrote a slice named nothing");
    world
        .run("ferretto", &["merge", "t", "p", "-o", "m"])
        .returned(0);
    assert!(world.summary("m").packets > summary.packets);
}

#[test]
fn a_recording_in_several_files_keeps_the_newest_and_each_is_a_complete_trace() {
    let world = World::new();
    record(&world, "5", &["--segment", "1s", "--keep", "2"]);
    let names = world.names();
    assert_eq!(names.len(), 2, "{names:?}");
    assert!(!names.contains(&"t-000".to_owned()), "{names:?}");
    for name in &names {
        let summary = world.summary(name);
        let mut sources = summary.sources.iter();
        let names = "linux.process_stats";
        assert!(
            sources.any(|it| it.name == names && it.events > 0),
            "{name}"
        );
    }
}

#[test]
fn a_trace_in_chromes_format_has_its_slices_and_counters() {
    let world = World::new();
    let events = r#"{"traceEvents":[
        {"ph":"X","name":"outer \"it\"","pid":1,"tid":2,"ts":1.5,"dur":10,"args":{"n":7}},
        {"ph":"i","name":"now","pid":1,"tid":2,"ts":3,"s":"t"},
        {"ph":"C","name":"level","pid":1,"ts":4,"args":{"value":2.5}}]}"#;
    fs::write(world.path("in.json"), events).unwrap();
    for (from, to) in [("in.json", "once.json"), ("once.json", "twice.json")] {
        world.run("ferretto", &["json", from, "-o", to]).returned(0);
        let text = fs::read_to_string(world.path(to)).unwrap();
        let json: serde_json::Value = serde_json::from_str(&text).unwrap();
        let all = json["traceEvents"].as_array().unwrap();
        let of = |phase: &str| all.iter().find(|it| it["ph"] == phase).unwrap();
        let slice = of("X");
        assert_eq!(slice["name"], "outer \"it\"");
        assert_eq!((&slice["pid"], &slice["tid"]), (&1.into(), &2.into()));
        assert_eq!(slice["dur"], 10.0);
        assert!(slice["args"].to_string().contains('7'), "{slice}");
        assert_eq!(of("i")["name"], "now");
        assert_eq!(of("C")["args"]["value"], 2.5);
    }
}

#[test]
fn parts_may_be_written_to_standard_output_and_errors_have_the_reason() {
    let world = World::new();
    let trace = encode(|trace| {
        trace.nested(1, |packet| {
            packet.nested(6, |snapshot| {
                for clock in [1, 6] {
                    snapshot.nested(1, |reading| {
                        reading.varint(1, clock);
                        reading.varint(2, 1_000_000_000 * (7 - clock));
                    });
                }
            });
        });
        for second in 1..=3u64 {
            trace.nested(1, |packet| {
                packet.varint(8, second * 1_000_000_000);
                packet.varint(10, 1);
                packet.nested(11, |event| event.varint(9, 3));
            });
        }
    });
    world.write("t", &trace);
    for command in [
        &["cut", "t", "--to", "1s", "-o", "-"][..],
        &["merge", "t", "t", "-o", "-"],
    ] {
        let part = world.run("ferretto", command).returned(0);
        assert!(!part.stdout.is_empty(), "{command:?}");
        let mut full = world.command("ferretto", command);
        full.stdout(
            fs::OpenOptions::new()
                .write(true)
                .open("/dev/full")
                .unwrap(),
        );
        let full = full.stderr(std::process::Stdio::piped()).output().unwrap();
        assert_eq!(full.status.code(), Some(1), "{command:?}");
    }
    assert_eq!(world.names(), ["t"]);
    for (args, complaint) in [
        (
            &["--from", "9s"][..],
            "cannot cut t: there are no events between",
        ),
        (&["--from", "2s", "--to", "1s"], "--from is after --to"),
    ] {
        let outcome = world.run("ferretto", &[&["cut", "t"], args].concat());
        outcome.returned(1).complained(complaint);
    }
}

#[test]
fn a_recording_ends_at_a_size() {
    let world = World::new();
    let args = ["record", "-q", "-o", "t", "--until-size", "40KB"];
    world.run("ferretto", &args).returned(0);
    assert!(fs::metadata(world.path("t")).unwrap().len() < 40_960);
    // A normal end, whose statistics are in the file.
    let summary = world.run("ferretto", &["summary", "t"]).returned(0);
    let text = summary.text();
    assert!(text.contains("when its file reached its limit"), "{text}");
    assert!(!text.contains("the service was killed"), "{text}");
    assert!(!text.contains("final statistics"), "{text}");
}

#[test]
fn parts_do_not_replace_the_trace_that_is_split_nor_what_is_no_file() {
    let world = World::new();
    let mut args = vec!["record", "-q", "-o", "x-000"];
    args.extend(["-d", "100ms"]);
    world.run("ferretto", &args).returned(0);
    let trace = world.read("x-000");
    for input in ["x-000", "./x-000"] {
        let split = ["split", input, "--every", "1s", "-o", "x"];
        let outcome = world.run("ferretto", &split);
        outcome.returned(1).complained("the same file as the input");
        assert_eq!(world.read("x-000"), trace);
    }
    fs::create_dir(world.path("y-000")).unwrap();
    let split = ["split", "x-000", "--every", "1s", "-o", "y"];
    let outcome = world.run("ferretto", &split);
    outcome.returned(1).complained("it is a directory");
    let made = std::process::Command::new("mkfifo")
        .arg(world.path("z-000"))
        .status();
    assert!(made.unwrap().success());
    for command in [
        &["split", "x-000", "--every", "1s", "-o", "z"][..],
        &["record", "-d", "100ms", "--segment", "1s", "-o", "z"],
    ] {
        let outcome = world.run("ferretto", command);
        outcome.returned(1).complained("it is not a file");
    }
    assert!(!world.names().iter().any(|name| name.ends_with(".part")));
}
