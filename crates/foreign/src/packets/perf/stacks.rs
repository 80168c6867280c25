//! Callstacks of samples that have registers and a copy of the stack, by the files that this
//! machine still has.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use crate::perf_data::UserState;
use ferretto_profiling::{Interner, MappingOf};
use ferretto_unwind::{Cache, Frame, Machine, Map, Mode, Process, Registers, StackCopy};
use rustc_hash::FxHashMap;
use rustix::fs::OFlags;

use super::maps::{Mapped, Memory};

/// The largest number of processes whose files are kept open.
const MAX_PROCESSES: usize = 64;

/// Unwinds the stacks of all processes.
#[derive(Debug)]
pub(super) struct Stacks {
    cache: Cache,
    /// The folder in which paths begin.
    root: Arc<OwnedFd>,
    processes: FxHashMap<u32, Process>,
    frames: Vec<Frame>,
}

/// The frames of a stack, the innermost first.
#[derive(Debug)]
pub(super) struct Unwound<'a> {
    pub(super) frames: &'a [Frame],
    /// False if the last frame stands for an error.
    pub(super) is_whole: bool,
}

impl Stacks {
    /// Returns `None` if there are no files to read.
    pub(super) fn new() -> Option<Self> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = rustix::fs::open("/", flags, rustix::fs::Mode::empty()).ok()?;
        Some(Self {
            cache: Cache::new(),
            root: Arc::new(root),
            processes: FxHashMap::default(),
            frames: Vec::new(),
        })
    }

    /// Forgets the mappings of a process, which have changed.
    pub(super) fn forget(&mut self, pid: u32) {
        self.processes.remove(&pid);
    }

    /// Returns the frames of a stack; `None` if the registers are not those of this machine.
    pub(super) fn unwind(
        &mut self,
        pid: u32,
        memory: &Memory,
        user: &UserState<'_>,
    ) -> Option<Unwound<'_>> {
        let values = user.registers();
        let registers = Registers::from_perf(Machine::NATIVE, user.abi, user.mask, &values)?;
        if self.processes.len() >= MAX_PROCESSES && !self.processes.contains_key(&pid) {
            self.processes.clear();
        }
        let root = &self.root;
        let process = self.processes.entry(pid).or_insert_with(|| {
            let maps = memory.of(pid).filter_map(map).collect();
            Process::gone(pid, maps, vec![Arc::clone(root)])
        });
        let copy = StackCopy {
            registers: Some(&registers),
            stack: user.stack,
            stack_full: user.is_full,
            user_chain: &[],
        };
        self.frames.clear();
        let unwound = process.unwind(&self.cache, &copy, Mode::Dwarf, &mut self.frames);
        Some(Unwound {
            frames: &self.frames,
            is_whole: unwound.is_ok(),
        })
    }
}

fn map(mapped: &Mapped) -> Option<Map> {
    let name = std::str::from_utf8(&mapped.path).ok()?;
    // A file that cannot be read is still one, of which no frame can be followed further out.
    let missing = if name.starts_with('/') { u64::MAX } else { 0 };
    let here = mapped.here;
    Some(Map {
        start: mapped.range.start,
        end: mapped.range.end,
        readable: true,
        writable: false,
        executable: true,
        offset: mapped.range.exact_offset,
        device: here.map_or((0, 0), |here| here.device),
        inode: here.map_or(missing, |here| here.inode),
        name: name.into(),
    })
}

/// Returns the iid of a frame.
pub(super) fn intern(interner: &mut Interner, frame: &Frame) -> u32 {
    let Some(mapping) = &frame.mapping else {
        let nowhere = interner.mapping(&MappingOf::default());
        // The name of an error.
        let name = frame.function_name().unwrap_or_default();
        return interner.frame(nowhere, frame.rel_pc, name.as_bytes());
    };
    let mapping = interner.mapping(&MappingOf::from(&**mapping));
    interner.frame(mapping, frame.rel_pc, b"")
}
