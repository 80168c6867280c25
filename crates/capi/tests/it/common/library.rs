//! The shared library built for these tests, compilation of programs, and the official headers.

use std::env;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Returns the folder with `libferretto_c.so`.
pub fn folder() -> PathBuf {
    let test = env::current_exe().unwrap();
    test.parent().unwrap().to_owned()
}

/// Returns the path of the shared library.
pub fn path() -> PathBuf {
    let path = folder().join("libferretto_c.so");
    assert!(path.exists(), "{} was not built", path.display());
    path
}

/// A temporary folder for a test, with a link to the library named like the one that it replaces.
pub struct Scratch(pub PathBuf);

impl Scratch {
    pub fn new(name: &str) -> Self {
        let path = env::temp_dir().join(format!("ferretto-capi-{}-{name}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).unwrap();
        std::os::unix::fs::symlink(self::path(), path.join("libperfetto_c.so")).unwrap();
        Self(path)
    }

    pub fn join(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// Returns a command with the library path of this folder.
    pub fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(program);
        command.env("LD_LIBRARY_PATH", &self.0);
        command
    }

    /// Compiles a C program of `tests/c` into this folder, linked with the library by either of its
    /// names.
    pub fn compile(&self, source: &str, library: &str, arguments: &[&str]) -> PathBuf {
        let program = self.join(&source.replace(".c", ""));
        let sources = Path::new(env!("CARGO_MANIFEST_DIR"));
        let compiled = Command::new("cc")
            .args([
                "-std=gnu11",
                "-O1",
                "-Wall",
                "-Werror",
                "-Wno-unused-function",
            ])
            .args(arguments)
            .arg(sources.join(source_folder(source)).join(source))
            .arg("-o")
            .arg(&program)
            .arg("-L")
            .arg(&self.0)
            .arg("-L")
            .arg(folder())
            .arg(format!("-l{library}"))
            .arg("-pthread")
            .output()
            .unwrap();
        let errors = String::from_utf8_lossy(&compiled.stderr);
        assert!(
            compiled.status.success(),
            "{source} {arguments:?}: {errors}"
        );
        program
    }
}

fn source_folder(source: &str) -> &'static str {
    if source.starts_with("example") {
        "examples"
    } else {
        "tests/c"
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Returns true if programs with these headers are supported by the library built for tests: all on
/// x86-64, elsewhere only those after version 58.
pub fn supports(headers: &str) -> bool {
    let supports = cfg!(target_arch = "x86_64") || headers != "1.3.0";
    if !supports {
        println!("skipped: the headers of {headers} need the feature v58 here");
    }
    supports
}

/// Returns true if there is a C compiler.
pub fn has_compiler() -> bool {
    let found = Command::new("cc")
        .arg("--version")
        .output()
        .is_ok_and(|o| o.status.success());
    if !found {
        println!("skipped: no C compiler is installed");
    }
    found
}

/// Returns the folder with this version of a published crate, downloading it if needed. Prints a
/// line and returns `None` if this fails.
pub fn published(name: &str, version: &str) -> Option<PathBuf> {
    let found = in_registry(name, version).or_else(|| {
        fetch(name, version);
        in_registry(name, version)
    });
    if found.is_none() {
        println!("skipped: {name} {version} is not available");
    }
    found
}

fn in_registry(name: &str, version: &str) -> Option<PathBuf> {
    let home = env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home.or_else(|| env::home_dir().map(|home| home.join(".cargo")))?;
    let registries = fs::read_dir(home.join("registry/src")).ok()?;
    registries
        .filter_map(|registry| Some(registry.ok()?.path().join(format!("{name}-{version}"))))
        .find(|path| path.is_dir())
}

/// Downloads a crate by means of a package that depends on it.
fn fetch(name: &str, version: &str) {
    let folder = Scratch::new(&format!("fetch-{name}-{version}"));
    let manifest = format!(
        "[package]\nname = \"fetch\"\nversion = \"0.0.0\"\nedition = \"2024\"\n[lib]\npath = \"lib.rs\"\n[workspace]\n\
         [dependencies]\n{name} = {{ version = \"={version}\", default-features = false }}\n"
    );
    fs::write(folder.join("Cargo.toml"), manifest).unwrap();
    fs::write(folder.join("lib.rs"), "").unwrap();
    let _ = Command::new(env!("CARGO"))
        .args(["fetch", "--quiet"])
        .current_dir(&folder.0)
        .output();
}
