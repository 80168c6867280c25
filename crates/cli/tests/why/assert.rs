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
