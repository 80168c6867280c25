//! The results of a walk.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::error::UnwindError;
use crate::module::Module;

/// A part of a process's memory in which code lies, usually of a file.
///
/// Two frames in the same part of one process share it, until the process's maps change.
pub struct Mapping {
    /// No two are alike, also not after one of them is gone.
    pub id: u64,
    /// The name that the kernel gives, with `!` and the name of the library if that lies within
    /// another file. Empty for memory that has none.
    pub path: String,
    /// The raw bytes of the build id; empty if there is none.
    pub build_id: Vec<u8>,
    /// First address.
    pub start: u64,
    /// The address after the last.
    pub end: u64,
    /// Position in the file of `start`.
    pub exact_offset: u64,
    /// Position in the file at which the ELF file begins that the code is of; 0 unless it lies
    /// within another.
    pub start_offset: u64,
    /// Address in the ELF file minus position there, of the executable segment that is mapped.
    /// Upstream takes the first one of the file, so that addresses in a second one get names that
    /// lie elsewhere.
    pub load_bias: u64,
    pub(crate) module: Option<Arc<Module>>,
    /// Address in the process minus address in the ELF file.
    pub(crate) slide: u64,
}

impl fmt::Debug for Mapping {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mapping")
            .field("path", &self.path)
            .field("start", &format_args!("{:#x}", self.start))
            .field("end", &format_args!("{:#x}", self.end))
            .field("exact_offset", &self.exact_offset)
            .field("start_offset", &self.start_offset)
            .field("load_bias", &self.load_bias)
            .finish_non_exhaustive()
    }
}

/// A number that no other mapping has.
pub(crate) fn next_id() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

impl Mapping {
    /// Returns the address relative to the ELF file, as offline symbolizers take it.
    pub(crate) fn relative(&self, pc: u64) -> u64 {
        let within = self.exact_offset.wrapping_sub(self.start_offset);
        pc.wrapping_sub(self.start)
            .wrapping_add(self.load_bias)
            .wrapping_add(within)
    }
}

/// One frame of a callstack.
#[derive(Clone, Debug)]
pub struct Frame {
    /// The mapping of the code; `None` for addresses outside of all, and for frames that stand for
    /// an error.
    pub mapping: Option<Arc<Mapping>>,
    /// The address in the mapping's ELF file, moved back into the call for all but the innermost
    /// frame and those that a signal interrupted. Without a mapping: the address in memory, or 0.
    pub rel_pc: u64,
    pub(crate) name: Option<Arc<str>>,
}

impl Frame {
    /// The frame that stands for an error; it is the outermost.
    pub(crate) fn error(error: UnwindError) -> Self {
        Self {
            mapping: None,
            rel_pc: 0,
            name: Some(error.frame_name().into()),
        }
    }

    /// The function's name as it is in the file's symbol tables or the JIT compiler's map, not
    /// demangled; for the frame that stands for an error, `ERROR ` and the error's name. The first
    /// call for a file goes through its symbol tables, if there is room for what is kept of them
    /// ([`Cache::with_table_limit`](crate::Cache::with_table_limit)).
    #[must_use]
    pub fn function_name(&self) -> Option<Arc<str>> {
        if let Some(name) = &self.name {
            return Some(Arc::clone(name));
        }
        let mapping = self.mapping.as_deref()?;
        let module = mapping.module.as_deref()?;
        // Back to the address in memory, as other segments may lie elsewhere than the first.
        let pc = self
            .rel_pc
            .wrapping_add(mapping.start)
            .wrapping_sub(mapping.relative(mapping.start));
        let address = pc.wrapping_sub(mapping.slide);
        module.function_name(address)
    }
}
