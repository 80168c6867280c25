//! Upstream's C++ core: one file of 250,000 lines, from which the package `perfetto-sdk-sys` builds
//! its library. Build scripts compile it into peer programs.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Returns a compiler configured for C++ that includes `PERFETTO_CORE`, the source of the core.
///
/// # Panics
///
/// If the package is not in the lock file.
pub fn build() -> cc::Build {
    let core = package_folder("perfetto-sdk-sys").join("libperfetto_c/perfetto_c.cc");
    println!("cargo:rerun-if-changed={}", core.display());
    println!("cargo:rerun-if-env-changed=CXX");
    let mut build = cc::Build::new();
    // Clang takes half the time of GCC, and the official release is built with it.
    let clang = Command::new("clang++").arg("--version").output();
    if std::env::var_os("CXX").is_none() && clang.is_ok() {
        build.compiler("clang++");
    }
    build
        .cpp(true)
        .std("c++17")
        .debug(false)
        .warnings(false)
        .define("NDEBUG", None)
        .define("PERFETTO_CORE", format!("\"{}\"", core.display()).as_str())
        .include(core.parent().unwrap_or(Path::new(".")))
        .flags(["-w", "-fno-rtti"]);
    build
}

/// Returns a variable that cargo sets for build scripts.
///
/// # Panics
///
/// If there is no such variable.
pub fn variable(name: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| panic!("cargo sets {name}"))
}

/// Returns the folder with the source of a package in the lock file. The package has no build
/// metadata with this path.
fn package_folder(name: &str) -> PathBuf {
    let output = Command::new(variable("CARGO"))
        // Only packages for this target are certainly downloaded.
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
