//! Control groups: whose processes they have, by their paths.
//!
//! Service managers and container engines name groups in ways of their own, which have been stable
//! for years. A trace has the paths, and readers find the names.

use crate::pattern::is_like;

/// The longest path that is written or read, in bytes.
pub const MAX_PATH: usize = 4096;

/// The names of the counters of a group and their units, in the order of their numbers, from 1.
pub const COUNTERS: [(&str, &str); 30] = [
    ("cpu.usage", "us"),
    ("cpu.user", "us"),
    ("cpu.system", "us"),
    ("cpu.periods", ""),
    ("cpu.throttled_periods", ""),
    ("cpu.throttled", "us"),
    ("memory.current", "bytes"),
    ("memory.high", "bytes"),
    ("memory.max", "bytes"),
    ("memory.swap", "bytes"),
    ("memory.anon", "bytes"),
    ("memory.file", "bytes"),
    ("memory.major_faults", ""),
    ("memory.high_events", ""),
    ("memory.max_events", ""),
    ("memory.oom_events", ""),
    ("memory.oom_kills", ""),
    ("io.read", "bytes"),
    ("io.written", "bytes"),
    ("io.reads", ""),
    ("io.writes", ""),
    ("pids.current", ""),
    ("pids.max", ""),
    ("pids.max_events", ""),
    ("psi.cpu.some", "us"),
    ("psi.cpu.full", "us"),
    ("psi.io.some", "us"),
    ("psi.io.full", "us"),
    ("psi.memory.some", "us"),
    ("psi.memory.full", "us"),
];

/// The shortest identifier of a container.
const MIN_ID: usize = 12;
/// The digits of an identifier that people and engines show.
const SHOWN_ID: usize = 12;

/// The names in the path of a control group.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Group<'a> {
    /// The path.
    pub path: &'a str,
    /// The innermost unit of systemd: a service, a scope, or a slice.
    pub unit: Option<&'a str>,
    /// The container.
    pub container: Option<Container<'a>>,
    /// The path of the group of the container, or else of the unit. Programs may make groups of
    /// their own below it.
    pub owner: &'a str,
    /// The identifier of the pod, with `_` instead of `-` where systemd made the group.
    pub pod: Option<&'a str>,
}

/// A container.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Container<'a> {
    /// Its identifier, or its name.
    pub id: &'a str,
    /// The engine, if the path names it.
    pub engine: Option<&'static str>,
}

impl<'a> Container<'a> {
    /// Returns the identifier as it is usually shown: the first digits of a long number.
    pub fn short_id(&self) -> &'a str {
        if is_id(self.id) {
            &self.id[..SHOWN_ID]
        } else {
            self.id
        }
    }
}

/// The prefixes of the scopes of engines.
const SCOPES: [(&str, &str); 7] = [
    ("docker-", "docker"),
    ("cri-containerd-", "containerd"),
    ("containerd-", "containerd"),
    ("nerdctl-", "containerd"),
    ("crio-", "cri-o"),
    ("libpod-", "podman"),
    ("buildah-", "buildah"),
];

/// The folders in which engines without systemd make groups.
const FOLDERS: [(&str, &str); 7] = [
    ("docker", "docker"),
    ("actions_job", "docker"),
    ("libpod_parent", "podman"),
    ("crio", "cri-o"),
    ("garden", "garden"),
    ("lxc", "lxc"),
    ("lxc.payload", "lxc"),
];

impl<'a> Group<'a> {
    /// Reads the path of a control group, such as `/system.slice/docker-0123….scope`.
    pub fn new(path: &'a str) -> Self {
        let mut group = Self {
            path,
            owner: path,
            ..Self::default()
        };
        let mut before = "";
        for part in path.split('/').filter(|part| !part.is_empty()) {
            let until = part.as_ptr() as usize - path.as_ptr() as usize + part.len();
            if is_unit(part) {
                group.unit = Some(part);
                if group.container.is_none() {
                    group.owner = &path[..until];
                }
            }
            if let Some(pod) = pod(part) {
                group.pod = Some(pod);
            }
            if let Some(container) = container(part, before, group.pod.is_some()) {
                group.container = Some(container);
                group.owner = &path[..until];
            }
            before = part;
        }
        group
    }

    /// Returns the name by which people know the group: container, unit or path.
    pub fn name(&self) -> &'a str {
        match (self.container, self.unit) {
            (Some(container), _) => container.short_id(),
            (None, Some(unit)) => unit,
            (None, None) => self.path,
        }
    }

    /// Returns true if the container has this name, or an identifier that begins so.
    pub fn is_container(&self, name: &str) -> bool {
        let starts =
            |id: &str| id == name || (name.len() >= 3 && is_id(id) && id.starts_with(name));
        self.container.is_some_and(|container| starts(container.id)) || self.is_pod(name)
    }

    fn is_pod(&self, name: &str) -> bool {
        let same = |(a, b): (u8, u8)| a == b || (a == b'_' && b == b'-');
        let is_same =
            |pod: &str| pod.len() == name.len() && pod.bytes().zip(name.bytes()).all(same);
        self.pod.is_some_and(is_same)
    }

    /// Returns true if the group is meant by a path, a pattern of one, or the last part of one,
    /// such as the name of a unit.
    pub fn is_named(&self, pattern: &str) -> bool {
        if pattern.starts_with('/') {
            let pattern = pattern.trim_end_matches('/');
            return is_like(if pattern.is_empty() { "/" } else { pattern }, self.path);
        }
        let last = self.path.rsplit('/').next().unwrap_or_default();
        is_like(pattern, last) || self.is_container(pattern)
    }
}

/// A mounted tree of groups.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mounted<'a> {
    /// The folder where it is mounted.
    pub folder: String,
    /// The path of the group there, which in a container may not be the root of all.
    pub root: String,
    /// The mount options of a tree of version 1, which contain its controllers. `None` for version
    /// 2, which has all of them.
    options: Option<&'a str>,
}

impl<'a> Mounted<'a> {
    /// Reads a line of `/proc/PID/mountinfo`. `None` if it is not of a tree of groups.
    pub fn parse(line: &'a str) -> Option<Self> {
        let (mount, system) = line.split_once(" - ")?;
        let mut system = system.split(' ');
        let options = match system.next()? {
            "cgroup2" => None,
            "cgroup" => Some(system.nth(1).unwrap_or_default()),
            _ => return None,
        };
        let mut mount = mount.split(' ').skip(3);
        let (root, folder) = (mount.next()?, mount.next()?);
        Some(Self {
            folder: unescaped(folder),
            root: unescaped(root),
            options,
        })
    }

    /// Returns true if the tree is of version 2.
    pub fn is_unified(&self) -> bool {
        self.options.is_none()
    }

    /// Returns true if the tree is of version 1 and has this controller.
    pub fn has(&self, controller: &str) -> bool {
        let mut options = self.options.unwrap_or_default().split(',');
        options.any(|word| word == controller)
    }
}

/// Replaces the octal numbers of white space.
fn unescaped(text: &str) -> String {
    text.replace("\\040", " ")
        .replace("\\011", "\t")
        .replace("\\012", "\n")
        .replace("\\134", "\\")
}

/// Returns the path of the group of a process, from the text of `/proc/PID/cgroup`. With several
/// hierarchies, that is the most telling path; `None` if there is none.
pub fn of_process(text: &str) -> Option<&str> {
    let mut best: Option<(u8, &str)> = None;
    for line in text.lines() {
        let mut parts = line.splitn(3, ':');
        let (Some(_), Some(controllers), Some(path)) = (parts.next(), parts.next(), parts.next())
        else {
            continue;
        };
        // A group that was removed while processes were ending in it.
        let path = path.strip_suffix(" (deleted)").unwrap_or(path);
        if path.len() > MAX_PATH || !path.starts_with('/') {
            continue;
        }
        let of_controllers = match controllers {
            "" => 2,
            "name=systemd" => 1,
            _ => 0,
        };
        let rank = match path {
            "/" => of_controllers,
            path if Group::new(path).container.is_some() => 6 + of_controllers,
            _ => 3 + of_controllers,
        };
        if best.is_none_or(|(before, _)| rank > before) {
            best = Some((rank, path));
        }
    }
    best.map(|(_, path)| path)
}

fn is_unit(part: &str) -> bool {
    [".service", ".scope", ".slice"]
        .iter()
        .any(|end| part.strip_suffix(end).is_some_and(|name| !name.is_empty()))
}

fn is_id(text: &str) -> bool {
    text.len() >= MIN_ID && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Returns the identifier in `pod<id>` or `kubepods-…-pod<id>.slice`.
fn pod(part: &str) -> Option<&str> {
    let name = part.strip_suffix(".slice").unwrap_or(part);
    let name = match name.rsplit_once("-pod") {
        Some((parent, id)) if parent.starts_with("kubepods") || parent.ends_with("kubepods") => id,
        Some((parent, id)) if parent.contains("kubepods-") => id,
        _ => name.strip_prefix("pod")?,
    };
    let is_name = |byte: u8| byte.is_ascii_hexdigit() || matches!(byte, b'-' | b'_');
    (name.len() >= 32 && name.bytes().all(is_name)).then_some(name)
}

/// Returns the container of a part of a path.
fn container<'a>(part: &'a str, before: &str, in_pod: bool) -> Option<Container<'a>> {
    let name = part.strip_suffix(".scope").unwrap_or(part);
    for (prefix, engine) in SCOPES {
        let id = name.strip_prefix(prefix).filter(|id| is_id(id));
        if let Some(id) = id {
            return Some(Container {
                id,
                engine: Some(engine),
            });
        }
        // Engines with the driver `cgroupfs` in one path: `slice:prefix:id`.
        let id = name.rsplit_once(':').map(|(_, id)| id);
        let engine_part = prefix.trim_end_matches('-');
        if let Some(id) = id.filter(|id| is_id(id))
            && name.contains(&format!(":{engine_part}:"))
        {
            return Some(Container {
                id,
                engine: Some(engine),
            });
        }
    }
    // LXC and machines of systemd have names.
    for (prefix, engine) in [
        ("lxc.payload.", "lxc"),
        ("machine-", "systemd-nspawn"),
        ("systemd-nspawn@", "systemd-nspawn"),
    ] {
        let name = name.strip_suffix(".service").unwrap_or(name);
        if let Some(id) = name.strip_prefix(prefix).filter(|id| !id.is_empty())
            && (part.contains('.'))
        {
            return Some(Container {
                id,
                engine: Some(engine),
            });
        }
    }
    let folder = FOLDERS.iter().find(|(folder, _)| *folder == before);
    if let Some((_, engine)) = folder
        && !is_unit(part)
        && (is_id(part) || *engine == "lxc" || *engine == "garden")
    {
        return Some(Container {
            id: part,
            engine: Some(engine),
        });
    }
    let is_whole = is_id(part) && part.len() == 64;
    // Without a prefix: pods of containerd, or ECS, whose folder is `/ecs/<task>/<id>`.
    (is_whole && (in_pod || !before.is_empty()) || in_pod && is_id(part)).then_some(Container {
        id: part,
        engine: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
    const POD: &str = "8f3a1b2c-0000-4d4d-9e9e-aabbccddeeff";

    fn path(pattern: &str) -> String {
        let pod = POD.replace('-', "_");
        pattern
            .replace("ID", ID)
            .replace("POD_", &pod)
            .replace("POD", POD)
    }

    #[test]
    fn containers_are_found_in_the_paths_of_all_engines() {
        for (pattern, engine, pod) in [
            ("/docker/ID", Some("docker"), false),
            ("/system.slice/docker-ID.scope", Some("docker"), false),
            (
                "/user.slice/user-1000.slice/user@1000.service/user.slice/docker-ID.scope",
                Some("docker"),
                false,
            ),
            ("/machine.slice/libpod-ID.scope", Some("podman"), false),
            (
                "/machine.slice/libpod-ID.scope/container",
                Some("podman"),
                false,
            ),
            (
                "/user.slice/user-1000.slice/user@1000.service/user.slice/libpod-ID.scope",
                Some("podman"),
                false,
            ),
            ("/libpod_parent/ID", Some("podman"), false),
            ("/system.slice/nerdctl-ID.scope", Some("containerd"), false),
            ("/kubepods/besteffort/podPOD/ID", None, true),
            ("/kubepods/podPOD/ID", None, true),
            ("/kubepods/burstable/podPOD/crio-ID", Some("cri-o"), true),
            (
                "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-podPOD_.slice/cri-containerd-ID.scope",
                Some("containerd"),
                true,
            ),
            (
                "/kubepods.slice/kubepods-podPOD_.slice/docker-ID.scope",
                Some("docker"),
                true,
            ),
            (
                "/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-podPOD_.slice/crio-ID.scope",
                Some("cri-o"),
                true,
            ),
            (
                "/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-podPOD_.slice/cri-containerd-ID.scope",
                Some("containerd"),
                true,
            ),
            (
                "/system.slice/containerd.service/kubepods-burstable-podPOD_.slice:cri-containerd:ID",
                Some("containerd"),
                false,
            ),
            ("/ecs/0123456789abcdef/ID", None, false),
        ] {
            let path = path(pattern);
            let group = Group::new(&path);
            let container = group.container.unwrap_or_else(|| panic!("{path}"));
            assert_eq!((container.id, container.engine), (ID, engine), "{path}");
            assert_eq!(container.short_id(), "0123456789ab");
            assert_eq!(group.pod.is_some(), pod, "{path}");
            assert!(group.is_container("0123456789ab") && group.is_container(ID));
            assert!(!group.is_container("01") && !group.is_container("0124"));
            if pod {
                assert!(group.is_container(POD), "{path}");
            }
        }
        let named = Group::new("/lxc/web/system.slice");
        assert_eq!(
            named.container.map(|it| (it.id, it.engine)),
            Some(("web", Some("lxc")))
        );
        let named = Group::new("/lxc.payload.web/system.slice");
        assert_eq!(named.container.map(|it| it.id), Some("web"));
        let machine = Group::new("/machine.slice/systemd-nspawn@debian.service/payload");
        assert_eq!(machine.container.map(|it| it.id), Some("debian"));
    }

    #[test]
    fn other_groups_have_no_container() {
        for path in [
            "/",
            "",
            "/user.slice",
            "/system.slice/docker.service",
            "/system.slice/containerd.service",
            "/system.slice/docker-compose.service",
            "/docker",
            "/docker/buildkit",
            "/kubepods.slice/kubepods-burstable.slice",
            "/kubepods/burstable",
            "/podman",
            "/machine.slice",
            "/0123456789abcdef",
        ] {
            assert_eq!(Group::new(path).container, None, "{path}");
            assert_eq!(Group::new(path).pod, None, "{path}");
        }
    }

    #[test]
    fn groups_are_named_by_container_unit_or_path() {
        let docker = path("/system.slice/docker-ID.scope");
        for (path, name, unit) in [
            (
                "/system.slice/nginx.service",
                "nginx.service",
                Some("nginx.service"),
            ),
            (
                "/system.slice/nginx.service/worker",
                "nginx.service",
                Some("nginx.service"),
            ),
            (
                &docker,
                "0123456789ab",
                Some(docker.rsplit('/').next().unwrap()),
            ),
            ("/batch/job 7", "/batch/job 7", None),
            ("/", "/", None),
        ] {
            let group = Group::new(path);
            assert_eq!((group.name(), group.unit), (name, unit));
        }
        let inner = format!("{docker}/init.scope");
        for (path, owner) in [
            (&*inner, &*docker),
            (
                "/system.slice/nginx.service/worker",
                "/system.slice/nginx.service",
            ),
            ("/batch/job 7", "/batch/job 7"),
            ("/", "/"),
        ] {
            assert_eq!(Group::new(path).owner, owner);
        }
    }

    #[test]
    fn patterns_mean_whole_paths_or_last_parts() {
        let group = Group::new("/system.slice/nginx.service");
        for (pattern, expected) in [
            ("/system.slice/nginx.service", true),
            ("/system.slice/nginx.service/", true),
            ("/system.slice/*", true),
            ("/system.slice", false),
            ("nginx.service", true),
            ("nginx*", true),
            ("system.slice", false),
            ("/", false),
        ] {
            assert_eq!(group.is_named(pattern), expected, "{pattern}");
        }
        assert!(Group::new("/").is_named("/"));
    }

    #[test]
    fn mounted_trees_are_found_with_their_controllers() {
        let unified = "30 24 0:26 / /sys/fs/cgroup rw shared:4 - cgroup2 cgroup2 rw";
        let unified = Mounted::parse(unified).expect("a tree");
        assert_eq!((&*unified.folder, &*unified.root), ("/sys/fs/cgroup", "/"));
        assert!(unified.is_unified() && !unified.has("memory"));
        let first = r"31 24 0:27 /a\040b /c\040d rw - cgroup cgroup rw,cpu,memory";
        let first = Mounted::parse(first).expect("a tree");
        assert_eq!((&*first.folder, &*first.root), ("/c d", "/a b"));
        assert!(!first.is_unified() && first.has("memory") && !first.has("io"));
        for other in [
            "",
            "29 24 0:25 / / rw - ext4 /dev/vda rw",
            "30 24 - cgroup2",
        ] {
            assert_eq!(Mounted::parse(other), None, "{other}");
        }
    }

    #[test]
    fn the_most_telling_hierarchy_of_a_process_counts() {
        let docker = path("/docker/ID");
        for (text, expected) in [
            ("0::/user.slice\n".to_owned(), Some("/user.slice")),
            ("0::/\n".to_owned(), Some("/")),
            (
                "9:name=systemd:/init.scope\n8:pids:/\n4:memory:/jobs/1\n0::/\n".to_owned(),
                Some("/init.scope"),
            ),
            (
                "8:pids:/\n4:memory:/jobs/1\n1:cpu:/\n0::/\n".to_owned(),
                Some("/jobs/1"),
            ),
            (
                format!("5:memory:{docker}\n1:name=systemd:/init.scope\n0::/\n"),
                Some(&*docker),
            ),
            ("0::/gone (deleted)\n".to_owned(), Some("/gone")),
            ("0::/with:colon\n".to_owned(), Some("/with:colon")),
            ("".to_owned(), None),
            ("nonsense\n1:2\n0::relative\n".to_owned(), None),
        ] {
            assert_eq!(of_process(&text), expected, "{text}");
        }
    }
}
