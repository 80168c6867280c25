//! `ferretto assert` on traces of a few events.

use crate::commands::{LOCK, write};
use crate::world::World;

#[test]
fn rules_decide_the_exit_code() {
    let world = World::new();
    write(&world, LOCK);
    // The slice takes 4.2 µs.
    world.write(
        "good",
        "[[rule]]\nname = \"fast\"\nslice = \"sys_futex\"\nmeasure = \"max\"\nmax = \"5us\"\n",
    );
    world.write(
        "bad",
        "[[rule]]\nname = \"a <&> b\"\nslice = \"sys_futex\"\nmax = \"4us\"\n",
    );
    world.write("unknown", "[[rule]]\nslice = \"nothing\"\nmax = \"4us\"\n");
    let good = world.run("ferretto", &["assert", "good", "t"]).returned(0);
    assert_eq!(good.text(), "ok       fast: 0.004 ms (t)\n");
    let bad = [
        "assert",
        "--junit",
        "j.xml",
        "--markdown",
        "m.md",
        "bad",
        "t",
        "t",
    ];
    let bad = world.run("ferretto", &bad).returned(1);
    assert!(
        bad.text()
            .contains("FAILED   a <&> b: 0.004 ms is more than 0.004 ms (t)"),
        "{bad:?}"
    );
    let junit = String::from_utf8(world.read("j.xml")).expect("text");
    assert!(
        junit.contains("tests=\"2\" failures=\"2\" errors=\"0\""),
        "{junit}"
    );
    assert!(
        junit.contains("name=\"a &lt;&amp;&gt; b\"><failure message="),
        "{junit}"
    );
    let markdown = String::from_utf8(world.read("m.md")).expect("text");
    assert!(markdown.contains("| FAILED | a \\<&\\> b |"), "{markdown}");
    let unknown = world
        .run("ferretto", &["assert", "unknown", "t"])
        .returned(2);
    assert!(
        unknown
            .text()
            .contains("the recording has no slice nothing"),
        "{unknown:?}"
    );
}

#[test]
fn what_cannot_be_judged_is_told() {
    let mut world = World::new();
    write(&world, LOCK);
    world.write("wrong", "[[rule]]\nslice = 5\n");
    world.write("query", "[[rule]]\nsql = \"SELECT 1\"\nmax = 1\n");
    let error = |world: &World, args: &[&str], expected: &str| {
        let words = [&["assert"], args].concat();
        world
            .run("ferretto", &words)
            .returned(2)
            .complained(expected);
    };
    error(
        &world,
        &["wrong", "t"],
        "wrong: line 2: slice has to be a text",
    );
    error(&world, &["nothing", "t"], "cannot read nothing");
    error(&world, &["wrong", "--junit"], "value is required");
    // A recording in place of the rules.
    world.write("binary", b"\n\x03\x08\xff\x01");
    let expected = "binary is not a file of rules, which is a text";
    error(&world, &["--calibrate", "c", "binary", "t"], expected);
    world.write("large", vec![b'#'; (1 << 20) + 1]);
    error(&world, &["large", "t"], "large is not a file of rules");
    world.set("PATH", "/nowhere");
    if !world.path("ferretto-query").exists() {
        error(&world, &["query", "t"], "ferretto-query is not installed");
    }
}

#[test]
fn calibrated_rules_hold_for_the_same() {
    let world = World::new();
    write(&world, LOCK);
    world.write(
        "rules",
        "[[rule]]\nslice = \"sys_futex\"\nmeasure = \"p99\"\n[[rule]]\nmeasure = \"loss\"\n",
    );
    let calibrate = [
        "assert",
        "--calibrate",
        "calibrated",
        "rules",
        "t",
        "t",
        "t",
    ];
    world.run("ferretto", &calibrate).returned(0);
    world
        .run("ferretto", &["assert", "calibrated", "t"])
        .returned(0);
    // Patterns are expanded, also those that a shell would.
    for name in ["t-1", "t-2", "t-3"] {
        world.write(name, world.read("t"));
    }
    world.write("t-x", "no trace");
    let patterns = ["assert", "--calibrate", "by-pattern", "rules", "t-[1-3]"];
    world.run("ferretto", &patterns).returned(0);
    assert_eq!(world.read("by-pattern"), world.read("calibrated"));
    // Without bounds, nothing can be judged.
    world.run("ferretto", &["assert", "rules", "t"]).returned(2);
    world
        .run("ferretto", &["assert", "--calibrate", "c", "rules", "t"])
        .returned(2)
        .complained("at least two recordings");
}

/// Recordings that lost data measure something else.
#[test]
fn recordings_that_lost_data_count_for_no_bound() {
    let world = World::new();
    write(
        &world,
        &LOCK.replacen("cpu: 0", "cpu: 0 lost_events: true", 1),
    );
    world.write("lost", world.read("t"));
    write(&world, LOCK);
    let rules = "[[rule]]\nslice = \"sys_futex\"\nmeasure = \"max\"\n";
    world.write("rules", rules);
    let calibrate = |output, files: &[&str]| {
        let words = [&["assert", "--json", "--calibrate", output, "rules"], files].concat();
        world.run("ferretto", &words)
    };
    let with = calibrate("with", &["t", "lost", "t", "t"])
        .returned(0)
        .complained("lost: it lost data, and so it counts for no bound");
    let answer: serde_json::Value = serde_json::from_str(with.text()).expect("JSON");
    let left_out = |at: usize| &answer["recordings"][at]["left_out"];
    assert!(left_out(0).is_null(), "{answer}");
    assert_eq!(left_out(1), "it lost data");
    assert_eq!(answer["rules"][0]["unit"], "ns");
    assert!(
        answer["rules"][0]["max"].as_f64() > Some(4200.0),
        "{answer}"
    );
    assert!(answer["rules"][0]["remark"].is_null(), "{answer}");
    calibrate("without", &["t", "t", "t"]).returned(0);
    assert_eq!(world.read("with"), world.read("without"));
    calibrate("one", &["t", "lost"])
        .returned(2)
        .complained("at least two recordings of the same that lost no data");
}

#[test]
fn bounds_of_recordings_that_differ_much_have_a_remark() {
    let world = World::new();
    for (name, end) in [("1", "6100"), ("2", "16100"), ("3", "466100")] {
        // The call takes 4.2, 14.2 and 464.2 µs.
        let longer = LOCK.replace("timestamp: 6100", &format!("timestamp: {end}"));
        write(
            &world,
            &longer.replace("timestamp: 7000", "timestamp: 467000"),
        );
        world.write(name, world.read("t"));
    }
    world.write(
        "rules",
        "[[rule]]\nname = \"calls\"\nslice = \"sys_futex\"\n",
    );
    let words = ["assert", "--calibrate", "bounds", "rules", "1", "2", "3"];
    world
        .run("ferretto", &words)
        .returned(0)
        .complained("calls: the bound");
    let text = String::from_utf8(world.read("bounds")).expect("text");
    assert!(text.starts_with("# the bound"), "{text}");
    assert!(
        text.contains("times the greatest value of 3 recordings"),
        "{text}"
    );
    // The remark is no part of the rules.
    world
        .run("ferretto", &["assert", "bounds", "3"])
        .returned(0);
}
