//! Servers in the background.

use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::common::{PROGRAM, TRACE, encode};

const NOBODY: u32 = 65_534;

/// A folder for sockets, with a trace. Servers in it are ended on drop.
struct Runtime {
    folder: tempfile::TempDir,
    servers: Vec<&'static str>,
}

impl Runtime {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::write(folder.path().join("t.pftrace"), encode(TRACE)).expect("a trace");
        Self {
            folder,
            servers: Vec::new(),
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn command(&self, program: &Path, arguments: &[&str]) -> Command {
        let mut command = Command::new(program);
        command
            .args(arguments)
            .current_dir(self.folder.path())
            .env("XDG_RUNTIME_DIR", self.folder.path())
            .stdin(Stdio::null());
        command
    }

    /// Returns the output, or the error.
    fn run(&self, arguments: &[&str]) -> Result<String, String> {
        let output = self
            .command(Path::new(PROGRAM), arguments)
            .output()
            .expect("the program");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        if output.status.success() {
            Ok(text(&output.stdout))
        } else {
            Err(text(&output.stderr))
        }
    }

    fn start(&mut self, name: &'static str, options: &[&str]) {
        let arguments = [&["t.pftrace", "--start", name], options].concat();
        self.servers.push(name);
        self.run(&arguments).expect("a server");
    }
}

impl Drop for Runtime {
    fn drop(&mut self) {
        for name in &self.servers {
            // It may have ended already.
            let _ = self.run(&["--stop", name]);
        }
    }
}

#[test]
fn a_named_server_answers_until_it_is_stopped() {
    let mut runtime = Runtime::new();
    runtime.start("mine", &[]);
    let folder = runtime.path("ferretto-query");
    let mode = |path: &Path| path.metadata().expect("it exists").permissions().mode() & 0o777;
    assert_eq!(mode(&folder), 0o700);
    assert_eq!(mode(&folder.join("mine.sock")), 0o600);
    let query = |arguments: &[&str]| runtime.run(&[&["--remote", "mine"], arguments].concat());
    assert_eq!(
        query(&["select count(*) as n from slice"]),
        Ok("\"n\"\n4\n".to_owned())
    );
    // Statements have results of their own, and what they create stays.
    let two =
        query(&["create table made as select 1 as x; select x from made; select 2.5, null, 'a'"]);
    assert_eq!(
        two.expect("rows"),
        "\"x\"\n1\n\n\"2.5\",\"null\",\"'a'\"\n2.500000,\"[NULL]\",\"a\"\n"
    );
    let json = query(&["--format", "ndjson", "select x, x'00ff' as b from made"]);
    assert!(
        json.as_ref()
            .is_ok_and(|json| json.starts_with("{\"x\":1,")),
        "{json:?}"
    );
    let many = "with recursive n(x) as (select 1 union all select x + 1 from n limit 200000) \
                select x, 'text ' || x as t from n";
    let many = query(&[many]).expect("rows");
    assert_eq!(many.lines().count(), 200_001);
    assert_eq!(many.lines().last(), Some("200000,\"text 200000\""));
    let error = query(&["select nonsense from slice"]).expect_err("no such column");
    assert!(error.contains("nonsense"), "{error}");
    let error = query(&["  "]).expect_err("no statement");
    assert!(error.contains("No valid SQL"), "{error}");
    let error = runtime
        .run(&["t.pftrace", "--start", "mine"])
        .expect_err("it runs");
    assert!(error.contains("--stop mine"), "{error}");
    // By the path of the socket, too.
    let path = folder.join("mine.sock").display().to_string();
    assert_eq!(
        runtime.run(&["--remote", &path, "select 7"]),
        Ok("\"7\"\n7\n".to_owned())
    );

    assert_eq!(runtime.run(&["--stop", "mine"]), Ok(String::new()));
    assert!(!folder.join("mine.sock").exists());
    let error = runtime
        .run(&["--remote", "mine", "select 1"])
        .expect_err("it is gone");
    assert!(error.contains("--start mine"), "{error}");
    assert!(runtime.run(&["--stop", "mine"]).is_err());
}

#[test]
fn a_server_that_cannot_start_says_why() {
    let runtime = Runtime::new();
    let error = runtime
        .run(&["none.pftrace", "--start", "a"])
        .expect_err("no trace");
    assert!(error.contains("none.pftrace"), "{error}");
    for (arguments, reason) in [
        (&["t.pftrace", "--start", ".hidden"][..], "not a name"),
        (&["--remote", "a b", "select 1"], "not a name"),
        (&["--start", "a"], "one trace"),
        (&["t.pftrace", "--start", "a", "select 1"], "no SQL"),
        (&["t.pftrace", "--remote", "a", "select 1"], "no trace"),
        (&["--stop", "a", "--remote", "b"], "exclude"),
        (
            &["t.pftrace", "--idle-timeout", "3m", "select 1"],
            "--start",
        ),
        (
            &["t.pftrace", "--start", "a", "--idle-timeout", "soon"],
            "such as 30m",
        ),
    ] {
        let error = runtime.run(arguments).expect_err(reason);
        assert!(error.contains(reason), "{arguments:?}: {error}");
    }
}

#[test]
fn a_server_without_requests_ends() {
    let mut runtime = Runtime::new();
    runtime.start("short", &["--idle-timeout", "1s"]);
    let socket = runtime.path("ferretto-query/short.sock");
    let mut client = UnixStream::connect(&socket).expect("a server");
    // A client without requests does not keep it.
    client
        .read_to_end(&mut Vec::new())
        .expect("the end of the server");
    while socket.exists() {
        std::thread::yield_now();
    }
}

#[test]
fn servers_are_only_for_their_user() {
    if !rustix::process::geteuid().is_root() {
        println!("skipped: only root can be another user");
        return;
    }
    let mut runtime = Runtime::new();
    let all = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(runtime.folder.path(), all).expect("set");
    let program = runtime.path("program");
    std::fs::copy(PROGRAM, &program).expect("a copy");
    runtime.start("mine", &[]);
    let socket = runtime
        .path("ferretto-query/mine.sock")
        .display()
        .to_string();
    for (name, reason) in [("mine", "not a private one"), (&socket, "cannot connect")] {
        let mut command = runtime.command(&program, &["--remote", name, "select 1"]);
        let output = command
            .uid(NOBODY)
            .gid(NOBODY)
            .output()
            .expect("the program");
        assert!(!output.status.success());
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(error.contains(reason), "{error}");
    }
}
