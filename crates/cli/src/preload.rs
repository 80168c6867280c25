//! The preload library for heap profiles.

use std::env;
use std::ffi::OsString;
use std::path::Path;

use anyhow::Result;

use crate::output;

/// The file name, by which the profiler recognises its frames.
pub(crate) const NAME: &str = "libferretto_heap.so";
/// The environment variable that makes the dynamic linker load it.
pub(crate) const VARIABLE: &str = "LD_PRELOAD";

/// Writes the library to a file.
pub(crate) fn write(path: &Path) -> Result<()> {
    output::write(path, &[], |out| Ok(out.write_all(ferretto_heap::PRELOAD)?))
}

/// Returns the environment variables for a profiled program. Libraries that the user preloads come
/// after it.
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
