//! The files of a recording: their build ids and load biases.

use std::os::unix::fs::MetadataExt;
use std::rc::Rc;

use crate::perf_data::BuildId;
use ferretto_elf::{Elf, build_id_in_notes, open_regular};
use ferretto_symbols::kernel::KernelSymbols;
use rustc_hash::FxHashMap;
use rustix::fs::{major, minor};

/// The number of files remembered.
const MAX_FILES: usize = 1 << 16;

/// The name that `perf` gives to the kernel's mapping.
const KERNEL: &[u8] = b"[kernel.kallsyms]";

/// The facts about a file that mappings need.
#[derive(Debug, Clone, Default)]
pub(super) struct File {
    pub(super) build_id: Rc<[u8]>,
    pub(super) load_bias: u64,
    /// The file of this machine, if it can be read.
    pub(super) here: Option<Here>,
}

/// A file of this machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Here {
    /// The major and the minor number of its device.
    pub(super) device: (u32, u32),
    pub(super) inode: u64,
    /// True if its build id is that of the recording.
    pub(super) is_same: bool,
}

/// A path, and the build id that the recording gives for it.
type Key = (Rc<[u8]>, Rc<[u8]>);

/// The files of a recording.
#[derive(Debug)]
pub(super) struct Files {
    recorded: FxHashMap<Vec<u8>, Rc<[u8]>>,
    known: FxHashMap<Key, File>,
    looks: bool,
}

impl Files {
    /// Creates a cache from the build ids in the recording; `looks` allows it to open the files.
    pub(super) fn new(recorded: &[BuildId], looks: bool) -> Self {
        let recorded = recorded
            .iter()
            .map(|file| (file.path.clone(), file.id.as_slice().into()));
        Self {
            recorded: recorded.collect(),
            known: FxHashMap::default(),
            looks,
        }
    }

    /// Returns the facts about a file. `build_id` is the mapping's own, or empty.
    pub(super) fn get(&mut self, path: &Rc<[u8]>, build_id: &[u8]) -> File {
        let recorded: Rc<[u8]> = if build_id.is_empty() {
            self.recorded.get(&**path).cloned().unwrap_or_default()
        } else {
            build_id.into()
        };
        let key = (path.clone(), recorded.clone());
        if let Some(file) = self.known.get(&key) {
            return file.clone();
        }
        let file = self.look(path, recorded);
        if self.known.len() < MAX_FILES {
            self.known.insert(key, file.clone());
        }
        file
    }

    fn look(&self, path: &[u8], recorded: Rc<[u8]>) -> File {
        let unread = File {
            build_id: recorded.clone(),
            ..File::default()
        };
        if !self.looks || !path.starts_with(b"/") {
            return unread;
        }
        let Ok(path) = std::str::from_utf8(path) else {
            return unread;
        };
        let Ok(file) = open_regular(path) else {
            return unread;
        };
        let here = file.metadata().map(|file| Here {
            device: (major(file.dev()), minor(file.dev())),
            inode: file.ino(),
            is_same: !recorded.is_empty(),
        });
        let Ok(elf) = Elf::open(file, 0) else {
            return unread;
        };
        let its = elf.build_id().unwrap_or_default();
        // The file was replaced since the recording.
        if !recorded.is_empty() && *recorded != *its {
            return unread;
        }
        File {
            build_id: its.into(),
            load_bias: elf.load_bias(),
            here: here.ok(),
        }
    }

    /// Returns the kernel's symbols if the running kernel is the recorded one.
    pub(super) fn kernel(&self) -> Option<KernelSymbols> {
        let recorded = self.recorded.get(KERNEL)?;
        let notes = std::fs::read("/sys/kernel/notes").ok()?;
        if !self.looks || build_id_in_notes(&notes)? != &**recorded {
            return None;
        }
        KernelSymbols::load().ok()
    }
}
