//! Compiles the preload library, for crates that embed it.
//!
//! It is a C dynamic library without the standard library, from the source of this crate. Cargo
//! cannot build this for a dependency, so the build script calls the compiler.

use std::env;
use std::path::{Path, PathBuf};
use std::process::{Command, exit};

fn main() {
    println!("cargo::rerun-if-changed=src");
    println!("cargo::rerun-if-changed=preload");
    if env::var_os("CARGO_FEATURE_PRELOAD").is_none() {
        return;
    }
    let out = PathBuf::from(variable("OUT_DIR"));
    let root = PathBuf::from(variable("CARGO_MANIFEST_DIR"));
    let rlib = out.join("libferretto_heap.rlib");
    let mut client = compiler();
    client
        .args(["--crate-name", "ferretto_heap", "--crate-type", "rlib"])
        .arg("-o")
        .arg(&rlib)
        .arg(root.join("src/lib.rs"));
    run(&mut client);
    let mut library = compiler();
    library
        .args([
            "--crate-name",
            "ferretto_heap_preload",
            "--crate-type",
            "cdylib",
        ])
        .args(["-C", "lto=fat"])
        .args(["-C", "link-arg=-Wl,-soname,libferretto_heap.so"])
        // Initialized before all other libraries, and never unloaded.
        .args(["-C", "link-arg=-Wl,-z,initfirst,-z,nodelete,-z,now"])
        // Internal references bind to the library even if the program has functions of these names.
        .args(["-C", "link-arg=-Wl,-Bsymbolic-functions"])
        .args(["-C", "strip=debuginfo"])
        .arg("--extern")
        .arg(format!("ferretto_heap={}", rlib.display()))
        .arg("-o")
        .arg(out.join("libferretto_heap.so"))
        .arg(root.join("preload/lib.rs"));
    // Before 2.34, glibc has `dlsym` in a library of its own, which the program may not use.
    if env::var("CARGO_CFG_TARGET_ENV").is_ok_and(|env| env == "gnu") {
        library.args(["-C", "link-arg=-Wl,--no-as-needed,-l:libdl.so.2"]);
    }
    if let Some(linker) = env::var_os("RUSTC_LINKER") {
        let mut option = std::ffi::OsString::from("linker=");
        option.push(linker);
        library.arg("-C").arg(option);
    }
    run(&mut library);
}

fn compiler() -> Command {
    let mut command = Command::new(variable("RUSTC"));
    command.args(["--edition", "2024", "--target", &variable("TARGET")]);
    command.args([
        "-C",
        "opt-level=3",
        "-C",
        "panic=abort",
        "-C",
        "codegen-units=1",
    ]);
    command.args([
        "-C",
        "force-frame-pointers=yes",
        "-C",
        "force-unwind-tables=yes",
    ]);
    command.args([
        "-C",
        "relocation-model=pic",
        "-C",
        "target-feature=-crt-static",
    ]);
    command.args(["--cap-lints", "allow"]);
    command
}

fn variable(name: &str) -> String {
    env::var(name).unwrap_or_else(|_| fail(&format!("Cargo does not set {name}")))
}

fn run(command: &mut Command) {
    match command.status() {
        Ok(status) if status.success() => {}
        Ok(status) => fail(&format!(
            "cannot build the preload library: rustc failed with {status}"
        )),
        Err(error) => {
            let program = Path::new(command.get_program()).display().to_string();
            fail(&format!(
                "cannot build the preload library: cannot run {program}: {error}"
            ));
        }
    }
}

fn fail(reason: &str) -> ! {
    eprintln!("{reason}");
    exit(1)
}
