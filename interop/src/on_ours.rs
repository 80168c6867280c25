//! The program on the official Rust SDK, built against our C interface by the name of the library
//! it stands in for.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// The program and the folder it finds our library in.
#[derive(Debug)]
pub(crate) struct OnOurs {
    program: PathBuf,
    libraries: PathBuf,
}

impl OnOurs {
    /// Builds the program when it is asked for first: cargo cannot do so together with the tests,
    /// where the official SDK comes with its own library.
    pub(crate) fn get() -> &'static Self {
        static BUILT: OnceLock<OnOurs> = OnceLock::new();
        BUILT.get_or_init(Self::build)
    }

    fn build() -> Self {
        // Where cargo puts tests, and the libraries that they depend on.
        let test = std::env::current_exe().expect("the test has a path");
        let built = test.parent().expect("the test is in a folder");
        let target = built.join("on-ours");
        let libraries = target.join("lib");
        std::fs::create_dir_all(&libraries).expect("a folder for the library");
        link(
            &built.join("libferretto_c.so"),
            &libraries.join("libperfetto_c.so"),
        );
        let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("../Cargo.toml");
        let output = Command::new(env!("CARGO"))
            .args(["build", "--quiet", "--locked"])
            .args(["--package", "ferretto-interop-on-ours", "--manifest-path"])
            .arg(workspace)
            .arg("--target-dir")
            .arg(&target)
            .env("PERFETTO_SYS_LIB_DIR", &libraries)
            .output()
            .expect("cargo runs");
        let complaint = String::from_utf8_lossy(&output.stderr);
        assert!(
            output.status.success(),
            "the official SDK does not build on our library: {complaint}"
        );
        let on_ours = Self {
            program: target.join("debug/official-on-ours"),
            libraries,
        };
        on_ours.assert_linked();
        on_ours
    }

    /// Starts the program.
    pub(crate) fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        command.env("LD_LIBRARY_PATH", &self.libraries);
        command
    }

    /// The program has nothing of the C++ core in it.
    fn assert_linked(&self) {
        let mut command = self.command();
        // The dynamic linker says what it loads, instead of running the program.
        let output = command.env("LD_TRACE_LOADED_OBJECTS", "1").output();
        let loaded = output.expect("the program starts").stdout;
        let loaded = String::from_utf8_lossy(&loaded);
        let expected = self.libraries.join("libperfetto_c.so");
        assert!(
            loaded.contains(&format!("libperfetto_c.so => {}", expected.display())),
            "{loaded}"
        );
        assert!(!loaded.contains("libstdc++") && !loaded.contains("libc++"));
    }
}

/// Makes a link, or leaves one that is right already: other tests may be running by it.
fn link(to: &Path, place: &Path) {
    if std::fs::read_link(place).is_ok_and(|found| found == to) {
        return;
    }
    let _ = std::fs::remove_file(place);
    match symlink(to, place) {
        Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => {
            panic!("{} cannot be made: {error}", place.display())
        }
        _ => {}
    }
}
