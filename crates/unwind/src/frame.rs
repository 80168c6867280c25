//! The results of a walk.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::error::UnwindError;
use crate::module::Module;

/// A mapping with code in a process's memory, usually of a file.
///
/// Frames in the same mapping of a process share it until the process's maps change.
pub struct Mapping {
    /// A unique id, which is never reused.
    pub id: u64,
    /// The kernel's name, followed by `!` and the name of the library if it is inside another file.
    /// Empty for memory without a name.
    pub path: String,
    /// The bytes of the build id; empty if there is none.
    pub build_id: Vec<u8>,
    /// The first address.
    pub start: u64,
    /// The address after the last.
    pub end: u64,
    /// The file offset of `start`.
    pub exact_offset: u64,
    /// The file offset of the ELF file with the code; 0 unless it is inside another file.
    pub start_offset: u64,
    /// The address minus the offset in the ELF file of the mapped executable segment. Upstream uses
    /// the first executable segment of the file, which gives addresses in other segments wrong
    /// names.
    pub load_bias: u64,
    pub(crate) module: Option<Arc<Module>>,
    /// The address in the process minus the address in the ELF file.
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

/// Returns a unique id.
pub(crate) fn next_id() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

impl Mapping {
    /// Returns the address in the ELF file, as offline symbolizers need it.
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
    /// The mapping of the code; `None` for addresses outside of mappings, and for error frames.
    pub mapping: Option<Arc<Mapping>>,
    /// The address in the mapping's ELF file. It is moved back into the call, except for the
    /// innermost frame and frames interrupted by a signal. Without a mapping, it is the address in
    /// memory, or 0.
    pub rel_pc: u64,
    pub(crate) name: Option<Arc<str>>,
}

impl Frame {
    /// Creates the frame that represents an error, which is the outermost.
    pub(crate) fn error(error: UnwindError) -> Self {
        Self {
            mapping: None,
            rel_pc: 0,
            name: Some(error.frame_name().into()),
        }
    }

    /// Returns the function's name from the file's symbol tables or the JIT compiler's map, not
    /// demangled. For an error frame, returns `ERROR ` and the error's name. The first call for a
    /// file indexes its symbol tables, if the index fits into the limit
    /// ([`Cache::with_table_limit`](crate::Cache::with_table_limit)).
    #[must_use]
    pub fn function_name(&self) -> Option<Arc<str>> {
        if let Some(name) = &self.name {
            return Some(Arc::clone(name));
        }
        let mapping = self.mapping.as_deref()?;
        let module = mapping.module.as_deref()?;
        // Converts back to the address in memory, since other segments may have another bias.
        let pc = self
            .rel_pc
            .wrapping_add(mapping.start)
            .wrapping_sub(mapping.relative(mapping.start));
        let address = pc.wrapping_sub(mapping.slide);
        module.function_name(address)
    }
}
