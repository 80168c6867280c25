//! With the feature `upstream`: compiles the official core, as a library for the benchmarks and as
//! a program that serves on sockets.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    #[cfg(feature = "upstream")]
    upstream::build();
}

#[cfg(feature = "upstream")]
mod upstream {
    use std::path::{Path, PathBuf};

    use ferretto_official_core as core;

    /// The environment variable with the path of an existing `libofficial.a`, which avoids
    /// compiling it.
    const CORE: &str = "FERRETTO_BENCH_CORE";

    pub(super) fn build() {
        println!("cargo:rerun-if-changed=official");
        let out = PathBuf::from(core::variable("OUT_DIR"));

        // Like the official release build.
        let mut build = core::build();
        build
            .opt_level(3)
            .flags(["-fno-exceptions", "-ffunction-sections", "-fdata-sections"])
            .file("official/core.cc");
        println!("cargo:rerun-if-env-changed={CORE}");
        match std::env::var_os(CORE) {
            Some(made_before) => link_made_before(Path::new(&made_before), &out),
            None => build.compile("official"),
        }
        link_service(&build.get_compiler(), &out);
    }

    fn link_made_before(archive: &Path, out: &Path) {
        std::fs::copy(archive, out.join("libofficial.a")).expect("the archive can be copied");
        println!("cargo:rerun-if-changed={}", archive.display());
        println!("cargo:rustc-link-search=native={}", out.display());
        println!("cargo:rustc-link-lib=static=official");
        println!("cargo:rustc-link-lib=stdc++");
    }

    fn link_service(compiler: &cc::Tool, out: &Path) {
        let program = out.join("official-service");
        let status = compiler
            .to_command()
            .arg("official/service.cc")
            .arg(out.join("libofficial.a"))
            .args(["-Wl,--gc-sections", "-lpthread", "-lrt", "-o"])
            .arg(&program)
            .status()
            .expect("the compiler runs");
        assert!(status.success(), "the official service does not link");
        println!("cargo:rustc-env=OFFICIAL_SERVICE={}", program.display());
    }
}
