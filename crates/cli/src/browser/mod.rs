//! The user's browser, and the check that a request comes from it.

pub(crate) mod peer;

use std::ffi::OsString;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result};

/// Returns an unguessable name, since every user of the machine can connect to the port.
pub(crate) fn secret() -> Result<String> {
    let mut bytes = [0; 16];
    let mut filled = 0;
    while filled < bytes.len() {
        let flags = rustix::rand::GetRandomFlags::empty();
        filled += rustix::rand::getrandom(&mut bytes[filled..], flags)
            .context("cannot get random numbers")?;
    }
    Ok(format!("{:032x}", u128::from_ne_bytes(bytes)))
}

/// Opens a browser if there is a desktop. Returns true if one was started.
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
