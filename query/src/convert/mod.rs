//! Traces in formats of other programs.

mod callstacks;
mod firefox;
mod speedscope;
mod systrace;

use std::io::{self, Write};

use crate::engine::Engine;
use crate::error::SqlError;

/// A format to convert a trace to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Conversion {
    /// Kernel events as lines of text.
    Systrace,
    /// The same, compressed.
    Ctrace,
    /// Sampled callstacks in the format of Firefox' profiler.
    Firefox,
    /// Sampled callstacks and slices in the format of speedscope.
    Speedscope,
}

impl Conversion {
    /// The names of all formats.
    pub const NAMES: &str = "systrace, ctrace, firefox and speedscope";

    /// Returns the format with this name.
    ///
    /// # Errors
    ///
    /// Fails with the names of the formats, or of the command that writes this one.
    pub fn named(name: &str) -> Result<Self, String> {
        Ok(match name {
            "systrace" => Self::Systrace,
            "ctrace" => Self::Ctrace,
            "firefox" => Self::Firefox,
            "speedscope" => Self::Speedscope,
            "text" => return Err("'text' is not offered: use 'ferretto print'".into()),
            "profile" => return Err("'profile' is not offered: use 'ferretto profile'".into()),
            _ => {
                return Err(format!(
                    "the format '{name}' is not offered: use one of {}",
                    Self::NAMES
                ));
            }
        })
    }
}

fn failed(error: SqlError) -> io::Error {
    io::Error::other(error.message)
}

/// Writes the trace of a session.
///
/// # Errors
///
/// Fails if the trace has nothing that the format can show, a query fails, or the output cannot be
/// written.
pub fn convert(engine: &mut Engine, to: Conversion, out: &mut dyn Write) -> io::Result<()> {
    match to {
        Conversion::Systrace => systrace::write(engine, out),
        Conversion::Ctrace => systrace::write_compressed(engine, out),
        Conversion::Firefox => firefox::write(engine, out),
        Conversion::Speedscope => speedscope::write(engine, out),
    }
}
