//! With the feature `upstream`: compiles the official core, as a library for the benchmarks in this
//! process and as a program that serves on sockets.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    #[cfg(feature = "upstream")]
    upstream::build();
}

#[cfg(feature = "upstream")]
mod upstream {
    use std::path::{Path, PathBuf};
    use std::process::Command;

    /// Names the `libofficial.a` of another checkout, which spares the minutes.
    const CORE: &str = "FERRETTO_BENCH_CORE";

    pub(super) fn build() {
        let core = package_folder("perfetto-sdk-sys").join("libperfetto_c/perfetto_c.cc");
        println!("cargo:rerun-if-changed={}", core.display());
        println!("cargo:rerun-if-changed=official");
        let out = PathBuf::from(variable("OUT_DIR"));

        // As the official release build does it. Its compiler is clang.
        let mut build = cc::Build::new();
        if std::env::var_os("CXX").is_none()
            && Command::new("clang++").arg("--version").output().is_ok()
        {
            build.compiler("clang++");
        }
        build
            .cpp(true)
            .std("c++17")
            .opt_level(3)
            .debug(false)
            .warnings(false)
            .define("NDEBUG", None)
            .define("PERFETTO_CORE", format!("\"{}\"", core.display()).as_str())
            .include(core.parent().expect("a file has a folder"))
            .flags(["-w", "-fno-rtti", "-fno-exceptions"])
            .flags(["-ffunction-sections", "-fdata-sections"])
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

    fn variable(name: &str) -> String {
        std::env::var(name).unwrap_or_else(|_| panic!("cargo sets {name}"))
    }

    /// Where cargo keeps the source of a package of the lock file. The interop tests depend on it.
    fn package_folder(name: &str) -> PathBuf {
        let output = Command::new(variable("CARGO"))
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
}
