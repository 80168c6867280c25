//! Lets the linker pack relocations if the C library of this machine reads such programs.

use std::process::Command;

/// The first version of glibc that reads packed relocations.
const FIRST: (u32, u32) = (2, 36);

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let variable = |name| std::env::var(name).unwrap_or_default();
    let is_native = variable("HOST") == variable("TARGET");
    let is_glibc = variable("CARGO_CFG_TARGET_ENV") == "gnu";
    if is_native && is_glibc && glibc().is_some_and(|version| version >= FIRST) {
        println!("cargo::rustc-link-arg-bins=-Wl,-z,pack-relative-relocs");
    }
}

/// Returns the version of the C library, if it is glibc.
fn glibc() -> Option<(u32, u32)> {
    let output = Command::new("getconf").arg("GNU_LIBC_VERSION").output();
    let text = String::from_utf8(output.ok()?.stdout).ok()?;
    let (major, minor) = text.trim().strip_prefix("glibc ")?.split_once('.')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}
