//! `--uprobe` and `--kprobe`: kernel events created for a recording.

use std::ffi::OsStr;
use std::path::Path;

use anyhow::{Context, Result, bail};
use ferretto_elf::{Elf, open_regular};
use ferretto_probes::ftrace::{DynamicEvent, ProbeLocation};
use ferretto_symbols::demangle;

use super::program;
use super::sources::nearest;
use ferretto_text::terminal::shown;

/// The suffix of a location that selects the return.
const RETURN: &str = "%return";

/// Returns the events of `--uprobe PATH:LOCATION` and `--kprobe FUNCTION`.
///
/// # Errors
///
/// Fails if a program has no such function.
pub(super) fn events(uprobes: &[String], kprobes: &[String]) -> Result<Vec<DynamicEvent>> {
    let in_programs = uprobes.iter().map(|text| in_program(text));
    let in_kernel = kprobes.iter().map(|text| in_kernel(text));
    in_programs.chain(in_kernel).collect()
}

/// Splits the suffix from a location. The flag is true if it selects the return.
fn without_return(text: &str) -> (&str, bool) {
    match text.strip_suffix(RETURN) {
        Some(location) => (location, true),
        None => (text, false),
    }
}

/// Returns the name of an event, with a suffix for returns.
fn called(location: &str, is_return: bool) -> String {
    format!("{location}{}", if is_return { "__return" } else { "" })
}

fn in_kernel(text: &str) -> Result<DynamicEvent> {
    let (function, is_return) = without_return(text);
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '+' | ':');
    if function.is_empty() || !function.chars().all(is_plain) {
        bail!(
            "--kprobe takes the name of a kernel function, not {:?}",
            shown(text)
        );
    }
    let called = called(function, is_return);
    Ok(DynamicEvent::new(
        &called,
        ProbeLocation::Kernel(function.to_owned()),
        is_return,
    ))
}

fn in_program(text: &str) -> Result<DynamicEvent> {
    let (rest, is_return) = without_return(text);
    let Some((path, at)) = rest
        .split_once(':')
        .filter(|(path, at)| !path.is_empty() && !at.is_empty())
    else {
        bail!(
            "--uprobe takes a file and a function or offset, such as /bin/bash:readline or \
             /bin/bash:0x1c40, not {:?}",
            shown(text)
        );
    };
    let path = if path.contains('/') {
        Path::new(path).to_owned()
    } else {
        program::find(OsStr::new(path)).unwrap_or_else(|_| path.into())
    };
    // The kernel needs an absolute path.
    let path = path
        .canonicalize()
        .with_context(|| format!("cannot find {}", path.display()))?;
    let offset = match at.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16)
            .with_context(|| format!("--uprobe {}: {at} is not an offset", shown(text)))?,
        None => offset_of(&path, at)?,
    };
    let called = match at.strip_prefix("0x") {
        Some(_) => {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            called(&format!("{name}_{at}"), is_return)
        }
        None => called(at, is_return),
    };
    Ok(DynamicEvent::new(
        &called,
        ProbeLocation::Program(path, offset),
        is_return,
    ))
}

/// Returns the offset of a function in a file.
fn offset_of(path: &Path, function: &str) -> Result<u64> {
    let name = path.display();
    let file = open_regular(path).with_context(|| format!("cannot open {name}"))?;
    let elf = Elf::open(file, 0).with_context(|| format!("cannot find functions in {name}"))?;
    let symbols = elf.read_symbols();
    let is_it = |symbol: &str| {
        let symbol = symbol.split('@').next().unwrap_or_default();
        symbol == function || demangle(symbol).is_some_and(|symbol| symbol == function)
    };
    let found = symbols.iter().find(|(_, _, symbol)| is_it(symbol));
    if let Some((address, ..)) = found {
        return elf
            .offset_of(address)
            .with_context(|| format!("the code of {function} is not in {name}"));
    }
    if symbols.is_empty() {
        bail!("{name} has no symbols; give an offset as {name}:0xOFFSET");
    }
    let names: Vec<String> = symbols.iter().map(|(_, _, symbol)| symbol).collect();
    match nearest(function, names.iter().map(String::as_str)) {
        Some(near) => bail!(
            "{name} has no function {:?}; did you mean {}?",
            shown(function),
            shown(near)
        ),
        None => bail!(
            "{name} has no symbol for a function {:?}; nm -D {name} lists some",
            shown(function)
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locations_in_programs_are_found_or_explained() {
        let own = std::env::current_exe().unwrap();
        let own = own.display();
        assert!(in_program(&format!("{own}:main")).is_ok());
        assert!(in_program(&format!("{own}:0x10%return")).is_ok());
        let error = |text: &str| format!("{:#}", in_program(text).unwrap_err());
        assert!(error(&format!("{own}:mian")).contains("did you mean main?"));
        assert!(error("/nonexistent:main").contains("cannot find /nonexistent"));
        assert!(error("main").contains("such as /bin/bash:readline"));
        assert!(error(&format!("{own}:0xg")).contains("is not an offset"));
        assert!(in_kernel("do_exit").is_ok());
        assert!(in_kernel("do exit").is_err());
    }
}
