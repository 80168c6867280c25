//! Names of addresses from the files of a module.

use std::sync::Arc;

use ferretto_elf::Elf;
use rustc_hash::FxHashMap;

use super::dwarf::{Budget, Dwarf, Problem, SourceLocation};
use super::image::{Image, Level};
use super::{Frame, Module};
use crate::demangle;

/// The largest size of a name. Longer ones are cut off.
const MAX_NAME: usize = 4096;

/// The names from the files of a module.
#[derive(Debug, Default)]
pub(super) struct Names {
    /// The functions of each address, innermost first; empty if unknown.
    pub(super) frames: Vec<Vec<Frame>>,
    /// For each file, true if names come from it.
    pub(super) used: Vec<bool>,
    pub(super) remarks: Vec<String>,
}

/// Names the ascending `addresses` of the files from the files of a module, the best first.
pub(super) fn name(images: &[Image], supplementary: Option<&Image>, addresses: &[u64]) -> Names {
    let mut names = Names {
        used: vec![false; images.len()],
        ..Names::default()
    };
    let locations = locations(images, supplementary, addresses, &mut names.remarks);
    let mut texts = Texts::default();
    for (index, &address) in addresses.iter().enumerate() {
        let locations = locations.get(index).map_or(&[][..], |locations| locations);
        let mut frames = Vec::with_capacity(locations.len().max(1));
        let (last, inlined) = match locations.split_last() {
            Some((last, inlined)) => (Some(last), inlined),
            None => (None, &[][..]),
        };
        frames.extend(
            inlined
                .iter()
                .filter_map(|location| texts.frame(location, None)),
        );
        let symbol = match last {
            Some(SourceLocation {
                function: Some(_), ..
            }) => None,
            _ => symbol(images, address),
        };
        if let Some((image, _)) = &symbol {
            names.used[*image] = true;
        }
        let outermost = last.cloned().unwrap_or_default();
        frames.extend(texts.frame(&outermost, symbol.as_ref().map(|(_, name)| name.as_str())));
        if last.is_some() && !frames.is_empty() {
            names.used[0] = true;
        }
        names.frames.push(frames);
    }
    names
}

/// Returns the source locations of each address; empty if there is no debug information.
fn locations(
    images: &[Image],
    supplementary: Option<&Image>,
    addresses: &[u64],
    remarks: &mut Vec<String>,
) -> Vec<Vec<SourceLocation>> {
    let Some(image) = images.first().filter(|image| image.level == Level::Lines) else {
        return Vec::new();
    };
    let budget = Budget::new();
    let mut remark = |problem: Option<Problem>| {
        let problem = problem.map(|problem| format!("{}: {problem}", image.path.display()));
        remarks.extend(problem);
    };
    let supplementary = supplementary.map(|image| &image.elf);
    match Dwarf::open(&image.elf, supplementary, &image.path, &budget) {
        Ok((dwarf, problem)) => {
            remark(problem);
            let (locations, problem) = dwarf.locate(addresses, &budget);
            remark(problem);
            locations
        }
        Err(problem) => {
            remark(Some(problem));
            Vec::new()
        }
    }
}

/// Returns the index of the file with a symbol for the address, and the name.
fn symbol(images: &[Image], address: u64) -> Option<(usize, String)> {
    images.iter().enumerate().find_map(|(index, image)| {
        let (name, _) = image.elf.symbols().lookup(address)?;
        Some((index, name))
    })
}

/// Deduplicated names and paths.
#[derive(Default)]
struct Texts {
    functions: FxHashMap<String, Arc<str>>,
    files: FxHashMap<String, Arc<str>>,
}

impl Texts {
    fn frame(&mut self, location: &SourceLocation, symbol: Option<&str>) -> Option<Frame> {
        let name = location.function.as_deref().or(symbol)?;
        let function = match self.functions.get(name) {
            Some(known) => Arc::clone(known),
            None => {
                let shown = function_name(name);
                self.functions.insert(name.to_owned(), Arc::clone(&shown));
                shown
            }
        };
        let file = location
            .file
            .as_deref()
            .map(|file| match self.files.get(file) {
                Some(known) => Arc::clone(known),
                None => {
                    let shown: Arc<str> = file.into();
                    self.files.insert(file.to_owned(), Arc::clone(&shown));
                    shown
                }
            });
        Some(Frame {
            function,
            file,
            line: location.line,
        })
    }
}

/// Returns the difference from recorded addresses to those of the file.
///
/// A profiler that did not read the file's headers uses a load bias that is too small. One that
/// took it from another executable segment may use one that is too large; then the sum wraps
/// around.
pub(super) fn correction(image: &Image, module: &Module) -> u64 {
    let load_bias = module
        .offset
        .and_then(|offset| load_bias(&image.elf, offset));
    load_bias.map_or(0, |it| {
        if has_code(&image.elf) {
            it.wrapping_sub(module.load_bias)
        } else {
            it.saturating_sub(module.load_bias)
        }
    })
}

/// Returns true if the file contains code, which debug files leave out.
pub(super) fn has_code(elf: &Elf) -> bool {
    let text = elf.section_header(".text");
    text.is_none_or(|text| text.has_data())
}

/// Returns the difference between addresses and file offsets in the segment at `offset`.
fn load_bias(elf: &Elf, offset: u64) -> Option<u64> {
    let down = |value: u64, alignment: u64| match alignment {
        alignment if alignment.is_power_of_two() => value & !(alignment - 1),
        _ => value,
    };
    let mut code = elf
        .segments()
        .iter()
        .filter(|segment| segment.is_executable());
    if has_code(elf) {
        let mapped = code.find(|segment| {
            let start = down(segment.offset, segment.alignment);
            (start..segment.offset.saturating_add(segment.file_size)).contains(&offset)
        })?;
        return mapped.address.checked_sub(mapped.offset);
    }
    // A debug file has no code, so the file offsets in its headers are meaningless.
    let first = code.next()?;
    down(first.address, first.alignment).checked_sub(down(offset, first.alignment))
}

/// Returns the name to show for a name in a file.
fn function_name(name: &str) -> Arc<str> {
    if let Some(name) = demangle(name) {
        return name.into();
    }
    let end = (0..=name.len().min(MAX_NAME))
        .rev()
        .find(|&end| name.is_char_boundary(end));
    name[..end.unwrap_or(0)].into()
}
