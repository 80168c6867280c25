//! Names of functions of programs.

mod cache;
mod code;
mod debuginfod;
mod dwarf;
mod image;
mod options;
mod search;
mod starts;
mod table;
mod vdso;

use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use cache::Cache;
pub use code::Code;
pub use debuginfod::ServerUrl;
use debuginfod::Servers;
use ferretto_elf::{Elf, ElfError, ReadAt};
use image::Image;
pub use image::Reason;
pub use options::{Mode, Options};
use search::{Found, Index};

/// A program file or library of a recording, and addresses in it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Module {
    /// Its path in the trace.
    pub path: String,
    /// The bytes of its GNU build id; empty if it has none.
    pub build_id: Vec<u8>,
    /// The difference between addresses and file offsets that the profiler recorded.
    pub load_bias: u64,
    /// The offset in the ELF file at which the mapping begins, if known. It serves to correct
    /// `load_bias`.
    pub offset: Option<u64>,
    /// Addresses as in the trace.
    pub rel_pcs: Vec<u64>,
}

/// A function at an address.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Frame {
    /// The demangled name.
    pub function: Arc<str>,
    /// The source file.
    pub file: Option<Arc<str>>,
    /// The line in the source file, counted from 1; 0 if unknown.
    pub line: u32,
}

/// The names of an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Named {
    /// The address as in the trace.
    pub rel_pc: u64,
    /// The functions at the address, innermost first. Each is inlined into the next. Never empty.
    pub frames: Vec<Frame>,
}

/// The result for a module.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// The named addresses in ascending order.
    pub names: Vec<Named>,
    /// The unnamed addresses whose functions have a known start. They are named by these
    /// [offsets](crate::offset_name).
    pub starts: Vec<Named>,
    /// The files that names come from.
    pub used: Vec<PathBuf>,
    /// The files that were considered but not used, with reasons.
    pub skipped: Vec<(PathBuf, Reason)>,
    /// Limitations of the result, such as damaged debug information.
    pub remarks: Vec<String>,
}

/// Finds the names of functions in the files of programs.
#[derive(Debug)]
pub struct Symbolizer {
    options: Options,
    /// The files below the roots by build id, indexed when first needed.
    index: std::sync::OnceLock<Index>,
    /// The servers to ask for missing files.
    servers: Option<Servers>,
}

/// Returns the functions at each of `addresses`, innermost first, from one ELF file with any build
/// id. Unknown addresses have none. Addresses are those of the file, in any order.
///
/// # Errors
///
/// Fails if `file` is not an ELF file.
pub fn frames(file: impl ReadAt + 'static, addresses: &[u64]) -> Result<Vec<Vec<Frame>>, ElfError> {
    let image = Image::new(PathBuf::new(), Elf::open(file, 0)?);
    let mut sorted = addresses.to_vec();
    sorted.sort_unstable();
    sorted.dedup();
    let names = table::name(std::slice::from_ref(&image), None, &sorted);
    let of = |address| {
        sorted
            .binary_search(address)
            .ok()
            .map(|index| names.frames[index].clone())
    };
    Ok(addresses
        .iter()
        .map(|address| of(address).unwrap_or_default())
        .collect())
}

impl Symbolizer {
    /// Creates a symbolizer that searches as `options` say. Opens no files yet.
    #[must_use]
    pub fn new(options: Options) -> Self {
        let folder = options.downloads.clone();
        let folder = folder.or_else(Options::default_downloads);
        let servers = folder
            .filter(|_| !options.servers.is_empty())
            .map(|folder| Servers::new(&options.servers, folder));
        Self {
            options,
            index: std::sync::OnceLock::new(),
            servers,
        }
    }

    /// Names the addresses of each module, in the order of `modules`.
    ///
    /// Works on two modules at a time. Leaves out addresses without a name; the [`Outcome`] has the
    /// reasons.
    #[must_use]
    pub fn symbolize(&self, modules: &[Module]) -> Vec<Outcome> {
        let next = AtomicUsize::new(0);
        let outcomes = Mutex::new(vec![Outcome::default(); modules.len()]);
        let work = || {
            while let Some((index, module)) = {
                let index = next.fetch_add(1, Ordering::Relaxed);
                modules.get(index).map(|module| (index, module))
            } {
                let outcome = self.symbolize_module(module);
                outcomes.lock().unwrap_or_else(PoisonError::into_inner)[index] = outcome;
            }
        };
        std::thread::scope(|scope| {
            if modules.len() > 1 {
                // If the thread cannot be started, this one names all modules.
                let _ = std::thread::Builder::new().spawn_scoped(scope, work);
            }
            work();
        });
        outcomes
            .into_inner()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Names the addresses of one module.
    #[must_use]
    pub fn symbolize_module(&self, module: &Module) -> Outcome {
        let found = search::find(&self.options, &self.index, self.servers.as_ref(), module);
        let mut outcome = Outcome::default();
        if let Some(best) = found.images.first() {
            let correction = table::correction(best, module);
            let mut addresses: Vec<(u64, u64)> = module
                .rel_pcs
                .iter()
                .map(|&rel_pc| (rel_pc.wrapping_add(correction), rel_pc))
                .collect();
            addresses.sort_unstable();
            addresses.dedup();
            self.name(&found, module, &addresses, &mut outcome);
        }
        outcome.skipped = found.skipped;
        outcome
    }

    /// Names ascending addresses, paired with those in the trace, from the found files and cached
    /// names.
    fn name(
        &self,
        found: &Found,
        module: &Module,
        addresses: &[(u64, u64)],
        outcome: &mut Outcome,
    ) {
        let cache = self.options.cache.as_deref();
        let cache = cache.and_then(|folder| Cache::new(folder, &module.build_id, found));
        let mut known = cache.as_ref().map(Cache::load).unwrap_or_default();
        let mut new: Vec<u64> = addresses.iter().map(|&(address, _)| address).collect();
        new.retain(|address| !known.names.contains_key(address));
        new.dedup();
        if !new.is_empty() {
            let names = table::name(&found.images, found.supplementary.as_ref(), &new);
            known.used.resize(found.images.len(), false);
            for (known, used) in known.used.iter_mut().zip(names.used) {
                *known |= used;
            }
            known.names.extend(new.into_iter().zip(names.frames));
            outcome.remarks = names.remarks;
            // Damaged and slow files are not cached, so the next run tries them again.
            if let Some(cache) = cache.filter(|_| outcome.remarks.is_empty()) {
                cache.store(&known);
            }
        }
        let mut unnamed = Vec::new();
        for &(address, rel_pc) in addresses {
            match known.names.get(&address) {
                Some(frames) if !frames.is_empty() => {
                    let frames = frames.clone();
                    outcome.names.push(Named { rel_pc, frames });
                }
                _ => unnamed.push((address, rel_pc)),
            }
        }
        outcome.starts = starts(found, module, &unnamed);
        let used = found
            .images
            .iter()
            .zip(known.used)
            .filter(|(_, used)| *used);
        let used = used.map(|(image, _)| image.path.clone());
        outcome.used.extend(used);
    }
}

/// Names addresses of the files, paired with those in the trace, by the starts of their functions.
fn starts(found: &Found, module: &Module, unnamed: &[(u64, u64)]) -> Vec<Named> {
    if unnamed.is_empty() {
        return Vec::new();
    }
    let addresses: Vec<u64> = unnamed.iter().map(|(address, _)| *address).collect();
    let starts = starts::starts(&found.images, &addresses).into_iter();
    starts
        .zip(unnamed)
        .filter_map(|(start, &(address, rel_pc))| {
            let start = rel_pc.wrapping_sub(address.wrapping_sub(start?));
            let function = crate::offset_name(&module.path, start).into();
            Some(Named {
                rel_pc,
                frames: vec![Frame {
                    function,
                    file: None,
                    line: 0,
                }],
            })
        })
        .collect()
}
