//! `ferretto doctor`.

use crate::users::as_nobody;
use crate::world::World;

#[test]
fn the_doctor_reports_all_checks_and_returns_0_or_3() {
    let world = World::new();
    let output = world.run("ferretto", &["doctor"]);
    let text = output.text();
    for name in [
        "kernel",
        "kernel events",
        "journal",
        "callstacks",
        "locked memory",
        "system service",
        "this folder",
    ] {
        assert!(
            text.lines().any(|line| line.contains(name)),
            "no {name} in:\n{text}"
        );
    }
    let all_work = text.ends_with("Everything can be recorded here.\n");
    assert_eq!(output.code, if all_work { 0 } else { 3 }, "{text}");
    assert_eq!(output.stderr, "");
}

#[test]
fn failed_checks_name_a_command_that_helps() {
    let world = World::new();
    if as_nobody(world.command("ferretto", &["--version"])).is_none() {
        println!("skipped: others may not run the binary where it is");
        return;
    }
    let output = as_nobody(world.command("ferretto", &["doctor", "--json"]))
        .unwrap()
        .returned(3);
    let found: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(found["works"], false);
    let checks = found["checks"].as_array().expect("a list");
    let bad = checks.iter().filter(|check| check["state"] != "ok");
    for check in bad {
        assert!(
            check["effect"]
                .as_str()
                .is_some_and(|effect| !effect.is_empty()),
            "{check}"
        );
        assert!(
            check["remedies"]
                .as_array()
                .is_some_and(|all| !all.is_empty()),
            "{check}"
        );
    }
    let folder = checks.iter().find(|check| check["name"] == "this folder");
    assert_eq!(
        folder.expect("a check")["state"],
        "missing",
        "another user's folder"
    );
}
