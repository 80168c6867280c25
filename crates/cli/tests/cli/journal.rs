//! The systemd journal, with a separate systemd-journald for the test.

use std::process::Command;

use crate::world::{FERRETTO, Running, World};

/// A script that runs the rest of its arguments with a private journal, once its daemon is ready.
const ALONE: &str = r#"
mount -t tmpfs tmpfs /run && mount -t tmpfs tmpfs /var/log && mkdir -p /run/log/journal || exit 77
/usr/lib/systemd/systemd-journald &
journal=$!
trap 'kill $journal; wait $journal' EXIT
tries=0
until [ -S /run/systemd/journal/stdout ] && journalctl --quiet -n 1 2>/dev/null | grep -q .; do
  sleep 0.05
  tries=$((tries + 1))
  [ $tries -lt 200 ] || exit 77
done
"#;

/// A script that writes a message to the journal, and waits until the journal has it.
const LOG: &str = r#"
echo 'not recorded' | systemd-cat -t other -p err
echo 'too unimportant' | systemd-cat -t ferretto-test -p debug
echo 'hello from the test' | systemd-cat -t ferretto-test -p err
until journalctl --quiet -t ferretto-test -p err | grep -q hello; do sleep 0.02; done
"#;

#[test]
fn probes_067_journal_messages_of_programs_are_in_the_trace() {
    let world = World::new();
    world.write("log", LOG);
    world.write(
        "config",
        "buffers { size_kb: 4096 } data_sources { config { name: \"linux.systemd_journald\" \
         journald_config { min_prio: 4 filter_identifiers: \"ferretto-test\" } } }",
    );
    let script = format!("{ALONE}\n\"$0\" record -c config -o trace.pftrace -- sh log");
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", &script, FERRETTO]);
    let Ok(child) = world.at_home(command).spawn() else {
        println!("skipped: unshare is not installed");
        return;
    };
    let output = Running::new(child).finish();
    if output.code == 77 || output.stderr.contains("unshare:") {
        println!("skipped: a private journal is not possible here: {output:?}");
        return;
    }
    let output = output.returned(0);
    assert!(!output.stderr.contains("is not recorded"), "{output:?}");
    let text = world
        .run("ferretto", &["text", "trace.pftrace"])
        .returned(0);
    assert!(text.text().contains("message: \"hello from the test\""));
    assert!(text.text().contains("tag: \"ferretto-test\""));
    assert!(!text.text().contains("not recorded") && !text.text().contains("too unimportant"));
    assert!(text.text().contains("num_total: 1\n"));
}

#[test]
fn a_missing_journal_is_reported_at_the_start() {
    let world = World::new();
    world.write(
        "config",
        "buffers { size_kb: 4096 } data_sources { config { name: \"linux.systemd_journald\" } }",
    );
    let script = "mount -t tmpfs tmpfs /run && mount -t tmpfs tmpfs /var/log || exit 77\n\
        exec \"$0\" record -c config -o trace.pftrace -- true";
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", script, FERRETTO]);
    let Ok(child) = world.at_home(command).spawn() else {
        println!("skipped: unshare is not installed");
        return;
    };
    let output = Running::new(child).finish();
    if output.code == 77 || output.stderr.contains("unshare:") {
        println!("skipped: journals cannot be hidden here: {output:?}");
        return;
    }
    let reason = "linux.systemd_journald is not recorded: ";
    assert!(output.stderr.contains(reason), "{output:?}");
}
