//! The library that a program carries to have its heap recorded.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

/// Its file name, by which the profiler knows its frames.
pub(crate) const NAME: &str = "libferretto_heap.so";
/// The variable by which the dynamic linker loads it.
pub(crate) const VARIABLE: &str = "LD_PRELOAD";

/// Writes it.
pub(crate) fn write(path: &Path) -> Result<()> {
    let shown = path.display();
    fs::write(path, ferretto_heap::PRELOAD).with_context(|| format!("cannot write {shown}"))
}

/// The variables that a program needs in its environment. Libraries that the user preloads come
/// behind it.
pub(crate) fn variables(library: &Path, socket: &Path) -> Vec<(&'static str, OsString)> {
    let mut libraries = library.as_os_str().to_owned();
    if let Some(others) = env::var_os(VARIABLE).filter(|others| !others.is_empty()) {
        libraries.push(":");
        libraries.push(others);
    }
    vec![
        (VARIABLE, libraries),
        (ferretto_heap::SOCKET_VARIABLE, socket.into()),
    ]
}
