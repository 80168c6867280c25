//! Builds the official service and endpoints as a program, from the same
//! amalgamated source that the package `perfetto-sdk-sys` builds its library
//! from.

use std::path::PathBuf;
use std::process::Command;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed=official");
    println!("cargo:rerun-if-env-changed=CXX");
    let core = package_folder("perfetto-sdk-sys").join("libperfetto_c/perfetto_c.cc");
    println!("cargo:rerun-if-changed={}", core.display());
    let folder = core.parent().expect("a file has a folder");
    let program = PathBuf::from(variable("OUT_DIR")).join("official-core");

    let mut build = cc::Build::new();
    build.cpp(true).std("c++17").warnings(false).debug(false);
    // Takes half the time of the other, on a quarter of a million lines.
    let clang = Command::new("clang++").arg("--version").output();
    if std::env::var_os("CXX").is_none() && clang.is_ok() {
        build.compiler("clang++");
    }
    let status = build
        .get_compiler()
        .to_command()
        .args(["-DNDEBUG", "-w", "-fno-rtti"])
        .arg(format!("-DPERFETTO_CORE=\"{}\"", core.display()))
        .arg("-I")
        .arg(folder)
        .arg("official/main.cc")
        .arg("-o")
        .arg(&program)
        .args(["-lpthread", "-lrt"])
        .status()
        .expect("a C++ compiler is installed");
    assert!(status.success(), "the official core does not compile");
    println!("cargo:rustc-env=OFFICIAL_CORE={}", program.display());
}

fn variable(name: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| panic!("cargo sets {name}"))
}

/// Where cargo keeps the source of a package of the lock file. The package
/// offers no build metadata that would tell.
fn package_folder(name: &str) -> PathBuf {
    let output = Command::new(variable("CARGO"))
        // Only what this build needs is sure to be downloaded already.
        .args(["metadata", "--format-version=1", "--filter-platform"])
        .arg(variable("TARGET"))
        .arg("--manifest-path")
        .arg(PathBuf::from(variable("CARGO_MANIFEST_DIR")).join("Cargo.toml"))
        .output()
        .expect("cargo runs");
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success(),
        "cargo metadata failed: {complaint}"
    );
    let metadata: serde_json::Value =
        serde_json::from_slice(&output.stdout).expect("cargo metadata is JSON");
    let manifest = metadata["packages"]
        .as_array()
        .and_then(|packages| packages.iter().find(|package| package["name"] == name))
        .and_then(|package| package["manifest_path"].as_str())
        .unwrap_or_else(|| panic!("{name} is in the lock file"));
    PathBuf::from(manifest).with_file_name("")
}
