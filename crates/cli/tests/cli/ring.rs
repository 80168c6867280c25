//! The flight recorder: `ferretto record --ring`.

use rustix::process::Signal;

use crate::world::World;

fn has_processes(world: &World, name: &str) -> bool {
    let summary = world.summary(name);
    assert!(summary.losses_known(), "{:?}", summary.unknown);
    let mut sources = summary.sources.iter();
    sources.any(|source| source.name == "linux.process_stats" && source.events > 0)
}

#[test]
fn a_snapshot_is_written_on_request_and_the_ring_continues() {
    let world = World::new();
    // The command runs once the recording has started.
    let script = "kill -USR1 $PPID; until [ -s t.0 ]; do sleep 0.05; done";
    let args = [
        "record", "--ring", "8MB", "-o", "t", "--", "sh", "-c", script,
    ];
    world
        .run("ferretto", &args)
        .returned(0)
        .complained("t.0: a snapshot, for the trigger SIGUSR1");
    assert!(has_processes(&world, "t.0"));
    assert!(has_processes(&world, "t"));
    assert_eq!(world.names(), ["t", "t.0"]);
}

#[test]
fn a_condition_writes_one_snapshot_while_it_stays_true() {
    let world = World::new();
    let own = std::process::id();
    let condition = format!("rss({own})>1KB");
    let script = "until [ -s t.0 ]; do sleep 0.05; done";
    let args = [
        "record", "--ring", "8MB", "--when", &condition, "-o", "t", "--", "sh", "-c", script,
    ];
    let output = world.run("ferretto", &args).returned(0);
    let output = output.complained(&format!("for the trigger {condition}"));
    assert_eq!(
        output.stderr.matches("a snapshot, for").count(),
        1,
        "{}",
        output.stderr
    );
}

#[test]
fn a_successful_command_leaves_no_file_with_the_condition_on_failure() {
    let world = World::new();
    let run = |code: &str| {
        let args = [
            "record", "--ring", "8MB", "--when", "exit!=0", "-o", "t", "--", "sh", "-c", code,
        ];
        world.run("ferretto", &args)
    };
    run("exit 0")
        .returned(0)
        .complained("the command succeeded");
    assert_eq!(world.names(), [] as [&str; 0]);
    run("exit 4").returned(4);
    assert!(has_processes(&world, "t"));
}

#[test]
fn a_ring_is_written_when_a_signal_ends_it() {
    let world = World::new();
    let ring = world.start(
        "ferretto",
        &["record", "--ring", "8MB", "-o", "t", "--when", "load>1e9"],
    );
    // SIGTERM, since background jobs of scripts start with SIGINT ignored.
    // If the recording has started, it is written; otherwise there is no file.
    ring.signal(Signal::TERM);
    let output = ring.finish();
    assert!([0, 143].contains(&output.code), "{output:?}");
}

#[test]
fn signals_other_than_ctrl_c_end_a_ring_and_write_it() {
    for name in ["QUIT", "USR2"] {
        let world = World::new();
        let script = format!("kill -{name} $PPID; while :; do sleep 0.05; done");
        let args = [
            "record", "--ring", "8MB", "-o", "t", "--", "sh", "-c", &script,
        ];
        // The command is terminated, too.
        world.run("ferretto", &args).returned(128 + 15);
        assert!(has_processes(&world, "t"), "{name}");
        assert_eq!(world.names(), ["t"]);
    }
}

#[test]
fn rings_that_cannot_work_are_refused() {
    let world = World::new();
    for (args, sentence) in [
        (&["--ring", "1KB"][..], "from 4M"),
        (&["--ring", "8"], "missing unit"),
        (&["--when", "load>4"], "--ring"),
        (&["--ring", "8MB", "--when", "laod>4"], "psi.cpu>20"),
        (
            &["--ring", "8MB", "--when", "rss(999999999)>1GB"],
            "no process 999999999",
        ),
        (&["--ring", "8MB", "--when", "exit!=0"], "give one after --"),
        (&["--ring", "8MB", "-o", "-"], "give one with -o"),
    ] {
        let output = world.run("ferretto", &[&["record"], args].concat());
        assert!(output.code != 0, "{args:?}");
        output.complained(sentence);
    }
    assert_eq!(world.names(), [] as [&str; 0]);
}
