//! The control groups and containers of `ferretto record --cgroup` and `--container`.

use std::collections::BTreeSet;
use std::fs;

use anyhow::{Result, bail};
use ferretto_format::cgroup::{self, Group};
use ferretto_text::terminal::shown;

use super::args::RecordArgs;

/// The groups that a message lists.
const LISTED: usize = 8;

/// A process and the path of its group.
#[derive(Debug, PartialEq, Eq)]
struct Member {
    pid: i32,
    path: String,
}

/// Adds the processes of the named groups to those of `-p`.
///
/// # Errors
///
/// Fails if a group has no processes.
pub(super) fn select(args: &mut RecordArgs) -> Result<()> {
    if args.presets.groups().is_empty() {
        return Ok(());
    }
    let members = members();
    let mut pids = BTreeSet::new();
    for name in args.presets.groups() {
        let of_group = pids_in(&members, &name);
        if of_group.is_empty() {
            bail!("{}", nobody_in(&name, &members));
        }
        pids.extend(of_group);
    }
    // A command is recorded itself.
    if args.command.is_empty() && args.selects_processes() {
        pids.remove(&(std::process::id() as i32));
        args.pids.extend(pids);
    }
    Ok(())
}

/// Returns all processes that are in a group.
fn members() -> Vec<Member> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let members = pids.filter_map(|pid: i32| {
        let text = fs::read(format!("/proc/{pid}/cgroup")).ok()?;
        let text = String::from_utf8_lossy(&text);
        let path = cgroup::of_process(&text)?.to_owned();
        Some(Member { pid, path })
    });
    members.collect()
}

/// Returns the processes in a group or in groups below it.
fn pids_in(members: &[Member], name: &str) -> Vec<i32> {
    let is_in = |member: &&Member| {
        let ends = member.path.match_indices('/').map(|(at, _)| at).skip(1);
        let mut paths = ends
            .chain([member.path.len()])
            .map(|end| &member.path[..end]);
        paths.any(|path| Group::new(path).is_named(name))
    };
    members
        .iter()
        .filter(is_in)
        .map(|member| member.pid)
        .collect()
}

fn nobody_in(name: &str, members: &[Member]) -> String {
    let mut known: BTreeSet<(bool, &str)> = BTreeSet::new();
    for member in members.iter().filter(|member| member.path != "/") {
        let group = Group::new(&member.path);
        known.insert((group.container.is_none(), group.name()));
    }
    let listed: Vec<String> = known
        .iter()
        .take(LISTED)
        .map(|(_, name)| shown(name).into())
        .collect();
    let more = match known.len().saturating_sub(LISTED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let name = shown(name);
    if listed.is_empty() {
        return format!("no process is in a control group {name:?}; all are in the top group here");
    }
    format!(
        "no process is in a control group {name:?}; there are {}{more}",
        listed.join(", ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

    fn some() -> Vec<Member> {
        let paths = [
            "/".to_owned(),
            format!("/system.slice/docker-{ID}.scope/init"),
            "/system.slice/nginx.service/worker".to_owned(),
            "/batch/1".to_owned(),
        ];
        let pids = 1..;
        let members = paths.into_iter().zip(pids);
        members.map(|(path, pid)| Member { pid, path }).collect()
    }

    #[test]
    fn processes_in_groups_below_belong_to_a_group() {
        for (name, expected) in [
            (&ID[..12], &[2][..]),
            (ID, &[2]),
            ("nginx.service", &[3]),
            ("system.slice", &[2, 3]),
            ("/system.slice", &[2, 3]),
            ("/batch", &[4]),
            ("/batch/*", &[4]),
            ("apache", &[]),
        ] {
            assert_eq!(pids_in(&some(), name), expected, "{name}");
        }
    }

    #[test]
    fn a_wrong_name_is_answered_with_those_that_exist() {
        let message = nobody_in("web", &some());
        assert!(
            message.contains("0123456789ab, /batch/1, nginx.service"),
            "{message}"
        );
        assert!(nobody_in("web", &[]).contains("top group"));
    }
}
