//! Messages about the conversion of files of other programs.

use ferretto_foreign::{ImportError, Report};
use ferretto_text::terminal::shown;

/// Converts an error so that its cause is reported once.
pub(crate) fn explained(error: ImportError) -> anyhow::Error {
    match error {
        ImportError::Read(error) | ImportError::Write(error) => error.into(),
        error => anyhow::anyhow!("{error}"),
    }
}

/// Reports the parts of a file that its conversion leaves out. Returns true
/// if the file is undamaged.
pub(crate) fn tell_losses(name: &str, report: &Report) -> bool {
    let name = shown(name);
    for (left_out, count) in report.losses.iter() {
        eprintln!("ferretto: {name}: {count} {}", shown(left_out));
    }
    !report.is_damaged
}
