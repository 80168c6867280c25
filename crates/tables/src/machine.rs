//! The memory that a program can have.

use std::fs;
use std::path::{Component, Path};
use std::sync::OnceLock;

use ferretto_format::cgroup::Mounted;

/// Returns the bytes of memory that this process can have: that of the machine, or of its control
/// group if that may have less, as in a container. `None` if it is unknown.
pub fn machine_memory() -> Option<usize> {
    static MEMORY: OnceLock<Option<usize>> = OnceLock::new();
    *MEMORY.get_or_init(|| memory_below(Path::new("/")))
}

/// Returns the memory by the files of the kernel below a folder.
fn memory_below(root: &Path) -> Option<usize> {
    let machine = of_machine(&read(&root.join("proc/meminfo")));
    let groups = read(&root.join("proc/self/cgroup"));
    let mounts = read(&root.join("proc/self/mountinfo"));
    let trees = mounts.lines().filter_map(Mounted::parse);
    let trees = trees.filter(|tree| tree.is_unified() || tree.has("memory"));
    let limits = trees.filter_map(|tree| {
        let own = groups.lines().find_map(|line| own_group(&tree, line))?;
        limit(root, &tree, own)
    });
    limits.chain(machine).min()
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

fn of_machine(meminfo: &str) -> Option<usize> {
    let line = meminfo.lines().find_map(|it| it.strip_prefix("MemTotal:"));
    let kib = line?.split_whitespace().next()?.parse::<usize>();
    kib.ok()?.checked_mul(1024)
}

/// Returns the path of the own group, if a line of `/proc/self/cgroup` is of this tree.
fn own_group<'a>(tree: &Mounted<'_>, line: &'a str) -> Option<&'a str> {
    let (_, of_tree) = line.split_once(':')?;
    let (controllers, group) = of_tree.split_once(':')?;
    let is_this = if tree.is_unified() {
        controllers.is_empty()
    } else {
        controllers.split(',').any(|it| it == "memory")
    };
    is_this.then_some(group)
}

/// Returns the smallest limit of a group and of those that contain it.
fn limit(root: &Path, tree: &Mounted<'_>, group: &str) -> Option<usize> {
    let mount = root.join(tree.folder.trim_start_matches('/'));
    let below = Path::new(group).strip_prefix(&tree.root).ok();
    let is_inside = |it: &&Path| !it.components().any(|part| part == Component::ParentDir);
    // A group outside of what is mounted is not seen.
    let below = below.filter(is_inside).unwrap_or(Path::new(""));
    let file = if tree.is_unified() {
        "memory.max"
    } else {
        "memory.limit_in_bytes"
    };
    // Without a limit, it is `max`, or a number that is larger than each machine.
    let limit = |group: &Path| read(&mount.join(group).join(file)).trim().parse().ok();
    below.ancestors().filter_map(limit).min()
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: usize = 1 << 30;
    const MACHINE: &str = "MemTotal:        8388608 kB\nMemFree:          100000 kB\n";
    const V2: &str = "30 24 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw\n";
    const V1: &str = "\
        29 24 0:25 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n\
        31 24 0:27 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n\
        32 24 0:28 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n";

    /// Returns the memory of a machine with 8 GiB and these files.
    fn memory(mounts: &str, groups: &str, limits: &[(&str, &str)]) -> Option<usize> {
        let root = tempfile::tempdir().expect("a folder");
        let mut files = vec![
            ("proc/meminfo", MACHINE),
            ("proc/self/mountinfo", mounts),
            ("proc/self/cgroup", groups),
        ];
        files.extend(limits);
        for (path, text) in files {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
            fs::write(path, text).expect("a file");
        }
        memory_below(root.path())
    }

    #[test]
    fn without_limits_it_is_that_of_the_machine() {
        assert_eq!(memory("", "", &[]), Some(8 * GIB));
        let unlimited = [("sys/fs/cgroup/a/memory.max", "max\n")];
        assert_eq!(memory(V2, "0::/a\n", &unlimited), Some(8 * GIB));
        let unlimited = [(
            "sys/fs/cgroup/memory/memory.limit_in_bytes",
            "9223372036854771712\n",
        )];
        assert_eq!(memory(V1, "4:memory:/\n0::/\n", &unlimited), Some(8 * GIB));
        assert_eq!(memory_below(Path::new("/nonexistent")), None);
    }

    #[test]
    fn a_control_group_or_one_that_contains_it_limits_it() {
        let limits = [
            ("sys/fs/cgroup/a/memory.max", "2147483648\n"),
            ("sys/fs/cgroup/a/b/memory.max", "max\n"),
            ("sys/fs/cgroup/a/b/c/memory.max", "3221225472\n"),
            ("sys/fs/cgroup/other/memory.max", "1048576\n"),
        ];
        assert_eq!(memory(V2, "0::/a/b/c\n", &limits), Some(2 * GIB));
        assert_eq!(memory(V2, "0::/a/b\n", &limits), Some(2 * GIB));
        assert_eq!(memory(V2, "0::/else\n", &limits), Some(8 * GIB));
        let limits = [
            ("sys/fs/cgroup/memory/a/memory.limit_in_bytes", "1073741824"),
            // Another controller's tree, and one without controllers.
            ("sys/fs/cgroup/cpu/a/memory.limit_in_bytes", "4096"),
            ("sys/fs/cgroup/unified/a/cgroup.procs", "1\n"),
        ];
        let groups = "4:cpuacct,memory:/a\n1:cpu:/a\n0::/a\n";
        assert_eq!(memory(V1, groups, &limits), Some(GIB));
        // A large limit is not the machine's memory.
        let large = [("sys/fs/cgroup/a/memory.max", "17179869184\n")];
        assert_eq!(memory(V2, "0::/a\n", &large), Some(8 * GIB));
    }

    #[test]
    fn a_container_may_see_its_own_group_only() {
        let limits = [
            ("sys/fs/cgroup/memory/memory.limit_in_bytes", "1073741824\n"),
            (
                "sys/fs/cgroup/memory/in/memory.limit_in_bytes",
                "536870912\n",
            ),
        ];
        let mounts = V1.replace("0:27 / ", "0:27 /docker/1234 ");
        let memory = |group: &str| memory(&mounts, &format!("4:memory:{group}\n"), &limits);
        assert_eq!(memory("/docker/1234"), Some(GIB));
        assert_eq!(memory("/docker/1234/in"), Some(GIB / 2));
        // It joined a group outside.
        assert_eq!(memory("/docker/5678"), Some(GIB));
        assert_eq!(memory("/docker/1234/../5678/in"), Some(GIB));
    }
}
