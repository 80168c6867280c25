//! The code of a function: its file and its addresses.

use std::ops::Range;
use std::path::PathBuf;

use super::{Module, Outcome, Reason, Symbolizer, search, starts, table};

/// The code of a function in a file with the recorded build id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Code {
    /// The file.
    pub path: PathBuf,
    /// The addresses of the function in the file.
    pub range: Range<u64>,
    /// The difference from addresses of the trace to those of the file.
    pub correction: u64,
}

impl Symbolizer {
    /// Returns the code of the function that contains an address as in the trace.
    ///
    /// # Errors
    ///
    /// Fails with the files that were not used and the reasons, if no file with the code is found.
    pub fn code(&self, module: &Module, rel_pc: u64) -> Result<Code, Vec<(PathBuf, Reason)>> {
        let found = search::find(&self.options, &self.index, self.servers.as_ref(), module);
        let code = found.images.first().and_then(|best| {
            let correction = table::correction(best, module);
            let address = rel_pc.wrapping_add(correction);
            let mut images = found.images.iter();
            let range = images
                .clone()
                .find_map(|image| image.elf.symbols().range(address))
                .or_else(|| {
                    let elves = found.images.iter().map(|image| &image.elf);
                    elves
                        .into_iter()
                        .find_map(|elf| starts::range(elf, address))
                })?;
            // Debug files have no code.
            let image = images.find(|image| table::has_code(&image.elf))?;
            Some(Code {
                path: image.path.clone(),
                range,
                correction,
            })
        });
        code.ok_or(found.skipped)
    }

    /// Names addresses of the file of `code`.
    #[must_use]
    pub fn lines(&self, module: &Module, code: &Code, addresses: &[u64]) -> Outcome {
        let rel_pcs = addresses.iter();
        let rel_pcs = rel_pcs.map(|address| address.wrapping_sub(code.correction));
        self.symbolize_module(&Module {
            rel_pcs: rel_pcs.collect(),
            ..module.clone()
        })
    }
}
