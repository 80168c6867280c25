//! Tests of the permissions of other users of the machine.

use std::fs::{Permissions, set_permissions};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::os::unix::process::CommandExt as _;
use std::process::Command;

use crate::world::{Finished, Running, World};

/// The user nobody.
const USER: u32 = 65_534;

const CONFIG: &str = r#"
buffers { size_kb: 1024 }
unique_session_name: "theirs"
"#;

/// Runs a program as the user nobody. Returns `None` if it cannot be run.
pub(crate) fn as_nobody(mut command: Command) -> Option<Finished> {
    command.uid(USER).gid(USER);
    let child = command.spawn().ok()?;
    Some(Running::new(child).finish())
}

#[test]
fn cli_024_another_user_has_no_access_and_root_has() {
    if !rustix::process::geteuid().is_root() {
        println!("skipped: only root can be two users");
        return;
    }
    let world = World::new();
    set_permissions(world.path(""), Permissions::from_mode(0o755)).unwrap();
    let permissions = ["--set-socket-permissions", "0:0666:0:0666"];
    let _service = world.start_daemon("traced", &permissions, "TRACED_NOTIFY_FD");
    if as_nobody(world.command("perfetto", &["--version"])).is_none() {
        println!("skipped: others may not run the binary where it is");
        return;
    }
    let refused = |args: &[&str]| as_nobody(world.command("perfetto", args)).unwrap();

    // The other user and sessions of root.
    world.write("config", format!("{CONFIG} write_into_file: true"));
    let start = ["--detach", "k", "--txt", "-c", "config", "-o", "out"];
    world.run("perfetto", &start).returned(0);
    refused(&["--attach", "k"])
        .returned(2)
        .complained("Session re-attach failed.");
    refused(&["--is_detached", "k"]).returned(2);
    refused(&["--clone-by-name", "theirs", "-o", "-"])
        .returned(0)
        .complained("Not allowed to clone a session from another UID");
    let output = refused(&["--query"]).returned(0);
    assert!(
        output.text().contains("Tracing sessions: 1") && !output.text().contains("theirs"),
        "{}",
        output.text()
    );
    world
        .run("perfetto", &["--attach", "k", "--stop"])
        .returned(0);

    // Root and sessions of the other user.
    world.write("config", CONFIG);
    let start = [
        "--notify-fd",
        "9",
        "--txt",
        "-c",
        "config",
        "-o",
        "/dev/null",
    ];
    let mut command = world.command_with_9("perfetto", &start);
    let mut recording = Running::new(command.uid(USER).gid(USER).spawn().unwrap());
    recording.wait_for("\0");
    let output = world.run("perfetto", &["--query"]).returned(0);
    assert!(output.text().contains("theirs"), "{}", output.text());
    world
        .run("perfetto", &["--clone-by-name", "theirs", "-o", "clone"])
        .returned(0)
        .complained("bytes into clone");
}

/// Starts a service of the user nobody in the folder of a test, in which it may create sockets.
/// Returns `None` if it cannot be run.
fn service_of_nobody(world: &World) -> Option<Running> {
    set_permissions(world.path(""), Permissions::from_mode(0o1777)).unwrap();
    as_nobody(world.command("perfetto", &["--version"]))?;
    let group = USER.to_string();
    let permissions = format!("{group}:0666:{group}:0666");
    let mut command = world.command("traced", &["--set-socket-permissions", &permissions]);
    let mut service = Running::new(command.uid(USER).gid(USER).spawn().ok()?);
    service.wait_for_complaint("Started traced");
    Some(service)
}

#[test]
fn data_sources_of_root_send_nothing_to_a_service_of_another_user() {
    if !rustix::process::geteuid().is_root() {
        println!("skipped: only root can be two users");
        return;
    }
    let world = World::new();
    let Some(_service) = service_of_nobody(&world) else {
        println!("skipped: others may not run the binary where it is");
        return;
    };
    for daemon in ["traced_probes", "traced_perf"] {
        let mut refusing = world.start(daemon, &[] as &[&str]);
        refusing.wait_for_complaint("is run by user 65534");
        refusing.wait_for_complaint("set FERRETTO_SERVICE_UID=65534");
        // An option names a trusted user of the service.
        let mut trusting = world.start(daemon, &["--service-uid", "65534"]);
        trusting.wait_for_complaint("connected to the tracing service");
    }
    let mut command = world.command("traced_probes", &[] as &[&str]);
    let command = command.env("FERRETTO_SERVICE_UID", "1,65534");
    let mut trusting = Running::new(command.spawn().unwrap());
    trusting.wait_for_complaint("connected to the tracing service");
    // Data sources of nobody do not need it.
    let mut command = world.command("traced_probes", &[] as &[&str]);
    let mut own = Running::new(command.uid(USER).gid(USER).spawn().unwrap());
    own.wait_for_complaint("connected to the tracing service");
    world
        .run("traced_perf", &["--service-uid", "nobody"])
        .returned(1)
        .complained("--service-uid takes a numeric user id");
}

#[test]
fn files_for_other_users_are_created_only_in_permitted_folders() {
    if !rustix::process::geteuid().is_root() {
        println!("skipped: only root can be two users");
        return;
    }
    let world = World::new();
    set_permissions(world.path(""), Permissions::from_mode(0o755)).unwrap();
    if as_nobody(world.command("perfetto", &["--version"])).is_none() {
        println!("skipped: others may not run the binary where it is");
        return;
    }
    let folder = world.path("traces");
    std::fs::create_dir(&folder).unwrap();
    std::os::unix::fs::symlink(world.path(""), folder.join("out")).unwrap();
    let given = folder.to_str().unwrap();
    let allowed = ["--set-socket-permissions", "0:0666:0:0666"];
    let allowed = [&allowed[..], &["--output-folder", given]].concat();
    let _service = world.start_daemon("traced", &allowed, "TRACED_NOTIFY_FD");
    let record = |path: &str| {
        let config = "buffers { size_kb: 64 } duration_ms: 50 write_into_file: true";
        world.write("config", format!("{config} output_path: \"{path}\""));
        world.command("perfetto", &["--txt", "-c", "config"])
    };
    let outside = world.path("outside");
    for path in [
        outside.to_str().unwrap(),
        "outside",
        &format!("{given}/../outside"),
    ] {
        as_nobody(record(path))
            .unwrap()
            .complained("The service does not create the trace file");
    }
    // Not through a link that leads out of the folder.
    as_nobody(record(&format!("{given}/out/outside")))
        .unwrap()
        .complained("Failed to create the trace file");
    assert!(!outside.exists());

    as_nobody(record(&format!("{given}/theirs"))).unwrap();
    let status = std::fs::metadata(folder.join("theirs")).unwrap();
    assert_eq!((status.uid(), status.mode() & 0o777), (USER, 0o600));
    assert!(status.len() > 0);
    // Root may write anywhere.
    Running::new(record(outside.to_str().unwrap()).spawn().unwrap()).finish();
    let status = std::fs::metadata(&outside).unwrap();
    assert_eq!((status.uid(), status.mode() & 0o777), (0, 0o600));
}

#[test]
fn counters_of_presets_need_no_privileges() {
    if !rustix::process::geteuid().is_root() {
        println!("skipped: only root can be two users");
        return;
    }
    let world = World::new();
    set_permissions(world.path(""), Permissions::from_mode(0o777)).unwrap();
    if as_nobody(world.command("perfetto", &["--version"])).is_none() {
        println!("skipped: others may not run the binary where it is");
        return;
    }
    let record = |preset| {
        let args = ["record", preset, "-d", "300ms", "-o", "trace"];
        as_nobody(world.command("ferretto", &args)).unwrap()
    };
    let wanted = [
        ("--io", "disks (diskstats)"),
        ("--memory", "memory (meminfo)"),
        ("--freq", "temperature (thermal)"),
    ];
    for (preset, counters) in wanted {
        let recorded = record(preset)
            .returned(0)
            .complained("linux.ftrace is not recorded");
        // A machine without sensors has no counters of --freq.
        if preset != "--freq" {
            recorded.complained(counters);
        }
    }
    record("--net")
        .returned(1)
        .complained("kernel events cannot be recorded");
}
