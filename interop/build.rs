//! Builds the official service and endpoints as a program.

use std::path::PathBuf;

use ferretto_official_core as core;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed=official");
    let program = PathBuf::from(core::variable("OUT_DIR")).join("official-core");
    let status = core::build()
        .get_compiler()
        .to_command()
        .arg("official/main.cc")
        .arg("-o")
        .arg(&program)
        .args(["-lpthread", "-lrt"])
        .status()
        .expect("a C++ compiler");
    assert!(status.success(), "the official core does not compile");
    println!("cargo:rustc-env=OFFICIAL_CORE={}", program.display());
}
