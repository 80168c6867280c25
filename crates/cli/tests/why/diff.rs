//! `ferretto diff` on traces of a few events.

use serde_json::Value;

use crate::commands::{LOCK, write};
use crate::world::World;

fn diff(world: &World, args: &[&str]) -> String {
    let finished = world.run("ferretto", &[&["diff"], args].concat());
    finished.returned(0).text().to_owned()
}

#[test]
fn a_trace_does_not_differ_from_itself() {
    let world = World::new();
    write(&world, LOCK);
    let text = diff(&world, &["t", "t"]);
    assert!(text.starts_with("No change found"), "{text}");
    let sets = diff(&world, &["--before", "?", "t", "--after", "t*"]);
    assert!(sets.contains("(2 and 1 recording)"), "{sets}");
}

#[test]
fn ranges_of_a_trace_are_compared() {
    let world = World::new();
    write(&world, LOCK);
    // The lock is held in the second range only.
    let ranges = [
        "t",
        "--before-range",
        "1000..2000",
        "--after-range",
        "2000..5000",
    ];
    let json = diff(&world, &[&ranges[..], &["--json"]].concat());
    let json: Value = serde_json::from_str(&json).expect("JSON");
    assert_eq!(json["scope"], "period");
    let changes = json["changes"].as_array().expect("a list");
    let wait = changes
        .iter()
        .find(|it| it["kind"] == "wait")
        .expect("a wait");
    assert_eq!(
        (&wait["thread"], &wait["name"]),
        (&"a".into(), &"waited for a lock, until woken by b".into())
    );
    let markdown = diff(&world, &[&ranges[..], &["--markdown"]].concat());
    assert!(
        markdown.contains("| a: waited for a lock, until woken by b |"),
        "{markdown}"
    );
}

#[test]
fn what_cannot_be_compared_is_an_error() {
    let world = World::new();
    write(&world, LOCK);
    let error = |args: &[&str], expected: &str| {
        let words = [&["diff"], args].concat();
        world
            .run("ferretto", &words)
            .returned(1)
            .complained(expected);
    };
    // Wrong numbers of arguments are the user's, not the files'.
    for args in [&["diff"][..], &["diff", "t"]] {
        let finished = world.run("ferretto", args);
        finished.returned(2).complained("name two recordings");
    }
    error(&["t", "nothing"], "cannot open nothing");
    error(&["--before", "x*", "--after", "t"], "no file matches x*");
    error(
        &["t", "--before-range", "..1s", "--after-range", "5s.."],
        "t has no events in this range",
    );
}
