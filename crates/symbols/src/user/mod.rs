//! Names of the functions of programs.

mod cache;
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
use ferretto_elf::{Elf, ElfError, ReadAt};
use image::Image;
pub use image::Reason;
pub use options::{Mode, Options};
use search::{Found, Index};

/// A program file or library of a recording, and addresses in it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Module {
    /// Its path, as the trace has it.
    pub path: String,
    /// The bytes of its GNU build id; empty if it has none.
    pub build_id: Vec<u8>,
    /// The difference between its addresses and their offsets in the file, as the profiler saw it.
    pub load_bias: u64,
    /// The offset in the ELF file at which the mapping begins, if known: tells whether `load_bias`
    /// is right.
    pub offset: Option<u64>,
    /// Addresses, as the trace has them.
    pub rel_pcs: Vec<u64>,
}

/// A function at an address.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Frame {
    /// Its name, demangled.
    pub function: Arc<str>,
    /// The source file.
    pub file: Option<Arc<str>>,
    /// Line in the source file, counted from 1; 0 if unknown.
    pub line: u32,
}

/// The names of an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Named {
    /// The address, as the trace has it.
    pub rel_pc: u64,
    /// The functions there, innermost first: each is inlined into the one after it. Never empty.
    pub frames: Vec<Frame>,
}

/// The result for a module.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// The addresses that have a name, in ascending order.
    pub names: Vec<Named>,
    /// The addresses without a name of which it is known where their functions begin: named by
    /// these [places](crate::place).
    pub starts: Vec<Named>,
    /// The files that names come from.
    pub used: Vec<PathBuf>,
    /// Files that were looked at and are not used, and why.
    pub skipped: Vec<(PathBuf, Reason)>,
    /// Limits of the result, such as damaged debug information.
    pub remarks: Vec<String>,
}

/// Finds the names of functions in the files of programs.
#[derive(Debug)]
pub struct Symbolizer {
    options: Options,
    /// Files under the roots by build id, made when first needed.
    index: std::sync::OnceLock<Index>,
}

/// Returns the functions at each of `addresses` from an ELF file alone, with any build id:
/// innermost first, and none where nothing is known. Addresses are as the file states them, in any
/// order.
///
/// # Errors
///
/// If it is no ELF file.
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
    /// One that looks for files as `options` say. Nothing is opened yet.
    #[must_use]
    pub fn new(options: Options) -> Self {
        Self {
            options,
            index: std::sync::OnceLock::new(),
        }
    }

    /// The names of the addresses of each module, in the order of `modules`.
    ///
    /// Two modules at a time are worked on. Addresses without a name are left out, and the
    /// [`Outcome`] tells why.
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
                scope.spawn(work);
            }
            work();
        });
        outcomes
            .into_inner()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// The names of the addresses of one module.
    #[must_use]
    pub fn symbolize_module(&self, module: &Module) -> Outcome {
        let found = search::find(&self.options, &self.index, module);
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

    /// Names addresses (ascending, with their names in the trace) by the files that were found, and
    /// by names known from earlier.
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
            // Files that were damaged or took too long are tried again another time.
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

/// Names addresses (as the files state them, with their names in the trace) by the starts of their
/// functions.
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
            let function = crate::place(&module.path, start).into();
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
