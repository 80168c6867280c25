//! The library as installed by `cargo xtask install-capi`, with programs that are linked by means
//! of pkg-config. The build takes long, so the test runs only if `INSTALLED_PROFILE` contains one
//! of cargo's profiles (installations use `release`).

use std::collections::BTreeSet;
use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::common::library::{Scratch, has_compiler, published};
use crate::common::programs::{check, check_example};

const NAMES: [&str; 2] = ["ferretto_c", "perfetto_c"];

/// Kinds of executables; true for static linking of the library.
const KINDS: [(&[&str], bool); 5] = [
    (&["-fPIE", "-pie"], false),
    (&["-fno-pie", "-no-pie"], false),
    (&["-fPIE", "-pie"], true),
    (&["-fno-pie", "-no-pie"], true),
    (&["-static"], true),
];

/// A folder that the library is installed in.
struct Installed(Scratch);

impl Installed {
    fn new(profile: &str) -> Self {
        let scratch = Scratch::new("installed");
        let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let output = Command::new(env!("CARGO"))
            .args(["run", "--quiet", "--locked", "--package", "xtask", "--"])
            .args(["install-capi", "--profile", profile])
            .arg(scratch.join("prefix"))
            .current_dir(workspace)
            .output()
            .unwrap();
        let complaint = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{complaint}");
        // Ensures that only the installed library is found.
        fs::remove_file(scratch.join("libperfetto_c.so")).unwrap();
        Self(scratch)
    }

    fn libraries(&self) -> PathBuf {
        self.0.join("prefix/lib")
    }

    /// Returns the words of pkg-config's output.
    fn ask(&self, question: &[&str], name: &str) -> Vec<String> {
        let output = Command::new("pkg-config")
            .args(question)
            .arg(name)
            .env("PKG_CONFIG_PATH", self.libraries().join("pkgconfig"))
            .output()
            .unwrap();
        assert!(output.status.success(), "{question:?} {name}");
        let answer = String::from_utf8(output.stdout).unwrap();
        answer.split_whitespace().map(str::to_owned).collect()
    }

    /// Compiles a program with the flags from pkg-config.
    fn compile(&self, source: &Path, include: &[String], name: &str, kind: usize) -> PathBuf {
        let (flags, is_static) = KINDS[kind];
        let question: &[&str] = if is_static {
            &["--cflags", "--libs", "--static"]
        } else {
            &["--cflags", "--libs"]
        };
        let mut answer = self.ask(question, name);
        if is_static {
            // The linker prefers the shared library.
            let library = format!("-l:lib{name}.a");
            answer.iter_mut().for_each(|word| {
                if *word == format!("-l{name}") {
                    word.clone_from(&library);
                }
            });
        }
        let stem = source.file_stem().unwrap().to_string_lossy();
        let program = self.0.join(&format!("{stem}-{name}-{kind}"));
        let output = Command::new("cc")
            .args(["-std=gnu11", "-O1", "-Wall", "-Werror", "-pthread"])
            .arg("-Wno-unused-function")
            .args(flags)
            .args(include)
            .arg(source)
            .arg("-o")
            .arg(&program)
            .args(answer)
            .output()
            .unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{}: {errors}", program.display());
        program
    }

    /// Returns a command for the program, with the path of the installed library.
    fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        command.env("LD_LIBRARY_PATH", self.libraries());
        command
    }
}

fn has_pkg_config() -> bool {
    let version = Command::new("pkg-config").arg("--version").output();
    let found = version.is_ok_and(|output| output.status.success());
    if !found {
        println!("skipped: pkg-config is not installed");
    }
    found
}

#[test]
fn sdk_034_and_035_programs_are_built_and_run_with_the_installed_library() {
    ferretto_testing::own_process!();
    let Ok(profile) = env::var("INSTALLED_PROFILE") else {
        println!("skipped: INSTALLED_PROFILE is not set");
        return;
    };
    if !has_compiler() || !has_pkg_config() {
        return;
    }
    let installed = Installed::new(&profile);
    assert_names(&installed);
    assert_exports(&installed);
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    let headers = published("perfetto-sdk-sys", "1.4.0");
    for kind in 0..KINDS.len() {
        let name = NAMES[kind % NAMES.len()];
        let example = installed.compile(&package.join("examples/example.c"), &[], name, kind);
        check_example(&installed.0, || installed.command(&example));
        let Some(headers) = &headers else {
            continue;
        };
        let include = [
            format!("-I{}", headers.join("libperfetto_c").display()),
            "-DNEW_INTERFACE".to_owned(),
        ];
        let program = installed.compile(&package.join("tests/c/program.c"), &include, name, kind);
        let trace = installed.0.join("trace");
        let mut command = installed.command(&program);
        let output = command.arg(&trace).stdout(Stdio::null()).output().unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{:?}: {errors}", KINDS[kind]);
        check(&fs::read(&trace).unwrap());
    }
}

/// Checks that both names exist, and that the library depends only on system libraries.
fn assert_names(installed: &Installed) {
    for extension in ["so", "a"] {
        let link = installed
            .libraries()
            .join(format!("libperfetto_c.{extension}"));
        let to = fs::read_link(link).unwrap();
        assert_eq!(to, Path::new(&format!("libferretto_c.{extension}")));
    }
    let library = installed.libraries().join("libferretto_c.so");
    let dynamic = tool("readelf", &["-d"], &library);
    let needed: Vec<&str> = dynamic
        .lines()
        .filter(|line| line.contains("(NEEDED)") || line.contains("(SONAME)"))
        .filter_map(|line| line.split(['[', ']']).nth(1))
        .collect();
    let system = ["libgcc_s.so.", "libc.so.", "libm.so.", "ld-linux"];
    let is_known = |name: &&str| system.iter().any(|known| name.starts_with(known));
    assert!(needed.iter().all(is_known), "{needed:?}");
}

/// Checks that exactly the symbols of the interface are exported.
fn assert_exports(installed: &Installed) {
    let library = installed.libraries().join("libferretto_c.so");
    let symbols = tool("nm", &["-D", "--defined-only"], &library);
    let names: BTreeSet<&str> = symbols
        .lines()
        .filter_map(|line| line.split_whitespace().nth(2))
        .collect();
    assert_eq!(names.len(), 78 + 7 + 4, "{names:?}");
    let is_ours = |name: &&str| name.starts_with("Perfetto") || name.starts_with("perfetto_");
    assert!(names.iter().all(is_ours), "{names:?}");
}

fn tool(name: &str, arguments: &[&str], file: &Path) -> String {
    let output = Command::new(name).args(arguments).arg(file).output();
    let output = output.unwrap_or_else(|error| panic!("{name} comes with the compiler: {error}"));
    String::from_utf8(output.stdout).unwrap()
}
