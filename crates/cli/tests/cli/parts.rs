//! Parts of traces: `ferretto cut`, `split`, `merge`, and recordings in several files.

use std::fs;

use crate::world::World;

/// Records a command that lives for so many seconds.
fn record(world: &World, seconds: &str, options: &[&str]) {
    let mut args = vec!["record", "-q", "-o", "t"];
    args.extend(options);
    args.extend(["--", "sleep", seconds]);
    world.run("ferretto", &args).returned(0);
}

#[test]
fn the_part_of_a_recording_opens_alone_and_the_recording_stays() {
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
        .run("ferretto", &["cut", "t", "--from", "90s"])
        .returned(1)
        .complained("nothing lies between these times");
    world
        .run("ferretto", &["cut", "t", "--around", "nothing"])
        .returned(1)
        .complained("no program wrote a slice called nothing");
    world
        .run("ferretto", &["merge", "t", "p", "-o", "m"])
        .returned(0);
    assert!(world.summary("m").packets > summary.packets);
}

#[test]
fn a_recording_in_several_files_leaves_the_newest_and_each_opens_alone() {
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
fn a_recording_ends_at_a_size() {
    let world = World::new();
    let args = ["record", "-q", "-o", "t", "--until-size", "1MB"];
    world.run("ferretto", &args).returned(0);
    assert!(fs::metadata(world.path("t")).unwrap().len() <= 1 << 20);
}
