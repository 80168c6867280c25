//! Outputs of commands: files, and results on standard output.

use std::fmt;
use std::io::{self, Write};
use std::path::Path;

use anyhow::{Context, Result};

pub(crate) use ferretto_output::{
    Destination, RegularFile, SpecialFile, append_to, check_replaced, check_standard_output,
    create, is_locked, is_standard, is_standard_output, lock, refuse_inputs, write, write_private,
};

/// Prints the names of written files, for people and for other commands. A result on standard
/// output has no name.
///
/// # Errors
///
/// Fails if standard output cannot be written.
pub(crate) fn print_written(paths: impl IntoIterator<Item = impl AsRef<Path>>) -> Result<()> {
    let mut out = io::stdout().lock();
    for path in paths {
        if !is_standard(path.as_ref()) {
            writeln!(out, "{}", path.as_ref().display())
                .context("cannot write to standard output")?;
        }
    }
    Ok(())
}

/// Prints a result on standard output.
///
/// # Errors
///
/// Fails if standard output cannot be written.
pub(crate) fn print(text: impl fmt::Display) -> Result<()> {
    let mut out = anstream::stdout().lock();
    write!(out, "{text}")
        .and_then(|()| out.flush())
        .context("cannot write to standard output")
}

/// Prints a line like [`print`].
///
/// # Errors
///
/// Those of [`print`].
pub(crate) fn print_line(text: impl fmt::Display) -> Result<()> {
    print(format_args!("{text}\n"))
}
