//! The program with the official Rust SDK, linked with our C interface under the name of upstream's
//! library.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// The program, and the folder with our library.
#[derive(Debug)]
pub(crate) struct OnOurs {
    program: PathBuf,
    libraries: PathBuf,
}

impl OnOurs {
    /// Builds the program on first use: cargo cannot build it with the tests, in which the official
    /// SDK includes its own library.
    pub(crate) fn get() -> &'static Self {
        static BUILT: OnceLock<OnOurs> = OnceLock::new();
        BUILT.get_or_init(Self::build)
    }

    fn build() -> Self {
        // The folder in which cargo builds tests and their libraries.
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
            "the official SDK does not build with our library: {complaint}"
        );
        let on_ours = Self {
            program: target.join("debug/official-on-ours"),
            libraries,
        };
        on_ours.assert_linked();
        on_ours
    }

    /// Returns a command for the program.
    pub(crate) fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        command.env("LD_LIBRARY_PATH", &self.libraries);
        command
    }

    /// Checks that the program does not contain the C++ core.
    fn assert_linked(&self) {
        let mut command = self.command();
        // The dynamic linker prints the loaded libraries instead of running the program.
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

/// Creates a link, or keeps a correct one, which other tests may be using.
fn link(to: &Path, link: &Path) {
    if std::fs::read_link(link).is_ok_and(|found| found == to) {
        return;
    }
    let _ = std::fs::remove_file(link);
    match symlink(to, link) {
        Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => {
            panic!("cannot create {}: {error}", link.display())
        }
        _ => {}
    }
}
