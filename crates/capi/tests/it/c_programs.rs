//! C programs compiled with the official headers and run with this library. Skipped without a C
//! compiler, or without a network to download the headers.

use std::fs;
use std::process::{Command, Stdio};

use crate::common::library::{Scratch, folder, has_compiler, published, supports};
use crate::common::programs::{check, check_example};

/// Versions of the headers, with the compiler flags for the program.
const HEADERS: [(&str, &[&str]); 2] = [("1.3.0", &[]), ("1.4.0", &["-DNEW_INTERFACE"])];

/// Kinds of executables: only the second always has its own copies of the library's variables.
const EXECUTABLES: [&[&str]; 2] = [&["-fPIE", "-pie"], &["-fno-pie", "-no-pie"]];

#[test]
fn sdk_035_programs_with_official_headers_run_unchanged() {
    ferretto_testing::own_process!();
    if !has_compiler() {
        return;
    }
    for (version, define) in HEADERS {
        if !supports(version) {
            continue;
        }
        let Some(package) = published("perfetto-sdk-sys", version) else {
            continue;
        };
        let include = format!("-I{}", package.join("libperfetto_c").display());
        for (number, kind) in EXECUTABLES.into_iter().enumerate() {
            let scratch = Scratch::new(&format!("program-{version}-{number}"));
            let arguments = [define, kind, &[&include]].concat();
            let program = scratch.compile("program.c", "perfetto_c", &arguments);
            let trace = scratch.join("trace");
            let output = scratch
                .command(program)
                .arg(&trace)
                .stdout(Stdio::null())
                .output()
                .unwrap();
            let errors = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{version} {kind:?}: {errors}");
            check(&fs::read(&trace).unwrap());
        }
    }
}

#[test]
fn the_example_runs_with_and_without_a_service() {
    ferretto_testing::own_process!();
    if !has_compiler() {
        return;
    }
    let scratch = Scratch::new("example");
    let program = scratch.compile("example.c", "ferretto_c", &[]);
    check_example(&scratch, || {
        let mut command = Command::new(&program);
        command.env("LD_LIBRARY_PATH", folder());
        command
    });
}
