//! The user's browser.

use std::ffi::OsString;
use std::path::Path;
use std::process::{Command, Stdio};

/// Opens a browser if there is a desktop. Returns true if one was started. Every user of the
/// machine can read its arguments, so the address contains no secret that is of use to others.
pub(crate) fn browse(address: &str) -> bool {
    let is_set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    if !is_set("DISPLAY") && !is_set("WAYLAND_DISPLAY") {
        return false;
    }
    let path: OsString = std::env::var_os("PATH").unwrap_or_default();
    let opener = std::env::split_paths(&path)
        .map(|folder| folder.join("xdg-open"))
        .find(|program| Path::new(program).is_file());
    let Some(opener) = opener else {
        return false;
    };
    // The process ends by itself or becomes the browser.
    Command::new(opener)
        .arg(address)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .is_ok()
}
