//! Queries that run on a scheduler and executors, each in its own process.

use std::error::Error as _;
use std::fs::Permissions;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use crate::common::{TRACE, encode, lines, query};

/// A process that is killed at the end of the test.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A scheduler and executors on free ports.
struct Cluster {
    executors: Vec<Process>,
    _scheduler: Process,
    address: String,
    folder: tempfile::TempDir,
    /// The options with the secret.
    secret: Vec<String>,
}

impl Cluster {
    fn new(executors: usize) -> Self {
        Self::start(executors, "")
    }

    /// Starts a cluster. Its peers prove to know the secret if it is not empty.
    fn start(executors: usize, secret: &str) -> Self {
        let folder = tempfile::tempdir().expect("folder");
        let secret = match secret {
            "" => Vec::new(),
            secret => secret_file(folder.path(), secret, 0o600),
        };
        std::fs::create_dir(folder.path().join("in")).expect("folder");
        let mut scheduler = query()
            .args(["scheduler", "--port", "0"])
            .args(&secret)
            .stderr(Stdio::piped())
            .spawn()
            .expect("a scheduler");
        let mut line = String::new();
        let mut output = BufReader::new(scheduler.stderr.take().expect("a pipe"));
        output.read_line(&mut line).expect("a line");
        // Its later output must not fill the pipe.
        std::thread::spawn(move || std::io::copy(&mut output, &mut std::io::sink()));
        let address = line
            .trim()
            .rsplit(' ')
            .next()
            .expect("an address")
            .to_owned();
        assert!(address.starts_with("df://127.0.0.1:"), "{line}");
        let mut cluster = Self {
            executors: Vec::new(),
            _scheduler: Process(scheduler),
            address,
            folder,
            secret,
        };
        for number in 0..executors {
            cluster.add_executor(number);
        }
        cluster
    }

    fn add_executor(&mut self, number: usize) {
        let folder = self.folder.path().join(format!("work-{number}"));
        std::fs::create_dir(&folder).expect("folder");
        let executor = query()
            .args([
                "executor",
                "--threads",
                "1",
                "--scheduler",
                &self.address,
                "--work-dir",
            ])
            .arg(folder)
            .args(&self.secret)
            .stderr(Stdio::null())
            .spawn();
        self.executors.push(Process(executor.expect("an executor")));
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn traces(&self, count: usize) -> String {
        for number in 0..count {
            std::fs::write(self.path(&format!("in/{number}.pftrace")), encode(TRACE))
                .expect("trace");
        }
        self.path("in/*.pftrace").to_string_lossy().into_owned()
    }

    fn run(&self, traces: &str, sql: &str) -> Output {
        let mut command = query();
        command.args([traces, sql, "--cluster", &self.address]);
        command.args(&self.secret).output().expect("the program")
    }
}

/// Writes a secret to a file, and returns the options for it.
fn secret_file(folder: &Path, secret: &str, mode: u32) -> Vec<String> {
    let path = folder.join(format!("{secret}.{mode}"));
    std::fs::write(&path, secret).expect("a file");
    std::fs::set_permissions(&path, Permissions::from_mode(mode)).expect("set");
    let path = path.to_string_lossy().into_owned();
    vec!["--secret-file".to_owned(), path]
}

/// Runs a client with these options, and returns its error.
fn refused(cluster: &Cluster, traces: &str, options: &[String]) -> String {
    let mut command = query();
    command.args([traces, "select count(*) from slice"]);
    command.args(["--cluster", &cluster.address]).args(options);
    let output = command.output().expect("the program");
    assert!(!output.status.success());
    // There may be a header.
    assert!(!output.stdout.contains(&b'8'));
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn peers_prove_to_know_the_secret() {
    let secret = "0123456789abcdef";
    let cluster = Cluster::start(1, secret);
    let traces = cluster.traces(2);
    let count = ok(&cluster.run(&traces, "select count(*) as n from slice"));
    assert_eq!(count, ["8"]);
    let folder = cluster.folder.path();
    for other in ["0123456789abcdeF", "0123456789abcdef0", "0123456789abcde"] {
        let options = secret_file(folder, other, 0o600);
        let error = refused(&cluster, &traces, &options);
        let is_short = other.len() < 16;
        let expected = if is_short {
            "a secret is one word of 16 to 256"
        } else {
            "does not know the secret"
        };
        assert!(error.contains(expected), "{error}");
    }
    let error = refused(&cluster, &traces, &[]);
    assert!(error.contains("needs --secret-file"), "{error}");
    let error = refused(&cluster, &traces, &secret_file(folder, secret, 0o644));
    assert!(error.contains("others may read"), "{error}");
    // An executor needs it, too.
    let mut executor = query();
    executor.args(["executor", "--scheduler", &cluster.address]);
    executor.args(secret_file(folder, "fedcba9876543210", 0o600));
    executor.stderr(Stdio::null()).stdout(Stdio::null());
    let executor = Process(executor.spawn().expect("an executor"));
    let error = refused(&cluster, &traces, &[]);
    assert!(error.contains("needs --secret-file"), "{error}");
    // Results are fetched from executors, which check it as well.
    let pid = cluster.executors[0].0.id();
    for port in ports(pid) {
        assert_eq!(reply(port), None);
    }
    drop(executor);
}

/// A program of another user may listen where a scheduler was.
#[test]
fn a_secret_is_not_sent() {
    let secret = "0123456789abcdef";
    let folder = tempfile::tempdir().expect("folder");
    let trace = folder.path().join("a.pftrace");
    std::fs::write(&trace, encode(TRACE)).expect("trace");
    let planted = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = format!("df://{}", planted.local_addr().expect("an address"));
    let (hear, heard) = std::sync::mpsc::channel();
    // Clients may try again, so it listens until the end of the test's process.
    std::thread::spawn(move || {
        for stream in planted.incoming() {
            let mut stream = stream.expect("a client");
            let mut request = vec![0; 1 << 14];
            let length = stream.read(&mut request).expect("a request");
            request.truncate(length);
            // The beginning of a server of HTTP/2 without encryption.
            let _ = stream.write_all(&[0, 0, 0, 4, 0, 0, 0, 0, 0]);
            let _ = stream.read(&mut [0; 1 << 10]);
            let _ = hear.send(request);
        }
    });
    let output = query()
        .arg(&trace)
        .args(["select count(*) from slice", "--cluster", &address])
        .args(secret_file(folder.path(), secret, 0o600))
        .output()
        .expect("the program");
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        !output.status.success() && error.contains("does not know the secret"),
        "{error}"
    );
    // A handshake of TLS, without the secret.
    let mut count = 0;
    for heard in heard.try_iter() {
        assert_eq!(heard.first(), Some(&0x16), "{heard:?}");
        let is_in = |bytes: &[u8]| heard.windows(bytes.len()).any(|part| part == bytes);
        assert!(!is_in(secret.as_bytes()));
        count += 1;
    }
    assert!(count > 0);
}

/// Returns the TCP ports on which a process listens.
fn ports(pid: u32) -> Vec<u16> {
    let mut inodes = Vec::new();
    for entry in std::fs::read_dir(format!("/proc/{pid}/fd"))
        .into_iter()
        .flatten()
        .flatten()
    {
        let target = std::fs::read_link(entry.path()).unwrap_or_default();
        inodes.push(target.to_string_lossy().into_owned());
    }
    let table = std::fs::read_to_string("/proc/net/tcp").unwrap_or_default();
    let listening = table.lines().filter_map(|line| {
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        let is_its = inodes.contains(&format!("socket:[{}]", words.get(9)?));
        let port = u16::from_str_radix(words[1].split_once(':')?.1, 16).ok()?;
        (is_its && words[3] == "0A").then_some(port)
    });
    listening.collect()
}

/// Asks a server for a result that does not exist, without the secret. Returns the code of its
/// reply, if it gives one.
fn reply(port: u16) -> Option<i32> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    runtime.expect("a runtime").block_on(async {
        let address = format!("http://127.0.0.1:{port}");
        let endpoint = tonic::transport::Endpoint::from_shared(address).expect("an address");
        let channel = endpoint.connect().await.ok()?;
        let mut client = arrow_flight::flight_service_client::FlightServiceClient::new(channel);
        let ticket = arrow_flight::Ticket::new(vec![0xff]);
        let error = client.do_get(ticket).await.expect_err("refused");
        // The server's own replies to meaningless requests are of the code "internal".
        let is_own = error.source().is_none();
        is_own.then_some(error.code() as i32)
    })
}

#[test]
fn a_cluster_without_a_secret_is_this_users() {
    let open = query()
        .args(["scheduler", "--bind", "0.0.0.0", "--port", "0"])
        .output();
    let error = String::from_utf8_lossy(&open.expect("the program").stderr).into_owned();
    assert!(error.contains("0.0.0.0 needs --secret-file"), "{error}");
    if !rustix::process::geteuid().is_root() {
        println!("skipped: only root can be several users");
        return;
    }
    let cluster = Cluster::new(1);
    let traces = cluster.traces(1);
    assert_eq!(
        ok(&cluster.run(&traces, "select count(*) as n from slice")),
        ["4"]
    );
    // Another user's connections end at once, without a byte.
    let mut ports = ports(cluster.executors[0].0.id());
    ports.push(
        cluster
            .address
            .rsplit(':')
            .next()
            .expect("a port")
            .parse()
            .expect("a port"),
    );
    assert!(ports.len() >= 2, "{ports:?}");
    for port in ports {
        let script = format!(
            "exec 3<>/dev/tcp/127.0.0.1/{port}; (printf 'PRI * HTTP/2.0\\r\\n\\r\\nSM\\r\\n\\r\\n' >&3) 2>/dev/null; timeout 20 head -c 1 <&3 | wc -c"
        );
        let output = Command::new("bash")
            .args(["-c", &script])
            .uid(65_534)
            .output();
        let shown = output.expect("bash").stdout;
        assert_eq!(String::from_utf8_lossy(&shown).trim(), "0");
        let mut own = Command::new("bash");
        let shown = own.args(["-c", &script]).output().expect("bash").stdout;
        assert_eq!(String::from_utf8_lossy(&shown).trim(), "1");
    }
}

fn ok(output: &Output) -> Vec<String> {
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{error}");
    lines(output)
}

const QUERIES: [&str; 5] = [
    "select path, name, count(*) as n, sum(dur) as d from slice group by 1, 2",
    "select t.name, count(*) as n from slice s
       join thread_track tt on s.track_id = tt.id and s.trace_id = tt.trace_id
       join thread t on t.utid = tt.utid and t.trace_id = s.trace_id
     where s.name glob 'inn*' group by 1",
    "include perfetto module slices.with_context;
     select path, thread_name, count(*) as n from thread_slice group by 1, 2",
    "select extract_arg(arg_set_id, 'debug.number') + 1 as n, count(*) from slice group by 1",
    "create perfetto function half(x long) returns long as select $x / 2;
     create virtual table sp using span_join(one partitioned a, two partitioned a);
     select path, count(*), sum(half(dur)) as d from sp group by 1",
];

const SPANS: &str =
    "create perfetto view one as select ts, dur, track_id as a from slice where depth = 0;
     create perfetto view two as select ts, dur, track_id as a, name from slice where depth = 1;";

#[test]
fn a_cluster_returns_the_rows_that_one_process_returns() {
    let cluster = Cluster::new(2);
    let traces = cluster.traces(6);
    for sql in QUERIES {
        let sql = format!("{SPANS} {sql}");
        let local = query().args([&traces, &sql]).output().expect("the program");
        assert_eq!(ok(&cluster.run(&traces, &sql)), ok(&local), "{sql}");
    }
    let address = format!("file://{}", cluster.path("in/*.pftrace").display());
    let count = ok(&cluster.run(&address, "select count(*) as n from slice"));
    assert_eq!(count, ["24"]);
    // Only this user can read intermediate results, although the folder is open to all.
    for number in 0..2 {
        let folder = cluster.path(&format!("work-{number}"));
        let entries = std::fs::read_dir(folder).expect("a folder");
        let modes = entries.map(|entry| entry.expect("an entry").metadata().expect("one").mode());
        let modes: Vec<_> = modes.map(|mode| mode & 0o777).collect();
        assert_eq!(modes, [0o700]);
    }
    // A trace that cannot be read is reported by a cluster, too.
    std::fs::write(cluster.path("in/bad.pftrace"), b"nothing that is a trace").expect("file");
    let output = cluster.run(&traces, "select count(*) as n from slice");
    assert_eq!(output.status.code(), Some(3));
    assert_eq!(String::from_utf8_lossy(&output.stdout), "\"n\"\n24\n");
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(
        error.contains("1 of 7 traces") && error.contains("bad.pftrace"),
        "{error}"
    );
}

/// Serves the files below a folder as an object store does, and returns the address.
fn store(folder: &Path) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = format!("http://{}", listener.local_addr().expect("an address"));
    let folder = folder.to_owned();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let folder = folder.clone();
            std::thread::spawn(move || serve(stream, &folder));
        }
    });
    address
}

/// Serves the requests of a connection until it ends.
fn serve(mut stream: TcpStream, folder: &Path) -> Option<()> {
    let mut reader = BufReader::new(stream.try_clone().ok()?);
    loop {
        let mut request = String::new();
        if reader.read_line(&mut request).ok()? == 0 {
            return None;
        }
        let mut range = None;
        loop {
            let mut header = String::new();
            reader.read_line(&mut header).ok()?;
            if header.trim().is_empty() {
                break;
            }
            let lower = header.to_ascii_lowercase();
            if let Some(value) = lower.strip_prefix("range: bytes=") {
                range = value
                    .trim()
                    .split_once('-')
                    .map(|(a, b)| (a.to_owned(), b.to_owned()));
            }
        }
        let mut words = request.split(' ');
        let (method, path) = (words.next()?.to_owned(), words.next()?.to_owned());
        let Ok(mut file) = std::fs::File::open(folder.join(path.trim_start_matches('/'))) else {
            stream
                .write_all(b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n")
                .ok()?;
            continue;
        };
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).ok()?;
        let total = bytes.len();
        let mut status = "200 OK".to_owned();
        let mut more = String::new();
        if let Some((first, last)) = range {
            let first: usize = first.parse().ok()?;
            let last: usize = last
                .parse::<usize>()
                .map_or(total, |last| last + 1)
                .min(total);
            status = "206 Partial Content".to_owned();
            more = format!(
                "content-range: bytes {first}-{}/{total}\r\n",
                last.max(1) - 1
            );
            bytes = bytes[first..last].to_vec();
        }
        let head = format!(
            "HTTP/1.1 {status}\r\ncontent-length: {}\r\nlast-modified: Thu, 01 Jan 2026 00:00:00 GMT\r\n\
             etag: \"1\"\r\n{more}\r\n",
            bytes.len()
        );
        stream.write_all(head.as_bytes()).ok()?;
        if method == "GET" {
            stream.write_all(&bytes).ok()?;
        }
    }
}

#[test]
fn traces_are_read_from_object_stores() {
    let cluster = Cluster::new(1);
    cluster.traces(2);
    let store = store(&cluster.path("in"));
    let paths = [0, 1].map(|n| format!("{store}/{n}.pftrace"));
    for more in [vec![], vec!["--cluster", &cluster.address]] {
        let mut command = query();
        command
            .args(&paths)
            .arg("select count(*) as n from slice")
            .args(more);
        assert_eq!(ok(&command.output().expect("the program")), ["8"]);
    }
    let none = query()
        .args([&format!("{store}/none.pftrace"), "select 1"])
        .output();
    let error = none.expect("the program").stderr;
    assert!(String::from_utf8_lossy(&error).contains("none.pftrace"));
}

/// Opens a pipe for writing once a process reads from it.
fn reader_of(pipe: &Path) -> std::fs::File {
    let (sender, opened) = std::sync::mpsc::channel();
    let pipe = pipe.to_owned();
    std::thread::spawn(move || sender.send(std::fs::OpenOptions::new().write(true).open(pipe)));
    let opened = opened
        .recv_timeout(Duration::from_secs(120))
        .expect("no process reads the pipe");
    opened.expect("the pipe")
}

/// Returns true if a process has a file open.
fn has_open(process: &Process, path: &Path) -> bool {
    let folder = format!("/proc/{}/fd", process.0.id());
    let mut entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries.any(|entry| std::fs::read_link(entry.path()).is_ok_and(|target| target == path))
}

/// One executor is killed while it runs a query, and the other one takes over its part.
#[test]
fn a_query_completes_after_an_executor_is_killed() {
    let mut cluster = Cluster::new(2);
    let traces = cluster.traces(8);
    // An import from a pipe waits for bytes, so the executor is killed during the import.
    let pipe = cluster.path("in/pipe");
    let made = Command::new("mkfifo").arg(&pipe).status().expect("mkfifo");
    assert!(made.success());
    let process = query()
        .args([&traces, &pipe.to_string_lossy().into_owned()])
        .args([
            "select count(*) as n from slice",
            "--cluster",
            &cluster.address,
        ])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program");
    let mut first = reader_of(&pipe);
    first.write_all(&encode(TRACE)[..20]).expect("a beginning");
    let busy = cluster
        .executors
        .iter()
        .position(|e| has_open(e, &pipe))
        .expect("a reader");
    drop(cluster.executors.remove(busy));
    drop(first);
    let mut second = reader_of(&pipe);
    assert!(has_open(&cluster.executors[0], &pipe));
    second.write_all(&encode(TRACE)).expect("the trace");
    drop(second);
    let output = process.wait_with_output().expect("the end");
    assert_eq!(ok(&output), ["36"]);
}
