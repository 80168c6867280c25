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
fn changes_of_callstacks_are_drawn() {
    let world = World::new();
    world.write("a1", "main;parse 60\nmain;render 40\n");
    world.write("a2", "main;parse 66\nmain;render 34\n");
    world.write("b1", "main;parse 90\nmain;render 30\n");
    world.write("b2", "main;parse 90\nmain;validate 30\n");
    let draw = |before: &str, after: &str| {
        let sets = ["--before", before, "--after", after];
        diff(&world, &[&sets[..], &["--flamegraph", "x.svg"]].concat());
        String::from_utf8(world.read("x.svg")).expect("text")
    };
    let image = draw("a?", "b?");
    for text in [
        "2 recordings, compared with 2 recordings",
        "validate",
        "parse",
    ] {
        assert!(image.contains(text), "{image}");
    }
    assert!(draw("a1", "b1").contains("b1, compared with a1"));
    // A page shows the same image, and loads nothing.
    diff(&world, &["a1", "b1", "--flamegraph", "x.html"]);
    let page = String::from_utf8(world.read("x.html")).expect("text");
    assert!(page.starts_with("<!DOCTYPE html>"), "{page}");
    let image = String::from_utf8(world.read("x.svg")).expect("text");
    let (_, shown) = image.split_once("?>\n").expect("a declaration");
    assert!(page.contains(shown), "{page}");
    for loads in ["src=", "href=", "url("] {
        assert!(!page.contains(loads), "{page}");
    }
    write(&world, LOCK);
    world
        .run("ferretto", &["diff", "t", "t", "--flamegraph", "y.svg"])
        .returned(1)
        .complained("t has no callstack samples");
    // Recordings are not overwritten.
    world
        .run("ferretto", &["diff", "a1", "b1", "--flamegraph", "a1"])
        .returned(1);
    assert_eq!(world.read("a1"), b"main;parse 60\nmain;render 40\n");
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
    let reversed = [
        "diff",
        "t",
        "--before-range",
        "5s..1s",
        "--after-range",
        "5s..",
    ];
    let finished = world.run("ferretto", &reversed);
    finished.returned(2).complained("it ends before it begins");
    error(
        &["t", "--before-range", "..1s", "--after-range", "5s.."],
        "t has no events in this range",
    );
}
