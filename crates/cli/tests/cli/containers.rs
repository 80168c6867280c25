//! Containers: recorded from outside, and recording inside of them.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use crate::world::{Finished, Running, World};

/// A group with the name that Docker gives to a container, in the hierarchies of version 1.
struct Container {
    id: String,
    folders: Vec<PathBuf>,
}

impl Container {
    /// Makes a group that has a tenth of a CPU and 64 MiB; `None`, with the reason printed, if that
    /// is not possible here.
    fn new(number: u32) -> Option<Self> {
        let id = format!(
            "{:064x}",
            (u64::from(std::process::id()) << 32) + u64::from(number)
        );
        let mut container = Self {
            // Docker's have no zeros in front.
            id: id.replacen("00000000", "c0ffee42", 1),
            folders: Vec::new(),
        };
        for controller in ["cpu", "cpuacct", "memory", "pids"] {
            let parent = PathBuf::from(format!("/sys/fs/cgroup/{controller}"));
            let folder = parent.join("docker").join(&container.id);
            let is_mounted = parent.join("tasks").exists();
            if !is_mounted || fs::create_dir_all(&folder).is_err() {
                println!("skipped: no group can be made in {}", parent.display());
                return None;
            }
            container.folders.push(folder);
        }
        for (controller, file, text) in [
            (0, "cpu.cfs_quota_us", "10000"),
            (0, "cpu.cfs_period_us", "100000"),
            (2, "memory.limit_in_bytes", "67108864"),
        ] {
            fs::write(container.folders[controller].join(file), text).unwrap();
        }
        Some(container)
    }

    /// Returns shell commands that enter the group and run a command there, as engines do.
    fn enter(&self, command: &str) -> String {
        let files = self.folders.iter();
        let enter = files.map(|folder| format!("echo $$ > {}/cgroup.procs; ", folder.display()));
        format!("{}exec {command}", enter.collect::<String>())
    }
}

impl Drop for Container {
    fn drop(&mut self) {
        for folder in &self.folders {
            // Those of other tests may be in the folder above.
            let _ = fs::remove_dir(folder);
            let _ = folder.parent().map(fs::remove_dir);
        }
    }
}

#[test]
fn the_summary_names_cpu_throttling_and_memory_of_a_container() {
    let world = World::new();
    let Some(container) = Container::new(1) else {
        return;
    };
    world.write(
        "work",
        "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done\n",
    );
    let script = container.enter("sh work");
    let args = ["record", "-o", "trace", "--", "sh", "-c", &script];
    world.run("ferretto", &args).returned(0);
    let summary = world.summary("trace");
    let path = format!("/docker/{}", container.id);
    let mut groups = summary.cgroups.iter();
    let group = groups
        .find(|group| group.path == path)
        .expect("the container");
    assert_eq!((group.is_container, group.engine), (true, Some("docker")));
    assert!(group.cpu_ns > Some(0), "{group:?}");
    assert!(
        group.throttled_ns > Some(0) && group.throttled_periods > Some(0),
        "{group:?}"
    );
    assert!(
        group.memory.is_some_and(|level| level.highest > 0),
        "{group:?}"
    );
    assert_eq!(group.memory_limit, Some(64 << 20));
    let text = world.run("ferretto", &["summary", "trace"]).returned(0);
    let line = text.text().lines().find(|line| line.contains("(docker)"));
    let line = line.expect("a line of the container");
    let name = format!("container {} (docker)", &container.id[..12]);
    for expected in [&*name, "throttled for", "memory", "of 64.0 MiB"] {
        assert!(line.contains(expected), "{line}");
    }
}

#[test]
fn the_processes_of_a_container_are_profiled_by_its_identifier() {
    let world = World::new();
    let Some(container) = Container::new(2) else {
        return;
    };
    let mut inside = Command::new("sh");
    inside.args(["-c", &container.enter("sh -c 'echo ready; cat'")]);
    inside
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped());
    let mut inside = inside.spawn().unwrap();
    let mut line = String::new();
    let mut output = std::io::BufReader::new(inside.stdout.take().unwrap());
    std::io::BufRead::read_line(&mut output, &mut line).unwrap();
    let id = &container.id[..12];
    let config = world.run(
        "ferretto",
        &["record", "--perf", "--container", id, "--print-config"],
    );
    let text = config.returned(0).text().to_owned();
    drop(inside.stdin.take());
    inside.wait().unwrap();
    assert!(
        text.contains(&format!("target_pid: {}", inside.id())),
        "{text}"
    );
    assert!(text.contains(&format!("cgroup_paths: \"{id}\"")), "{text}");
}

#[test]
fn a_container_that_does_not_exist_is_refused() {
    let world = World::new();
    let args = ["record", "--container", "feedc0de0000", "-d", "1ms"];
    let outcome = world.run("ferretto", &args).returned(1);
    outcome.complained("no process is in a control group \"feedc0de0000\"");
    assert!(world.names().is_empty());
}

/// Runs ferretto by another program; `None`, with the reason printed, if that is not possible here.
fn run_by(world: &World, program: &str, before: &[&str], args: &[&str]) -> Option<Finished> {
    let ferretto = world.command::<&str>("ferretto", &[]);
    let mut test = Command::new(program);
    test.args(before).arg("true");
    if !test.output().is_ok_and(|output| output.status.success()) {
        println!("skipped: {program} {before:?} is not possible here");
        return None;
    }
    let mut command = Command::new(program);
    command.args(before).arg(ferretto.get_program()).args(args);
    let child = world.at_home(command).spawn().unwrap();
    Some(Running::new(child).finish())
}

/// Returns a check of the doctor: its state and what it found.
fn check(doctor: &Finished, name: &str) -> (String, String) {
    let found: serde_json::Value = serde_json::from_slice(&doctor.stdout).expect("JSON");
    let checks = found["checks"].as_array().expect("a list");
    let check = checks.iter().find(|check| check["name"] == name);
    let check = check.unwrap_or_else(|| panic!("no {name} in {found}"));
    let text = |key: &str| check[key].as_str().unwrap_or_default().to_owned();
    (text("state"), text("found"))
}

#[test]
fn the_doctor_says_whose_process_ids_recordings_have() {
    let world = World::new();
    let inside = ["--pid", "--fork", "--mount-proc"];
    let Some(doctor) = run_by(&world, "unshare", &inside, &["doctor", "--json"]) else {
        return;
    };
    let (_, found) = check(&doctor, "process ids");
    assert!(found.starts_with("those of a pid namespace"), "{found}");
    let (_, found) = check(&doctor, "container");
    assert!(found.contains("pid namespace"), "{found}");
    let (_, found) = check(&doctor, "control groups");
    assert!(
        found.contains("version") || found.contains("not mounted"),
        "{found}"
    );
}

#[test]
fn recording_works_in_a_user_namespace_and_says_what_is_missing() {
    let world = World::new();
    let inside = [
        "--user",
        "--map-root-user",
        "--pid",
        "--fork",
        "--mount-proc",
    ];
    let Some(doctor) = run_by(&world, "unshare", &inside, &["doctor", "--json"]) else {
        return;
    };
    let (state, found) = check(&doctor, "container");
    assert_eq!(state, "limited");
    assert!(found.contains("users are mapped"), "{found}");
    // The files of tracefs belong to the mapped user, if root ran the test.
    let (events, _) = check(&doctor, "kernel events");
    let args = ["record", "-o", "trace", "--", "true"];
    let recorded = run_by(&world, "unshare", &inside, &args).expect("possible");
    let recorded = recorded.returned(0);
    // Without kernel events, all ids are those of the namespace.
    let has_two_numberings = recorded.stderr.contains("the name of another");
    assert_eq!(has_two_numberings, events == "ok", "{recorded:?}");
    let (ids, _) = check(&doctor, "process ids");
    assert_eq!(ids == "limited", events == "ok");
    assert!(world.summary("trace").packets > 0);
}

#[test]
fn a_root_without_the_capability_of_profilers_is_told_so() {
    let world = World::new();
    let without = ["--bounding-set", "-perfmon,-sys_admin"];
    let Some(doctor) = run_by(&world, "setpriv", &without, &["doctor", "--json"]) else {
        return;
    };
    if !rustix::process::geteuid().is_root() {
        println!("skipped: this is not root");
        return;
    }
    let (_, found) = check(&doctor, "container");
    assert!(found.contains("root lacks CAP_PERFMON"), "{found}");
}
