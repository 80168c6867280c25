//! The time that ten queries take over a large trace, beside upstream's trace processor.
//!
//! `query [MB|FILE] [ROUNDS]`: a made-up trace of 450 MB (ten million slices) and three rounds
//! unless said otherwise. `FERRETTO_QUERY` names our program, `query/target/release/ferretto-query`
//! without it, and `FERRETTO_UPSTREAM` the folder of upstream's programs. Both import the trace
//! once and then answer over their RPC, in turns; the least of each counts. Answers have to be
//! equal.

use std::error::Error;
use std::fs::File;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use ferretto_bench::traces::Kind;
use ferretto_wire::{Fields, decode_varint, encode};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// The questions and their SQL.
const QUERIES: [(&str, &str); 10] = [
    (
        "slices by name",
        "select name, count(*), sum(dur), max(dur) from slice group by name order by name",
    ),
    (
        "slices of some names",
        "select count(*), sum(dur) from slice where name glob '*function_1?' and dur > 20000",
    ),
    (
        "the longest hundred",
        "select id, ts, dur, name from slice order by dur desc, id limit 100",
    ),
    (
        "time of each thread",
        "select p.name, t.name, count(*), sum(s.dur) from slice s
         join thread_track tt on s.track_id = tt.id join thread t using (utid)
         join process p using (upid) group by 1, 2 order by 1, 2",
    ),
    (
        "callers and callees",
        "select p.name, c.name, count(*) from slice c join slice p on c.parent_id = p.id
         group by 1, 2 order by 3 desc, 1, 2 limit 20",
    ),
    (
        "slices a millisecond",
        "select (ts - trace_start()) / 1000000 as ms, count(*), max(depth) from slice
         group by 1 order by 1",
    ),
    (
        "gaps between neighbours",
        "select max(gap), sum(gap), count(gap) from (select ts - lag(ts + dur)
         over (partition by track_id, depth order by ts) as gap from slice)",
    ),
    (
        "sum of an argument",
        "select count(*), sum(extract_arg(arg_set_id, 'debug.size')) from slice where depth = 2",
    ),
    (
        "latency of flows",
        "select o.name, count(*), max(i.ts - o.ts) from flow f join slice o on f.slice_out = o.id
         join slice i on f.slice_in = i.id group by 1 order by 1",
    ),
    (
        "a range of time",
        "select depth, count(*), sum(dur) from slice
         where ts between trace_start() + 100000000 and trace_start() + 200000000
         group by depth order by depth",
    ),
];

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize, default: u64| match arguments.get(at) {
        Some(text) => text.parse().map_err(Box::<dyn Error>::from),
        None => Ok(default),
    };
    let rounds = number(1, 3)?;
    let folder = tempfile::tempdir()?;
    let trace = match arguments
        .first()
        .map(Path::new)
        .filter(|path| path.exists())
    {
        Some(path) => path.to_owned(),
        None => {
            let path = folder.path().join("trace");
            let bytes = number(0, 450)? * 1_000_000;
            Kind::TrackEvents.write(bytes, 0, &mut File::create(&path)?)?;
            path
        }
    };
    let ours = std::env::var_os("FERRETTO_QUERY").map_or_else(
        || PathBuf::from("query/target/release/ferretto-query"),
        PathBuf::from,
    );
    // The name has it take upstream's flags.
    let link = folder.path().join("trace_processor_shell");
    std::os::unix::fs::symlink(ours.canonicalize()?, &link)?;
    let mut servers = vec![Server::start("ours", &link, &trace)?];
    if let Some(folder) = std::env::var_os("FERRETTO_UPSTREAM") {
        let program = PathBuf::from(folder).join("trace_processor_shell");
        servers.push(Server::start("upstream", &program, &trace)?);
    }
    compare(&servers, rounds)
}

fn compare(servers: &[Server], rounds: u64) -> Result<()> {
    for server in servers {
        let slices = server.ask("select count(*) from slice")?;
        let memory = server.peak_memory()?;
        println!("{}: {} slices, {memory} MiB", server.name, slices.concat());
    }
    println!("| query | who | ms | CPU ms | speed |");
    println!("|---|---|--:|--:|--:|");
    let mut speeds = Vec::new();
    for (name, sql) in QUERIES {
        let mut least = vec![[f64::INFINITY; 2]; servers.len()];
        for _ in 0..rounds {
            let mut answers = Vec::new();
            for (server, least) in servers.iter().zip(&mut least) {
                let (began, cpu) = (Instant::now(), server.cpu()?);
                answers.push(server.ask(sql)?);
                let took = [began.elapsed().as_secs_f64(), server.cpu()? - cpu];
                for (least, took) in least.iter_mut().zip(took) {
                    *least = least.min(took);
                }
            }
            if answers.iter().any(|answer| *answer != answers[0]) {
                return Err(format!("the answers to '{name}' differ: {answers:?}").into());
            }
        }
        for (server, [wall, cpu]) in servers.iter().zip(&least) {
            let theirs = least.get(1).filter(|_| server.name == "ours");
            let speed = theirs.map(|[theirs, _]| theirs / wall);
            speeds.extend(speed);
            let speed = speed.map_or_else(String::new, |speed| format!("{speed:.1}×"));
            let (wall, cpu) = (wall * 1e3, cpu * 1e3);
            println!(
                "| {name} | {} | {wall:.0} | {cpu:.0} | {speed} |",
                server.name
            );
        }
    }
    speeds.sort_by(f64::total_cmp);
    if let (Some(worst), middle @ 1..) = (speeds.first(), speeds.len() / 2) {
        let median = (speeds[middle - 1] + speeds[middle]) / 2.0;
        println!("speed at worst {worst:.1}×, in the median {median:.1}×");
    }
    for server in servers {
        println!("{}: {} MiB at most", server.name, server.peak_memory()?);
    }
    Ok(())
}

/// A program that has imported the trace and answers.
struct Server {
    name: &'static str,
    child: Child,
    address: SocketAddr,
}

impl Server {
    fn start(name: &'static str, program: &Path, trace: &Path) -> Result<Self> {
        // The port is free again once this listener is gone.
        let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?
            .local_addr()?
            .port();
        let child = Command::new(program)
            .args(["--httpd", "--http-port", &port.to_string()])
            .arg(trace)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|error| format!("{} cannot be run: {error}", program.display()))?;
        let mut server = Self {
            name,
            child,
            address: SocketAddr::from((Ipv4Addr::LOCALHOST, port)),
        };
        while TcpStream::connect(server.address).is_err() {
            if let Some(status) = server.child.try_wait()? {
                return Err(format!("{} ended with {status}", program.display()).into());
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        Ok(server)
    }

    /// Returns the cells of the answer.
    fn ask(&self, sql: &str) -> Result<Vec<String>> {
        let body = encode(|message| message.string(1, sql));
        let mut client = TcpStream::connect(self.address)?;
        let head = format!(
            "POST /query HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        client.write_all(head.as_bytes())?;
        client.write_all(&body)?;
        let mut answer = Vec::new();
        let mut piece = vec![0; 1 << 16];
        loop {
            let count = client.read(&mut piece)?;
            answer.extend_from_slice(&piece[..count]);
            // Upstream's server leaves the connection open after the last chunk.
            if answer.ends_with(b"0\r\n\r\n")
                && let Some(head) = answer.windows(4).position(|w| w == b"\r\n\r\n")
                && let Some(body) = unchunk(&answer[head + 4..])
            {
                return cells(&body);
            }
            if count == 0 {
                return Err("an answer without an end".into());
            }
        }
    }

    /// Returns the processor time so far, in seconds.
    fn cpu(&self) -> Result<f64> {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id()))?;
        let (_, rest) = stat.rsplit_once(") ").ok_or("a process without a name")?;
        let ticks = rest.split(' ').skip(11).take(2).map(str::parse::<u64>);
        let ticks: u64 = ticks.sum::<std::result::Result<_, _>>()?;
        Ok(ticks as f64 / rustix::param::clock_ticks_per_second() as f64)
    }

    /// Returns the most memory that it had at a time, in MiB.
    fn peak_memory(&self) -> Result<u64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id()))?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let number = line.and_then(|line| line.split_whitespace().next());
        Ok(number.ok_or("a process without memory")?.parse::<u64>()? / 1024)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may be gone already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Puts the chunks of a body together.
fn unchunk(mut bytes: &[u8]) -> Option<Vec<u8>> {
    let mut all = Vec::new();
    loop {
        let end = bytes.windows(2).position(|w| w == b"\r\n")?;
        let size = std::str::from_utf8(&bytes[..end]).ok()?;
        let size = usize::from_str_radix(size, 16).ok()?;
        if size == 0 {
            return Some(all);
        }
        all.extend_from_slice(bytes.get(end + 2..end + 2 + size)?);
        bytes = bytes.get(end + 4 + size..)?;
    }
}

/// Returns the cells of a `QueryResult`.
fn cells(bytes: &[u8]) -> Result<Vec<String>> {
    let mut all = Vec::new();
    for field in Fields::new(bytes).flatten() {
        match (field.number, field.as_bytes()) {
            (2, Some(error)) => return Err(String::from_utf8_lossy(error).into()),
            (3, Some(batch)) => all.extend(batch_cells(batch).ok_or("a batch lacks values")?),
            _ => {}
        }
    }
    Ok(all)
}

fn batch_cells(bytes: &[u8]) -> Option<Vec<String>> {
    let part = |number| Fields::find(number, bytes).and_then(|field| field.as_bytes());
    let mut integers = part(2).unwrap_or_default();
    let mut reals = part(3).unwrap_or_default().as_chunks::<8>().0.iter();
    let mut texts = part(5).unwrap_or_default().split(|byte| *byte == 0);
    let kinds = part(1).unwrap_or_default().iter();
    kinds
        .map(|kind| match kind {
            2 => {
                let (value, length) = decode_varint(integers)?;
                integers = integers.get(length..)?;
                Some(value.cast_signed().to_string())
            }
            3 => Some(format!("{:e}", f64::from_le_bytes(*reals.next()?))),
            4 => Some(String::from_utf8_lossy(texts.next()?).into_owned()),
            _ => Some("NULL".to_owned()),
        })
        .collect()
}
