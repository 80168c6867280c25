//! Output files, and texts on terminals.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt as _, lchown, symlink};
use std::path::Path;
use std::process::{Command, Stdio};

use crate::common::{PROGRAM, TRACE, encode};

const NOBODY: u32 = 65_534;

/// Writes the durations of a query to a file.
fn write_times(folder: &Path, trace: &str, output: &str) -> Result<(), String> {
    let program = folder.join("trace_processor_shell");
    if !program.exists() {
        symlink(PROGRAM, &program).expect("a link");
    }
    let mut command = Command::new(program);
    command.args(["-Q", "SELECT 1", "--perf-file", output, trace]);
    let output = command.current_dir(folder).output().expect("the program");
    if output.status.success() {
        return Ok(());
    }
    Err(String::from_utf8_lossy(&output.stderr).into_owned())
}

#[test]
fn durations_are_not_written_through_links_of_other_users() {
    if !rustix::process::geteuid().is_root() {
        println!("skipped: only root can create files of other users");
        return;
    }
    for mode in [0o1777, 0o777, 0o775] {
        let world = tempfile::tempdir().expect("a folder");
        let path = |name: &str| world.path().join(name);
        fs::write(path("t"), encode(TRACE)).expect("a trace");
        fs::write(path("victim"), "untouched").expect("a file");
        fs::create_dir(path("shared")).expect("a folder");
        fs::set_permissions(path("shared"), Permissions::from_mode(mode)).expect("set");
        for target in ["victim", "none"] {
            symlink(path(target), path("shared/out")).expect("a link");
            lchown(path("shared/out"), Some(NOBODY), Some(NOBODY)).expect("given away");
            let error = write_times(world.path(), "t", "shared/out").expect_err("refused");
            assert!(error.contains("symbolic link of another user"), "{error}");
            fs::remove_file(path("shared/out")).expect("removed");
        }
        assert_eq!(fs::read(path("victim")).expect("read"), b"untouched");
        assert!(!path("none").exists());
        // A file of another user is replaced, and not written into.
        fs::write(path("shared/out"), "theirs").expect("a file");
        lchown(path("shared/out"), Some(NOBODY), Some(NOBODY)).expect("given away");
        let theirs = fs::File::open(path("shared/out")).expect("open");
        write_times(world.path(), "t", "shared/out").expect("written");
        assert_eq!(std::io::read_to_string(theirs).expect("read"), "theirs");
        assert_eq!(fs::read_dir(path("shared")).expect("read").count(), 1);
    }
}

#[test]
fn durations_do_not_replace_the_trace() {
    let world = tempfile::tempdir().expect("a folder");
    let trace = encode(TRACE);
    fs::write(world.path().join("t"), &trace).expect("a trace");
    let error = write_times(world.path(), "t", "t").expect_err("refused");
    assert!(error.contains("the same file as the input"), "{error}");
    assert_eq!(fs::read(world.path().join("t")).expect("read"), trace);
}

/// Returns what a terminal gets.
fn on_terminal(arguments: &str) -> Option<String> {
    let mut command = Command::new("script");
    command
        .args(["--quiet", "--flush", "--return", "--command"])
        .arg(format!("'{PROGRAM}' {arguments}"))
        .arg("/dev/null")
        .env("SHELL", "/bin/sh")
        .stdin(Stdio::null());
    let output = command.output().ok()?;
    Some(String::from_utf8_lossy(&output.stdout).into_owned())
}

#[test]
fn no_text_controls_a_terminal() {
    // The title of the window, colours, the cursor, and the order of characters.
    let hostile =
        "'a' || char(27) || ']0;title' || char(7) || char(155) || '2J' || char(13) || char(8238)";
    let queries = [
        format!("SELECT {hostile} AS x"),
        // A name of a column.
        "SELECT 1 AS \"a\x1b[2Jb\"".to_owned(),
        // A name in an error.
        "SELECT * FROM \"a\x1b[2Jb\"".to_owned(),
    ];
    for format in ["csv", "json", "ndjson", "table"] {
        for query in &queries {
            let world = tempfile::tempdir().expect("a folder");
            let file = world.path().join("q.sql");
            fs::write(&file, query).expect("a file");
            let arguments = format!("--format {format} -f '{}' /dev/null", file.display());
            let Some(screen) = on_terminal(&arguments) else {
                println!("skipped: there is no program 'script'");
                return;
            };
            assert!(screen.contains('a'), "{screen}");
            let shown = screen.replace("\r\n", "\n");
            let control = |c: char| (c.is_control() && c != '\n') || c == '\u{202e}';
            assert!(!shown.contains(control), "{format}: {query:?}: {shown:?}");
        }
    }
    // Other programs get the text as it is.
    let mut command = Command::new(PROGRAM);
    let query = format!("SELECT {hostile} AS x");
    command.args(["--format", "csv", "/dev/null", &query]);
    let output = command.output().expect("the program");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(text, "\"x\"\n\"a\x1b]0;title\x07\u{9b}2J\r\u{202e}\"\n");
}
