//! Names of addresses from the files of a module.

use std::sync::Arc;

use super::image::Image;
use super::{Frame, Module, Named, Outcome};
use crate::demangle;

/// Longer names are cut off.
const MAX_NAME: usize = 4096;

/// Names `rel_pcs` from `images`, the best first.
pub(super) fn name(images: &[Image], module: &Module, rel_pcs: &[u64], outcome: &mut Outcome) {
    let correction = images.first().map_or(0, |image| correction(image, module));
    let mut used = vec![false; images.len()];
    for &rel_pc in rel_pcs {
        let address = rel_pc.wrapping_add(correction);
        let found = images.iter().enumerate().find_map(|(index, image)| {
            let (name, _) = image.elf.symbols().lookup(address)?;
            Some((index, name))
        });
        let Some((index, name)) = found else { continue };
        used[index] = true;
        let frame = Frame {
            function: function_name(name),
            file: None,
            line: 0,
        };
        outcome.names.push(Named {
            rel_pc,
            frames: vec![frame],
        });
    }
    let used = images.iter().zip(used).filter(|(_, used)| *used);
    outcome
        .used
        .extend(used.map(|(image, _)| image.path.clone()));
}

/// What to add to recorded addresses to get those of the file.
///
/// A profiler that did not see the file's headers takes a load bias that is too small.
fn correction(image: &Image, module: &Module) -> u64 {
    let Some(offset) = module.offset else {
        return 0;
    };
    let segments = image.elf.segments();
    let Some(segment) = segments.iter().find(|segment| segment.is_executable()) else {
        return 0;
    };
    // The place in the file is the one that was mapped: that in the headers of a debug file means nothing.
    let down = |value: u64| match segment.alignment {
        alignment if alignment.is_power_of_two() => value & !(alignment - 1),
        _ => value,
    };
    let load_bias = down(segment.address).saturating_sub(down(offset));
    load_bias.saturating_sub(module.load_bias)
}

/// A name to show, of one in a file.
pub(super) fn function_name(name: &str) -> Arc<str> {
    if let Some(name) = demangle(name) {
        return name.into();
    }
    let end = (0..=name.len().min(MAX_NAME))
        .rev()
        .find(|&end| name.is_char_boundary(end));
    name[..end.unwrap_or(0)].into()
}
