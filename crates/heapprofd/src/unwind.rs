//! Unwinds records to callstacks.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use ferretto_heap::wire::{AllocMetadata, arch, chain};
use ferretto_profiling::Frame;
use ferretto_unwind::{
    Cache, Frame as UserFrame, Machine, Mode, Process, Registers, StackCopy, UnwindError,
};
use rustix::fs::{Mode as FileMode, OFlags};

/// The library of the innermost frames.
const LIBRARY: &str = "libferretto_heap.so";
/// Parts of the names of client functions in a program with the allocator.
const CLIENT: [&str; 2] = ["ferretto_heap", "__rust_alloc"];
/// Suffixes of the names of upstream's client libraries.
const UPSTREAM: [&str; 3] = [
    "heapprofd_client.so",
    "heapprofd_client_api.so",
    "heapprofd_glibc_preload.so",
];
/// The largest number of bytes between the stack pointer and the copy of the stack.
const MAX_GAP: u64 = 4096;
/// The number of stacks in a row that frame pointers must unwind correctly before stacks are no
/// longer copied.
const TRUSTED_AFTER: u32 = 32;

/// The unwinder of a process.
#[derive(Debug)]
pub(crate) struct Unwinder {
    process: Process,
    /// The memory of the process.
    memory: Option<File>,
    /// A buffer for the stack from the stack pointer on.
    stack: Vec<u8>,
    frames: Vec<UserFrame>,
    by_chain: Vec<UserFrame>,
    addresses: Vec<u64>,
    /// The number of stacks in a row for which frame pointers agreed with the tables.
    agreed: u32,
}

impl Unwinder {
    pub(crate) fn new(pid: u32, maps: File, memory: File) -> Self {
        // The files must be found after the process has ended, which may be soon.
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = rustix::fs::open(format!("/proc/{pid}/root"), flags, FileMode::empty());
        let roots = root.into_iter().map(Arc::new).collect();
        // Without memory, the bytes that upstream's client leaves out are 0.
        let own_memory = memory.try_clone().ok();
        let mut process = Process::with_roots(pid, maps, memory, roots);
        process.read_ahead();
        Self {
            process,
            memory: own_memory,
            stack: Vec::new(),
            frames: Vec::new(),
            by_chain: Vec::new(),
            addresses: Vec::new(),
            agreed: 0,
        }
    }

    /// Handles an unmapping of code.
    pub(crate) fn unmapped(&mut self) {
        self.process.unmapped();
    }

    /// Returns true if frame pointers have proved reliable, so stacks need not be copied.
    pub(crate) fn trusts_chains(&self) -> bool {
        self.agreed >= TRUSTED_AFTER
    }

    /// Returns the callstack, the innermost frame first, and true if it is complete.
    pub(crate) fn unwind(
        &mut self,
        cache: &Cache,
        metadata: &AllocMetadata,
        chain_bytes: &[u8],
        is_cut: bool,
        stack: &[u8],
    ) -> (Vec<Frame>, Result<(), UnwindError>) {
        self.frames.clear();
        self.addresses.clear();
        self.addresses.extend(chain(chain_bytes));
        let Some(registers) = registers(metadata) else {
            return (Vec::new(), Err(UnwindError::Unsupported));
        };
        // Upstream's client copies the stack of its callers. Its own saved registers are before
        // that, and may still be in memory.
        let gap = metadata.stack_pointer.wrapping_sub(registers.sp());
        let stack = match gap {
            1..=MAX_GAP => {
                self.stack.clear();
                self.stack.resize(gap as usize, 0);
                if let Some(memory) = &self.memory {
                    // Reads as much as possible.
                    let _ = memory.read_at(&mut self.stack, registers.sp());
                }
                self.stack.extend_from_slice(stack);
                &self.stack
            }
            _ => stack,
        };
        let copy = StackCopy {
            registers: Some(&registers),
            stack,
            stack_full: is_cut,
            user_chain: &self.addresses,
        };
        let by_chain = stack.is_empty() && self.addresses.len() > 1;
        let mode = if by_chain {
            Mode::KernelChain
        } else {
            Mode::Dwarf
        };
        let result = self.process.unwind(cache, &copy, mode, &mut self.frames);
        if !by_chain && self.addresses.len() > 1 {
            // Compares the callstack by frame pointers with that by the tables.
            self.by_chain.clear();
            let chain = &mut self.by_chain;
            let unwound = self.process.unwind(cache, &copy, Mode::KernelChain, chain);
            self.agreed = if unwound.is_ok() && are_alike(&self.frames, &self.by_chain) {
                self.agreed.saturating_add(1)
            } else {
                0
            };
        }
        let skipped = self.frames.iter().take_while(|frame| is_of_client(frame));
        let skipped = skipped.count();
        let frames = self.frames.drain(..).skip(skipped).map(Frame::User);
        (frames.collect(), result)
    }
}

/// Returns true if two callstacks are equal except for the innermost frame.
fn are_alike(one: &[UserFrame], other: &[UserFrame]) -> bool {
    let location = |frame: &UserFrame| {
        let start = frame.mapping.as_ref().map(|mapping| mapping.start);
        (start, frame.rel_pc)
    };
    let mut frames = one.iter().zip(other).skip(1);
    one.len() == other.len() && frames.all(|(one, other)| location(one) == location(other))
}

fn is_of_client(frame: &UserFrame) -> bool {
    let Some(mapping) = &frame.mapping else {
        return false;
    };
    let path = mapping
        .path
        .strip_suffix(" (deleted)")
        .unwrap_or(&mapping.path);
    if path.ends_with(LIBRARY) || UPSTREAM.iter().any(|name| path.ends_with(name)) {
        return true;
    }
    let name = frame.function_name();
    name.is_some_and(|name| CLIENT.iter().any(|part| name.contains(part)))
}

fn registers(metadata: &AllocMetadata) -> Option<Registers> {
    if metadata.arch != arch::NATIVE {
        return None;
    }
    let machine = Machine::NATIVE;
    let (count, pc) = match machine {
        Machine::Aarch64 => (32, 32),
        _ => (16, 16),
    };
    let mut registers = Registers::new(machine);
    for (number, value) in metadata.registers.iter().take(count).enumerate() {
        registers.set(number, *value);
    }
    registers.set_pc(metadata.registers[pc]);
    Some(registers)
}
