//! Isolation of panics: a defect met in one process must not end the profile of the others.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Runs code on data of an untrusted process. After a panic, state that the code has modified must
/// not be used.
///
/// # Errors
///
/// Fails if it panics: the remark about process `pid`.
pub(super) fn caught<R>(pid: u32, run: impl FnOnce() -> R) -> Result<R, String> {
    catch_unwind(AssertUnwindSafe(run)).map_err(|panic| {
        let message = message(&*panic);
        format!(
            "callstacks of process {pid} are left out, as it cannot be unwound ({message}); please report this"
        )
    })
}

fn message(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied())
        .unwrap_or("unknown")
}
