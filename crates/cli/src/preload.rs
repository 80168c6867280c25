//! The preload library for heap profiles.

use std::env;
use std::ffi::OsString;
use std::path::Path;

use anyhow::Result;

#[cfg(feature = "preload")]
use crate::output;

/// The file name, by which the profiler recognises its frames.
pub(crate) const NAME: &str = "libferretto_heap.so";
/// The environment variable that makes the dynamic linker load it.
pub(crate) const VARIABLE: &str = "LD_PRELOAD";

/// The exit code of the dynamic linker if a program cannot start, also with this library.
pub(crate) const NOT_STARTED: i32 = 127;

/// Writes the library to a file.
#[cfg(feature = "preload")]
pub(crate) fn write(path: &Path) -> Result<()> {
    output::write(path, &[], |out| Ok(out.write_all(ferretto_heap::PRELOAD)?))
}

/// Fails, since there is no library.
#[cfg(not(feature = "preload"))]
pub(crate) fn write(_: &Path) -> Result<()> {
    anyhow::bail!(
        "this ferretto was built without {NAME}; profile programs that have the allocator \
         ferretto_heap::Allocator, or build it with the feature preload"
    )
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
