//! Counters of control groups (kernel documentation: `cgroup-v2.rst`, `cgroup-v1`).

mod counters;
mod hierarchy;

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use ferretto_format::cgroup::Group;
use ferretto_proto::fields::sys_stats::{self as field, cgroup};
use ferretto_wire::Encoder;

use counters::Source;
use hierarchy::Hierarchy;

/// The maximum number of groups that are read.
const MAX_GROUPS: usize = 256;
/// The maximum number of paths and patterns in a config.
const MAX_PATTERNS: usize = 256;
/// The number of reads between two searches for new groups.
const READS_PER_SEARCH: u32 = 5;
/// The maximum size of a file in bytes; the rest is ignored.
const MAX_FILE: u64 = 64 << 10;

/// The counters of some control groups.
#[derive(Debug)]
pub(super) struct Cgroups {
    pub(super) every: u32,
    hierarchies: Vec<Hierarchy>,
    patterns: Vec<String>,
    groups: BTreeMap<String, Vec<Counters>>,
    /// The number of groups beyond the limit.
    left_out: usize,
    reads: u32,
    buffer: String,
}

/// A file of a group.
#[derive(Debug)]
struct Counters {
    path: PathBuf,
    source: &'static Source,
}

impl Cgroups {
    /// Finds the groups of a config. Reports paths without a group, and groups that are not
    /// readable, to `log`.
    pub(super) fn new(every: u32, root: &Path, paths: &[Vec<u8>], log: &dyn Fn(&str)) -> Self {
        let mut this = Self {
            every,
            hierarchies: Vec::new(),
            patterns: Vec::new(),
            groups: BTreeMap::new(),
            left_out: 0,
            reads: 0,
            buffer: String::new(),
        };
        if every == 0 {
            return this;
        }
        if paths.len() > MAX_PATTERNS {
            log(&format!(
                "of {} cgroup_paths, only the first {MAX_PATTERNS} are used",
                paths.len()
            ));
        }
        let texts = paths.iter().take(MAX_PATTERNS);
        this.patterns = texts
            .map(|path| String::from_utf8_lossy(path).into_owned())
            .collect();
        this.hierarchies = hierarchy::find(root);
        if this.hierarchies.is_empty() {
            // Containers are only looked for.
            if !this.patterns.is_empty() {
                log("no control groups are mounted here; mount cgroup2 at /sys/fs/cgroup");
            }
            return this;
        }
        let found = this.search();
        if let Some((path, error)) = found.refused {
            log(&format!(
                "control groups below {} are not readable ({error}); run as root",
                path.display()
            ));
        }
        for pattern in &this.patterns {
            if !found
                .paths
                .iter()
                .any(|path| Group::new(path).is_named(pattern))
            {
                log(&format!("there is no control group {pattern:?} yet"));
            }
        }
        if this.left_out > 0 {
            log(&format!(
                "{} control groups are not recorded: there are more than {MAX_GROUPS}",
                this.left_out
            ));
        }
        let unreadable = this.groups.values().flatten().find_map(|counters| {
            let error = File::open(&counters.path).err()?;
            (error.kind() == io::ErrorKind::PermissionDenied).then_some((&counters.path, error))
        });
        if let Some((path, error)) = unreadable {
            log(&format!(
                "{} is not readable ({error}); run as root",
                path.display()
            ));
        }
        this
    }

    fn is_wanted(&self, path: &str) -> bool {
        let group = Group::new(path);
        if self.patterns.is_empty() {
            // Not the groups that programs make in a container.
            let is_whole = |id: &str| {
                let last = path.rsplit('/').next().unwrap_or_default();
                last.contains(id)
            };
            return group
                .container
                .is_some_and(|container| is_whole(container.id));
        }
        self.patterns.iter().any(|pattern| group.is_named(pattern))
    }

    /// Finds the groups that exist now.
    fn search(&mut self) -> Found {
        let mut found = Found::default();
        let mut wanted = BTreeSet::new();
        for hierarchy in &self.hierarchies {
            let refused = hierarchy.walk(|path| {
                if self.is_wanted(&path) {
                    wanted.insert(path);
                }
            });
            found.refused = found.refused.or(refused);
        }
        self.left_out = wanted.len().saturating_sub(MAX_GROUPS);
        self.groups.retain(|path, _| wanted.contains(path));
        for path in &wanted {
            if self.groups.len() >= MAX_GROUPS {
                break;
            }
            if !self.groups.contains_key(path) {
                let files = self.hierarchies.iter().flat_map(|it| it.counters(path));
                self.groups.insert(path.clone(), files.collect());
            }
        }
        found.paths = wanted;
        found
    }

    /// Writes the counters of all groups.
    pub(super) fn sample(&mut self, out: &mut Encoder<'_, Vec<u8>>) {
        if self.reads.is_multiple_of(READS_PER_SEARCH) && self.reads > 0 {
            self.search();
        }
        self.reads = self.reads.wrapping_add(1);
        for (path, files) in &self.groups {
            let mut values = Vec::new();
            for counters in files {
                self.buffer.clear();
                // A group may be removed at any time.
                let Ok(file) = File::open(&counters.path) else {
                    continue;
                };
                if file.take(MAX_FILE).read_to_string(&mut self.buffer).is_ok() {
                    counters.source.parse(&self.buffer, &mut values);
                }
            }
            if values.is_empty() {
                continue;
            }
            out.nested(field::CGROUP, |out| {
                out.string(cgroup::PATH, path);
                for (key, value) in values {
                    out.nested(cgroup::VALUE, |out| {
                        out.varint(field::cgroup_value::KEY, key as u64);
                        out.varint(field::cgroup_value::VALUE, value);
                    });
                }
            });
        }
        if self.left_out > 0 {
            out.varint(field::CGROUPS_LEFT_OUT, self.left_out as u64);
        }
    }
}

/// The result of a search.
#[derive(Debug, Default)]
struct Found {
    paths: BTreeSet<String>,
    /// A folder that could not be read.
    refused: Option<(PathBuf, io::Error)>,
}
